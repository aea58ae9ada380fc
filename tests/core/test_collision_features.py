"""Features of contact points: adjoints differentiate the recorded case and never search."""

from __future__ import annotations

import numpy as np
import pytest

from tests.core.test_collision import (
    CONVEX,
    KINDS,
    PAIRS,
    SEED,
    Array,
    mesh_of,
    pairs,
    random_pairs,
    rotation,
)
from tests.core.test_collision_adjoint import core_distance

# pairs whose slots say all: no feature ever differs from another away from degenerate shapes
WITHOUT_CHOICE = {"plane-sphere", "plane-capsule", "plane-box", "plane-ellipsoid", "sphere-sphere"}
# one piece against one piece, with a normal
ALWAYS_ONE = {"sphere-ellipsoid", "ellipsoid-ellipsoid"}
WITH_CHOICE = [kind for kind in KINDS if kind not in WITHOUT_CHOICE | ALWAYS_ONE]


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator whose seed is printed."""
    print(f"seed {SEED}")
    return np.random.default_rng(SEED)


def near_pairs(rng: np.random.Generator, worlds: int) -> tuple[Array, Array]:
    """Shapes that touch or nearly touch, half of them with nearly parallel axes."""
    a, b = random_pairs(rng, worlds, 0.2)
    for k in range(0, worlds, 2):
        a[k, 3:12] = b[k, 3:12] = rotation(rng).ravel()
    return a, moved(b, rng.normal(size=(worlds, 6)) * 0.02)


def moved(b: Array, motion: Array) -> Array:
    """Shapes turned by the rotation vectors motion[:, :3] about their centres, and shifted."""
    angle = np.linalg.norm(motion[:, :3], axis=1)[:, None, None]
    cross = -np.cross(np.eye(3), motion[:, None, :3])
    turn = np.eye(3) + np.sinc(angle / np.pi) * cross
    turn += 0.5 * np.sinc(0.5 * angle / np.pi) ** 2 * (cross @ cross)
    out = b.copy()
    out[:, :3] += motion[:, 3:]
    out[:, 3:12] = (turn @ b[:, 3:12].reshape(-1, 3, 3)).reshape(-1, 9)
    return out


def decisions(kind: str, features: Array) -> Array:
    """Features without the code of the normal, which is a number and no decision."""
    if kind not in CONVEX:
        return features
    words = features.astype(np.uint64)
    free = words[..., 0] & np.uint64(3) == 0
    pieces = [(words[..., 0] >> np.uint64(shift)) & np.uint64(7) for shift in (2, 5)]
    corners = sum(np.where(piece < 3, piece + 1, 0) for piece in pieces)
    out = words.copy()
    out[..., 0] = np.where(free, words[..., 0] & np.uint64(255), words[..., 0])
    out[..., 2] = np.where(free & (corners < 4), words[..., 2] & np.uint64(0xFFFF), words[..., 2])
    return out


def switches(kind: str, rng: np.random.Generator, vert: Array, draws: int) -> list[tuple]:
    """Tables of shapes on either side of a change of feature, 1e-12 of a random motion apart."""
    a, b = near_pairs(rng, draws)
    motion = rng.normal(size=(draws, 6)) * [0.3, 0.3, 0.3, 0.03, 0.03, 0.03]

    def features(time: Array) -> Array:
        found = pairs(kind, a, moved(b, motion * time), vert).features()
        return decisions(kind, found).reshape(draws, -1)

    low, high = np.zeros((draws, 1)), np.ones((draws, 1))
    first = features(low)
    found = np.any(first != features(high), axis=1)
    for _ in range(40):
        middle = 0.5 * (low + high)
        same = np.all(features(middle) == first, axis=1, keepdims=True)
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return [(a[found], moved(b, motion * time)[found]) for time in (low, high)]


@pytest.mark.parametrize("kind", WITH_CHOICE)
def test_adjoint_follows_the_recorded_feature(kind: str, rng: np.random.Generator) -> None:
    """Give the gradient of the recorded side on the other side of a change, where a search differs.

    The two sides are 1e-12 apart, so a recorded case has nearly the same gradient on both, however
    much the gradients of the two cases differ. Where a point meets the surface of a box, or two
    centres meet, the normal of one case has no limit; where it turns by a radian within 10 um it
    changes too much between the two.
    """
    vert = mesh_of(kind, rng)
    tables = switches(kind, rng, vert, 1500)
    sides = [pairs(kind, *shapes, vert) for shapes in tables]
    follows, jumps = [], []
    for slot in range(PAIRS[kind][1]):
        features = [side.features()[:, slot].copy() for side in sides]
        first, second = (decisions(kind, words) for words in features)
        rows = np.any(first != second, axis=1)
        for side, shapes in zip(sides, tables, strict=True):
            touch = side.collide()[:, slot]
            rows &= (touch[:, 7] > 0) & (core_distance(kind, *shapes, touch[:, 0]) > 1e-3)
        bar = rng.normal(size=(len(rows), 7))
        own = [side.adjoint(slot, bar) for side in sides]
        for here, there in ((0, 1), (1, 0)):
            assert np.array_equal(own[here], sides[here].adjoint(slot, bar, features[here]))
            kept = sides[there].adjoint(slot, bar, features[here])
            size = np.abs(own[here]).max(axis=1)
            close = np.abs(kept - own[here]).max(axis=1) <= 1e-4 * size
            follows.append((close | (size > 1e5))[rows])
            jumps.append((np.abs(own[there] - own[here]).max(axis=1) > 1e-2 * size)[rows])
    followed, jumped = np.concatenate(follows), np.concatenate(jumps)
    assert np.all(followed)
    assert jumped.sum() >= 200


@pytest.mark.parametrize("kind", sorted(WITHOUT_CHOICE))
def test_slots_without_a_choice_have_no_feature(kind: str, rng: np.random.Generator) -> None:
    """Record nothing where the slot's number says all."""
    assert not pairs(kind, *random_pairs(rng, 500, 0.2)).features().any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("single", [False, True], ids=["double", "float"])
def test_lanes_record_the_features_of_one_world(
    kind: str, single: bool, rng: np.random.Generator
) -> None:
    """Record the same words in lanes as in one world."""
    worlds = pairs(kind, *near_pairs(rng, 403), mesh_of(kind, rng))
    alone = worlds.features(single=single)
    assert np.array_equal(alone, worlds.features(single=single, lanes=4))
    assert np.array_equal(alone, worlds.features(single=single, lanes=8))


def test_mesh_feature_is_the_vertex(rng: np.random.Generator) -> None:
    """Name the vertex that a slot's contact point belongs to."""
    vert = mesh_of("plane-mesh", rng)
    a, b = random_pairs(rng, 200, 0.2)
    b[:, 12:] = 0.0
    worlds = pairs("plane-mesh", a, b, vert)
    touch, index = worlds.collide(), worlds.features()[..., 1].astype(int)
    x = touch[..., 4:7] + touch[..., 1:4] * touch[..., :1] / 2
    R = b[:, 3:12].reshape(-1, 3, 3)
    vertex = b[:, None, :3] + np.einsum("wij,wsj->wsi", R, vert[5:][index])
    assert np.allclose(vertex, x, atol=1e-13)


def test_box_features_name_every_case(rng: np.random.Generator) -> None:
    """Meet two edges, a face and a vertex among random boxes, one of them in each pair."""
    a, b = random_pairs(rng, 2000, 0.35)
    worlds = pairs("box-box", a, b)
    case = worlds.features()[..., 0].astype(int) & 3
    on = worlds.collide()[..., 7] > 0
    assert set(np.unique(case[on])) == {1, 2, 3}
    assert np.all(case[:, 0] > 0)
    # slots beside two edges or a vertex are empty
    assert np.all(case[:, 1:][(case[:, 0] != 2)] == 0)
