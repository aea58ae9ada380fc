"""The operators: tensors and numbers in, tensors out, and what torch must know of each.

An operator sees one rollout, of one world or of many, on flat states x = (q, v, act), with a world
axis or without one; controls may lack it, and are then shared. The kinds STEP and LOOP have one
step, and neither their controls nor their states have an axis for it. Parameters come flat, one
after the other: `shared` real[n], and `own` real[worlds, n] where each world has its own; `names`
holds their names, with commas between them and a semicolon between the two. A simulator is known by
its handle.
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
_STATES = "Tensor x, Tensor u, Tensor flags, Tensor? shared, Tensor? own"
_DOTS = "Tensor dx, Tensor du, Tensor? dshared, Tensor? down"
_BARS = "(Tensor, Tensor, Tensor, Tensor)"
for _name in ("rollout", "rollout_traced"):
    library.define(
        f"{_name}({_HEAD}, Tensor x, Tensor u, Tensor? shared, Tensor? own) -> (Tensor, Tensor)"
    )
library.define(f"rollout_vjp({_HEAD}, {_STATES}, Tensor x_bar) -> {_BARS}")
library.define(f"rollout_hvp({_HEAD}, {_STATES}, Tensor x_bar, {_DOTS}, Tensor dx_bar) -> {_BARS}")
library.define(f"rollout_jvp({_HEAD}, {_STATES}, {_DOTS}) -> Tensor")

# states, and flags int32[(worlds,) 2]
rollout: Any = torch.ops.featherback.rollout.default
# the same, with a gradient of its own, for the compiler, which does without nodes of ours
rollout_traced: Any = torch.ops.featherback.rollout_traced.default
# derivatives with respect to x, u, shared and own
rollout_vjp: Any = torch.ops.featherback.rollout_vjp.default
# derivatives of these along a direction in the inputs and in x_bar
rollout_hvp: Any = torch.ops.featherback.rollout_hvp.default
# derivatives of the states along a direction
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
        x: the first state, or all states.
        u: the controls.
        packs: parameters, shared and own.
        axes: axes of x besides worlds.

    Attributes:
        bridge: of the simulator.
        x: real[worlds, nx] or real[worlds, steps + 1, nx].
        u: real[(worlds,) steps, nu], or None where the model has no controls.
        steps: number of steps.
        theta: all parameters, or None for the simulator's own.
    """

    def __init__(self, head: Any, x: Tensor, u: Tensor, packs: Any, axes: int) -> None:
        """Read the tensors; see the class."""
        handle, names, self.kind = head
        self.bridge = bridge_of_handle(handle)
        self.where, self.one = WHERE[self.kind], self.kind != ROLLOUT
        states, controls = as_array(x), as_array(u)
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
        plan = Schedule.all(x.shape[1] - 1)
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


def _rollout(
    sim: str, names: str, kind: int, x: Tensor, u: Tensor, *packs: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Roll out."""
    task = Task((sim, names, kind), x, u, packs, 1)
    refuse_too_large(task.where, "states", (task.steps + 1) * task.x.nbytes, advice="")
    states, found = task.bridge.states(task.x, task.u, task.steps, task.theta)
    flags = np.stack([found.status.astype(np.int32), found.step], -1)
    if kind != LOOP and found.status.any():
        _refuse_nonfinite_inputs(task)
    return task.last(states), task.out(flags)


def _refuse_nonfinite_inputs(task: Task) -> None:
    """Refuse a NaN or infinity that the caller gave; one that arises on the way is a status."""
    parts = dict(zip(("q", "v", "act"), task.bridge.layout.parts(task.x), strict=False))
    for name, array in {**parts, "u": task.u}.items():
        if array is not None and not np.isfinite(array).all():
            raise ParameterError(
                f"{task.where}: {name} holds a NaN or infinity; give finite numbers."
            )


def _started(head: Any, x: Tensor, u: Tensor, flags: Tensor, *packs: Any) -> tuple[Task, Replay]:
    """Return a rollout to be differentiated from its states, controls, flags and parameters."""
    task = Task(head, x, u, packs, 1 if head[2] else 2)
    replay = task.replay(packs)
    marks: Any = as_array(flags).reshape(-1, 2)
    found = WorldStatus(marks[:, 0].astype(np.uint32), marks[:, 1])
    require_finite_states(task.where, replay.path, found)
    return task, replay


def _rollout_vjp(sim: str, names: str, kind: int, *tensors: Any) -> Any:
    """Pull derivatives with respect to states back to the inputs."""
    *kept, bar = tensors
    task, replay = _started((sim, names, kind), *kept)
    x_bar = task.rows(bar)
    for name, part in zip(("q", "v", "act"), task.bridge.layout.parts(x_bar), strict=False):
        if not np.isfinite(part).all():
            raise ParameterError(
                f"{task.where}: the derivative of the loss with respect to the states {name} holds "
                "a NaN or infinity; look for one in what was computed from them."
            )
    return task.bars(replay.vjp(task.where, lambda first, x: x_bar))


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


def _rollout_fake(sim: str, names: str, kind: int, x: Tensor, u: Tensor, *packs: Any) -> Any:
    """Return empty results of `_rollout`."""
    lead = x.shape[:-1]
    middle = () if kind else (u.shape[-2] + 1,)
    flags = x.new_empty((*lead, 2), dtype=torch.int32)
    return x.new_empty((*lead, *middle, x.shape[-1])), flags


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


def _rollout_vmap(
    info: Any, dims: Any, sim: str, names: str, kind: int, x: Tensor, u: Tensor, *packs: Any
) -> Any:
    """Fold a batch of rollouts into worlds."""
    x_dim, u_dim, *pack_dims = dims[3:]
    fold = fold_of(info, x, x_dim, 1)
    x = fold.put(x, x_dim, fold.worlds is not None)
    u_own = _rank(u, u_dim) > (2 - bool(kind))
    u = fold.put(u, u_dim, u_own) if u_own or u_dim is not None else u
    if packs[1] is not None or pack_dims[0] is not None:
        names, packs = all_own(names), tuple(fold.put_packs(packs, pack_dims))
    out = rollout(sim, names, kind, x, u, *packs)
    return tuple(fold.take(y) for y in out), (0, 0)


class Folded:
    """The tensors of a derivative, folded into worlds.

    Args:
        info: what vmap says of the batch.
        dims: batch axes of the tensors.
        kind: of the rollout.
        tensors: states, controls, flags and parameters, then what is differentiated along.

    Attributes:
        fold: how they are folded.
        kept: states, controls, flags, and parameters of which each world has its own.
        rest: the other tensors with their batch axes.
    """

    def __init__(self, info: Any, dims: Dims, kind: int, tensors: Any) -> None:
        """Fold; see the class."""
        x, u, flags, shared, own, *rest = tensors
        x_dim, u_dim, flags_dim, *pack_dims = dims[:5]
        self.fold = fold_of(info, x, x_dim, 1 if kind else 2)
        self.own = self.fold.worlds is not None
        self.u_own = _rank(u, u_dim) > (1 if kind else 2)
        self.packs = (shared, own)
        self.kept = [
            self.fold.put(x, x_dim, self.own),
            self.fold.put(u, u_dim, self.u_own),
            self.fold.put(flags, flags_dim, self.own),
            *self.fold.put_packs(self.packs, pack_dims),
        ]
        self.rest = list(zip(rest, dims[5:], strict=True))

    def state(self, pair: tuple[Tensor, int | None]) -> Tensor:
        """Return a tangent or cotangent of states, folded."""
        return self.fold.put(*pair, self.own)

    def dots(self, pairs: Any) -> list[Any]:
        """Return directions in x, u and parameters of each world."""
        dx, (du, du_dim), (shared, shared_dim), (own, own_dim) = pairs
        along = [self.state(dx), self.fold.put(du, du_dim, self.u_own)]
        return [*along, *self.fold.put_packs((shared, own), (shared_dim, own_dim))]

    def bars(self, out: Any) -> Any:
        """Return derivatives with respect to inputs; all parameters were given as own."""
        x, u, _, pack = out
        rest = self.fold.take_packs(pack, self.packs, x.new_empty(self.fold.size, 0))
        return (self.fold.take(x), self.fold.take(u, self.u_own), *rest), (0,) * 4


def _rollout_vjp_vmap(info: Any, dims: Any, sim: str, names: str, kind: int, *tensors: Any) -> Any:
    """Fold a batch of gradients into worlds; what is shared is spread, for a gradient each."""
    f = Folded(info, dims[3:], kind, tensors)
    (x_bar,) = f.rest
    return f.bars(rollout_vjp(sim, all_own(names), kind, *f.kept, f.state(x_bar)))


def _rollout_hvp_vmap(info: Any, dims: Any, sim: str, names: str, kind: int, *tensors: Any) -> Any:
    """Fold a batch of derivatives of gradients into worlds."""
    f = Folded(info, dims[3:], kind, tensors)
    x_bar, *dots, dx_bar = f.rest
    given = (f.state(x_bar), *f.dots(dots), f.state(dx_bar))
    return f.bars(rollout_hvp(sim, all_own(names), kind, *f.kept, *given))


def _rollout_jvp_vmap(info: Any, dims: Any, sim: str, names: str, kind: int, *tensors: Any) -> Any:
    """Fold a batch of directions into worlds."""
    f = Folded(info, dims[3:], kind, tensors)
    return f.fold.take(rollout_jvp(sim, all_own(names), kind, *f.kept, *f.dots(f.rest))), 0


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
