"""A closed loop whose graph keeps states and controls; the backward pass asks the policy again."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from featherback.errors import FeatherbackError, ParameterError
from featherback.sim import Simulator
from featherback.sim.bridge import StateLayout, bridge_of
from featherback.torch import ops
from featherback.torch.functions import roll
from featherback.torch.on_device import DeviceTask, require_finite_states
from featherback.torch.ops import Task

WHERE = ops.WHERE[ops.LOOP]
# (q, v, number of the step) -> u; where the model has activations (q, v, act, number of the step)
Policy = Callable[..., Tensor]
# the same of q, v, and act where the model has activations
StatePolicy = Callable[[Sequence[Tensor], int], Tensor]

# how far the answers of a policy to the same question may lie apart, as a share of the largest
SAME = {torch.float64: 1e-9, torch.float32: 1e-4}


class Loop:
    """Steps with a policy; names as in `featherback.torch.ops`."""

    def __init__(self, sim: Simulator, policy: StatePolicy, names: str) -> None:
        """Note what the loop runs."""
        self.sim, self.policy, self.names = sim, policy, names

    def run(self, first: int, number: int, x: Tensor, *packs: Tensor | None) -> tuple[Tensor, ...]:
        """Return the states after each step, the controls, and the status, as torch records it."""
        layout = bridge_of(self.sim).layout
        state = (layout.q(x), layout.v(x), layout.rest(x))[: 3 if layout.na or layout.nwarm else 2]
        rows: list[tuple[Tensor, ...]] = []
        status = step = None
        for t in range(first, first + number):
            u = self.policy(_seen(layout, state), t)
            *found, flags = roll(self.sim, self.names, ops.LOOP, state, u, *packs)
            state = tuple(found[: len(state)])
            rows.append((*state, u))
            bits = flags[..., 0]
            if status is None or step is None:
                status, step = bits, torch.full_like(bits, -1)
            step = torch.where((step < 0) & (bits != 0), t, step)
            status = status | bits
        assert status is not None and step is not None
        *states, us = (torch.stack(column, -2) for column in zip(*rows, strict=True))
        return torch.cat(states, -1), us, torch.stack((status, step), -1)

    def whole(self, steps: int, x: Tensor, *packs: Tensor | None) -> tuple[Tensor, ...]:
        """Return all states, the controls, and the status."""
        xs, us, flags = self.run(0, steps, x, *packs)
        return torch.cat([x.unsqueeze(-2), xs], -2), us, flags


def _seen(layout: StateLayout, state: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return what a policy is given of a state in parts: q, v, and act where there is one."""
    return (*state[:2], state[2][..., : layout.na]) if layout.na else state[:2]


def run_loop(
    loop: Loop, steps: int, segment: int, start: tuple[Any, ...], weights: tuple[Tensor, ...] | None
) -> Any:
    """Return states, controls and flags of a closed loop.

    Args:
        loop: the steps with their policy.
        steps: number of steps.
        segment: steps that the backward pass records at once; 0 to go step by step.
        start: the first state, and the parameters, shared and own.
        weights: tensors that the policy depends on; None for torch to record all steps.
    """
    if weights is None:
        return loop.whole(steps, *start)
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
        loop, steps, segment, x, shared, own, *weights = inputs
        bridge = bridge_of(loop.sim)
        u = x.new_zeros((*x.shape[:-1], bridge.layout.nu))
        device = ops.on_device(bridge.handle, loop.names, ops.LOOP)
        if device is None:
            head = (bridge.handle, loop.names, ops.LOOP)
            task = Task(head, ops.as_array(x), u, (shared, own), 1)
            xs, us, flags, ctx.random = _forward(task, loop.policy, steps, segment, weights)
        else:
            task = DeviceTask(device, x, u, (shared, own), 1)
            found = _forward_on_device(task, loop.policy, steps, segment, weights)
            xs, us, flags, ctx.random = found
        ctx.loop, ctx.segment = loop, segment
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(flags)
        ctx.save_for_backward(xs, us, flags, shared, own, *weights)
        return xs, us, flags

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        if torch.is_grad_enabled():
            raise FeatherbackError(
                f"{WHERE}: memory={_memory(ctx.segment)} has no second derivatives; pass "
                'memory="graph" for them.'
            )
        xs, us, flags, shared, own, *weights = ctx.saved_tensors
        _refuse_nonfinite(ctx.loop, xs, flags)
        bars = [
            torch.zeros_like(y) if bar is None else bar
            for y, bar in zip((xs, us), grad_outputs[:2], strict=True)
        ]
        back = _Backward(ctx, (shared, own), weights)
        run = back.by_segments if ctx.segment else back.by_steps
        x_bar = run(xs, us, *bars)
        return None, None, None, x_bar, *back.pack_bars, *back.weight_bars


def _refuse_nonfinite(loop: Loop, states: Tensor, flags: Tensor) -> None:
    """Refuse a gradient through a state that is not finite."""
    marks = flags.reshape(-1, 2)
    x = states.reshape(len(marks), -1, states.shape[-1])
    require_finite_states(WHERE, bridge_of(loop.sim), x, marks)


def _random_state(x: Tensor) -> tuple[Tensor, ...]:
    """Return the state of the random numbers, and that of the device where tensors lie on one."""
    return (torch.get_rng_state(), *((torch.cuda.get_rng_state(x.device),) if x.is_cuda else ()))


@contextmanager
def _with_random(state: tuple[Tensor, ...], x: Tensor) -> Generator[None]:
    """Draw the random numbers of a state within the block."""
    with torch.random.fork_rng(devices=[x.device] if x.is_cuda else []):
        torch.set_rng_state(state[0])
        for own in state[1:]:
            torch.cuda.set_rng_state(own, x.device)
        yield


def _forward(
    task: Task, policy: StatePolicy, steps: int, segment: int, weights: list[Tensor]
) -> tuple[Any, ...]:
    """Run the loop; return states, controls, flags, and random states where segments start."""
    bridge, worlds = task.bridge, len(task.x)
    layout = bridge.layout
    xs = np.empty((worlds, steps + 1, layout.nx), layout.dtype)
    us = np.empty((worlds, steps, layout.nu), layout.dtype)
    flags = np.zeros((worlds, 2), np.int32)
    flags[:, 1] = -1
    random: list[tuple[Tensor, ...]] = []
    x = xs[:, 0] = task.x
    for t in range(steps):
        if segment and t % segment == 0:
            random.append((torch.get_rng_state(),))
        # the first answer is recorded, to see what the policy depends on
        with torch.set_grad_enabled(t == 0):
            u = policy(layout.parts(task.out(x.copy())), t)
        if t == 0:
            _refuse_other_weights(u, weights)
        us[:, t] = u.detach().numpy()
        controls = us[:, t : t + 1].copy() if layout.nu else None
        rows, found = bridge.states(x, controls, 1, task.theta)
        x = xs[:, t + 1] = rows[:, 1]
        if found.status.any():
            flags[:, 1] = np.where((flags[:, 1] < 0) & (found.status != 0), t, flags[:, 1])
            flags[:, 0] |= found.status.astype(np.int32)
    return *(task.out(a) for a in (xs, us, flags)), random


def _forward_on_device(
    task: DeviceTask, policy: StatePolicy, steps: int, segment: int, weights: list[Tensor]
) -> tuple[Any, ...]:
    """Do the same with tensors on the simulator's GPU."""
    layout, worlds = task.bridge.layout, len(task.x)
    xs = task.x.new_empty((worlds, steps + 1, layout.nx))
    us = task.x.new_empty((worlds, steps, layout.nu))
    status = torch.zeros(worlds, dtype=torch.int32, device=task.x.device)
    step = torch.full_like(status, -1)
    random: list[tuple[Tensor, ...]] = []
    x = xs[:, 0] = task.x
    for t in range(steps):
        if segment and t % segment == 0:
            random.append(_random_state(task.x))
        # the first answer is recorded, to see what the policy depends on
        with torch.set_grad_enabled(t == 0):
            u = policy(layout.parts(task.out(x).clone()), t)
        if t == 0:
            _refuse_other_weights(u, weights)
        us[:, t] = u.detach()
        rows, flags = task.states(x, us[:, t : t + 1].contiguous())
        x = xs[:, t + 1] = rows[:, 1]
        step = torch.where((step < 0) & (flags[:, 0] != 0), t, step)
        status |= flags[:, 0]
    return *(task.out(a) for a in (xs, us, torch.stack((status, step), -1))), random


class _Backward:
    """The backward pass of a closed loop.

    Attributes:
        pack_bars: derivatives with respect to the parameters, so far; None where there is none.
        weight_bars: those with respect to the weights.
    """

    def __init__(self, ctx: Any, packs: Any, weights: Any) -> None:
        self.loop, self.segment, self.random = ctx.loop, ctx.segment, ctx.random
        self.weights, self.given = weights, packs
        self.wanted = any(ctx.needs_input_grad[4:6])
        self.pack_bars: list[Tensor | None] = [None, None]
        self.weight_bars: list[Tensor | None] = [None] * len(weights)

    def by_segments(self, xs: Tensor, us: Tensor, x_bar: Tensor, u_bar: Tensor) -> Tensor:
        """Record one segment after the other again, the last first."""
        bar = x_bar[..., -1, :]
        for i in reversed(range(len(self.random))):
            first, last = i * self.segment, min((i + 1) * self.segment, us.shape[-2])
            given = x_bar[..., first + 1 : last + 1, :].clone()
            given[..., -1, :] = bar
            controls = us[..., first:last, :], u_bar[..., first:last, :]
            found = self._record(i, xs[..., first, :], controls, given)
            bar = x_bar[..., first, :] if found is None else found + x_bar[..., first, :]
        return bar

    def _record(
        self, i: int, start: Tensor, controls: tuple[Tensor, Tensor], bars: Tensor
    ) -> Tensor | None:
        """Record segment i with the random numbers it had, and pull derivatives through it."""
        first, (u, u_bar) = i * self.segment, controls
        with _with_random(self.random[i], start), torch.enable_grad():
            x = start.detach().clone().requires_grad_()
            packs = [
                None if p is None else p.detach().requires_grad_(self.wanted) for p in self.given
            ]
            states, answers, _ = self.loop.run(first, u.shape[-2], x, *packs)
        _refuse_other_answer(first, u, answers, self.segment)
        asked = [x, *(p for p in packs if p is not None and p.requires_grad)]
        asked += [w for w in self.weights if w.requires_grad]
        pairs = [(y, b) for y, b in ((states, bars), (answers, u_bar)) if y.requires_grad]
        ends, ends_bars = zip(*pairs, strict=True)
        more: Iterator[Any] = iter(torch.autograd.grad(ends, asked, ends_bars, allow_unused=True))
        x_bar = next(more)
        for k, p in enumerate(packs):
            if p is not None and p.requires_grad:
                self.pack_bars[k] = _added(self.pack_bars[k], next(more))
        self._add_weights(more)
        return x_bar

    def _add_weights(self, more: Iterator[Tensor | None]) -> None:
        """Add derivatives with respect to the weights that require them."""
        for k, weight in enumerate(self.weights):
            if weight.requires_grad:
                self.weight_bars[k] = _added(self.weight_bars[k], next(more))

    def by_steps(self, xs: Tensor, us: Tensor, x_bar: Tensor, u_bar: Tensor) -> Tensor:
        """Go through one step and one answer of the policy after the other, the last first."""
        head = (bridge_of(self.loop.sim).handle, self.loop.names, ops.LOOP)
        first, device = (xs[..., 0, :], us[..., 0, :]), ops.on_device(*head)
        if device is None:
            task = Task(head, ops.as_array(first[0]), first[1], self.given, 1)
        else:
            task = DeviceTask(device, *first, self.given, 1)
        bar = x_bar[..., -1, :]
        for t in reversed(range(us.shape[-2])):
            point = xs[..., t, :], us[..., t, :]
            bar = self._step(task, t, point, (bar, u_bar[..., t, :])) + x_bar[..., t, :]
        return bar

    def _step(
        self, task: Any, t: int, point: tuple[Tensor, Tensor], bars: tuple[Tensor, Tensor]
    ) -> Tensor:
        """Pull derivatives back through one step and through the policy."""
        pull: Any = self._pull if isinstance(task, Task) else self._pull_on_device
        x_bar, u_bar = pull(task, t, point, bars[0])
        with torch.enable_grad():
            x = point[0].detach().clone().requires_grad_()
            u = self.loop.policy(task.bridge.layout.parts(x), t)
        _refuse_other_answer(t, point[1], u, 0)
        if not u.requires_grad:
            return x_bar
        asked = [x, *(w for w in self.weights if w.requires_grad)]
        more: Iterator[Any] = iter(
            torch.autograd.grad(u, asked, u_bar + bars[1], allow_unused=True)
        )
        x_more = next(more)
        self._add_weights(more)
        return x_bar if x_more is None else x_bar + x_more

    def _pull(
        self, task: Task, t: int, point: tuple[Tensor, Tensor], bar: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Pull derivatives back through one step."""
        x, x_bar = task.rows(point[0])[:, 0], task.rows(bar)
        u = task.rows(point[1]) if task.u is not None else None
        shapes = {k: a.shape for k, a in task.cut(self.given).items()} if self.wanted else {}
        # messages count the steps from the start of the loop
        replay = task.bridge.replay(task.path(x, u, shapes, first_step=t))
        found = replay.vjp(WHERE, lambda first, x: x_bar)
        for own in (False, True) if shapes else ():
            if self.given[own] is not None:
                more = task.join(found.params, own)
                self.pack_bars[own] = _added(self.pack_bars[own], more)
        return task.out(found.x), task.out(found.u[:, 0])

    def _pull_on_device(
        self, task: DeviceTask, t: int, point: tuple[Tensor, Tensor], bar: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Do the same with tensors on the simulator's GPU."""
        x, u = task.rows(point[0])[:, 0].contiguous(), task.rows(point[1]).contiguous()
        found = task.vjp(x, u, task.rows(bar), t, self.wanted)
        for own in (False, True) if self.wanted else ():
            if self.given[own] is not None:
                more = task.join(found.params, own)
                self.pack_bars[own] = _added(self.pack_bars[own], more)
        return task.out(found.x), task.out(found.u[:, 0])


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
