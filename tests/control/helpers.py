"""Small problems for the tests of control."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import featherback as fb
from featherback.control import Effort, Shooting, Sum, Value, make_controls

Array = NDArray[np.float64]
STEPS = 60


class Reach:
    """Half the squared distance of (q, v) from a goal at the last step."""

    def __init__(self, goal: float) -> None:
        """Remember the angle of the goal."""
        self.goal = goal

    def __call__(self, q: Array, v: Array, u: Array) -> Value:
        """Return the cost and its derivatives."""
        q_bar, v_bar = np.zeros_like(q), np.zeros_like(v)
        q_bar[:, -1] = q[:, -1] - self.goal
        v_bar[:, -1] = v[:, -1]
        cost = 0.5 * np.sum(q_bar[:, -1] ** 2, axis=1) + 0.5 * np.sum(v_bar[:, -1] ** 2, axis=1)
        return Value(cost, q_bar, v_bar)


def swing(
    goal: float = 0.5,
    limit: float = 5.0,
    hold: int = 1,
    steps: int = STEPS,
    effort: float = 1e-4,
) -> Shooting:
    """Return the problem of bringing a hanging pendulum to rest at an angle."""
    model = fb.models.pendulum()
    controls = make_controls(
        model, np.zeros((steps, 1)), hold=hold, lower=-limit, upper=limit, unit=5.0
    )
    cost = Sum([Reach(goal), Effort(np.full(1, effort), np.zeros(1))])
    sim = fb.Simulator(model, dt=0.01)
    return Shooting(sim, np.zeros(1), np.zeros(1), controls, cost)
