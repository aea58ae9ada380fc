"""Checks of what callers pass in, and how it becomes arrays of the primitives."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike

from featherback.errors import ParameterError, ShapeError
from featherback.jax.crew import Engines, engines_of
from featherback.jax.spread import spread
from featherback.sim import Simulator
from featherback.sim.bridge import refuse_too_large
from featherback.sim.inputs import (
    INERTIAS,
    NO_GRADIENT,
    as_real,
    check_steps,
    named_arrays,
    pack_theta,
    refuse_unknown,
    same_worlds,
)

Params = dict[str, ArrayLike]


def engines_for(where: str, sim: Any) -> Engines:
    """Return the engines of a simulator; refuse what JAX is not set up for."""
    if not isinstance(sim, Simulator):
        raise ParameterError(
            f"{where}: sim is of type {type(sim).__name__}; pass a featherback.Simulator."
        )
    if jax.dtypes.canonicalize_dtype(sim.dtype) != sim.dtype:
        raise ParameterError(
            f"{where}: the Simulator is {sim.dtype.name} and JAX has 64-bit numbers switched off; "
            'call jax.config.update("jax_enable_x64", True) first, or make the Simulator with '
            'dtype="float32".'
        )
    return engines_of(sim)


def real(where: str, name: str, value: Any, engines: Engines) -> jax.Array:
    """Return `value` in the simulator's number type; JAX arrays are not converted silently."""
    if not isinstance(value, jax.Array):
        return jnp.asarray(as_real(where, name, value, engines.dtype))
    if value.dtype == engines.dtype:
        return value
    if jnp.issubdtype(value.dtype, jnp.integer):
        return value.astype(engines.dtype)
    if not jnp.issubdtype(value.dtype, jnp.floating):
        raise ShapeError(
            f"{where}: {name} has dtype {value.dtype}; expected real numbers "
            f"({engines.dtype.name})."
        )
    other = value.dtype.name in ("float32", "float64")
    hint = f', or make the Simulator with dtype="{value.dtype}"' if other else ""
    raise ShapeError(
        f"{where}: {name} has dtype {value.dtype} and the Simulator is {engines.dtype.name}; "
        f'convert it with astype("{engines.dtype.name}"){hint}.'
    )


def rows(
    where: str, sim: Simulator, engines: Engines, given: dict[str, Any]
) -> dict[str, jax.Array]:
    """Return named inputs, each (n,) or (worlds, n)."""
    lengths = {"q": engines.nq, "u": engines.nu}
    arrays = {name: real(where, name, x, engines) for name, x in given.items()}
    for name, x in arrays.items():
        n = lengths.get(name, engines.nv)
        if x.shape[-1:] != (n,) or x.ndim > 2:
            raise ShapeError(
                f"{where}: {name} has shape {x.shape}; expected ({n},) or (worlds, {n}) "
                f'for model "{sim.model.name}".'
            )
    return arrays


def count_worlds(where: str, arrays: dict[str, jax.Array], ranks: dict[str, int]) -> int | None:
    """Return the number of worlds, or None where no array has a world axis; ranks without it."""
    counts = {k: len(x) for k, x in arrays.items() if x.ndim > ranks.get(k, 1)}
    if not counts:
        return None
    first, worlds = next(iter(counts.items()))
    for name, count in counts.items():
        same_worlds(where, first, worlds, name, count)
    return worlds


def give_worlds(x: jax.Array, worlds: int | None, rank: int) -> jax.Array:
    """Give an array of one world its world axis."""
    return x if x.ndim > rank else jnp.broadcast_to(x, (1 if worlds is None else worlds, *x.shape))


def controls(where: str, sim: Simulator, engines: Engines, u: Any, steps: int | None) -> jax.Array:
    """Check the controls of a rollout."""
    nu = engines.nu
    steps = check_steps(where, steps, u is not None)
    if steps is not None:
        refuse_too_large(where, "controls", steps * nu * engines.dtype.itemsize, advice="")
    if u is None:
        assert steps is not None
        return jnp.zeros((steps, nu), engines.dtype)
    array = real(where, "u", u, engines)
    if array.shape == (nu,) and steps is not None:
        array = jnp.broadcast_to(array, (steps, nu))
    if array.ndim not in (2, 3) or array.shape[-1] != nu:
        raise ShapeError(
            f"{where}: u has shape {array.shape}; expected (steps, {nu}), (worlds, steps, {nu}) "
            f'or, with steps=, ({nu},) for model "{sim.model.name}".'
        )
    if steps is not None and array.shape[-2] != steps:
        raise ShapeError(f"{where}: u has {array.shape[-2]} steps and steps is {steps}.")
    return array


def flat_params(
    where: str,
    sim: Simulator,
    engines: Engines,
    params: Any,
    worlds: int | None,
    without_gradient: dict[str, str] = NO_GRADIENT,
) -> jax.Array:
    """Return the flat parameters with some replaced, (ntheta,) or (worlds, ntheta), or none.

    Args:
        where: what the sentence of an error starts with.
        sim: the simulator.
        engines: its engines.
        params: parameters by name.
        worlds: number of worlds; None where there is no world axis.
        without_gradient: parameters whose gradient is refused, with the reason.
    """
    base = sim.params
    values = named_arrays(where, params)
    given = {
        name: _parameter(where, sim, engines, (name, value), worlds)
        for name, value in values.items()
    }
    if not given:
        return jnp.zeros((0,), engines.dtype)
    _check_known(where, sim, values, worlds)
    for name in given:
        if name in without_gradient:
            given[name] = _undifferentiated(where, name, without_gradient[name], given[name])
    own = {name for name, x in given.items() if x.ndim > base[name].ndim}
    shared = [
        (given[name] if name in given and name not in own else value.astype(engines.dtype)).ravel()
        for name, value in base.items()
    ]
    row = jnp.concatenate(shared)
    if not own:
        return row
    assert worlds is not None
    columns = jnp.split(spread(row, worlds), np.cumsum([x.size for x in shared])[:-1], axis=1)
    parts = zip(base, columns, strict=True)
    return jnp.concatenate(
        [given[name].reshape(x.shape) if name in own else x for name, x in parts], axis=1
    )


def _parameter(
    where: str, sim: Simulator, engines: Engines, named: tuple[Any, Any], worlds: int | None
) -> jax.Array:
    """Check the shape of one parameter."""
    name, value = named
    base = sim.params
    refuse_unknown(where, str(name), list(base))
    array = real(where, f'params["{name}"]', value, engines)
    shape = base[name].shape
    if array.shape == () and shape == (1,):
        array = array.reshape(1)
    if array.shape != shape and (worlds is None or array.shape != (worlds, *shape)):
        batch = f" or ({worlds}, {', '.join(map(str, shape))})" if worlds is not None else ""
        raise ShapeError(
            f'{where}: params["{name}"] has shape {array.shape}; expected {shape}{batch}.'
        )
    return array


def _check_known(where: str, sim: Simulator, values: dict[str, Any], worlds: int | None) -> None:
    """Refuse values that have no meaning; what JAX traces is checked when the function runs."""
    known = {name: np.asarray(x) for name, x in values.items() if not isinstance(x, Tracer)}
    if any(isinstance(values.get(name), Tracer) for name in INERTIAS):
        known = {name: x for name, x in known.items() if name not in INERTIAS}
    pack_theta(where, sim.model, sim.params, known, worlds)


@partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2))
def _undifferentiated(where: str, name: str, reason: str, x: jax.Array) -> jax.Array:
    """Return a parameter whose gradient is not to be had."""
    return x


@_undifferentiated.defjvp
def _refuse_gradient(where: str, name: str, reason: str, primals: Any, tangents: Any) -> Any:
    raise ParameterError(
        f'{where}: params["{name}"] has no gradient: {reason}; differentiate with respect to other '
        "parameters only."
    )
