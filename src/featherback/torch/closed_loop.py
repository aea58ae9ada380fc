"""Rollouts with a policy in the loop, and what the graph keeps of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor

from featherback._checks import is_integer
from featherback.errors import ParameterError, ShapeError
from featherback.sim import Simulator
from featherback.sim.bridge import Bridge, refuse_too_large
from featherback.sim.options import check_choice
from featherback.torch import ops
from featherback.torch.inputs import (
    check_simulator,
    check_state,
    check_tensor,
    pack_params,
    same_worlds,
    spread_state,
)
from featherback.torch.recompute import Loop, Policy, run_loop
from featherback.torch.rollout import Params, Trajectory

WHERE = ops.WHERE[ops.LOOP]
MEMORY = ("states", "checkpoint", "graph")


class ClosedLoop(NamedTuple):
    """States and controls of a rollout with a policy. World axes are those of the start.

    Attributes:
        q: real[(worlds,) steps + 1, nq], the first row is the initial configuration.
        v: real[(worlds,) steps + 1, nv].
        u: real[(worlds,) steps, nu], what the policy answered.
        flags: int32[(worlds,) 2], `status` and `status_step`.
        act: real[(worlds,) steps + 1, na], activations of the actuators that have one.
        warm: real[(worlds,) steps + 1, nv], accelerations of the solves, where the simulator
            carries them.
    """

    q: Tensor
    v: Tensor
    u: Tensor
    flags: Tensor
    act: Tensor
    warm: Tensor

    @property
    def trajectory(self) -> Trajectory:
        """The states, with the status of each world."""
        return Trajectory(self.q, self.v, self.flags, self.act, self.warm)


def closed_loop(
    sim: Simulator,
    policy: Policy,
    q: Tensor,
    v: Tensor,
    steps: int,
    params: Params | None = None,
    *,
    memory: Literal["states", "checkpoint", "graph"] = "states",
    weights: Iterable[Tensor] | None = None,
    segment: int | None = None,
    act: Tensor | None = None,
) -> ClosedLoop:
    """Advance by many steps with u = policy(q, v, t), or policy(q, v, act, t); keep every state.

    Gradients flow to the start, to the parameters, and to the weights of the policy through all
    steps. What the graph keeps between forward and backward is a choice:

    - "states": states and controls. The backward pass asks the policy again, step by step, and
      refuses one that answers otherwise, such as one that draws random numbers.
    - "checkpoint": the same. Segments of steps are recorded again, with the same random numbers.
    - "graph": all that torch records. It alone works inside of `torch.func` and `torch.compile`.

    Args:
        sim: the simulator, whose number type all tensors have.
        policy: called with q real[(worlds,) nq], v real[(worlds,) nv], act real[(worlds,) na] where
            the model has activations, and the number of the step; returns u real[(worlds,) nu].
        q: real[(worlds,) nq], initial configuration.
        v: real[(worlds,) nv], initial velocity.
        steps: number of steps, at least 1.
        params: tensors that replace the simulator's parameters, as in `rollout`.
        memory: what the graph keeps, see above.
        weights: tensors the policy depends on, unless memory="graph"; None for the parameters of
            a `torch.nn.Module`. A policy that depends on others is refused.
        segment: steps between two checkpoints; None for the root of their number.
        act: real[(worlds,) na], initial activation; zero when None.

    Raises:
        ShapeError: where a tensor has another shape, dtype or device.
        ParameterError: where an option is unknown, or the policy depends on other tensors than its
            weights or answers otherwise when it is asked again.
        WorldError: in the backward pass, where a step has no gradient.
    """
    bridge = check_simulator(WHERE, sim)
    layout = bridge.layout
    _check_options(policy, steps, memory, segment)
    parts, worlds = check_state(WHERE, bridge, q, v, act)
    count = same_worlds(WHERE, worlds)
    state = (layout.nx + layout.nu) * q.element_size() * (count or 1)
    refuse_too_large(WHERE, "states", (steps + 1) * state, advice="")
    names, *packs = pack_params(WHERE, params, sim, count)

    def checked(state: Sequence[Tensor], t: int) -> Tensor:
        return _check_control(policy(*state, t), bridge, count)

    length = 0 if memory == "states" else segment or math.isqrt(steps - 1) + 1
    given = None if memory == "graph" else _list_weights(policy, weights)
    start = (torch.cat(spread_state(parts, count), -1), *packs)
    x, u, flags = run_loop(Loop(sim, checked, names), int(steps), int(length), start, given)
    return ClosedLoop(layout.q(x), layout.v(x), u, flags, layout.act(x), layout.warm(x).detach())


def _list_weights(policy: Any, weights: Any) -> tuple[Tensor, ...]:
    """Return the tensors that a policy depends on; refuse what is none."""
    if weights is None:
        return tuple(policy.parameters()) if isinstance(policy, torch.nn.Module) else ()
    if isinstance(weights, Tensor) or not isinstance(weights, Iterable):
        raise ParameterError(
            f"{WHERE}: weights is of type {type(weights).__name__}; pass a list of the tensors "
            "that the policy depends on."
        )
    given = tuple(cast("Iterable[Any]", weights))
    for i, weight in enumerate(given):
        if not isinstance(weight, Tensor):
            raise ParameterError(
                f"{WHERE}: weights[{i}] is of type {type(weight).__name__}; expected a "
                "torch.Tensor that the policy depends on."
            )
    return given


def _check_options(policy: Any, steps: Any, memory: Any, segment: Any) -> None:
    """Refuse options that are unknown."""
    if not callable(policy):
        raise ParameterError(
            f"{WHERE}: policy is of type {type(policy).__name__}; pass a function or a "
            "torch.nn.Module that is called with q, v and the number of the step."
        )
    for name, value in (("steps", steps), ("segment", segment)):
        whole = is_integer(value) and value > 0
        if not whole and not (name == "segment" and value is None):
            raise ParameterError(f"{WHERE}: {name} is {value!r}; it must be a whole number >= 1.")
    check_choice(WHERE, "memory", memory, MEMORY)


def _check_control(u: Any, bridge: Bridge, worlds: int | None) -> Tensor:
    """Refuse an answer of a policy that is not a control."""
    answer = "policy(q, v, act, t)" if bridge.layout.na else "policy(q, v, t)"
    u = check_tensor(WHERE, answer, u, bridge)
    nu = bridge.layout.nu
    shape = (nu,) if worlds is None else (worlds, nu)
    if tuple(u.shape) != shape:
        raise ShapeError(f"{WHERE}: {answer} has shape {tuple(u.shape)}; expected {shape}.")
    return u
