"""Checks of arguments that several layers share."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np

from featherback.errors import ParameterError


def is_integer(value: Any) -> bool:
    """Return whether a value is an integer, Python's or NumPy's; a bool is none."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def shown(value: Any) -> str:
    """Return a value in a few letters, however long it is."""
    try:
        return reprlib.repr(value)
    except ValueError:
        return "an integer of thousands of digits"


def check_integer(
    where: str, name: str, value: Any, *, minimum: int = 1, maximum: int | None = None
) -> int:
    """Return an integer within its bounds; raise ParameterError for anything else."""
    if is_integer(value) and minimum <= value and (maximum is None or value <= maximum):
        return int(value)
    allowed = f">= {minimum}" if maximum is None else f"from {minimum} to {maximum}"
    raise ParameterError(f"{where}: {name} is {shown(value)}; it must be an integer {allowed}.")
