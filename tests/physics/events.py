"""Motion of bodies over a floor from event to event: smooth between hits, hits at their moment.

Accelerations, inertia and Jacobians are MuJoCo's with contacts switched off, integrated by
Runge-Kutta steps of fourth order that end at hits. A hit is Newton's law of restitution with
Coulomb friction at one point.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

import featherback as fb

Vector = NDArray[np.float64]
STEP = 1e-3


@dataclass
class Events:
    """A model whose spheres bounce on the plane z = 0.

    Attributes:
        model: the model; its coordinates are hinges and slides.
        e: restitution.
        mu: friction.
        hits: moments of the last motion.
    """

    model: fb.Model
    e: float
    mu: float = 0.0

    def __post_init__(self) -> None:
        """Switch contacts off, and find the spheres."""
        self.m = self.model.mujoco
        self.m.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
        self.d = mujoco.MjData(self.m)
        sphere = int(mujoco.mjtGeom.mjGEOM_SPHERE)
        self.balls = [int(g) for g in np.flatnonzero(self.m.geom_type == sphere)]
        self.hits: list[float] = []

    def place(self, q: Vector, v: Vector) -> None:
        """Take a state."""
        self.d.qpos, self.d.qvel = q, v
        mujoco.mj_forward(self.m, self.d)

    def acceleration(self, q: Vector, v: Vector) -> Vector:
        """Return the acceleration of the free motion."""
        self.place(q, v)
        return np.array(self.d.qacc)

    def advance(self, q: Vector, v: Vector, h: float) -> tuple[Vector, Vector]:
        """Return the state after a Runge-Kutta step."""
        a1 = self.acceleration(q, v)
        v2 = v + h / 2 * a1
        a2 = self.acceleration(q + h / 2 * v, v2)
        v3 = v + h / 2 * a2
        a3 = self.acceleration(q + h / 2 * v2, v3)
        v4 = v + h * a3
        a4 = self.acceleration(q + h * v3, v4)
        return q + h / 6 * (v + 2 * v2 + 2 * v3 + v4), v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)

    def gaps(self, q: Vector) -> Vector:
        """Return the gap of each sphere."""
        self.place(q, np.zeros_like(q))
        return np.array([self.d.geom_xpos[g, 2] - self.m.geom_size[g, 0] for g in self.balls])

    def hit(self, q: Vector, v: Vector, ball: int) -> Vector:
        """Return the velocity after one sphere hits the floor."""
        self.place(q, v)
        g = self.balls[ball]
        point = self.d.geom_xpos[g] - [0, 0, self.m.geom_size[g, 0]]
        jacobian, mass = np.zeros((3, self.m.nv)), np.zeros((self.m.nv, self.m.nv))
        mujoco.mj_jac(self.m, self.d, jacobian, None, point, int(self.m.geom_bodyid[g]))
        mujoco.mj_fullM(self.m, self.d, mass)
        J = jacobian[[2, 0]]
        A = J @ np.linalg.solve(mass, J.T)
        w = J @ v
        # a share of zero motion across leaves nothing to divide by
        stick = np.linalg.lstsq(A, np.array([-(1 + self.e) * w[0], -w[1]]), rcond=None)[0]
        if abs(stick[1]) > self.mu * stick[0]:
            slip = np.sign(stick[1])
            normal = -(1 + self.e) * w[0] / (A[0, 0] + A[0, 1] * self.mu * slip)
            stick = np.array([normal, slip * self.mu * normal])
        return v + np.linalg.solve(mass, J.T @ stick)

    def moment(self, q: Vector, v: Vector, h: float, ball: int) -> float:
        """Return when a sphere that is below the floor after h reached it."""
        low, high = 0.0, h
        for _ in range(60):
            middle = (low + high) / 2
            if self.gaps(self.advance(q, v, middle)[0])[ball] > 0:
                low = middle
            else:
                high = middle
        return high

    def run(self, q: Vector, v: Vector, seconds: float) -> Vector:
        """Return the final state; hits of one sphere must lie some steps apart."""
        t, self.hits = 0.0, []
        while seconds - t > 1e-15:
            h = min(STEP, seconds - t)
            after = self.advance(q, v, h)
            below = np.flatnonzero(self.gaps(after[0]) < 0)
            below = [b for b in below if self.falls(q, v, int(b)) or self.gaps(q)[b] > 1e-9]
            if not below:
                (q, v), t = after, t + h
                continue
            when = [self.moment(q, v, h, int(b)) for b in below]
            first = int(np.argmin(when))
            q, v = self.advance(q, v, when[first])
            v = self.hit(q, v, int(below[first]))
            t += when[first]
            self.hits.append(t)
        return np.r_[q, v]

    def falls(self, q: Vector, v: Vector, ball: int) -> bool:
        """Return whether a sphere comes nearer to the floor."""
        return bool(self.gaps(q + 1e-7 * v)[ball] < self.gaps(q)[ball])

    def jacobian(self, q: Vector, v: Vector, seconds: float, by: float = 1e-6) -> Vector:
        """Return the derivative of the final state by the initial one, by central differences."""
        x, n = np.r_[q, v], len(q)
        columns = []
        for i in range(2 * n):
            ends = []
            for sign in (by, -by):
                moved = x.copy()
                moved[i] += sign
                ends.append(self.run(moved[:n], moved[n:], seconds))
            columns.append((ends[0] - ends[1]) / (2 * by))
        return np.array(columns).T
