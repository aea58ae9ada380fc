"""Checks of arguments that several layers share."""

from __future__ import annotations

from typing import Any

import numpy as np

from featherback.errors import ParameterError


def is_integer(value: Any) -> bool:
    """Return whether a value is an integer, Python's or NumPy's; a bool is none."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def check_integer(
    where: str, name: str, value: Any, *, minimum: int = 1, maximum: int | None = None
) -> None:
    """Raise ParameterError unless `value` is an integer within its bounds.

    Args:
        where: the call, for the message.
        name: of the argument.
        value: what was given.
        minimum: smallest value that is allowed.
        maximum: largest value that is allowed; None for no limit.
    """
    if is_integer(value) and minimum <= value and (maximum is None or value <= maximum):
        return
    allowed = f">= {minimum}" if maximum is None else f"from {minimum} to {maximum}"
    raise ParameterError(f"{where}: {name} is {value!r}; it must be an integer {allowed}.")
