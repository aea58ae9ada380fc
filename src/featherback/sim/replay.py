"""The derivatives of a rollout: its steps run again, last to first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from featherback._core import TRACE_NUMBERS, Engine
from featherback.errors import ParameterError, ShapeError, WorldError
from featherback.sim.inputs import as_real, refuse_without_gradient, unpack_theta
from featherback.sim.schedule import Schedule, split
from featherback.sim.status import describe

Real = NDArray[np.floating]
Ints = NDArray[np.int32]
# (first, q, v) -> (q_bar, v_bar) for the states from step `first` on, in their shapes
Cotangents = Callable[[int, Real, Real], tuple[ArrayLike | None, ArrayLike | None]]


@dataclass(frozen=True)
class Bars:
    """What a backward pass gives, all with a world axis.

    Attributes:
        q: real[worlds, nq], gradient with respect to the initial configuration.
        v: real[worlds, nv].
        u: real[worlds, steps, nu].
        params: by name, summed over the worlds where all shared them.
        unrolled: int32[worlds], steps whose contact solve was reversed sweep by sweep.
        ties: int32[worlds], places on the border between two modes.
        trace: real[worlds, steps, numbers] or None, see `_core`.
    """

    q: Real
    v: Real
    u: Real
    params: dict[str, Real]
    unrolled: Ints
    ties: Ints
    trace: Real | None


@dataclass(frozen=True)
class Replay:
    """A rollout as its engine sees it.

    Attributes:
        engine: the engine that made it.
        base: the simulator's parameters, by name.
        theta: flat parameters of the rollout, or None for the simulator's own.
        given: shapes of the parameters that the user gave to the rollout.
        kept: int64[rows], the steps whose states are in q and v.
        q: real[worlds, rows, nq].
        v: real[worlds, rows, nv].
        u: real[(worlds,) steps, nu], or None for a model without controls.
        schedule: which states are kept.
    """

    engine: Engine
    base: dict[str, Real]
    theta: Real | None
    given: dict[str, tuple[int, ...]]
    kept: NDArray[np.int64]
    q: Real
    v: Real
    u: Real | None
    schedule: Schedule

    def vjp(self, where: str, cotangents: Cotangents, trace: bool = False) -> Bars:
        """Run the adjoint backwards over all steps."""
        refuse_without_gradient(where, self.given)
        worlds, steps = len(self.q), self.schedule.steps
        nu = 0 if self.u is None else self.u.shape[-1]
        numbers = self.engine.theta_size + self.engine.derived_size
        real = self.q.dtype
        bars = Bars(
            q=np.zeros((worlds, self.q.shape[-1]), real),
            v=np.zeros((worlds, self.v.shape[-1]), real),
            u=np.zeros((worlds, steps, nu), real),
            params={},
            unrolled=np.zeros(worlds, np.int32),
            ties=np.zeros(worlds, np.int32),
            trace=np.zeros((worlds, steps, TRACE_NUMBERS), real) if trace else None,
        )
        theta_bar = np.zeros((worlds, numbers), real) if self.given else None
        if not worlds or not steps:
            self._add_at_rest(cotangents, bars.q, bars.v)
        else:
            self._units(where, cotangents, bars, theta_bar)
        if theta_bar is not None:
            bars.params.update(unpack_theta(theta_bar, self.base, self.given))
        return bars

    def _add_at_rest(self, cotangents: Cotangents, q_bar: Real, v_bar: Real) -> None:
        """Without a step the gradient is the cotangent itself."""
        for bar, given in zip((q_bar, v_bar), cotangents(0, self.q, self.v), strict=True):
            if given is not None:
                bar[...] = np.asarray(given)[:, 0]

    def _units(
        self, where: str, cotangents: Cotangents, bars: Bars, theta_bar: Real | None
    ) -> None:
        """Take the units last to first, each from the nearest kept state before it."""
        plan = self.schedule
        if plan.whole:
            self._reverse(where, cotangents, bars, theta_bar, (0, self.q, self.v))
            return
        # the last state is kept for the user, not for the way back
        kept, again, end = len(self.kept) - 1, list[tuple[int, Real, Real]](), plan.units
        while end:
            top = kept - 1
            at, q, v = (
                again[-1]
                if again
                else (int(self.kept[top]) // plan.unit, self.q[:, top], self.v[:, top])
            )
            while at < end - 1 and kept + len(again) <= plan.slots:
                ahead = at + split(end - at, plan.slots + 1 - kept - len(again))
                q, v = self._advance(q, v, at * plan.unit, ahead * plan.unit)
                at = ahead
                again.append((at, q, v))
            first, last = (end - 1) * plan.unit, min(end * plan.unit, plan.steps)
            if at == end - 1 and again:
                again.pop()
            elif at == end - 1:
                kept -= 1
            q, v = self._advance(q, v, at * plan.unit, first)
            # the tape has no name, so that it is gone before the next one is made
            self._reverse(
                where, cotangents, bars, theta_bar, (first, *self._tape(q, v, first, last))
            )
            end -= 1

    def _forward(self, q: Real, v: Real, first: int, last: int) -> None:
        """Run steps first to last; q and v have a row for each state, or one that moves."""
        worlds = len(q)
        self.engine.rollout(
            {
                "q": q,
                "v": v,
                "u": self.u,
                "u_first": first,
                "theta": self.theta,
                "steps": last - first,
                "status": np.zeros(worlds, np.uint32),
                "status_step": np.full(worlds, -1, np.int32),
            },
            None,
        )

    def _advance(self, q: Real, v: Real, first: int, last: int) -> tuple[Real, Real]:
        """Return the state at step `last` from that at step `first`."""
        if first == last:
            return q, v
        q, v = q[:, None].copy(), v[:, None].copy()
        self._forward(q, v, first, last)
        return q[:, 0], v[:, 0]

    def _tape(self, q: Real, v: Real, first: int, last: int) -> tuple[Real, Real]:
        """Return all states from step `first` to `last`."""
        rows = last - first + 1
        q_all = np.empty((len(q), rows, q.shape[-1]), q.dtype)
        v_all = np.empty((len(v), rows, v.shape[-1]), v.dtype)
        q_all[:, 0], v_all[:, 0] = q, v
        self._forward(q_all, v_all, first, last)
        return q_all, v_all

    def _reverse(
        self,
        where: str,
        cotangents: Cotangents,
        bars: Bars,
        theta_bar: Real | None,
        tape: tuple[int, Real, Real],
    ) -> None:
        """Run the adjoint over the steps of one tape."""
        first, q, v = tape
        worlds, steps = len(q), q.shape[1] - 1
        # a state between two units has its cotangent in the unit before
        own = 0 if first == 0 else 1
        q_cot, v_cot = cotangents(first + own, q[:, own:], v[:, own:])
        status, step = np.zeros(worlds, np.uint32), np.full(worlds, -1, np.int32)
        trace = None if bars.trace is None else np.zeros((worlds, steps, TRACE_NUMBERS), q.dtype)
        self.engine.vjp(
            {
                "q": q,
                "v": v,
                "u": self.u,
                "u_first": first,
                "theta": self.theta,
                "q_cot": q_cot,
                "v_cot": v_cot,
                "q_bar": bars.q,
                "v_bar": bars.v,
                "u_bar": bars.u,
                "theta_bar": theta_bar,
                "finish_params": first == 0,
                "status": status,
                "status_step": step,
                "unrolled": bars.unrolled,
                "ties": bars.ties,
                "trace": trace,
            }
        )
        if bars.trace is not None:
            bars.trace[:, first : first + steps] = trace
        if np.any(status):
            raise WorldError(f"{where}: {describe(status, step + first)}")

    def jvp(
        self, where: str, start: tuple[Real | None, Real | None], du: Real | None, dtheta: Any
    ) -> tuple[Real, Real]:
        """Return tangents of all states, real[worlds, steps + 1, n]."""
        self._need_all(where)
        q_dot, v_dot = np.zeros_like(self.q), np.zeros_like(self.v)
        for out, given in ((q_dot, start[0]), (v_dot, start[1])):
            if given is not None:
                out[:, 0] = given
        status, step = self._no_status()
        if len(self.q) and self.schedule.steps:
            self.engine.jvp({**self._directions(q_dot, v_dot, du, dtheta, status, step)})
        if np.any(status):
            raise WorldError(f"{where}: {describe(status, step)}")
        return q_dot, v_dot

    def hvp(
        self,
        where: str,
        cotangents: tuple[Real | None, ...],
        tangents: tuple[Real, Real],
        du: Real | None,
        dtheta: Any,
    ) -> Bars:
        """Return the tangent of the vjp along a direction.

        Args:
            where: the call, for messages.
            cotangents: q_bar, v_bar and their tangents, each real[worlds, rows, n] or None.
            tangents: of all states, from `jvp`.
            du: direction in the controls.
            dtheta: direction in the flat parameters.
        """
        refuse_without_gradient(where, self.given)
        worlds, steps = len(self.q), self.schedule.steps
        nu = 0 if self.u is None else self.u.shape[-1]
        numbers = self.engine.theta_size + self.engine.derived_size
        real = self.q.dtype
        q, v = (np.zeros((2, worlds, a.shape[-1]), real) for a in (self.q, self.v))
        u = np.zeros((worlds, steps, nu), real)
        theta = np.zeros((2, worlds, numbers), real) if self.given else None
        status, step = self._no_status()
        names = ("q_cot", "v_cot", "q_cot_dot", "v_cot_dot")
        if worlds and steps:
            self.engine.hvp(
                {
                    **self._directions(*tangents, du, dtheta, status, step),
                    **dict(zip(names, cotangents, strict=True)),
                    "q_bar": q[0],
                    "q_bar_dot": q[1],
                    "v_bar": v[0],
                    "v_bar_dot": v[1],
                    "u_bar_dot": u,
                    "theta_bar": None if theta is None else theta[0],
                    "theta_bar_dot": None if theta is None else theta[1],
                }
            )
        else:
            self._add_at_rest(lambda first, q, v: (cotangents[2], cotangents[3]), q[1], v[1])
        if np.any(status):
            raise WorldError(f"{where}: {describe(status, step)}")
        params = {} if theta is None else unpack_theta(theta[1], self.base, self.given)
        none = np.zeros(worlds, np.int32)
        return Bars(q[1], v[1], u, params, none, none, None)

    def _directions(
        self, q_dot: Real, v_dot: Real, du: Real | None, dtheta: Any, status: Any, step: Any
    ) -> dict[str, Any]:
        """Return the arrays that forward mode and second order share."""
        own = {"q": self.q, "v": self.v, "u": self.u, "theta": self.theta}
        along = {"q_dot": q_dot, "v_dot": v_dot, "du": du, "dtheta": dtheta}
        return {**own, **along, "status": status, "status_step": step}

    def _no_status(self) -> tuple[NDArray[np.uint32], Ints]:
        """Return a blank status for each world."""
        worlds = len(self.q)
        return np.zeros(worlds, np.uint32), np.full(worlds, -1, np.int32)

    def _need_all(self, where: str) -> None:
        """Refuse forward mode where states are missing."""
        if not self.schedule.whole:
            raise ParameterError(
                f"{where}: this rollout keeps {len(self.kept)} of {self.schedule.steps + 1} "
                'states, and forward mode needs all of them; roll out with checkpoint="step".'
            )


def state_cotangent(where: str, name: str, value: ArrayLike, like: Real) -> Real:
    """Check a cotangent: of all states in `like`, or of the last one; return (worlds, rows, n).

    Args:
        where: the call, for messages.
        name: of the argument.
        value: what the user gave.
        like: real[(worlds,) rows, n], the states.
    """
    bar = as_real(where, name, value, like.dtype)
    last = (*like.shape[:-2], like.shape[-1])
    if bar.shape not in (like.shape, last):
        raise ShapeError(
            f"{where}: {name} has shape {bar.shape}; expected {like.shape}, that of the rollout's "
            f"{name[0]}, or {last} for its last state."
        )
    _refuse_nonfinite(where, name, bar)
    rows = like.shape[-2] if bar.shape == like.shape else 1
    return bar.reshape(-1, rows, like.shape[-1])


def piece_cotangent(where: str, name: str, value: ArrayLike, like: Real) -> Real:
    """Check the cotangent of one piece of a rollout; return (worlds, rows, n)."""
    bar = as_real(where, name, value, like.dtype)
    if bar.shape != like.shape:
        raise ShapeError(
            f"{where}: cotangents() returned a {name} of shape {bar.shape}; expected {like.shape}, "
            f"that of the {name[0]} it was given."
        )
    _refuse_nonfinite(where, name, bar)
    return bar.reshape(-1, *like.shape[-2:])


def _refuse_nonfinite(where: str, name: str, bar: Real) -> None:
    """Refuse a cotangent with a NaN or infinity."""
    if not np.all(np.isfinite(bar)):
        raise ParameterError(
            f"{where}: {name} holds a NaN or infinity; give finite numbers, and zero where the "
            "loss does not depend on the state."
        )


def refuse_nonfinite_bars(where: str, bars: Bars) -> None:
    """Refuse a gradient that is not finite, by world."""
    parts = (bars.q, bars.v, bars.u)
    bad = [~np.isfinite(a).all(axis=tuple(range(1, a.ndim))) for a in parts]
    worlds = np.flatnonzero(bad[0] | bad[1] | bad[2])
    names = [name for name, a in bars.params.items() if not np.isfinite(a).all()]
    if len(worlds):
        more = f" and {len(worlds) - 1} more worlds" if len(worlds) > 1 else ""
        raise WorldError(
            f"{where}: the gradient of world {worlds[0]}{more} is not finite: it grew beyond all "
            "numbers on the way back; take fewer steps, or see where it grows with diagnose()."
        )
    if names:
        raise WorldError(
            f"{where}: the gradient of {', '.join(names)} is not finite: it grew beyond all "
            "numbers on the way back; take fewer steps, or see where it grows with diagnose()."
        )
