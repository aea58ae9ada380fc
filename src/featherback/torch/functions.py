"""The nodes of torch's graph: which operator runs forward, which backward, what is kept.

Two nodes do the same. The plain one is quick to enter but refuses the transformations of
`torch.func`; the one for these takes long to enter. `torch.compile` takes an operator that knows
its gradient, since it loses that of a node inside of a transformation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad

from featherback.errors import FeatherbackError
from featherback.sim import Simulator
from featherback.sim.bridge import bridge_of
from featherback.torch import ops
from featherback.torch.operators import library

NO_THIRD = (
    "featherback.torch: derivatives of a rollout above the second order, and two in forward mode, "
    "are not available; take torch.func.hessian, or jacrev of jacrev."
)


def roll(
    sim: Simulator, names: str, kind: int, state: Sequence[Tensor], u: Tensor, *packs: Tensor | None
) -> tuple[Tensor, ...]:
    """Return q, v, the rest of the states and flags, as nodes of the graph that is recorded."""
    bridge = bridge_of(sim)
    given = (*state, u, *packs) if len(state) == 3 else (*state, None, u, *packs)
    if torch.compiler.is_compiling():
        return ops.rollout_traced(bridge.handle, names, kind, *given)
    # torch has no public way to ask this
    if torch._C._are_functorch_transforms_active():  # pyright: ignore[reportPrivateUsage]
        # derivatives of derivatives need the flat state as it is, not one that is put together
        whole = (torch.cat(list(state), -1), None, None, u, *packs)
        x, _, _, flags = _FeatherbackTransformed.apply(sim, names, kind, *whole)
        return bridge.layout.q(x), bridge.layout.v(x), bridge.layout.rest(x), flags
    if not _recorded(*given):
        return ops.rollout(bridge.handle, names, kind, *given)
    return _FeatherbackRollout.apply(sim, names, kind, *given)


def _recorded(*tensors: Tensor | None) -> bool:
    """Return whether torch follows any of these tensors, backwards or forwards."""
    backwards = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)
    return backwards or _dual_level()


def _dual_level() -> bool:
    """Return whether dual tensors may be about; torch has no public way to ask this."""
    return forward_ad._current_level >= 0  # pyright: ignore[reportPrivateUsage]


class Kept(NamedTuple):
    """What derivatives take of a rollout, its states flat, and the state that it started from."""

    states: Tensor
    u: Tensor
    flags: Tensor
    shared: Tensor | None
    own: Tensor | None
    x: Tensor

    @property
    def taken(self) -> tuple[Any, ...]:
        """What an operator takes of it."""
        return self[:-1]

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The inputs of the rollout."""
        return self.x, self.u, self.shared, self.own


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> tuple[Any, ...]:
    """Keep inputs and states, those of a single step being its inputs; return what was kept."""
    ctx.sim, ctx.names, ctx.kind, *given = inputs
    ctx.set_materialize_grads(False)
    *states, flags = output
    kept = (*given, flags, *((None,) * 3 if ctx.kind else states))
    ctx.save_for_backward(*kept)
    return kept


def _kept(ctx: Any) -> tuple[Kept, Any, Any]:
    """Return what a node kept, and the parts of its first state and of its results."""
    q, v, act, u, shared, own, flags, *states = ctx.saved_tensors
    start = (q, v, act)
    x = _joined(start, start)
    if ctx.kind:
        return Kept(x, u, flags, shared, own, x), start, start
    return Kept(_joined(states, start), u, flags, shared, own, x), start, states


def _joined(parts: Sequence[Any], like: Sequence[Any]) -> Tensor:
    """Return flat states of the parts that the first state has."""
    there = [part for part, first in zip(parts, like, strict=True) if first is not None]
    return torch.cat(there, -1) if len(there) > 1 else there[0]


def _parts(x: Tensor, like: Sequence[Any]) -> list[Any]:
    """Return the parts of flat states that the first state has, None for the others."""
    sizes = [0 if part is None else part.shape[-1] for part in like]
    parts = x.split_with_sizes(sizes, -1)
    return [None if first is None else part for part, first in zip(parts, like, strict=True)]


def _head(ctx: Any) -> tuple[str, str, int]:
    """Return what an operator takes before its tensors."""
    handle = ctx.sim if isinstance(ctx.sim, str) else bridge_of(ctx.sim).handle
    return handle, ctx.names, ctx.kind


def _pull(ctx: Any, *bars: Any) -> tuple[Any, ...]:
    """Return the derivatives of the loss with respect to the inputs of a node."""
    kept, start, states = _kept(ctx)
    x_bar = _joined(_dots(states, bars[:3]), start)
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        found = _Pulled.apply(*_head(ctx), *kept, x_bar)
    else:
        found = ops.rollout_vjp(*_head(ctx), *kept.taken, x_bar)
    x, *rest = _where_given(found, kept)
    return None, None, None, *_parts(x, start), *rest


def _where_given(bars: Any, kept: Kept) -> tuple[Any, ...]:
    """Return derivatives with respect to inputs, None for parameters that were not given."""
    x, u, shared, own = bars
    return x, u, None if kept.shared is None else shared, None if kept.own is None else own


def _of_kept(bars: Any, kept: Kept) -> tuple[Any, ...]:
    """Return derivatives with respect to what a derivative takes: head, then what was kept."""
    x, u, shared, own = _where_given(bars, kept)
    return *(None,) * 3, *Kept(states=None, u=u, flags=None, shared=shared, own=own, x=x)  # pyright: ignore[reportArgumentType]


def _dots(like: Any, dots: Any) -> list[Any]:
    """Return directions, zero where they are missing and the input is not."""
    return [
        torch.zeros_like(x) if dot is None and x is not None else dot
        for x, dot in zip(like, dots, strict=True)
    ]


def _push(ctx: Any, *dots: Any) -> tuple[Any, ...]:
    """Return the derivatives of the outputs of a node along directions in its inputs."""
    kept, start, _ = _kept(ctx)
    dx = _joined(_dots(start, dots[3:6]), start)
    along = (dx, *_dots((kept.u, kept.shared, kept.own), dots[6:]))
    x = _Pushed.apply(*_head(ctx), *kept, *along)
    none = x.new_empty((*x.shape[:-1], 0))
    return *(none if part is None else part for part in _parts(x, start)), None


class _Node(Function):
    """A rollout, and its derivatives in both modes."""

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        return _pull(ctx, *grad_outputs)

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        return _push(ctx, *grad_inputs)


class _FeatherbackRollout(_Node):
    """A rollout, outside of transformations."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Any:
        output = ops.rollout(bridge_of(inputs[0]).handle, *inputs[1:])
        ctx.mark_non_differentiable(output[3])
        kept = _keep(ctx, inputs, output)
        if _dual_level():
            ctx.save_for_forward(*kept)
        return output


class _FeatherbackTransformed(_Node):
    """A rollout inside of the transformations of `torch.func`."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*inputs: Any) -> Any:
        return ops.rollout(bridge_of(inputs[0]).handle, *inputs[1:])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(output[3])
        ctx.save_for_forward(*_keep(ctx, inputs, output))


class _Derivative(Function):
    """A derivative that is itself part of a graph.

    It takes what a node kept, so states besides the inputs they come from; these have the gradient.
    """

    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.head = inputs[:3]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[3:])
        ctx.save_for_forward(*inputs[3:])


def _parted(tensors: Any) -> tuple[Kept, Any]:
    """Return what a node kept, and what follows it."""
    count = len(Kept._fields)
    return Kept(*tensors[:count]), tensors[count:]


class _Pulled(_Derivative):
    """A gradient g(x, b) = J(x)^T b: along w, its derivative is H(b) w, and b has J(x) w."""

    @staticmethod
    def forward(*inputs: Any) -> Any:
        kept, (x_bar,) = _parted(inputs[3:])
        return ops.rollout_vjp(*inputs[:3], *kept.taken, x_bar)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        kept, (x_bar,) = _parted(ctx.saved_tensors)
        w = _dots(kept.inputs, grad_outputs)
        none = torch.zeros_like(x_bar)
        bars = last(NO_THIRD, ops.rollout_hvp, *ctx.head, *kept.taken, x_bar, *w, none)
        pushed = last(NO_THIRD, ops.rollout_jvp, *ctx.head, *kept.taken, *w)
        return *_of_kept(bars, kept), pushed

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        kept, (x_bar,) = _parted(ctx.saved_tensors)
        dots, (dx_bar,) = _parted(grad_inputs[3:])
        along = _dots(kept.inputs, dots.inputs)
        (bar,) = _dots((x_bar,), (dx_bar,))
        return last(NO_THIRD, ops.rollout_hvp, *ctx.head, *kept.taken, x_bar, *along, bar)


class _Pushed(_Derivative):
    """A derivative along a direction, d(x, w) = J(x) w: b has H(b) w for x, and J(x)^T b for w."""

    @staticmethod
    def forward(*inputs: Any) -> Any:
        kept, along = _parted(inputs[3:])
        return ops.rollout_jvp(*inputs[:3], *kept.taken, *along)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        kept, w = _parted(ctx.saved_tensors)
        (bar,) = _dots((kept.states,), grad_outputs)
        none = torch.zeros_like(kept.states)
        curved = last(NO_THIRD, ops.rollout_hvp, *ctx.head, *kept.taken, bar, *w, none)
        pulled = last(NO_THIRD, ops.rollout_vjp, *ctx.head, *kept.taken, bar)
        return *_of_kept(curved, kept), *_where_given(pulled, kept)

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        raise FeatherbackError(NO_THIRD)


class _Last(Function):
    """The last derivative there is: it runs an operator, and refuses to be differentiated."""

    generate_vmap_rule = True

    @staticmethod
    def forward(sentence: str, operator: Any, *inputs: Any) -> Any:
        return operator(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.sentence = inputs[0]

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise FeatherbackError(ctx.sentence)

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        raise FeatherbackError(ctx.sentence)


last: Any = _Last.apply


def _keep_traced(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    """Keep what the gradient of the compiler's operator needs."""
    _keep(ctx, inputs, output)


torch.library.register_autograd(
    "featherback::rollout_traced", _pull, setup_context=_keep_traced, lib=library
)
