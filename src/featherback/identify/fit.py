"""Identification by bounded nonlinear least squares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from featherback._checks import check_integer
from featherback._optional import import_optional
from featherback._typing import Array
from featherback.errors import OptimizationError, ParameterError, WorldError
from featherback.identify.estimate import Estimate, covariance_of
from featherback.identify.log import Log, cut
from featherback.identify.problem import Point, PredictionProblem, is_finite
from featherback.identify.unknowns import Unknowns
from featherback.sim import Simulator
from featherback.sim.options import check_choice

# called after each iteration with its number, the cost and the predictions it took
Report = Callable[[int, float, int], None]
START_CHOICES = ("measured", "free")
MAX_FAILURES = 12  # predictions in a row that become non-finite
WHERE = "identify()"


class _Stop(Exception):
    """Leaves scipy's optimizer from inside its function."""


@dataclass
class _Evaluator:
    """Evaluates a problem for scipy: counts, remembers the last point, stops on divergence."""

    problem: PredictionProblem
    max_evaluations: int
    report: Report | None
    point: Point | None = None
    best: Point | None = None
    costs: list[float] = field(default_factory=list[float])
    path: list[Array] = field(default_factory=list[Array])
    evaluations: list[int] = field(default_factory=list[int])
    spent: int = 0
    jacobian: Array = field(default_factory=lambda: np.zeros((0, 0)))
    _since: int = 0
    _failures: int = 0

    def residual(self, x: Array) -> Array:
        """Return the weighted errors at x, flat; infinite where the prediction diverges."""
        if self.spent >= self.max_evaluations:
            raise _Stop
        self.spent += 1
        try:
            self.point = self.problem.point(x)
        except WorldError as error:
            raise self.failed(str(error)) from None
        if is_finite(self.point):
            self._failures = 0
            if self.best is None:
                self.best = self.point
            return self.point.residual.ravel()[self.problem.measured_rows]
        self._failures += 1
        if self.best is None or self._failures >= MAX_FAILURES:
            raise self.failed(self.point.roll.describe_status())
        return np.full(np.count_nonzero(self.problem.measured_rows), np.inf)

    def derivative(self, x: Array) -> Array:
        """Return the Jacobian at the point that was accepted; this ends an iteration."""
        assert self.point is not None
        if not np.array_equal(self.point.x, x):
            self.point = self.problem.point(x)
        try:
            jacobian = self.problem.jacobian(self.point)
        except WorldError as error:
            raise self.failed(str(error)) from None
        self.jacobian = jacobian.reshape(-1, jacobian.shape[-1])[self.problem.measured_rows]
        if not np.all(np.isfinite(self.jacobian)):
            column = int(np.argmax(~np.isfinite(self.jacobian).all(axis=0)))
            raise self.failed(
                f"the derivative with respect to {self.problem.labels[column]} is not finite"
            )
        self.best = self.point
        self.costs.append(0.5 * float(np.sum(self.point.residual**2)))
        self.path.append(x.copy())
        self.evaluations.append(self.spent - self._since)
        self._since = self.spent
        if self.report is not None:
            self.report(len(self.costs) - 1, self.costs[-1], self.evaluations[-1])
        return self.jacobian

    def failed(self, reason: str) -> OptimizationError:
        """Return the error of an identification that cannot go on."""
        here = f"{WHERE}: iteration {max(len(self.costs) - 1, 0)}, evaluation {self.spent}"
        text = f"{here}: {' '.join(reason.split()).rstrip('.')}; "
        if not self.costs:
            return OptimizationError(
                text + "these are the initial values, so give others, a shorter window or a "
                "smaller time step."
            )
        return OptimizationError(
            text + f"the best cost before was {self.costs[-1]:.6g}: give tighter bounds or a "
            "shorter window."
        )


def identify(
    sim: Simulator,
    logs: Log | Sequence[Log],
    unknowns: Sequence[Unknowns],
    *,
    window: int | None = None,
    starts: Literal["measured", "free"] = "measured",
    max_evaluations: int = 100,
    report: Report | None = None,
) -> Estimate:
    """Return the parameters with which a simulator predicts logs best, in least squares.

    The logs are cut into windows; each is predicted from its first state, and all its rows are
    compared. Short windows keep the problem smooth; long ones are needed where little happens in a
    short time. The optimizer is scipy's bounded trust region, with exact Jacobians.

    Args:
        sim: the simulator; its step and other parameters are those that are known.
        logs: what was measured.
        unknowns: from `unknown`, `scale_factor` and `inertia_of`.
        window: steps between rows in one window; None for the length of the shortest log.
        starts: "measured": a window starts at its first measured row, noise and all, which is fast
            and biased by that noise; "free": the initial state that fits best is found for each
            window.
        max_evaluations: maximum number of predictions.
        report: called after each iteration with its number, the cost and the predictions it took.

    Returns:
        Values, their uncertainty, and what the data does not determine.

    Raises:
        ParameterError: for bad logs, no unknowns, or fewer measurements than unknowns.
        OptimizationError: where the prediction becomes non-finite or has no derivative, with the
            iteration and the reason.
        FeatherbackError: scipy is not installed.
    """
    _check_options(unknowns, starts)
    free = starts == "free"
    given = [logs] if isinstance(logs, Log) else list(logs)
    windows = cut(WHERE, sim.model, sim.dt, given, window, free)
    problem = PredictionProblem(sim, windows, unknowns, free)
    return solve(problem, max_evaluations=max_evaluations, report=report)


def solve(
    problem: PredictionProblem, *, max_evaluations: int = 100, report: Report | None = None
) -> Estimate:
    """Return the least-squares solution of a problem; see `identify`."""
    check_integer(WHERE, "max_evaluations", max_evaluations)
    wanted, hidden = len(problem.labels), problem.hidden
    freedom = problem.independent - hidden - wanted
    if freedom < 0:
        raise ParameterError(
            f"{WHERE}: the logs hold {problem.independent} independent measurements for {wanted} "
            "unknowns"
            + (f" and {hidden} coordinates of free starts" if hidden else "")
            + "; give longer logs, or longer windows."
        )
    evaluator = _Evaluator(problem, max_evaluations, report)
    message, converged = _minimize(evaluator)
    return _estimate(evaluator, freedom, message, converged)


def _check_options(unknowns: Sequence[Unknowns], starts: str) -> None:
    """Raise ParameterError for options that are unknown or missing."""
    if not unknowns:
        raise ParameterError(f"{WHERE}: there are no unknowns; give at least one.")
    check_choice(WHERE, "starts", starts, START_CHOICES)


def _minimize(evaluator: _Evaluator) -> tuple[str, bool]:
    """Run scipy's bounded trust region; return why it stopped, and whether it converged."""
    scipy = import_optional(WHERE, "scipy.optimize", "opt")
    problem = evaluator.problem
    try:
        result = scipy.least_squares(
            evaluator.residual,
            problem.start,
            jac=evaluator.derivative,
            bounds=(problem.lower, problem.upper),
            method="trf",
            x_scale=problem.size,
            ftol=1e-8,
            xtol=1e-10,
            gtol=1e-14,
            max_nfev=evaluator.max_evaluations + 1,
        )
    except _Stop:
        return f"max_evaluations ({evaluator.max_evaluations}) was reached", False
    return f"scipy reports {str(result.message).strip().rstrip('.')!r}", bool(result.status > 0)


def _estimate(evaluator: _Evaluator, freedom: int, message: str, converged: bool) -> Estimate:
    """Return the last accepted point, with its uncertainty."""
    problem, point = evaluator.problem, evaluator.best
    assert point is not None
    if not len(evaluator.jacobian):
        raise OptimizationError(f"{WHERE}: {message} before the first derivative; increase it.")
    if evaluator.spent > sum(evaluator.evaluations):
        evaluator.evaluations[-1] += evaluator.spent - sum(evaluator.evaluations)
    cost = evaluator.costs[-1]
    misfit = float(np.sqrt(2.0 * cost / freedom)) if freedom > 0 else None
    # errors below the noise that was given do not make the result surer than the noise says
    floor = 1.0 if problem.windows.known or misfit is None else 0.0
    noise = max(misfit or 0.0, floor)
    near = 1e-6 * problem.size
    bound = (point.x - problem.lower < near) | (problem.upper - point.x < near)
    return Estimate(
        labels=problem.labels,
        x=point.x,
        covariance=covariance_of(evaluator.jacobian, problem.size, noise),
        jacobian=evaluator.jacobian,
        size=problem.size,
        params=problem.params(point.x),
        costs=evaluator.costs,
        path=evaluator.path,
        evaluations=evaluator.evaluations,
        noise=noise,
        misfit=misfit,
        at_bound=tuple(np.array(problem.labels, object)[bound]),
        converged=converged,
        reason=f"{WHERE}: stopped at the cost {cost:.6g} after {evaluator.spent} predictions, "
        f"because {message}.",
        starts=(point.starts.q, point.starts.v),
    )
