"""Files of an experiment: written completely or not at all, and never code that runs on loading."""

from __future__ import annotations

import io
import os
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from featherback.errors import FeatherbackError

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


def write_bytes(path: Path, content: bytes) -> Path:
    """Write a file through a temporary one beside it, so that a reader never sees half of it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise FeatherbackError(
            f"{path}: cannot be written ({error.strerror}); name another folder with --out."
        ) from None
    return path


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
