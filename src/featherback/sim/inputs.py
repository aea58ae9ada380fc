"""Checks of what callers pass in: shapes, types, names; every refusal is one sentence."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from featherback._checks import is_integer, shown
from featherback._core import ParameterChecker, parameter_table
from featherback._typing import Real
from featherback.errors import ParameterError, ShapeError
from featherback.model import Model
from featherback.sim.laws import acting, refuse_other_parameter

# moments and products of an inertia, which are checked together
INERTIAS = tuple(p.name for p in parameter_table() if p.rule in ("moments", "products"))
_EPSILON = float(np.finfo(np.float64).eps)

# steps are counted in 32 bits
MAX_STEPS = 2**31 - 1


def as_real(where: str, name: str, value: Any, dtype: np.dtype[Any]) -> Real:
    """Return `value` as a contiguous real array; refuse what is not numbers."""
    if value is None:
        raise ShapeError(f"{where}: {name} is None; expected real numbers ({dtype.name}).")
    if type(value) is not np.ndarray:
        _check_framework(where, name, value)
    try:
        array = np.asarray(value)
    except Exception as error:
        reason = str(error).rstrip(".")
        raise ShapeError(f"{where}: {name} is not an array of numbers: {reason}.") from error
    if array.dtype.kind not in "fiu":
        raise ShapeError(
            f"{where}: {name} has dtype {array.dtype}; expected real numbers ({dtype.name})."
        )
    return np.ascontiguousarray(array, dtype)


def _check_framework(where: str, name: str, value: Any) -> None:
    """Refuse arrays of a framework that follows them, since NumPy would cut its graph."""
    if getattr(value, "requires_grad", False):
        raise ShapeError(
            f"{where}: {name} is a tensor that requires a gradient, which NumPy would lose; use "
            f"the functions of featherback.torch, which keep it, or pass {name}.detach()."
        )
    if any(base.__module__ == "jax._src.core" for base in type(value).__mro__):
        raise ShapeError(
            f"{where}: {name} is traced by JAX and has no numbers yet; use the functions of "
            "featherback.jax inside of jax.jit, jax.grad and jax.vmap."
        )


def require_finite(where: str, name: str, array: Real, hint: str = "give finite numbers") -> None:
    """Refuse an array with a NaN or infinity, and name its first entry that is one."""
    if np.isfinite(array).all():
        return
    index = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
    entry = f"[{', '.join(map(str, index))}]" if index else ""
    raise ParameterError(f"{where}: {name}{entry} is {array[index]}; {hint}.")


def named_arrays(where: str, params: Any) -> dict[str, Any]:
    """Return parameters as a dictionary; refuse what is not one."""
    if params is None:
        return {}
    if not isinstance(params, Mapping):
        raise ParameterError(
            f"{where}: params is of type {type(params).__name__}; it must be a dict from parameter "
            'names to arrays, such as {"body_mass": mass}.'
        )
    return dict(params)


def rows(where: str, name: str, array: Real, n: int, model: str) -> tuple[Real, bool]:
    """Return `array` as (worlds, n) and whether it had a world axis."""
    if array.ndim == 1 and array.shape[0] == n:
        return array[None], False
    if array.ndim == 2 and array.shape[1] == n:
        return array, True
    raise ShapeError(
        f"{where}: {name} has shape {array.shape}; expected ({n},) or (worlds, {n}) "
        f'for model "{model}".'
    )


def check_steps(where: str, steps: Any, known: bool) -> int | None:
    """Return the number of steps; it may be None where the controls are `known` to say it."""
    if steps is None:
        if not known:
            raise ShapeError(f"{where}: neither u nor steps is given; pass one of them.")
        return None
    if not is_integer(steps) or not 0 <= steps <= MAX_STEPS:
        raise ShapeError(
            f"{where}: steps is {shown(steps)}; it must be an integer from 0 to {MAX_STEPS}."
        )
    return int(steps)


def same_worlds(where: str, counts: Mapping[str, int | None]) -> int | None:
    """Return the number of worlds on which all agree, None where nothing has a world axis."""
    known = [(name, count) for name, count in counts.items() if count is not None]
    for name, count in known:
        first, worlds = known[0]
        if count != worlds:
            raise ShapeError(
                f"{where}: {first} has {worlds} worlds and {name} has {count}; they must agree."
            )
    return known[0][1] if known else None


def broadcast_worlds(
    where: str, named: dict[str, tuple[Real, bool]]
) -> tuple[dict[str, Real], bool]:
    """Give all arrays the same number of worlds; those without a world axis are repeated."""
    worlds = same_worlds(
        where, {k: len(a) if batched else None for k, (a, batched) in named.items()}
    )
    if worlds is None:
        return {name: a for name, (a, _) in named.items()}, False
    out = {
        name: a if batched else np.ascontiguousarray(np.broadcast_to(a, (worlds, a.shape[1])))
        for name, (a, batched) in named.items()
    }
    return out, True


def refuse_unknown(where: str, name: str, known: list[str]) -> None:
    """Refuse a parameter that does not exist or not under this law; suggest near names."""
    if name not in known:
        refuse_other_parameter(where, name, known)
        near = difflib.get_close_matches(name, known, n=3)
        hint = f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(known)}."
        raise ParameterError(f'{where}: unknown parameter "{name}"; {hint}')


def pack_theta(
    where: str,
    model: Model,
    base: Mapping[str, Real],
    params: Mapping[str, Any],
    worlds: int | None,
    law: str,
) -> Real:
    """Return float64 (ntheta,) or (worlds, ntheta): the model's parameters with some replaced.

    A parameter has its own shape, shared by all worlds, or a leading world axis; it acts under the
    contact law.
    """
    merged: dict[str, Real] = dict(base)
    per_world = False
    for name, value in params.items():
        refuse_unknown(where, str(name), acting(base, law))
        shape = base[name].shape
        array = as_real(where, f'params["{name}"]', value, np.dtype(np.float64))
        if array.shape == () and shape == (1,):
            array = array.reshape(1)
        if array.shape == shape:
            merged[name] = array
        elif worlds is not None and array.shape == (worlds, *shape):
            merged[name] = array
            per_world = True
        else:
            batch = f" or ({worlds}, {', '.join(map(str, shape))})" if worlds is not None else ""
            raise ShapeError(
                f'{where}: params["{name}"] has shape {array.shape}; expected {shape}{batch}.'
            )
    theta = _joined(base, merged, worlds if per_world else None)
    check_values(where, model, theta, params)
    return theta


def _joined(base: Mapping[str, Real], merged: dict[str, Real], worlds: int | None) -> Real:
    """Return parameters one after another, (ntheta,), or (worlds, ntheta)."""
    if worlds is None:
        return np.concatenate([a.reshape(-1) for a in merged.values()])
    columns = [
        a.reshape(worlds, base[name].size)
        if a.shape == (worlds, *base[name].shape) and a.shape != base[name].shape
        else np.broadcast_to(a.reshape(-1), (worlds, a.size))
        for name, a in merged.items()
    ]
    return np.concatenate(columns, axis=1)


_checkers: WeakKeyDictionary[Model, ParameterChecker] = WeakKeyDictionary()


def check_values(where: str, model: Model, theta: Real, given: Mapping[str, Any]) -> None:
    """Refuse parameters without physical meaning; those given are rounded as their type is."""
    if not given:
        return
    if model not in _checkers:
        sizes, tables = model.structure.packed()
        _checkers[model] = ParameterChecker(sizes, tables, model.body_names)
    kinds = [np.asarray(given[name]).dtype for name in INERTIAS if name in given]
    rounding = max((float(np.finfo(k).eps) for k in kinds if k.kind == "f"), default=_EPSILON)
    found = _checkers[model].check(theta, list(given), rounding)
    if found is not None:
        raise ParameterError(f"{where}: {found.message}")


# parameters that have no gradient in the motion, and why; outputs have those of sites
NO_GRADIENT = {p.name: p.no_gradient for p in parameter_table() if p.no_gradient is not None}


def refuse_without_gradient(where: str, given: dict[str, Any]) -> None:
    """Refuse a gradient that is not to be had; it is never zero instead."""
    for name in given:
        if name in NO_GRADIENT:
            raise ParameterError(
                f'{where}: params["{name}"] has no gradient: {NO_GRADIENT[name]}; '
                "leave it out of the rollout's params, or pass it to the Simulator."
            )


def unpack_theta(
    theta_bar: Real, base: Mapping[str, Real], given: dict[str, tuple[int, ...]]
) -> dict[str, Real]:
    """Cut the given parameters out of (worlds, numbers); sum over the worlds where shared."""
    out: dict[str, Real] = {}
    # summed as whole rows, so that a lone number is added up world after world like all others
    total = theta_bar.sum(axis=0)
    at = 0
    for name, value in base.items():
        if name in given:
            own = len(given[name]) > value.ndim
            part = (theta_bar if own else total)[..., at : at + value.size]
            out[name] = part.reshape(given[name])
        at += value.size
    return out


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
    where: str,
    base: Mapping[str, Real],
    given: Any,
    worlds: int | None,
    dtype: np.dtype[Any],
    law: str,
) -> Real | None:
    """Return a direction in the flat parameters, (ntheta,) or (worlds, ntheta), or None."""
    if given is None or (isinstance(given, Mapping) and not given):
        return None
    if not isinstance(given, Mapping):
        raise ParameterError(
            f"{where}: dparams is of type {type(given).__name__}; it must be a dict from "
            'parameter names to arrays, such as {"body_mass": direction}.'
        )
    for name in given:
        refuse_unknown(where, str(name), acting(base, law))
    parts = {k: _direction(where, base, (str(k), x), worlds, dtype) for k, x in given.items()}
    own = any(a.ndim > base[k].ndim for k, a in parts.items())
    lead = (worlds,) if own and worlds is not None else ()
    columns: list[Real] = []
    for name, value in base.items():
        part = parts.get(name, np.zeros(value.shape, dtype))
        flat = part.reshape(*part.shape[: part.ndim - value.ndim], value.size)
        columns.append(np.broadcast_to(flat, (*lead, value.size)))
    return np.concatenate(columns, axis=-1)


def _direction(
    where: str,
    base: Mapping[str, Real],
    given: tuple[str, Any],
    worlds: int | None,
    dtype: np.dtype[Any],
) -> Real:
    """Check the direction in one parameter."""
    name, value = given
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
