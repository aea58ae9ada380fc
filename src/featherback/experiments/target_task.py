"""What experiments share that bring a ball to a target: their loss, figures and claims.

The loss is a length: the root of the squared distance from the target plus the squared torques,
as fractions of their limits, averaged over unknowns, times `EFFORT`. A loss below 1 cm therefore
implies a distance below 1 cm. Without the second term any torques that lead to the target are as
good as any others: a target of one or two numbers does not determine hundreds of unknowns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from featherback.control import Controls, Effort, FinalPosition, Shooting
from featherback.control.optimize import Method
from featherback.experiments.context import Context
from featherback.experiments.methods import run_cma, run_gradients
from featherback.experiments.result import Claim, Result, Trace

NEAR = 0.01  # [m]
AT_REST = 0.01  # [m/s]


@dataclass(frozen=True)
class Budget:
    """What both methods may spend.

    Attributes:
        gradients: gradient evaluations of ours, line searches counted.
        iterations: iterations of CMA-ES.
        quick: iterations of CMA-ES in a quick run.
    """

    gradients: int
    iterations: int
    quick: int


@dataclass(frozen=True)
class Ends:
    """Final states of the ball.

    Attributes:
        ours: distance from the target under our controls [m].
        theirs: distance under the best controls of CMA-ES [m].
        speed: speed under our controls [m/s].
    """

    ours: float
    theirs: float
    speed: float


def run_target(
    context: Context,
    problem: Shooting,
    final: FinalPosition,
    budget: Budget,
    *,
    xml: str,
    camera: tuple[float, float, float, float, float, float],
    ball: slice,
    rate: float,
    sigma: float,
    method: Method = "l-bfgs",
) -> Result:
    """Bring a ball to its target by gradients, then by CMA-ES, both from controls of zero.

    Args:
        context: the run.
        problem: cost of the unknowns.
        final: half the squared distance from the target at the end [m²].
        budget: what both may spend.
        xml: the model, MJCF.
        camera: of the film.
        ball: columns of v that hold the velocity of the ball.
        rate: first step of the gradients, in units of the unknowns.
        sigma: initial spread of CMA-ES, likewise.
        method: of the gradients.
    """
    outcome, ours = run_gradients(
        context,
        problem,
        max_evaluations=budget.gradients,
        measure=length,
        method=method,
        rate=rate,
    )
    roll = problem.rollout(outcome.x)
    motion = {"q": roll.q, "v": roll.v, "u": roll.u}
    context.record(xml, motion, dt=problem.sim.dt, target=final.target, camera=camera)
    iterations = budget.quick if context.quick else budget.iterations
    best, baseline = run_cma(
        context, problem, max_iterations=iterations, sigma=sigma, measure=length, diagonal=True
    )
    ends = Ends(
        ours=float(final.distance(roll.q)),
        theirs=float(final.distance(problem.rollout(best).q)),
        speed=float(np.linalg.norm(roll.v[-1, ball])),
    )
    return Result(
        ours=ours,
        baseline=baseline,
        figures={"unknowns": problem.size, **figures(ours, baseline, ends)},
        claims=claims(ours, baseline, ends, budget, context.quick),
    )


def length(cost: float) -> float:
    """Return the loss [m] of which half the square is `cost` [m²]."""
    return math.sqrt(2.0 * cost)


def mean_effort(controls: Controls, weight: float) -> Effort:
    """Return half of `weight` [m²] times the mean square of the unknowns, as a cost of controls."""
    steps, nu = controls.base.shape
    each = np.zeros(nu)
    share = steps / (controls.active * len(controls.free))
    each[controls.free] = weight * share / controls.unit**2
    return Effort(each, controls.base)


def figures(ours: Trace, baseline: Trace, ends: Ends) -> dict[str, float | None]:
    """Return the headline numbers."""
    return {
        "loss [m]": ours.loss[-1],
        "distance [m]": ends.ours,
        "speed at the end [m/s]": ends.speed,
        "gradient evaluations": ours.total_evaluations,
        "gradient evaluations to a loss of 1 cm": ours.evaluations_until(NEAR),
        "seconds": ours.total_seconds,
        "seconds to a loss of 1 cm": ours.seconds_until(NEAR),
        "CMA-ES loss [m]": baseline.loss[-1],
        "CMA-ES distance [m]": ends.theirs,
        "CMA-ES iterations": baseline.iterations,
        "CMA-ES simulations": baseline.total_evaluations,
        "CMA-ES iterations to a loss of 1 cm": baseline.first_below(NEAR),
        "CMA-ES simulations to a loss of 1 cm": baseline.evaluations_until(NEAR),
        "CMA-ES seconds": baseline.total_seconds,
        "CMA-ES seconds to a loss of 1 cm": baseline.seconds_until(NEAR),
    }


def claims(ours: Trace, baseline: Trace, ends: Ends, budget: Budget, quick: bool) -> list[Claim]:
    """Return the claims; what needs CMA-ES's full budget is not judged in a quick run."""
    reached, theirs = ours.loss[-1], baseline.loss[-1]
    spent = ours.evaluations_until(NEAR)
    ratio = baseline.total_seconds / ours.total_seconds
    # the loss that CMA-ES ends with, and when ours was there
    level = ours.seconds_until(theirs)
    faster = None if level is None else baseline.total_seconds / level
    return [
        Claim(
            f"under 1 cm from the target in {budget.gradients} gradient evaluations, line "
            "searches counted: distance [m]",
            ends.ours,
            spent is not None and spent <= budget.gradients and ends.ours < NEAR,
        ),
        Claim(
            f"CMA-ES does not reach our loss in {budget.iterations} iterations: its loss over ours",
            theirs / reached,
            None if quick else theirs > reached,
        ),
        Claim(
            f"ahead in wall clock: time of {budget.iterations} iterations of CMA-ES over all of "
            "ours",
            ratio,
            None if quick else ratio > 1.0 and theirs > reached,
        ),
        Claim(
            "ahead in wall clock to the loss at which CMA-ES ends: its time over ours",
            faster,
            None if quick else faster is not None and faster > 1.0,
        ),
        Claim(
            "the ball rests at the target: speed below 1 cm/s [m/s]",
            ends.speed,
            ends.speed < AT_REST,
        ),
    ]
