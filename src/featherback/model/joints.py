"""Types of joints by the numbers that MuJoCo and the core give them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from featherback._core import joint_types

if TYPE_CHECKING:
    from featherback.model.model import Model

JOINTS = {row.number: row for row in joint_types()}
"""Type of joints -> its name, coordinates and degrees of freedom."""

FREE = next(row.number for row in joint_types() if row.name == "free")
SINGLE = tuple(row.number for row in joint_types() if row.nv == 1)
"""Types with one degree of freedom, which have an axis."""


class Coordinates(NamedTuple):
    """Where one joint lies in q and v: numbers that add, then a quaternion if it turns."""

    q: int
    v: int
    adds: int
    turns: bool


def joint_coordinates(model: Model) -> Iterator[Coordinates]:
    """Yield the coordinates of every joint."""
    tables = model.structure.tables
    columns = (tables[name] for name in ("jnt_type", "jnt_qadr", "jnt_dofadr"))
    for kind, q, v in zip(*columns, strict=True):
        row = JOINTS[int(kind)]
        turns = row.nq > row.nv
        yield Coordinates(int(q), int(v), row.nv - 3 * turns, turns)
