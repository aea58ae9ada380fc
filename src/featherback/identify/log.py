"""Logs: what was measured, with what noise; and the windows that are cut out of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from featherback._checks import check_integer, is_integer
from featherback._typing import Array
from featherback.errors import ParameterError, ShapeError
from featherback.model import Model
from featherback.model.manifold import normalized, quaternions


@dataclass(frozen=True, eq=False)
class Log:
    """A measured trajectory.

    Attributes:
        q: real[rows, nq], configurations.
        v: real[rows, nv], velocities; None where they were not measured, which asks for free
            starts.
        u: real[rows - 1, nu], the control between a row and the next; zero when None.
        q_noise: standard deviation of the numbers in q, broadcast to its shape; infinite where
            nothing was measured. That of a quaternion is half the angle's. None where it is not
            known: all of q is weighted alike, and the noise is estimated from what is left over.
        v_noise: likewise for v.
        every: simulator steps from a row to the next.
        act: real[rows, na], activations of actuators, from which predictions start; they are not
            compared. When None the activation is zero in the first row and not known in others.
    """

    q: ArrayLike
    v: ArrayLike | None = None
    u: ArrayLike | None = None
    q_noise: ArrayLike | None = None
    v_noise: ArrayLike | None = None
    every: int = 1
    act: ArrayLike | None = None


@dataclass(frozen=True, eq=False)
class Windows:
    """Pieces of logs that are predicted from their first row on, one world each.

    Attributes:
        q: float64[windows, rows, nq], measured.
        v: float64[windows, rows, nv].
        u: float64[windows, steps, nu], one row for each simulator step.
        q_weight: float64[windows, rows, nq], one over the noise; zero where nothing was measured.
        v_weight: float64[windows, rows, nv].
        every: simulator steps from a row to the next.
        known: whether the noise was given.
        act: float64[windows, na], activations at the first rows.
    """

    q: Array
    v: Array
    u: Array
    q_weight: Array
    v_weight: Array
    every: int
    known: bool
    act: Array

    def __len__(self) -> int:
        """Return the number of windows."""
        return len(self.q)

    @property
    def measured(self) -> int:
        """Number of measurements."""
        return int(np.count_nonzero(self.q_weight) + np.count_nonzero(self.v_weight))


@dataclass(frozen=True, eq=False)
class _Checked:
    """One log with all its arrays in full shape."""

    q: Array
    v: Array
    u: Array
    q_weight: Array
    v_weight: Array
    act: Array | None


def cut(
    where: str, model: Model, dt: float, logs: Sequence[Log], window: int | None, free: bool
) -> Windows:
    """Check logs and cut them into windows of `window` steps, or of the length of the shortest log.

    With free starts windows share no row; else the last row of one is the first of the next.
    """
    if not logs:
        raise ParameterError(f"{where}: there are no logs; give at least one.")
    every = {log.every for log in logs}
    if len(every) > 1 or not all(is_integer(count) and count >= 1 for count in every):
        raise ParameterError(
            f"{where}: every is {', '.join(map(str, sorted(every)))}; it must be the same integer "
            ">= 1 in all logs."
        )
    checked = [
        _check(f"{where}: log {i}", model, dt * min(every), log, free) for i, log in enumerate(logs)
    ]
    steps = min(len(c.q) for c in checked) - 1 if window is None else window
    if window is not None:
        check_integer(where, "window", window)
    pieces: list[tuple[Array, ...]] = []
    for i, log in enumerate(checked):
        if len(log.q) <= steps:
            raise ParameterError(
                f"{where}: log {i} has {len(log.q)} rows, too few for a window of {steps} steps, "
                f"which takes {steps + 1}; give a longer log or a shorter window."
            )
        stride = steps + 1 if free else steps
        for first in range(0, len(log.q) - steps, stride):
            rows = slice(first, first + steps + 1)
            u = np.repeat(log.u[first : first + steps], min(every), axis=0)
            act = _activation(f"{where}: log {i}", model, log.act, first)
            pieces.append(
                (log.q[rows], log.v[rows], u, log.q_weight[rows], log.v_weight[rows], act)
            )
    q, v, u, q_weight, v_weight, act = (np.array(part) for part in zip(*pieces, strict=True))
    if not free:
        # the first row is where the prediction starts, so there is nothing to compare
        q_weight[:, 0], v_weight[:, 0] = 0.0, 0.0
    known = all(log.q_noise is not None for log in logs)
    return Windows(q, v, u, q_weight, v_weight, min(every), known, act)


def _activation(here: str, model: Model, act: Array | None, row: int) -> Array:
    """Return the activation at a row, float64[na]; refuse a window where it is not known."""
    if act is not None:
        return act[row]
    if model.na and row:
        raise ParameterError(
            f"{here} has no act, and a window starts at row {row}, where the activation is not "
            "known; give act, such as that of a rollout of u, or a window as long as the log."
        )
    return np.zeros(model.na)


def _check(here: str, model: Model, dt: float, log: Log, free: bool) -> _Checked:
    """Return one log with its arrays checked and in full shape."""
    q = _numbers(here, "q", log.q, model.nq, None)
    for at, _ in quaternions(model):
        short = np.linalg.norm(q[:, at : at + 4], axis=1) == 0.0
        if np.any(short):
            raise ParameterError(
                f"{here}: q[{int(np.argmax(short))}, {at}:{at + 4}] is a quaternion of length 0; "
                "give one that is a rotation."
            )
    # noise along the length of a quaternion says nothing
    q = normalized(model, q)
    if len(q) < 2:
        raise ParameterError(
            f"{here} has {len(q)} rows; a motion has at least 2: give a longer log."
        )
    if log.v is None and not free:
        raise ParameterError(
            f"{here} has no v, and without it a prediction has no velocity to start from; give v, "
            'or pass starts="free" so that it is estimated.'
        )
    if log.v is None:
        v = _differences(model, q, dt)
    else:
        v = _numbers(here, "v", log.v, model.nv, len(q))
    if log.v is not None and (log.q_noise is None) != (log.v_noise is None):
        given, missing = ("v", "q") if log.q_noise is None else ("q", "v")
        raise ParameterError(
            f"{here}: {given}_noise is given and {missing}_noise is not, so that they cannot be "
            "weighed against each other; give both or neither."
        )
    none = np.zeros((len(q) - 1, model.nu))
    u = none if log.u is None else _numbers(here, "u", log.u, model.nu, len(q) - 1)
    act = None if log.act is None else _numbers(here, "act", log.act, model.na, len(q))
    v_noise = np.inf if log.v is None else log.v_noise
    q_weight = _weights(here, "q_noise", log.q_noise, q)
    v_weight = _weights(here, "v_noise", v_noise, v)
    if not np.any(q_weight) and not np.any(v_weight):
        raise ParameterError(
            f"{here}: q_noise and v_noise are infinite throughout, so nothing was measured; give "
            "a finite noise to what was."
        )
    return _Checked(q, v, u, q_weight, v_weight, act)


def _numbers(here: str, name: str, value: Any, width: int, rows: int | None) -> Array:
    """Return a table of finite numbers, float64[rows, width]."""
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise ShapeError(f"{here}: {name} is not a table of numbers; give one.") from None
    if array.ndim != 2 or array.shape[1] != width or (rows is not None and len(array) != rows):
        wanted = "rows" if rows is None else rows
        raise ShapeError(
            f"{here}: {name} has shape {array.shape}; expected ({wanted}, {width}) for this model "
            "and log."
        )
    bad = ~np.isfinite(array)
    if np.any(bad):
        row, column = (int(i) for i in np.argwhere(bad)[0])
        raise ParameterError(
            f"{here}: {name}[{row}, {column}] is {array[row, column]}; give finite numbers, and an "
            "infinite noise where nothing was measured."
        )
    return array


def _weights(here: str, name: str, noise: ArrayLike | None, like: Array) -> Array:
    """Return one over the noise in the shape of `like`; ones where it is not known."""
    if noise is None:
        return np.ones_like(like)
    try:
        sigma = np.asarray(noise, np.float64)
    except (TypeError, ValueError):
        raise ShapeError(f"{here}: {name} is not an array of numbers; give one.") from None
    try:
        sigma = np.broadcast_to(sigma, like.shape)
    except ValueError:
        raise ShapeError(
            f"{here}: {name} has shape {sigma.shape}; it must broadcast to {like.shape}, the shape "
            f"of {name[0]}."
        ) from None
    bad = ~(sigma > 0.0)
    if np.any(bad):
        raise ParameterError(
            f"{here}: {name} holds {float(sigma[bad][0]):g}; a standard deviation is above 0, and "
            "infinite where nothing was measured."
        )
    return 1.0 / sigma


def _differences(model: Model, q: Array, dt: float) -> Array:
    """Return velocities from central differences of the configurations."""
    import mujoco

    v = np.zeros((len(q), model.nv))
    for row in range(len(q)):
        before, after = max(row - 1, 0), min(row + 1, len(q) - 1)
        mujoco.mj_differentiatePos(model.mujoco, v[row], (after - before) * dt, q[before], q[after])
    return v
