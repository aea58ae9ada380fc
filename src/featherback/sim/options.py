"""Numerical options of a Simulator: names, defaults and allowed values are those of the core."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import numpy as np

from featherback._core import OptionRow, Options, option_table
from featherback.errors import ParameterError

CHOSEN = {row.name: row for row in option_table() if row.kind != "fixed"}
"""The options that a caller may choose, by name."""


def make_options(where: str, dtype: str, room: int, given: Mapping[str, Any]) -> Options:
    """Return checked options.

    Args:
        where: the call, for messages.
        dtype: number type, on which some defaults depend.
        room: contacts that one world can hold where max_contacts is not given.
        given: options by name; None stands for the default.
    """
    for name in given:
        if name not in CHOSEN:
            near = difflib.get_close_matches(str(name), CHOSEN, n=3)
            hint = f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(CHOSEN)}."
            raise ParameterError(f'{where}: unknown option "{name}"; {hint}')
    values: dict[str, Any] = {}
    for row in option_table():
        value = given.get(row.name)
        if value is None:
            value = row.default_float32 if dtype == "float32" else row.default
            values[row.name] = room if row.name == "max_contacts" else value
        else:
            values[row.name] = _checked(where, row, value)
    if values["gradient"] == "unrolled" and values["solver"] != "pgs":
        raise ParameterError(
            f'{where}: gradient is "unrolled" and solver is "{values["solver"]}"; only sweeps can '
            'be reversed, so pass solver="pgs" with it, or gradient="auto".'
        )
    return Options(**values)


def _checked(where: str, row: OptionRow, value: Any) -> Any:
    """Return the value of an option, or refuse it."""
    if row.kind == "choice":
        return choose(where, row.name, value, tuple(row.choices))
    if row.kind == "whole":
        return whole_number(where, row.name, value, int(row.least), int(row.most))
    return positive(where, row.name, value, zero=not row.open)


def choose(where: str, name: str, value: str, allowed: tuple[str, ...]) -> str:
    """Return one of the allowed words."""
    if value not in allowed:
        raise ParameterError(
            f"{where}: {name} is {value!r}; it must be one of {', '.join(allowed)}."
        )
    return value


def positive(where: str, name: str, value: Any, zero: bool = False) -> float:
    """Return a finite number above zero, or zero itself where that is allowed."""
    if not isinstance(value, (int, float, np.integer, np.floating)) or not np.isfinite(value):
        raise ParameterError(f"{where}: {name} is {value!r}; it must be a finite number.")
    if value < 0 or (value == 0 and not zero):
        raise ParameterError(f"{where}: {name} is {value!r}; it must be {'>=' if zero else '>'} 0.")
    return float(value)


def whole_number(where: str, name: str, value: Any, least: int, most: int) -> int:
    """Return a whole number of a range."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not least <= value <= most:
        raise ParameterError(
            f"{where}: {name} is {value!r}; it must be a whole number from {least} to {most}."
        )
    return int(value)
