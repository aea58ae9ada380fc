"""What a rollout returns, and its derivatives."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from featherback._typing import Ints, Params, Real
from featherback.errors import ParameterError, WorldError
from featherback.sim.cotangents import (
    ask_function,
    place_rows,
    read_cotangents,
    require_cotangent,
)
from featherback.sim.diagnosis import Diagnosis, diagnose
from featherback.sim.inputs import array_direction
from featherback.sim.replay import Bars, Cotangents, Replay, require_finite_states
from featherback.sim.state import StateLayout
from featherback.sim.status import WorldStatus, describe, world_error

# (first, q, v) -> (q_bar, v_bar), with act and act_bar where the model has activations
CotangentFunction = Callable[..., tuple[Any, ...]]


@dataclass(frozen=True, eq=False)
class Gradient:
    """Gradient of a loss on a trajectory. World axes are those of the rollout.

    Attributes:
        q: real[(worlds,) nq], with respect to the initial configuration, ambient: it includes the
            normalisation of quaternions, so plain finite differences in q agree with it.
        v: real[(worlds,) nv], with respect to the initial velocity.
        act: real[(worlds,) na], with respect to the initial activation.
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
    act: Real
    u: Real
    params: dict[str, Real]
    unrolled: Ints
    ties: Ints


def gradient_of(layout: StateLayout, bars: Bars, u: Real, one: Any) -> Gradient:
    """Return what a backward pass gave in the caller's shapes.

    Args:
        layout: of the states.
        bars: of the backward pass.
        u: gradient with respect to the controls, with a world axis.
        one: index that takes the world axis off where the caller gave none.
    """
    q, v, act = (part(bars.x)[one].copy() for part in (layout.q, layout.v, layout.act))
    counts = np.asarray(bars.unrolled[one]), np.asarray(bars.ties[one])
    return Gradient(q, v, act, u[one], bars.params, *counts)


@dataclass(frozen=True, eq=False, repr=False)
class Rollout:
    """A trajectory. The leading world axis is there only if the input had one.

    Its arrays are read-only, since `vjp` runs the steps again from them; copy them to change them.

    Attributes:
        kept: int64[rows], the steps after which the states in q and v were reached.
        status: uint32[worlds], bits of `Status`; a scalar array for one world.
        status_step: int32[worlds], step at which the first bit was set, -1 for none.
        residual: real[worlds], largest residual of the contact solve in any step [m/s].
        sweeps: real[worlds], largest number of Gauss-Seidel sweeps in one step.
        factorisations: real[worlds], largest number of matrices that the contact solve of one step
            has factorised, the most of any group of bodies that touch; under contact="mujoco"
            the iterations.
        dt: step [s]; real[worlds] where each world has its own.
        replay: what the derivatives run again.
    """

    kept: NDArray[np.int64]
    status: NDArray[np.uint32]
    status_step: Ints
    residual: Real
    sweeps: Real
    factorisations: Real
    dt: float | Real
    replay: Replay

    def __post_init__(self) -> None:
        """Make the arrays read-only."""
        path = self.replay.path
        own = (
            self.kept,
            self.status,
            self.status_step,
            self.residual,
            self.sweeps,
            self.factorisations,
            self.dt,
        )
        for array in (*own, path.x, path.u):
            if isinstance(array, np.ndarray):
                array.setflags(write=False)

    def __repr__(self) -> str:
        """Return the model's name, the sizes, and whether all worlds are OK."""
        path = self.replay.path
        worlds = f"{path.worlds} worlds, " if path.batched else ""
        verdict = "ok" if self.ok else "NOT OK"
        return f'Rollout("{path.layout.model}", {worlds}{path.steps} steps, {verdict})'

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what was pickled, read-only as it was."""
        self.__dict__.update(state)
        self.__post_init__()

    @property
    def q(self) -> Real:
        """real[(worlds,) rows, nq], the first row is the initial configuration.

        There is one row for each step and one more, unless `checkpoint` kept fewer.
        """
        return self.replay.path.q

    @property
    def v(self) -> Real:
        """real[(worlds,) rows, nv], velocities."""
        return self.replay.path.v

    @property
    def act(self) -> Real:
        """real[(worlds,) rows, na], activations of actuators."""
        return self.replay.path.act

    @property
    def warm(self) -> Real:
        """real[(worlds,) rows, nv], accelerations of the solves before; none unless warmstart."""
        return self.replay.path.warm

    @property
    def u(self) -> Real:
        """real[(worlds,) steps, nu], the controls; no world axis where all worlds share them."""
        path = self.replay.path
        return np.zeros((path.steps, 0), path.x.dtype) if path.u is None else path.u

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.replay.path.steps

    @property
    def ok(self) -> bool:
        """Whether no world has a status bit set."""
        return not np.any(self.status)

    def describe_status(self) -> str:
        """Return a text that names each world that is not OK, and what to do."""
        return describe(*self._found, np.atleast_1d(self.residual))

    def raise_if_bad(self) -> None:
        """Raise WorldError if any world has a status bit set."""
        if not self.ok:
            raise world_error("rollout()", *self._found, np.atleast_1d(self.residual))

    def vjp(
        self,
        q_bar: ArrayLike | None = None,
        v_bar: ArrayLike | None = None,
        act_bar: ArrayLike | None = None,
        *,
        cotangents: CotangentFunction | None = None,
    ) -> Gradient:
        """Return the gradient of a loss with respect to initial state, controls and parameters.

        The parameters are those that were passed to the rollout.

        Args:
            q_bar: derivative of the loss with respect to `q`, in its shape, or in that of one
                state for a loss on the last one; zero when None.
            v_bar: derivative of the loss with respect to `v`, likewise.
            act_bar: derivative of the loss with respect to `act`, likewise.
            cotangents: instead of these, a function (first, q, v) -> (q_bar, v_bar) that is given
                the states from step `first` on, read-only, and returns the derivatives with respect
                to them, in their shapes; (first, q, v, act) -> (q_bar, v_bar, act_bar) where the
                model has activations. With a checkpointed rollout it is called for one piece of the
                rollout after the other, the last first, so a loss on all states needs no memory
                for them.

        Raises:
            WorldError: where a step has no gradient, or a world left the finite numbers.
            ParameterError: where a parameter given to the rollout has no gradient, or a cotangent
                holds a NaN or infinity.
            ShapeError: where a cotangent has another shape than the states.
        """
        where = "vjp()"
        with self._residuals():
            given = self._cotangents(where, (q_bar, v_bar, act_bar), cotangents)
            bars = self.replay.vjp(where, given)
        path = self.replay.path
        return gradient_of(path.layout, bars, bars.u, path.one)

    def diagnose(
        self,
        q_bar: ArrayLike | None = None,
        v_bar: ArrayLike | None = None,
        act_bar: ArrayLike | None = None,
        *,
        cotangents: CotangentFunction | None = None,
    ) -> Diagnosis:
        """Return how the gradient grows along the rollout, and what happens in its steps.

        Args are those of `vjp`.
        """
        where = "diagnose()"
        with self._residuals():
            given = self._cotangents(where, (q_bar, v_bar, act_bar), cotangents)
            trace = self.replay.vjp(where, given, trace=True).trace
        assert trace is not None
        return diagnose(trace[self.replay.path.one], self.dt)

    def jvp(
        self,
        dq: ArrayLike | None = None,
        dv: ArrayLike | None = None,
        du: ArrayLike | None = None,
        *,
        dact: ArrayLike | None = None,
        dparams: Params | None = None,
    ) -> tuple[Real, ...]:
        """Return the derivative of all states along a direction, in forward mode.

        Args:
            dq: real[(worlds,) nq], direction in the initial configuration, ambient; zero if None.
            dv: real[(worlds,) nv], direction in the initial velocity.
            du: real[(worlds,) steps, nu], direction in the controls.
            dact: real[(worlds,) na], direction in the initial activation.
            dparams: directions in parameters, by name, in the shape of the parameter or with a
                leading world axis.

        Returns:
            Tangents in the shapes of `q` and `v`, and of `act` where the model has activations.
        """
        where = "jvp()"
        path = self.replay.path
        with self._residuals():
            along = self._direction(where, (dq, dv, du), dact, dparams)
            return path.layout.parts(self.replay.jvp(where, *along)[path.one])

    def hessian_vector_product(
        self,
        q_bar: ArrayLike | None = None,
        v_bar: ArrayLike | None = None,
        act_bar: ArrayLike | None = None,
        *,
        direction: tuple[ArrayLike | None, ArrayLike | None, ArrayLike | None] = (None, None, None),
        dact: ArrayLike | None = None,
        dparams: Params | None = None,
        q_bar_dot: ArrayLike | None = None,
        v_bar_dot: ArrayLike | None = None,
        act_bar_dot: ArrayLike | None = None,
    ) -> Gradient:
        """Return the derivative of `vjp` along a direction: the Hessian times that direction.

        For a loss L on the states, `vjp(L_q, L_v)` is the gradient g. Its derivative along a
        direction d is H d if q_bar_dot and v_bar_dot hold the derivatives of L_q and L_v along
        the tangents that `jvp` returns for d; without them L is taken as linear in the states.

        Args:
            q_bar: derivative of the loss with respect to `q`, or to its last state.
            v_bar: derivative of the loss with respect to `v`, likewise.
            act_bar: derivative of the loss with respect to `act`, likewise.
            direction: (dq, dv, du) of `jvp`.
            dact: as for `jvp`.
            dparams: directions in parameters, as for `jvp`.
            q_bar_dot: derivative of q_bar along the direction; zero when None.
            v_bar_dot: derivative of v_bar along the direction; zero when None.
            act_bar_dot: derivative of act_bar along the direction; zero when None.

        Returns:
            The tangent of the gradient; its counts are zero.
        """
        where = "hessian_vector_product()"
        path = self.replay.path
        given = (q_bar, v_bar, act_bar, q_bar_dot, v_bar_dot, act_bar_dot)
        with self._residuals():
            start, du, dtheta = self._direction(where, direction, dact, dparams)
            require_cotangent(where, given, "q_bar, v_bar or act_bar")
            x_dot = self.replay.jvp(where, start, du, dtheta)
            bars = (
                read_cotangents(where, path, (q_bar, v_bar, act_bar)),
                read_cotangents(where, path, (q_bar_dot, v_bar_dot, act_bar_dot), "_bar_dot"),
            )
            product = self.replay.hvp(where, bars, x_dot, du, dtheta)
        return gradient_of(path.layout, product, product.u, path.one)

    @contextmanager
    def _residuals(self) -> Generator[None, None, None]:
        """Tell an error the residuals of its worlds."""
        try:
            yield
        except WorldError as error:
            error.residual = np.atleast_1d(self.residual)[error.world].astype(np.float64)
            raise

    @property
    def _found(self) -> WorldStatus:
        """What went wrong, with a world axis."""
        return WorldStatus(np.atleast_1d(self.status), np.atleast_1d(self.status_step))

    def _direction(
        self, where: str, given: Any, dact: ArrayLike | None, dparams: Params | None
    ) -> tuple[Real | None, Real | None, Real | None]:
        """Check a direction; return that of the first state, of the controls, of the parameters."""
        path = self.replay.path
        require_finite_states(where, path, self._found)
        entries = f"{len(given)} entries" if hasattr(given, "__len__") else "no entries"
        if entries != "3 entries":
            raise ParameterError(
                f"{where}: direction has {entries}; it must have three, for q, v and u, "
                "each an array or None."
            )
        dq, dv, du = given
        layout, worlds = path.layout, path.worlds
        named = {"dq": dq, "dv": dv, "dact": dact, "du": du}
        last = {"du": (path.steps, layout.nu)}
        found: dict[str, Real | None] = {}
        for name, value in named.items():
            shape = last.get(name, (layout.lengths[name],))
            found[name] = array_direction(where, name, value, path.x, (path.lead(*shape), shape))
        start = None
        if any(found[name] is not None for name in ("dq", "dv", "dact")):
            start = layout.join((worlds,), found["dq"], found["dv"], found["dact"])
        lead = worlds if path.batched else None
        dtheta = self.replay.bridge.read_direction(where, dparams, lead)
        return start, found["du"] if layout.nu else None, dtheta

    def _cotangents(
        self, where: str, bars: tuple[Any, ...], function: CotangentFunction | None
    ) -> Cotangents:
        """Return the cotangents of the states of one piece, real[worlds, rows, nx]."""
        path = self.replay.path
        require_finite_states(where, path, self._found)
        if function is not None:
            if any(bar is not None for bar in bars):
                raise ParameterError(
                    f"{where}: both cotangents and q_bar or v_bar are given; pass one of them."
                )
            return ask_function(where, path, function)
        require_cotangent(where, bars, "q_bar, v_bar, act_bar or cotangents")
        x_cot = read_cotangents(where, path, bars)
        if path.schedule.keeps_all:
            return lambda first, x: x_cot
        return lambda first, x: place_rows(x_cot, self.kept, first, x)
