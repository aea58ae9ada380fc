"""Rollouts and gradients of tensors that lie on the simulator's GPU; they stay there.

What `featherback.torch.ops` does through NumPy is done here by address, on torch's own stream of
the device. Copied to the processor are only flags, where one is set, and parameters, which are
checked there.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from featherback.errors import ParameterError
from featherback.sim import bridge as sim_bridge
from featherback.sim.bridge import Bars, Bridge, WorldStatus
from featherback.sim.cuda import CudaEngine
from featherback.sim.cuda_path import DeviceBars, DevicePath, run_rollout, run_vjp

# worlds whose own parameters are checked at once
_CHECKED = 4096


class TensorBars(NamedTuple):
    """What a backward pass gives, all with a world axis.

    Attributes:
        x: real[worlds, nx].
        u: real[worlds, steps, nu].
        params: the gradient of all parameters of each world, real[worlds, ntheta + nderived].
    """

    x: Tensor
    u: Tensor
    params: Tensor | None


def current_stream(x: Tensor) -> int:
    """Return the handle of torch's stream on a tensor's device; 0 on the processor."""
    return int(torch.cuda.current_stream(x.device).cuda_stream) if x.is_cuda else 0


@contextmanager
def _opened(engine: CudaEngine, x: Tensor) -> Generator[None]:
    """Run on torch's stream, and on the GPU of the simulator; what was current is so again."""
    with (
        torch.cuda.device(x.device if x.is_cuda else -1),
        engine.device.on_stream(current_stream(x)),
    ):
        engine.device.activate()
        yield


def _at(x: Tensor | None) -> int:
    """Return the address of a tensor's numbers, 0 for none."""
    return 0 if x is None or not x.numel() else x.data_ptr()


class DeviceTask:
    """One rollout on the GPU: a world axis and a step axis everywhere.

    Attributes:
        bridge: of the simulator.
        batched: whether the caller's tensors have a world axis.
        x: real[worlds, nx] or real[worlds, steps + 1, nx].
        u: real[(worlds,) steps, nu].
        theta: real[(worlds,) ntheta], None for the simulator's own parameters.
    """

    def __init__(self, head: Any, states: Tensor, u: Tensor, packs: Any, axes: int) -> None:
        """Read the first state or all, which has so many axes besides worlds, and the rest.

        head: bridge, where, names of shared and of own parameters, and whether there is one step.
        """
        self.bridge, self.where, self.names, self.one = head
        engine = self.bridge.gpu
        assert engine is not None
        self.engine = engine
        self.batched = states.ndim > axes
        states = states.detach()
        self.x = (states if self.batched else states[None]).contiguous()
        self.u = self._steps_of(u)
        self.steps, self.u_shared = self.u.shape[-2], self.u.ndim == 2
        self.theta = self._parameters(packs) if any(self.names) else None

    def _steps_of(self, u: Tensor) -> Tensor:
        """Return controls with a step axis."""
        u = u.detach()
        return (u[..., None, :] if self.one else u).contiguous()

    # parameters

    def _parameters(self, packs: Sequence[Tensor | None]) -> Tensor:
        """Return all parameters, checked."""
        base = np.concatenate([a.reshape(-1) for a in self.bridge.params.values()])
        theta = torch.from_numpy(base.astype(self.bridge.layout.dtype)).to(self.x.device)
        if packs[1] is not None:
            theta = theta.repeat(len(self.x), 1)
        else:
            theta = theta.clone()
        for pack, columns in zip(packs, self._columns(), strict=True):
            if pack is not None:
                theta[..., columns] = pack.detach()
        self._check(packs)
        return theta

    def _columns(self) -> list[Tensor]:
        """Return where the shared and the own parameters lie among all."""
        starts, at = dict[str, int](), 0
        for name, value in self.bridge.params.items():
            starts[name], at = at, at + value.size
        return [
            torch.tensor(
                [starts[n] + i for n in names for i in range(self.bridge.params[n].size)],
                dtype=torch.int64,
                device=self.x.device,
            )
            for names in self.names
        ]

    def _check(self, packs: Sequence[Tensor | None]) -> None:
        """Refuse parameters without physical meaning, as the processor does."""
        given = [None if pack is None else pack.detach().cpu().numpy() for pack in packs]
        worlds = len(self.x) if self.batched else None
        if given[1] is None:
            self.bridge.read_params(self.where, self._cut(given), worlds)
            return
        try:
            for first in range(0, len(self.x), _CHECKED):
                part = given[1][first : first + _CHECKED]
                self.bridge.read_params(self.where, self._cut([given[0], part]), len(part))
        except ParameterError:
            # once more, so that the message counts the worlds from the first
            self.bridge.read_params(self.where, self._cut(given), worlds)
            raise

    def _cut(self, packs: Sequence[Any]) -> dict[str, Any]:
        """Return flat parameters, shared and own, as arrays by name."""
        out: dict[str, Any] = {}
        for pack, names in zip(packs, self.names, strict=True):
            at = 0
            if pack is None:
                continue
            for name in names:
                shape = self.bridge.shapes[name]
                size = int(np.prod(shape))
                out[name] = pack[..., at : at + size].reshape(*pack.shape[:-1], *shape)
                at += size
        return out

    def join(self, params: Tensor | None, own: bool) -> Tensor:
        """Return the gradient of the shared or of the own parameters, flat."""
        if params is None or not self.names[own]:
            return self.x.new_empty(0)
        columns = self._columns()[own]
        return params[:, columns] if own else params.sum(0)[columns]

    # jobs

    def _path(self, x: Tensor, u: Tensor) -> DevicePath:
        """Return where states and controls lie; x has a row for each state, or one for all."""
        nx, nu = x.shape[-1], u.shape[-1]
        rows = x.shape[1] if x.ndim == 3 else 1
        own = 0 if u.ndim == 2 else self.steps * nu
        theta = (_at(self.theta), self.theta is not None and self.theta.ndim == 2)
        states = (_at(x), rows * nx, nx if rows > 1 else 0)
        return DevicePath(len(x), self.steps, states, (_at(u), own, nu), *theta)

    def _marks(self) -> Tensor:
        """Return status and step of worlds in which nothing went wrong, int32[2, worlds]."""
        marks = torch.zeros((2, len(self.x)), dtype=torch.int32, device=self.x.device)
        marks[1] = -1
        return marks

    def states(self, x: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        """Return all states from x, real[worlds, nx], and flags int32[worlds, 2]."""
        states = x.new_empty((len(x), self.steps + 1, x.shape[-1]))
        states[:, 0] = x
        marks = self._marks()
        with _opened(self.engine, x):
            run_rollout(self.engine, self._path(states, u), (_at(marks[0]), _at(marks[1])))
        return states, marks.t().contiguous()

    def vjp(
        self, x: Tensor, u: Tensor, x_cot: Tensor, first_step: int = 0, params: bool = True
    ) -> TensorBars:
        """Run the adjoint; x_cot, real[worlds, rows, nx], belongs to the last states.

        x has all states, or the first one of a single step. With `params`, those that were given
        have a gradient too.
        """
        names = [name for part in self.names for name in part] if params else []
        sim_bridge.refuse_without_gradient(self.where, dict.fromkeys(names))
        layout, worlds = self.bridge.layout, len(x)
        x_bar = x.new_zeros((worlds, layout.nx))
        u_bar = x.new_zeros((worlds, self.steps, layout.nu))
        wide = self.engine.theta_size + self.engine.derived_size
        theta_bar = x.new_zeros((worlds, wide)) if names else None
        if not self.steps or not worlds:
            return TensorBars(x_cot[:, 0].clone() if worlds else x_bar, u_bar, theta_bar)
        marks, x_cot = self._marks(), x_cot.detach().contiguous()
        bars = DeviceBars(_at(x_bar), _at(u_bar), _at(x_cot), x_cot.shape[1], _at(theta_bar))
        with _opened(self.engine, x):
            sizes, status = (layout.nx, layout.nu), (_at(marks[0]), _at(marks[1]))
            run_vjp(self.engine, self._path(x, u), bars, sizes, status)
        if bool(marks[0].any()):
            world_status(marks.t()).require_ok(self.where, first_step)
        found = TensorBars(x_bar, u_bar, theta_bar)
        self._require_finite(found)
        return found

    def _require_finite(self, found: TensorBars) -> None:
        """Refuse a gradient that overflowed."""
        given = [x for x in found if x is not None]
        if all(bool(torch.isfinite(x).all()) for x in given):
            return
        none = np.zeros(0, np.int32)
        flat = [self.join(found.params, own).cpu().numpy() for own in (False, True)]
        params = self._cut([flat[0] if self.names[0] else None, flat[1] if self.names[1] else None])
        x, u = found.x.cpu().numpy(), found.u.cpu().numpy()
        sim_bridge.require_finite_gradient(self.where, Bars(x, u, params, none, none, None))

    # results

    def out(self, x: Tensor) -> Tensor:
        """Return a result without the world axis where the inputs had none."""
        return (x if self.batched else x[0]).contiguous()

    def rows(self, x: Tensor) -> Tensor:
        """Return a tensor with a world axis, and a step axis where there is one step."""
        x = x.detach()
        x = x if self.batched else x[None]
        return x[:, None] if self.one else x

    def bars(self, found: TensorBars) -> tuple[Tensor, ...]:
        """Return derivatives with respect to x, u and the parameters, in their shapes."""
        u = found.u[:, 0] if self.one else found.u
        u = u.sum(0) if self.u_shared and self.batched else u
        u = u if self.batched else u[0]
        rest = (self.join(found.params, own) for own in (False, True))
        return self.out(found.x), u.contiguous(), *rest


def world_status(flags: Tensor) -> WorldStatus:
    """Return flags int32[worlds, 2] as the engine tells them."""
    marks = flags.cpu().numpy()
    return WorldStatus(marks[:, 0].astype(np.uint32), np.ascontiguousarray(marks[:, 1]))


def refuse_nonfinite_inputs(where: str, bridge: Bridge, x: Tensor, u: Tensor) -> None:
    """Refuse a NaN or infinity that the caller gave; one that arises on the way is a status."""
    layout = bridge.layout
    parts = dict(zip(("q", "v", "act"), layout.parts(x), strict=False))
    for name, part in {**parts, "warm": layout.warm(x), "u": u}.items():
        if not bool(torch.isfinite(part).all()):
            raise ParameterError(f"{where}: {name} holds a NaN or infinity; give finite numbers.")


def require_finite_states(where: str, bridge: Bridge, states: Tensor, flags: Tensor) -> None:
    """Refuse a derivative through a state that is not finite, by world and step."""
    if not bool(flags[:, 0].any()):
        return
    x = states.cpu().numpy()
    plan = sim_bridge.Schedule.all(x.shape[1] - 1)
    path = sim_bridge.Trajectory(bridge.layout, x, None, plan)
    sim_bridge.require_finite_states(where, path, world_status(flags))
