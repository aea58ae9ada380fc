"""A closed loop whose graph keeps states and controls; the backward pass asks the policy again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function

from featherback.errors import FeatherbackError, ParameterError
from featherback.sim.bridge import (
    Bars,
    Schedule,
    Trajectory,
    WorldStatus,
    bridge_of,
    require_finite_states,
)
from featherback.torch import ops
from featherback.torch.loop import Loop, Policy
from featherback.torch.ops import Task

WHERE = ops.WHERE[ops.LOOP]
Real = NDArray[np.floating]

# how far the answers of a policy to the same question may lie apart, as a share of the largest
SAME = {torch.float64: 1e-9, torch.float32: 1e-4}


def run_again(
    loop: Loop,
    steps: int,
    segment: int,
    start: tuple[Tensor | None, ...],
    weights: tuple[Tensor, ...],
) -> Any:
    """Return states of q, states of v, controls and flags of a closed loop.

    Args:
        loop: the steps with their policy.
        steps: number of steps.
        segment: steps that the backward pass records at once; 0 to go step by step.
        start: q, v, and the parameters, shared and own.
        weights: tensors that the policy depends on.
    """
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():  # pyright: ignore[reportPrivateUsage]
        raise ParameterError(
            f"{WHERE}: memory={_memory(segment)} works neither in torch.func nor in "
            'torch.compile; pass memory="graph" there.'
        )
    return _FeatherbackClosedLoop.apply(loop, steps, segment, *start, *weights)


def _memory(segment: int) -> str:
    """Return the option that the user chose."""
    return '"checkpoint"' if segment else '"states"'


class _FeatherbackClosedLoop(Function):
    """A closed loop as one node of the graph."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Any:
        loop, steps, segment, q, v, shared, own, *weights = inputs
        known = bridge_of(loop.sim).signature
        u = q.new_zeros((*q.shape[:-1], known.nu))
        task = Task((known.handle, loop.names, ops.LOOP), (q, v, u), (shared, own), 1)
        qs, vs, us, flags, ctx.random = _forward(task, loop.policy, steps, segment, weights)
        ctx.loop, ctx.segment = loop, segment
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(flags)
        ctx.save_for_backward(qs, vs, us, flags, shared, own, *weights)
        return qs, vs, us, flags

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        if torch.is_grad_enabled():
            raise FeatherbackError(
                f"{WHERE}: memory={_memory(ctx.segment)} has no second derivatives; pass "
                'memory="graph" for them.'
            )
        *states, flags, shared, own = ctx.saved_tensors[:6]
        marks = flags.reshape(-1, 2).numpy()
        _refuse_nonfinite(ctx.loop, states, marks)
        bars = [
            torch.zeros_like(x) if bar is None else bar
            for x, bar in zip(states, grad_outputs[:3], strict=True)
        ]
        back = _Backward(ctx, (shared, own), ctx.saved_tensors[6:])
        start = back.by_segments(states, bars) if ctx.segment else back.by_steps(states, bars)
        return None, None, None, *start, *back.pack_bars, *back.weight_bars


def _refuse_nonfinite(loop: Loop, states: Any, marks: NDArray[np.int32]) -> None:
    """Refuse a gradient through a state that is not finite."""
    layout = bridge_of(loop.sim).layout
    q, v = (x.numpy().reshape(len(marks), -1, x.shape[-1]) for x in states[:2])
    x = layout.join(q.shape[:-1], q, v)
    path = Trajectory(layout, x, None, Schedule.all(x.shape[1] - 1))
    require_finite_states(WHERE, path, WorldStatus(marks[:, 0].astype(np.uint32), marks[:, 1]))


def _forward(
    task: Task, policy: Policy, steps: int, segment: int, weights: list[Tensor]
) -> tuple[Any, ...]:
    """Run the loop; return states, controls, flags, and random states where segments start."""
    bridge, worlds = task.bridge, len(task.q)
    known, dtype = bridge.signature, bridge.layout.dtype
    qs = np.empty((worlds, steps + 1, known.nq), dtype)
    vs = np.empty((worlds, steps + 1, known.nv), dtype)
    us = np.empty((worlds, steps, known.nu), dtype)
    flags = np.zeros((worlds, 2), np.int32)
    flags[:, 1] = -1
    random: list[Tensor] = []
    q, v = task.q, task.v
    qs[:, 0], vs[:, 0] = q, v
    for t in range(steps):
        if segment and t % segment == 0:
            random.append(torch.get_rng_state())
        # the first answer is recorded, to see what the policy depends on
        with torch.set_grad_enabled(t == 0):
            u = policy(task.out(q.copy()), task.out(v.copy()), t)
        if t == 0:
            _refuse_other_weights(u, weights)
        us[:, t] = u.detach().numpy()
        controls = us[:, t : t + 1].copy() if known.nu else None
        x, found = bridge.states(task.join_states(q, v), controls, 1, task.theta)
        q, v = task.parts(x[:, 1])
        qs[:, t + 1], vs[:, t + 1] = q, v
        if found.status.any():
            flags[:, 1] = np.where((flags[:, 1] < 0) & (found.status != 0), t, flags[:, 1])
            flags[:, 0] |= found.status.astype(np.int32)
    return *(task.out(a) for a in (qs, vs, us, flags)), random


class _Backward:
    """The backward pass of a closed loop.

    Args:
        ctx: the node.
        packs: parameters, shared and own.
        weights: tensors that the policy depends on.

    Attributes:
        pack_bars: derivatives with respect to the parameters, so far; None where there is none.
        weight_bars: those with respect to the weights.
    """

    def __init__(self, ctx: Any, packs: Any, weights: Any) -> None:
        self.loop, self.segment, self.random = ctx.loop, ctx.segment, ctx.random
        self.weights, self.given = weights, packs
        self.wanted = any(ctx.needs_input_grad[5:7])
        self.pack_bars: list[Tensor | None] = [None, None]
        self.weight_bars: list[Tensor | None] = [None] * len(weights)

    def by_segments(self, states: Any, bars: Any) -> tuple[Tensor, Tensor]:
        """Record one segment after the other again, the last first."""
        qs, vs, us = states
        at_q, at_v = bars[0][..., -1, :], bars[1][..., -1, :]
        for i in reversed(range(len(self.random))):
            first, last = i * self.segment, min((i + 1) * self.segment, us.shape[-2])
            rows = slice(first + 1, last + 1)
            given = [bars[0][..., rows, :].clone(), bars[1][..., rows, :].clone()]
            given[0][..., -1, :], given[1][..., -1, :] = at_q, at_v
            given.append(bars[2][..., first:last, :])
            point = (i, first, last, qs[..., first, :], vs[..., first, :])
            q_bar, v_bar = self._record(point, us[..., first:last, :], given)
            at_q = bars[0][..., first, :] if q_bar is None else q_bar + bars[0][..., first, :]
            at_v = bars[1][..., first, :] if v_bar is None else v_bar + bars[1][..., first, :]
        return at_q, at_v

    def _record(self, point: Any, u: Tensor, bars: Any) -> tuple[Tensor | None, Tensor | None]:
        """Record a segment with the random numbers it had, and pull derivatives through it."""
        i, first, last, *start = point
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(self.random[i])
            q, v = (x.detach().clone().requires_grad_() for x in start)
            packs = [
                None if x is None else x.detach().requires_grad_(self.wanted) for x in self.given
            ]
            *found, _ = self.loop.run(first, last - first, q, v, *packs)
        _refuse_other_answer(first, u, found[2], self.segment)
        asked = [q, v, *(x for x in packs if x is not None and x.requires_grad)]
        asked += [w for w in self.weights if w.requires_grad]
        pairs = [(y, bar) for y, bar in zip(found, bars, strict=True) if y.requires_grad]
        ends, ends_bars = zip(*pairs, strict=True)
        more: Iterator[Any] = iter(torch.autograd.grad(ends, asked, ends_bars, allow_unused=True))
        q_bar, v_bar = next(more), next(more)
        for k, x in enumerate(packs):
            if x is not None and x.requires_grad:
                self.pack_bars[k] = _added(self.pack_bars[k], next(more))
        self._add_weights(more)
        return q_bar, v_bar

    def _add_weights(self, more: Iterator[Tensor | None]) -> None:
        """Add derivatives with respect to the weights that require them."""
        for k, weight in enumerate(self.weights):
            if weight.requires_grad:
                self.weight_bars[k] = _added(self.weight_bars[k], next(more))

    def by_steps(self, states: Any, bars: Any) -> tuple[Tensor, Tensor]:
        """Go through one step and one answer of the policy after the other, the last first."""
        qs, vs, us = states
        rows = (qs[..., 0, :], vs[..., 0, :], us[..., 0, :])
        head = (bridge_of(self.loop.sim).signature.handle, self.loop.names, ops.LOOP)
        task = Task(head, rows, self.given, 1)
        at_q, at_v = bars[0][..., -1, :], bars[1][..., -1, :]
        for t in reversed(range(us.shape[-2])):
            point = (qs[..., t, :], vs[..., t, :], us[..., t, :])
            at_q, at_v = self._step(task, t, point, (at_q, at_v, bars[2][..., t, :]))
            at_q, at_v = at_q + bars[0][..., t, :], at_v + bars[1][..., t, :]
        return at_q, at_v

    def _step(self, task: Task, t: int, point: Any, bars: Any) -> tuple[Tensor, Tensor]:
        """Pull derivatives back through one step and through the policy."""
        found = self._pull(task, t, point, (task.rows(bars[0]), task.rows(bars[1])))
        q_bar, v_bar = (task.out(x) for x in task.parts(found.x))
        with torch.enable_grad():
            q, v = (x.detach().clone().requires_grad_() for x in point[:2])
            u = self.loop.policy(q, v, t)
        _refuse_other_answer(t, point[2], u, 0)
        if not u.requires_grad:
            return q_bar, v_bar
        asked = [q, v, *(w for w in self.weights if w.requires_grad)]
        answer = task.out(found.u[:, 0]) + bars[2]
        more: Iterator[Any] = iter(torch.autograd.grad(u, asked, answer, allow_unused=True))
        q_more, v_more = next(more), next(more)
        self._add_weights(more)
        q_bar = q_bar if q_more is None else q_bar + q_more
        return q_bar, v_bar if v_more is None else v_bar + v_more

    def _pull(self, task: Task, t: int, point: Any, bars: tuple[Real, Real]) -> Bars:
        """Pull derivatives back through one step."""
        q, v = (task.rows(x)[:, 0] for x in point[:2])
        u = task.rows(point[2]) if task.u is not None else None
        shapes = {k: a.shape for k, a in task.cut(self.given).items()} if self.wanted else {}
        # messages count the steps from the start of the loop
        replay = task.bridge.replay(task.path(q, v, u, shapes, first_step=t))
        x_bar = task.join_states(*bars)
        found = replay.vjp(WHERE, lambda first, x: x_bar)
        for own in (False, True) if shapes else ():
            if self.given[own] is not None:
                more = task.join(found.params, own)
                self.pack_bars[own] = _added(self.pack_bars[own], more)
        return found


def _added(total: Tensor | None, more: Tensor | None) -> Tensor | None:
    """Return a sum so far and one more."""
    if more is None:
        return total
    return more.clone() if total is None else total.add_(more)


def _refuse_other_answer(t: int, before: Tensor, after: Tensor, segment: int) -> None:
    """Refuse a policy that answers the same questions from step t on otherwise."""
    if not before.numel():
        return
    most = float((before - after.detach()).abs().max())
    if most <= SAME[before.dtype] * (1 + float(before.abs().max())):
        return
    advice = 'draw random numbers before the loop, or pass memory="checkpoint"'
    raise ParameterError(
        f"{WHERE}: {f'from step {t} on' if segment else f'at step {t}'} the policy answers "
        f"{most:.3g} beside its first answer; with memory={_memory(segment)} it is asked again and "
        f"""must answer the same: {'pass memory="graph"' if segment else advice}."""
    )


def _refuse_other_weights(u: Tensor, weights: list[Tensor]) -> None:
    """Refuse a policy whose answer depends on tensors which would get no gradient."""
    known = {id(w) for w in weights}
    ends = {w.grad_fn for w in weights if w.grad_fn is not None}
    seen: set[Any] = set()
    waiting: list[Any] = [u.grad_fn]
    if u.grad_fn is None and u.requires_grad and id(u) not in known:
        raise ParameterError(_other_weights(u))
    while waiting:
        node = waiting.pop()
        if node is None or node in seen or node in ends:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and id(leaf) not in known:
            raise ParameterError(_other_weights(leaf))
        waiting += [parent for parent, _ in node.next_functions]


def _other_weights(leaf: Tensor) -> str:
    """Return the sentence about a tensor that is not among the weights."""
    return (
        f"{WHERE}: the policy depends on a tensor of shape {tuple(leaf.shape)} that requires a "
        'gradient and is not among its weights; pass it in weights=, or pass memory="graph".'
    )
