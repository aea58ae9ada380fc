"""What an optimisation hands back, and when it is stopped."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from featherback.control.controls import real_array, real_numbers, refuse_crossed
from featherback.errors import FeatherbackError, OptimisationError, ParameterError, WorldError

Array = NDArray[np.float64]
# called at the end of each iteration with the number, the best cost and the evaluations it took
Report = Callable[[int, float, int], None]

DIVERGED = 1e6  # a cost this many times that of the start counts as divergence


class Bounded(Protocol):
    """Unknowns with bounds."""

    @property
    def size(self) -> int:
        """Number of unknowns."""
        ...

    @property
    def lower(self) -> Array:
        """Least x."""
        ...

    @property
    def upper(self) -> Array:
        """Largest x."""
        ...


class Objective(Bounded, Protocol):
    """What the methods minimise."""

    def value(self, x: Array) -> float:
        """Return the cost at x; infinite where it has none."""
        ...

    def gradient(self, x: Array) -> tuple[float, Array]:
        """Return the cost and its gradient at x."""
        ...


@dataclass(frozen=True, eq=False)
class Outcome:
    """Where an optimisation ended.

    Attributes:
        x: float64[size], the best unknowns met.
        cost: cost there.
        costs: best cost after each iteration; the first is that of the start.
        evaluations: gradient evaluations of each iteration, line searches counted; the first is 1.
        reached: whether the cost is at most the goal; True where no goal was given.
        reason: why it stopped, in a sentence.
    """

    x: Array
    cost: float
    costs: list[float]
    evaluations: list[int]
    reached: bool
    reason: str

    @property
    def total_evaluations(self) -> int:
        """Sum of all gradient evaluations."""
        return sum(self.evaluations)

    def raise_if_missed(self) -> None:
        """Raise OptimisationError if the goal was not reached.

        Raises:
            OptimisationError: with the reason.
        """
        if not self.reached:
            raise OptimisationError(self.reason, self)


class Stop(Exception):
    """Leaves a library's optimiser from inside its objective."""


@dataclass
class Watch:
    """Evaluates an objective for a method: counts, keeps the best, and stops on divergence.

    Attributes:
        method: name for messages.
        objective: what is minimised.
        most: most gradient evaluations.
        goal: cost at which to stop; None for none.
        report: told about every iteration.
        searches: whether the method searches along a line, so that a high cost is a trial that it
            takes back; where it does not, a cost that grows without end stops it.
    """

    method: str
    objective: Objective
    most: int
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
        """Return cost and gradient at x, or stop.

        Raises:
            Stop: when the goal is met or the evaluations are spent.
            OptimisationError: when the cost or the gradient is not finite, or the cost diverges.
        """
        if self.spent >= self.most:
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
                f"the cost grew from {self._start:.3g} at the start to {cost:.3g}, more than "
                f"{DIVERGED:.0e} times"
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
        except OptimisationError:
            return np.inf, np.zeros_like(x)

    def end(self) -> None:
        """End an iteration."""
        self.costs.append(self.best)
        self.evaluations.append(self.spent - self._since)
        self._since = self.spent
        if self.report is not None:
            self.report(len(self.costs) - 1, self.best, self.evaluations[-1])

    def failed(self, reason: str) -> OptimisationError:
        """Return the error of an optimisation that cannot go on."""
        where = f"{self.method}: iteration {max(len(self.costs) - 1, 0)}, evaluation {self.spent}"
        text = f"{where}: {reason.rstrip('.')}; "
        if not self.costs:
            text += "this is the start, so give another one or a smaller time step."
            return OptimisationError(text)
        text += f"the best cost before was {self.best:.6g}: take smaller steps or tighter bounds."
        return OptimisationError(text, self.outcome("it diverged"))

    def outcome(self, reason: str) -> Outcome:
        """Return what was reached; evaluations of an unfinished iteration are counted."""
        if self.spent > self._since:
            self.end()
        reached = self.goal is None or self.best <= self.goal
        if self.goal is not None and reached:
            said = f"{self.method}: the cost {self.best:.6g} is within the goal {self.goal:.6g}."
        elif self.goal is not None:
            said = (
                f"{self.method}: stopped at the cost {self.best:.6g}, above the goal "
                f"{self.goal:.6g}, after {self.spent} gradient evaluations, since {reason}; the "
                "target may be out of reach: allow more evaluations, widen the bounds, start "
                "elsewhere, or choose a nearer target."
            )
        else:
            said = (
                f"{self.method}: stopped at the cost {self.best:.6g} after {self.spent} gradient "
                f"evaluations, since {reason}."
            )
        return Outcome(self.best_x, self.best, self.costs, self.evaluations, reached, said)


def check_start(where: str, objective: Objective, start: ArrayLike | None) -> Array:
    """Return the start as float64[size], zero where possible when None.

    Raises:
        FeatherbackError: if it has another shape, holds a NaN, or lies outside the bounds.
    """
    lower, upper = objective.lower, objective.upper
    refuse_crossed(where, lower, upper)
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


def optional(where: str, module: str, extra: str) -> Any:
    """Import a module of an optional package.

    Raises:
        FeatherbackError: if it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise FeatherbackError(
            f"{where}: {package} is not installed; it is needed here: "
            f"pip install 'featherback[{extra}]'."
        ) from None
