"""Steps and rollouts of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from torch import Tensor

from featherback.sim import Simulator
from featherback.sim.bridge import check_controls, check_step_controls, world_error
from featherback.torch.functions import roll
from featherback.torch.inputs import (
    check_rows,
    check_simulator,
    check_state,
    check_tensor,
    pack_params,
    same_worlds,
    split_rest,
    spread_state,
)
from featherback.torch.ops import ROLLOUT, STEP, WHERE

Params = Mapping[str, Tensor]


class Trajectory(NamedTuple):
    """States of a rollout. The leading world axis is there only if the input had one.

    Attributes:
        q: real[(worlds,) steps + 1, nq], the first row is the initial configuration.
        v: real[(worlds,) steps + 1, nv].
        flags: int32[(worlds,) 2], `status` and `status_step`.
        act: real[(worlds,) steps + 1, na], activations of the actuators that have one.
        warm: real[(worlds,) steps + 1, nv], accelerations of the solves, where the simulator
            carries them; they have no gradient.
    """

    q: Tensor
    v: Tensor
    flags: Tensor
    act: Tensor
    warm: Tensor

    @property
    def status(self) -> Tensor:
        """int32[worlds], bits of `featherback.Status`; a scalar for one world."""
        return self.flags[..., 0]

    @property
    def status_step(self) -> Tensor:
        """int32[worlds], step at which the first bit was set, -1 for none."""
        return self.flags[..., 1]

    @property
    def ok(self) -> bool:
        """Whether no world has a status bit set."""
        return not bool(self.status.any())

    def raise_if_bad(self) -> None:
        """Raise WorldError if any world has a status bit set."""
        flags = self.flags.cpu().reshape(-1, 2).numpy()
        if flags[:, 0].any():
            raise world_error(WHERE[ROLLOUT], flags[:, 0].astype(np.uint32), flags[:, 1])


def step(
    sim: Simulator,
    q: Tensor,
    v: Tensor,
    u: Tensor | None = None,
    params: Params | None = None,
    *,
    act: Tensor | None = None,
    warm: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """Advance by one step.

    Args:
        sim: the simulator, whose number type all tensors have.
        q: real[(worlds,) nq], configuration in MuJoCo's layout.
        v: real[(worlds,) nv], velocity.
        u: real[(worlds,) nu], control; zero when None.
        params: tensors that replace the simulator's parameters in this call, by name, each in its
            own shape, shared by all worlds, or with a leading world axis.
        act: real[(worlds,) na], activation; zero when None.
        warm: real[(worlds,) nv], accelerations at which the solve may start, as for `sim.step`.

    Returns:
        The next q and v, act where the model has activations, and warm where it was given, which
        has no gradient; bitwise equal to `sim.step`. A world that goes wrong holds what it
        computed; `rollout` says why.

    Raises:
        ShapeError: where a tensor has another shape, number type or device.
        ParameterError: where a parameter is unknown, or an input holds a NaN or infinity.
        WorldError: in the backward pass, where the step has no gradient.
    """
    where = WHERE[STEP]
    bridge = check_simulator(where, sim)
    parts, worlds = check_state(where, bridge, q, v, act, warm)
    u = q.new_zeros(bridge.layout.nu) if u is None else check_tensor(where, "u", u, bridge)
    worlds["u"] = check_rows(where, "u", u, bridge.layout)
    count = same_worlds(where, worlds)
    check_step_controls(where, tuple(u.shape), [x.ndim for x in parts.values()])
    names, *packs = pack_params(where, params, sim, count)
    q, v, rest, _ = roll(sim, names, STEP, spread_state(parts, count), u, *packs)
    act, carried = split_rest(bridge.layout, rest)
    state = (q, v, act) if bridge.layout.na else (q, v)
    return state if warm is None else (*state, carried)


def rollout(
    sim: Simulator,
    q: Tensor,
    v: Tensor,
    u: Tensor | None = None,
    params: Params | None = None,
    *,
    steps: int | None = None,
    act: Tensor | None = None,
    warm: Tensor | None = None,
) -> Trajectory:
    """Advance by many steps and keep every state.

    The graph keeps the states, the controls and the parameters, and nothing of the steps between.

    Args:
        sim: the simulator, whose number type all tensors have.
        q: real[(worlds,) nq], initial configuration.
        v: real[(worlds,) nv], initial velocity.
        u: real[(worlds,) steps, nu], controls; without a world axis they are shared by all
            worlds; real[nu] holds one control for all steps; zero when None.
        params: tensors that replace the simulator's parameters in this call, by name, each in its
            own shape, shared by all worlds, or with a leading world axis.
        steps: number of steps; needed when u does not say it.
        act: real[(worlds,) na], initial activation; zero when None.
        warm: real[(worlds,) nv], accelerations at which the first solve may start; zero when None.

    Returns:
        The trajectory, bitwise equal to that of `sim.rollout`, with a status for each world.

    Raises:
        ShapeError: where a tensor has another shape, number type or device.
        ParameterError: where a parameter is unknown, or an input holds a NaN or infinity.
        WorldError: in the backward pass, where a step has no gradient, or a world left the finite
            numbers.
    """
    where = WHERE[ROLLOUT]
    bridge = check_simulator(where, sim)
    layout = bridge.layout
    parts, worlds = check_state(where, bridge, q, v, act, warm)
    shape = None if u is None else tuple(check_tensor(where, "u", u, bridge).shape)
    held = check_controls(where, layout, shape, steps, q.element_size())
    if held is not None:
        u = (q.new_zeros(layout.nu) if u is None else u).expand(held, layout.nu)
    assert u is not None
    worlds["u"] = u.shape[0] if u.ndim == 3 else None
    count = same_worlds(where, worlds)
    names, *packs = pack_params(where, params, sim, count)
    q, v, rest, flags = roll(sim, names, ROLLOUT, spread_state(parts, count), u, *packs)
    return Trajectory(q, v, flags, *split_rest(layout, rest))
