"""Height fields as the core reads them: sizes, base and heights, rows and columns of the grid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from featherback._typing import Array, Ints
from featherback.errors import ModelError

if TYPE_CHECKING:
    import mujoco

MOST_TRIANGLES = 2**22
"""Triangles, two in a cell, that the feature of a contact point can number."""


def field_numbers(m: mujoco.MjModel, field: int) -> Array:
    """Return float64[n, 3], the numbers of a field (`core/collision/hfield_prism.hpp`).

    No rotation, no shift and its sizes x, y and z stand where those of a mesh do; then the depth of
    its base, and the heights [m] row by row, filled up with zeros.
    """
    x, y, z, base = (float(size) for size in m.hfield_size[field])
    first, (rows, columns) = int(m.hfield_adr[field]), grid_of(m, field)
    share = m.hfield_data[first : first + rows * columns].astype(np.float64)
    heights = np.zeros(-(-len(share) // 3) * 3)
    heights[: len(share)] = share * z
    frame = np.vstack([np.eye(3), np.zeros(3), [x, y, z], [base, 0.0, 0.0]])
    return np.concatenate([frame, heights.reshape(-1, 3)])


def field_words(m: mujoco.MjModel, field: int) -> Ints:
    """Return int32[2], the rows and columns of a field."""
    rows, columns = grid_of(m, field)
    cells = (rows - 1) * (columns - 1)
    if 2 * cells > MOST_TRIANGLES:
        raise ModelError(
            f'hfield "{m.hfield(field).name}": it has {rows} x {columns} points and so {cells} '
            f"cells; at most {MOST_TRIANGLES // 2} are allowed. Give it fewer rows and columns."
        )
    return np.array([rows, columns], np.int32)


def grid_of(m: mujoco.MjModel, field: int) -> tuple[int, int]:
    """Return the rows and columns of a field."""
    return int(m.hfield_nrow[field]), int(m.hfield_ncol[field])
