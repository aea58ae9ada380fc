"""Values of two convex shapes, or of a plane and one, against two references.

The first needs no search. The separation of two convex shapes along any direction is at most their
signed distance, so that along the normal proves the gap from below. Points of both shapes that lie
the gap apart prove it from above where the shapes are apart; where they overlap many directions are
tried, and those around the best of them. A pair with a closed form counts by its lowest slot.

The second is MuJoCo's distance with the direction of its points. Where it differs from the gap, the
same bound decides between the two:

- a smaller one is refuted where the shapes are proved to be farther apart, by any direction;
- a larger one needs a direction along which the shapes are that far apart. If MuJoCo's own is none,
  the distance is refuted; if it is, the gap is wrong, by the bound of the first reference.

What neither refutes counts as wrong. Where both agree and the normals do not, the placement is a
tie if the shapes are as far apart along both: least overlap has several directions. Else MuJoCo's
is refuted, being worse than the one found.

Points are judged too, apart and in overlap: with half the gap along the normal each reported point
lies in both shapes, and that of the lowest slot on both surfaces. Slots that a face carries, or
that are kept for the sake of steady contacts, may be off by a bias that their derivations name.

Two sorts of placements have a wider bound, which docs/derivations/convex.md names under its limits,
and are counted where they use it: flat sides that lie along each other but for 2e-6 rad, and curved
shapes whose overlap has another least value, less by hardly anything, within 0.1 rad.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from tests.core.placing import Batch, closest_points
from tests.core.test_collision import CLOSED, Array, Reference, hull_planes, mesh_points, pairs

# bound of the value: sizes are of order 0.1 m
EXACT = 1e-9
# flat sides along each other but for so many rad have no regular pieces
FLAT_TILT = 2e-6
NEARLY_FLAT = 5e-8
# least overlaps within so many rad that differ by less are not told apart
CLOSE_TURN = 0.1
CLOSE_OVERLAPS = 1e-6
# closed forms whose lowest slot may be off by a bias that their derivations name
BIASED = ("plane-cylinder", "capsule-capsule", "capsule-box", "box-box")
# the search for the direction of their least overlap ends so near to it
SEARCHED = 1e-7
# faces of a hull are merged of triangles that lie within so many metres of a plane
MERGED = 2e-6
DIRECTIONS = 300
# how many of the best directions are improved, in so many steps
STARTS = 4
STEPS = 40
# beyond this MuJoCo's distance differs: it keeps hulls in float32 and ends its searches early
MUJOCO = 1e-6
# one less the cosine between directions that differ, 1.4e-3 rad
TURNED = 1e-6
# what is said of MuJoCo's distance and direction
AGREES, TIED, REFUTED, WRONG = range(4)


def reaches(name: str, s: Array, n: Array, points: Array) -> Array:
    """Largest n . x over each shape of a table, for directions n of shape (worlds, k, 3)."""
    q = np.einsum("wki,wij->wkj", n, s[:, 3:12].reshape(-1, 3, 3))
    size = s[:, None, 12:]
    if name == "sphere":
        reach = np.broadcast_to(size[..., 0], q.shape[:2])
    elif name == "capsule":
        reach = np.abs(q[..., 2]) * size[..., 1] + size[..., 0]
    elif name == "ellipsoid":
        reach = np.linalg.norm(q * size, axis=-1)
    elif name == "cylinder":
        reach = np.hypot(q[..., 0], q[..., 1]) * size[..., 0] + np.abs(q[..., 2]) * size[..., 1]
    elif name == "box":
        reach = np.sum(np.abs(q) * size, axis=-1)
    else:
        reach = (q @ points.T).max(axis=-1)
    return np.einsum("wki,wi->wk", n, s[:, :3]) + reach


def separations(batch: Batch, rows: Array, n: Array) -> Array:
    """How far the shapes of some rows are apart along directions (rows, k, 3) from A to B."""
    one, two = batch.kind.split("-")
    points = mesh_points(batch.vert, batch.stretch) if len(batch.vert) else batch.vert
    a, b = batch.a[rows], batch.b[rows]
    if one == "plane":
        # a plane has one direction
        n = np.broadcast_to(a[:, None, 5:12:3], n.shape)
        return -reaches(two, b, -n, points) - np.einsum("wki,wi->wk", n, a[:, :3])
    return -reaches(two, b, -n, points) - reaches(one, a, n, points)


class HasMesh(Protocol):
    """Placements with a mesh and its stretch."""

    @property
    def vert(self) -> Array:
        """The mesh, or no rows."""
        ...

    @property
    def stretch(self) -> Array:
        """Of the mesh along the axes of its file."""
        ...


def off_shape(batch: HasMesh, name: str, s: Array, x: Array) -> Array:
    """How far points, one for each row of a table, lie outside the shapes; negative inside."""
    y, size = np.einsum("wij,wi->wj", s[:, 3:12].reshape(-1, 3, 3), x - s[:, :3]), s[:, 12:]
    if name == "plane":
        return y[:, 2]
    if name == "sphere":
        return np.linalg.norm(y, axis=1) - size[:, 0]
    if name == "capsule":
        y[:, 2] -= np.clip(y[:, 2], -size[:, 1], size[:, 1])
        return np.linalg.norm(y, axis=1) - size[:, 0]
    if name == "ellipsoid":
        return (np.linalg.norm(y / size, axis=1) - 1) * size.min(axis=1)
    if name == "cylinder":
        return np.maximum(np.hypot(y[:, 0], y[:, 1]) - size[:, 0], np.abs(y[:, 2]) - size[:, 1])
    if name == "box":
        return (np.abs(y) - size).max(axis=1)
    planes = hull_planes(batch.vert, tuple(batch.stretch))
    normals, offsets = np.array([n for n, _ in planes]), np.array([d for _, d in planes])
    return (y @ normals.T - offsets).max(axis=1)


def outside(batch: Batch, touch: Array) -> Array:
    """How far the points of one slot lie outside of A and B (worlds, 2); negative inside."""
    one, two = batch.kind.split("-")
    arm, p = touch[:, 1:4] * touch[:, :1] / 2, touch[:, 4:7]
    ends = off_shape(batch, one, batch.a, p - arm), off_shape(batch, two, batch.b, p + arm)
    return np.stack(ends, axis=1)


def lowest_slot(touch: Array) -> Array:
    """The lowest slots (worlds, 8)."""
    at = np.where(touch[..., 7] > 0, touch[..., 0], np.inf).argmin(axis=1)
    return touch[np.arange(len(at)), at]


def off_points(touch: Array, off: Callable[[Array], Array]) -> Array:
    """How far points lie off: those of the lowest slot off surfaces, all others outside of shapes.

    off: of a table of slots (worlds, 8), how far its points lie outside (worlds, 2).
    """
    low = lowest_slot(touch)
    worst = np.where(low[:, 7] > 0, np.abs(off(low)).max(axis=1), 0.0)
    for slot in range(touch.shape[1]):
        here = touch[:, slot]
        worst = np.maximum(worst, np.where(here[:, 7] > 0, off(here).max(axis=1), 0.0))
    return worst


def carried_bias(batch: Batch, gap: Array) -> Array:
    """How far points may be off: flat sides of hulls, faces that carry slots, closed forms."""
    a, b = batch.a, batch.b
    one, two = batch.kind.split("-")
    # a mesh has its stretch in place of a size, which may be negative
    reach = float(np.linalg.norm(batch.stretched(), axis=1).max(initial=0.0))
    extents = [
        np.full(len(gap), reach) if name == "mesh" else s[:, 12:].max(axis=1)
        for name, s in ((one, a), (two, b))
    ]
    out = np.full(len(gap), EXACT)
    if "mesh" in (one, two):
        out += MERGED
    if batch.kind == "capsule-capsule":
        # the normal at an end leans by up to 0.05 rad against the other axis: (C.10)
        return out + 1.3e-3 * np.maximum(a[:, 12], b[:, 12])
    if batch.kind == "capsule-box":
        # the face's normal stands for one that leans while slots are one: (C.13)
        out += 1e-4 * a[:, 12]
    if batch.kind in CLOSED:
        return out + documented_bias(batch, gap)
    # the ends and marks of a cylinder, an axis along a face or another axis: (CV.18), (CV.19)
    for name, s in ((one, a), (two, b)):
        if name in ("capsule", "cylinder") and not {"sphere", "ellipsoid"} & {one, two}:
            out += 0.05 * s[:, 12] + 1e-3 * np.minimum(*extents) + 0.05 * np.abs(gap)
    return out


def sphere_directions(count: int) -> Array:
    """Directions spread evenly over the sphere."""
    k = np.arange(count) + 0.5
    height, angle = 1 - 2 * k / count, np.pi * (1 + np.sqrt(5)) * k
    rho = np.sqrt(1 - height**2)
    return np.c_[rho * np.cos(angle), rho * np.sin(angle), height]


def unit(n: Array) -> Array:
    """Vectors of length one."""
    return n / np.linalg.norm(n, axis=-1, keepdims=True)


def first_directions(batch: Batch, rows: Array, normal: Array) -> Array:
    """The normals, and the best of many directions and of the axes of both shapes, 0.3 rad apart.

    Of shape (rows, 1 + STARTS, 3).
    """
    axes = [s[rows, 3:12].reshape(-1, 3, 3).transpose(0, 2, 1) for s in (batch.a, batch.b)]
    across = np.cross(axes[0][:, 2], axes[1][:, 2]) + 1e-12 * axes[0][:, 0]
    ways = np.concatenate([*axes, unit(across)[:, None]], axis=1)
    every = np.broadcast_to(sphere_directions(DIRECTIONS), (len(rows), DIRECTIONS, 3))
    every = np.concatenate([ways, -ways, every], axis=1)
    tried = separations(batch, rows, every)
    out = [normal]
    for _ in range(STARTS):
        best = np.take_along_axis(every, tried.argmax(axis=1)[:, None, None], 1)
        out.append(best[:, 0])
        tried[np.einsum("wki,wji->wk", every, best) > 0.955] = -np.inf
    return np.stack(out, axis=1)


def best_separation(
    batch: Batch, rows: Array, normal: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """The largest separation along many directions and those around the best; its direction."""
    best, way = np.full(len(rows), -np.inf), normal.copy()
    for start in first_directions(batch, rows, normal).transpose(1, 0, 2):
        n, width = start, np.full(len(rows), 0.1)
        value = separations(batch, rows, n[:, None])[:, 0]
        for _ in range(STEPS):
            step = rng.normal(size=(len(rows), 8, 3)) * width[:, None, None]
            around = unit(n[:, None] + step)
            found = separations(batch, rows, around)
            at = found.argmax(axis=1)
            higher = np.take_along_axis(found, at[:, None], 1)[:, 0]
            up = higher > value
            n = np.where(up[:, None], around[np.arange(len(rows)), at], n)
            value = np.maximum(value, higher)
            width = np.where(up, width, 0.5 * width)
        way = np.where((value > best)[:, None], n, way)
        best = np.maximum(best, value)
    return best, way


def documented_bias(batch: Batch, gap: Array) -> Array:
    """By how much the lowest slot of a closed form may be off for the sake of steady contacts."""
    a, b = batch.a, batch.b
    if batch.kind == "box-box":
        # a face is preferred: (C.15), (C.18)
        least = np.minimum(a[:, 12:].min(axis=1), b[:, 12:].min(axis=1))
        return 0.05 * np.abs(gap) + 0.011 * least
    if batch.kind == "capsule-box":
        # slots that are one: (C.13); a face is preferred where the segment meets the box: (C.14)
        return 1e-6 * a[:, 12] + 0.05 * np.maximum(-gap - a[:, 12], 0.0)
    if batch.kind == "plane-cylinder":
        # points of a standing cylinder stay: (C.5)
        return 5e-4 * b[:, 12]
    if batch.kind == "capsule-capsule":
        # nearly parallel ones touch at the ends of the stretch that they share: (C.10)
        sine = np.linalg.norm(np.cross(a[:, 5:12:3], b[:, 5:12:3]), axis=1)
        return np.where(sine < 0.05, sine * 2 * np.minimum(a[:, 13], b[:, 13]), 0.0)
    return np.zeros(len(gap))


@dataclass
class Errors:
    """What was found on some placements of a pair.

    Attributes:
        overlap: whether the shapes overlap.
        sure: whether the routine says that its slot is optimal.
        below: how far the gap is off the separation along the normal; of a closed form with a
            bias, how far off the best separation beyond that bias.
        above: how far a point lies off its shape, or another direction parts the shapes better.
        bound: of both.
        points: how far reported points lie off beyond what carries them.
        mujoco: how far MuJoCo's distance is off.
        verdict: of MuJoCo's distance and direction, one of the numbers above.
    """

    overlap: Array
    sure: Array
    below: Array
    above: Array
    bound: Array
    points: Array
    mujoco: Array
    verdict: Array


def lies_flat(batch: Batch, name: str, s: Array, n: Array) -> Array:
    """Whether a face or an axis of each shape lies across n but for a small angle."""
    q = np.einsum("wij,wi->wj", s[:, 3:12].reshape(-1, 3, 3), n)
    if name in ("capsule", "cylinder"):
        lies = np.abs(q[:, 2]) < FLAT_TILT
        return lies | ((np.hypot(q[:, 0], q[:, 1]) < FLAT_TILT) & (name == "cylinder"))
    if name == "box":
        return np.sort(np.abs(q), axis=1)[:, 1] < FLAT_TILT
    if name != "mesh":
        return np.zeros(len(q), bool)
    faces = np.array([n for n, _ in hull_planes(batch.vert, tuple(batch.stretch))])
    return np.linalg.norm(np.cross(q[:, None], faces[None]), axis=2).min(axis=1) < FLAT_TILT


def bounds(batch: Batch, found: Array, way: Array) -> Array:
    """What the errors may be; way: the directions along which the shapes are farthest apart."""
    one, two = batch.kind.split("-")
    n = found[:, 1:4]
    out = np.full(len(found), SEARCHED if batch.kind in BIASED else EXACT)
    if one == "plane":
        return out
    curved = {"cylinder", "ellipsoid"} & {one, two}
    near = np.sum(n * way, axis=1) > np.cos(CLOSE_TURN)
    out[(found[:, 0] < 0) & near & bool(curved)] = CLOSE_OVERLAPS
    flat = lies_flat(batch, one, batch.a, n) & lies_flat(batch, two, batch.b, -n)
    out[flat] = np.maximum(out[flat], NEARLY_FLAT)
    return out


def least_and_most(
    batch: Batch, found: Array, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """How far the gap is too small and too large, and the best of the directions tried."""
    one, two = batch.kind.split("-")
    gap, n, p = found[:, 0], found[:, 1:4], found[:, 4:7]
    below = np.abs(separations(batch, np.arange(len(gap)), n[:, None])[:, 0] - gap)
    above, way = np.zeros(len(gap)), n.copy()
    apart, arm = gap > 0, n * gap[:, None] / 2
    off = np.maximum(
        off_shape(batch, one, batch.a, p - arm), off_shape(batch, two, batch.b, p + arm)
    )
    above[apart] = off[apart]
    # points of flat sides that lie along each other may be chosen outside of them
    searched = (gap <= 0) | (above > EXACT) | (batch.kind in BIASED)
    for rows in np.array_split(np.flatnonzero(searched), 1 + int(searched.sum()) // 500):
        if len(rows):
            best, way[rows] = best_separation(batch, rows, n[rows], rng)
            above[rows] = best - gap[rows]
    return below, above, way


def judged(batch: Batch, found: Array, best: Array) -> tuple[Array, Array, Array, Array]:
    """How far MuJoCo's distance is off, what is to be said of it, and what its direction proves.

    best: a distance that the shapes are proved to have at least. The last two are the separation
    along MuJoCo's direction and that direction.
    """
    reference = Reference(batch.kind, batch.stretched())
    measured = [reference.measured(*pair) for pair in zip(batch.a, batch.b, strict=True)]
    distance, way = np.array([d for d, _ in measured]), np.array([n for _, n in measured])
    gap, slack = found[:, 0], documented_bias(batch, found[:, 0]) + MUJOCO
    has_way = np.linalg.norm(way, axis=1) > 0.5
    # points that meet have no direction
    way = np.where(has_way[:, None], way, found[:, 1:4])
    proved = separations(batch, np.arange(len(gap)), way[:, None])[:, 0]
    verdict = np.full(len(gap), WRONG)
    verdict[(distance < gap) & (distance < best - MUJOCO)] = REFUTED
    verdict[(distance > gap) & (proved <= gap + slack)] = REFUTED
    agrees = np.abs(distance - gap) <= slack
    # round-off turns the arm between points that nearly meet
    turned = has_way & (np.sum(way * found[:, 1:4], axis=1) < 1 - TURNED) & (np.abs(gap) > MUJOCO)
    verdict[agrees] = np.where(turned, np.where(proved > gap - slack, TIED, REFUTED), AGREES)[
        agrees
    ]
    return np.abs(distance - gap), verdict, proved, way


def value_errors(batch: Batch, rng: np.random.Generator) -> Errors:
    """Check the values of a batch."""
    found = closest_points(batch)
    gap, biased = found[:, 0], batch.kind in BIASED
    below, above, way = least_and_most(batch, found, rng)
    # directions were tried where the shapes overlap, or have a bias
    tried = np.where((gap <= 0) | biased, gap + above, -np.inf)
    mujoco, verdict, proved, other = judged(batch, found, np.maximum(gap - below, tried))
    way[proved - gap > above] = other[proved - gap > above]
    above = np.maximum(above, proved - gap)
    if biased:
        # the normal may be that of a face that is a little deeper
        below = np.maximum(np.abs(above) - documented_bias(batch, gap), 0.0)
        above = np.zeros(len(gap))
    bound = bounds(batch, found, way)
    touch = pairs(batch.kind, batch.a, batch.b, batch.vert).collide()
    points = off_points(touch, partial(outside, batch)) - carried_bias(batch, gap)
    points = np.maximum(points, 0.0)
    return Errors(gap <= 0, found[:, 7] > 0, below, above, bound, points, mujoco, verdict)
