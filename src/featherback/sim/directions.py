"""Checks of directions along which something is differentiated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from featherback._typing import Real
from featherback.errors import ParameterError, ShapeError
from featherback.sim.inputs import NO_GRADIENT, as_real, refuse_unknown, require_finite


def array_direction(
    where: str, name: str, value: Any, like: Real, shapes: tuple[tuple[int, ...], ...]
) -> Real | None:
    """Check a direction that may be missing; it has one of `shapes` and the type of `like`."""
    if value is None:
        return None
    array = as_real(where, name, value, like.dtype)
    if array.shape not in shapes:
        allowed = " or ".join(map(str, dict.fromkeys(shapes)))
        raise ShapeError(f"{where}: {name} has shape {array.shape}; expected {allowed}.")
    require_finite(where, name, array)
    return array


def theta_direction(
    where: str, base: Mapping[str, Real], given: Any, worlds: int | None, dtype: np.dtype[Any]
) -> Real | None:
    """Return a direction in the flat parameters, (ntheta,) or (worlds, ntheta), or None."""
    if given is None or (isinstance(given, Mapping) and not given):
        return None
    if not isinstance(given, Mapping):
        raise ParameterError(
            f"{where}: dparams is of type {type(given).__name__}; it must be a dict from "
            'parameter names to arrays, such as {"body_mass": direction}.'
        )
    parts = {k: _one(where, base, (str(k), x), worlds, dtype) for k, x in given.items()}
    own = any(a.ndim > base[k].ndim for k, a in parts.items())
    lead = (worlds,) if own and worlds is not None else ()
    columns: list[Real] = []
    for name, value in base.items():
        part = parts.get(name, np.zeros(value.shape, dtype))
        flat = part.reshape(*part.shape[: part.ndim - value.ndim], value.size)
        columns.append(np.broadcast_to(flat, (*lead, value.size)))
    return np.concatenate(columns, axis=-1)


def _one(
    where: str,
    base: Mapping[str, Real],
    given: tuple[str, Any],
    worlds: int | None,
    dtype: np.dtype[Any],
) -> Real:
    """Check the direction in one parameter."""
    name, value = given
    refuse_unknown(where, name, list(base))
    label = f'dparams["{name}"]'
    if name in NO_GRADIENT:
        raise ParameterError(
            f"{where}: {label} has no gradient: {NO_GRADIENT[name]}; leave it out."
        )
    shape = base[name].shape
    array = as_real(where, label, value, dtype)
    if array.shape == () and shape == (1,):
        array = array.reshape(1)
    batch = () if worlds is None else (worlds, *shape)
    if array.shape not in (shape, batch):
        either = f" or {batch}" if batch else ""
        raise ShapeError(f"{where}: {label} has shape {array.shape}; expected {shape}{either}.")
    require_finite(where, label, array)
    return array
