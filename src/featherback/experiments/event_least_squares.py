"""Least squares with exact derivatives, where some unknowns act through the time of an event.

The derivative of a time step is exact for the step, and does not include that a hit comes earlier
or later (docs/gradients.md). Each iteration therefore compares the columns of the exact Jacobian
with differences over a wide stencil. Where both agree the exact column is taken. Where they do not,
two linear models are made: one with the difference instead of the column, one in which the unknown
is held. Damped steps of both are tried in one batch of worlds; the best one is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from featherback._typing import Array
from featherback.control.controls import real_array
from featherback.control.outcome import Bounded
from featherback.errors import OptimizationError
from featherback.experiments.context import Context
from featherback.experiments.result import Trace

HALF_WIDTH = 0.1  # of the differences, in units of the unknowns
MAX_DISAGREEMENT = 0.2  # relative difference up to which the exact column is taken
DAMPING = 10.0 ** np.array([-8.0, -6.0, -4.0, -3.0, -2.0, -1.0, 0.0])  # of the largest diagonal


class Residuals(Bounded, Protocol):
    """Errors that are brought to zero."""

    def errors(self, x: Array) -> Array:
        """Return float64[worlds, errors] at x[worlds, size]; NaN where there are none."""
        ...

    def jacobian(self, x: Array) -> Array:
        """Return the exact derivative of the steps taken, float64[errors, size], at x[size]."""
        ...


@dataclass(frozen=True, eq=False)
class Solution:
    """The result of a least-squares search.

    Attributes:
        x: float64[size], the best unknowns found.
        disagreement: float64[iterations, size], relative difference of the exact column and that
            of the differences.
        reached: whether the error is small enough.
        reason: why it stopped, in a sentence.
    """

    x: Array
    disagreement: Array
    reached: bool
    reason: str


def run_least_squares(
    context: Context,
    problem: Residuals,
    start: Array,
    *,
    max_iterations: int,
    tolerance: float,
    differences: bool = True,
    which: str = "ours",
) -> tuple[Solution, Trace]:
    """Bring errors below a tolerance; the trace shows their norm, and counts every simulation.

    With `differences`, exact columns are compared with differences; otherwise all are taken.
    """
    first = real_array("run_least_squares()", "start", start, (problem.size,))
    method = "damped Gauss-Newton, exact Jacobian"
    trace = context.trace(which, f"{method} and differences" if differences else method)
    cost = problem.size * (3 if differences else 1)
    disagreements: list[Array] = []
    with context.progress("gradients", max_iterations) as update_progress:
        trace.start()
        x = np.clip(first, problem.lower, problem.upper)
        errors = problem.errors(x[None])[0]
        norm = float(np.linalg.norm(errors))
        _check_finite(norm)
        trace.add(norm)
        better, reason = True, f"max_iterations ({max_iterations}) was reached"
        while norm > tolerance and better and len(disagreements) < max_iterations:
            models, disagreement = linear_models(problem, x, differences)
            tried = np.clip(x + steps(models, errors), problem.lower, problem.upper)
            ends = problem.errors(tried)
            norms = np.nan_to_num(np.linalg.norm(ends, axis=1), nan=np.inf)
            best = int(np.argmin(norms))
            better = bool(norms[best] < norm)
            if better:
                x, errors, norm = tried[best], ends[best], float(norms[best])
            else:
                reason = "none of the steps that were tried is better"
            disagreements.append(disagreement)
            trace.add(norm, cost + len(tried))
            update_progress(len(disagreements), norm)
    reached = norm <= tolerance
    end = f"the error is {norm:.3g} after {len(disagreements)} iterations"
    within, above = f"within {tolerance:g}", f"above {tolerance:g}, because {reason}"
    text = f"{end}, {within if reached else above}."
    return Solution(x, np.array(disagreements), reached, text), trace


def _check_finite(norm: float) -> None:
    """Raise OptimizationError for a start without errors."""
    if not np.isfinite(norm):
        raise OptimizationError(
            "run_least_squares(): the errors at the start are not finite; give another start or a "
            "smaller time step."
        )


def linear_models(
    problem: Residuals, x: Array, differences: bool = True
) -> tuple[list[Array], Array]:
    """Return linear models at x[size], and by how much columns of both kinds differ, relatively."""
    exact = problem.jacobian(x)
    if not differences:
        return [exact], np.zeros(problem.size)
    apart = HALF_WIDTH * np.eye(problem.size)
    ends = problem.errors(np.concatenate([x + apart, x - apart]))
    wide = (ends[: problem.size] - ends[problem.size :]).T / (2.0 * HALF_WIDTH)
    # the exact column stays where a neighbour has no errors
    wide = np.where(np.isfinite(wide).all(axis=0), wide, exact)
    sizes = np.maximum(np.linalg.norm(exact, axis=0), np.linalg.norm(wide, axis=0))
    disagreement = np.linalg.norm(exact - wide, axis=0) / np.maximum(sizes, np.finfo(float).tiny)
    unsure = disagreement > MAX_DISAGREEMENT
    models = [np.where(unsure, wide, exact), np.where(unsure, 0.0, exact)]
    return models[: 1 + int(unsure.any())], disagreement


def steps(models: list[Array], errors: Array) -> Array:
    """Return damped Gauss-Newton steps, float64[models * damping, size]."""
    found: list[Array] = []
    for model in models:
        square, gradient = model.T @ model, model.T @ errors
        largest = float(np.diag(square).max())
        if largest == 0.0:
            continue
        shifts = (DAMPING * largest)[:, None, None] * np.eye(len(square))
        found.append(-np.linalg.solve(square + shifts, gradient[:, None])[..., 0])
    return np.concatenate(found) if found else np.zeros((1, len(models[0][0])))
