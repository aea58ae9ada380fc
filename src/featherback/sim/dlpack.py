"""Where an array of another library lies, by DLPack or by NVIDIA's `__cuda_array_interface__`."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np


class Told(NamedTuple):
    """What an array tells of itself.

    Attributes:
        address: of its first number.
        shape: of it.
        strides: in numbers; None where they lie one after the other.
        dtype: number type, "unknown" where NumPy has none.
        device: kind and number as DLPack writes them; None where the array does not tell.
        owner: must live as long as the address is used.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: str
    device: tuple[int, int] | None
    owner: Any


class _Tensor(ctypes.Structure):
    """The DLTensor of DLPack's header."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_KINDS = {0: "int", 1: "uint", 2: "float", 5: "complex"}
# DLPack's number for memory of CUDA, and how it writes the default stream
_CUDA, _DEFAULT = 2, 1


def read(array: Any, stream: int) -> Told | None:
    """Return where an array lies, once `stream` may read it; None for what tells nothing."""
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is not None:
        return _of_interface(array, interface)
    if not hasattr(array, "__dlpack__") or not hasattr(array, "__dlpack_device__"):
        return None
    kind, number = (int(n) for n in array.__dlpack_device__())
    given = {"stream": stream or _DEFAULT} if kind == _CUDA else {}
    return of_capsule(array.__dlpack__(**given), (kind, number))


def _of_interface(array: Any, told: dict[str, Any]) -> Told:
    """Read what `__cuda_array_interface__` says."""
    dtype, strides = np.dtype(told["typestr"]), told.get("strides")
    if strides is not None:
        strides = tuple(int(n) // dtype.itemsize for n in strides)
    shape = tuple(int(n) for n in told["shape"])
    return Told(int(told["data"][0]), shape, strides, dtype.name, None, array)


def of_capsule(capsule: Any, device: tuple[int, int]) -> Told:
    """Read a capsule without taking it: it frees what it holds when it goes."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    # the managed tensor begins with the tensor
    x = _Tensor.from_address(get(capsule, b"dltensor"))
    shape = tuple(x.shape[i] for i in range(x.ndim))
    strides = tuple(x.strides[i] for i in range(x.ndim)) if x.strides else None
    dtype = f"{_KINDS[x.code]}{x.bits}" if x.code in _KINDS and x.lanes == 1 else "unknown"
    return Told((x.data or 0) + x.byte_offset, shape, strides, dtype, device, capsule)


def is_dense(told: Told) -> bool:
    """Return whether the numbers lie one after the other; an axis of one may have any stride."""
    if told.strides is None:
        return True
    step = 1
    for n, stride in zip(reversed(told.shape), reversed(told.strides), strict=True):
        if n != 1 and stride != step:
            return False
        step *= n
    return True
