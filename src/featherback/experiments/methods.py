"""The methods that experiments compare: ours by gradients, and CMA-ES; both can be resumed.

A resumed run goes through the same evaluations as before. What was already evaluated is taken from
the saved state, so the optimizer comes to the same point without a simulation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from featherback._optional import import_optional
from featherback._typing import Array
from featherback.control import Objective, Outcome, optimize
from featherback.control.optimize import Method
from featherback.control.outcome import Bounded
from featherback.errors import ParameterError
from featherback.experiments.context import Context
from featherback.experiments.result import Trace

METHODS: dict[Method, str] = {
    "l-bfgs": "L-BFGS-B (scipy), exact gradients",
    "projected-gradient": "projected gradient, exact gradients",
    "adam": "Adam (torch), exact gradients",
}
Measure = Callable[[float], float]  # cost -> what the trace shows


@dataclass
class Remembered:
    """An objective whose evaluations are kept in the run's saved state.

    Attributes:
        objective: what is minimized.
        context: the run.
        name: under which they are kept.
        size: number of unknowns.
        lower: their lower bounds.
        upper: their upper bounds.
    """

    objective: Objective
    context: Context
    name: str
    size: int = field(init=False)
    lower: Array = field(init=False)
    upper: Array = field(init=False)
    _at: int = 0
    _x: list[Array] = field(default_factory=list[Array])
    _cost: list[float] = field(default_factory=list[float])
    _gradient: list[Array] = field(default_factory=list[Array])

    def __post_init__(self) -> None:
        """Take over bounds, and what a stopped run kept."""
        self.size, self.lower = self.objective.size, self.objective.lower
        self.upper = self.objective.upper
        self._x = list(self.context.kept_or_empty(f"{self.name}.x"))
        self._cost = [float(c) for c in self.context.kept_or_empty(f"{self.name}.cost")]
        self._gradient = list(self.context.kept_or_empty(f"{self.name}.gradient"))

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


def run_gradients(
    context: Context,
    objective: Objective,
    *,
    max_evaluations: int,
    measure: Measure,
    method: Method = "l-bfgs",
    rate: float | None = None,
    which: str = "ours",
) -> tuple[Outcome, Trace]:
    """Minimize with our gradients, from zero; `measure` maps the cost to what the trace shows."""
    trace = context.trace(which, METHODS[method])
    if method == "l-bfgs":
        # a clock that runs while scipy is imported would not measure the method
        import_optional("run", "scipy.optimize", "opt")
    remembered = Remembered(objective, context, which)
    with context.progress("gradients", max_evaluations) as update_progress:
        spent = 0

        def report(iteration: int, cost: float, evaluations: int) -> None:
            nonlocal spent
            spent += evaluations
            trace.add(measure(cost), evaluations)
            update_progress(spent, measure(cost))

        trace.start()
        outcome = optimize(
            remembered, method=method, max_evaluations=max_evaluations, rate=rate, report=report
        )
    return outcome, trace


class Batch(Bounded, Protocol):
    """What CMA-ES needs: bounds and the costs of a population."""

    def values(self, x: Array) -> Array:
        """Return the costs of x[worlds, size]."""
        ...


def run_cma(
    context: Context,
    objective: Batch,
    *,
    max_iterations: int,
    sigma: float,
    measure: Measure,
    start: ArrayLike | None = None,
    population: int | None = None,
    diagonal: bool = False,
    stop: float | None = None,
    which: str = "baseline",
) -> tuple[Array, Trace]:
    """Minimize by the `cma` package's CMA-ES; one population is one batch of worlds.

    Args:
        context: the run; its seed is CMA-ES's.
        objective: gives the costs of a population.
        max_iterations: maximum number of iterations.
        sigma: initial standard deviation, in units of the unknowns.
        measure: maps the cost to what the trace shows.
        start: initial mean; zero, clipped to the bounds, when None.
        population: points of one iteration; the package's default, 4 + 3 ln(size), when None.
        diagonal: keep only the diagonal of the covariance: better for hundreds of unknowns.
        stop: measure at which to stop; None to use all iterations.
        which: name of the trace.
    """
    cma = import_optional("run", "cma", "opt")
    first = np.clip(0.0 if start is None else start, objective.lower, objective.upper)
    options = _cma_options(context.seed, objective, population, diagonal)
    trace = context.trace(which, "CMA-ES, diagonal (cma)" if diagonal else "CMA-ES (cma)")
    costs = list(context.kept_or_empty(f"{which}.costs"))
    with context.progress("CMA-ES", max_iterations) as update_progress:
        trace.start()
        search = cma.CMAEvolutionStrategy(first, sigma, options)
        best_x, best = first, float(objective.values(first[None])[0])
        trace.add(measure(best))
        for iteration in range(max_iterations):
            points = np.array(search.ask())
            if iteration >= len(costs):
                costs.append(objective.values(points))
            finite = np.where(np.isfinite(costs[iteration]), costs[iteration], 1e30)
            search.tell(list(points), finite.tolist())
            lowest = int(np.argmin(finite))
            if finite[lowest] < best:
                best_x, best = points[lowest], float(finite[lowest])
            trace.add(measure(best), len(points))
            update_progress(iteration + 1, measure(best))
            context.keep(**{f"{which}.costs": np.array(costs)})
            if stop is not None and measure(best) <= stop:
                break
    return best_x, trace


def _cma_options(
    seed: int, objective: Batch, population: int | None, diagonal: bool
) -> dict[str, Any]:
    """Return the options of the search; nothing but the count of iterations ends it."""
    options: dict[str, Any] = {
        "seed": seed + 1,  # zero would mean the clock
        "verbose": -9,
        "bounds": [_ends(objective.lower), _ends(objective.upper)],
        "CMA_diagonal": diagonal,
        "maxiter": np.inf,
        **dict.fromkeys(("tolfun", "tolfunhist", "tolx", "tolstagnation", "tolflatfitness"), 0),
    }
    if population is not None:
        options["popsize"] = population
    return options


def _ends(bounds: Array) -> list[float | None]:
    """Return bounds in the package's terms, None where there is none."""
    return [float(x) if np.isfinite(x) else None for x in bounds]
