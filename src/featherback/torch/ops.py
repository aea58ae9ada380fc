"""The operators: tensors and numbers in, tensors out, and what torch must know of each.

An operator sees one rollout, of one world or of many: q and v both have a world axis or both have
none; controls may lack it, and are then shared. The kinds STEP and LOOP have one step, and neither
their controls nor their states have an axis for it. Parameters come flat, one after the other:
`shared` real[n], and `own` real[worlds, n] where each world has its own; `names` holds their names,
with commas between them and a semicolon between the two. A simulator is known by its handle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from featherback.errors import ParameterError
from featherback.sim.bridge import (
    Bars,
    Bridge,
    Replay,
    Schedule,
    Trajectory,
    WorldStatus,
    bridge_of_handle,
    refuse_too_large,
    require_finite_states,
)

Real = NDArray[np.floating]
Dims = Sequence[int | None]

library = torch.library.Library("featherback", "DEF")
_HEAD = "str sim, str names, int kind"
_STATES = "Tensor q, Tensor v, Tensor u, Tensor flags, Tensor? shared, Tensor? own"
for _name in ("rollout", "rollout_traced"):
    library.define(
        f"{_name}({_HEAD}, Tensor q, Tensor v, Tensor u, Tensor? shared, Tensor? own)"
        " -> (Tensor, Tensor, Tensor)"
    )
library.define(
    f"rollout_vjp({_HEAD}, {_STATES}, Tensor q_bar, Tensor v_bar)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)
library.define(
    f"rollout_hvp({_HEAD}, {_STATES}, Tensor q_bar, Tensor v_bar, Tensor dq, Tensor dv, Tensor du,"
    " Tensor? dshared, Tensor? down, Tensor dq_bar, Tensor dv_bar)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)
library.define(
    f"rollout_jvp({_HEAD}, {_STATES}, Tensor dq, Tensor dv, Tensor du, Tensor? dshared,"
    " Tensor? down) -> (Tensor, Tensor)"
)

# states of q and v, and flags int32[(worlds,) 2]
rollout: Any = torch.ops.featherback.rollout.default
# the same, with a gradient of its own, for the compiler, which does without nodes of ours
rollout_traced: Any = torch.ops.featherback.rollout_traced.default
# derivatives with respect to q, v, u, shared and own
rollout_vjp: Any = torch.ops.featherback.rollout_vjp.default
# derivatives of these along a direction in the inputs and in q_bar and v_bar
rollout_hvp: Any = torch.ops.featherback.rollout_hvp.default
# derivatives of the states of q and v along a direction
rollout_jvp: Any = torch.ops.featherback.rollout_jvp.default


# a rollout, a single step, and a step of a closed loop, whose state may have gone wrong before
ROLLOUT, STEP, LOOP = 0, 1, 2
WHERE = tuple(f"featherback.torch.{name}()" for name in ("rollout", "step", "closed_loop"))


def as_array(x: Tensor) -> Real:
    """Return a tensor's numbers, contiguous; shared with it where it is."""
    return np.ascontiguousarray((x.detach() if x.requires_grad else x).numpy())


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

    Args:
        head: handle of the simulator, names of the parameters, kind.
        point: q and v or states of them, and u.
        packs: parameters, shared and own.
        axes: axes of q and v besides worlds.

    Attributes:
        bridge: of the simulator.
        q: real[worlds, nq] or real[worlds, steps + 1, nq].
        v: likewise.
        u: real[(worlds,) steps, nu], or None where the model has no controls.
        steps: number of steps.
        theta: all parameters, or None for the simulator's own.
    """

    def __init__(self, head: Any, point: Any, packs: Any, axes: int) -> None:
        """Read the tensors; see the class."""
        handle, names, self.kind = head
        self.bridge = bridge_of_handle(handle)
        self.where, self.one = WHERE[self.kind], self.kind != ROLLOUT
        q, v, u = as_array(point[0]), as_array(point[1]), as_array(point[2])
        self.batched = q.ndim > axes
        self.q, self.v = (q, v) if self.batched else (q[None], v[None])
        u = u[..., None, :] if self.one else u
        self.steps, self.u_shared = u.shape[-2], u.ndim == 2
        self.u = u if u.shape[-1] else None
        self.names: tuple[list[str], list[str]] = ([], [])
        self.theta = None
        if names:
            self.names = split_names(names)
            worlds = len(self.q) if self.batched else None
            self.theta, _ = self.bridge.read_params(self.where, self.cut(packs), worlds)

    def cut(self, packs: Sequence[Tensor | None]) -> dict[str, Any]:
        """Return flat parameters, shared and own, as arrays by name."""
        return cut_params(self.bridge, self.names, packs)

    def join(self, params: dict[str, Real], own: bool) -> Tensor:
        """Return arrays by name as flat parameters, shared or own."""
        return join_params(params, self.names[own], len(self.q) if own else None, self.q.dtype)

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

    def replay(self, packs: Sequence[Tensor | None]) -> Replay:
        """Return the rollout whose states were given, to be differentiated."""
        shapes = {name: a.shape for name, a in self.cut(packs).items()}
        return self.bridge.replay(self.path(self.q, self.v, self.u, shapes))

    def path(
        self, q: Real, v: Real, u: Real | None, given: dict[str, Any], first_step: int = 0
    ) -> Trajectory:
        """Return states as the engine takes them; of a single step only the first is given."""
        layout = self.bridge.layout
        x = layout.join(q.shape[:-1], q, v)
        if self.one:
            # derivatives compute the next state themselves
            x = np.repeat(x[:, None], 2, axis=1)
        plan = Schedule.all(x.shape[1] - 1)
        return Trajectory(layout, x, u, plan, self.theta, given, self.batched, first_step)

    def join_states(self, q: Real, v: Real) -> Real:
        """Return flat states, tangents or cotangents from those of q and v."""
        return self.bridge.layout.join(q.shape[:-1], q, v)

    def parts(self, x: Real) -> tuple[Real, Real]:
        """Return q and v of flat states."""
        return self.bridge.layout.q(x), self.bridge.layout.v(x)

    def direction(self, dots: Any) -> Any:
        """Return a direction in the first state, in the controls and in the parameters."""
        dq, dv, du = (as_array(x) for x in dots[:3])
        start = self.join_states(*((dq, dv) if self.batched else (dq[None], dv[None])))
        du = (du[..., None, :] if self.one else du) if self.u is not None else None
        worlds = len(self.q) if self.batched else None
        return start, du, self.bridge.read_direction(self.where, self.cut(dots[3:]), worlds)

    def bars(self, found: Bars) -> tuple[Tensor, ...]:
        """Return derivatives with respect to q, v, u and the parameters, in their shapes."""
        u = found.u[:, 0] if self.one else found.u
        u = u.sum(axis=0) if self.u_shared and self.batched else u
        u = u if self.batched else u[0]
        rest = (self.join(found.params, own) for own in (False, True))
        q, v = self.parts(found.x)
        return self.out(q), self.out(v), as_tensor(u), *rest


def _rollout(sim: str, names: str, kind: int, *tensors: Any) -> Any:
    """Roll out."""
    task = Task((sim, names, kind), tensors[:3], tensors[3:], 1)
    need = (task.steps + 1) * (task.q.nbytes + task.v.nbytes)
    refuse_too_large(task.where, "states", need, advice="")
    start = task.join_states(task.q, task.v)
    x, found = task.bridge.states(start, task.u, task.steps, task.theta)
    flags = np.stack([found.status.astype(np.int32), found.step], -1)
    if kind != LOOP and found.status.any():
        _refuse_nonfinite_inputs(task)
    q, v = task.parts(x)
    return task.last(q), task.last(v), task.out(flags)


def _refuse_nonfinite_inputs(task: Task) -> None:
    """Refuse a NaN or infinity that the caller gave; one that arises on the way is a status."""
    for name, array in (("q", task.q), ("v", task.v), ("u", task.u)):
        if array is not None and not np.isfinite(array).all():
            raise ParameterError(
                f"{task.where}: {name} holds a NaN or infinity; give finite numbers."
            )


def _started(sim: str, names: str, kind: int, tensors: Any) -> tuple[Task, Replay]:
    """Return a rollout to be differentiated from q, v, u, flags and parameters."""
    q, v, u, flags, *packs = tensors
    task = Task((sim, names, kind), (q, v, u), packs, 1 if kind else 2)
    replay = task.replay(packs)
    marks: Any = as_array(flags).reshape(-1, 2)
    found = WorldStatus(marks[:, 0].astype(np.uint32), marks[:, 1])
    require_finite_states(task.where, replay.path, found)
    return task, replay


def _rollout_vjp(sim: str, names: str, kind: int, *tensors: Any) -> Any:
    """Pull derivatives with respect to states back to the inputs."""
    task, replay = _started(sim, names, kind, tensors[:6])
    bars = task.rows(tensors[6]), task.rows(tensors[7])
    for name, bar in zip("qv", bars, strict=True):
        if not np.isfinite(bar).all():
            raise ParameterError(
                f"{task.where}: the derivative of the loss with respect to the states {name} holds "
                "a NaN or infinity; look for one in what was computed from them."
            )
    x_bar = task.join_states(*bars)
    return task.bars(replay.vjp(task.where, lambda first, x: x_bar))


def _rollout_jvp(sim: str, names: str, kind: int, *tensors: Any) -> Any:
    """Push directions in the inputs forward to the states."""
    task, replay = _started(sim, names, kind, tensors[:6])
    q_dot, v_dot = task.parts(replay.jvp(task.where, *task.direction(tensors[6:])))
    return task.last(q_dot), task.last(v_dot)


def _rollout_hvp(sim: str, names: str, kind: int, *tensors: Any) -> Any:
    """Return the derivative of `_rollout_vjp` along a direction."""
    task, replay = _started(sim, names, kind, tensors[:6])
    x_bar, x_bar_dot = (
        task.join_states(task.rows(q_bar), task.rows(v_bar))
        for q_bar, v_bar in (tensors[6:8], tensors[13:15])
    )
    start, du, dtheta = task.direction(tensors[8:13])
    x_dot = replay.jvp(task.where, start, du, dtheta)
    return task.bars(replay.hvp(task.where, (x_bar, x_bar_dot), x_dot, du, dtheta))


def _rollout_fake(sim: str, names: str, kind: int, *tensors: Any) -> Any:
    """Return empty results of `_rollout`."""
    q, v, u = tensors[:3]
    lead = q.shape[:-1]
    middle = () if kind else (u.shape[-2] + 1,)
    return (
        q.new_empty((*lead, *middle, q.shape[-1])),
        v.new_empty((*lead, *middle, v.shape[-1])),
        q.new_empty((*lead, 2), dtype=torch.int32),
    )


def _rollout_vjp_fake(sim: str, names: str, kind: int, *tensors: Any) -> Any:
    """Return empty results of `_rollout_vjp` and `_rollout_hvp`."""
    q, v, u, _, shared, own = tensors[:6]
    lead = q.shape[: -1 if kind else -2]
    return (
        q.new_empty((*lead, q.shape[-1])),
        v.new_empty((*lead, v.shape[-1])),
        u.new_empty(u.shape),
        q.new_empty(0 if shared is None else shared.shape),
        q.new_empty(0 if own is None else own.shape),
    )


def _rollout_jvp_fake(sim: str, names: str, kind: int, *tensors: Any) -> Any:
    """Return empty results of `_rollout_jvp`."""
    q, v = tensors[:2]
    return q.new_empty(q.shape), v.new_empty(v.shape)


class Fold:
    """A batch of vmap laid into the world axis, and results unfolded again.

    Args:
        size: size of the batch.
        worlds: worlds of the operator's inputs; None where they have no world axis.
    """

    def __init__(self, size: int, worlds: int | None) -> None:
        """Note the sizes."""
        self.size, self.worlds = size, worlds

    def put(self, x: Tensor, dim: int | None, own: bool) -> Tensor:
        """Return a tensor with batch and worlds in one leading axis.

        Args:
            x: the tensor.
            dim: its batch axis, or None.
            own: whether it has a world axis besides.
        """
        x = x.expand(self.size, *x.shape) if dim is None else x.movedim(dim, 0)
        if self.worlds is None:
            return x
        x = x if own else x.unsqueeze(1).expand(self.size, self.worlds, *x.shape[1:])
        return x.reshape(self.size * self.worlds, *x.shape[2:])

    def put_packs(self, packs: Sequence[Tensor | None], dims: Dims) -> list[Any]:
        """Return parameters of which each world has its own: the shared ones, then the others."""
        parts = [
            self.put(x, dim, own)
            for x, dim, own in zip(packs, dims, (False, True), strict=True)
            if x is not None
        ]
        return [None, torch.cat(parts, 1) if parts else None]

    def take(self, x: Tensor, own: bool = True) -> Tensor:
        """Return a result with the batch axis first; what all worlds share is summed."""
        if self.worlds is None:
            return x
        x = x.reshape(self.size, self.worlds, *x.shape[1:])
        return x if own else x.sum(1)

    def take_packs(self, pack: Tensor, packs: Any, none: Tensor) -> tuple[Tensor, Tensor]:
        """Return derivatives of shared and own parameters from those of all as own."""
        count = 0 if packs[0] is None else packs[0].shape[-1]
        shared = none if packs[0] is None else self.take(pack[:, :count], own=False)
        return shared, none if packs[1] is None else self.take(pack[:, count:])


def _rank(x: Tensor, dim: int | None) -> int:
    """Return the number of axes besides that of vmap."""
    return x.ndim - (dim is not None)


def fold_of(info: Any, x: Tensor, dim: int | None, axes: int) -> Fold:
    """Return how to fold, from a tensor that has this many axes besides worlds and batch."""
    if _rank(x, dim) == axes:
        return Fold(info.batch_size, None)
    return Fold(info.batch_size, x.shape[1 if dim == 0 else 0])


def all_own(names: str) -> str:
    """Return the names where each world has its own of all parameters."""
    return ";" + ",".join(part for part in names.split(";") if part) if names else ""


def _rollout_vmap(info: Any, dims: Any, sim: str, names: str, kind: int, *tensors: Any) -> Any:
    """Fold a batch of rollouts into worlds."""
    q, v, u, *packs = tensors
    at = dims[3:]
    fold = fold_of(info, q, at[0], 1)
    own = fold.worlds is not None
    q, v = fold.put(q, at[0], own), fold.put(v, at[1], own)
    u_own = _rank(u, at[2]) > (2 - bool(kind))
    u = fold.put(u, at[2], u_own) if u_own or at[2] is not None else u
    if packs[1] is not None or at[3] is not None:
        names, packs = all_own(names), fold.put_packs(packs, at[3:])
    out = rollout(sim, names, kind, q, v, u, *packs)
    return tuple(fold.take(x) for x in out), (0, 0, 0)


def _put_states(fold: Fold, kind: int, tensors: Any, at: Dims) -> tuple[list[Any], bool]:
    """Return q, v, u, flags and parameters of each world, and whether u has a world axis."""
    q, v, u, flags, *packs = tensors
    own, u_own = fold.worlds is not None, _rank(u, at[2]) > (1 if kind else 2)
    states: list[Any] = [fold.put(q, at[0], own), fold.put(v, at[1], own)]
    states += [fold.put(u, at[2], u_own), fold.put(flags, at[3], own)]
    return [*states, *fold.put_packs(packs, at[4:])], u_own


def _put_dots(fold: Fold, u_own: bool, tensors: Any, at: Dims) -> list[Any]:
    """Return directions in q, v, u and parameters of each world."""
    dq, dv, du, *packs = tensors
    own = fold.worlds is not None
    dots = [fold.put(dq, at[0], own), fold.put(dv, at[1], own), fold.put(du, at[2], u_own)]
    return [*dots, *fold.put_packs(packs, at[3:])]


def _take_bars(fold: Fold, out: Any, packs: Any, u_own: bool) -> Any:
    """Return derivatives with respect to inputs; all parameters were given as own."""
    q, v, u, _, pack = out
    rest = fold.take_packs(pack, packs, q.new_empty(fold.size, 0))
    return (fold.take(q), fold.take(v), fold.take(u, u_own), *rest), (0,) * 5


def _rollout_vjp_vmap(info: Any, dims: Any, sim: str, names: str, kind: int, *tensors: Any) -> Any:
    """Fold a batch of gradients into worlds; what is shared is spread, for a gradient each."""
    at = dims[3:]
    fold = fold_of(info, tensors[0], at[0], 1 if kind else 2)
    states, u_own = _put_states(fold, kind, tensors[:6], at[:6])
    own = fold.worlds is not None
    bars = [fold.put(x, d, own) for x, d in zip(tensors[6:], at[6:], strict=True)]
    out = rollout_vjp(sim, all_own(names), kind, *states, *bars)
    return _take_bars(fold, out, tensors[4:6], u_own)


def _rollout_hvp_vmap(info: Any, dims: Any, sim: str, names: str, kind: int, *tensors: Any) -> Any:
    """Fold a batch of derivatives of gradients into worlds."""
    at = dims[3:]
    fold = fold_of(info, tensors[0], at[0], 1 if kind else 2)
    states, u_own = _put_states(fold, kind, tensors[:6], at[:6])
    own = fold.worlds is not None
    dots = _put_dots(fold, u_own, tensors[8:13], at[8:13])
    q_bar, v_bar, *rest = (fold.put(tensors[i], at[i], own) for i in (6, 7, 13, 14))
    out = rollout_hvp(sim, all_own(names), kind, *states, q_bar, v_bar, *dots, *rest)
    return _take_bars(fold, out, tensors[4:6], u_own)


def _rollout_jvp_vmap(info: Any, dims: Any, sim: str, names: str, kind: int, *tensors: Any) -> Any:
    """Fold a batch of directions into worlds."""
    at = dims[3:]
    fold = fold_of(info, tensors[0], at[0], 1 if kind else 2)
    states, u_own = _put_states(fold, kind, tensors[:6], at[:6])
    dots = _put_dots(fold, u_own, tensors[6:], at[6:])
    out = rollout_jvp(sim, all_own(names), kind, *states, *dots)
    return tuple(fold.take(x) for x in out), (0, 0)


for _name, _kernel, _fake, _vmap in (
    ("rollout", _rollout, _rollout_fake, _rollout_vmap),
    ("rollout_traced", _rollout, _rollout_fake, _rollout_vmap),
    ("rollout_vjp", _rollout_vjp, _rollout_vjp_fake, _rollout_vjp_vmap),
    ("rollout_hvp", _rollout_hvp, _rollout_vjp_fake, _rollout_hvp_vmap),
    ("rollout_jvp", _rollout_jvp, _rollout_jvp_fake, _rollout_jvp_vmap),
):
    library.impl(_name, _kernel, "CPU")
    torch.library.register_fake(f"featherback::{_name}", _fake, lib=library)
    torch.library.register_vmap(f"featherback::{_name}", _vmap, lib=library)
