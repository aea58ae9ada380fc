"""Packages that are needed by some functions only."""

from __future__ import annotations

import importlib
from typing import Any

from featherback.errors import FeatherbackError


def import_optional(where: str, module: str, extra: str) -> Any:
    """Import a module; where it is missing, FeatherbackError names the extra that brings it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise FeatherbackError(
            f"{where}: {package} is not installed; it is needed here: "
            f"pip install 'featherback[{extra}]'."
        ) from None
