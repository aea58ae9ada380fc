"""The methods that experiments compare: ours by gradients, and CMA-ES; both can be resumed.

A resumed run goes through the same evaluations as before. What was already evaluated is taken from
the saved state, so the optimiser comes to the same place without a simulation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from featherback.control import Objective, Outcome, optimise
from featherback.control.outcome import optional
from featherback.errors import ParameterError
from featherback.experiments.context import Context
from featherback.experiments.result import Trace

Array = NDArray[np.float64]
Measure = Callable[[float], float]  # cost -> what the trace shows


@dataclass
class Remembered:
    """An objective whose evaluations are kept in the run's saved state.

    Attributes:
        objective: what is minimised.
        context: the run.
        name: under which they are kept.
    """

    objective: Objective
    context: Context
    name: str
    _at: int = 0
    _x: list[Array] = field(default_factory=list[Array])
    _cost: list[float] = field(default_factory=list[float])
    _gradient: list[Array] = field(default_factory=list[Array])

    def __post_init__(self) -> None:
        """Take over what a stopped run kept."""
        saved = self.context.kept(f"{self.name}.x")
        if saved is not None:
            self._x = list(saved)
            self._cost = [float(c) for c in self._kept("cost")]
            self._gradient = list(self._kept("gradient"))

    def _kept(self, what: str) -> NDArray[Any]:
        """Return one of the arrays that were saved together."""
        saved = self.context.kept(f"{self.name}.{what}")
        return np.zeros(0) if saved is None else saved

    @property
    def size(self) -> int:
        """Number of unknowns."""
        return self.objective.size

    @property
    def lower(self) -> Array:
        """Least x."""
        return self.objective.lower

    @property
    def upper(self) -> Array:
        """Largest x."""
        return self.objective.upper

    def value(self, x: Array) -> float:
        """Return the cost at x; never remembered."""
        return self.objective.value(x)

    def gradient(self, x: Array) -> tuple[float, Array]:
        """Return cost and gradient at x, from memory where the run was here before."""
        at, self._at = self._at, self._at + 1
        if at < len(self._x):
            if not np.array_equal(self._x[at], x):
                raise ParameterError(
                    f"resume: evaluation {at} is at another point than in the saved run, which was "
                    "made by another version or on another instruction set: start again without "
                    "--resume."
                )
            return self._cost[at], self._gradient[at]
        cost, gradient = self.objective.gradient(x)
        self._x.append(x.copy())
        self._cost.append(cost)
        self._gradient.append(gradient.copy())
        self.context.keep(
            **{
                f"{self.name}.x": np.array(self._x),
                f"{self.name}.cost": np.array(self._cost),
                f"{self.name}.gradient": np.array(self._gradient),
            }
        )
        return cost, gradient


def run_lbfgs(
    context: Context, objective: Objective, *, most: int, measure: Measure, which: str = "ours"
) -> tuple[Outcome, Trace]:
    """Minimise by scipy's L-BFGS-B with our gradients, from zero.

    Args:
        context: the run.
        objective: what is minimised.
        most: gradient evaluations, line searches counted.
        measure: turns the cost into what the trace shows.
        which: name of the trace.

    Returns:
        Where it ended, and the trace.
    """
    # a clock that runs while scipy is imported would not measure the method
    optional("run", "scipy.optimize", "opt")
    trace = context.trace(which, f"L-BFGS-B (scipy {version('scipy')}), exact gradients")
    with context.progress("gradients", most) as tell:
        spent = 0

        def report(iteration: int, cost: float, evaluations: int) -> None:
            nonlocal spent
            spent += evaluations
            trace.add(measure(cost), evaluations)
            tell(spent, measure(cost))

        trace.start()
        outcome = optimise(Remembered(objective, context, which), most=most, report=report)
    return outcome, trace


class Batch(Protocol):
    """What CMA-ES needs: bounds and the costs of a population."""

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

    def values(self, x: Array) -> Array:
        """Return the costs of x[worlds, size]."""
        ...


def run_cma(
    context: Context,
    objective: Batch,
    *,
    iterations: int,
    sigma: float,
    measure: Measure,
    start: ArrayLike | None = None,
    population: int | None = None,
    stop: float | None = None,
    which: str = "baseline",
) -> tuple[Array, Trace]:
    """Minimise by the `cma` package's CMA-ES; one population is one batch of worlds.

    Args:
        context: the run; its seed is CMA-ES's.
        objective: gives the costs of a population.
        iterations: most iterations.
        sigma: initial standard deviation, in units of the unknowns.
        measure: turns the cost into what the trace shows.
        start: where the search begins; zero, moved into the bounds, when None.
        population: points of one iteration; the package's default, 4 + 3 ln(size), when None.
        stop: measure at which to stop; None to use all iterations.
        which: name of the trace.

    Returns:
        The best unknowns met, and the trace.

    Raises:
        FeatherbackError: if the package is not installed.
    """
    cma = optional("run", "cma", "opt")
    first = np.zeros(objective.size) if start is None else np.asarray(start, float)
    first = np.clip(first, objective.lower, objective.upper)
    options: dict[str, Any] = {
        "seed": context.seed + 1,  # zero would mean the clock
        "verbose": -9,
        "bounds": [_ends(objective.lower), _ends(objective.upper)],
        "maxiter": np.inf,
        # all the iterations are wanted: nothing but the count ends the search
        **dict.fromkeys(("tolfun", "tolfunhist", "tolx", "tolstagnation", "tolflatfitness"), 0),
    }
    if population is not None:
        options["popsize"] = population
    trace = context.trace(which, f"CMA-ES (cma {version('cma')})")
    known = context.kept(f"{which}.costs")
    costs: list[Array] = [] if known is None else list(known)
    with context.progress("CMA-ES", iterations) as tell:
        trace.start()
        search = cma.CMAEvolutionStrategy(first, sigma, options)
        best_x, best = first, float(objective.values(first[None])[0])
        trace.add(measure(best))
        for iteration in range(iterations):
            points = np.array(search.ask())
            if iteration >= len(costs):
                costs.append(objective.values(points))
            told = np.where(np.isfinite(costs[iteration]), costs[iteration], 1e30)
            search.tell(list(points), told.tolist())
            least = int(np.argmin(told))
            if told[least] < best:
                best_x, best = points[least], float(told[least])
            trace.add(measure(best), len(points))
            tell(iteration + 1, measure(best))
            context.keep(**{f"{which}.costs": np.array(costs)})
            if stop is not None and measure(best) <= stop:
                break
    return best_x, trace


def _ends(bounds: Array) -> list[float | None]:
    """Return bounds in the package's terms, None where there is none."""
    return [float(x) if np.isfinite(x) else None for x in bounds]
