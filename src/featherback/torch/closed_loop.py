"""Rollouts with a policy in the loop, and what the graph keeps of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from featherback.errors import ParameterError, ShapeError
from featherback.sim import Simulator
from featherback.torch import ops
from featherback.torch.again import replay
from featherback.torch.functions import roll
from featherback.torch.inputs import (
    check_simulator,
    check_state,
    check_tensor,
    pack_params,
    same_worlds,
)
from featherback.torch.rollout import Params, Trajectory, spread

WHERE = ops.WHERE[ops.LOOP]
MEMORY = ("states", "checkpoint", "graph")

# (q, v, number of the step) -> u
Policy = Callable[[Tensor, Tensor, int], Tensor]


class ClosedLoop(NamedTuple):
    """States and controls of a rollout with a policy. World axes are those of the start.

    Attributes:
        q: real[(worlds,) steps + 1, nq], the first row is the initial configuration.
        v: real[(worlds,) steps + 1, nv].
        u: real[(worlds,) steps, nu], what the policy answered.
        flags: int32[(worlds,) 2], `status` and `status_step`.
    """

    q: Tensor
    v: Tensor
    u: Tensor
    flags: Tensor

    @property
    def trajectory(self) -> Trajectory:
        """The states, with the status of each world."""
        return Trajectory(self.q, self.v, self.flags)


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
) -> ClosedLoop:
    """Advance by many steps with u = policy(q, v, t), and keep every state.

    Gradients flow to the start, to the parameters, and to the weights of the policy through all
    steps. What the graph keeps between forward and backward is a choice:

    - "states": the states and controls. The backward pass evaluates the policy again, step by
      step. A policy must answer the same again; one that draws random numbers is refused there.
    - "checkpoint": the states and controls, and besides one segment of the graph at a time, which
      `torch.utils.checkpoint` builds again. Random numbers are drawn again alike.
    - "graph": all that torch records. It alone works inside of `torch.func` and `torch.compile`.

    Args:
        sim: the simulator, whose number type all tensors have.
        policy: called with q real[(worlds,) nq], v real[(worlds,) nv] and the number of the step;
            returns u real[(worlds,) nu].
        q: real[(worlds,) nq], initial configuration.
        v: real[(worlds,) nv], initial velocity.
        steps: number of steps, at least 1.
        params: tensors that replace the simulator's parameters, as in `rollout`.
        memory: what the graph keeps, see above.
        weights: tensors the policy depends on, for memory="states"; None for the parameters of a
            `torch.nn.Module`. A policy that depends on others is refused.
        segment: steps between two checkpoints; None for the root of their number.

    Raises:
        ShapeError: where a tensor has another shape, number type or device.
        ParameterError: where an option is unknown, the policy depends on tensors that are not
            among its weights, or answers otherwise when it is asked again.
        WorldError: in the backward pass, where a step has no gradient, or a world left the finite
            numbers.
    """
    known = check_simulator(WHERE, sim)
    count = same_worlds(WHERE, check_state(WHERE, q, v, known))
    _check_options(policy, steps, memory, segment)
    names, *packs = pack_params(WHERE, params, sim, count)
    q, v = spread(q, v, count)

    def checked(q: Tensor, v: Tensor, t: int) -> Tensor:
        return _check_control(policy(q, v, t), known.nu, known.dtype, count)

    if memory == "states":
        if weights is None:
            weights = policy.parameters() if isinstance(policy, torch.nn.Module) else ()
        return ClosedLoop(*replay(sim, checked, names, steps, (q, v, *packs), tuple(weights)))
    length = steps if memory == "graph" else segment or math.isqrt(steps - 1) + 1
    loop = _Loop(sim, checked, names)
    if memory == "graph":
        return loop.join(q, v, [loop.run(0, steps, q, v, *packs)])
    parts: list[tuple[Tensor, ...]] = []
    last_q, last_v = q, v
    for first in range(0, steps, length):
        number = min(length, steps - first)
        ends = checkpoint(loop.run, first, number, last_q, last_v, *packs, use_reentrant=False)
        parts.append(ends)
        last_q, last_v = ends[0][..., -1, :], ends[1][..., -1, :]
    return loop.join(q, v, parts)


class _Loop:
    """Steps with a policy, recorded by torch.

    Args:
        sim: the simulator.
        policy: the policy, its answers checked.
        names: names of the parameters, as in `featherback.torch.ops`.
    """

    def __init__(self, sim: Simulator, policy: Policy, names: str) -> None:
        self.sim, self.policy, self.names = sim, policy, names

    def run(
        self, first: int, number: int, q: Tensor, v: Tensor, *packs: Tensor | None
    ) -> tuple[Tensor, ...]:
        """Return the states after each step, the controls, and the status."""
        states: list[tuple[Tensor, Tensor, Tensor]] = []
        status = step = None
        for t in range(first, first + number):
            u = self.policy(q, v, t)
            q, v, flags = roll(self.sim, self.names, ops.LOOP, q, v, u, *packs)
            states.append((q, v, u))
            bits = flags[..., 0]
            if status is None or step is None:
                status, step = bits, torch.full_like(bits, -1)
            step = torch.where((step < 0) & (bits != 0), t, step)
            status = status | bits
        assert status is not None and step is not None
        columns = [torch.stack(column, -2) for column in zip(*states, strict=True)]
        return *columns, torch.stack((status, step), -1)

    def join(self, q: Tensor, v: Tensor, parts: list[tuple[Tensor, ...]]) -> ClosedLoop:
        """Return the start and all segments as one rollout."""
        flags = parts[0][3]
        for part in parts[1:]:
            step = torch.where(flags[..., 1] < 0, part[3][..., 1], flags[..., 1])
            flags = torch.stack((flags[..., 0] | part[3][..., 0], step), -1)
        qs, vs, us = ([part[i] for part in parts] for i in range(3))
        return ClosedLoop(
            torch.cat([q.unsqueeze(-2), *qs], -2),
            torch.cat([v.unsqueeze(-2), *vs], -2),
            torch.cat(us, -2),
            flags,
        )


def _check_options(policy: Any, steps: Any, memory: Any, segment: Any) -> None:
    """Refuse options that are unknown."""
    if not callable(policy):
        raise ParameterError(
            f"{WHERE}: policy is of type {type(policy).__name__}; pass a function or a "
            "torch.nn.Module that is called with q, v and the number of the step."
        )
    for name, value in (("steps", steps), ("segment", segment)):
        whole = isinstance(value, int) and not isinstance(value, bool) and value > 0
        if not whole and not (name == "segment" and value is None):
            raise ParameterError(f"{WHERE}: {name} is {value!r}; it must be a whole number >= 1.")
    if memory not in MEMORY:
        raise ParameterError(
            f"{WHERE}: memory is {memory!r}; it must be one of {', '.join(MEMORY)}."
        )


def _check_control(u: Any, nu: int, dtype: str, worlds: int | None) -> Tensor:
    """Refuse an answer of a policy that is not a control."""
    u = check_tensor(WHERE, "policy(q, v, t)", u, dtype)
    shape = (nu,) if worlds is None else (worlds, nu)
    if tuple(u.shape) != shape:
        raise ShapeError(f"{WHERE}: policy(q, v, t) has shape {tuple(u.shape)}; expected {shape}.")
    return u
