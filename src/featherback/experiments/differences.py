"""Identifications with a trace, and their baseline: differences instead of exact derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from featherback._optional import import_optional
from featherback._typing import Array
from featherback.experiments.context import Context
from featherback.experiments.result import Trace
from featherback.identify import Estimate
from featherback.identify.fit import solve
from featherback.identify.problem import Point, PredictionProblem

STEP = 6e-6  # relative; near the cube root of the rounding error, best for central differences


class ByDifferences(PredictionProblem):
    """A problem with measured starts whose Jacobian takes two predictions for each unknown."""

    def along(self, point: Point, tangents: list[dict[str, Array]], nv: int | None) -> Array:
        """Return the residual's derivative along each unknown."""
        columns: list[Array] = []
        for i in range(len(tangents)):
            step = np.zeros(len(point.x))
            step[i] = STEP * max(abs(point.x[i]), 1e-3)
            ahead, behind = (self.point(point.x + s * step).residual for s in (1.0, -1.0))
            columns.append((ahead - behind) / (2.0 * step[i]))
        return np.stack(columns, axis=-1)


def fit(
    context: Context,
    problems: Sequence[PredictionProblem],
    which: str,
    method: str,
    measure: Callable[[PredictionProblem, float], float],
) -> tuple[Estimate, Trace]:
    """Identify, each problem from where the one before ended; the trace shows what is measured."""
    import_optional("run", "scipy.optimize", "opt")
    trace = context.trace(which, method)
    done = 0
    estimate: Estimate | None = None
    with context.progress(which, 60) as update_progress:

        def report(iteration: int, cost: float, evaluations: int) -> None:
            trace.add(measure(problem, cost), evaluations)
            update_progress(done + iteration, trace.loss[-1])

        trace.start()
        for problem in problems:
            if estimate is not None:
                problem.start = estimate.x.copy()
                done += estimate.iterations + 1
            estimate = solve(problem, report=report)
    assert estimate is not None
    return estimate, trace
