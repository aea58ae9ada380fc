"""A closed loop whose graph keeps states and controls only; the backward pass asks again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function

from featherback.errors import FeatherbackError, ParameterError, WorldError
from featherback.sim.raw import Raw
from featherback.sim.replay import Bars
from featherback.sim.rollout import refuse_nonfinite
from featherback.torch import ops
from featherback.torch.ops import Task

WHERE = ops.WHERE[ops.LOOP]
Real = NDArray[np.floating]
Policy = Callable[[Tensor, Tensor, int], Tensor]

NO_SECOND = f'{WHERE}: memory="states" has no second derivatives; pass memory="graph" for them.'
# how far the answers of a policy to the same question may lie apart, as a share of the largest
SAME = {torch.float64: 1e-9, torch.float32: 1e-4}


def replay(
    sim: Raw,
    policy: Policy,
    names: str,
    steps: int,
    start: tuple[Tensor | None, ...],
    weights: tuple[Tensor, ...],
) -> Any:
    """Return states of q, states of v, controls and flags of a closed loop.

    Args:
        sim: the simulator.
        policy: the policy, its answers checked.
        names: names of the parameters, as in `featherback.torch.ops`.
        steps: number of steps.
        start: q, v, and the parameters, shared and own.
        weights: tensors that the policy depends on.
    """
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():  # pyright: ignore[reportPrivateUsage]
        raise ParameterError(
            f'{WHERE}: memory="states" works neither in torch.func nor in torch.compile; pass '
            'memory="graph" there.'
        )
    return _FeatherbackClosedLoop.apply(sim, policy, names, steps, *start, *weights)


class _FeatherbackClosedLoop(Function):
    """A closed loop as one node of the graph."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Any:
        sim, policy, names, steps, q, v, shared, own, *weights = inputs
        head = (sim.signature.handle, names, ops.LOOP)
        u = q.new_zeros((*q.shape[:-1], sim.signature.nu))
        task = Task(head, (q, v, u), (shared, own), 1)
        _refuse_other_weights(policy, q, v, weights)
        qs, vs, us, flags = _forward(task, policy, steps)
        ctx.sim, ctx.policy, ctx.head = sim, policy, head
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(flags)
        ctx.save_for_backward(qs, vs, us, flags, shared, own, *weights)
        return qs, vs, us, flags

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        if torch.is_grad_enabled():
            raise FeatherbackError(NO_SECOND)
        qs, vs, us, flags, shared, own, *weights = ctx.saved_tensors
        marks = flags.reshape(-1, 2).numpy()
        kept, status = np.arange(qs.shape[-2]), marks[:, 0].astype(np.uint32)
        refuse_nonfinite(WHERE, (qs.numpy(), vs.numpy()), kept, status, marks[:, 1])
        rows = (qs[..., 0, :], vs[..., 0, :], us[..., 0, :])
        back = _Backward(ctx, Task(ctx.head, rows, (shared, own), 1), (shared, own), weights)
        bars = [
            torch.zeros_like(x) if bar is None else bar
            for x, bar in zip((qs, vs, us), grad_outputs[:3], strict=True)
        ]
        at_q, at_v = bars[0][..., -1, :], bars[1][..., -1, :]
        for t in reversed(range(us.shape[-2])):
            point = (qs[..., t, :], vs[..., t, :], us[..., t, :])
            at_q, at_v = back.step(t, point, (at_q, at_v, bars[2][..., t, :]))
            at_q, at_v = at_q + bars[0][..., t, :], at_v + bars[1][..., t, :]
        return None, None, None, None, at_q, at_v, *back.packs(), *back.weight_bars


def _forward(task: Task, policy: Policy, steps: int) -> tuple[Tensor, ...]:
    """Run the loop; return states, controls and flags."""
    sim, worlds = task.sim, len(task.q)
    known = sim.signature
    qs = np.empty((worlds, steps + 1, known.nq), sim.dtype)
    vs = np.empty((worlds, steps + 1, known.nv), sim.dtype)
    us = np.empty((worlds, steps, known.nu), sim.dtype)
    flags = np.zeros((worlds, 2), np.int32)
    flags[:, 1] = -1
    q, v = task.q, task.v
    qs[:, 0], vs[:, 0] = q, v
    for t in range(steps):
        us[:, t] = policy(task.out(q.copy()), task.out(v.copy()), t).detach().numpy()
        states = sim.raw_rollout(q, v, us[:, t : t + 1].copy() if known.nu else None, 1, task.theta)
        q, v = states.q[:, 1].copy(), states.v[:, 1].copy()
        qs[:, t + 1], vs[:, t + 1] = q, v
        if states.status.any():
            flags[:, 1] = np.where((flags[:, 1] < 0) & (states.status != 0), t, flags[:, 1])
            flags[:, 0] |= states.status.astype(np.int32)
    return task.out(qs), task.out(vs), task.out(us), task.out(flags)


class _Backward:
    """The backward pass of a closed loop, one step at a time.

    Args:
        ctx: the node.
        task: the rollout, for its parameters.
        packs: parameters, shared and own.
        weights: tensors that the policy depends on.

    Attributes:
        weight_bars: derivatives with respect to the weights, so far; None where there is none.
    """

    def __init__(self, ctx: Any, task: Task, packs: Any, weights: list[Tensor]) -> None:
        self.policy, self.task, self.weights = ctx.policy, task, weights
        self.given = packs
        wanted = any(ctx.needs_input_grad[6:8])
        self.shapes = {k: a.shape for k, a in task.cut(packs).items()} if wanted else {}
        self.params: dict[str, Real] = {}
        self.weight_bars: list[Tensor | None] = [None] * len(weights)

    def step(self, t: int, point: Any, bars: Any) -> tuple[Tensor, Tensor]:
        """Pull derivatives back through one step and through the policy."""
        task, (q_bar, v_bar, u_bar) = self.task, bars
        found = self.pull(t, point, (task.rows(q_bar), task.rows(v_bar)))
        for name, bar in found.params.items():
            self.params[name] = self.params[name] + bar if name in self.params else bar
        q_bar, v_bar = task.out(found.q), task.out(found.v)
        with torch.enable_grad():
            q, v = (x.detach().clone().requires_grad_() for x in point[:2])
            u = self.policy(q, v, t)
        _refuse_other_answer(t, point[2], u)
        if not u.requires_grad:
            return q_bar, v_bar
        asked = [q, v, *(w for w in self.weights if w.requires_grad)]
        answer = task.out(found.u[:, 0]) + u_bar
        bars = iter(torch.autograd.grad(u, asked, answer, allow_unused=True))
        q_more, v_more = next(bars), next(bars)
        for i, weight in enumerate(self.weights):
            bar = next(bars) if weight.requires_grad else None
            if bar is not None:
                before = self.weight_bars[i]
                self.weight_bars[i] = bar.clone() if before is None else before.add_(bar)
        q_bar = q_bar if q_more is None else q_bar + q_more
        return q_bar, v_bar if v_more is None else v_bar + v_more

    def pull(self, t: int, point: Any, bars: tuple[Real, Real]) -> Bars:
        """Pull derivatives back through one step."""
        q, v = (np.repeat(self.task.rows(x), 2, axis=1) for x in point[:2])
        u = self.task.rows(point[2]) if self.task.u is not None else None
        replay = self.task.sim.raw_replay((q, v, u), self.task.theta, self.shapes)
        try:
            return replay.vjp(WHERE, lambda first, q, v: bars)
        except WorldError as error:
            # a single step counts from its own start
            text = str(error).replace("first at step 0,", f"first at step {t},")
            raise WorldError(text) from None

    def packs(self) -> list[Tensor | None]:
        """Return derivatives with respect to the parameters, shared and own."""
        if not self.shapes:
            return [None, None]
        both = (self.task.join(self.params, own) for own in (False, True))
        return [None if x is None else bar for x, bar in zip(self.given, both, strict=True)]


def _refuse_other_answer(t: int, before: Tensor, after: Tensor) -> None:
    """Refuse a policy that answers the same question otherwise."""
    most = float((before - after.detach()).abs().max()) if before.numel() else 0.0
    allowed = SAME[before.dtype] * (1 + float(before.abs().max())) if before.numel() else 0.0
    if not most <= allowed:
        raise ParameterError(
            f"{WHERE}: at step {t} the policy answers {most:.3g} beside its first answer; with "
            'memory="states" it is asked again and must answer the same: draw random numbers '
            'before the loop, or pass memory="checkpoint".'
        )


def _refuse_other_weights(policy: Policy, q: Tensor, v: Tensor, weights: list[Tensor]) -> None:
    """Refuse a policy that depends on tensors which would get no gradient."""
    with torch.enable_grad():
        u = policy(q.detach().clone(), v.detach().clone(), 0)
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
        "gradient and is not among its weights; pass it in weights=, or pass "
        'memory="checkpoint".'
    )
