"""Single shooting: the cost of a rollout as a function of the unknowns of its controls."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from featherback._typing import Array, Real
from featherback.control.controls import Controls
from featherback.control.cost import Cost
from featherback.sim import Rollout, Simulator, Status


@dataclass
class Count:
    """How often the simulator ran, in worlds.

    Attributes:
        rollouts: forward simulations.
        gradients: backward passes.
    """

    rollouts: int = 0
    gradients: int = 0


@dataclass(frozen=True, eq=False)
class Shooting:
    """Cost of the trajectory from one initial state, as a function of the flat unknowns x.

    Attributes:
        sim: the simulator.
        q: float64[nq], initial configuration.
        v: float64[nv], initial velocity.
        controls: what x means.
        cost: what is minimized.
        count: how often the simulator ran.
        act: float64[na], initial activation of actuators; zero when None.
    """

    sim: Simulator
    q: Array
    v: Array
    controls: Controls
    cost: Cost
    count: Count = field(default_factory=Count)
    act: Array | None = None

    @property
    def size(self) -> int:
        """Number of unknowns."""
        return self.controls.size

    @property
    def lower(self) -> Array:
        """float64[size], lower bounds of x."""
        return self.controls.lower.ravel()

    @property
    def upper(self) -> Array:
        """float64[size], upper bounds of x."""
        return self.controls.upper.ravel()

    def rollout(self, x: Array) -> Rollout:
        """Return the trajectories of x float64[size] or [worlds, size]."""
        u = self.controls.expand(x)
        if u.ndim == 2:
            self.count.rollouts += 1
            return self.sim.rollout(self.q, self.v, u, act=self.act)
        n = len(u)
        self.count.rollouts += n
        q, v = np.tile(self.q, (n, 1)), np.tile(self.v, (n, 1))
        return self.sim.rollout(q, v, u, act=self.act)

    def values(self, x: Array) -> Array:
        """Return the costs of x[worlds, size]; infinite where a world becomes non-finite."""
        roll = self.rollout(np.atleast_2d(x))
        u = self.controls.expand(np.atleast_2d(x))
        with np.errstate(all="ignore"):
            cost = self.cost(_float64(roll.q), _float64(roll.v), u).cost
        bad = (roll.status & np.uint32(Status.NONFINITE)) != 0
        return np.where(bad | ~np.isfinite(cost), np.inf, cost)

    def value(self, x: Array) -> float:
        """Return the cost of x[size]."""
        return float(self.values(x[None])[0])

    def gradients(self, x: Array) -> tuple[Array, Array]:
        """Return costs [worlds] and their gradients [worlds, size] at x[worlds, size].

        Raises:
            WorldError: where a world becomes non-finite, or a step has no gradient.
        """
        roll = self.rollout(np.atleast_2d(x))
        u = self.controls.expand(np.atleast_2d(x))
        q, v = _float64(roll.q), _float64(roll.v)
        with np.errstate(all="ignore"):
            value = self.cost(q, v, u)
        self.count.gradients += len(u)
        q_bar = np.zeros_like(q) if value.q_bar is None else value.q_bar
        u_bar = _float64(roll.vjp(q_bar, value.v_bar).u)
        if value.u_bar is not None:
            u_bar = u_bar + value.u_bar
        return value.cost, self.controls.gather(u_bar).reshape(len(u), -1)

    def gradient(self, x: Array) -> tuple[float, Array]:
        """Return the cost and its gradient at x[size]."""
        cost, gradient = self.gradients(x[None])
        return float(cost[0]), gradient[0]


def _float64(array: Real) -> Array:
    """Return an array of either dtype as float64."""
    return np.asarray(array, np.float64)
