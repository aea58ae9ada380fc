"""The baseline of identifications: central differences instead of exact derivatives."""

from __future__ import annotations

import numpy as np

from featherback._typing import Array
from featherback.identify.problem import Point, PredictionProblem

STEP = 6e-6  # relative; near the cube root of the rounding error, best for central differences


class ByDifferences(PredictionProblem):
    """A problem with measured starts whose Jacobian takes two predictions for each unknown."""

    def along(self, point: Point, tangents: list[dict[str, Array]], nv: int | None) -> Array:
        """Return the residual's derivative along each unknown."""
        columns: list[Array] = []
        for i in range(len(tangents)):
            step = np.zeros(len(point.x))
            step[i] = STEP * max(abs(point.x[i]), 1e-3)
            ahead, behind = (self.point(point.x + s * step).residual for s in (1.0, -1.0))
            columns.append((ahead - behind) / (2.0 * step[i]))
        return np.stack(columns, axis=-1)
