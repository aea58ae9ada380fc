"""One-sided slopes of a function, from differences at many steps, and how sure they are.

Forward differences have an error e a + e^2 b + ...; two rounds of Richardson's extrapolation leave
e^3. Successive estimates disagree where a kink or a jump lies on the way, and noise grows as 1 / e.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from featherback.sim.differences import LADDER, RATIO

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Side:
    """The slope on one side of a point.

    Attributes:
        value: the best estimate; NaN where there is none.
        doubt: how far estimates at other steps disagree, and noise; infinite where there is none.
    """

    value: float
    doubt: float


def side_slope(centre: float, values: Vector, ladder: Vector = LADDER) -> Side:
    """Return the slope towards one side.

    Args:
        centre: value at the point.
        values: float64[steps], values at the ladder's steps away from it; NaN where there is none,
            or where it lies in another mode than the point, and everything farther is not used.
        ladder: the steps, each a quarter of the one before; negative for the other side.
    """
    bad = np.flatnonzero(~np.isfinite(values))
    start = int(bad[-1]) + 1 if len(bad) else 0
    values, ladder = values[start:], ladder[start:]
    if len(values) < 5:
        return Side(np.nan, np.inf)
    first = (values - centre) / ladder
    second = (RATIO * first[1:] - first[:-1]) / (RATIO - 1)
    third = (RATIO**2 * second[1:] - second[:-1]) / (RATIO**2 - 1)
    apart = np.abs(np.diff(third))
    # what is left at the three smallest steps is noise, which weighs 1 / e; few samples, so times 3
    noise = 3 * (apart * np.abs(ladder[3:]))[-3:].max() / np.abs(ladder[3:])
    # a kink nearer than a step shows in the estimates of all smaller ones
    later = np.abs(third[1:][:, None] - third[1:][None, :]) - noise[None, :]
    nearer = np.triu(np.maximum(later, 0.0)).max(axis=1)
    doubt = apart + noise + nearer
    at = int(np.argmin(doubt))
    return Side(float(third[at + 1]), float(doubt[at]))
