"""Random placements of two convex shapes, most of them at edges of what a routine meets."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tests.core.test_collision import (
    CLOSED,
    NO_MESH,
    Array,
    framed,
    mesh_points,
    pairs,
    rotation,
    turn,
)

BATCH = 2000
RIGHT = np.array(
    [np.eye(3), turn([1, 0, 0], np.pi / 2), turn([0, 1, 0], np.pi / 2), turn([1, 0, 0], np.pi)]
)
TILTS = [0.0, 0.0, 1e-12, 1e-9, 1e-6, 1e-4, 1e-3, 0.01, 0.03, 0.1]
# a shape of each type, of 5 to 15 cm
SIZES = {
    "sphere": [0.05, 0.0, 0.0],
    "capsule": [0.04, 0.1, 0.0],
    "ellipsoid": [0.1, 0.07, 0.05],
    "cylinder": [0.06, 0.1, 0.0],
    "box": [0.1, 0.08, 0.05],
    "mesh": [0.0, 0.0, 0.0],
}
GAPS = [0.0, 1e-9, -1e-9, 1e-6, -1e-6, 1e-4, -1e-4, 1e-3, -1e-3]


@dataclass
class Batch:
    """Placements of one pair; the mesh is the same in all.

    Attributes:
        kind: name of the pair.
        a: (worlds, 15), the first shapes.
        b: the second shapes.
        vert: the mesh, or no rows.
        stretch: of the mesh along the axes of its file.
    """

    kind: str
    a: Array
    b: Array
    vert: Array
    stretch: Array

    def stretched(self) -> Array:
        """The mesh as it is, in a frame of its own."""
        return framed(mesh_points(self.vert, self.stretch)) if len(self.vert) else self.vert


def hulls(rng: np.random.Generator) -> Array:
    """Vertices of a hull: round, a block, a prism, a sheet, a needle, a tetrahedron or a foot."""
    block = np.array(list(itertools.product([-1.0, 1.0], repeat=3)))
    which = rng.integers(8)
    if which <= 1:
        x = rng.normal(size=(rng.integers(6, 33), 3))
        return x / np.linalg.norm(x, axis=1, keepdims=True) * rng.uniform(0.05, 0.15, 3)
    if which == 2:
        return block * rng.uniform(0.03, 0.15, 3)
    if which == 3:
        angle = np.arange(12) * np.pi / 6
        rim = np.c_[0.1 * np.cos(angle), 0.1 * np.sin(angle)]
        return np.vstack([np.c_[rim, np.full(12, z)] for z in (-0.06, 0.06)])
    if which == 4:
        return block * [0.1, 0.08, 5e-4]
    if which == 5:
        return block * [0.28, 0.01, 0.01]
    if which == 6:
        return np.array([[0.1, 0, 0], [-0.1, 0.1, 0], [-0.1, -0.1, 0], [0, 0, 0.12]])
    return np.vstack([block * [0.1, 0.04, 0.02], [[0.13, 0.03, -0.01], [0.13, -0.03, -0.01]]])


def sizes(name: str, rng: np.random.Generator, worlds: int) -> Array:
    """Half extents of 2 to 15 cm, some shapes thin."""
    out = rng.uniform(0.02, 0.15, (worlds, 3))
    thin = rng.random(worlds) < 0.15
    out[thin, rng.integers(0, 3, worlds)[thin]] = rng.choice([1e-3, 5e-3], int(thin.sum()))
    equal = rng.random(worlds) < 0.2
    out[equal] = 0.1
    return np.zeros((worlds, 3)) if name == "mesh" else out


def rotations(rng: np.random.Generator, worlds: int) -> Array:
    """Random rotation matrices."""
    w, x, y, z = (q := rng.normal(size=(4, worlds))) / np.linalg.norm(q, axis=0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), 2, 0)


def batch_of(kind: str, worlds: int, rng: np.random.Generator) -> Batch:
    """Placements of eight sorts in turn.

    Near each other, deep inside each other, along each other's axes, the same and shifted,
    touching, in the same pose, with the same centre, and apart.
    """
    one, two = kind.split("-")
    sort = np.arange(worlds) % 8
    a, b = np.zeros((worlds, 15)), np.zeros((worlds, 15))
    a[:, 12:], b[:, 12:] = sizes(one, rng, worlds), sizes(two, rng, worlds)
    stretch = rng.uniform(-0.3, 0.3, 3) * (rng.random() < 0.7)
    vert = framed(hulls(rng), rotation(rng), 0.05 * rng.normal(size=3))
    for name, table in ((one, a), (two, b)):
        table[:, 12:] = stretch if name == "mesh" else table[:, 12:]
    if one == two and one != "mesh":
        b[sort == 5, 12:] = a[sort == 5, 12:]
    R, Q = rotations(rng, worlds), rotations(rng, worlds)
    p, step = rng.normal(size=(worlds, 3)), 0.1 * rng.normal(size=(worlds, 3))
    along = np.isin(sort, (2, 3, 5))
    axis = rng.normal(size=(worlds, 3))
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)
    tilt = np.array([turn(x, t) for x, t in zip(axis, rng.choice(TILTS, worlds), strict=True)])
    right = RIGHT[rng.integers(0, 4, worlds)]
    Q[along] = (tilt @ R @ right)[along]
    straight = np.eye(3)[rng.integers(0, 3, worlds)] * rng.choice([-0.2, 0.2], (worlds, 1))
    aside = (
        rng.normal(size=(worlds, 3)) * rng.choice([0.0, 0.03], (worlds, 1)) * (sort == 3)[:, None]
    )
    step[along] = np.einsum("wij,wj->wi", R, straight + aside)[along]
    step[sort == 1] *= 0.3
    step[np.isin(sort, (5, 6))] *= 0.0
    a[:, :3], b[:, :3] = p, p + step
    a[:, 3:12], b[:, 3:12] = R.reshape(-1, 9), Q.reshape(-1, 9)
    batch = Batch(kind, a, b, vert if "mesh" in (one, two) else NO_MESH, stretch)
    gap = rng.uniform(-3e-3, 5e-3, worlds)
    gap[along] = rng.choice(GAPS, int(along.sum()))
    gap[sort == 4] = 0.0
    gap[sort == 7] = rng.uniform(0.03, 0.1, int((sort == 7).sum()))
    _bring(batch, np.isin(sort, (0, 2, 3, 4, 7)), gap)
    return batch


def closest_points(batch: Batch) -> Array:
    """Gap, normal, point and a mark: of the closest points, or of a closed form's lowest slot."""
    pair = pairs(batch.kind, batch.a, batch.b, batch.vert)
    if batch.kind not in CLOSED:
        return pair.closest()
    touch = pair.collide()
    at = np.where(touch[..., 7] > 0, touch[..., 0], np.inf).argmin(axis=1)
    return touch[np.arange(len(touch)), at]


def _bring(batch: Batch, moves: Array, gap: Array) -> None:
    """Move the second shapes along the normal until the gaps are as wanted."""
    for _ in range(2):
        found = closest_points(batch)
        step = found[:, 1:4] * (gap - found[:, 0])[:, None]
        batch.b[moves, :3] += step[moves]


def batches(kind: str, count: int, rng: np.random.Generator) -> Iterator[Batch]:
    """A number of placements in batches, each with a mesh of its own."""
    for start in range(0, count, BATCH):
        yield batch_of(kind, min(BATCH, count - start), rng)
