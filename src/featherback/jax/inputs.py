"""Checks of what callers pass in, and how it becomes arrays of the primitives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike

from featherback.errors import ParameterError, ShapeError
from featherback.jax.device_jobs import STATE
from featherback.jax.engine_pool import Engines, engines_of
from featherback.jax.spread import spread
from featherback.sim import Simulator
from featherback.sim.bridge import (
    INERTIAS,
    NO_GRADIENT,
    as_real,
    bridge_of,
    check_carried,
    check_controls,
    named_arrays,
    refuse_unknown,
    require_finite,
    require_usable,
    same_worlds,
)

Params = dict[str, ArrayLike]
# what is zero where it is None
FILLED = ("act", "u", "warm")


@dataclass(frozen=True)
class Call:
    """What a caller asked for.

    Attributes:
        where: what the sentence of an error starts with.
        sim: the simulator.
        engines: its engines.
    """

    where: str
    sim: Simulator
    engines: Engines


def open_call(where: str, sim: Any) -> Call:
    """Return a call; refuse what is no simulator, and what JAX is not set up for."""
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
    return Call(where, sim, engines_of(sim))


def real(call: Call, name: str, value: Any) -> jax.Array:
    """Return `value` in the simulator's number type; JAX arrays are not converted silently."""
    where, dtype = call.where, call.engines.dtype
    if not isinstance(value, jax.Array):
        return jnp.asarray(as_real(where, name, value, dtype))
    if call.engines.gpu is not None:
        call.engines.gpu.require_here(where, name, value)
    if value.dtype == dtype:
        return value
    if jnp.issubdtype(value.dtype, jnp.integer):
        return value.astype(dtype)
    if not jnp.issubdtype(value.dtype, jnp.floating):
        raise ShapeError(
            f"{where}: {name} has dtype {value.dtype}; expected real numbers ({dtype.name})."
        )
    other = value.dtype.name in ("float32", "float64")
    hint = f', or make the Simulator with dtype="{value.dtype}"' if other else ""
    raise ShapeError(
        f"{where}: {name} has dtype {value.dtype} and the Simulator is {dtype.name}; "
        f'convert it with astype("{dtype.name}"){hint}.'
    )


def rows(call: Call, given: dict[str, Any]) -> dict[str, jax.Array]:
    """Return named inputs, each (n,) or (worlds, n)."""
    arrays: dict[str, jax.Array] = {}
    for name, value in given.items():
        n = call.engines.layout.lengths[name]
        missing = value is None and name in FILLED
        x = real(call, name, np.zeros(n) if missing else value)
        if name == "warm" and not missing:
            check_carried(call.where, call.engines.layout, x.shape[-1:])
            if not isinstance(x, Tracer):
                require_finite(call.where, name, np.asarray(x))
        if x.shape[-1:] != (n,) or x.ndim > 2:
            raise ShapeError(
                f"{call.where}: {name} has shape {x.shape}; expected ({n},) or (worlds, {n}) "
                f'for model "{call.sim.model.name}".'
            )
        arrays[name] = x
    return arrays


def require_known(call: Call, arrays: dict[str, jax.Array]) -> None:
    """Refuse states and controls that are not finite; what JAX traces has no values yet."""
    for name, x in arrays.items():
        if not isinstance(x, Tracer):
            require_usable(call.where, call.engines.layout, name, np.asarray(x))


def join_state(arrays: dict[str, jax.Array]) -> jax.Array:
    """Return states x = (q, v, act, warm) of arrays by name."""
    return jnp.concatenate([arrays[name] for name in STATE], axis=-1)


def split_state(call: Call, x: jax.Array) -> list[jax.Array]:
    """Return q, v, act and warm of states; cotangents of them are put together without a sum."""
    lengths = [call.engines.layout.lengths[name] for name in STATE]
    *parts, warm = jax.lax.split(x, lengths, axis=x.ndim - 1)
    return [*parts, jax.lax.stop_gradient(warm)]


def count_worlds(where: str, arrays: dict[str, jax.Array], ranks: dict[str, int]) -> int | None:
    """Return the number of worlds, or None where no array has a world axis; ranks without it."""
    counts = {k: len(x) if x.ndim > ranks.get(k, 1) else None for k, x in arrays.items()}
    return same_worlds(where, counts)


def give_worlds(x: jax.Array, worlds: int | None, rank: int) -> jax.Array:
    """Give an array of one world its world axis."""
    return x if x.ndim > rank else jnp.broadcast_to(x, (1 if worlds is None else worlds, *x.shape))


def controls(call: Call, u: Any, steps: int | None) -> jax.Array:
    """Check the controls of a rollout."""
    layout, dtype = call.engines.layout, call.engines.dtype
    array = None if u is None else real(call, "u", u)
    shape = None if array is None else array.shape
    held = check_controls(call.where, layout, shape, steps, dtype.itemsize)
    if held is not None:
        zero = jnp.zeros(layout.nu, dtype)
        array = jnp.broadcast_to(zero if array is None else array, (held, layout.nu))
    assert array is not None
    return array


def flat_params(
    call: Call, params: Any, worlds: int | None, without_gradient: dict[str, str] = NO_GRADIENT
) -> jax.Array:
    """Return the flat parameters with some replaced, (ntheta,) or (worlds, ntheta), or none."""
    base, dtype = bridge_of(call.sim).params, call.engines.dtype
    values = named_arrays(call.where, params)
    given = {name: _parameter(call, name, value, worlds) for name, value in values.items()}
    if not given:
        return jnp.zeros((0,), dtype)
    _check_known(call, values, worlds)
    for name in given:
        if name in without_gradient:
            given[name] = _undifferentiated(call.where, name, without_gradient[name], given[name])
    own = {name for name, x in given.items() if x.ndim > base[name].ndim}
    shared = [
        (given[name] if name in given and name not in own else value.astype(dtype)).ravel()
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


def _parameter(call: Call, name: Any, value: Any, worlds: int | None) -> jax.Array:
    """Check the shape of one parameter."""
    base = call.sim.params
    refuse_unknown(call.where, str(name), list(base))
    array = real(call, f'params["{name}"]', value)
    shape = base[name].shape
    if array.shape == () and shape == (1,):
        array = array.reshape(1)
    if array.shape != shape and (worlds is None or array.shape != (worlds, *shape)):
        batch = f" or ({worlds}, {', '.join(map(str, shape))})" if worlds is not None else ""
        raise ShapeError(
            f'{call.where}: params["{name}"] has shape {array.shape}; expected {shape}{batch}.'
        )
    return array


def _check_known(call: Call, values: dict[str, Any], worlds: int | None) -> None:
    """Refuse values that have no meaning; what JAX traces is checked when the function runs."""
    known = {name: np.asarray(x) for name, x in values.items() if not isinstance(x, Tracer)}
    # moments and products of an inertia are looked at together
    if any(isinstance(values.get(name), Tracer) for name in INERTIAS):
        known = {name: x for name, x in known.items() if name not in INERTIAS}
    bridge_of(call.sim).read_params(call.where, known, worlds)


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
