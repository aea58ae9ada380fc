"""Adjoints of height fields against convex shapes: dual numbers, differences, records, lanes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.core.fields import KINDS, Field, bumpy, collide, level, mesh_of, over, pairs, settled
from tests.core.test_collision import SEED, Array, moved_along, tangent

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
