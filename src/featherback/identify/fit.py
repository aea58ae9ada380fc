"""Identification by bounded nonlinear least squares."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from featherback.errors import FeatherbackError, OptimisationError, ParameterError, WorldError
from featherback.identify.estimate import Estimate, covariance_of
from featherback.identify.log import Log, cut
from featherback.identify.problem import Point, Problem, finite
from featherback.identify.unknowns import Block
from featherback.sim import Simulator
from featherback.sim.inputs import is_whole

Array = NDArray[np.float64]
# called after each iteration with its number, the cost and the predictions it took
Report = Callable[[int, float, int], None]
START_CHOICES = ("measured", "free")
MOST_FAILURES = 12  # predictions in a row that leave the finite numbers
WHERE = "identify()"


class _Stop(Exception):
    """Leaves scipy's optimiser from inside its function."""


@dataclass
class _Watch:
    """Evaluates a problem for scipy: counts, remembers the last point, stops on divergence."""

    problem: Problem
    most: int
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
        if self.spent >= self.most:
            raise _Stop
        self.spent += 1
        try:
            self.point = self.problem.point(x)
        except WorldError as error:
            raise self.failed(str(error)) from None
        if finite(self.point):
            self._failures = 0
            if self.best is None:
                self.best = self.point
            return self.point.residual.ravel()[self.problem.seen]
        self._failures += 1
        if self.best is None or self._failures >= MOST_FAILURES:
            raise self.failed(self.point.roll.describe_status())
        return np.full(np.count_nonzero(self.problem.seen), np.inf)

    def derivative(self, x: Array) -> Array:
        """Return the Jacobian at the point that was accepted; this ends an iteration."""
        assert self.point is not None
        if not np.array_equal(self.point.x, x):
            self.point = self.problem.point(x)
        try:
            jacobian = self.problem.jacobian(self.point)
        except WorldError as error:
            raise self.failed(str(error)) from None
        self.jacobian = jacobian.reshape(-1, jacobian.shape[-1])[self.problem.seen]
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

    def failed(self, reason: str) -> OptimisationError:
        """Return the error of an identification that cannot go on."""
        here = f"{WHERE}: iteration {max(len(self.costs) - 1, 0)}, evaluation {self.spent}"
        text = f"{here}: {' '.join(reason.split()).rstrip('.')}; "
        if not self.costs:
            return OptimisationError(
                text + "this is the start, so give another one, a shorter window or a smaller step."
            )
        return OptimisationError(
            text + f"the best cost before was {self.costs[-1]:.6g}: give tighter bounds or a "
            "shorter window."
        )


def identify(
    sim: Simulator,
    logs: Log | Sequence[Log],
    unknowns: Sequence[Block],
    *,
    window: int | None = None,
    starts: Literal["measured", "free"] = "measured",
    most: int = 100,
    report: Report | None = None,
) -> Estimate:
    """Return the parameters with which a simulator predicts logs best, in least squares.

    The logs are cut into windows; each is predicted from its first state, and all its rows are
    compared. Short windows keep the problem smooth; long ones are needed where little happens in a
    short time. The optimiser is scipy's bounded trust region, with exact Jacobians.

    Args:
        sim: the simulator; its step and other parameters are those that are known.
        logs: what was measured.
        unknowns: from `unknown`, `factor` and `inertia_of`.
        window: steps between rows in one window; None for the whole of the shortest log.
        starts: "measured": a window starts at its first measured row, noise and all, which is fast
            and biased by that noise; "free": the start that fits best is found for each window.
        most: largest number of predictions.
        report: told about every iteration.

    Returns:
        Values, their uncertainty, and what the data cannot tell apart.

    Raises:
        ParameterError: for bad logs, no unknowns, or fewer measurements than unknowns.
        OptimisationError: where the prediction leaves the finite numbers or has no derivative,
            with the iteration and the reason.
        FeatherbackError: scipy is not installed.
    """
    free = _check_options(unknowns, starts, most)
    given = [logs] if isinstance(logs, Log) else list(logs)
    windows = cut(WHERE, sim.model, sim.dt, given, window, free)
    return solve(Problem(sim, windows, unknowns, free), most=most, report=report)


def solve(problem: Problem, *, most: int = 100, report: Report | None = None) -> Estimate:
    """Return the unknowns of a problem with the least errors; see `identify`."""
    wanted, hidden = len(problem.labels), problem.hidden
    freedom = problem.independent - hidden - wanted
    if freedom < 0:
        raise ParameterError(
            f"{WHERE}: the logs hold {problem.independent} independent measurements for {wanted} "
            "unknowns"
            + (f" and {hidden} numbers of free starts" if hidden else "")
            + "; give longer logs, or longer windows."
        )
    watch = _Watch(problem, most, report)
    message, converged = _minimise(watch)
    return _estimate(watch, freedom, message, converged)


def _check_options(unknowns: Sequence[Block], starts: str, most: int) -> bool:
    """Refuse options that have no meaning; return whether starts are free."""
    if not unknowns:
        raise ParameterError(f"{WHERE}: there are no unknowns; give at least one.")
    if starts not in START_CHOICES:
        raise ParameterError(
            f"{WHERE}: starts is {starts!r}; it must be one of {', '.join(START_CHOICES)}."
        )
    if not is_whole(most) or most < 1:
        raise ParameterError(f"{WHERE}: most is {most!r}; it must be a whole number >= 1.")
    return starts == "free"


def _minimise(watch: _Watch) -> tuple[str, bool]:
    """Run scipy's bounded trust region; return why it stopped, and if it came to its end."""
    optimise = load_scipy(WHERE)
    problem = watch.problem
    try:
        done = optimise.least_squares(
            watch.residual,
            problem.start,
            jac=watch.derivative,
            bounds=(problem.lower, problem.upper),
            method="trf",
            x_scale=problem.size,
            ftol=1e-8,
            xtol=1e-10,
            gtol=1e-14,
            max_nfev=watch.most + 1,
        )
    except _Stop:
        return f"the {watch.most} predictions allowed are spent", False
    return f"scipy says {str(done.message).strip().rstrip('.')!r}", bool(done.status > 0)


def _estimate(watch: _Watch, freedom: int, message: str, converged: bool) -> Estimate:
    """Return what was reached, with its uncertainty."""
    problem, point = watch.problem, watch.best
    assert point is not None
    if not len(watch.jacobian):
        raise OptimisationError(f"{WHERE}: {message} before the first derivative; allow more.")
    if watch.spent > sum(watch.evaluations):
        watch.evaluations[-1] += watch.spent - sum(watch.evaluations)
    cost = watch.costs[-1]
    misfit = float(np.sqrt(2.0 * cost / freedom)) if freedom > 0 else None
    # errors below the noise that was given do not make the result surer than the noise says
    floor = 1.0 if problem.windows.known or misfit is None else 0.0
    noise = max(misfit or 0.0, floor)
    near = 1e-6 * problem.size
    bound = (point.x - problem.lower < near) | (problem.upper - point.x < near)
    return Estimate(
        labels=problem.labels,
        x=point.x,
        covariance=covariance_of(watch.jacobian, problem.size, noise),
        jacobian=watch.jacobian,
        size=problem.size,
        params=problem.params(point.x),
        costs=watch.costs,
        path=watch.path,
        evaluations=watch.evaluations,
        noise=noise,
        misfit=misfit,
        at_bound=tuple(np.array(problem.labels, object)[bound]),
        converged=converged,
        reason=f"{WHERE}: stopped at the cost {cost:.6g} after {watch.spent} predictions, "
        f"since {message}.",
        starts=(point.starts.q, point.starts.v),
    )


def load_scipy(where: str) -> Any:
    """Import scipy's optimisers.

    Raises:
        FeatherbackError: if scipy is not installed.
    """
    try:
        return importlib.import_module("scipy.optimize")
    except ImportError:
        raise FeatherbackError(
            f"{where}: scipy is not installed; it is needed here: pip install 'featherback[opt]'."
        ) from None
