"""The result of an optimization, and when it is stopped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from featherback._typing import Array
from featherback.control.controls import Controls, check_bounds, real_array, real_numbers
from featherback.errors import OptimizationError, ParameterError, WorldError

# called at the end of each iteration with its number, the best cost and the evaluations it took
Report = Callable[[int, float, int], None]

DIVERGED = 1e6  # a cost this many times the initial one counts as divergence


class Bounded(Protocol):
    """Unknowns with bounds."""

    @property
    def size(self) -> int:
        """Number of unknowns."""
        ...

    @property
    def lower(self) -> Array:
        """Lower bounds of x."""
        ...

    @property
    def upper(self) -> Array:
        """Upper bounds of x."""
        ...


class Objective(Bounded, Protocol):
    """What the methods minimize."""

    def value(self, x: Array) -> float:
        """Return the cost at x; infinite where it has none."""
        ...

    def gradient(self, x: Array) -> tuple[float, Array]:
        """Return the cost and its gradient at x."""
        ...


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of an optimization.

    Attributes:
        x: float64[size], the best unknowns found.
        cost: cost there.
        costs: best cost after each iteration; the first is that of the initial guess.
        evaluations: gradient evaluations of each iteration, line searches counted; the first is 1.
        reached: whether the cost is at most the goal; True where no goal was given.
        reason: why it stopped, in a sentence.
        controls: what x means for a `Shooting` problem; None for another objective.
    """

    x: Array
    cost: float
    costs: list[float]
    evaluations: list[int]
    reached: bool
    reason: str
    controls: Controls | None = field(default=None, repr=False)

    @property
    def u(self) -> Array:
        """float64[steps, nu], the controls that x stands for, where a `Shooting` was minimized.

        Raises:
            ParameterError: if the objective was something else.
        """
        if self.controls is None:
            raise ParameterError(
                "Outcome.u: the objective was not a Shooting problem, so x has no controls; read x."
            )
        return self.controls.expand(self.x)

    @property
    def total_evaluations(self) -> int:
        """Sum of all gradient evaluations."""
        return sum(self.evaluations)

    def raise_if_missed(self) -> None:
        """Raise OptimizationError, with the reason, if the goal was not reached."""
        if not self.reached:
            raise OptimizationError(self.reason, self)


class Stop(Exception):
    """Leaves a library's optimizer from inside its objective."""


@dataclass
class Evaluator:
    """Evaluates an objective for a method: counts, keeps the best, and stops on divergence.

    Attributes:
        method: name for messages.
        objective: what is minimized.
        max_evaluations: maximum number of gradient evaluations.
        goal: cost at which to stop; None for none.
        report: called after every iteration.
        searches: whether the method searches along a line, so that a high cost is a trial that it
            takes back; where it does not, a cost that keeps growing stops it.
    """

    method: str
    objective: Objective
    max_evaluations: int
    goal: float | None = None
    report: Report | None = None
    searches: bool = True
    best: float = np.inf
    best_x: Array = field(default_factory=lambda: np.zeros(0))
    costs: list[float] = field(default_factory=list[float])
    evaluations: list[int] = field(default_factory=list[int])
    spent: int = 0
    _since: int = 0
    _start: float = np.nan

    def gradient(self, x: Array) -> tuple[float, Array]:
        """Return cost and gradient at x; raise Stop at the goal or the last evaluation."""
        if self.spent >= self.max_evaluations:
            raise Stop
        self.spent += 1
        try:
            cost, gradient = self.objective.gradient(x)
        except WorldError as error:
            raise self.failed(str(error).split("\n")[-1]) from None
        if not np.isfinite(cost):
            raise self.failed(f"the cost is {cost}")
        if not np.all(np.isfinite(gradient)):
            bad = int(np.argmax(~np.isfinite(gradient)))
            raise self.failed(f"the gradient is not finite, first at unknown {bad}")
        if np.isnan(self._start):
            self._start = cost
        elif not self.searches and cost > DIVERGED * max(abs(self._start), 1e-12):
            raise self.failed(
                f"the cost grew from {self._start:.3g} at the initial guess to {cost:.3g}, by more "
                f"than {DIVERGED:.0e} times"
            )
        if cost < self.best:
            self.best, self.best_x = cost, x.copy()
        if not self.costs:
            self.end()
        if self.goal is not None and self.best <= self.goal:
            raise Stop
        return cost, gradient

    def attempt(self, x: Array) -> tuple[float, Array]:
        """Return cost and gradient at a trial point; an infinite cost where it has none."""
        try:
            return self.gradient(x)
        except OptimizationError:
            return np.inf, np.zeros_like(x)

    def end(self) -> None:
        """End an iteration."""
        self.costs.append(self.best)
        self.evaluations.append(self.spent - self._since)
        self._since = self.spent
        if self.report is not None:
            self.report(len(self.costs) - 1, self.best, self.evaluations[-1])

    def failed(self, reason: str) -> OptimizationError:
        """Return the error of an optimization that cannot go on."""
        where = f"{self.method}: iteration {max(len(self.costs) - 1, 0)}, evaluation {self.spent}"
        text = f"{where}: {reason.rstrip('.')}; "
        if not self.costs:
            text += "this is the initial guess, so give another one or a smaller time step."
            return OptimizationError(text)
        text += f"the best cost before was {self.best:.6g}: take smaller steps or tighter bounds."
        return OptimizationError(text, self.outcome("it diverged"))

    def outcome(self, reason: str) -> Outcome:
        """Return what was reached; evaluations of an unfinished iteration are counted."""
        if self.spent > self._since:
            self.end()
        reached = self.goal is None or self.best <= self.goal
        if self.goal is not None and reached:
            text = f"{self.method}: the cost {self.best:.6g} is within the goal {self.goal:.6g}."
        elif self.goal is not None:
            text = (
                f"{self.method}: stopped at the cost {self.best:.6g}, above the goal "
                f"{self.goal:.6g}, after {self.spent} gradient evaluations, because {reason}; the "
                "target may be out of reach: increase max_evaluations, widen the bounds, give "
                "another initial guess, or choose a nearer target."
            )
        else:
            text = (
                f"{self.method}: stopped at the cost {self.best:.6g} after {self.spent} gradient "
                f"evaluations, because {reason}."
            )
        # a Shooting problem says what its unknowns mean; other objectives need not
        meaning = getattr(self.objective, "controls", None)
        controls = meaning if isinstance(meaning, Controls) else None
        return Outcome(
            self.best_x, self.best, self.costs, self.evaluations, reached, text, controls
        )


def initial_guess(where: str, objective: Objective, start: ArrayLike | None) -> Array:
    """Return a guess within the bounds, float64[size]; when None zero, clipped to the bounds."""
    lower, upper = objective.lower, objective.upper
    check_bounds(where, lower, upper)
    if start is None:
        return np.clip(np.zeros(objective.size), lower, upper)
    given = real_numbers(where, "start", start)
    x = real_array(where, "start", given.ravel(), (objective.size,))
    outside = (x < lower) | (x > upper)
    if np.any(outside):
        at = int(np.argmax(outside))
        raise ParameterError(
            f"{where}: start[{at}] is {x[at]:g}, outside its bounds {lower[at]:g} to "
            f"{upper[at]:g}; move it inside or widen the bounds."
        )
    return x
