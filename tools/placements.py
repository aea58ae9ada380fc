"""Check all pairs of shapes on random placements, most of them at edges, against two references.

python -m tools.placements --count 100000 --gradients 10000

For each pair of shapes: the gap and the normal against MuJoCo's distance, and against a reference
that needs no search. The separation of two convex shapes along any direction is at most their
signed distance, so that along the normal proves the gap from below. Points of both shapes that lie
the gap apart prove it from above where the shapes are apart; where they overlap many directions are
tried, and those around the best of them. A pair with a closed form counts by its lowest slot. Then
the adjoints of all slots against dual numbers and differences. Needs a build with
FEATHERBACK_ORACLE.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass

import numpy as np

from tests.core.placing import Batch, batches, closest_points
from tests.core.test_collision import (
    KINDS,
    PAIRS,
    Array,
    Reference,
    hull_planes,
    mesh_points,
    moved_along,
    pairs,
    tangent,
)
from tests.core.test_collision_features import decisions

# bound of the value: sizes are of order 0.1 m
EXACT = 1e-9
# a rim along a flat side but for 1e-6 rad has no regular place
NEARLY_FLAT = 3e-9
# closed forms whose lowest slot may be off by a bias that their derivations name
BIASED = ("plane-cylinder", "capsule-capsule", "capsule-box", "box-box")
DIRECTIONS = 300
# how many of the best directions are improved
STARTS = 4
STEP = 1e-6


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


def off_shape(batch: Batch, name: str, s: Array, x: Array) -> Array:
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


def best_separation(batch: Batch, rows: Array, normal: Array, rng: np.random.Generator) -> Array:
    """The largest separation along many directions, and along those around the best of them."""
    best = np.full(len(rows), -np.inf)
    for start in first_directions(batch, rows, normal).transpose(1, 0, 2):
        n, width = start, np.full(len(rows), 0.1)
        value = separations(batch, rows, n[:, None])[:, 0]
        for _ in range(20):
            step = rng.normal(size=(len(rows), 8, 3)) * width[:, None, None]
            around = unit(n[:, None] + step)
            found = separations(batch, rows, around)
            at = found.argmax(axis=1)
            higher = np.take_along_axis(found, at[:, None], 1)[:, 0]
            up = higher > value
            n = np.where(up[:, None], around[np.arange(len(rows)), at], n)
            value = np.maximum(value, higher)
            width = np.where(up, width, 0.5 * width)
        best = np.maximum(best, value)
    return best


def documented_bias(batch: Batch, gap: Array) -> Array:
    """By how much the lowest slot of a closed form may be off for the sake of steady contacts."""
    a, b = batch.a, batch.b
    if batch.kind in ("capsule-box", "box-box"):
        # a face is preferred: (C.14), (C.15), (C.18)
        least = b[:, 12:].min(axis=1)
        least = np.minimum(least, a[:, 12:].min(axis=1)) if batch.kind == "box-box" else least
        return 0.05 * np.abs(gap) + 0.011 * least
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
        mujoco: how far MuJoCo's distance is off.
    """

    overlap: Array
    sure: Array
    below: Array
    above: Array
    mujoco: Array


def value_errors(batch: Batch, rng: np.random.Generator) -> Errors:
    """Check the values of a batch."""
    one, two = batch.kind.split("-")
    found = closest_points(batch)
    gap, n, p = found[:, 0], found[:, 1:4], found[:, 4:7]
    every = np.arange(len(gap))
    below = np.abs(separations(batch, every, n[:, None])[:, 0] - gap)
    above = np.zeros(len(gap))
    apart, arm = gap > 0, n * gap[:, None] / 2
    off = np.maximum(
        off_shape(batch, one, batch.a, p - arm), off_shape(batch, two, batch.b, p + arm)
    )
    above[apart] = off[apart]
    # points of flat sides that lie along each other may be chosen outside of them
    searched = (gap <= 0) | (above > EXACT) | (batch.kind in BIASED)
    for rows in np.array_split(np.flatnonzero(searched), 1 + int(searched.sum()) // 500):
        if len(rows):
            above[rows] = best_separation(batch, rows, n[rows], rng) - gap[rows]
    if batch.kind in BIASED:
        # the normal may be that of a face that is a little deeper
        below = np.maximum(np.abs(above) - documented_bias(batch, gap), 0.0)
        above = np.zeros(len(gap))
    reference = Reference(batch.kind, batch.stretched())
    expected = [reference.distance(*pair) for pair in zip(batch.a, batch.b, strict=True)]
    return Errors(gap <= 0, found[:, 7] > 0, below, above, np.abs(gap - np.array(expected)))


def gradient_errors(batch: Batch, rng: np.random.Generator) -> tuple[Array, Array]:
    """Errors of the adjoints of all slots against dual numbers, and against differences."""
    worlds, slots = len(batch.a), PAIRS[batch.kind][1]
    twists, sizes = rng.normal(size=(2, worlds, 6)), 0.1 * rng.normal(size=(2, worlds, 3))
    shapes = (batch.a, batch.b)
    tans, moved = [], []
    for k in range(2):
        rows = list(zip(shapes[k], twists[k], sizes[k], strict=True))
        tans.append(np.array([tangent(*row) for row in rows]))
        moved.append(
            [np.array([moved_along(*r, e * STEP) for r in rows]) for e in (-1, -0.5, 0.5, 1)]
        )
    pair = pairs(batch.kind, *shapes, batch.vert)
    touch, dual = pair.collide(), pair.tangent(*tans)
    ends = [pairs(batch.kind, *shapes, batch.vert) for shapes in zip(*moved, strict=True)]
    runs, here = [end.collide() for end in ends], decisions(batch.kind, pair.features())
    same = np.all([decisions(batch.kind, end.features()) == here for end in ends], axis=(0, 3))
    fine, wide = (runs[2] - runs[1]) / STEP, (runs[3] - runs[0]) / (2 * STEP)
    kinks = [(runs[3] + runs[0] - 2 * touch) / STEP, (runs[2] + runs[1] - 2 * touch) / STEP]
    seeds = np.concatenate([twists[0], sizes[0], twists[1], sizes[1]], axis=1)
    by_dual, by_difference = [], []
    for slot in range(slots):
        on = touch[:, slot, 7] > 0
        bar = rng.normal(size=(worlds, 7))
        bars = pair.adjoint(slot, bar) * seeds
        left = bar * dual[:, slot]
        scale = np.abs(left).sum(axis=1) + np.abs(bars).sum(axis=1)
        error = np.abs(left.sum(axis=1) - bars.sum(axis=1)) / np.maximum(scale, 1e-300)
        by_dual.append(error[on])
        # what two steps leave of the error is of fourth order
        f = (4 * fine - wide)[:, slot, :7] / 3
        size = 1 + np.abs(f).max(axis=1)
        # away from changes of features, where these, both sides or two steps differ
        turns = [np.abs(kink[:, slot, :7]).max(axis=1) < 1e-3 * size for kink in kinks]
        steps = np.abs(fine - wide)[:, slot, :7].max(axis=1) < 1e-5 * size
        smooth = on & same[:, slot] & turns[0] & turns[1] & steps
        miss = np.abs(np.sum(bar * f, axis=1) - bars.sum(axis=1)) / size
        by_difference.append(miss[smooth])
    return np.concatenate(by_dual), np.concatenate(by_difference)


def check_values(kind: str, count: int, seed: int) -> bool:
    """Check a number of placements of a pair and print a line; return whether all is well."""
    rng, start = np.random.default_rng(seed), time.perf_counter()
    found = [value_errors(batch, rng) for batch in batches(kind, count, rng)]
    joined = {
        name: np.concatenate([getattr(part, name) for part in found])
        for name in ("overlap", "sure", "below", "above", "mujoco")
    }
    bound = NEARLY_FLAT if "cylinder" in kind else EXACT
    bad = (joined["below"] > bound) | (joined["above"] > bound)
    print(
        f"{kind:20} {len(bad):7} {joined['overlap'].mean():5.0%} {joined['sure'].mean():8.3%} "
        f"{joined['below'].max():8.1e} {joined['above'].max():8.1e} {bad.sum():5} "
        f"{np.quantile(joined['mujoco'], 0.99):8.1e} {joined['mujoco'].max():8.1e} "
        f"{(joined['mujoco'] > 1e-6).sum():6} {time.perf_counter() - start:6.0f} s",
        flush=True,
    )
    return not bad.any()


def check_gradients(kind: str, count: int, seed: int) -> bool:
    """Check the adjoints of a number of placements and print a line; return whether all is well."""
    rng = np.random.default_rng(seed)
    found = [gradient_errors(batch, rng) for batch in batches(kind, count, rng)]
    dual, difference = (np.concatenate(part) for part in zip(*found, strict=True))
    print(
        f"{kind:20} {len(dual):7} {np.quantile(dual, 0.99):8.1e} {dual.max():8.1e} "
        f"{len(difference):7} {np.quantile(difference, 0.99):8.1e} {difference.max():8.1e}",
        flush=True,
    )
    return bool(np.quantile(dual, 0.99) < 1e-12 and np.quantile(difference, 0.99) < 1e-6)


def main() -> int:
    """Check all pairs; return 1 if a bound is broken."""
    parser = argparse.ArgumentParser(description="Check all pairs of shapes on random placements.")
    parser.add_argument("--count", type=int, default=1000, help="placements a pair for values")
    parser.add_argument(
        "--gradients", type=int, default=200, help="placements a pair for gradients"
    )
    parser.add_argument("--pairs", nargs="*", default=KINDS, choices=KINDS, metavar="PAIR")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    well = True
    print(f"seed {given.seed}")
    print(
        f"{'pair':20} {'count':>7} inside     sure    below    above   bad  MuJoCo, 99% and "
        "max, > 1e-6"
    )
    for kind in given.pairs:
        well &= check_values(kind, given.count, given.seed)
    print(f"{'pair':20}   slots  dual numbers, 99% and max   lines  differences, 99% and max")
    for kind in given.pairs:
        well &= check_gradients(kind, given.gradients, given.seed)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
