"""Walks along the edges of a hull that meets a plane: what a scan over all vertices finds."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache

import mujoco
import numpy as np
import pytest

from featherback import _oracle
from featherback.model.hulls import hull_triangles, hull_vertices, hull_words
from tests.core.placing import rotations
from tests.core.test_collision import PAIRS, SEED, Array, framed, rotation, turn

KIND = PAIRS["plane-mesh"][0]
SIZES = (8, 40, 100, 500, 5000)
# numbers in which a hull of so many vertices is walked: 32 vertices a lane
NUMBERS = [(lanes, single) for lanes in (1, 4, 8) for single in (False, True)]
SCANNED = np.zeros(0, np.int32)
SLOPE = np.arctan(1 / 20)


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator whose seed is printed."""
    print(f"seed {SEED}")
    return np.random.default_rng(SEED)


def ball(n: int, extents: tuple[float, ...]) -> Array:
    """Points of an ellipsoid."""
    x = np.random.default_rng(n).normal(size=(n, 3))
    return x / np.linalg.norm(x, axis=1, keepdims=True) * extents


def prism(n: int, height: float, top: float) -> Array:
    """A prism with n / 2 corners at either end, or a frustum."""
    angle = np.arange(n // 2) * 4 * np.pi / n
    rim = np.c_[np.cos(angle), np.sin(angle)] * 0.1
    return np.vstack(
        [np.c_[rim * r, np.full(len(rim), z)] for r, z in ((1, -height), (top, height))]
    )


def lattice(n: int) -> Array:
    """Points of a cubic lattice within a ball: many vertices lie in each plane."""
    m = min(round(n**0.4) + 1, 16)
    x = np.stack(np.meshgrid(*[np.arange(-m, m + 1)] * 3), -1).reshape(-1, 3)
    return x[(x**2).sum(axis=1) <= m * m] * 0.02


def clusters(n: int) -> Array:
    """Corners made of many vertices that are hardly apart."""
    rng = np.random.default_rng(n)
    x = np.repeat(ball(8, (0.1, 0.08, 0.07)), n // 8, axis=0)
    return x + 1e-6 * rng.normal(size=x.shape)


def rounded(n: int) -> Array:
    """A box with round edges: most vertices beside a flat face are close to its corners."""
    x = ball(n, (0.005, 0.005, 0.005))
    return x + np.sign(x) * [0.08, 0.05, 0.03]


HULLS: dict[str, Callable[[int], Array]] = {
    "ball": lambda n: ball(n, (0.1, 0.08, 0.07)),
    "sheet": lambda n: ball(n, (0.1, 0.1, 2e-4)),
    "needle": lambda n: ball(n, (0.3, 0.01, 0.01)),
    "cut ball": lambda n: np.clip(ball(n, (0.1, 0.1, 0.1)), -0.1, [0.1, 0.1, 0.05]),
    "prism": lambda n: prism(n, 0.05, 1.0),
    "flat frustum": lambda n: prism(n, 0.001, 0.5),
    "lattice": lattice,
    "clusters": clusters,
    "rounded box": rounded,
}


@cache
def hull_of(name: str, size: int) -> tuple[Array, Array]:
    """Vertices and topology of a hull as a model has them."""
    text = " ".join(map(repr, HULLS[name](size).ravel().tolist()))
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><asset><mesh name="h" vertex="{text}"/></asset><worldbody>'
        '<geom type="mesh" mesh="h"/></worldbody></mujoco>'
    )
    points = hull_vertices(model, 0)
    return points, hull_words(points, hull_triangles(model, 0))


def face_normals(points: Array, words: Array) -> Array:
    """Outward normals of all faces."""
    starts = words[2 + len(points) : 3 + len(points) + words[0]]
    found = []
    for first, last in itertools.pairwise(starts):
        x = points[words[first:last]]
        n = np.cross(x[len(x) // 3] - x[0], x[2 * len(x) // 3] - x[0])
        if np.linalg.norm(n) > 0:
            found.append(n / np.linalg.norm(n))
    return np.array(found)


def downwards(n: Array) -> Array:
    """A rotation that turns a unit vector to -z."""
    axis = np.cross(n, [0, 0, -1.0])
    length = float(np.linalg.norm(axis))
    return turn(axis / length if length > 0 else [1.0, 0, 0], float(np.arctan2(length, -n[2])))


def placements(name: str, size: int, worlds: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Planes and hulls: turned at random, along axes, on a face, on one at the cone's slope."""
    points, words = hull_of(name, size)
    normals = face_normals(points, words)
    a, b = np.zeros((worlds, 15)), np.zeros((worlds, 15))
    a[:, 3:12] = np.eye(3).ravel()
    b[:, 3:12] = rotations(rng, worlds).reshape(-1, 9)
    for k in range(worlds):
        on_face = downwards(normals[rng.integers(len(normals))])
        tilt = turn(rng.normal(size=3), rng.choice([0.0, 1e-15, 1e-9, 1e-6, 1e-3]))
        lean = turn([*rng.normal(size=2), 0.0], SLOPE)
        right = np.eye(3)[rng.permutation(3)] * rng.choice([-1.0, 1.0], 3)[:, None]
        right *= np.linalg.det(right)
        R = [b[k, 3:12].reshape(3, 3), tilt @ on_face, lean @ on_face, tilt @ right][k % 4]
        b[k, 3:12] = R.ravel()
    a[::8, 3:12] = rotations(rng, len(a[::8])).reshape(-1, 9)
    b[:, :3] = 0.1 * rng.normal(size=(worlds, 3))
    return a, b


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", HULLS)
def test_walk_finds_what_a_scan_finds(name: str, size: int, rng: np.random.Generator) -> None:
    """Give the contact points and features of a scan to the last bit, in every number."""
    points, words = hull_of(name, size)
    a, b = placements(name, size, 96, rng)
    vert = framed(points, rotation(rng), 0.05 * rng.normal(size=3))
    for stretch in ([0.0, 0.0, 0.0], [0.4, -0.3, 0.1], [-1.7, 0.0, 0.5]):
        b[:, 12:] = stretch
        walked, scanned = (_oracle.ShapePairs(KIND, a, b, vert, w) for w in (words, SCANNED))
        for lanes, single in NUMBERS:
            one, two = (x.collide(lanes=lanes, single=single) for x in (walked, scanned))
            assert one.tobytes() == two.tobytes(), (lanes, single, stretch)
            features = [x.features(lanes=lanes, single=single) for x in (walked, scanned)]
            assert (features[0] == features[1]).all()


@pytest.mark.parametrize("name", HULLS)
def test_tangents_of_a_walk(name: str, rng: np.random.Generator) -> None:
    """Give the tangents of a scan to the last bit."""
    points, words = hull_of(name, 500)
    a, b = placements(name, 500, 32, rng)
    vert = framed(points, rotation(rng), 0.05 * rng.normal(size=3))
    walked, scanned = (_oracle.ShapePairs(KIND, a, b, vert, w) for w in (words, SCANNED))
    tangents = rng.normal(size=a.shape), rng.normal(size=b.shape)
    assert walked.tangent(*tangents).tobytes() == scanned.tangent(*tangents).tobytes()


@pytest.mark.parametrize("lanes", [1, 4, 8])
def test_gaps_below_far_are_kept(lanes: int, rng: np.random.Generator) -> None:
    """Keep every contact point nearer than the reach of a search, whatever ends early."""
    points, words = hull_of("ball", 500)
    a, b = placements("ball", 500, 400, rng)
    a[:, :3] = 0
    walked, scanned = (_oracle.ShapePairs(KIND, a, b, framed(points), w) for w in (words, SCANNED))
    expected = scanned.collide(lanes=lanes)
    lowest = float(np.median(expected[..., 0]))
    for far in (lowest, expected[7, 0, 0], np.nextafter(expected[7, 0, 0], 1.0)):
        found = walked.collide(lanes=lanes, far=far)
        near = (expected[..., 0] < far) & (expected[..., 7] > 0)
        assert ((found[..., 7] > 0) & (found[..., 0] < far) == near).all()
        assert (found[near] == expected[near]).all()
        assert 0 < near.sum() < near.size
    # where all of a hull is out of reach one vertex stands for it
    assert (walked.collide(lanes=lanes, far=-1.0)[..., 7].sum(axis=1) == 1).all()


@pytest.mark.parametrize("entry", range(15))
def test_poses_that_are_no_numbers_end(entry: int) -> None:
    """End a walk over scores that are no numbers, with a gap that is none either."""
    points, words = hull_of("ball", 500)
    b = np.concatenate([np.zeros(3), np.eye(3).ravel(), np.zeros(3)])[None]
    a = b.copy()
    b[0, entry] = np.nan
    touch = _oracle.ShapePairs(KIND, a, b, framed(points), words).collide()
    gap_moves = entry in (2, 9, 10, 11) or entry > 11
    assert np.isnan(touch[0, 0, 0]) or not gap_moves
