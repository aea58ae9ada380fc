"""Values of a height field and a convex shape against references.

Where the shape is apart from the ground, the lowest slot has the distance to the nearest prism
under the triangles of the grid. MuJoCo gives that distance for each prism as a mesh, that of points
of both; the separation along their direction proves it from below without a search. On ground whose
triangles lie in one plane the lowest slot has the separation along the plane's normal, apart and in
overlap, until the shape is sunk by its least half extent. In uneven ground there is no distance to
compare an overlap with. The points of the lowest slot are to lie on both surfaces, and those of all
others not outside of them, while the overlap is less than 5 mm and a third of that extent. What is
sunk farther is pushed along the normal over its lowest point: (HF.7).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import mujoco
import numpy as np

from featherback import _oracle
from tests.core.fields import Field
from tests.core.fields import pairs as field_pairs
from tests.core.placing import GAPS, RIGHT, TILTS, hulls, rotations, sizes
from tests.core.test_collision import (
    NO_MESH,
    Array,
    framed,
    hull_planes,
    mesh_points,
    rotation,
    turn,
)
from tests.core.test_hfield import Prisms
from tools.placements.convex import MUJOCO, lowest_slot, off_points, off_shape, reaches

BATCH = 500
# slots farther than this do not matter
FAR = 0.03


@dataclass
class FieldBatch:
    """Placements over one field, which lies anywhere.

    Attributes:
        kind: name of the pair.
        field: as compiled.
        level: whether all triangles lie in one plane.
        a: (worlds, 15), the fields; their stretch is the same in all.
        b: the shapes.
        vert: the mesh, or no rows.
        inner: whether a shape lies over the inner part of the field.
    """

    kind: str
    field: Field
    level: bool
    a: Array
    b: Array
    vert: Array
    inner: Array

    def pairs(self, a: Array, b: Array) -> _oracle.ShapePairs:
        """Worlds of this field and mesh."""
        return field_pairs(self.kind, a, b, self.field, self.vert)

    @property
    def stretch(self) -> Array:
        """That of the mesh along the axes of its file."""
        return self.b[0, 12:]

    def stretched(self) -> Field:
        """The field with its stretch."""
        x, y, z, base = (float(s) for s in self.field.size)
        fx, fy, fz = (1 + self.a[0, 12:]).tolist()
        return Field((x * fx, y * fy, z * fz, base * fz), self.field.data)

    def hull(self) -> Array:
        """The mesh with its stretch, in a frame of its own."""
        return framed(mesh_points(self.vert, self.b[0, 12:])) if len(self.vert) else NO_MESH

    def local(self) -> Array:
        """The shapes as seen from the field."""
        out = self.b.copy()
        R = self.a[:, 3:12].reshape(-1, 3, 3)
        out[:, :3] = np.einsum("wji,wj->wi", R, self.b[:, :3] - self.a[:, :3])
        turned = np.einsum("wji,wjk->wik", R, self.b[:, 3:12].reshape(-1, 3, 3))
        out[:, 3:12] = turned.reshape(-1, 9)
        return out


def grounds(rng: np.random.Generator) -> tuple[Field, bool]:
    """A field of bumps, of steps with steep walls, level or sloping, and whether it is a plane."""
    rows, columns = rng.integers(4, 10, 2)
    which, cell = rng.integers(5), rng.uniform(0.05, 0.15, 2)
    x, y = (0.5 * cell * [columns - 1, rows - 1]).tolist()
    i, j = np.mgrid[0:rows, 0:columns].astype(float)
    data = rng.random((rows, columns))
    if which == 2:
        data = np.round(data)
    if which == 3:
        data = np.full((rows, columns), 0.5)
    if which == 4:
        data = rng.normal() * i + rng.normal() * j
    if which != 3:
        data = (data - data.min()) / max(float(np.ptp(data)), 1e-9)
    return Field((x, y, float(rng.uniform(0.02, 0.15)), 0.3), data), bool(which >= 3)


def surface(field: Field, x: Array) -> tuple[Array, Array]:
    """Height of the ground and its normal under points (worlds, 2); beyond the border as at it."""
    p = field.points()
    rows, columns = field.data.shape
    u = (x / np.array(field.size[:2]) + 1) / 2 * [columns - 1, rows - 1]
    cell = np.clip(np.floor(u), 0, [columns - 2, rows - 2]).astype(int)
    j, i = cell.T
    low = (u - cell)[:, 1] <= (u - cell)[:, 0]
    first, last = p[i, j], p[i + 1, j + 1]
    third = np.where(low[:, None], p[i, j + 1], p[i + 1, j])
    n = np.cross(last - first, third - first)
    n *= np.sign(n[:, 2:]) / np.linalg.norm(n, axis=1, keepdims=True)
    drop = np.sum(n[:, :2] * (x - first[:, :2]), axis=1) / n[:, 2]
    return first[:, 2] - drop, n


def upright(n: Array) -> Array:
    """Rotations that take z to unit vectors."""
    x = np.cross(n, np.eye(3)[np.abs(n).argmin(axis=1)])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return np.stack([x, np.cross(n, x), n], axis=2)


def places(field: Field, worlds: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Places anywhere, on points, lines and divisions of the grid; whether they are inner ones."""
    x = rng.uniform(-0.4, 0.4, (worlds, 2))
    outer = rng.random(worlds) < 0.1
    x[outer] = rng.uniform(-1.1, 1.1, (int(outer.sum()), 2))
    rows, columns = field.data.shape
    cells = np.array([columns - 1, rows - 1])
    u = (x + 1) / 2 * cells
    sort = np.arange(worlds) % 6
    u[sort == 1] = np.round(u[sort == 1])
    u[sort == 2, 0] = np.round(u[sort == 2, 0])
    u[sort == 3, 1] = np.floor(u[sort == 3, 1]) + u[sort == 3, 0] % 1
    return (u / cells * 2 - 1) * np.array(field.size[:2]), ~outer


def field_batch(kind: str, worlds: int, rng: np.random.Generator) -> FieldBatch:
    """Shapes near the ground, a third of them along its triangles."""
    name = kind.split("-")[1]
    field, level = grounds(rng)
    a, b = np.zeros((worlds, 15)), np.zeros((worlds, 15))
    a[:, 12:] = rng.uniform(-0.1, 0.1, 3) * (rng.random() < 0.5)
    b[:, 12:] = sizes(name, rng, worlds)
    vert = NO_MESH
    if name == "mesh":
        vert = framed(hulls(rng), rotation(rng), 0.05 * rng.normal(size=3))
        b[:, 12:] = rng.uniform(-0.3, 0.3, 3) * (rng.random() < 0.7)
    a[:, :3], a[:, 3:12] = rng.normal(size=(worlds, 3)), rotations(rng, worlds).reshape(-1, 9)
    batch = FieldBatch(kind, field, level, a, b, vert, np.ones(worlds, bool))
    ground = batch.stretched()
    x, batch.inner = places(ground, worlds, rng)
    height, n = surface(ground, x)
    Q = rotations(rng, worlds)
    axis = rng.normal(size=(worlds, 3))
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)
    tilt = np.array([turn(v, t) for v, t in zip(axis, rng.choice(TILTS, worlds), strict=True)])
    along = rng.random(worlds) < 0.4
    Q[along] = (tilt @ upright(n) @ RIGHT[rng.integers(0, 4, worlds)])[along]
    b[:, 3:12] = Q.reshape(-1, 9)
    points = batch.hull()[5:]
    down = np.broadcast_to([0.0, 0, -1], (worlds, 1, 3))
    b[:, :2], b[:, 2] = x, height + reaches(name, b, down, points)[:, 0]
    R = a[:, 3:12].reshape(-1, 3, 3)
    b[:, 3:12] = (R @ Q).reshape(-1, 9)
    b[:, :3] = a[:, :3] + np.einsum("wij,wj->wi", R, b[:, :3])
    _settle(batch, wanted_gaps(worlds, rng))
    return batch


def wanted_gaps(worlds: int, rng: np.random.Generator) -> Array:
    """Gaps of millimetres, some of round-off, deep or wide."""
    gap, sort = rng.uniform(-3e-3, 5e-3, worlds), rng.integers(0, 8, worlds)
    gap[sort < 2] = rng.choice(GAPS, int((sort < 2).sum()))
    gap[sort == 2] = rng.uniform(-0.03, -3e-3, int((sort == 2).sum()))
    gap[sort == 3] = rng.uniform(5e-3, 0.015, int((sort == 3).sum()))
    return gap


def lowest_slots(batch: FieldBatch, far: float) -> Array:
    """The lowest slots (worlds, 8)."""
    return lowest_slot(batch.pairs(batch.a, batch.b).collide(far=far))


def _settle(batch: FieldBatch, gap: Array) -> None:
    """Move the shapes until most gaps are as wanted: up or down, at the border along the normal."""
    up = batch.a[:, 3:12].reshape(-1, 3, 3)[:, :, 2]
    for _ in range(6):
        touch = lowest_slots(batch, 0.1)
        way = np.where(batch.inner[:, None], up, touch[:, 1:4])
        step = (gap - touch[:, 0]) / np.maximum(np.sum(touch[:, 1:4] * way, axis=1), 0.3)
        step = np.where(touch[:, 7] > 0, np.clip(step, -0.1, 0.1), -0.05 * batch.inner)
        batch.b[:, :3] += step[:, None] * way


def prism_distances(batch: FieldBatch, near: float) -> tuple[Array, Array]:
    """MuJoCo's distance to the nearest prism, and what its directions prove it to be at least.

    Prisms beside a shape by more than near are passed over.
    """
    field, local, name = batch.stretched(), batch.local(), batch.kind.split("-")[1]
    prisms = Prisms(batch.kind, field, batch.hull())
    tops = np.array(field.triangles())
    points = np.concatenate([tops, tops * [1, 1, 0] - [0, 0, field.size[3]]], axis=1)
    hull = batch.hull()[5:]
    axes = np.broadcast_to(np.vstack([np.eye(3)[:2], -np.eye(3)[:2]]), (len(local), 4, 3))
    reach = reaches(name, local, axes, hull)
    low, high = tops.min(axis=1)[:, :2], tops.max(axis=1)[:, :2]
    around = (low[None] < reach[:, None, :2] + near) & (-reach[:, None, 2:] < high[None] + near)
    rows, at = np.nonzero(around.all(axis=2))
    here = np.zeros(15)
    here[3:12] = np.eye(3).ravel()
    gaps, ways, last, ends = np.zeros(len(rows)), np.zeros((len(rows), 3)), -1, np.zeros(6)
    body = prisms.model.ngeom - 1
    for k, (row, prism) in enumerate(zip(rows, at, strict=True)):
        if row != last:
            prisms.place(here, local[row])
            last = row
        gaps[k] = mujoco.mj_geomDistance(prisms.model, prisms.data, prism, body, 1.0, ends)
        ways[k] = (ends[3:] - ends[:3]) * np.sign(gaps[k])
    ways /= np.maximum(np.linalg.norm(ways, axis=1, keepdims=True), 1e-300)
    proved = -reaches(name, local[rows], -ways[:, None], hull)[:, 0]
    proved -= np.einsum("kvi,ki->kv", points[at], ways).max(axis=1)
    distance, least = np.full(len(local), np.inf), np.full(len(local), np.inf)
    np.minimum.at(distance, rows, gaps)
    np.minimum.at(least, rows, proved)
    return distance, least


def plane_gaps(batch: FieldBatch) -> Array:
    """The separation along the normal of ground that is a plane."""
    field, local = batch.stretched(), batch.local()
    height, n = surface(field, np.zeros((len(local), 2)))
    reach = reaches(batch.kind.split("-")[1], local, -n[:, None], batch.hull()[5:])[:, 0]
    return -reach - height * n[:, 2]


def is_over_field(batch: FieldBatch, room: Array | float = 0.0) -> Array:
    """Whether all of a shape lies over the field, and so far from its border."""
    field, local = batch.stretched(), batch.local()
    axes = np.broadcast_to(np.vstack([np.eye(3)[:2], -np.eye(3)[:2]]), (len(local), 4, 3))
    reach = reaches(batch.kind.split("-")[1], local, axes, batch.hull()[5:])
    return np.all(reach + np.reshape(room, (-1, 1)) < np.tile(field.size[:2], 2), axis=1)


def outside(batch: FieldBatch, touch: Array) -> Array:
    """How far the points of one slot lie above the ground and outside of the shape (worlds, 2)."""
    field, local = batch.stretched(), batch.local()
    R = batch.a[:, 3:12].reshape(-1, 3, 3)
    n = np.einsum("wji,wj->wi", R, touch[:, 1:4])
    p = np.einsum("wji,wj->wi", R, touch[:, 4:7] - batch.a[:, :3])
    half = n * touch[:, :1] / 2
    on_ground, on_shape = p - half, p + half
    height, up = surface(field, on_ground[:, :2])
    beyond = off_shape(batch, batch.kind.split("-")[1], local, on_shape)
    return np.stack([(on_ground[:, 2] - height) * up[:, 2], beyond], axis=1)


def documented_bias(batch: FieldBatch, gap: Array) -> Array:
    """By how much the lowest slot may be off: faces that carry slots (CV.19), marks of a cap."""
    name, size = batch.kind.split("-")[1], batch.b[:, 12:]
    if name in ("sphere", "ellipsoid"):
        return np.zeros(len(gap))
    extent = size.max(axis=1)
    if name == "capsule":
        extent = size[:, 0] + size[:, 1]
    if name == "mesh":
        extent = np.full(len(gap), np.linalg.norm(batch.hull()[5:], axis=1).max())
    marks = 0.0039 * size[:, 0] * (name == "cylinder")
    return 2e-3 * extent + 0.05 * np.abs(gap) + marks


def thinnest(batch: FieldBatch) -> Array:
    """The least half extent of each shape."""
    name, size = batch.kind.split("-")[1], batch.b[:, 12:]
    if name == "mesh":
        faces = np.array([n for n, _ in hull_planes(batch.vert, tuple(batch.stretch))])
        return np.full(len(size), np.ptp(batch.hull()[5:] @ faces.T, axis=0).min() / 2)
    return size[:, : {"sphere": 1, "capsule": 1, "cylinder": 2}.get(name, 3)].min(axis=1)


@dataclass
class FieldErrors:
    """What was found on some placements over fields.

    Attributes:
        overlap: whether the shape overlaps the ground.
        below: how far the lowest gap is off the distance to the nearest prism, or to the plane
            that the ground is, beyond the bias.
        points: how far points lie off both surfaces beyond the bias.
        exact: whether the gap is that distance without any bias; not where there is none.
        compared: whether there is such a distance.
        mujoco: how far MuJoCo's distance to the prisms is from what its own directions prove.
        missed: whether a shape has no slot although it is near.
    """

    overlap: Array
    below: Array
    points: Array
    exact: Array
    compared: Array
    mujoco: Array
    missed: Array


def field_errors(batch: FieldBatch) -> FieldErrors:
    """Check the values of a batch."""
    every = batch.pairs(batch.a, batch.b).collide(far=FAR)
    touch, over, thin = lowest_slot(every), is_over_field(batch), thinnest(batch)
    gap, on = touch[:, 0], touch[:, 7] > 0
    distance, least = prism_distances(batch, FAR)
    apart = (distance > MUJOCO) & (distance < FAR - 1e-3)
    # MuJoCo ends the search of some curved shapes early: between points and directions all may be
    differs = np.zeros(len(gap))
    differs[apart] = np.abs(distance[apart] - least[apart])
    between = np.clip(gap, np.minimum(least, distance), distance)
    expected = np.where(apart, np.where(differs < MUJOCO, distance, between), np.nan)
    if batch.level:
        plane = plane_gaps(batch)
        # deep beside the border the way out over it is shorter
        known = is_over_field(batch, np.maximum(-plane, 0.0)) & (-plane < thin)
        expected = np.where(known, plane, expected)
    compared = on & np.isfinite(expected)
    expected = np.where(compared, expected, gap)
    error, bias = np.abs(gap - expected), documented_bias(batch, expected)
    # a shape that is sunk is pushed along the normal over its lowest point: (HF.7)
    shallow = over & (-gap < np.minimum(5e-3, thin / 3))
    # the ends of a cylinder that lies on a face
    padded = 0.05 * batch.b[:, 12] * batch.kind.endswith("cylinder")
    off = off_points(every, partial(outside, batch)) - bias - padded
    points = np.where(shallow, np.maximum(off, 0.0), 0.0)
    below = np.maximum(error - bias, 0.0)
    missed = apart & ~on
    return FieldErrors(
        gap <= 0, below, points, (error < MUJOCO) & compared, compared, differs, missed
    )


def field_batches(kind: str, count: int, rng: np.random.Generator) -> Iterator[FieldBatch]:
    """A number of placements in batches, each over a field of its own."""
    for start in range(0, count, BATCH):
        yield field_batch(kind, min(BATCH, count - start), rng)


def field_decisions(features: Array) -> Array:
    """Features without the code of a free normal, which is a number and no decision: (HF.4)."""
    words = features.astype(np.uint64)
    first = words[..., 0]
    pieces = [(first >> np.uint64(shift)) & np.uint64(7) for shift in (2, 5)]
    # carrier, pieces and triangle, then the corners of the prism and of the shape
    named = [np.where(piece < 3, piece + 1, 0).astype(int) for piece in pieces]
    kept = np.where((first & np.uint64(3)) == 0, 30 + 3 * named[0] + 16 * named[1], 96)
    out = words.copy()
    for k in range(3):
        bits = np.clip(kept - 32 * k, 0, 32).astype(np.uint64)
        out[..., k] &= (np.uint64(1) << bits) - np.uint64(1)
    return out
