"""Least squares with exact derivatives: damped Gauss-Newton steps, tried in one batch of worlds."""

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
        reached: whether the error is small enough.
        reason: why it stopped, in a sentence.
    """

    x: Array
    reached: bool
    reason: str


def run_least_squares(
    context: Context,
    problem: Residuals,
    start: Array,
    *,
    max_iterations: int,
    tolerance: float,
) -> tuple[Solution, Trace]:
    """Bring errors to zero; the trace shows their norm, and counts every simulation.

    Args:
        context: the run.
        problem: the errors and their derivative.
        start: float64[size].
        max_iterations: maximum number of iterations.
        tolerance: norm of the errors at which to stop.

    Returns:
        The solution, and the trace.

    Raises:
        FeatherbackError: if the start has another shape, holds a NaN, or has no errors.
    """
    first = real_array("run_least_squares()", "start", start, (problem.size,))
    trace = context.trace("ours", "damped Gauss-Newton, exact Jacobian")
    with context.progress("gradients", max_iterations) as update_progress:
        trace.start()
        x = np.clip(first, problem.lower, problem.upper)
        errors = problem.errors(x[None])[0]
        norm = float(np.linalg.norm(errors))
        _check_finite(norm)
        trace.add(norm)
        better, reason = True, f"max_iterations ({max_iterations}) was reached"
        while norm > tolerance and better and trace.iterations < max_iterations:
            tried = x + steps(problem.jacobian(x), errors)
            tried = np.clip(tried, problem.lower, problem.upper)
            ends = problem.errors(tried)
            norms = np.nan_to_num(np.linalg.norm(ends, axis=1), nan=np.inf)
            best = int(np.argmin(norms))
            better = bool(norms[best] < norm)
            if better:
                x, errors, norm = tried[best], ends[best], float(norms[best])
            else:
                reason = "none of the steps that were tried is better"
            trace.add(norm, problem.size + len(tried))
            update_progress(trace.iterations, norm)
    reached = norm <= tolerance
    end = f"the error is {norm:.3g} after {trace.iterations} iterations"
    within, above = f"within {tolerance:g}", f"above {tolerance:g}, because {reason}"
    text = f"{end}, {within if reached else above}."
    return Solution(x, reached, text), trace


def _check_finite(norm: float) -> None:
    """Raise OptimizationError for a start without errors."""
    if not np.isfinite(norm):
        raise OptimizationError(
            "run_least_squares(): the errors at the start are not finite; give another start or a "
            "smaller time step."
        )


def steps(model: Array, errors: Array) -> Array:
    """Return damped Gauss-Newton steps, float64[damping, size]."""
    square, gradient = model.T @ model, model.T @ errors
    largest = float(np.diag(square).max())
    if largest == 0.0:
        return np.zeros((1, len(square)))
    shifts = (DAMPING * largest)[:, None, None] * np.eye(len(square))
    return -np.linalg.solve(square + shifts, gradient[:, None])[..., 0]
