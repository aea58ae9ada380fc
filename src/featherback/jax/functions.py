"""What users call: step and rollout on JAX arrays."""

from __future__ import annotations

from typing import NamedTuple

import jax
from jax.typing import ArrayLike

from featherback.jax.inputs import (
    STATE,
    Params,
    controls,
    count_worlds,
    flat_params,
    give_worlds,
    join_state,
    open_call,
    require_known,
    rows,
    split_state,
)
from featherback.jax.primitives import rollout_map
from featherback.sim import Simulator
from featherback.sim.bridge import check_step_controls, refuse_too_large


class Trajectory(NamedTuple):
    """A trajectory. The leading world axis is there only if the input had one.

    Attributes:
        q: real[(worlds,) steps + 1, nq], the first row is the initial configuration.
        v: real[(worlds,) steps + 1, nv].
        status: uint32[worlds], bits of `featherback.Status`; a scalar array for one world.
        status_step: int32[worlds], step at which the first bit was set, -1 for none.
        act: real[(worlds,) steps + 1, na], activations of the actuators that have one.
        warm: real[(worlds,) steps + 1, nv], accelerations of the solves, where the simulator
            carries them; they have no gradient.
    """

    q: jax.Array
    v: jax.Array
    status: jax.Array
    status_step: jax.Array
    act: jax.Array
    warm: jax.Array


def step(
    sim: Simulator,
    q: ArrayLike,
    v: ArrayLike,
    u: ArrayLike | None = None,
    params: Params | None = None,
    *,
    act: ArrayLike | None = None,
    warm: ArrayLike | None = None,
) -> tuple[jax.Array, ...]:
    """Advance by one step.

    Args:
        sim: the simulator; its number type must be that of the arrays.
        q: real[(worlds,) nq], configuration in MuJoCo's layout.
        v: real[(worlds,) nv], velocity.
        u: real[(worlds,) nu], control; zero when None.
        params: parameters that replace the simulator's in this call, in their own shape or with a
            leading world axis.
        act: real[(worlds,) na], activation; zero when None.
        warm: real[(worlds,) nv], accelerations at which the solve may start, as for `sim.step`.

    Returns:
        The next q and v, act where the model has activations, and warm where it was given, which
        has no gradient. What has no world axis is shared by all worlds.

    Raises:
        ShapeError: where an array has a wrong shape or number type, or u has a world axis and no
            state has.
        ParameterError: where a parameter or the simulator cannot be used, or an array that is not
            traced holds a NaN or infinity; what is traced is followed, and the status of
            `rollout` with one step tells of it.
    """
    where = "step()"
    call = open_call(where, sim)
    arrays = rows(call, {"q": q, "v": v, "act": act, "warm": warm, "u": u})
    require_known(call, arrays)
    worlds = count_worlds(where, arrays, {})
    check_step_controls(where, arrays["u"].shape, [arrays[name].ndim for name in STATE])
    theta = flat_params(call, params, worlds)
    full = {name: give_worlds(x, worlds, 1) for name, x in arrays.items()}
    point = (join_state(full), full["u"], theta)
    x1, _, _ = rollout_map.forward.bind(point, engines=call.engines, single=True)
    q1, v1, act1, warm1 = split_state(call, x1[0] if worlds is None else x1)
    state = (q1, v1, act1) if call.engines.layout.na else (q1, v1)
    return state if warm is None else (*state, warm1)


def rollout(
    sim: Simulator,
    q: ArrayLike,
    v: ArrayLike,
    u: ArrayLike | None = None,
    params: Params | None = None,
    *,
    steps: int | None = None,
    act: ArrayLike | None = None,
    warm: ArrayLike | None = None,
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
        act: real[(worlds,) na], initial activation; zero when None.
        warm: real[(worlds,) nv], accelerations at which the first solve may start; zero when None.

    Returns:
        The trajectory with a status for each world.

    Raises:
        ShapeError: where an array has a wrong shape or number type.
        ParameterError: where a parameter or the simulator cannot be used.
    """
    where = "rollout()"
    call = open_call(where, sim)
    arrays = rows(call, {"q": q, "v": v, "act": act, "warm": warm})
    arrays["u"] = controls(call, u, steps)
    ranks = {"u": 2}
    worlds = count_worlds(where, arrays, ranks)
    states = (arrays["u"].shape[-2] + 1) * (1 if worlds is None else worlds)
    state = call.engines.layout.nx * call.engines.dtype.itemsize
    refuse_too_large(where, "states", states * state, advice="")
    theta = flat_params(call, params, worlds)
    full = {name: give_worlds(x, worlds, ranks.get(name, 1)) for name, x in arrays.items()}
    point = (join_state(full), full["u"], theta)
    out = rollout_map.forward.bind(point, engines=call.engines, single=False)
    x, status, status_step = (a[0] for a in out) if worlds is None else out
    q_all, v_all, act_all, warm_all = split_state(call, x)
    return Trajectory(q_all, v_all, status, status_step, act_all, warm_all)
