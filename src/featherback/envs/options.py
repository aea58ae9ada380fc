"""Checks of what a caller gives a task: its options, and states of a reset."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from featherback._checks import check_integer, is_integer
from featherback._typing import Real
from featherback.envs.task import Task
from featherback.errors import ParameterError, ShapeError

# options of a reset
RESET = ("reset_mask", "q", "v")
# of all tasks, at least one
COUNTS = ("frame_skip", "max_episode_steps")


def check_task(where: str, task: Task) -> None:
    """Refuse options of a task that are none of their kind."""
    try:
        kinds = get_type_hints(type(task))
    except NameError:
        # a task of one's own, whose annotations name what only its own module knows
        kinds = {}
    for name in task.option_names():
        value = getattr(task, name)
        if name in COUNTS:
            check_integer(where, name, value, minimum=1)
            continue
        allowed = _allowed(kinds.get(name), value, name.endswith("_range"))
        if allowed:
            raise ParameterError(f"{where}: {name} is {value!r}; it must be {allowed}.")


def _allowed(kind: Any, value: Any, ordered: bool) -> str:
    """Return what a value of this kind must be; empty where it is. `ordered`: it is a range."""
    if get_origin(kind) is Literal:
        words = get_args(kind)
        return "" if value in words else f"one of {', '.join(map(repr, words))}"
    if kind is int:
        return "" if is_integer(value) else "an integer"
    if kind is float:
        return "" if _is_number(value) and math.isfinite(value) else "a finite number"
    if ordered and kind == tuple[float, float]:
        pair = value if isinstance(value, tuple | list) and len(value) == 2 else ()
        numbers = all(_is_number(x) for x in pair)
        return "" if pair and numbers and pair[0] < pair[1] else "two numbers, the lower one first"
    return ""


def _is_number(value: Any) -> bool:
    """Return whether a value is a real number."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def check_reset(where: str, options: Mapping[str, Any]) -> None:
    """Refuse options that a reset does not have."""
    for name in options:
        if name not in RESET:
            near = difflib.get_close_matches(str(name).lower(), RESET, 1)
            hint = f'did you mean "{near[0]}"?' if near else f"it has: {', '.join(RESET)}."
            raise ParameterError(f"{where}: there is no option {name!r}; {hint}")


def read_states(where: str, name: str, value: Any, like: Real) -> Real:
    """Return states of choice as a row for each world; refuse what cannot be one."""
    found = np.asarray(value, like.dtype)
    if found.shape[-1:] != like.shape[-1:] or found.ndim > like.ndim:
        raise ShapeError(
            f"{where}: {name} has shape {found.shape}; expected {like.shape}, or one row for all "
            "worlds."
        )
    if not np.isfinite(found).all():
        raise ParameterError(f"{where}: {name} has a NaN or infinity; give finite numbers.")
    return np.broadcast_to(found, like.shape)
