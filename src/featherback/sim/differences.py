"""Slopes of a function along lines, from differences at many steps, and how sure they are.

At a smooth point central differences are even in the step e, so two of them give a Richardson
estimate whose error falls with e^4; a kink or a jump inside the stencil spoils the agreement of
successive estimates, or leaves one-sided slopes that differ as e goes to zero, and noise grows as
1 / e. The estimate with the smallest sum of the three wins; the sum says how far to trust it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

# each step is a quarter of the one before
RATIO = 4.0
LADDER = 0.016 * RATIO ** -np.arange(9.0)


@dataclass(frozen=True)
class Slopes:
    """Slopes along lines.

    Attributes:
        value: float64[lines], the best estimate.
        doubt: float64[lines], how far estimates at other steps and the two sides disagree.
        step: float64[lines], the largest step of the best estimate.
        kink: float64[lines], left and right slope apart, at the smallest steps.
    """

    value: Vector
    doubt: Vector
    step: Vector
    kink: Vector

    def largest(self) -> float:
        """Return the largest slope that has three digits or more."""
        sure = self.doubt <= 1e-3 * np.abs(self.value)
        return float(np.abs(self.value[sure]).max(initial=0))


def stencil(ladder: Vector = LADDER) -> Vector:
    """Return the offsets along a line at which a function is wanted: 0, +e..., -e..."""
    return np.concatenate([[0.0], ladder, -ladder])


def slopes(values: Vector, ladder: Vector = LADDER) -> Slopes:
    """Return slopes at zero from values[lines, stencil]; a step with a NaN is not used."""
    n = len(ladder)
    centre, plus, minus = values[:, :1], values[:, 1 : n + 1], values[:, n + 1 :]
    central = (plus - minus) / (2 * ladder)
    best = (RATIO**2 * central[:, 1:] - central[:, :-1]) / (RATIO**2 - 1)
    # right less left slope is e f'' where f is smooth; extrapolated to e = 0 it vanishes
    apart = (plus - 2 * centre + minus) / ladder
    kink = np.abs(RATIO * apart[:, 1:] - apart[:, :-1]) / (RATIO - 1)
    # what is left at the two smallest steps is noise, which weighs 1 / e; few samples, so times 3
    noise = 3 * np.fmax(kink[:, -1] * ladder[-1], kink[:, -2] * ladder[-2])
    doubt = np.abs(best[:, 1:] - best[:, :-1]) + kink[:, 1:] + kink[:, :-1]
    doubt += noise[:, None] / ladder[2:]
    doubt = np.where(np.isfinite(doubt), doubt, np.inf)
    kink = np.where(np.isfinite(kink), kink, np.inf)
    at = np.argmin(doubt, axis=1)
    rows = np.arange(len(values))
    return Slopes(
        value=best[rows, at + 1], doubt=doubt[rows, at], step=ladder[at], kink=kink[:, -1]
    )
