"""Packages that are needed by some functions only."""

from __future__ import annotations

import importlib
from typing import Any

from featherback.errors import FeatherbackError


def import_optional(where: str, module: str, extra: str) -> Any:
    """Import a module of an optional package.

    Args:
        where: the call that needs it, for the message.
        module: its dotted name.
        extra: the extra of featherback that installs it.

    Returns:
        The module.

    Raises:
        FeatherbackError: if it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise FeatherbackError(
            f"{where}: {package} is not installed; it is needed here: "
            f"pip install 'featherback[{extra}]'."
        ) from None
