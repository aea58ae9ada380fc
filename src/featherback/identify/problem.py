"""The prediction error of windows as a function of the unknowns, and its Jacobian.

With free starts the initial states of the windows are unknowns too. They are eliminated: for given
parameters every window takes the start that fits it best, and the Jacobian is projected on what no
start can explain (variable projection with Kaufman's Jacobian, whose gradient is exact at the best
starts). What is left is a small problem in the parameters alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from featherback._typing import Array, Bools, Real
from featherback.identify.log import Windows
from featherback.identify.unknowns import Unknowns
from featherback.model.manifold import normalized, quaternions, same_side, tangent_basis
from featherback.sim import Rollout, Simulator, Status
from featherback.sim.bridge import bridge_of

MAX_START_STEPS = 30  # Levenberg-Marquardt steps of the starts for one point
START_TOLERANCE = 1e-10  # relative predicted decrease below which the starts have converged
MAX_BYTES = 2**28  # of the tangents that are held at once


@dataclass(frozen=True, eq=False)
class Starts:
    """Initial states of the windows.

    Attributes:
        q: float64[windows, nq].
        v: float64[windows, nv].
    """

    q: Array
    v: Array


@dataclass(frozen=True, eq=False)
class Point:
    """The prediction at one value of the unknowns.

    Attributes:
        x: float64[n].
        starts: initial states of the windows.
        roll: the rollout of all windows.
        residual: float64[windows, rows], weighted.
        by_start: float64[windows, rows, 2 nv], its derivative with respect to the starts; None
            where they are measured.
    """

    x: Array
    starts: Starts
    roll: Rollout
    residual: Array
    by_start: Array | None = None


class PredictionProblem:
    """Weighted prediction errors of windows, whose starts are unknowns too where they are free."""

    def __init__(
        self, sim: Simulator, windows: Windows, unknowns: Sequence[Unknowns], free: bool
    ) -> None:
        """Collect the unknowns."""
        self.sim = sim
        self.windows = windows
        self.unknowns = list(unknowns)
        self.free = free
        self.labels = tuple(label for some in unknowns for label in some.labels)
        self.start = np.concatenate([some.start for some in unknowns])
        self.lower = np.concatenate([some.lower for some in unknowns])
        self.upper = np.concatenate([some.upper for some in unknowns])
        self.size = np.concatenate([some.size for some in unknowns])
        self.measured = Starts(windows.q[:, 0], windows.v[:, 0])
        self._names = {
            name for some in unknowns for tangent in some.tangents(some.start) for name in tangent
        }
        # rows of the residual that were measured
        self.measured_rows = _flat(windows.q_weight, windows.v_weight).ravel() > 0.0
        # where starts are guessed from: a point, and the derivative of its starts
        self._anchor: tuple[Array, Starts, Array] | None = None

    @property
    def hidden(self) -> int:
        """Number of unknowns in the starts."""
        return 2 * self.sim.model.nv * len(self.windows) if self.free else 0

    @property
    def independent(self) -> int:
        """Number of independent measurements: a quaternion has four numbers that count as three."""
        weight = self.windows.q_weight
        columns = [at for at, _ in quaternions(self.sim.model)]
        return self.windows.measured - int(np.count_nonzero(weight[..., columns]))

    def params(self, x: Array) -> dict[str, Array]:
        """Return the parameters that x stands for, by name."""
        params = {name: np.array(self.sim.params[name], np.float64) for name in sorted(self._names)}
        at = 0
        for some in self.unknowns:
            n = len(some.start)
            some.put(x[at : at + n], params)
            at += n
        return params

    def tangents(self, x: Array) -> list[dict[str, Array]]:
        """Return the derivative of the parameters with respect to each unknown."""
        out: list[dict[str, Array]] = []
        at = 0
        for some in self.unknowns:
            n = len(some.start)
            out += some.tangents(x[at : at + n])
            at += n
        return out

    def point(self, x: Array) -> Point:
        """Return the prediction at x; with free starts, from those that fit best."""
        if not self.free:
            return self._predict(x, self.measured)
        point = self._predict(x, self._guess(x))
        if self._anchor is not None and not is_finite(point):
            point = self._predict(x, self._anchor[1])
        return self._fit_starts(point)

    def jacobian(self, point: Point) -> Array:
        """Return the derivative of the residual, float64[windows, rows, n]; starts eliminated."""
        by_x = self.along(point, self.tangents(point.x), None)
        if point.by_start is None:
            return by_x
        basis, corner = np.linalg.qr(point.by_start)
        projection = np.swapaxes(basis, 1, 2) @ by_x
        corner = corner + 1e-12 * np.abs(corner).max() * np.eye(corner.shape[-1])
        self._anchor = (point.x, point.starts, -np.linalg.solve(corner, projection))
        return by_x - basis @ projection

    def _guess(self, x: Array) -> Starts:
        """Return starts for x to first order from the last point with a Jacobian."""
        if self._anchor is None:
            return self.measured
        at, starts, derivative = self._anchor
        return self._moved(starts, derivative @ (x - at))

    def _predict(self, x: Array, starts: Starts) -> Point:
        """Simulate all windows and return the weighted errors."""
        windows, params = self.windows, dict(self.params(x))
        roll = self.sim.rollout(starts.q, starts.v, windows.u, act=windows.act, params=params)
        rows = slice(None, None, self.windows.every)
        with np.errstate(all="ignore"):
            q = np.asarray(roll.q[:, rows], np.float64)
            v = np.asarray(roll.v[:, rows], np.float64)
            measured = same_side(self.sim.model, self.windows.q, q)
            errors = (
                (q - measured) * self.windows.q_weight,
                (v - self.windows.v) * self.windows.v_weight,
            )
        # what was not measured has no error, whatever was predicted
        weights = (self.windows.q_weight, self.windows.v_weight)
        parts = [np.where(w > 0.0, e, 0.0) for e, w in zip(errors, weights, strict=True)]
        return Point(x.copy(), starts, roll, _flat(*parts))

    def _fit_starts(self, point: Point) -> Point:
        """Move the starts to where they fit best, each window by itself (Levenberg-Marquardt)."""
        if not is_finite(point):
            return point
        damping = np.full(len(self.windows), 1e-9)
        for _ in range(MAX_START_STEPS):
            J = self.along(point, [], self.sim.model.nv)
            gradient = np.einsum("wri,wr->wi", J, point.residual)
            hessian = np.einsum("wri,wrj->wij", J, J)
            scale = np.einsum("wii->wi", hessian)
            scale = np.maximum(scale, 1e-12 * scale.max(axis=1, keepdims=True))
            cost = np.sum(point.residual**2, axis=1)
            # windows that cannot be helped are tried with more damping
            for _ in range(12):
                ridge = damping[:, None] * scale
                matrix = hessian + ridge[:, :, None] * np.eye(hessian.shape[-1])
                step = -np.linalg.solve(matrix, gradient[..., None])[..., 0]
                predicted = -np.einsum("wi,wi->w", gradient, step)
                if np.all(predicted <= START_TOLERANCE * np.maximum(cost, 1e-20)):
                    return replace(point, by_start=J)
                trial = self._predict(point.x, self._moved(point.starts, step))
                with np.errstate(all="ignore"):
                    better = np.sum(trial.residual**2, axis=1) <= cost
                damping = np.where(better, np.maximum(0.1 * damping, 1e-12), 10.0 * damping)
                if np.any(better & (predicted > START_TOLERANCE * cost)):
                    break
            else:
                return replace(point, by_start=J)
            point = self._merged(point, trial, better)
        return replace(point, by_start=self.along(point, [], self.sim.model.nv))

    def _merged(self, point: Point, trial: Point, better: Bools) -> Point:
        """Return the better of two points, window by window."""
        if np.all(better):
            return trial
        pick = better[:, None]
        starts = Starts(
            np.where(pick, trial.starts.q, point.starts.q),
            np.where(pick, trial.starts.v, point.starts.v),
        )
        return self._predict(point.x, starts)

    def _moved(self, starts: Starts, step: Array) -> Starts:
        """Return starts moved by tangents, float64[windows, 2 nv]."""
        n = self.sim.model.nv
        basis = tangent_basis(self.sim.model, starts.q)
        q = starts.q + np.einsum("wi,wij->wj", step[:, :n], basis)
        return Starts(normalized(self.sim.model, q), starts.v + step[:, n:])

    def along(self, point: Point, tangents: list[dict[str, Array]], nv: int | None) -> Array:
        """Return the residual's derivative along parameters, or along the starts if nv is given.

        Every direction is one more copy of the windows, run in forward mode.
        """
        count = len(tangents) if nv is None else 2 * nv
        windows, model = len(self.windows), self.sim.model
        replay = point.roll.replay
        one = replay.path.x[0].size * 8 * windows * 3
        at_once = max(1, MAX_BYTES // max(one, 1))
        basis = tangent_basis(model, point.starts.q)
        columns: list[Array] = []
        for first in range(0, count, at_once):
            chosen = range(first, min(first + at_once, count))
            n = len(chosen)
            dq, dv = np.zeros((n, windows, model.nq)), np.zeros((n, windows, model.nv))
            dtheta = None
            if nv is None:
                dtheta = self._dtheta([tangents[i] for i in chosen])
            else:
                for k, i in enumerate(chosen):
                    if i < nv:
                        dq[k] = basis[:, i]
                    else:
                        dv[k, :, i - nv] = 1.0
            layout = replay.path.layout
            start = layout.join((n * windows,), dq.reshape(-1, model.nq), dv.reshape(-1, model.nv))
            x_dot = replay.tiled(n).jvp("identify()", start, None, dtheta)
            columns += list(self._rows(layout.q(x_dot), layout.v(x_dot)).reshape(n, windows, -1))
        return np.stack(columns, axis=-1)

    def _dtheta(self, tangents: list[dict[str, Array]]) -> Real | None:
        """Return directions in the flat parameters, one for each world of a tiled rollout."""
        windows = len(self.windows)
        tiled: dict[str, Real] = {}
        for name in sorted(self._names):
            like = np.zeros_like(self.sim.params[name])
            each = np.stack([np.asarray(t.get(name, like)) for t in tangents])
            tiled[name] = np.repeat(each, windows, axis=0)
        worlds = windows * len(tangents)
        return bridge_of(self.sim).read_direction("identify()", tiled, worlds)

    def _rows(self, q_dot: Real, v_dot: Real) -> Array:
        """Return tangents of all states as derivatives of the residual."""
        rows = slice(None, None, self.windows.every)
        copies = len(q_dot) // len(self.windows)
        q_weight = np.tile(self.windows.q_weight, (copies, 1, 1))
        v_weight = np.tile(self.windows.v_weight, (copies, 1, 1))
        return _flat(q_dot[:, rows] * q_weight, v_dot[:, rows] * v_weight)


def is_finite(point: Point) -> bool:
    """Return whether all worlds of a point stayed finite."""
    return not np.any(np.atleast_1d(point.roll.status) & np.uint32(Status.NONFINITE))


def _flat(q: Array, v: Array) -> Array:
    """Return errors of q and v as one row for each window."""
    return np.concatenate([q.reshape(len(q), -1), v.reshape(len(v), -1)], axis=1)
