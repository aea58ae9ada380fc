"""Small problems for the tests of control."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import featherback as fb
from featherback.control import Effort, Shooting, Sum, Value, make_controls

Array = NDArray[np.float64]
STEPS = 60
FILTERED = """
<mujoco model="f">
  <option timestep="0.01" gravity="0 0 0"/>
  <worldbody>
    <body>
      <joint name="x" type="slide" axis="1 0 0" damping="1"/>
      <geom size="0.1" mass="1"/>
    </body>
  </worldbody>
  <actuator><general joint="x" dyntype="filter" dynprm="0.3" gainprm="20"/></actuator>
</mujoco>
"""


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


class Quadratic:
    """A cost with a known minimum, and what may go wrong in it."""

    def __init__(self, size: int = 3, broken: str = "", after: int = 0) -> None:
        """Break the evaluation of a given number in a given way."""
        self.size, self.broken, self.after, self.count = size, broken, after, 0
        self.lower, self.upper = np.full(size, -2.0), np.full(size, 2.0)
        self.centre = np.linspace(0.5, 3.0, size)

    def value(self, x: np.ndarray) -> float:
        """Return the cost."""
        return self.gradient(x)[0]

    def values(self, x: np.ndarray) -> np.ndarray:
        """Return the costs of rows."""
        return 0.5 * np.sum((x - self.centre) ** 2, axis=1)

    def gradients(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return costs and gradients of rows."""
        return self.values(x), x - self.centre

    def gradient(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Return cost and gradient."""
        self.count += 1
        gradient = x - self.centre
        cost = 0.5 * float(gradient @ gradient)
        if self.broken and self.count > self.after:
            if self.broken == "cost":
                return float("nan"), gradient
            gradient = np.where(np.arange(self.size) == 1, np.nan, gradient)
        return cost, gradient


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


def push(
    act: Array | None = None, steps: int = STEPS, dynamics: str = 'dyntype="filter" dynprm="0.3"'
) -> Shooting:
    """Return the problem of bringing a mass, pushed through a filter, to rest half a metre away."""
    model = fb.load(FILTERED.replace('dyntype="filter" dynprm="0.3"', dynamics))
    controls = make_controls(model, np.zeros((steps, 1)), lower=-5.0, upper=5.0)
    sim = fb.Simulator(model)
    return Shooting(sim, np.zeros(1), np.zeros(1), controls, Reach(0.5), act=act)
