"""Files that are written completely or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from featherback.errors import FeatherbackError


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
