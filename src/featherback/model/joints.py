"""Types of joints by the numbers that MuJoCo and the core give them."""

from __future__ import annotations

from featherback._core import joint_types

JOINTS = {row.number: row for row in joint_types()}
"""Type of joints -> its name, coordinates and degrees of freedom."""

FREE, BALL = (
    next(row.number for row in joint_types() if row.name == name) for name in ("free", "ball")
)
SINGLE = tuple(row.number for row in joint_types() if row.nv == 1)
"""Types with one degree of freedom, which have an axis."""
