"""Least squares with exact derivatives, where some of them are blind to the time of an event.

The derivative of a time step is exact for the step, and does not see that a hit comes earlier or
later (docs/gradients.md). Each iteration therefore compares the columns of the exact Jacobian with
differences over a wide stencil. Where both agree the exact column is taken. Where they do not, the
unknown is in doubt, and two linear models are made: one with the difference in place of the column,
one in which the unknown is held. Damped steps of both are tried in one batch of worlds; the best
one is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from featherback.control.controls import real_array
from featherback.control.outcome import Bounded
from featherback.errors import OptimisationError
from featherback.experiments.context import Context
from featherback.experiments.result import Trace

Array = NDArray[np.float64]
APART = 0.1  # half the width of the differences, in units of the unknowns
DISAGREE = 0.2  # relative difference of two columns above which an unknown is in doubt
DAMPING = 10.0 ** np.array([-8.0, -6.0, -4.0, -3.0, -2.0, -1.0, 0.0])  # of the largest diagonal


class Residuals(Bounded, Protocol):
    """What is brought to zero."""

    def errors(self, x: Array) -> Array:
        """Return float64[worlds, errors] at x[worlds, size]; NaN where there are none."""
        ...

    def jacobian(self, x: Array) -> Array:
        """Return the exact derivative of the steps taken, float64[errors, size], at x[size]."""
        ...


@dataclass(frozen=True, eq=False)
class Found:
    """Where a search ended.

    Attributes:
        x: float64[size], the best unknowns met.
        doubt: float64[iterations, size], relative difference of the two columns.
        reached: whether the error is small enough.
        reason: why it stopped, in a sentence.
    """

    x: Array
    doubt: Array
    reached: bool
    reason: str


def run_least_squares(
    context: Context,
    problem: Residuals,
    start: Array,
    *,
    iterations: int,
    near: float,
    differences: bool = True,
    which: str = "ours",
) -> tuple[Found, Trace]:
    """Bring errors to zero; the trace shows their length, and counts every simulation.

    Args:
        context: the run.
        problem: the errors and their derivative.
        start: float64[size].
        iterations: most iterations.
        near: length of the errors at which to stop.
        differences: whether exact columns are compared with differences; if not, all are taken.
        which: name of the trace.

    Returns:
        Where it ended, and the trace.

    Raises:
        FeatherbackError: if the start has another shape, holds a NaN, or has no errors.
    """
    first = real_array("run_least_squares()", "start", start, (problem.size,))
    method = "damped Gauss-Newton, exact Jacobian"
    trace = context.trace(which, f"{method} and differences" if differences else method)
    cost = problem.size * (3 if differences else 1)
    doubts: list[Array] = []
    with context.progress("gradients", iterations) as tell:
        trace.start()
        x = np.clip(first, problem.lower, problem.upper)
        errors = problem.errors(x[None])[0]
        length = float(np.linalg.norm(errors))
        _refuse_lost(length)
        trace.add(length)
        better, reason = True, "the iterations are spent"
        while length > near and better and len(doubts) < iterations:
            models, doubt = linearise(problem, x, differences)
            tried = np.clip(x + steps(models, errors), problem.lower, problem.upper)
            ends = problem.errors(tried)
            lengths = np.nan_to_num(np.linalg.norm(ends, axis=1), nan=np.inf)
            best = int(np.argmin(lengths))
            better = bool(lengths[best] < length)
            if better:
                x, errors, length = tried[best], ends[best], float(lengths[best])
            else:
                reason = "none of the steps that were tried is better"
            doubts.append(doubt)
            trace.add(length, cost + len(tried))
            tell(len(doubts), length)
    reached = length <= near
    end = f"the error is {length:.3g} after {len(doubts)} iterations"
    said = f"{end}, within {near:g}." if reached else f"{end}, above {near:g}, since {reason}."
    return Found(x, np.array(doubts), reached, said), trace


def _refuse_lost(length: float) -> None:
    """Refuse a start without errors."""
    if not np.isfinite(length):
        raise OptimisationError(
            "run_least_squares(): the errors at the start are not finite; give another start or a "
            "smaller time step."
        )


def linearise(problem: Residuals, x: Array, differences: bool = True) -> tuple[list[Array], Array]:
    """Return the linear models at x, and how much the columns of both kinds differ.

    Args:
        problem: the errors and their derivative.
        x: float64[size], where.
        differences: whether exact columns are compared with differences.

    Returns:
        Models, float64[errors, size] each, and the relative differences of the columns.
    """
    exact = problem.jacobian(x)
    if not differences:
        return [exact], np.zeros(problem.size)
    apart = APART * np.eye(problem.size)
    ends = problem.errors(np.concatenate([x + apart, x - apart]))
    wide = (ends[: problem.size] - ends[problem.size :]).T / (2.0 * APART)
    # a neighbour without a state says nothing against the exact column
    wide = np.where(np.isfinite(wide).all(axis=0), wide, exact)
    sizes = np.maximum(np.linalg.norm(exact, axis=0), np.linalg.norm(wide, axis=0))
    doubt = np.linalg.norm(exact - wide, axis=0) / np.maximum(sizes, np.finfo(float).tiny)
    unsure = doubt > DISAGREE
    models = [np.where(unsure, wide, exact), np.where(unsure, 0.0, exact)]
    return models[: 1 + int(unsure.any())], doubt


def steps(models: list[Array], errors: Array) -> Array:
    """Return damped Gauss-Newton steps, float64[models * damping, size]."""
    found: list[Array] = []
    for model in models:
        square, slope = model.T @ model, model.T @ errors
        most = float(np.diag(square).max())
        if most == 0.0:
            continue
        shifts = (DAMPING * most)[:, None, None] * np.eye(len(square))
        found.append(-np.linalg.solve(square + shifts, slope[:, None])[..., 0])
    return np.concatenate(found) if found else np.zeros((1, len(models[0][0])))
