"""Files of an experiment: written completely or not at all, and never code that runs on loading."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from featherback._files import write_bytes
from featherback.errors import FeatherbackError

__all__ = ["load_arrays", "save_arrays", "write_bytes"]

# what NumPy and zipfile raise for bytes that are no archive, or a damaged one
DAMAGED = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    TypeError,
    AttributeError,
    MemoryError,
    RuntimeError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


def save_arrays(path: Path, arrays: Mapping[str, ArrayLike]) -> Path:
    """Write named arrays of numbers or text as a NumPy archive."""
    checked: dict[str, NDArray[Any]] = {}
    for name, value in arrays.items():
        array = np.asarray(value)
        if array.dtype.hasobject:
            raise FeatherbackError(
                f'{path}: "{name}" holds objects; an archive holds numbers and text only.'
            )
        checked[name] = array
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **checked)  # pyright: ignore[reportArgumentType]
    return write_bytes(path, buffer.getvalue())


def load_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read the arrays that `save_arrays` wrote."""
    try:
        # from memory: NumPy leaves a file open where it is no archive
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise FeatherbackError(f"{path}: there is no such file; check the name.") from None
    except DAMAGED:
        raise FeatherbackError(
            f"{path}: not a complete archive of arrays; it was truncated or is another kind of "
            "file: delete it and start again."
        ) from None
