"""Costs of trajectories: a number for each world, and its derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from featherback._typing import Array, Real
from featherback.control.controls import real_numbers
from featherback.errors import ParameterError
from featherback.model import Model
from featherback.model.joints import FREE
from featherback.sim import Simulator


@dataclass(frozen=True, eq=False)
class Value:
    """The cost of each world and its cotangents; None stands for zero.

    Attributes:
        cost: float64[worlds].
        q_bar: float64[worlds, steps + 1, nq], derivative with respect to the configurations.
        v_bar: float64[worlds, steps + 1, nv], with respect to the velocities.
        u_bar: float64[worlds, steps, nu], with respect to the controls.
    """

    cost: Array
    q_bar: Array | None = None
    v_bar: Array | None = None
    u_bar: Array | None = None


class Cost(Protocol):
    """Any function of a batch of trajectories with this signature is a cost."""

    def __call__(self, q: Array, v: Array, u: Array) -> Value:
        """Return costs and cotangents of q[worlds, steps + 1, nq], v and u."""
        ...


@dataclass(frozen=True, eq=False)
class FinalPosition:
    """Half the squared distance of a free body from a target at the last step [m²].

    Attributes:
        columns: the three columns of q that hold the body's position.
        target: float64[3], [m].
        weight: what the cost is multiplied by.
    """

    columns: slice
    target: Array
    weight: float = 1.0

    def __call__(self, q: Array, v: Array, u: Array) -> Value:
        """Return the cost and its derivative."""
        miss = q[:, -1, self.columns] - self.target
        q_bar = np.zeros_like(q)
        q_bar[:, -1, self.columns] = self.weight * miss
        return Value(0.5 * self.weight * np.sum(miss**2, axis=1), q_bar)

    def distance(self, q: Real) -> Array:
        """Return the distance from the target at the last step [m], for each world."""
        miss = np.asarray(q, np.float64)[..., -1, self.columns] - self.target
        return np.linalg.norm(miss, axis=-1)


def final_position(
    model: Model, body: str, target: ArrayLike, *, weight: float = 1.0
) -> FinalPosition:
    """Return the cost of a free body's position at the last step.

    Args:
        model: the model.
        body: name of a body with a free joint.
        target: real[3], where it should be [m].
        weight: what the cost is multiplied by.

    Raises:
        ParameterError: if there is no such body, it has no free joint, or the target is not
            three finite numbers.
    """
    where = "final_position()"
    if body not in model.body_names:
        raise ParameterError(
            f'{where}: there is no body "{body}"; there are: {", ".join(model.body_names[:10])}.'
        )
    number = model.body_names.index(body)
    joint = int(model.mujoco.body_jntadr[number])
    if joint < 0 or int(model.mujoco.jnt_type[joint]) != FREE:
        raise ParameterError(
            f'{where}: body "{body}" has no free joint; name a body that moves freely.'
        )
    goal = _point(where, target)
    start = int(model.mujoco.jnt_qposadr[joint])
    return FinalPosition(slice(start, start + 3), goal, weight)


@dataclass(frozen=True, eq=False)
class SitePosition:
    """Half the squared distance of a site from a target [m²], at the last step or averaged.

    Attributes:
        sim: the simulator, for the kinematics.
        site: number of the site.
        target: float64[3], [m].
        always: the mean over all states instead of the last one.
        weight: what the cost is multiplied by.
    """

    sim: Simulator
    site: int
    target: Array
    always: bool = False
    weight: float = 1.0

    def __call__(self, q: Array, v: Array, u: Array) -> Value:
        """Return the cost and its derivative."""
        rows = slice(None) if self.always else slice(-1, None)
        states = q[:, rows].reshape(-1, q.shape[-1])
        # a trajectory that left the finite numbers has no cost
        finite = np.isfinite(states).all(axis=1)
        miss = np.full((len(states), 3), np.nan)
        found = np.asarray(self.sim.site_positions(states[finite]), np.float64)
        miss[finite] = found[:, self.site] - self.target
        share = self.weight * len(q) / len(states)
        finite = np.isfinite(miss).all(axis=1)
        x_bar = np.zeros((np.count_nonzero(finite), *found.shape[1:]))
        x_bar[:, self.site] = share * miss[finite]
        bars, q_bar = np.zeros_like(states), np.zeros_like(q)
        bars[finite] = self.sim.site_positions_vjp(states[finite], x_bar).q
        q_bar[:, rows] = bars.reshape(q[:, rows].shape)
        squares = np.sum(miss**2, axis=1).reshape(len(q), -1)
        return Value(0.5 * share * squares.sum(axis=1), q_bar)


def site_position(
    sim: Simulator, site: str, target: ArrayLike, *, always: bool = False, weight: float = 1.0
) -> SitePosition:
    """Return the cost of a site's position, such as that of a hand.

    Args:
        sim: the simulator.
        site: name of the site.
        target: real[3], where it should be [m].
        always: the mean over all states instead of the last one.
        weight: what the cost is multiplied by.

    Raises:
        ParameterError: if there is no such site, or the target is not three finite numbers.
    """
    where, names = "site_position()", sim.model.site_names
    if site not in names:
        known = ", ".join(names[:10]) if names else "none"
        raise ParameterError(f'{where}: there is no site "{site}"; there are: {known}.')
    return SitePosition(sim, names.index(site), _point(where, target), always, weight)


@dataclass(frozen=True, eq=False)
class Effort:
    """Half the mean over the steps of weighted squared controls, measured from a base.

    Attributes:
        weight: float64[nu].
        base: float64[steps, nu] or [nu].
    """

    weight: Array
    base: Array

    def __call__(self, q: Array, v: Array, u: Array) -> Value:
        """Return the cost and its derivative."""
        offset = u - self.base
        pull = self.weight * offset / u.shape[1]
        return Value(0.5 * np.sum(offset * pull, axis=(1, 2)), u_bar=pull)


@dataclass(frozen=True, eq=False)
class Sum:
    """The sum of several costs."""

    parts: Sequence[Cost]

    def __call__(self, q: Array, v: Array, u: Array) -> Value:
        """Return the sum of the costs and of their derivatives."""
        if not self.parts:
            raise ParameterError("Sum(): there are no parts; give at least one cost.")
        values = [part(q, v, u) for part in self.parts]
        return Value(
            np.sum([value.cost for value in values], axis=0),
            _total([value.q_bar for value in values]),
            _total([value.v_bar for value in values]),
            _total([value.u_bar for value in values]),
        )


def _point(where: str, target: ArrayLike) -> Array:
    """Return a target as three finite numbers."""
    goal = real_numbers(where, "target", target)
    if goal.shape != (3,) or not np.all(np.isfinite(goal)):
        raise ParameterError(f"{where}: target is {target!r}; it must be three finite numbers [m].")
    return goal


def _total(bars: Sequence[Array | None]) -> Array | None:
    """Return the sum of those that are there."""
    there = [bar for bar in bars if bar is not None]
    return sum(there[1:], there[0]) if there else None
