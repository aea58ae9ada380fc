"""What a model tells besides its motion, as functions of tensors, with gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from featherback.errors import FeatherbackError, ShapeError
from featherback.sim import Simulator
from featherback.sim.bridge import (
    OF_A_STEP,
    bridge_of,
    bridge_of_handle,
    check_law,
    evaluate,
    evaluate_vjp,
    output_shape,
)
from featherback.torch import ops
from featherback.torch.functions import last
from featherback.torch.inputs import (
    check_rows,
    check_simulator,
    check_tensor,
    pack_params,
    same_worlds,
)
from featherback.torch.operators import define, library

Params = Mapping[str, Tensor]

# places, and turns after them in a row of twelve
POSES = ("body_poses", "site_poses")
NO_SECOND = (
    "featherback.torch: outputs have a first derivative in reverse mode only; for forward mode or "
    "second derivatives take differences of gradients."
)


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


def mass_centers(sim: Simulator, q: Tensor, params: Params | None = None) -> Tensor:
    """Return centres of mass, real[..., nbody, 6]: of each body, then of the tree it belongs to."""
    return _evaluate("mass_centers", sim, {"q": q}, params)


def com_inertias(sim: Simulator, q: Tensor, params: Params | None = None) -> Tensor:
    """Return inertias about the trees' centres of mass, real[..., nbody, 10]; MuJoCo's `cinert`."""
    return _evaluate("com_inertias", sim, {"q": q}, params)


def com_velocities(sim: Simulator, q: Tensor, v: Tensor, params: Params | None = None) -> Tensor:
    """Return velocities at the trees' centres of mass, real[..., nbody, 6]; MuJoCo's `cvel`."""
    return _evaluate("com_velocities", sim, {"q": q, "v": v}, params)


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


def contact_forces(
    sim: Simulator,
    q: Tensor,
    v: Tensor,
    u: Tensor | None = None,
    params: Params | None = None,
    *,
    act: Tensor | None = None,
) -> Tensor:
    """Return the forces of the contacts on each body, real[..., nbody, 6].

    Force and torque about the body's centre of mass in the step that starts in this state, as
    `Simulator.contact_forces` returns them; under `contact="mujoco"` only.
    """
    where = "featherback.torch.contact_forces()"
    check_law(where, check_simulator(where, sim), "contact_forces")
    drive = _join_drive(where, sim, q, u, act)
    return _evaluate("contact_forces", sim, {"q": q, "v": v, "drive": drive}, params)


def _join_drive(
    where: str, sim: Simulator, q: Tensor, u: Tensor | None, act: Tensor | None
) -> Tensor:
    """Return activations and controls side by side."""
    bridge = check_simulator(where, sim)
    na, nu = bridge.layout.na, bridge.layout.nu
    check_tensor(where, "q", q, bridge)
    if act is not None and not na:
        raise ShapeError(
            f'{where}: act is given, but model "{sim.model.name}" has no activations; leave it out.'
        )
    parts: list[Tensor] = []
    for name, x, n in (("act", act, na), ("u", u, nu)):
        part = q.new_zeros(n) if x is None else check_tensor(where, name, x, bridge)
        if part.shape[-1:] != (n,):
            raise ShapeError(
                f"{where}: {name} has shape {tuple(part.shape)}; expected ({n},) or (worlds, {n}) "
                f'for model "{sim.model.name}".'
            )
        parts.append(part)
    if not na:
        return parts[1]
    lead = torch.broadcast_shapes(*(x.shape[:-1] for x in parts))
    return torch.cat([x.expand(*lead, x.shape[-1]) for x in parts], -1)


def _split(poses: Tensor) -> tuple[Tensor, Tensor]:
    """Return places and turns of rows of twelve numbers."""
    return poses[..., :3], poses[..., 3:].unflatten(-1, (3, 3))


def _evaluate(job: str, sim: Simulator, inputs: dict[str, Tensor], params: Any) -> Tensor:
    """Check tensors, bring them to one world axis at most, and evaluate."""
    where = f"featherback.torch.{job}()"
    bridge = check_simulator(where, sim)
    q = check_tensor(where, "q", inputs["q"], bridge)
    lead = tuple(q.shape[:-1]) if q.ndim > 2 else None
    flat: dict[str, Tensor] = {}
    for name, x in inputs.items():
        check_tensor(where, name, x, bridge)
        same = lead is not None and tuple(x.shape[:-1]) == lead
        flat[name] = x.flatten(0, -2) if same else x
    worlds = same_worlds(
        where, {k: check_rows(where, k, x, bridge.layout) for k, x in flat.items()}
    )
    names, *packs = pack_params(where, params, sim, worlds, moves=job in OF_A_STEP)
    spread = [x if worlds is None else x.expand(worlds, x.shape[-1]) for x in flat.values()]
    q, v, x = (*spread, None, None)[:3]
    if torch.compiler.is_compiling():
        y = _output_traced(bridge.handle, names, job, q, v, x, *packs)
    else:
        y = _FeatherbackOutput.apply(sim, names, job, q, v, x, *packs)
    return y if lead is None else y.unflatten(0, lead)


def _kernel(handle: str, names: str, job: str, *tensors: Any) -> Tensor:
    """Evaluate an output."""
    bridge = bridge_of_handle(handle)
    inputs = tuple(ops.as_array(x) for x in tensors[:3] if x is not None)
    params = ops.cut_params(bridge, ops.split_names(names), tensors[3:])
    y = evaluate(f"{job}()", bridge, job, inputs, params)
    if job in POSES:
        return ops.as_tensor(np.concatenate([y[0], y[1].reshape(*y[1].shape[:-2], 9)], -1))
    return ops.as_tensor(y[0])


def _kernel_vjp(handle: str, names: str, job: str, *tensors: Any) -> Any:
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
    if found.u is not None:
        third = found.u if found.act is None else np.concatenate([found.act, found.u], -1)
    none = np.empty(0, bridge.layout.dtype)
    states = (none if a is None else a for a in (found.q, found.v, third))
    worlds = len(inputs[0]) if inputs[0].ndim == 2 else None
    rest = (
        ops.join_params(found.params, parts[own], worlds if own else None, none.dtype)
        for own in (0, 1)
    )
    return *(ops.as_tensor(a) for a in states), *rest


def _fake(handle: str, names: str, job: str, *tensors: Any) -> Tensor:
    """Return an empty output."""
    q = tensors[0]
    return q.new_empty((*q.shape[:-1], *output_shape(bridge_of_handle(handle).model, job)))


def _fake_vjp(handle: str, names: str, job: str, *tensors: Any) -> Any:
    """Return empty derivatives."""
    return tuple(tensors[0].new_empty(0 if x is None else x.shape) for x in tensors[:5])


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Keep the inputs."""
    ctx.sim, ctx.names, ctx.job = inputs[:3]
    ctx.save_for_backward(*inputs[3:])


def _pull(ctx: Any, y_bar: Tensor) -> tuple[Any, ...]:
    """Return the derivatives of the loss with respect to the inputs of an output."""
    kept = ctx.saved_tensors
    handle = ctx.sim if isinstance(ctx.sim, str) else bridge_of(ctx.sim).handle
    given = (handle, ctx.names, ctx.job, *kept, y_bar)
    once = torch.is_grad_enabled() and not torch.compiler.is_compiling()
    found = last(NO_SECOND, _output_vjp, *given) if once else _output_vjp(*given)
    bars = (None if x is None else bar for x, bar in zip(kept, found, strict=True))
    return None, None, None, *bars


class _FeatherbackOutput(Function):
    """An output as a node of the graph."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*inputs: Any) -> Any:
        return _output(bridge_of(inputs[0]).handle, *inputs[1:])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _keep(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        return _pull(ctx, *grad_outputs)

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        raise FeatherbackError(NO_SECOND)


def _define(name: str) -> Any:
    """Return the operator of outputs."""
    return define(name, _HEAD, _INPUTS, "y", (_kernel, False), _fake)


_HEAD, _INPUTS = "str sim, str names, str job", "q v? third? shared? own?"
_output, _output_traced = _define("output"), _define("output_traced")
_output_vjp = define(
    "output_vjp",
    _HEAD,
    f"{_INPUTS} y_bar",
    "q v third shared own",
    (_kernel_vjp, False),
    _fake_vjp,
)
torch.library.register_autograd(
    "featherback::output_traced", _pull, setup_context=_keep, lib=library
)
