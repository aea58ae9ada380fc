"""Triangles of mesh files: what every reader of a format returns, and what MuJoCo takes."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from featherback._typing import Array

MAX_POINTS = 10_000_000
"""Most corners of triangles in one mesh, instances counted."""

Corners = NDArray[np.int64]
"""Numbers of points."""


class MeshProblem(Exception):
    """A mesh cannot be used; the message is a clause without a full stop."""


@dataclass(frozen=True)
class Triangles:
    """A surface.

    Attributes:
        points: float64[n, 3].
        corners: int64[m, 3], three points each.
    """

    points: Array
    corners: Corners

    def moved(self, matrix: Array) -> Triangles:
        """Return the surface under a transformation float64[4, 4]."""
        return Triangles(self.points @ matrix[:3, :3].T + matrix[:3, 3], self.corners)

    def packed(self) -> bytes:
        """Return the surface as MuJoCo's binary MSH, points that no triangle has left out."""
        used, corners = np.unique(self.corners, return_inverse=True)
        points = self.points[used]
        if len(points) < 3:
            raise MeshProblem("it holds no triangles")
        if not np.isfinite(points).all():
            raise MeshProblem("it holds a point that is not finite")
        head = struct.pack("<4i", len(points), 0, 0, len(self.corners))
        return head + points.astype("<f4").tobytes() + corners.astype("<i4").tobytes()


def surface(points: NDArray[Any], corners: NDArray[Any]) -> Triangles:
    """Return a surface from numbers of a file, after a look at their range."""
    try:
        corners = np.asarray(corners, np.int64).reshape(-1, 3)
        points = np.asarray(points, np.float64).reshape(-1, 3)
    except ValueError:
        raise MeshProblem("its points do not have three numbers each") from None
    if corners.size and not 0 <= corners.min() <= corners.max() < len(points):
        raise MeshProblem(f"a triangle names a point beyond the {len(points)} that there are")
    return Triangles(points, corners)


def joined(parts: Sequence[Triangles]) -> Triangles:
    """Return several surfaces as one."""
    if sum(part.corners.size for part in parts) > MAX_POINTS:
        raise MeshProblem(f"its triangles have more than {MAX_POINTS} corners; simplify it")
    before = np.cumsum([0, *(len(part.points) for part in parts)])
    points = [np.zeros((0, 3)), *(part.points for part in parts)]
    corners = [np.zeros((0, 3), np.int64)]
    corners += [part.corners + start for part, start in zip(parts, before[:-1], strict=True)]
    return Triangles(np.concatenate(points), np.concatenate(corners))


def fans(counts: NDArray[Any], corners: NDArray[Any]) -> Corners:
    """Return int64[m, 3], polygons cut into triangles that share the polygon's first corner.

    Args:
        counts: corners of each polygon; fewer than three make no triangle.
        corners: the corners of all polygons, one after the other.
    """
    counts = np.asarray(counts, np.int64)
    corners = np.asarray(corners, np.int64)
    if np.any(counts < 0) or counts.sum() != len(corners):
        raise MeshProblem("the corners of its polygons are not as many as it says")
    start = np.cumsum(counts) - counts
    pieces = np.maximum(counts - 2, 0)
    first = np.repeat(start, pieces)
    step = np.arange(len(first)) - np.repeat(np.cumsum(pieces) - pieces, pieces) + 1
    return np.stack([corners[first], corners[first + step], corners[first + step + 1]], axis=1)


def strip(corners: NDArray[Any]) -> Corners:
    """Return int64[m, 3], the triangles of a strip, all turned the same way."""
    corners = np.asarray(corners, np.int64)
    found = np.stack([corners[:-2], corners[1:-1], corners[2:]], axis=1)
    found[1::2] = found[1::2, ::-1]
    return found


def floats(text: str) -> Array:
    """Return the numbers of a text."""
    try:
        return np.array(text.split(), np.float64)
    except (ValueError, OverflowError):
        raise MeshProblem("a list of numbers holds something else") from None


def integers(text: str) -> Corners:
    """Return the whole numbers of a text."""
    try:
        return np.array(text.split(), np.int64)
    except (ValueError, OverflowError):
        raise MeshProblem("a list of whole numbers holds something else") from None
