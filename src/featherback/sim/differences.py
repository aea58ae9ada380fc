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


@dataclass(frozen=True)
class Sides:
    """One-sided slopes along lines.

    Attributes:
        left: float64[lines], below zero.
        right: float64[lines], above zero.
        doubt: float64[2, lines], how far estimates of the left and the right one at other steps
            disagree.
    """

    left: Vector
    right: Vector
    doubt: Vector

    def hold(self, slope: Vector, error: float, *, between: bool) -> NDArray[np.bool_]:
        """Return where the sides differ by more than an error, and a slope is that of one of them.

        Args:
            slope: float64[lines].
            error: how far slopes may be apart that are the same.
            between: whether a slope between the two is meant as well.
        """
        off, sure = slope - np.stack([self.left, self.right]), self.doubt <= error
        one = (sure & (np.abs(off) <= error)).any(axis=0)
        one |= between & sure.all(axis=0) & (off[0] * off[1] < 0)
        return one & (np.abs(self.left - self.right) > error)


def stencil(ladder: Vector = LADDER) -> Vector:
    """Return the offsets along a line at which a function is wanted: 0, +e..., -e..."""
    return np.concatenate([[0.0], ladder, -ladder])


def slopes(values: Vector, ladder: Vector = LADDER, rounding: float = 0.0) -> Slopes:
    """Return slopes at zero from values[lines, stencil]; a step with a NaN is not used.

    Values that are rounded alike show no noise, so that it is taken to be at least `rounding`.
    """
    n = len(ladder)
    centre, plus, minus = values[:, :1], values[:, 1 : n + 1], values[:, n + 1 :]
    central = (plus - minus) / (2 * ladder)
    best = (RATIO**2 * central[:, 1:] - central[:, :-1]) / (RATIO**2 - 1)
    # right less left slope is e f'' where f is smooth; extrapolated to e = 0 it vanishes
    apart = (plus - 2 * centre + minus) / ladder
    kink = np.abs(RATIO * apart[:, 1:] - apart[:, :-1]) / (RATIO - 1)
    # what is left at the two smallest steps is noise, which weighs 1 / e; few samples, so times 3
    noise = 3 * np.fmax(kink[:, -1] * ladder[-1], kink[:, -2] * ladder[-2])
    noise = np.maximum(noise, rounding)
    doubt = np.abs(best[:, 1:] - best[:, :-1]) + kink[:, 1:] + kink[:, :-1]
    doubt += noise[:, None] / ladder[2:]
    doubt = np.where(np.isfinite(doubt), doubt, np.inf)
    kink = np.where(np.isfinite(kink), kink, np.inf)
    at = np.argmin(doubt, axis=1)
    rows = np.arange(len(values))
    return Slopes(
        value=best[rows, at + 1], doubt=doubt[rows, at], step=ladder[at], kink=kink[:, -1]
    )


def sides(values: Vector, ladder: Vector = LADDER, rounding: float = 0.0) -> Sides:
    """Return one-sided slopes at zero, of the arguments of `slopes`."""
    n = len(ladder)
    found = []
    for sign, moved in ((-1.0, values[:, n + 1 :]), (1.0, values[:, 1 : n + 1])):
        slope = sign * (moved - values[:, :1]) / ladder
        best = (RATIO * slope[:, 1:] - slope[:, :-1]) / (RATIO - 1)
        apart = np.abs(best[:, 1:] - best[:, :-1])
        doubt = apart + np.maximum(3 * apart[:, -1:] * ladder[-1], rounding) / ladder[2:]
        doubt = np.where(np.isfinite(doubt), doubt, np.inf)
        at = np.argmin(doubt, axis=1)
        rows = np.arange(len(values))
        found.append((best[rows, at + 1], doubt[rows, at]))
    (left, one), (right, two) = found
    return Sides(left=left, right=right, doubt=np.stack([one, two]))
