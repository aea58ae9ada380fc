"""Small problems for the tests of the experiments."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from featherback.experiments import Claim, Context, Result
from featherback.experiments.methods import run_cma, run_gradients
from featherback.experiments.target_task import length


class Bowl:
    """A quadratic in ten unknowns that can interrupt itself."""

    size = 10
    lower, upper = np.full(10, -5.0), np.full(10, 5.0)

    def __init__(self, stop: int | None = None) -> None:
        """Interrupt at the evaluation numbered `stop`."""
        self.stop, self.count = stop, 0
        self.scale = np.linspace(1.0, 9.0, 10)

    def tick(self) -> None:
        """Count, and interrupt when it is time."""
        if self.count == self.stop:
            raise KeyboardInterrupt
        self.count += 1

    def value(self, x: np.ndarray) -> float:
        """Return the cost."""
        return float(self.values(x[None])[0])

    def values(self, x: np.ndarray) -> np.ndarray:
        """Return the costs of rows."""
        self.tick()
        return 0.5 * ((x - 1.0) ** 2 @ self.scale)

    def gradient(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Return cost and gradient."""
        self.tick()
        return 0.5 * float((x - 1.0) ** 2 @ self.scale), self.scale * (x - 1.0)


def bowl_experiment(stop: int | None = None) -> SimpleNamespace:
    """Return an experiment on the bowl, with a baseline where `cma` is there."""

    def go(context: Context) -> Result:
        bowl = Bowl(stop)
        _, ours = run_gradients(context, bowl, max_evaluations=12, measure=length)
        _, baseline = run_cma(context, bowl, max_iterations=15, sigma=0.5, measure=length)
        return Result(ours, baseline, {"loss": ours.loss[-1]}, [Claim("it works", 1.0, True)])

    return SimpleNamespace(SUMMARY="a bowl", run=go)


class Stairs:
    """Two errors that are linear but for an unknown that acts in steps of a hundredth."""

    size = 2
    lower, upper = np.full(2, -9.0), np.full(2, 9.0)
    matrix = np.array([[2.0, 1.0], [0.5, -3.0]])
    wanted = np.array([4.0, -2.0])

    def errors(self, x: np.ndarray) -> np.ndarray:
        """Return the errors of rows; there are none where the first unknown is above 8."""
        seen = np.stack([x[:, 0], np.floor(100.0 * x[:, 1]) / 100.0], axis=1)
        ends = seen @ self.matrix.T - self.wanted
        return np.where(x[:, :1] > 8.0, np.nan, ends)

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        """Return the exact derivative, which is blind to the stairs."""
        return self.matrix * [1.0, 0.0]
