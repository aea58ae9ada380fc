"""What a model tells besides its motion, as functions of tensors, with gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from featherback.errors import FeatherbackError
from featherback.sim import Simulator
from featherback.sim.bridge import (
    bridge_of,
    bridge_of_handle,
    evaluate,
    evaluate_vjp,
    output_shape,
)
from featherback.torch import ops
from featherback.torch.inputs import (
    check_rows,
    check_simulator,
    check_tensor,
    pack_params,
    same_worlds,
)

Params = Mapping[str, Tensor]

# places, and turns after them in a row of twelve
POSES = ("body_poses", "site_poses")
NO_SECOND = (
    "featherback.torch: outputs have a first derivative in reverse mode only; for forward mode or "
    "second derivatives take differences of gradients."
)

_STATE = "str sim, str job, str names, Tensor q, Tensor? v, Tensor? x, Tensor? shared, Tensor? own"
for _name in ("output", "output_traced"):
    ops.library.define(f"{_name}({_STATE}) -> Tensor")
ops.library.define(
    f"output_vjp({_STATE}, Tensor y_bar) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)
_output: Any = torch.ops.featherback.output.default
_output_traced: Any = torch.ops.featherback.output_traced.default
_output_vjp: Any = torch.ops.featherback.output_vjp.default


def body_poses(sim: Simulator, q: Tensor, params: Params | None = None) -> tuple[Tensor, Tensor]:
    """Return positions real[..., nbody, 3] and rotation matrices real[..., nbody, 3, 3].

    Args:
        sim: the simulator, whose number type all tensors have.
        q: real[..., nq], configurations; all axes but the last are kept.
        params: tensors that replace the simulator's parameters, by name, in their own shape, or
            with a leading world axis where q has that one besides its last.
    """
    return _split(_evaluate("body_poses", sim, {"q": q}, params))


def site_poses(sim: Simulator, q: Tensor, params: Params | None = None) -> tuple[Tensor, Tensor]:
    """Return positions real[..., nsite, 3] and rotation matrices; see `body_poses`."""
    return _split(_evaluate("site_poses", sim, {"q": q}, params))


def site_positions(sim: Simulator, q: Tensor, params: Params | None = None) -> Tensor:
    """Return the positions of all sites in the world, real[..., nsite, 3]; see `body_poses`."""
    return _evaluate("site_positions", sim, {"q": q}, params)


def center_of_mass(sim: Simulator, q: Tensor, params: Params | None = None) -> Tensor:
    """Return the centre of mass of the whole model, real[..., 3]; see `body_poses`."""
    return _evaluate("center_of_mass", sim, {"q": q}, params)


def mass_matrix(sim: Simulator, q: Tensor, params: Params | None = None) -> Tensor:
    """Return M(q), real[..., nv, nv], armature included; see `body_poses`."""
    return _evaluate("mass_matrix", sim, {"q": q}, params)


def bias(sim: Simulator, q: Tensor, v: Tensor, params: Params | None = None) -> Tensor:
    """Return c(q, v), real[..., nv]: gravity, Coriolis and centrifugal terms; see `body_poses`."""
    return _evaluate("bias", sim, {"q": q, "v": v}, params)


def forward_dynamics(
    sim: Simulator, q: Tensor, v: Tensor, tau: Tensor, params: Params | None = None
) -> Tensor:
    """Return the acceleration a of M a + c = tau, without springs, damping and contact."""
    return _evaluate("forward_dynamics", sim, {"q": q, "v": v, "tau": tau}, params)


def inverse_dynamics(
    sim: Simulator, q: Tensor, v: Tensor, a: Tensor, params: Params | None = None
) -> Tensor:
    """Return tau = M a + c, real[..., nv]."""
    return _evaluate("inverse_dynamics", sim, {"q": q, "v": v, "a": a}, params)


def _split(poses: Tensor) -> tuple[Tensor, Tensor]:
    """Return places and turns of rows of twelve numbers."""
    return poses[..., :3], poses[..., 3:].unflatten(-1, (3, 3))


def _evaluate(job: str, sim: Simulator, inputs: dict[str, Tensor], params: Any) -> Tensor:
    """Check tensors, bring them to one world axis at most, and evaluate."""
    where = f"featherback.torch.{job}()"
    known = check_simulator(where, sim)
    q = check_tensor(where, "q", inputs["q"], known.dtype)
    lead = tuple(q.shape[:-1]) if q.ndim > 2 else None
    flat: dict[str, Tensor] = {}
    for name, x in inputs.items():
        check_tensor(where, name, x, known.dtype)
        same = lead is not None and tuple(x.shape[:-1]) == lead
        flat[name] = x.flatten(0, -2) if same else x
    counts = {
        name: check_rows(where, name, x, known.nq if name == "q" else known.nv, known.model)
        for name, x in flat.items()
    }
    worlds = same_worlds(where, counts)
    names, *packs = pack_params(where, params, sim, worlds, moves=False)
    spread = [x if worlds is None else x.expand(worlds, x.shape[-1]) for x in flat.values()]
    q, v, x = (*spread, None, None)[:3]
    if torch.compiler.is_compiling():
        y = _output_traced(known.handle, job, names, q, v, x, *packs)
    else:
        y = _FeatherbackOutput.apply(sim, job, names, q, v, x, *packs)
    return y if lead is None else y.unflatten(0, lead)


def _kernel(handle: str, job: str, names: str, *tensors: Any) -> Tensor:
    """Evaluate an output."""
    bridge = bridge_of_handle(handle)
    inputs = tuple(ops.as_array(x) for x in tensors[:3] if x is not None)
    params = ops.cut_params(bridge, ops.split_names(names), tensors[3:])
    y = evaluate(f"{job}()", bridge, job, inputs, params)
    if job in POSES:
        return ops.as_tensor(np.concatenate([y[0], y[1].reshape(*y[1].shape[:-2], 9)], -1))
    return ops.as_tensor(y[0])


def _kernel_vjp(handle: str, job: str, names: str, *tensors: Any) -> Any:
    """Pull the derivative with respect to an output back to its inputs."""
    bridge = bridge_of_handle(handle)
    given, packs, y_bar = tensors[:3], tensors[3:5], ops.as_array(tensors[5])
    inputs = [ops.as_array(x) for x in given if x is not None]
    parts = ops.split_names(names)
    params = ops.cut_params(bridge, parts, packs)
    bars = [y_bar]
    if job in POSES:
        bars = [y_bar[..., :3], y_bar[..., 3:].reshape(*y_bar.shape[:-1], 3, 3)]
    found = evaluate_vjp(f"{job}_vjp()", bridge, job, (*inputs, *bars), params)
    third = found.a if found.tau is None else found.tau
    none = np.empty(0, bridge.layout.dtype)
    states = (none if a is None else a for a in (found.q, found.v, third))
    worlds = len(inputs[0]) if inputs[0].ndim == 2 else None
    rest = (
        ops.join_params(found.params, parts[own], worlds if own else None, none.dtype)
        for own in (0, 1)
    )
    return *(ops.as_tensor(a) for a in states), *rest


def _fake(handle: str, job: str, names: str, *tensors: Any) -> Tensor:
    """Return an empty output."""
    q = tensors[0]
    return q.new_empty((*q.shape[:-1], *output_shape(bridge_of_handle(handle).model, job)))


def _fake_vjp(handle: str, job: str, names: str, *tensors: Any) -> Any:
    """Return empty derivatives."""
    return tuple(tensors[0].new_empty(0 if x is None else x.shape) for x in tensors[:5])


def _put(fold: ops.Fold, tensors: Any, at: Any) -> list[Any]:
    """Return the state of each world of a batch."""
    own = fold.worlds is not None
    return [None if x is None else fold.put(x, d, own) for x, d in zip(tensors, at, strict=True)]


def _vmap(info: Any, dims: Any, handle: str, job: str, names: str, *tensors: Any) -> Any:
    """Fold a batch of outputs into worlds."""
    at = dims[3:]
    fold = ops.fold_of(info, tensors[0], at[0], 1)
    packs = tensors[3:]
    if packs[1] is not None or at[3] is not None:
        names, packs = ops.all_own(names), fold.put_packs(packs, at[3:])
    y = _output(handle, job, names, *_put(fold, tensors[:3], at[:3]), *packs)
    return fold.take(y), 0


def _vmap_vjp(info: Any, dims: Any, handle: str, job: str, names: str, *tensors: Any) -> Any:
    """Fold a batch of gradients into worlds."""
    at = dims[3:]
    fold = ops.fold_of(info, tensors[0], at[0], 1)
    states = _put(fold, tensors[:3], at[:3])
    packs = tensors[3:5]
    y_bar = fold.put(tensors[5], at[5], fold.worlds is not None)
    spread = fold.put_packs(packs, at[3:5])
    *bars, _, pack = _output_vjp(handle, job, ops.all_own(names), *states, *spread, y_bar)
    none = y_bar.new_empty(fold.size, 0)
    taken = [
        none if x is None else fold.take(bar) for x, bar in zip(tensors[:3], bars, strict=True)
    ]
    return (*taken, *fold.take_packs(pack, packs, none)), (0,) * 5


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Keep the inputs."""
    ctx.sim, ctx.job, ctx.names = inputs[:3]
    ctx.save_for_backward(*inputs[3:])


def _pull(ctx: Any, y_bar: Tensor) -> tuple[Any, ...]:
    """Return the derivatives of the loss with respect to the inputs of an output."""
    kept = ctx.saved_tensors
    handle = ctx.sim if isinstance(ctx.sim, str) else bridge_of(ctx.sim).signature.handle
    once = torch.is_grad_enabled() and not torch.compiler.is_compiling()
    run = _Once.apply if once else _output_vjp
    found = run(handle, ctx.job, ctx.names, *kept, y_bar)
    bars = (None if x is None else bar for x, bar in zip(kept, found, strict=True))
    return None, None, None, *bars


class _FeatherbackOutput(Function):
    """An output as a node of the graph."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*inputs: Any) -> Any:
        return _output(bridge_of(inputs[0]).signature.handle, *inputs[1:])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _keep(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        return _pull(ctx, *grad_outputs)

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        raise FeatherbackError(NO_SECOND)


class _Once(Function):
    """A gradient that refuses to be differentiated."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*inputs: Any) -> Any:
        return _output_vjp(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise FeatherbackError(NO_SECOND)

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        raise FeatherbackError(NO_SECOND)


for _name, _run, _empty, _batch in (
    ("output", _kernel, _fake, _vmap),
    ("output_traced", _kernel, _fake, _vmap),
    ("output_vjp", _kernel_vjp, _fake_vjp, _vmap_vjp),
):
    ops.library.impl(_name, _run, "CPU")
    torch.library.register_fake(f"featherback::{_name}", _empty, lib=ops.library)
    torch.library.register_vmap(f"featherback::{_name}", _batch, lib=ops.library)
torch.library.register_autograd(
    "featherback::output_traced", _pull, setup_context=_keep, lib=ops.library
)
