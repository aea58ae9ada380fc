"""The operators: tensors and numbers in, tensors out, and what torch must know of each.

An operator sees one rollout, of one world or of many, with a world axis or without one; controls
may lack it, and are then shared. States are parts where it is entered, q, v, and "act" for all that
follows, and flat rows x = (q, v, act, warm) in its derivatives. The kinds STEP and LOOP have one
step, and neither controls nor states have an axis for it. Parameters come flat, one after the
other: `shared` real[n], and `own` real[worlds, n] where each world has its own; `names` holds their
names, with commas between them and a semicolon between the two. A simulator is known by its handle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from featherback._typing import Real
from featherback.errors import ParameterError
from featherback.sim import bridge as sim_bridge
from featherback.sim.bridge import Bars, Bridge, Replay, Trajectory
from featherback.torch.on_device import (
    DeviceTask,
    refuse_nonfinite_inputs,
    require_finite_states,
)
from featherback.torch.operators import define

# a rollout, a single step, and a step of a closed loop, whose state may have gone wrong before
ROLLOUT, STEP, LOOP = 0, 1, 2
WHERE = tuple(f"featherback.torch.{name}()" for name in ("rollout", "step", "closed_loop"))


def as_array(x: Tensor) -> Real:
    """Return a tensor's numbers, contiguous; shared with it where it is, and on the processor."""
    x = x.detach() if x.requires_grad else x
    return np.ascontiguousarray((x if x.is_cpu else x.cpu()).numpy())


def as_tensor(x: NDArray[Any]) -> Tensor:
    """Return a tensor that shares a fresh array."""
    return torch.from_numpy(np.ascontiguousarray(x))


def split_names(names: str) -> tuple[list[str], list[str]]:
    """Return the names of shared and of own parameters."""
    shared, _, own = names.partition(";")
    return shared.split(",") if shared else [], own.split(",") if own else []


def cut_params(
    bridge: Bridge, names: tuple[list[str], list[str]], packs: Sequence[Tensor | None]
) -> dict[str, Any]:
    """Return flat parameters, shared and own, as arrays by name."""
    out: dict[str, Any] = {}
    for pack, part in zip(packs, names, strict=True):
        if pack is None:
            continue
        array, at = as_array(pack), 0
        for name in part:
            shape = bridge.shapes[name]
            size = int(np.prod(shape))
            out[name] = array[..., at : at + size].reshape(*array.shape[:-1], *shape)
            at += size
    return out


def join_params(
    params: dict[str, Real], names: list[str], worlds: int | None, dtype: np.dtype[Any]
) -> Tensor:
    """Return arrays by name as flat parameters, those of each world in a row."""
    lead = () if worlds is None else (worlds,)
    parts = [params[name].reshape(*lead, -1) for name in names]
    return as_tensor(np.concatenate(parts, -1) if parts else np.empty(0, dtype))


class Task:
    """One rollout in the engine's layout: a world axis and a step axis everywhere.

    Attributes:
        bridge: of the simulator.
        x: real[worlds, nx] or real[worlds, steps + 1, nx].
        u: real[(worlds,) steps, nu], or None where the model has no controls.
        steps: number of steps.
        theta: all parameters, or None for the simulator's own.
    """

    def __init__(self, head: Any, states: Real, u: Tensor, packs: Any, axes: int) -> None:
        """Read the first state or all, which has so many axes besides worlds, and the rest."""
        handle, names, self.kind = head
        self.bridge = sim_bridge.bridge_of_handle(handle)
        self.where, self.one = WHERE[self.kind], self.kind != ROLLOUT
        controls = as_array(u)
        self.batched = states.ndim > axes
        self.x = states if self.batched else states[None]
        controls = controls[..., None, :] if self.one else controls
        self.steps, self.u_shared = controls.shape[-2], controls.ndim == 2
        self.u = controls if controls.shape[-1] else None
        self.names: tuple[list[str], list[str]] = ([], [])
        self.theta = None
        if names:
            self.names = split_names(names)
            worlds = len(self.x) if self.batched else None
            self.theta, _ = self.bridge.read_params(self.where, self.cut(packs), worlds)

    def cut(self, packs: Sequence[Tensor | None]) -> dict[str, Any]:
        """Return flat parameters, shared and own, as arrays by name."""
        return cut_params(self.bridge, self.names, packs)

    def join(self, params: dict[str, Real], own: bool) -> Tensor:
        """Return arrays by name as flat parameters, shared or own."""
        return join_params(params, self.names[own], len(self.x) if own else None, self.x.dtype)

    def out(self, x: NDArray[Any]) -> Tensor:
        """Return a result without the world axis where the inputs had none."""
        return torch.from_numpy(np.ascontiguousarray(x if self.batched else x[0]))

    def last(self, x: Real) -> Tensor:
        """Return states, only the last where there is one step."""
        return self.out(x[:, 1] if self.one else x)

    def rows(self, x: Tensor) -> Real:
        """Return an array with a world axis, and a step axis where there is one step."""
        array = as_array(x)
        array = array if self.batched else array[None]
        return array[:, None] if self.one else array

    def path(
        self, x: Real, u: Real | None, given: dict[str, Any], first_step: int = 0
    ) -> Trajectory:
        """Return states as the engine takes them; of a single step only the first is given."""
        if self.one:
            # derivatives compute the next state themselves
            x = np.repeat(x[:, None], 2, axis=1)
        plan = sim_bridge.Schedule.all(x.shape[1] - 1)
        layout = self.bridge.layout
        return Trajectory(layout, x, u, plan, self.theta, given, self.batched, first_step)

    def replay(self, packs: Sequence[Tensor | None]) -> Replay:
        """Return the rollout whose states were given, to be differentiated."""
        shapes = {name: a.shape for name, a in self.cut(packs).items()}
        return self.bridge.replay(self.path(self.x, self.u, shapes))

    def direction(self, dx: Tensor, du: Tensor, *packs: Tensor | None) -> Any:
        """Return a direction in the first state, in the controls and in the parameters."""
        start, controls = as_array(dx), as_array(du)
        start = start if self.batched else start[None]
        along = (controls[..., None, :] if self.one else controls) if self.u is not None else None
        worlds = len(self.x) if self.batched else None
        return start, along, self.bridge.read_direction(self.where, self.cut(packs), worlds)

    def bars(self, found: Bars) -> tuple[Tensor, ...]:
        """Return derivatives with respect to x, u and the parameters, in their shapes."""
        u = found.u[:, 0] if self.one else found.u
        u = u.sum(axis=0) if self.u_shared and self.batched else u
        u = u if self.batched else u[0]
        rest = (self.join(found.params, own) for own in (False, True))
        return self.out(found.x), as_tensor(u), *rest


def _rollout(sim: str, names: str, kind: int, *tensors: Any) -> tuple[Tensor, ...]:
    """Roll out; return q, v, act and flags, or, where only q is given, flat states in its place."""
    *state, u, shared, own = tensors
    device = on_device(sim, names, kind)
    if device is not None:
        return _rollout_on_device(device, kind, state, (u, shared, own))
    x = np.concatenate([as_array(part) for part in state if part is not None], -1)
    task = Task((sim, names, kind), x, u, (shared, own), 1)
    sim_bridge.refuse_too_large(task.where, "states", (task.steps + 1) * task.x.nbytes, advice="")
    states, found = task.bridge.states(task.x, task.u, task.steps, task.theta)
    flags = np.empty((len(x) if task.batched else 1, 2), np.int32)
    flags[:, 0], flags[:, 1] = found
    carried = task.bridge.layout.warm(task.x)
    if kind != LOOP and (np.count_nonzero(found.status) or not np.isfinite(carried).all()):
        _refuse_nonfinite_inputs(task)
    rows, (q, v, _) = states[:, 1] if task.one else states, state
    first = q.shape[-1]
    second = first + (0 if v is None else v.shape[-1])
    parts = (rows[..., :first], rows[..., first:second], rows[..., second:])
    return *(task.out(part) for part in parts), task.out(flags)


def on_device(sim: str, names: str, kind: int) -> Any:
    """Return the head of a task on the GPU, None where the simulator runs on the processor."""
    bridge = sim_bridge.bridge_of_handle(sim)
    return (
        None if bridge.gpu is None else (bridge, WHERE[kind], split_names(names), kind != ROLLOUT)
    )


def _rollout_on_device(
    head: Any, kind: int, state: Sequence[Tensor | None], rest: tuple[Any, ...]
) -> tuple[Tensor, ...]:
    """Roll out tensors that lie on the simulator's GPU."""
    u, *packs = rest
    x = torch.cat([part.detach() for part in state if part is not None], -1)
    task = DeviceTask(head, x, u, packs, 1)
    states, flags = task.states(task.x, task.u)
    carried = task.bridge.layout.warm(task.x)
    if kind != LOOP and bool(flags[:, 0].any() | ~torch.isfinite(carried).all()):
        refuse_nonfinite_inputs(task.where, task.bridge, task.x, task.u)
    rows = states[:, 1] if task.one else states
    sizes = [0 if part is None else part.shape[-1] for part in state]
    parts = rows.split_with_sizes([*sizes[:2], rows.shape[-1] - sum(sizes[:2])], -1)
    return *(task.out(part) for part in parts), task.out(flags)


def _rollout_vjp_on_device(head: Any, kept: Sequence[Any], bar: Tensor) -> tuple[Tensor, ...]:
    """Pull derivatives with respect to states back to the inputs, on the simulator's GPU."""
    x, u, flags, *packs = kept
    task = DeviceTask(head, x, u, packs, 1 if head[3] else 2)
    states = task.x[:, None] if task.one else task.x
    require_finite_states(task.where, task.bridge, states, flags.reshape(-1, 2))
    x_bar = task.rows(bar)
    if not bool(torch.isfinite(x_bar).all()):
        _refuse_nonfinite_bars(task.where, task.bridge, as_array(x_bar))
    return task.bars(task.vjp(task.x, task.u, x_bar))


def _refuse_nonfinite_inputs(task: Task) -> None:
    """Refuse a NaN or infinity that the caller gave; one that arises on the way is a status."""
    layout = task.bridge.layout
    parts = dict(zip(("q", "v", "act"), layout.parts(task.x), strict=False))
    for name, array in {**parts, "warm": layout.warm(task.x), "u": task.u}.items():
        if array is not None and not np.isfinite(array).all():
            raise ParameterError(
                f"{task.where}: {name} holds a NaN or infinity; give finite numbers."
            )


def _started(head: Any, x: Tensor, u: Tensor, flags: Tensor, *packs: Any) -> tuple[Task, Replay]:
    """Return a rollout to be differentiated from its states, controls, flags and parameters."""
    task = Task(head, as_array(x), u, packs, 1 if head[2] else 2)
    replay = task.replay(packs)
    marks: Any = as_array(flags).reshape(-1, 2)
    found = sim_bridge.WorldStatus(marks[:, 0].astype(np.uint32), marks[:, 1])
    sim_bridge.require_finite_states(task.where, replay.path, found)
    return task, replay


def _rollout_vjp(sim: str, names: str, kind: int, *tensors: Any) -> Any:
    """Pull derivatives with respect to states back to the inputs."""
    *kept, bar = tensors
    device = on_device(sim, names, kind)
    if device is not None:
        return _rollout_vjp_on_device(device, kept, bar)
    task, replay = _started((sim, names, kind), *kept)
    x_bar = task.rows(bar)
    _refuse_nonfinite_bars(task.where, task.bridge, x_bar)
    return task.bars(replay.vjp(task.where, lambda first, x: x_bar))


def _refuse_nonfinite_bars(where: str, bridge: Bridge, x_bar: Real) -> None:
    """Refuse a NaN or infinity in the derivative of a loss."""
    parts = () if np.isfinite(x_bar).all() else bridge.layout.parts(x_bar)
    for name, part in zip(("q", "v", "act"), parts, strict=False):
        if not np.isfinite(part).all():
            raise ParameterError(
                f"{where}: the derivative of the loss with respect to the states {name} holds "
                "a NaN or infinity; look for one in what was computed from them."
            )


def _rollout_jvp(sim: str, names: str, kind: int, *tensors: Any) -> Tensor:
    """Push directions in the inputs forward to the states."""
    x, u, flags, shared, own, *dots = tensors
    task, replay = _started((sim, names, kind), x, u, flags, shared, own)
    return task.last(replay.jvp(task.where, *task.direction(*dots)))


def _rollout_hvp(sim: str, names: str, kind: int, *tensors: Any) -> Any:
    """Return the derivative of `_rollout_vjp` along a direction."""
    x, u, flags, shared, own, x_bar, *dots, dx_bar = tensors
    task, replay = _started((sim, names, kind), x, u, flags, shared, own)
    start, du, dtheta = task.direction(*dots)
    x_dot = replay.jvp(task.where, start, du, dtheta)
    cotangents = (task.rows(x_bar), task.rows(dx_bar))
    return task.bars(replay.hvp(task.where, cotangents, x_dot, du, dtheta))


def _rollout_fake(sim: str, names: str, kind: int, *tensors: Any) -> Any:
    """Return empty results of `_rollout`."""
    q, v, act, u, *_ = tensors
    lead = (*q.shape[:-1], *(() if kind else (u.shape[-2] + 1,)))
    sizes = (0 if part is None else part.shape[-1] for part in (q, v, act))
    flags = q.new_empty((*q.shape[:-1], 2), dtype=torch.int32)
    return *(q.new_empty((*lead, n)) for n in sizes), flags


def _rollout_vjp_fake(sim: str, names: str, kind: int, *tensors: Any) -> Any:
    """Return empty results of `_rollout_vjp` and `_rollout_hvp`."""
    x, u, _, shared, own, *_ = tensors
    lead = x.shape[: -1 if kind else -2]
    return (
        x.new_empty((*lead, x.shape[-1])),
        u.new_empty(u.shape),
        x.new_empty(0 if shared is None else shared.shape),
        x.new_empty(0 if own is None else own.shape),
    )


def _rollout_jvp_fake(sim: str, names: str, kind: int, x: Tensor, *rest: Any) -> Any:
    """Return empty results of `_rollout_jvp`."""
    return x.new_empty(x.shape)


_HEAD, _KEPT, _DOTS = (
    "str sim, str names, int kind",
    "x u flags shared? own?",
    "dx du dshared? down?",
)
_BARS = "x u shared own"


def _forward(name: str) -> Any:
    """Return the operator of a rollout."""
    given = "q v? act? u shared? own?"
    return define(name, _HEAD, given, "qs vs acts flags", (_rollout, True), _rollout_fake)


# configurations, velocities, activations, and flags int32[(worlds,) 2]
rollout = _forward("rollout")
# the same, with a gradient of its own, for the compiler, which does without nodes of ours
rollout_traced = _forward("rollout_traced")
# derivatives with respect to x, u, shared and own
rollout_vjp = define(
    "rollout_vjp", _HEAD, f"{_KEPT} x_bar", _BARS, (_rollout_vjp, True), _rollout_vjp_fake
)
# derivatives of these along a direction in the inputs and in x_bar
rollout_hvp = define(
    "rollout_hvp",
    _HEAD,
    f"{_KEPT} x_bar {_DOTS} dx_bar",
    _BARS,
    (_rollout_hvp, False),
    _rollout_vjp_fake,
)
# derivatives of the states along a direction
rollout_jvp = define(
    "rollout_jvp", _HEAD, f"{_KEPT} {_DOTS}", "states", (_rollout_jvp, False), _rollout_jvp_fake
)
