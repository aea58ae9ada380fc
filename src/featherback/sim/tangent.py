"""First derivatives of one step: along directions, and as matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from featherback._core import Engine
from featherback.errors import WorldError
from featherback.model import Model
from featherback.sim.directions import refuse_nonfinite, theta_direction
from featherback.sim.inputs import as_real, broadcast_worlds, named_arrays, pack_theta, rows
from featherback.sim.replay import Replay, refuse_nonfinite_bars
from featherback.sim.rollout import Gradient
from featherback.sim.schedule import Schedule
from featherback.sim.status import Status, describe

Real = NDArray[np.floating]
Params = dict[str, ArrayLike]


class Tangents:
    """The part of a Simulator that differentiates one step.

    Attributes:
        model: the model that is stepped.
        dtype: number type of all results.
    """

    model: Model
    dtype: np.dtype[Any]
    _engine: Engine
    _base: dict[str, Real]

    def jvp(
        self,
        q: ArrayLike,
        v: ArrayLike,
        u: ArrayLike | None = None,
        dq: ArrayLike | None = None,
        dv: ArrayLike | None = None,
        du: ArrayLike | None = None,
        *,
        params: Params | None = None,
        dparams: Params | None = None,
    ) -> tuple[Real, Real]:
        """Return the directional derivative of one step, in forward mode.

        Args:
            q: real[(worlds,) nq], configuration.
            v: real[(worlds,) nv], velocity.
            u: real[(worlds,) nu], control; zero when None.
            dq: real[(worlds,) nq], direction in q, ambient: quaternions have four numbers, and
                a change of their length has no effect; zero when None.
            dv: real[(worlds,) nv], direction in v; zero when None.
            du: real[(worlds,) nu], direction in u; zero when None.
            params: parameters that replace the simulator's in this call.
            dparams: directions in parameters, by name, in the shape of the parameter or with a
                leading world axis; zero for those left out.

        Returns:
            The derivatives of the next q (ambient) and v. What has no world axis is shared by all
            worlds.

        Raises:
            WorldError: where a step has no gradient, or a world leaves the finite numbers.
            ParameterError: where a parameter has no gradient or a direction is not finite.
            ShapeError: where an array has a wrong shape.
        """
        where = "jvp()"
        inputs = {"q": q, "v": v, "u": u, "dq": dq, "dv": dv, "du": du}
        named, batched = self._point(where, inputs)
        worlds = len(named["q"])
        theta = self._theta(where, params, worlds if batched else None)
        lead = worlds if batched else None
        dtheta = theta_direction(where, self._base, dparams, lead, self.dtype)
        replay = self._one_step(named, theta, {})
        start = (named.get("dq"), named.get("dv"))
        q_dot, v_dot = replay.jvp(where, start, _row(named.get("du")), dtheta)
        q_dot, v_dot = q_dot[:, 1].copy(), v_dot[:, 1].copy()
        return (q_dot, v_dot) if batched else (q_dot[0], v_dot[0])

    def vjp(
        self,
        q: ArrayLike,
        v: ArrayLike,
        u: ArrayLike | None = None,
        q_bar: ArrayLike | None = None,
        v_bar: ArrayLike | None = None,
        *,
        params: Params | None = None,
    ) -> Gradient:
        """Return the gradient of a loss on the next state, in reverse mode.

        Args:
            q: real[(worlds,) nq], configuration.
            v: real[(worlds,) nv], velocity.
            u: real[(worlds,) nu], control; zero when None.
            q_bar: real[(worlds,) nq], derivative of the loss with respect to the next q; zero
                when None.
            v_bar: real[(worlds,) nv], that with respect to the next v; zero when None.
            params: parameters that replace the simulator's in this call; their gradients come too.

        Returns:
            Gradients as of `Rollout.vjp`; that of the control has no axis for steps.

        Raises:
            WorldError: where the step has no gradient, or a world leaves the finite numbers.
            ParameterError: where a parameter has no gradient or a cotangent is not finite.
            ShapeError: where an array has a wrong shape.
        """
        where = "vjp()"
        inputs = {"q": q, "v": v, "u": u, "q_bar": q_bar, "v_bar": v_bar}
        named, batched = self._point(where, inputs)
        theta = self._theta(where, params, len(named["q"]) if batched else None)
        shapes = {name: np.shape(value) for name, value in named_arrays(where, params).items()}
        bars = (_row(named.get("q_bar")), _row(named.get("v_bar")))
        out = self._one_step(named, theta, shapes).vjp(where, lambda first, q, v: bars)
        finite = np.isfinite(named["q"]).all(axis=1) & np.isfinite(named["v"]).all(axis=1)
        if not np.all(finite):
            status = np.where(finite, 0, int(Status.NONFINITE)).astype(np.uint32)
            raise WorldError(f"{where}: {describe(status, np.zeros(len(status), np.int32))}")
        refuse_nonfinite_bars(where, out)
        one: Any = ... if batched else 0
        counts = (np.asarray(out.unrolled[one]), np.asarray(out.ties[one]))
        return Gradient(out.q[one], out.v[one], out.u[:, 0][one], out.params, *counts)

    def linearize(
        self,
        q: ArrayLike,
        v: ArrayLike,
        u: ArrayLike | None = None,
        *,
        params: Params | None = None,
    ) -> tuple[Real, Real]:
        """Return the Jacobians of one step, laid out as MuJoCo's `mjd_transitionFD` does.

        Args:
            q: real[(worlds,) nq], configuration.
            v: real[(worlds,) nv], velocity.
            u: real[(worlds,) nu], control; zero when None.
            params: parameters that replace the simulator's in this call.

        Returns:
            A, real[(worlds,) 2 nv, 2 nv], the derivative of the next (dq, v) with respect to
            (dq, v), where dq lies in the tangent space: a turn has three numbers, in body axes;
            and B, real[(worlds,) 2 nv, nu], that with respect to u.

        Raises:
            WorldError: where a step has no gradient, or a world leaves the finite numbers.
            ShapeError: where an array has a wrong shape.
        """
        where = "linearize()"
        if params is None:
            # one world whose arrays fit takes a short way; what goes wrong there is told below
            out: Any = self._engine.linearize_one(q, v, u)
            if out is not None and not out[2]:
                return out[0], out[1]
        named, batched = self._point(where, {"q": q, "v": v, "u": u})
        worlds, n = len(named["q"]), 2 * self.model.nv
        theta = self._theta(where, params, worlds if batched else None)
        A = np.empty((worlds, n, n), self.dtype)
        B = np.empty((worlds, n, self.model.nu), self.dtype)
        status, step = np.zeros(worlds, np.uint32), np.full(worlds, -1, np.int32)
        if worlds:
            point = (named["q"], named["v"], named.get("u"))
            self._engine.linearize(*point, theta, A, B, status, step)
        if np.any(status):
            raise WorldError(f"{where}: {describe(status, step)}")
        return (A, B) if batched else (A[0], B[0])

    def _one_step(
        self, named: dict[str, Real], theta: Real | None, given: dict[str, tuple[int, ...]]
    ) -> Replay:
        """Return a rollout of one step, of which only the start is known."""
        # the second row stands for the next state, which derivatives compute themselves
        q, v = (np.repeat(named[name][:, None], 2, axis=1) for name in ("q", "v"))
        u = _row(named.get("u")) if self.model.nu else None
        plan = Schedule(1, 1, 0, True)
        return Replay(self._engine, self._base, theta, given, np.arange(2), q, v, u, plan)

    def _theta(self, where: str, params: Params | None, worlds: int | None) -> Real | None:
        """Return the flat parameters with some replaced, or None for the simulator's own."""
        given = named_arrays(where, params)
        if not given:
            return None
        theta = pack_theta(where, self.model, self._base, given, worlds)
        return np.ascontiguousarray(theta, self.dtype)

    def _point(self, where: str, inputs: dict[str, Any]) -> tuple[dict[str, Real], bool]:
        """Check a state and directions; bring them to (worlds, n); directions may be missing."""
        m = self.model
        lengths = {"q": m.nq, "v": m.nv, "u": m.nu}
        named: dict[str, tuple[Real, bool]] = {}
        for name, value in inputs.items():
            n = lengths[name.removeprefix("d").removesuffix("_bar")]
            if value is None and name == "u":
                value = np.zeros(n)
            if value is None and name not in ("q", "v"):
                continue
            named[name] = rows(where, name, as_real(where, name, value, self.dtype), n, m.name)
            if name not in lengths:
                refuse_nonfinite(where, name, named[name][0])
        return broadcast_worlds(where, named)


def _row(array: Real | None) -> Real | None:
    """Return one row for each world as the only step of a rollout."""
    return None if array is None else array[:, None]
