"""First derivatives of one step: along directions, and as matrices."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from featherback._core import Engine
from featherback.errors import ParameterError, ShapeError, WorldError
from featherback.model import Model
from featherback.sim.inputs import (
    NO_GRADIENT,
    as_real,
    broadcast_worlds,
    named_arrays,
    pack_theta,
    rows,
)
from featherback.sim.status import describe

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
        dtheta = self._theta_direction(where, dparams, worlds if batched else None)
        q_dot = np.empty((worlds, self.model.nq), self.dtype)
        v_dot = np.empty((worlds, self.model.nv), self.dtype)
        status, step = np.zeros(worlds, np.uint32), np.full(worlds, -1, np.int32)
        directions = (named.get("dq"), named.get("dv"), named.get("du"), dtheta)
        if worlds:
            point = (named["q"], named["v"], named.get("u"))
            self._engine.jvp(*point, theta, directions, q_dot, v_dot, status, step)
        if np.any(status):
            raise WorldError(f"{where}: {describe(status, step)}")
        return (q_dot, v_dot) if batched else (q_dot[0], v_dot[0])

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

    def _theta(self, where: str, params: Params | None, worlds: int | None) -> Real | None:
        """Return the flat parameters with some replaced, or None for the simulator's own."""
        given = named_arrays(where, params)
        if not given:
            return None
        theta = pack_theta(where, self.model.structure, self._base, given, worlds)
        return np.ascontiguousarray(theta, self.dtype)

    def _point(self, where: str, inputs: dict[str, Any]) -> tuple[dict[str, Real], bool]:
        """Check a state and directions; bring them to (worlds, n); directions may be missing."""
        m = self.model
        lengths = {"q": m.nq, "v": m.nv, "u": m.nu}
        named: dict[str, tuple[Real, bool]] = {}
        for name, value in inputs.items():
            n = lengths[name[-1]]
            if value is None and name == "u":
                value = np.zeros(n)
            if value is None and name not in ("q", "v"):
                continue
            named[name] = rows(where, name, as_real(where, name, value, self.dtype), n, m.name)
            if name[0] == "d":
                _refuse_nonfinite(where, name, named[name][0])
        return broadcast_worlds(where, named)

    def _theta_direction(self, where: str, given: Any, worlds: int | None) -> Real | None:
        """Return a direction in the flat parameters, (ntheta,) or (worlds, ntheta), or None."""
        if given is None or (isinstance(given, Mapping) and not given):
            return None
        if not isinstance(given, Mapping):
            raise ParameterError(
                f"{where}: dparams is of type {type(given).__name__}; it must be a dict from "
                'parameter names to arrays, such as {"body_mass": direction}.'
            )
        parts = {k: self._direction(where, str(k), x, worlds) for k, x in given.items()}
        own = any(a.ndim > self._base[k].ndim for k, a in parts.items())
        lead = (worlds,) if own and worlds is not None else ()
        columns: list[Real] = []
        for name, base in self._base.items():
            part = parts.get(name, np.zeros(base.shape, self.dtype))
            flat = part.reshape(*part.shape[: part.ndim - base.ndim], base.size)
            columns.append(np.broadcast_to(flat, (*lead, base.size)))
        return np.concatenate(columns, axis=-1)

    def _direction(self, where: str, name: str, value: Any, worlds: int | None) -> Real:
        """Check the direction in one parameter."""
        if name not in self._base:
            near = difflib.get_close_matches(name, list(self._base), n=3)
            known = f"known: {', '.join(self._base)}."
            hint = f"did you mean {', '.join(near)}?" if near else known
            raise ParameterError(f'{where}: unknown parameter "{name}"; {hint}')
        label = f'dparams["{name}"]'
        if name in NO_GRADIENT:
            raise ParameterError(
                f"{where}: {label} has no gradient: {NO_GRADIENT[name]}; leave it out."
            )
        shape = self._base[name].shape
        array = as_real(where, label, value, self.dtype)
        if array.shape == () and shape == (1,):
            array = array.reshape(1)
        batch = () if worlds is None else (worlds, *shape)
        if array.shape not in (shape, batch):
            either = f" or {batch}" if batch else ""
            raise ShapeError(f"{where}: {label} has shape {array.shape}; expected {shape}{either}.")
        _refuse_nonfinite(where, label, array)
        return array


def _refuse_nonfinite(where: str, name: str, array: Real) -> None:
    """Refuse a direction with a NaN or infinity."""
    if not np.all(np.isfinite(array)):
        raise ParameterError(f"{where}: {name} holds a NaN or infinity; give finite numbers.")
