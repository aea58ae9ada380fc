"""Height fields as the core reads them, and shapes placed over them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from featherback import _oracle
from tests.core.test_collision import (
    NO_MESH,
    PAIRS,
    Array,
    framed,
    hull,
    rotation,
    shape,
    turn,
    words_of,
)

KINDS = [kind for kind in PAIRS if kind.startswith("hfield-")]
# numbers of a shape's size: sphere to box, a mesh is as compiled
SIZES = {
    "sphere": [0.06, 0.0, 0.0],
    "capsule": [0.04, 0.1, 0.0],
    "ellipsoid": [0.1, 0.07, 0.05],
    "cylinder": [0.06, 0.1, 0.0],
    "box": [0.1, 0.08, 0.05],
    "mesh": [0.0, 0.0, 0.0],
}


@dataclass
class Field:
    """A field of some rows and columns.

    Attributes:
        size: half extents along x and y, largest height and depth of the base [m].
        data: (rows, columns), heights from 0 to 1.
    """

    size: tuple[float, float, float, float]
    data: Array

    def numbers(self) -> Array:
        """Return what `featherback.model.hfields.field_numbers` gives."""
        x, y, z, base = self.size
        flat = self.data.ravel() * z
        heights = np.r_[flat, np.zeros(-len(flat) % 3)].reshape(-1, 3)
        return np.vstack([np.eye(3), np.zeros(3), [x, y, z], [base, 0, 0], heights])

    def words(self) -> Array:
        """Return the rows and columns."""
        return np.array(self.data.shape, np.int32)

    def points(self, stretch: Array | None = None) -> Array:
        """Return (rows, columns, 3), the points of the grid."""
        x, y, z, _ = self.size
        rows, columns = self.data.shape
        grid = np.zeros((rows, columns, 3))
        grid[..., 0] = np.linspace(-x, x, columns)
        grid[..., 1] = np.linspace(-y, y, rows)[:, None]
        grid[..., 2] = self.data * z
        return grid * (1 + (np.zeros(3) if stretch is None else stretch))

    def triangles(self) -> list[Array]:
        """Return the corners of all triangles, as MuJoCo divides cells."""
        p = self.points()
        cells = [(i, j) for i in range(len(p) - 1) for j in range(len(p[0]) - 1)]
        first = [np.array([p[i + 1, j], p[i, j], p[i + 1, j + 1]]) for i, j in cells]
        return first + [np.array([p[i, j], p[i, j + 1], p[i + 1, j + 1]]) for i, j in cells]

    def height(self, x: float, y: float) -> float:
        """Return the height of the surface at a place."""
        for corner in self.triangles():
            e, f = corner[1, :2] - corner[0, :2], corner[2, :2] - corner[0, :2]
            a, b = np.linalg.solve(np.c_[e, f], np.array([x, y]) - corner[0, :2])
            if a > -1e-9 and b > -1e-9 and a + b < 1 + 1e-9:
                return float((1 - a - b) * corner[0, 2] + a * corner[1, 2] + b * corner[2, 2])
        return -self.size[3]


def bumpy(rng: np.random.Generator, rows: int = 7, columns: int = 9, rise: float = 0.06) -> Field:
    """Return a field of cells of 10 cm with bumps."""
    data = rng.random((rows, columns))
    data = (data - data.min()) / (data.max() - data.min())
    return Field((0.05 * (columns - 1), 0.05 * (rows - 1), rise, 0.3), data)


def level(height: float = 0.5) -> Field:
    """Return a flat field of cells of 10 cm, 0.1 m high."""
    return Field((0.4, 0.3, 0.2, 0.3), np.full((7, 9), height))


def mesh_of(kind: str, rng: np.random.Generator) -> Array:
    """Return a hull in a frame of its own for the mesh, none for the others."""
    if not kind.endswith("mesh"):
        return NO_MESH
    return framed(0.5 * hull(rng), rotation(rng), 0.05 * rng.normal(size=3))


def pairs(kind: str, a: Array, b: Array, field: Field, vert: Array = NO_MESH) -> _oracle.ShapePairs:
    """Worlds of one kind of pair."""
    tables = np.atleast_2d(a), np.atleast_2d(b), vert
    return _oracle.ShapePairs(
        PAIRS[kind][0], *tables, words_of(vert), field.numbers(), field.words()
    )


def collide(
    kind: str, a: Array, b: Array, field: Field, vert: Array = NO_MESH, **options: object
) -> Array:
    """Touches (worlds, slots, 8): phi, n, p, on."""
    return pairs(kind, a, b, field, vert).collide(**options)


def over(
    kind: str, field: Field, worlds: int, rng: np.random.Generator, tilted: bool = True
) -> tuple[Array, Array]:
    """Return a field that lies anywhere, and shapes over its inner part whose middle is near it."""
    a, b = np.zeros((worlds, 15)), np.zeros((worlds, 15))
    size = np.array(SIZES[kind.split("-")[1]])
    x, y, z, _ = field.size
    for k in range(worlds):
        R = rotation(rng) if tilted else np.eye(3)
        p = rng.normal(size=3) * 0.3
        own = size * rng.uniform(0.7, 1.3, 3) if size.any() else rng.uniform(-0.2, 0.2, 3)
        place = np.r_[rng.uniform(-0.6, 0.6, 2) * [x, y], z * 0.5 + rng.uniform(-0.02, 0.12)]
        Q = rotation(rng)
        if k % 3 == 2:
            axis = rng.normal(size=3)
            Q = turn(axis / np.linalg.norm(axis), float(rng.choice([0, 1e-6, 1e-3, 0.02])))
        a[k] = shape(p, R, np.zeros(3))
        b[k] = shape(p + R @ place, R @ Q, own)
    return a, b


def settled(
    kind: str, field: Field, pair: tuple[Array, Array], vert: Array, gap: Array
) -> tuple[Array, Array]:
    """Return the pairs with B moved along the field's height until the lowest gap is as wanted."""
    a, b = pair[0], pair[1].copy()
    up = a[:, 3:12].reshape(-1, 3, 3)[:, :, 2]
    start = b[:, :3].copy()

    def is_above(height: Array) -> Array:
        b[:, :3] = start + height[:, None] * up
        touch = collide(kind, a, b, field, vert, far=0.02)
        return np.where(touch[..., 7] > 0, touch[..., 0], np.inf).min(axis=1) > gap

    # from above down in steps of 1 cm, then halving the last
    high = np.full(len(a), 0.3)
    for height in np.arange(0.3, -0.2, -0.01):
        still = (high - height < 0.0101) & is_above(np.full(len(a), height))
        high = np.where(still, height, high)
    low = high - 0.01
    for _ in range(30):
        middle = 0.5 * (low + high)
        above = is_above(middle)
        high, low = np.where(above, middle, high), np.where(above, low, middle)
    b[:, :3] = start + low[:, None] * up
    return a, b
