"""The farthest vertices of a hull that are known by direction."""

from pathlib import Path

import numpy as np

from featherback.model.hulls import HULL_GRID, farthest_vertices


def test_vertices_of_the_grid_are_the_farthest() -> None:
    """Find at each cell of the cube's sides the vertex that lies farthest along its middle."""
    points = np.random.default_rng(4).normal(size=(300, 3)) * (0.3, 0.1, 0.2)
    grid = np.reshape(farthest_vertices(points), (3, 2, HULL_GRID, HULL_GRID))
    middle = (2 * np.arange(HULL_GRID) + 1) / HULL_GRID - 1
    for (axis, side, i, j), vertex in np.ndenumerate(grid):
        direction = np.zeros(3)
        direction[axis] = 2 * side - 1
        direction[(axis + 1) % 3], direction[(axis + 2) % 3] = middle[i], middle[j]
        along = points @ direction
        assert along[vertex] == along.max()


def test_the_core_reads_the_grid_that_is_written() -> None:
    """Hold as many cells along an edge as the core looks up."""
    core = Path(__file__).parents[2] / "core" / "collision" / "convex_shape.hpp"
    assert f"kHullGrid = {HULL_GRID};" in core.read_text(encoding="utf-8")
