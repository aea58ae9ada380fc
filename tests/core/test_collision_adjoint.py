"""Adjoints of the pair functions: pairing with dual numbers, algebra, lanes, edges, tangents."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.core.test_collision import (
    CONVEX,
    KINDS,
    NO_MESH,
    PAIRS,
    SEED,
    Array,
    collide,
    framed,
    mesh_of,
    moved_along,
    pairs,
    random_pairs,
    rotation,
    shape,
    tangent,
    turn,
)

kinds = pytest.mark.parametrize("kind", KINDS)
RIGHT_TURNS = [
    np.eye(3),
    turn([1, 0, 0], np.pi / 2),
    turn([0, 1, 0], np.pi / 2),
    turn([0, 0, 1], np.pi / 4),
    turn([1, 0, 0], np.pi),
]
TILTS = [0, 1e-12, 1e-4, 5e-4, 0.01, 0.03, 0.045, 0.2]
# the bars that are added to when start is 0.1: pose and size of A, then of B
START = 0.1 * np.outer([1, 10, 100, -1, -10, -100], [1, 2, 3]).reshape(-1)
CUBE = framed(np.array(list(itertools.product([-0.1, 0.1], repeat=3))))
# tilts at which edges are parallel but for a little more than the slack of a cut
SLIGHT_TILTS = [3e-9, 1e-8, 1e-7, 1e-6]


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator whose seed is printed."""
    print(f"seed {SEED}")
    return np.random.default_rng(SEED)


def edge_pairs(rng: np.random.Generator, worlds: int, tilts: list[float]) -> tuple[Array, Array]:
    """Shapes with (nearly) parallel axes, equal sizes, centres aligned, at touching distances."""
    a, b = np.zeros((worlds, 15)), np.zeros((worlds, 15))
    for k in range(worlds):
        R = rotation(rng) if rng.random() < 0.5 else RIGHT_TURNS[rng.integers(5)]
        axis = np.eye(3)[rng.integers(3)] if rng.random() < 0.5 else rng.normal(size=3)
        tilt = turn(axis / np.linalg.norm(axis), rng.choice(tilts))
        s = rng.uniform(0.05, 0.3, 3) if rng.random() < 0.7 else np.full(3, rng.choice([0.1, 0.2]))
        t = rng.uniform(0.05, 0.3, 3) if rng.random() < 0.7 else s.copy()
        step = rng.choice([-1.0, 0, 1.0], size=3) * (s + rng.choice([0, 1, 1]) * t)
        step = step * rng.choice([0.0, 0.5, 0.999, 1.0, 1.001, 1.3])
        if rng.random() < 0.3:
            step = step * (rng.random(3) < 0.4)
        if rng.random() < 0.5:
            step = step + rng.normal(size=3) * rng.choice([1e-9, 1e-3, 0.05])
        p = rng.normal(size=3) * 0.2
        a[k] = shape(p, R, s)
        b[k] = shape(p + R @ step, tilt @ R @ RIGHT_TURNS[rng.integers(5)], t)
    return a, b


def slots_of(kind: str) -> range:
    """The slots of a kind of pair."""
    return range(PAIRS[kind][1])


def adjoint(
    kind: str, slot: int, pair: tuple[Array, Array], bar: Array, **options: object
) -> Array:
    """Bars (worlds, 18): pose (6) and size (3) of A, then of B; `vert` gives the mesh."""
    vert = options.pop("vert", NO_MESH)
    return pairs(kind, *pair, vert).adjoint(slot, np.atleast_2d(bar), **options)


def core_distance(kind: str, a: Array, b: Array, phi: Array) -> Array:
    """Distance between the points, segments or boxes that the radii are put around."""
    one, two = kind.split("-")
    round_shapes = ("sphere", "capsule")
    return np.abs(phi + (one in round_shapes) * a[:, 12] + (two in round_shapes) * b[:, 12])


def pairing_errors(
    kind: str, a: Array, b: Array, vert: Array, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Errors of <point_bar, touch_tan> = <bars, seeds> over the sum of |terms|, on, distances."""
    worlds = len(a)
    twists, sizes = rng.normal(size=(2, worlds, 6)), rng.normal(size=(2, worlds, 3))
    tans = [
        np.array([tangent(*row) for row in zip(shapes, twists[k], sizes[k], strict=True)])
        for k, shapes in enumerate((a, b))
    ]
    seeds = np.concatenate([twists[0], sizes[0], twists[1], sizes[1]], axis=1)
    touch = collide(kind, a, b, vert)
    touch_tan = pairs(kind, a, b, vert).tangent(tans[0], tans[1])
    errors, distances = np.zeros(touch.shape[:2]), np.zeros(touch.shape[:2])
    for slot in slots_of(kind):
        bar = rng.normal(size=(worlds, 7))
        left, right = bar * touch_tan[:, slot], adjoint(kind, slot, (a, b), bar, vert=vert) * seeds
        scale = np.abs(left).sum(axis=1) + np.abs(right).sum(axis=1)
        errors[:, slot] = np.abs(left.sum(axis=1) - right.sum(axis=1)) / scale
        distances[:, slot] = core_distance(kind, a, b, touch[:, slot, 0])
    return errors, touch[..., 7] > 0, distances


@kinds
def test_adjoint_pairs_with_tangent(kind: str, rng: np.random.Generator) -> None:
    """Pair with dual numbers to 1e-12 in every slot, overlapping, apart, and at the edges.

    A normal over a vanishing distance loses epsilon / distance, in dual numbers as in the adjoint;
    at no distance at all it is a fixed direction and loses nothing. Where centres coincide the
    closest points of curved shapes are hardly determined.
    """
    vert = mesh_of(kind, rng)
    flat = CUBE if kind.endswith("mesh") else NO_MESH
    draws = [(*random_pairs(rng, 1000, spread), vert) for spread in (0.12, 0.35)]
    draws.append((*edge_pairs(rng, 1500, TILTS), flat))
    found = np.zeros(len(slots_of(kind)))
    for a, b, vert in draws:
        errors, on, distances = pairing_errors(kind, a, b, vert, rng)
        tolerance = 1e-12 * np.ones_like(errors)
        tolerance[np.linalg.norm(a[:, :3] - b[:, :3], axis=1) < 1e-12] = 1e-11
        if not kind.startswith("plane"):
            tolerance += np.where(distances > 1e-15, 2e-15 / np.maximum(distances, 1e-15), 0.0)
        assert np.all(errors[on] <= tolerance[on])
        found += on.sum(axis=0)
    assert np.all(found >= 20)


def test_adjoint_of_slightly_tilted_boxes_loses_no_more_than_the_cuts(
    rng: np.random.Generator,
) -> None:
    """Pair to epsilon over the slack of a cut where edges are parallel to sides but for less."""
    a, b = edge_pairs(rng, 1500, SLIGHT_TILTS)
    errors, on, _ = pairing_errors("box-box", a, b, NO_MESH, rng)
    assert np.all(errors[on] <= 1e-6)
    assert np.quantile(errors[on], 0.98) <= 1e-12


@kinds
def test_adjoint_matches_differences(kind: str, rng: np.random.Generator) -> None:
    """Match central differences of the gap, normal and point, away from switches."""
    vert, step, checked = mesh_of(kind, rng), 1e-6, 0
    a, b = random_pairs(rng, 120, 0.2)
    for s, t in zip(a, b, strict=True):
        twists, sizes = rng.normal(size=(2, 6)), rng.normal(size=(2, 3)) * 0.1
        runs = [
            collide(
                kind,
                moved_along(s, twists[0], sizes[0], e),
                moved_along(t, twists[1], sizes[1], e),
                vert,
            )[0, :, :7]
            for e in (-step, -step / 2, step / 2, step)
        ]
        coarse, fine = (runs[3] - runs[0]) / (2 * step), (runs[2] - runs[1]) / step
        seeds = np.concatenate([twists[0], sizes[0], twists[1], sizes[1]])
        on = collide(kind, s, t, vert)[0, :, 7] > 0
        for slot in np.nonzero(on)[0]:
            scale = 1 + np.abs(fine[slot]).max()
            if np.abs(coarse[slot] - fine[slot]).max() > 1e-5 * scale:
                continue
            checked += 1
            bar = rng.normal(size=7)
            bars = adjoint(kind, int(slot), (s, t), bar, vert=vert)[0]
            assert abs(bar @ fine[slot] - bars @ seeds) <= 1e-4 * scale
    assert checked >= 100


@kinds
def test_adjoint_is_linear_and_adds(kind: str, rng: np.random.Generator) -> None:
    """Be linear in the cotangent, add to the bars, and add exactly nothing for zero."""
    vert = mesh_of(kind, rng)
    for pair in (random_pairs(rng, 100, 0.2), edge_pairs(rng, 100, TILTS + SLIGHT_TILTS)):
        for slot in slots_of(kind):
            touch = collide(kind, *pair, vert)[:, slot]
            on = (touch[:, 7] > 0) & (core_distance(kind, *pair, touch[:, 0]) > 1e-4)
            x, y = rng.normal(size=(2, 100, 7))
            one, two, both = (
                adjoint(kind, slot, pair, bar, vert=vert)[on] for bar in (x, y, x + 2 * y)
            )
            size = np.abs(one).max(axis=1) + np.abs(two).max(axis=1)
            assert np.all(np.abs(both - one - 2 * two).max(axis=1) <= 1e-11 * size)
            for lanes in (1, 4):
                added = adjoint(kind, slot, pair, x, vert=vert, start=0.1, lanes=lanes)[on]
                assert np.all(np.abs(added - START - one).max(axis=1) <= 1e-13 * (size + 30.0))
                nothing = adjoint(kind, slot, pair, 0 * x, vert=vert, start=0.1, lanes=lanes)
                assert np.all(nothing == nothing[0])
                assert np.allclose(nothing[0], START, rtol=1e-15, atol=0)


@kinds
def test_adjoint_of_single_numbers(kind: str, rng: np.random.Generator) -> None:
    """Sum the bars of gap, normal and point, taken one number at a time, to those of all."""
    vert = mesh_of(kind, rng)
    pair = random_pairs(rng, 100, 0.2)
    for slot in slots_of(kind):
        touch = collide(kind, *pair, vert)[:, slot]
        on = (touch[:, 7] > 0) & (core_distance(kind, *pair, touch[:, 0]) > 1e-4)
        bar = rng.normal(size=(100, 7))
        parts = [adjoint(kind, slot, pair, bar * e, vert=vert)[on] for e in np.eye(7)]
        size = np.abs(parts).max(axis=(0, 2))
        whole = adjoint(kind, slot, pair, bar, vert=vert)[on]
        assert np.all(np.abs(whole - np.sum(parts, axis=0)).max(axis=1) <= 1e-12 * size)
        # a gap moves with the shapes
        assert np.all(np.abs(parts[0]).max(axis=1) > 0)


@kinds
def test_adjoint_repeats_and_leaves_inputs_alone(kind: str, rng: np.random.Generator) -> None:
    """Give the same bits twice and change no input."""
    vert = mesh_of(kind, rng)
    for pair in (random_pairs(rng, 50, 0.2), edge_pairs(rng, 50, TILTS)):
        for slot in slots_of(kind):
            bar = rng.normal(size=(50, 7))
            kept = [x.copy() for x in (*pair, vert, bar)]
            first = adjoint(kind, slot, pair, bar, vert=vert)
            assert np.array_equal(first, adjoint(kind, slot, pair, bar, vert=vert))
            for now, before in zip((*pair, vert, bar), kept, strict=True):
                assert np.array_equal(now, before)


@kinds
def test_adjoint_wrenches_balance(kind: str, rng: np.random.Generator) -> None:
    """Sum A's and B's wrench to that of the touch: (n x n_bar + p x p_bar, p_bar)."""
    vert = mesh_of(kind, rng)
    pair = random_pairs(rng, 200, 0.2)
    touch = collide(kind, *pair, vert)
    for slot in slots_of(kind):
        on = touch[:, slot, 7] > 0
        bar = rng.normal(size=(200, 7))
        bars = adjoint(kind, slot, pair, bar, vert=vert)
        n, p = touch[:, slot, 1:4], touch[:, slot, 4:7]
        torque = np.cross(n, bar[:, 1:4]) + np.cross(p, bar[:, 4:])
        expected = np.concatenate([torque, bar[:, 4:]], axis=1)
        scale = 1 + np.abs(bars).max(axis=1, keepdims=True)
        assert np.all((np.abs(bars[:, :6] + bars[:, 9:15] - expected) <= 1e-12 * scale)[on])


@kinds
def test_adjoint_lanes_give_the_bits_of_one_world(kind: str, rng: np.random.Generator) -> None:
    """Return the same bits from lanes as from one world, in double and in float."""
    vert = mesh_of(kind, rng)
    for pair in (random_pairs(rng, 103, 0.2), edge_pairs(rng, 103, TILTS)):
        for slot, single in itertools.product(slots_of(kind), (False, True)):
            bar = rng.normal(size=(103, 7))
            one = adjoint(kind, slot, pair, bar, vert=vert, single=single)
            assert np.array_equal(
                one, adjoint(kind, slot, pair, bar, vert=vert, single=single, lanes=4)
            )


@kinds
def test_adjoint_in_float_is_close(kind: str, rng: np.random.Generator) -> None:
    """Stay near the double run in float32 for numbers that both can hold."""
    draws = [(random_pairs(rng, 300, 0.2), mesh_of(kind, rng))]
    if kind in CONVEX:
        # faces that lie on faces but for a tilt have all slots
        draws.append((edge_pairs(rng, 300, [0.01, 0.03]), CUBE if "mesh" in kind else NO_MESH))
    errors: list[list[Array]] = [[] for _ in slots_of(kind)]
    for tables, vert in draws:
        pair = tuple(x.astype(np.float32).astype(float) for x in tables)
        bar = rng.normal(size=(300, 7)).astype(np.float32).astype(float)
        for slot in slots_of(kind):
            on = collide(kind, *pair, vert)[:, slot, 7] > 0
            exact = adjoint(kind, slot, pair, bar, vert=vert)[on]
            error = adjoint(kind, slot, pair, bar, vert=vert, single=True)[on] - exact
            errors[slot].append(np.abs(error).max(axis=1) / np.abs(exact).max(axis=1))
    pooled = [np.concatenate(found) for found in errors]
    # the last slots need a face that cuts another at eight places, which is rare
    assert np.median(np.concatenate(pooled)) <= 2e-6
    assert all(np.median(found) <= 2e-6 for found in pooled if len(found) >= 10)
    assert sum(len(found) >= 10 for found in pooled) >= len(pooled) / 2


@kinds
def test_adjoint_is_finite_for_degenerate_shapes(kind: str) -> None:
    """Give finite bars in every slot for coincident, parallel, flat and zero-length shapes."""
    sizes = [[0.1, 0.2, 0.3], [0.1, 0.0, 0.1], [0.1, 0.1, 0.1], [0.1, 0.1, 0.0]]
    shifts = [[0.0, 0, 0], [0.1, 0, 0], [0, 0.2, 0], [0, 0, 0.3], [0.1, 0.1, 0.1], [0, 0, 1e-16]]
    vert = framed(np.zeros((3, 3))) if kind.endswith("mesh") else NO_MESH
    cases = list(itertools.product(RIGHT_TURNS, RIGHT_TURNS, sizes, shifts))
    a = np.array([shape([0.0, 0, 0], R, size) for R, _, size, _ in cases])
    b = np.array([shape(shift, Q, size) for _, Q, size, shift in cases])
    for slot, single in itertools.product(slots_of(kind), (False, True)):
        bar = np.ones((len(cases), 7))
        bars = adjoint(kind, slot, (a, b), bar, vert=vert, single=single)
        assert np.isfinite(bars).all()
        nothing = adjoint(kind, slot, (a, b), 0 * bar, vert=vert, single=single)
        assert np.all(nothing == 0)


@kinds
def test_dual_numbers_over_the_adjoint_match_differences(
    kind: str, rng: np.random.Generator
) -> None:
    """Carry tangents through the adjoint: second derivatives match differences of the first."""
    vert, step = mesh_of(kind, rng), 1e-6
    a, b = random_pairs(rng, 80, 0.2)
    checked = 0
    for s, t in zip(a, b, strict=True):
        twists, sizes = rng.normal(size=(2, 6)), rng.normal(size=(2, 3)) * 0.1
        bar = rng.normal(size=(1, 7))
        for slot in np.nonzero(collide(kind, s, t, vert)[0, :, 7])[0]:
            exact = pairs(kind, s, t, vert).adjoint_tangent(
                int(slot),
                tangent(s, twists[0], sizes[0])[None],
                tangent(t, twists[1], sizes[1])[None],
                bar,
            )[0]
            runs = [
                adjoint(
                    kind,
                    int(slot),
                    (
                        moved_along(s, twists[0], sizes[0], e),
                        moved_along(t, twists[1], sizes[1], e),
                    ),
                    bar,
                    vert=vert,
                )[0]
                for e in (-step, -step / 2, step / 2, step)
            ]
            coarse, fine = (runs[3] - runs[0]) / (2 * step), (runs[2] - runs[1]) / step
            scale = 1 + np.abs(fine).max()
            if np.abs(coarse - fine).max() > 1e-5 * scale:
                continue
            checked += 1
            assert np.abs(exact - fine).max() <= 1e-4 * scale
    assert checked >= 60


def test_capsule_along_an_edge_has_bounded_derivatives() -> None:
    """Keep the closest point of a capsule parallel to a box edge from running along it."""
    box = shape([0.0, 0, 0], np.eye(3), [0.1, 0.1, 0.3])
    bars = []
    across = np.array([1.0, 1, 0]) / np.sqrt(2)
    for tilt in (0.0, 1e-16, -1e-13, 1e-9, 1e-5):
        log = shape([0.15, 0.15, 0], turn(across, tilt), [0.08, 0.2, 0])
        touch = collide("capsule-box", log, box)[0]
        assert touch[0, 7] == 1
        assert abs(touch[0, 6]) < 1e-12
        bars.append(adjoint("capsule-box", 0, (log, box), np.ones(7))[0])
    assert np.abs(np.array(bars) - bars[0]).max() < 1e-3
    assert np.abs(bars[0]).max() < 20


def test_adjoint_of_capsules_along_edges_pairs_with_tangent(rng: np.random.Generator) -> None:
    """Pair to 1e-12 where the closest point is the middle of a stretch along an edge."""
    # without rounding, so that some are parallel to the last bit, either way round
    onto = [np.round(turn(axis, np.pi / 2)) for axis in ([0, 1, 0], [1, 0, 0])] + [np.eye(3)]
    a, b = np.zeros((600, 15)), np.zeros((600, 15))
    for k in range(600):
        R = rotation(rng) if k % 2 else np.eye(3)
        i, half = k % 3, rng.uniform(0.05, 0.3, 3)
        local = rng.choice([-1.0, 1.0], size=3) * (half + rng.uniform(0.01, 0.1, 3))
        local[i] = rng.normal() * 0.1
        tilt = turn([1, 0, 0], rng.choice([0, 1e-15, 1e-9])) @ np.diag(
            [1, s := 1 - 2 * (k // 2 % 2), s]
        )
        a[k] = shape(R @ local, R @ onto[i] @ tilt, rng.uniform(0.05, 0.3, 3))
        b[k] = shape([0.0, 0, 0], R, half)
    errors, on, _ = pairing_errors("capsule-box", a, b, NO_MESH, rng)
    assert np.all(on[:, 1:].sum(axis=0) > 300)
    assert on[:, 0].sum() > 50
    assert np.all(errors[on] <= 1e-12)


def test_adjoint_of_a_capsule_whose_end_is_level_with_an_edge(rng: np.random.Generator) -> None:
    """Pair to 1e-12 where the distance is level at the capsule's first or last end alone."""
    box, onto = shape([0.0, 0, 0], np.eye(3), [1.0, 1, 1]), turn([0, 1, 0], np.pi / 2)
    onto[np.abs(onto) < 1e-15] = 0
    a = [shape([side * 1.5, 0.25, 1.25], onto, [0.5, 0.5, 0]) for side in (-1.0, 1.0)]
    # at right angles to the way from the edge to one end, in numbers without rounding
    r = np.round(np.sqrt(0.5) * 2**30) / 2**30
    for side in (-1.0, 1.0):
        out = np.array([r, -r, 0]) * side
        across = np.stack([[0, 0, side], [-r, -r, 0], out], axis=1)
        a.append(
            shape(np.array([1.25, 1.25, 0]) + 0.5 * np.array([r, -r, 0]), across, [0.5, 0.5, 0])
        )
    errors, on, _ = pairing_errors("capsule-box", np.array(a), np.array([box] * 4), NO_MESH, rng)
    assert on.any(axis=1).all()
    assert on[2:, 0].all()
    assert np.all(errors[on] <= 1e-12)


def test_adjoint_refuses_wrong_tables() -> None:
    """Name what is wrong with a slot or a cotangent."""
    one = np.zeros((1, 15))
    spheres = pairs("plane-sphere", one, one)
    with pytest.raises(ValueError, match=r"^adjoint\(\): no such slot\.$"):
        spheres.adjoint(1, np.zeros((1, 7)))
    message = r"^adjoint\(\): point_bar must be a table of \(worlds, 7\)\.$"
    with pytest.raises(ValueError, match=message):
        spheres.adjoint(0, np.zeros((1, 6)))
