"""What users call: step and rollout on JAX arrays."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from jax.typing import ArrayLike

from featherback.jax.inputs import (
    Params,
    controls,
    count_worlds,
    engines_for,
    flat_params,
    give_worlds,
    rows,
)
from featherback.jax.primitives import rollout_map
from featherback.sim import Simulator
from featherback.sim.bridge import refuse_too_large


class Trajectory(NamedTuple):
    """A trajectory. The leading world axis is there only if the input had one.

    Attributes:
        q: real[(worlds,) steps + 1, nq], the first row is the initial configuration.
        v: real[(worlds,) steps + 1, nv].
        status: uint32[worlds], bits of `featherback.Status`; a scalar array for one world.
        status_step: int32[worlds], step at which the first bit was set, -1 for none.
    """

    q: jax.Array
    v: jax.Array
    status: jax.Array
    status_step: jax.Array


def step(
    sim: Simulator,
    q: ArrayLike,
    v: ArrayLike,
    u: ArrayLike | None = None,
    params: Params | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Advance by one step.

    Args:
        sim: the simulator; its number type must be that of the arrays.
        q: real[(worlds,) nq], configuration in MuJoCo's layout.
        v: real[(worlds,) nv], velocity.
        u: real[(worlds,) nu], control; zero when None.
        params: parameters that replace the simulator's in this call, in their own shape or with a
            leading world axis.

    Returns:
        The next q and v. What has no world axis is shared by all worlds.

    Raises:
        ShapeError: where an array has a wrong shape or number type.
        ParameterError: where a parameter or the simulator cannot be used.
    """
    where = "step()"
    engines = engines_for(where, sim)
    control = np.zeros(engines.nu) if u is None else u
    arrays = rows(where, sim, engines, {"q": q, "v": v, "u": control})
    worlds = count_worlds(where, arrays, {})
    theta = flat_params(where, sim, engines, params, worlds)
    full = [give_worlds(x, worlds, 1) for x in arrays.values()]
    q1, v1, _, _ = rollout_map.forward.bind(*full, theta, engines=engines, single=True)
    return (q1[0], v1[0]) if worlds is None else (q1, v1)


def rollout(
    sim: Simulator,
    q: ArrayLike,
    v: ArrayLike,
    u: ArrayLike | None = None,
    params: Params | None = None,
    *,
    steps: int | None = None,
) -> Trajectory:
    """Advance by many steps and keep every state.

    Args:
        sim: the simulator; its number type must be that of the arrays.
        q: real[(worlds,) nq], initial configuration.
        v: real[(worlds,) nv], initial velocity.
        u: real[(worlds,) steps, nu], controls; without a world axis they are shared by all worlds;
            real[nu] holds one control for all steps; zero when None.
        params: parameters that replace the simulator's in this call, in their own shape or with a
            leading world axis.
        steps: number of steps; needed when u does not say it.

    Returns:
        The trajectory with a status for each world.

    Raises:
        ShapeError: where an array has a wrong shape or number type.
        ParameterError: where a parameter or the simulator cannot be used.
    """
    where = "rollout()"
    engines = engines_for(where, sim)
    arrays = rows(where, sim, engines, {"q": q, "v": v})
    arrays["u"] = controls(where, sim, engines, u, steps)
    ranks = {"q": 1, "v": 1, "u": 2}
    worlds = count_worlds(where, arrays, ranks)
    states = (arrays["u"].shape[-2] + 1) * (1 if worlds is None else worlds)
    state = (engines.nq + engines.nv) * engines.dtype.itemsize
    refuse_too_large(where, "states", states * state, advice="")
    theta = flat_params(where, sim, engines, params, worlds)
    full = [give_worlds(x, worlds, ranks[k]) for k, x in arrays.items()]
    out = rollout_map.forward.bind(*full, theta, engines=engines, single=False)
    return Trajectory(*((x[0] for x in out) if worlds is None else out))
