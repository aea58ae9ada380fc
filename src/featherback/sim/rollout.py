"""What a rollout returns, and its derivatives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from featherback.errors import ParameterError, WorldError
from featherback.sim.diagnosis import Diagnosis, diagnose
from featherback.sim.directions import array_direction, theta_direction
from featherback.sim.replay import (
    Bars,
    Cotangents,
    Replay,
    piece_cotangent,
    refuse_nonfinite_bars,
    state_cotangent,
)
from featherback.sim.status import Status, describe

Real = NDArray[np.floating]
Params = dict[str, ArrayLike]


@dataclass(frozen=True, eq=False)
class Gradient:
    """Gradient of a loss on a trajectory. World axes are those of the rollout.

    Attributes:
        q: real[(worlds,) nq], with respect to the initial configuration, ambient: it includes the
            normalisation of quaternions, so plain finite differences in q agree with it.
        v: real[(worlds,) nv], with respect to the initial velocity.
        u: real[(worlds,) steps, nu], with respect to the controls; one for each world.
        params: by name, for the parameters that were given to the rollout, in the shape they had:
            summed over the worlds where all shared them.
        unrolled: int32[worlds], steps whose contact solve was reversed sweep by sweep, since it
            had not finished or `gradient="unrolled"` was asked for.
        ties: int32[worlds], places where a step stands exactly on the border between two modes,
            so that its derivative is the choice written down in docs/gradients.md.
    """

    q: Real
    v: Real
    u: Real
    params: dict[str, Real]
    unrolled: NDArray[np.int32]
    ties: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Rollout:
    """A trajectory. The leading world axis is there only if the input had one.

    Its arrays are read-only, since `vjp` runs the steps again from them; copy them to change them.

    Attributes:
        q: real[(worlds,) rows, nq], the first row is the initial configuration; one row for each
            step and one more, unless `checkpoint` kept fewer.
        v: real[(worlds,) rows, nv].
        u: real[(worlds,) steps, nu], the controls; no world axis where all worlds share them.
        kept: int64[rows], the steps after which the states in q and v were reached.
        status: uint32[worlds], bits of `Status`; a scalar array for one world.
        status_step: int32[worlds], step at which the first bit was set, -1 for none.
        residual: real[worlds], largest residual of the contact solve in any step [m/s].
        sweeps: real[worlds], largest number of Gauss-Seidel sweeps in one step.
        dt: step [s]; real[worlds] where each world has its own.
        replay: what the derivatives run again.
    """

    q: Real
    v: Real
    u: Real
    kept: NDArray[np.int64]
    status: NDArray[np.uint32]
    status_step: NDArray[np.int32]
    residual: Real
    sweeps: Real
    dt: float | Real
    replay: Replay = field(repr=False)

    def __post_init__(self) -> None:
        """Make the arrays read-only."""
        arrays = (self.q, self.v, self.u, self.status, self.status_step, self.residual, self.sweeps)
        for array in (*arrays, self.kept, self.dt, self.replay.q, self.replay.v):
            if isinstance(array, np.ndarray):
                array.setflags(write=False)

    def __reduce__(self) -> str:
        """Refuse to be pickled or copied."""
        raise TypeError(
            "a Rollout cannot be pickled or copied, since it holds the compiled state of its "
            "Simulator; pass on its arrays, such as roll.q, roll.v and roll.u."
        )

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.replay.schedule.steps

    @property
    def ok(self) -> bool:
        """Whether no world has a status bit set."""
        return not np.any(self.status)

    def describe_status(self) -> str:
        """Return a text that names each world that is not OK, and what to do."""
        return describe(np.atleast_1d(self.status), np.atleast_1d(self.status_step))

    def raise_if_bad(self) -> None:
        """Raise WorldError if any world has a status bit set."""
        if not self.ok:
            raise WorldError(f"rollout(): {self.describe_status()}")

    def vjp(
        self,
        q_bar: ArrayLike | None = None,
        v_bar: ArrayLike | None = None,
        *,
        cotangents: Cotangents | None = None,
    ) -> Gradient:
        """Return the gradient of a loss with respect to initial state, controls and parameters.

        The parameters are those that were passed to the rollout.

        Args:
            q_bar: derivative of the loss with respect to `q`, in its shape, or in that of one
                state for a loss on the last one; zero when None.
            v_bar: derivative of the loss with respect to `v`, likewise.
            cotangents: instead of these, a function (first, q, v) -> (q_bar, v_bar) that is given
                the states from step `first` on and returns the derivatives with respect to them,
                in their shapes. With a checkpointed rollout it is called for one piece of the
                rollout after the other, the last first, so a loss on all states needs no memory
                for them.

        Raises:
            WorldError: where a step has no gradient, or a world left the finite numbers.
            ParameterError: where a parameter given to the rollout has no gradient, or q_bar or
                v_bar holds a NaN or infinity.
            ShapeError: where q_bar or v_bar has another shape than `q` or `v`.
        """
        where = "vjp()"
        self._refuse_nonfinite(where)
        given = self._cotangents(where, q_bar, v_bar, cotangents)
        bars = self.replay.vjp(where, given)
        refuse_nonfinite_bars(where, bars)
        return self._gradient(bars)

    def diagnose(
        self,
        q_bar: ArrayLike | None = None,
        v_bar: ArrayLike | None = None,
        *,
        cotangents: Cotangents | None = None,
    ) -> Diagnosis:
        """Return how the gradient grows along the rollout, and what happens in its steps.

        Args are those of `vjp`.
        """
        where = "diagnose()"
        self._refuse_nonfinite(where)
        given = self._cotangents(where, q_bar, v_bar, cotangents)
        bars = self.replay.vjp(where, given, trace=True)
        assert bars.trace is not None
        return diagnose(bars.trace[0] if self.q.ndim == 2 else bars.trace, self.dt)

    def jvp(
        self,
        dq: ArrayLike | None = None,
        dv: ArrayLike | None = None,
        du: ArrayLike | None = None,
        *,
        dparams: Params | None = None,
    ) -> tuple[Real, Real]:
        """Return the derivative of all states along a direction, in forward mode.

        Args:
            dq: real[(worlds,) nq], direction in the initial configuration, ambient; zero if None.
            dv: real[(worlds,) nv], direction in the initial velocity.
            du: real[(worlds,) steps, nu], direction in the controls.
            dparams: directions in parameters, by name, in the shape of the parameter or with a
                leading world axis.

        Returns:
            Tangents in the shapes of `q` and `v`.
        """
        where = "jvp()"
        self._refuse_nonfinite(where)
        start, along, dtheta = self._direction(where, (dq, dv, du), dparams)
        one: Any = 0 if self.q.ndim == 2 else ...
        q_dot, v_dot = self.replay.jvp(where, start, along, dtheta)
        return q_dot[one], v_dot[one]

    def hessian_vector_product(
        self,
        q_bar: ArrayLike | None = None,
        v_bar: ArrayLike | None = None,
        *,
        direction: tuple[ArrayLike | None, ArrayLike | None, ArrayLike | None] = (None, None, None),
        dparams: Params | None = None,
        q_bar_dot: ArrayLike | None = None,
        v_bar_dot: ArrayLike | None = None,
    ) -> Gradient:
        """Return the derivative of `vjp` along a direction: the Hessian times that direction.

        For a loss L on the states, `vjp(L_q, L_v)` is the gradient g. Its derivative along a
        direction d is H d if q_bar_dot and v_bar_dot hold the derivatives of L_q and L_v along
        the tangents that `jvp` returns for d; without them L is taken as linear in the states.

        Args:
            q_bar: derivative of the loss with respect to `q`, or to its last state.
            v_bar: derivative of the loss with respect to `v`, likewise.
            direction: (dq, dv, du) of `jvp`.
            dparams: directions in parameters, as for `jvp`.
            q_bar_dot: derivative of q_bar along the direction; zero when None.
            v_bar_dot: derivative of v_bar along the direction; zero when None.

        Returns:
            The tangent of the gradient; its counts are zero.
        """
        where = "hessian_vector_product()"
        self._refuse_nonfinite(where)
        start, along, dtheta = self._direction(where, direction, dparams)
        tangents = self.replay.jvp(where, start, along, dtheta)
        bars = (
            None if value is None else state_cotangent(where, name, value, like)
            for name, value, like in (
                ("q_bar", q_bar, self.q),
                ("v_bar", v_bar, self.v),
                ("q_bar_dot", q_bar_dot, self.q),
                ("v_bar_dot", v_bar_dot, self.v),
            )
        )
        product = self.replay.hvp(where, tuple(bars), tangents, along, dtheta)
        refuse_nonfinite_bars(where, product)
        return self._gradient(product)

    def _gradient(self, bars: Bars) -> Gradient:
        """Return bars in the shapes of the rollout."""
        one: Any = 0 if self.q.ndim == 2 else ...
        counts = (np.asarray(bars.unrolled[one]), np.asarray(bars.ties[one]))
        return Gradient(bars.q[one], bars.v[one], bars.u[one], bars.params, *counts)

    def _direction(
        self, where: str, given: Any, dparams: Params | None
    ) -> tuple[tuple[Real | None, Real | None], Real | None, Real | None]:
        """Check a direction; return that of the first state, of the controls, of the parameters."""
        entries = f"{len(given)} entries" if hasattr(given, "__len__") else "no entries"
        if entries != "3 entries":
            raise ParameterError(
                f"{where}: direction has {entries}; it must have three, for q, v and u, "
                "each an array or None."
            )
        worlds = len(self.q) if self.q.ndim == 3 else None
        lead = self.q.shape[:-2]
        last = (self.q.shape[-1:], self.v.shape[-1:], self.u.shape[-2:])
        dq, dv, du = (
            array_direction(where, name, value, self.q, ((*lead, *shape), shape))
            for name, value, shape in zip(("dq", "dv", "du"), given, last, strict=True)
        )
        dtheta = theta_direction(where, self.replay.base, dparams, worlds, self.q.dtype)
        return (dq, dv), du if self.u.shape[-1] else None, dtheta

    def _cotangents(
        self,
        where: str,
        q_bar: ArrayLike | None,
        v_bar: ArrayLike | None,
        function: Cotangents | None,
    ) -> Cotangents:
        """Return the cotangents of the states of one piece, (worlds, rows, n), as a function."""
        if function is not None:
            if q_bar is not None or v_bar is not None:
                raise ParameterError(
                    f"{where}: both cotangents and q_bar or v_bar are given; pass one of them."
                )
            if not callable(function):
                raise ParameterError(
                    f"{where}: cotangents is of type {type(function).__name__}; pass a function "
                    "(first, q, v) -> (q_bar, v_bar)."
                )
            return self._asked(where, function)
        bars = (
            None if q_bar is None else state_cotangent(where, "q_bar", q_bar, self.q),
            None if v_bar is None else state_cotangent(where, "v_bar", v_bar, self.v),
        )
        if self.replay.schedule.whole:
            return lambda first, q, v: bars
        return self._spread(bars)

    def _asked(self, where: str, function: Cotangents) -> Cotangents:
        """Ask the user's function for each piece, and check what it returns."""
        one: Any = 0 if self.q.ndim == 2 else ...

        def ask(first: int, q: Real, v: Real) -> tuple[Real | None, Real | None]:
            q, v = q[one], v[one]
            found: Any = function(first, q, v)
            if not isinstance(found, tuple) or len(found) != 2:
                raise ParameterError(
                    f"{where}: cotangents() returned {type(found).__name__}; it must return a "
                    "tuple of two, q_bar and v_bar, each an array or None."
                )
            return (
                None if found[0] is None else piece_cotangent(where, "q_bar", found[0], q),
                None if found[1] is None else piece_cotangent(where, "v_bar", found[1], v),
            )

        return ask

    def _spread(self, bars: tuple[Real | None, ...]) -> Cotangents:
        """Put cotangents of the kept states at their places among all states of a piece."""

        def place(bar: Real | None, first: int, like: Real) -> Real | None:
            if bar is None:
                return None
            rows = like.shape[1]
            # one row alone is that of the last state
            steps = self.kept if bar.shape[1] > 1 else self.kept[-1:]
            begin, end = np.searchsorted(steps, (first, first + rows))
            at = steps[begin:end] - first
            # no array as long as the piece where its last state alone has a cotangent
            if at.size == 0 or (at.size == 1 and at[0] == rows - 1):
                return np.ascontiguousarray(bar[:, begin:end]) if at.size else None
            full = np.zeros_like(like)
            full[:, at] = bar[:, begin:end]
            return full

        return lambda first, q, v: (place(bars[0], first, q), place(bars[1], first, v))

    def _refuse_nonfinite(self, where: str) -> None:
        """Refuse a gradient through a NaN or infinity, by world and step."""
        status, step = np.atleast_1d(self.status), np.atleast_1d(self.status_step)
        refuse_nonfinite(where, (self.q, self.v), self.kept, status, step)


def refuse_nonfinite(
    where: str,
    states: tuple[Real, Real],
    kept: NDArray[np.int64],
    status: NDArray[np.uint32],
    status_step: NDArray[np.int32],
) -> None:
    """Refuse a gradient through a NaN or infinity, by world and step.

    Args:
        where: the call, for messages.
        states: q and v, real[(worlds,) rows, n].
        kept: int64[rows], the steps after which the states were reached.
        status: uint32[worlds], bits of `Status`.
        status_step: int32[worlds], step at which the first bit was set.
    """
    bad = status & np.uint32(Status.NONFINITE)
    if not bad.any():
        return
    # the word's step may be that of another bit; the first row that is not finite says it
    rows = [np.isfinite(a).all(axis=-1).reshape(len(bad), -1) for a in states]
    finite = rows[0] & rows[1]
    first = np.maximum(kept[np.argmin(finite, axis=1)] - 1, 0)
    step = np.where(finite.all(axis=1), status_step, first)
    raise WorldError(f"{where}: {describe(bad, step.astype(np.int32))}")
