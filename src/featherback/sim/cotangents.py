"""Cotangents of the states of a rollout: what callers give, as flat rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from featherback._typing import Real
from featherback.errors import ParameterError, ShapeError
from featherback.sim.inputs import as_real, require_finite
from featherback.sim.replay import Cotangents
from featherback.sim.state import Trajectory

NAMES = ("q", "v", "act")
ZERO = "give finite numbers, and zero where the loss does not depend on the state"


def read_cotangents(
    where: str, path: Trajectory, given: tuple[Any, ...], end: str = "_bar"
) -> Real | None:
    """Check cotangents of all kept states, or of the last one; return real[worlds, rows, nx]."""
    views = (path.q, path.v, path.act)
    bars: list[Real | None] = []
    for name, value, like in zip(NAMES, given, views, strict=True):
        bars.append(None if value is None else _read(where, name, end, value, like))
    given_rows = [bar.shape[1] for bar in bars if bar is not None]
    if not given_rows:
        return None
    rows = max(given_rows)
    x_cot = np.zeros((path.worlds, rows, path.layout.nx), path.x.dtype)
    parts = (path.layout.q(x_cot), path.layout.v(x_cot), path.layout.act(x_cot))
    for part, bar in zip(parts, bars, strict=True):
        if bar is not None:
            # one row alone is that of the last state
            part[:, rows - bar.shape[1] :] = bar
    return x_cot


def require_cotangent(where: str, given: Iterable[Any], names: str) -> None:
    """Refuse a gradient of nothing."""
    if all(bar is None for bar in given):
        raise ParameterError(
            f"{where}: no cotangent is given, and the gradient of nothing is zero; pass {names}."
        )


def _read(where: str, stem: str, end: str, value: Any, like: Real) -> Real:
    """Check a cotangent of the states in `like`; return real[worlds, rows, n]."""
    name = stem + end
    bar = as_real(where, name, value, like.dtype)
    last = (*like.shape[:-2], like.shape[-1])
    if bar.shape not in (like.shape, last):
        raise ShapeError(
            f"{where}: {name} has shape {bar.shape}; expected {like.shape}, that of the rollout's "
            f"{stem}, or {last} for its last state."
        )
    require_finite(where, name, bar, ZERO)
    rows = like.shape[-2] if bar.shape == like.shape else 1
    worlds = len(like) if like.ndim == 3 else 1
    return bar.reshape(worlds, rows, like.shape[-1])


def place_rows(x_cot: Real | None, kept: NDArray[np.int64], first: int, like: Real) -> Real | None:
    """Put cotangents of the kept states, or of the last, at their places among states `like`."""
    if x_cot is None:
        return None
    rows = like.shape[1]
    steps = kept if x_cot.shape[1] > 1 else kept[-1:]
    begin, end = np.searchsorted(steps, (first, first + rows))
    at = steps[begin:end] - first
    # no array as long as the piece where its last state alone has a cotangent
    if at.size == 0 or (at.size == 1 and at[0] == rows - 1):
        return np.ascontiguousarray(x_cot[:, begin:end]) if at.size else None
    full = np.zeros_like(like)
    full[:, at] = x_cot[:, begin:end]
    return full


def ask_function(where: str, path: Trajectory, function: Callable[..., Any]) -> Cotangents:
    """Return the caller's function, its answers checked and put together."""
    layout = path.layout
    names = [f"{name}_bar" for name in NAMES[: 3 if layout.na else 2]]
    call = f"(first, {', '.join(NAMES[: len(names)])}) -> ({', '.join(names)})"
    if not callable(function):
        raise ParameterError(
            f"{where}: cotangents is of type {type(function).__name__}; pass a function {call}."
        )

    def ask(first: int, x: Real) -> Real | None:
        states = x.view()
        states.setflags(write=False)
        parts = layout.parts(states[path.one])
        found: Any = function(first, *parts)
        if not isinstance(found, tuple) or len(found) != len(names):
            raise ParameterError(
                f"{where}: cotangents() returned {type(found).__name__}; it must return a tuple "
                f"({', '.join(names)}), each an array or None."
            )
        if all(bar is None for bar in found):
            return None
        x_cot = np.zeros_like(x)
        views = layout.parts(x_cot)
        for name, bar, part, view in zip(names, found, parts, views, strict=True):
            if bar is not None:
                view[...] = _read_piece(where, name, bar, part).reshape(view.shape)
        return x_cot

    return ask


def _read_piece(where: str, name: str, value: Any, like: Real) -> Real:
    """Check the cotangent of one piece of a rollout, in the shape of its states."""
    bar = as_real(where, name, value, like.dtype)
    if bar.shape != like.shape:
        raise ShapeError(
            f"{where}: cotangents() returned a {name} of shape {bar.shape}; expected {like.shape}, "
            f"that of the {name.removesuffix('_bar')} it was given."
        )
    require_finite(where, name, bar, ZERO)
    return bar
