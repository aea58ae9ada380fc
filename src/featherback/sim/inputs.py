"""Checks of what callers pass in: shapes, types, names; every refusal is one sentence."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from featherback._typing import Real
from featherback.errors import ParameterError, ShapeError
from featherback.model import Model
from featherback.model.structure import Structure

# steps are counted in 32 bits
MAX_STEPS = 2**31 - 1


def as_real(where: str, name: str, value: Any, dtype: np.dtype[Any]) -> Real:
    """Return `value` as a contiguous real array; refuse what is not numbers."""
    if value is None:
        raise ShapeError(f"{where}: {name} is None; expected real numbers ({dtype.name}).")
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
    """Refuse an array with a NaN or infinity, and name its first entry that is one.

    Args:
        where: the call, for messages.
        name: of the array, as the caller knows it.
        array: in the shape in which the caller gave it.
        hint: what to do.
    """
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


def shown(value: Any) -> str:
    """Return a value in a few letters, however long it is."""
    try:
        return reprlib.repr(value)
    except ValueError:
        return "an integer of thousands of digits"


def is_whole(value: Any) -> bool:
    """Return whether a value is a whole number."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def check_steps(where: str, steps: Any, known: bool) -> int | None:
    """Return the number of steps; it may be None where the controls are `known` to say it."""
    if steps is None:
        if not known:
            raise ShapeError(f"{where}: neither u nor steps is given; pass one of them.")
        return None
    if not is_whole(steps) or not 0 <= steps <= MAX_STEPS:
        raise ShapeError(
            f"{where}: steps is {shown(steps)}; it must be a whole number from 0 to {MAX_STEPS}."
        )
    return int(steps)


def same_worlds(where: str, first: str, worlds: int, name: str, other: int) -> None:
    """Refuse arrays that speak of different numbers of worlds."""
    if worlds != other:
        raise ShapeError(
            f"{where}: {first} has {worlds} worlds and {name} has {other}; they must agree."
        )


def broadcast_worlds(
    where: str, named: dict[str, tuple[Real, bool]]
) -> tuple[dict[str, Real], bool]:
    """Give all arrays the same number of worlds; those without a world axis are repeated."""
    counts = {name: len(a) for name, (a, batched) in named.items() if batched}
    if not counts:
        return {name: a for name, (a, _) in named.items()}, False
    first, worlds = next(iter(counts.items()))
    for name, count in counts.items():
        same_worlds(where, first, worlds, name, count)
    out = {
        name: a if batched else np.ascontiguousarray(np.broadcast_to(a, (worlds, a.shape[1])))
        for name, (a, batched) in named.items()
    }
    return out, True


def refuse_unknown(where: str, name: str, known: list[str]) -> None:
    """Refuse a parameter that does not exist; suggest near names."""
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3)
        hint = f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(known)}."
        raise ParameterError(f'{where}: unknown parameter "{name}"; {hint}')


def pack_theta(
    where: str,
    model: Model,
    base: dict[str, Real],
    params: dict[str, Any],
    worlds: int | None,
) -> Real:
    """Return float64 (ntheta,) or (worlds, ntheta): the model's parameters with some replaced.

    A parameter has its own shape, shared by all worlds, or a leading world axis.
    """
    merged: dict[str, Real] = dict(base)
    per_world = False
    for name, value in params.items():
        refuse_unknown(where, str(name), list(base))
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
        check_value(where, name, merged[name], model.structure)
    refuse_indefinite(where, model, merged, params)
    if not per_world:
        return np.concatenate([a.reshape(-1) for a in merged.values()])
    assert worlds is not None
    columns = [
        a.reshape(worlds, base[name].size)
        if a.shape == (worlds, *base[name].shape) and a.shape != base[name].shape
        else np.broadcast_to(a.reshape(-1), (worlds, a.size))
        for name, a in merged.items()
    ]
    return np.concatenate(columns, axis=1)


# parameters that have no gradient in the motion; outputs have those of sites
NO_GRADIENT = {
    "body_invweight0": "it only sets the default compliance of rows",
    "dof_invweight0": "it only sets the default compliance of rows",
    "site_pos": "sites do not act on the motion",
    "site_quat": "sites do not act on the motion",
}


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


# parameters that must not be negative, with their units
NOT_NEGATIVE = {
    "body_mass": "kg",
    "body_inertia": "kg·m²",
    "jnt_stiffness": "N·m/rad or N/m",
    "dof_damping": "N·m·s/rad or N·s/m",
    "dof_armature": "kg·m² or kg",
    "dof_frictionloss": "N·m or N",
    "geom_friction": "no unit",
    "geom_restitution": "no unit",
    "contact_compliance": "m/N",
    "pair_friction": "no unit",
    "geom_size": "m",
}

INERTIAS = ("body_inertia", "body_inertia_products")
EIGENVALUES = "all must be >= 0."
SCALE = "a scale must not be zero."
# eigenvalues may lie below zero by this many times the rounding of the matrix
_ROUNDING = 64
_QUATERNION = "a quaternion must have a length > 0."
DIRECTIONS = {
    "body_quat": _QUATERNION,
    "body_iquat": _QUATERNION,
    "geom_quat": _QUATERNION,
    "site_quat": _QUATERNION,
    "jnt_axis": "an axis must have a length > 0.",
}

# range -> the table that says where it is in force
RANGES = {
    "jnt_range": "limit_jnt",
    "jnt_actfrcrange": "jnt_forcelimited",
    "actuator_ctrlrange": "act_ctrllimited",
    "actuator_forcerange": "act_forcelimited",
}


def check_value(where: str, name: str, array: Real, structure: Structure) -> None:
    """Refuse values that have no physical meaning."""
    here = f'{where}: params["{name}"]'
    if not np.all(np.isfinite(array)):
        raise ParameterError(f"{here} holds a NaN or infinity; give finite numbers.")
    if name in NOT_NEGATIVE and np.any(array < 0):
        raise ParameterError(f"{here} holds {array.min():g} {NOT_NEGATIVE[name]}; it must be >= 0.")
    if name == "dt" and np.any(array <= 0):
        raise ParameterError(f"{here} is {array.min():g} s; it must be > 0.")
    if name == "geom_restitution" and np.any(array > 1):
        raise ParameterError(f"{here} holds {array.max():g}; it must be from 0 to 1.")
    if name == "mesh_scale" and np.any(array == 0):
        raise ParameterError(f"{here} holds 0; {SCALE}")
    _check_directions(here, name, array, structure)
    if name in RANGES:
        _check_range(here, name, array, structure)
    if name == "dof_frictionloss":
        _check_frictionloss(here, array, structure)


def refuse_indefinite(
    where: str, model: Model, merged: Mapping[str, Real], given: Mapping[str, Any]
) -> None:
    """Refuse inertia matrices with an eigenvalue below zero.

    Args:
        where: the call, for messages.
        model: the model, whose bodies are named.
        merged: all parameters, each in its own shape or with a leading world axis.
        given: those that the caller gave, in the number type in which they were rounded.
    """
    changed = [given[name] for name in INERTIAS if name in given]
    moments, products = (merged[name] for name in INERTIAS)
    # moments alone are eigenvalues, and looked at one by one
    if not changed or not products.any():
        return
    parts = np.broadcast_arrays(moments, products)
    (x, y, z), (xy, xz, yz) = (np.moveaxis(part, -1, 0) for part in parts)
    a, b, c = y * z - yz * yz, x * z - xz * xz, x * y - xy * xy
    volume = x * a - xy * (xy * z - yz * xz) + xz * (xy * yz - y * xz)
    doubtful = (a < 0) | (b < 0) | (c < 0) | (volume < 0)
    if not doubtful.any():
        return
    matrix = np.stack([x, xy, xz, xy, y, yz, xz, yz, z], axis=-1)[doubtful]
    least = np.linalg.eigvalsh(matrix.reshape(-1, 3, 3))[:, 0]
    kinds = [np.asarray(value).dtype for value in changed]
    eps = max(float(np.finfo(k if k.kind == "f" else np.float64).eps) for k in kinds)
    below = least < -_ROUNDING * eps * (x + y + z)[doubtful]
    if not below.any():
        return
    first = int(np.argmax(below))
    *world, body = np.argwhere(doubtful)[first]
    raise ParameterError(
        f'{where}: params["body_inertia"][{body}] and params["body_inertia_products"][{body}] give '
        f'body "{model.body_names[body]}"{f" of world {world[0]}" if world else ""} an inertia '
        f"with the eigenvalue {least[first]:g} kg·m²; {EIGENVALUES}"
    )


def _first(bad: NDArray[np.bool_]) -> int | None:
    """Return the first index, world axis aside, at which something is wrong."""
    if not np.any(bad):
        return None
    return int(np.argmax(bad.reshape(-1, bad.shape[-1]).any(axis=0)))


def _check_directions(here: str, name: str, array: Real, structure: Structure) -> None:
    """Refuse quaternions and axes of length zero."""
    if name in DIRECTIONS:
        at = _first(np.all(array == 0, axis=-1) & pointed(name, structure))
        if at is not None:
            raise ParameterError(f"{here}[{at}] is zero; {DIRECTIONS[name]}")


def _check_range(here: str, name: str, array: Real, structure: Structure) -> None:
    """Refuse ranges in force whose lower end lies above the upper."""
    at = _first((array[..., 0] > array[..., 1]) & in_force(name, structure))
    if at is not None:
        low, high = array.reshape(-1, *array.shape[-2:])[:, at].T
        w = int(np.argmax(low > high))
        raise ParameterError(
            f"{here}[{at}] is from {low[w]:g} to {high[w]:g}; the lower end must not lie above the "
            "upper."
        )


def in_force(name: str, structure: Structure) -> NDArray[np.bool_]:
    """Return which ranges of a parameter limit something."""
    table = structure.tables[RANGES[name]]
    count = len(structure.params[name])
    return np.isin(np.arange(count), table) if name == "jnt_range" else table > 0


def pointed(name: str, structure: Structure) -> NDArray[np.bool_]:
    """Return which quaternions or axes of a parameter must have a length."""
    if name == "jnt_axis":
        # ball and free joints have no axis
        return structure.tables["jnt_type"] >= 2
    return np.ones(len(structure.params[name]), bool)


def _check_frictionloss(here: str, array: Real, structure: Structure) -> None:
    """Refuse dry friction where the model has no row for it."""
    rowless = np.ones(array.shape[-1], bool)
    rowless[structure.tables["friction_dof"]] = False
    at = _first((array > 0) & rowless)
    if at is not None:
        raise ParameterError(
            f"{here}[{at}] is > 0, but the model was loaded with none there, so it has no friction "
            "row; give it a small frictionloss in the file."
        )
