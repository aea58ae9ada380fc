"""Figures and claims that experiments share whose loss is a distance: ours against CMA-ES."""

from __future__ import annotations

import math
from dataclasses import dataclass

from featherback.experiments.result import Claim, Trace

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


def distance(cost: float) -> float:
    """Return the distance [m] of which half the square is `cost`."""
    return math.sqrt(2.0 * cost)


def figures(ours: Trace, baseline: Trace, speed: float) -> dict[str, float | None]:
    """Return the headline numbers; `speed` is that of the ball at the end of ours [m/s]."""
    return {
        "distance [m]": ours.loss[-1],
        "speed at the end [m/s]": speed,
        "gradient evaluations": ours.total_evaluations,
        "gradient evaluations to 1 cm": ours.evaluations_until(NEAR),
        "seconds": ours.total_seconds,
        "seconds to 1 cm": ours.seconds_until(NEAR),
        "CMA-ES distance [m]": baseline.loss[-1],
        "CMA-ES iterations": baseline.iterations,
        "CMA-ES simulations": baseline.total_evaluations,
        "CMA-ES iterations to 1 cm": baseline.first_below(NEAR),
        "CMA-ES simulations to 1 cm": baseline.evaluations_until(NEAR),
        "CMA-ES seconds": baseline.total_seconds,
        "CMA-ES seconds to 1 cm": baseline.seconds_until(NEAR),
    }


def claims(ours: Trace, baseline: Trace, speed: float, budget: Budget, quick: bool) -> list[Claim]:
    """Return the claims; what needs CMA-ES's whole budget is not judged in a quick run."""
    reached, theirs = ours.loss[-1], baseline.loss[-1]
    spent = ours.evaluations_until(NEAR)
    whole = baseline.total_seconds / ours.total_seconds
    near, near_theirs = ours.seconds_until(NEAR), baseline.seconds_until(NEAR)
    # where CMA-ES does not come near, all its time is a lower bound
    early = None if near is None else (near_theirs or baseline.total_seconds) / near
    return [
        Claim(
            f"under 1 cm from the target in {budget.gradients} gradient evaluations, line "
            "searches counted [m]",
            reached,
            spent is not None and spent <= budget.gradients,
        ),
        Claim(
            f"CMA-ES does not reach that loss in {budget.iterations} iterations [m]",
            theirs,
            None if quick else theirs > reached,
        ),
        Claim(
            f"ahead in wall clock: time of {budget.iterations} iterations of CMA-ES over all of "
            "ours, which has the lower loss",
            whole,
            None if quick else whole > 1.0 and theirs > reached,
        ),
        Claim(
            "ahead in wall clock to 1 cm: time of CMA-ES over ours",
            early,
            None if quick else early is not None and early > 1.0,
        ),
        Claim("the ball rests at the target: below 1 cm/s [m/s]", speed, speed < AT_REST),
    ]
