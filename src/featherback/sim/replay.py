"""The derivatives of a rollout: its steps run again, last to first."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from featherback._core import TRACE_NUMBERS
from featherback._typing import Ints, Real
from featherback.errors import ParameterError, WorldError
from featherback.sim.checkpoints import split
from featherback.sim.inputs import refuse_without_gradient, unpack_theta
from featherback.sim.state import Trajectory
from featherback.sim.status import Status, WorldStatus, overflow_error, world_error

if TYPE_CHECKING:
    from featherback.sim.bridge import Bridge

# (first, x) -> cotangents of the last rows of x, the states from step `first` on, or None
Cotangents = Callable[[int, Real], "Real | None"]

_NONFINITE = np.uint32(Status.NONFINITE)
GREW = "it overflowed on the way back; take fewer steps, or see where it grows with diagnose()"

OVERFLOWED = "it overflowed on its way; take a shorter direction, or fewer steps"


@dataclass(frozen=True)
class Bars:
    """What a backward pass gives, all with a world axis.

    Attributes:
        x: real[worlds, nx], gradient with respect to the initial state.
        u: real[worlds, steps, nu].
        params: by name, summed over the worlds where all shared them.
        unrolled: int32[worlds], steps whose contact solve was reversed sweep by sweep.
        ties: int32[worlds], places on the border between two modes.
        trace: real[worlds, steps, numbers] or None, see `_core`.
    """

    x: Real
    u: Real
    params: dict[str, Real]
    unrolled: Ints
    ties: Ints
    trace: Real | None

    @classmethod
    def zeros(cls, path: Trajectory, trace: bool = False) -> Bars:
        """Return zeros for a rollout."""
        worlds, steps, real = path.worlds, path.steps, path.x.dtype
        return cls(
            x=np.zeros((worlds, path.layout.nx), real),
            u=np.zeros((worlds, steps, path.layout.nu), real),
            params={},
            unrolled=np.zeros(worlds, np.int32),
            ties=np.zeros(worlds, np.int32),
            trace=np.zeros((worlds, steps, TRACE_NUMBERS), real) if trace else None,
        )


class Replay:
    """A rollout, with the bridge that made it, that can be differentiated."""

    def __init__(self, bridge: Bridge, path: Trajectory) -> None:
        """Hold both."""
        self.bridge, self.path = bridge, path

    def vjp(self, where: str, cotangents: Cotangents, trace: bool = False) -> Bars:
        """Run the adjoint backwards over all steps.

        A trace holds figures of each step; a gradient that overflows is not refused then.
        """
        path = self.path
        refuse_without_gradient(where, path.given)
        bars = Bars.zeros(path, trace)
        theta_bar = self.bridge.theta_bar(path.worlds) if path.given else None
        if not path.worlds or not path.steps:
            self._add_at_rest(cotangents(0, path.x), bars.x)
        else:
            self._units(where, cotangents, bars, theta_bar)
        if theta_bar is not None:
            bars.params.update(unpack_theta(theta_bar, self.bridge.params, path.given))
        if not trace:
            require_finite_gradient(where, bars)
        return bars

    def _add_at_rest(self, given: Real | None, x_bar: Real) -> None:
        """Without a step the gradient is the cotangent itself."""
        if given is not None:
            x_bar[...] = given[:, 0]

    def _units(
        self, where: str, cotangents: Cotangents, bars: Bars, theta_bar: Real | None
    ) -> None:
        """Take the units last to first, each from the nearest kept state before it."""
        path, plan = self.path, self.path.schedule
        if plan.keeps_all:
            self._reverse(where, cotangents, bars, theta_bar, (0, path.x))
            return
        # the last state is kept for the caller, not for the way back
        kept, again, end = len(plan.kept) - 1, list[tuple[int, Real]](), plan.units
        while end:
            top = kept - 1
            at, x = again[-1] if again else (int(plan.kept[top]) // plan.unit, path.x[:, top])
            while at < end - 1 and kept + len(again) <= plan.slots:
                ahead = at + split(end - at, plan.slots + 1 - kept - len(again))
                x = self._advance(x, at * plan.unit, ahead * plan.unit)
                at = ahead
                again.append((at, x))
            first, last = (end - 1) * plan.unit, min(end * plan.unit, plan.steps)
            if at == end - 1 and again:
                again.pop()
            elif at == end - 1:
                kept -= 1
            x = self._advance(x, at * plan.unit, first)
            # the tape has no name, so that it is gone before the next one is made
            self._reverse(where, cotangents, bars, theta_bar, (first, self._tape(x, first, last)))
            end -= 1

    def _forward(self, x: Real, first: int, last: int) -> None:
        """Run steps first to last; x has a row for each state, or one that moves."""
        path, unread = self.path, WorldStatus.ok(len(x))
        self.bridge.rollout(x, path.u, path.theta, unread, steps=last - first, u_first=first)

    def _advance(self, x: Real, first: int, last: int) -> Real:
        """Return the state at step `last` from that at step `first`."""
        if first == last:
            return x
        moving = x[:, None].copy()
        self._forward(moving, first, last)
        return moving[:, 0]

    def _tape(self, x: Real, first: int, last: int) -> Real:
        """Return all states from step `first` to `last`."""
        tape = np.empty((len(x), last - first + 1, x.shape[-1]), x.dtype)
        tape[:, 0] = x
        self._forward(tape, first, last)
        return tape

    def _reverse(
        self,
        where: str,
        cotangents: Cotangents,
        bars: Bars,
        theta_bar: Real | None,
        tape: tuple[int, Real],
    ) -> None:
        """Run the adjoint over the steps of one tape."""
        first, x = tape
        worlds, steps = len(x), x.shape[1] - 1
        # a state between two units has its cotangent in the unit before
        own = 0 if first == 0 else 1
        x_cot = cotangents(first + own, x[:, own:])
        trace = None if bars.trace is None else np.zeros((worlds, steps, TRACE_NUMBERS), x.dtype)
        found = self.bridge.vjp(self.path, x, x_cot, bars, theta_bar, first=first, trace=trace)
        if bars.trace is not None:
            bars.trace[:, first : first + steps] = trace
        found.require_ok(where, first + self.path.first_step)

    def jvp(self, where: str, start: Real | None, du: Real | None, dtheta: Real | None) -> Real:
        """Return tangents of all states, real[worlds, steps + 1, nx], along a direction."""
        self._need_all(where)
        x_dot = np.zeros_like(self.path.x)
        if start is not None:
            x_dot[:, 0] = start
        found = self.bridge.jvp(self.path, x_dot, du, dtheta)
        self._require_finite_tangents(where, found)
        found.require_ok(where, self.path.first_step)
        return x_dot

    def _require_finite_tangents(self, where: str, found: WorldStatus) -> None:
        """Tell a tangent that overflowed from a state that did."""
        path = self.path
        worlds = np.flatnonzero(found.status & _NONFINITE)
        if not len(worlds):
            return
        _, states = self.bridge.states(path.x[:, 0], path.u, path.steps, path.theta)
        worlds = worlds[(states.status[worlds] & _NONFINITE) == 0]
        if len(worlds):
            raise overflow_error(where, "tangent", worlds, OVERFLOWED, found.step[worlds])

    def hvp(
        self,
        where: str,
        cotangents: tuple[Real | None, Real | None],
        x_dot: Real,
        du: Real | None,
        dtheta: Real | None,
    ) -> Bars:
        """Return the tangent of the vjp along a direction; x_dot is what `jvp` returned for it."""
        path = self.path
        refuse_without_gradient(where, path.given)
        bars = Bars.zeros(path), Bars.zeros(path)
        theta_bars: tuple[Real | None, Real | None] = (None, None)
        if path.given:
            theta_bars = self.bridge.theta_bar(path.worlds), self.bridge.theta_bar(path.worlds)
        if path.worlds and path.steps:
            along = (x_dot, du, dtheta)
            found = self.bridge.hvp(path, along, cotangents, bars, theta_bars)
            found.require_ok(where, path.first_step)
        else:
            self._add_at_rest(cotangents[1], bars[1].x)
        if theta_bars[1] is not None:
            bars[1].params.update(unpack_theta(theta_bars[1], self.bridge.params, path.given))
        require_finite_gradient(where, bars[1])
        return bars[1]

    def tiled(self, copies: int) -> Replay:
        """Return the same rollout with its worlds repeated, copy after copy."""
        path = self.path
        u = path.u if path.u is None or path.u.ndim == 2 else np.tile(path.u, (copies, 1, 1))
        return Replay(self.bridge, replace(path, x=np.tile(path.x, (copies, 1, 1)), u=u))

    def _need_all(self, where: str) -> None:
        """Refuse forward mode where states are missing."""
        plan = self.path.schedule
        if not plan.keeps_all:
            raise ParameterError(
                f"{where}: this rollout keeps {len(plan.kept)} of {plan.steps + 1} "
                'states, and forward mode needs all of them; roll out with checkpoint="step".'
            )


def require_finite_gradient(where: str, bars: Bars) -> None:
    """Refuse a gradient that overflowed, by world or by parameter."""
    parts = [np.isfinite(a).reshape(len(a), math.prod(a.shape[1:])) for a in (bars.x, bars.u)]
    if not all(part.all() for part in parts):
        worlds = np.flatnonzero(~np.concatenate(parts, 1).all(axis=1))
        raise overflow_error(where, "gradient", worlds, GREW)
    names = [name for name, a in bars.params.items() if not np.isfinite(a).all()]
    if names:
        raise WorldError(f"{where}: the gradient of {', '.join(names)} is not finite: {GREW}.")


def require_finite_states(where: str, path: Trajectory, found: WorldStatus) -> None:
    """Refuse a derivative through a state that is not finite, by world and step."""
    bad = found.status & _NONFINITE
    if not np.count_nonzero(bad):
        return
    # the word's step may be that of another bit; the first row that is not finite says it
    finite = np.isfinite(path.x).all(axis=-1)
    first = np.maximum(path.schedule.kept[np.argmin(finite, axis=1)] - 1, 0)
    step = np.where(finite.all(axis=-1), found.step, first)
    raise world_error(where, bad, step.astype(np.int32))
