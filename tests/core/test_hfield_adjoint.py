"""Adjoints of height fields against convex shapes: dual numbers, differences, records, lanes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.core.fields import KINDS, Field, bumpy, collide, level, mesh_of, over, pairs, settled
from tests.core.test_collision import SEED, Array, moved_along, shape, tangent, turn

kinds = pytest.mark.parametrize("kind", KINDS)
SLOTS = 8
FAR = 0.02


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator whose seed is printed."""
    print(f"seed {SEED}")
    return np.random.default_rng(SEED)


def placed(
    kind: str, field: Field, worlds: int, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Return a stretched field, shapes that touch it, and the mesh."""
    vert = mesh_of(kind, rng)
    a, b = over(kind, field, worlds, rng)
    a[:, 12:] = rng.uniform(-0.1, 0.1, (worlds, 3)) * (rng.random((worlds, 1)) < 0.5)
    a, b = settled(kind, field, (a, b), vert, rng.uniform(-4e-3, 4e-3, worlds))
    return a, b, vert


@kinds
def test_adjoint_pairs_with_tangent(kind: str, rng: np.random.Generator) -> None:
    """Pair with dual numbers to 1e-12 in every slot, in poses, the field's sizes and B's."""
    found = 0
    for field in (bumpy(rng), level()):
        a, b, vert = placed(kind, field, 100, rng)
        twists, sizes = rng.normal(size=(2, 100, 6)), rng.normal(size=(2, 100, 3))
        tans = [
            np.array([tangent(*row) for row in zip(shapes, twists[k], sizes[k], strict=True)])
            for k, shapes in enumerate((a, b))
        ]
        seeds = np.concatenate([twists[0], sizes[0], twists[1], sizes[1]], axis=1)
        touch, both = collide(kind, a, b, field, vert), pairs(kind, a, b, field, vert)
        touch_tan = both.tangent(tans[0], tans[1])
        for slot in range(SLOTS):
            on = touch[:, slot, 7] > 0
            bar = rng.normal(size=(100, 7))
            left, right = bar * touch_tan[:, slot], both.adjoint(slot, bar) * seeds
            scale = np.abs(left).sum(axis=1) + np.abs(right).sum(axis=1)
            error = np.abs(left.sum(axis=1) - right.sum(axis=1)) / scale
            core = np.abs(touch[:, slot, 0] + b[:, 12] * kind.endswith(("sphere", "capsule")))
            tolerance = 1e-12 + 2e-15 / np.maximum(core, 1e-6)
            assert np.all(error[on] <= tolerance[on]), (slot, error[on].max())
            found += int(on.sum())
    assert found > 150


@kinds
def test_adjoint_matches_differences(kind: str, rng: np.random.Generator) -> None:
    """Match central differences of gap, normal and point, away from switches."""
    field, step, checked = bumpy(rng), 1e-6, 0
    a, b, vert = placed(kind, field, 60, rng)
    for s, t in zip(a, b, strict=True):
        twists, sizes = rng.normal(size=(2, 6)), rng.normal(size=(2, 3)) * 0.1
        runs = [
            collide(
                kind,
                moved_along(s, twists[0], sizes[0], e),
                moved_along(t, twists[1], sizes[1], e),
                field,
                vert,
                far=FAR,
            )[0, :, :7]
            for e in (-step, -step / 2, step / 2, step)
        ]
        coarse, fine = (runs[3] - runs[0]) / (2 * step), (runs[2] - runs[1]) / step
        seeds = np.concatenate([twists[0], sizes[0], twists[1], sizes[1]])
        one = pairs(kind, s, t, field, vert)
        features = one.features()[0]
        on = collide(kind, s, t, field, vert, far=FAR)[0, :, 7] > 0
        if not np.array_equal(
            collide(kind, s, t, field, vert, far=FAR)[0], collide(kind, s, t, field, vert)[0]
        ):
            continue
        for slot in np.nonzero(on)[0]:
            scale = 1 + np.abs(fine[slot]).max()
            if np.abs(coarse[slot] - fine[slot]).max() > 1e-5 * scale:
                continue
            checked += 1
            bar = rng.normal(size=7)
            bars = one.adjoint(int(slot), bar[None], features[slot][None])[0]
            assert abs(bar @ fine[slot] - bars @ seeds) <= 1e-4 * scale
    print(checked)
    assert checked >= 20


@kinds
def test_adjoint_differentiates_the_record(kind: str, rng: np.random.Generator) -> None:
    """Give the same bars from the features alone, linear in the cotangent, nothing for zero."""
    field = bumpy(rng)
    a, b, vert = placed(kind, field, 50, rng)
    both = pairs(kind, a, b, field, vert)
    features, touch = both.features(), collide(kind, a, b, field, vert)
    for slot in range(SLOTS):
        on = touch[:, slot, 7] > 0
        x, y = rng.normal(size=(2, 50, 7))
        one, two, sum_ = (both.adjoint(slot, bar) for bar in (x, y, x + 2 * y))
        given = both.adjoint(slot, x, np.ascontiguousarray(features[:, slot]))
        assert np.array_equal(one[on], given[on])
        size = np.abs(one).max(axis=1) + np.abs(two).max(axis=1)
        assert np.all(np.abs(sum_ - one - 2 * two).max(axis=1)[on] <= 1e-11 * size[on])
        nothing = both.adjoint(slot, 0 * x, start=0.1)
        assert np.all(nothing == nothing[0])


@kinds
def test_adjoint_of_lanes_gives_the_bits_of_one_world(kind: str, rng: np.random.Generator) -> None:
    """Return the same bits from lanes as from one world, in double and in float."""
    field = bumpy(rng)
    a, b, vert = placed(kind, field, 31, rng)
    both = pairs(kind, a, b, field, vert)
    for slot in range(SLOTS):
        for single in (False, True):
            bar = rng.normal(size=(31, 7))
            one = both.adjoint(slot, bar, single=single)
            assert np.array_equal(one, both.adjoint(slot, bar, single=single, lanes=4))
            assert np.isfinite(one).all()


@kinds
def test_dual_numbers_over_the_adjoint_match_differences(
    kind: str, rng: np.random.Generator
) -> None:
    """Carry tangents through the adjoint: second derivatives match differences of the first."""
    field, step, checked = bumpy(rng), 1e-6, 0
    a, b, vert = placed(kind, field, 25, rng)
    for s, t in zip(a, b, strict=True):
        twists, sizes = rng.normal(size=(2, 6)), rng.normal(size=(2, 3)) * 0.1
        bar = rng.normal(size=(1, 7))
        one = pairs(kind, s, t, field, vert)
        features = one.features()[0]
        for slot in np.nonzero(collide(kind, s, t, field, vert)[0, :, 7])[0]:
            exact = one.adjoint_tangent(
                int(slot),
                tangent(s, twists[0], sizes[0])[None],
                tangent(t, twists[1], sizes[1])[None],
                bar,
            )[0]
            runs = [
                pairs(
                    kind,
                    moved_along(s, twists[0], sizes[0], e),
                    moved_along(t, twists[1], sizes[1], e),
                    field,
                    vert,
                ).adjoint(int(slot), bar, features[slot][None])[0]
                for e in (-step, -step / 2, step / 2, step)
            ]
            coarse, fine = (runs[3] - runs[0]) / (2 * step), (runs[2] - runs[1]) / step
            scale = 1 + np.abs(fine).max()
            if np.abs(coarse - fine).max() > 1e-5 * scale:
                continue
            checked += 1
            assert np.abs(exact - fine).max() <= 1e-4 * scale
    assert checked >= 20


def flat_on(name: str, field: Field, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return a shape that lies on one of the inner triangles of a field, and reaches beyond it."""
    rows, columns = field.data.shape
    i, j = (int(rng.integers(1, n - 2)) for n in (rows, columns))
    corners = field.points()[[i, i, i + 1], [j, j + 1, j + 1]]
    n = np.cross(corners[1] - corners[0], corners[2] - corners[0])
    n /= np.linalg.norm(n)
    aside = np.cross(n, [0.0, 0, 1])
    R = turn(aside / np.linalg.norm(aside), -float(np.arccos(n[2])))
    R = R @ turn([0, 0, 1], float(rng.uniform(0, 2 * np.pi)))
    size = np.array([0.05, 0.08, 0.03]) if name == "box" else np.array([0.06, 0.03, 0.0])
    height = size[2] if name == "box" else size[1]
    gap = float(rng.choice([0.0, 1e-4, -1e-4, 2e-3]))
    field_at = shape(np.zeros(3), np.eye(3), np.zeros(3))
    return field_at, shape(corners.mean(axis=0) + n * (height + gap), R, size)


@pytest.mark.parametrize("name", ["box", "cylinder"])
def test_shape_flat_on_a_triangle_has_derivatives_of_a_side(
    name: str, rng: np.random.Generator
) -> None:
    """Match a difference to one side in every slot that stays: several triangles have such a slot.

    A slot on a line of the grid is one of two prisms, along the normal of a triangle or of the
    shape: which of the two, rounding must not say.
    """
    kind, step, checked = f"hfield-{name}", 1e-6, 0
    for _ in range(60):
        field = bumpy(rng)
        a, b = flat_on(name, field, rng)
        twists, sizes = rng.normal(size=(2, 6)), np.zeros(3)
        both = pairs(kind, a, b, field)
        here = both.collide()[0]
        dual = both.tangent(tangent(a, twists[0], sizes)[None], tangent(b, twists[1], sizes)[None])
        runs = [
            collide(
                kind,
                moved_along(a, twists[0], sizes, e),
                moved_along(b, twists[1], sizes, e),
                field,
            )[0]
            for e in (-step, -step / 2, step / 2, step)
        ]
        for slot in np.flatnonzero(here[:, 7] > 0):
            now, near = here[slot, :7], []
            for run in runs:
                apart = np.where(run[:, 7] > 0, np.abs(run[:, :7] - now).max(axis=1), np.inf)
                near.append(run[apart.argmin(), :7] if apart.min() < 1e3 * step else now + np.nan)
            ways = [4 * (near[2] - now) - (near[3] - now), (near[0] - now) - 4 * (near[1] - now)]
            scale = 1 + np.abs(dual[0, slot]).max()
            error = [np.abs(way / step - dual[0, slot]).max() / scale for way in ways]
            if np.isnan(error).all():
                continue
            checked += 1
            assert np.nanmin(error) < 1e-4, (slot, error)
    assert checked > 100


def test_ball_over_a_point_of_a_ridge_has_the_derivative_of_the_ridge(
    rng: np.random.Generator,
) -> None:
    """Match central differences where the closest point is one of the grid: the ridge goes on."""
    rows = 1 - np.abs(np.arange(7) - 3) / 3
    field, step = Field((0.4, 0.3, 0.1, 0.3), np.repeat(rows[:, None], 9, axis=1)), 1e-6
    a = shape(np.zeros(3), np.eye(3), np.zeros(3))
    for gap in (-1e-3, -1e-4, 0.0, 1e-4, 4e-3):
        b = shape([0.1, 0.0, 0.16 + gap], np.eye(3), [0.06, 0.0, 0.0])
        twists, sizes = rng.normal(size=(2, 6)), 0.1 * rng.normal(size=(2, 3))
        tans = [tangent(*row)[None] for row in zip((a, b), twists, sizes, strict=True)]
        dual = pairs("hfield-sphere", a, b, field).tangent(*tans)[0, 0]
        runs = [
            collide(
                "hfield-sphere",
                moved_along(a, twists[0], sizes[0], e),
                moved_along(b, twists[1], sizes[1], e),
                field,
            )[0, 0, :7]
            for e in (-step, step)
        ]
        assert np.abs((runs[1] - runs[0]) / (2 * step) - dual).max() < 1e-5 * np.abs(dual).max()
