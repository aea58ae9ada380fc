"""featherback on a scene: warmed up and ready to be timed, and what its solver did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scenes import Scene

import featherback as fb


@dataclass(frozen=True)
class Solved:
    """What the solver did on the timed steps of a scene.

    Attributes:
        contacts: mean number of contacts, gaps within the margin included, in a step of one world.
        loaded: mean number of contacts that carry force.
        residual: largest residual of any solve [m/s].
        sweeps: mean over worlds of the largest number of sweeps in one step.
        max_sweeps: largest number of sweeps in one step of any world.
        bad: number of worlds with a status bit.
    """

    contacts: float
    loaded: float
    residual: float
    sweeps: float
    max_sweeps: int
    bad: int


class Ours:
    """A scene in featherback, warmed up and ready to be timed."""

    def __init__(self, scene: Scene, dtype: str = "float64", threads: int = 1) -> None:
        """Run the untimed steps; see the class."""
        self.scene = scene
        self.sim = fb.Simulator(scene.model, dtype=dtype, threads=threads)  # pyright: ignore[reportArgumentType]
        self.u = scene.u.astype(dtype)
        self.q, self.v = scene.q.astype(dtype), scene.v.astype(dtype)
        if scene.warm.shape[1]:
            roll = self.sim.rollout(self.q, self.v, scene.warm.astype(dtype))
            self.q, self.v = roll.q[:, -1].copy(), roll.v[:, -1].copy()
        if scene.worlds == 1:
            self.q, self.v, self.u = self.q[0], self.v[0], self.u[0]

    def roll(self) -> fb.Rollout:
        """Take the timed steps in one call."""
        return self.sim.rollout(self.q, self.v, self.u)

    def solved(self, worlds: int = 32, moments: int = 8) -> Solved:
        """Take the timed steps once more and count contacts at some moments of some worlds."""
        roll = self.roll()
        at = np.unique(np.linspace(0, self.scene.steps - 1, moments).astype(int))
        shape = (self.scene.worlds, -1, self.scene.model.nq)
        q = roll.q.reshape(shape)[:worlds, at].reshape(-1, self.scene.model.nq)
        v = roll.v.reshape(*shape[:2], self.scene.model.nv)[:worlds, at]
        u = self.scene.u[:worlds, at].reshape(len(q), -1)
        touch = self.sim.contacts(q, v.reshape(len(q), -1), u)
        loaded = np.any(touch.force != 0.0, axis=-1).sum(axis=-1)
        return Solved(
            float(np.mean(touch.count)),
            float(np.mean(loaded)),
            float(np.max(roll.residual)),
            float(np.mean(roll.sweeps)),
            int(np.max(roll.sweeps)),
            int(np.count_nonzero(roll.status)),
        )


def python_steps(ours: Ours) -> Callable[[], None]:
    """Return a call that takes the timed steps of a scene of one world with sim.step."""
    step, controls = ours.sim.step, ours.u

    def call() -> None:
        q, v = ours.q, ours.v
        for u in controls:
            q, v = step(q, v, u)

    return call
