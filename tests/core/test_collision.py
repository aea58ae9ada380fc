"""Pair functions of core/collision/pairs.hpp: gaps, normals, points, manifolds, tangents, lanes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache

import mujoco
import numpy as np
import pytest

from featherback import _oracle
from featherback._core import pair_table
from featherback.model.hulls import hull_triangles, hull_words

# name -> kind and number of contact points
PAIRS = {name: (kind, slots) for name, kind, _, _, slots in pair_table()}
# those of height fields have tests of their own, in test_hfield.py
KINDS = tuple(name for name in PAIRS if not name.startswith("hfield-"))
# pairs with a closed form of their own; the others have one routine in common
CLOSED = (
    "plane-sphere plane-capsule plane-box plane-cylinder plane-ellipsoid plane-mesh sphere-sphere "
    "sphere-capsule sphere-box capsule-capsule capsule-box box-box"
).split()
CONVEX = [kind for kind in KINDS if kind not in CLOSED]
SEED = 20240607
NO_MESH = np.zeros((0, 3))

Array = np.ndarray


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator whose seed is printed."""
    print(f"seed {SEED}")
    return np.random.default_rng(SEED)


def rotation(rng: np.random.Generator) -> Array:
    """A random rotation matrix."""
    q, matrix = rng.normal(size=4), np.zeros(9)
    mujoco.mju_quat2Mat(matrix, q / np.linalg.norm(q))
    return matrix.reshape(3, 3)


def turn(axis: Array | list[float], angle: float) -> Array:
    """The rotation by an angle [rad] about an axis."""
    q, matrix = np.zeros(4), np.zeros(9)
    mujoco.mju_axisAngle2Quat(q, np.asarray(axis, dtype=float), angle)
    mujoco.mju_quat2Mat(matrix, q)
    return matrix.reshape(3, 3)


def shape(p: Array | list[float], R: Array, size: Array | list[float]) -> Array:
    """The 15 numbers of a shape."""
    return np.concatenate([p, np.ravel(R), size])


def random_pairs(rng: np.random.Generator, worlds: int, spread: float) -> tuple[Array, Array]:
    """Tables of shapes A and B with sizes of 5 to 30 cm, the centres about `spread` apart."""
    a, b = np.zeros((worlds, 15)), np.zeros((worlds, 15))
    for k in range(worlds):
        p = rng.normal(size=3) * 0.2
        a[k] = shape(p, rotation(rng), rng.uniform(0.05, 0.3, 3))
        b[k] = shape(p + rng.normal(size=3) * spread, rotation(rng), rng.uniform(0.05, 0.3, 3))
    return a, b


def hull(rng: np.random.Generator) -> Array:
    """Twenty points of an ellipsoid: all of them are hull vertices."""
    x = rng.normal(size=(20, 3))
    return x / np.linalg.norm(x, axis=1, keepdims=True) * [0.1, 0.2, 0.15]


def framed(points: Array, R: Array | None = None, p: Array | None = None) -> Array:
    """A mesh as the core reads it: its frame in the file's axes, its scale, its vertices."""
    R = np.eye(3) if R is None else R
    return np.vstack([R, np.zeros(3) if p is None else p, np.ones(3), points])


def mesh_of(kind: str, rng: np.random.Generator) -> Array:
    """A mesh in a frame of its own for the mesh kinds, none for the others."""
    if not kind.endswith("mesh"):
        return NO_MESH
    return framed(hull(rng), rotation(rng), 0.05 * rng.normal(size=3))


def mesh_points(mesh: Array, stretch: Array) -> Array:
    """The vertices of a mesh that is stretched about the origin and along the axes of its file."""
    R, p, points = mesh[:3], mesh[3], mesh[5:]
    return (((points @ R.T + p) * (1 + stretch)) - p) @ R


@cache
def _words(points: bytes) -> Array:
    """The topology of the hull of points that are all vertices of it; none for a flat hull."""
    text = " ".join(str(x) for x in np.frombuffer(points))
    try:
        model = mujoco.MjModel.from_xml_string(
            f'<mujoco><asset><mesh name="h" vertex="{text}"/></asset><worldbody>'
            '<geom type="mesh" mesh="h"/></worldbody></mujoco>'
        )
    except ValueError:
        return np.zeros(0, np.int32)
    triangles = hull_triangles(model, 0)
    start = model.mesh_graphadr[0] + 2 + model.mesh_graph[model.mesh_graphadr[0]]
    own = model.mesh_graph[start : start + model.mesh_graph[model.mesh_graphadr[0]]]
    return hull_words(np.frombuffer(points).reshape(-1, 3), own[triangles])


def words_of(vert: Array) -> Array:
    """The topology of a mesh as the core reads it."""
    return _words(vert[5:].astype(float).tobytes()) if len(vert) > 8 else np.zeros(0, np.int32)


def pairs(kind: str, a: Array, b: Array, vert: Array = NO_MESH) -> _oracle.ShapePairs:
    """Worlds of one kind of pair."""
    tables = np.atleast_2d(a), np.atleast_2d(b), vert
    return _oracle.ShapePairs(PAIRS[kind][0], *tables, words_of(vert))


def collide(kind: str, a: Array, b: Array, vert: Array = NO_MESH, **options: object) -> Array:
    """Touches (worlds, slots, 8): phi, n, p, on."""
    return pairs(kind, a, b, vert).collide(**options)


def lowest(touch: Array) -> Array:
    """The smallest gap over the slots that are on."""
    return np.where(touch[..., 7] > 0, touch[..., 0], np.inf).min(axis=-1)


def hull_planes(vert: Array, stretch: tuple[float, ...]) -> list[tuple[Array, float]]:
    """Outward normal and offset of every face of a stretched hull."""
    points, words = mesh_points(vert, np.array(stretch)), words_of(vert)
    starts = words[2 + len(points) : 3 + len(points) + words[0]]
    planes = []
    for first, last in itertools.pairwise(starts):
        x = points[words[first:last]]
        n = np.cross(x[len(x) // 3] - x[0], x[2 * len(x) // 3] - x[0])
        n = n / np.linalg.norm(n)
        planes.append((n, float(n @ x[0])))
    return planes


def signed_distance(name: str, s: Array, x: Array, vert: Array) -> float:
    """Signed distance of a point from a shape, zero on its surface; a hull counts by its planes."""
    local = s[3:12].reshape(3, 3).T @ (x - s[:3])
    size = s[12:]
    if name == "plane":
        return local[2]
    if name == "sphere":
        return float(np.linalg.norm(local)) - size[0]
    if name == "capsule":
        local[2] -= np.clip(local[2], -size[1], size[1])
        return float(np.linalg.norm(local)) - size[0]
    if name == "box":
        out = np.abs(local) - size
        return float(np.linalg.norm(np.maximum(out, 0))) + min(float(out.max()), 0.0)
    if name == "cylinder":
        radial = float(np.hypot(local[0], local[1])) - size[0]
        axial = abs(local[2]) - size[1]
        return max(radial, axial)
    if name == "ellipsoid":
        return float(np.linalg.norm(local / size)) - 1
    return max(n @ local - d for n, d in hull_planes(vert, tuple(size)))


def support(name: str, s: Array, n: Array) -> Array:
    """Largest n . x over a capsule or box, for rows n."""
    local = n @ s[3:12].reshape(3, 3)
    if name == "capsule":
        return n @ s[:3] + np.abs(local[:, 2]) * s[13] + s[12]
    return n @ s[:3] + np.abs(local) @ s[12:]


class Reference:
    """MuJoCo's distance between two geoms."""

    def __init__(self, kind: str, vert: Array) -> None:
        """Compile one geom of each type of the pair."""
        self.shapes = kind.split("-")
        points = " ".join(str(x) for x in vert[5:].ravel())
        asset = f'<asset><mesh name="h" vertex="{points}"/></asset>' if len(vert) else ""
        one, two = (
            'type="mesh" mesh="h"' if name == "mesh" else f'type="{name}" size="1 1 1"'
            for name in self.shapes
        )
        self.model = mujoco.MjModel.from_xml_string(
            '<mujoco><option ccd_tolerance="1e-10" ccd_iterations="200"/>'
            f"{asset}<worldbody><geom {one}/>"
            f'<body><freejoint/><geom {two} mass="1"/></body></worldbody></mujoco>'
        )
        self.data = mujoco.MjData(self.model)

    def distance(self, a: Array, b: Array) -> float:
        """The signed distance, exact where the shapes are apart."""
        return self.measured(a, b)[0]

    def measured(self, a: Array, b: Array) -> tuple[float, Array]:
        """The signed distance, and the direction from A to B of its points, zero if they meet."""
        m, d = self.model, self.data
        for k, (name, s) in enumerate(zip(self.shapes, (a, b), strict=True)):
            p, R = s[:3], s[3:12].reshape(3, 3)
            if name == "mesh":
                # the compiler moves a mesh to its centre of mass and principal axes
                frame = np.zeros(9)
                mujoco.mju_quat2Mat(frame, m.mesh_quat[0])
                p, R = p + R @ m.mesh_pos[0], R @ frame.reshape(3, 3)
            else:
                m.geom_size[k] = s[12:]
            d.geom_xpos[k], d.geom_xmat[k] = p, R.ravel()
        ends = np.zeros(6)
        gap = float(mujoco.mj_geomDistance(m, d, 0, 1, 10.0, ends))
        arm = (ends[3:] - ends[:3]) * np.sign(gap)
        length = float(np.linalg.norm(arm))
        return gap, arm / length if length > 0 else arm


@pytest.mark.parametrize("kind", CLOSED)
def test_gap_agrees_with_mujoco(kind: str, rng: np.random.Generator) -> None:
    """Agree with MuJoCo's distance to round-off where both are exact."""
    vert = mesh_of(kind, rng)
    reference = Reference(kind, vert)
    a, b = random_pairs(rng, 400, 0.35)
    if kind.endswith("mesh"):
        b[:, 12:] = 0.0
    expected = np.array([reference.distance(*pair) for pair in zip(a, b, strict=True)])
    error = lowest(collide(kind, a, b, vert)) - expected
    near = expected < 0.05
    if kind in ("capsule-box", "box-box"):
        near &= expected > 0
    tolerance = np.full(len(a), 1e-6 if kind.endswith("mesh") else 1e-12)
    if kind == "box-box":
        # a face may miss the closest point by one per cent of the smallest half extent
        tolerance += 1.1e-2 * np.minimum(a[:, 12:].min(axis=1), b[:, 12:].min(axis=1))
    assert near.sum() > 30
    assert np.all(np.abs(error[near]) <= tolerance[near])


@pytest.mark.parametrize("kind", ["capsule-box", "box-box"])
def test_depth_agrees_with_sampled_directions(kind: str, rng: np.random.Generator) -> None:
    """Report the least translation that parts two shapes, up to the bias towards faces."""
    one, two = kind.split("-")
    a, b = random_pairs(rng, 200, 0.12)
    phi = lowest(collide(kind, a, b))
    assert (phi < 0).sum() > 100
    for s, t, gap in zip(a[phi < 0], b[phi < 0], phi[phi < 0], strict=True):
        axes = [
            np.cross(x, y)
            for x, y in itertools.product(s[3:12].reshape(3, 3).T, t[3:12].reshape(3, 3).T)
        ]
        n = np.concatenate([rng.normal(size=(3000, 3)), axes, s[3:12].reshape(3, 3).T])
        n = np.concatenate([n, t[3:12].reshape(3, 3).T])
        n = n / np.linalg.norm(n, axis=1, keepdims=True)
        n = np.concatenate([n, -n])
        depth = float((support(one, s, n) + support(two, t, -n)).min())
        # the best direction of a round capsule lies between the samples, a few degrees off
        assert -gap <= 1.06 * depth + 1e-3
        assert -gap >= depth - 5e-3


def padding(name: str, s: Array, n: Array) -> float:
    """How far off its surface a cylinder is touched that lies on a face: its axis is padded there.

    The radius goes along the normal, which leans by at most 0.05 rad.
    """
    lean = abs(n @ s[3:12].reshape(3, 3)[:, 2])
    return float(s[12] * lean) if name == "cylinder" and lean < 0.05 else 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_touch_points_lie_on_both_surfaces(kind: str, rng: np.random.Generator) -> None:
    """Put p - n phi / 2 on A and p + n phi / 2 on B: on the surface in the lowest slot."""
    one, two = kind.split("-")
    vert = mesh_of(kind, rng)
    a, b = random_pairs(rng, 300, 0.3)
    touch = collide(kind, a, b, vert)
    assert np.allclose(np.linalg.norm(touch[..., 1:4], axis=-1), 1, atol=1e-14)
    for w, slot in zip(*np.nonzero(touch[..., 7]), strict=True):
        phi, n, p = touch[w, slot, 0], touch[w, slot, 1:4], touch[w, slot, 4:7]
        gaps = [
            signed_distance(one, a[w], p - n * phi / 2, vert),
            signed_distance(two, b[w], p + n * phi / 2, vert),
        ]
        padded = padding(one, a[w], n) + padding(two, b[w], n) if kind in CONVEX else 0.0
        assert max(gaps) < 1e-9 + padded
        # inside a box the bias towards faces may choose a normal a little off the capsule's own
        slack = 1e-2 if kind == "capsule-box" and phi < -a[w, 12] else 1e-9 + padded
        # slots over a face are as deep as the shapes to a tolerance
        slack += 1e-3 * 0.6 + 0.05 * abs(phi) if touch[w, :, 7].sum() > 1 and kind in CONVEX else 0
        assert min(gaps) > -slack or phi > lowest(touch[w])


@pytest.mark.parametrize("kind", KINDS)
def test_touch_moves_with_the_world(kind: str, rng: np.random.Generator) -> None:
    """Keep gaps and turn normals and points along when both shapes are moved rigidly."""
    vert = mesh_of(kind, rng)
    a, b = random_pairs(rng, 100, 0.3)
    R, shift = rotation(rng), rng.normal(size=3)

    def moved(s: Array) -> Array:
        return shape(R @ s[:3] + shift, R @ s[3:12].reshape(3, 3), s[12:])

    here = collide(kind, a, b, vert)
    there = collide(kind, np.array([moved(s) for s in a]), np.array([moved(s) for s in b]), vert)
    on = here[..., 7] > 0
    assert np.array_equal(here[..., 7], there[..., 7])
    assert np.allclose(here[on, 0], there[on, 0], atol=1e-10)
    assert np.allclose(here[on, 1:4] @ R.T, there[on, 1:4], atol=1e-9)
    assert np.allclose(here[on, 4:7] @ R.T + shift, there[on, 4:7], atol=1e-9)


@pytest.mark.parametrize("kind", ["sphere-sphere", "capsule-capsule", "box-box"])
def test_touch_reverses_when_shapes_swap(kind: str, rng: np.random.Generator) -> None:
    """Give the same gap and the opposite normal when A and B change places."""
    a, b = random_pairs(rng, 200, 0.35)
    here, there = collide(kind, a, b), collide(kind, b, a)
    slack = 1e-12 if kind != "box-box" else 1e-4 * 0.3
    assert np.allclose(lowest(here), lowest(there), atol=slack)
    single = (here[..., 7].sum(axis=1) == 1) & (there[..., 7].sum(axis=1) == 1)
    assert np.allclose(here[single, 0, 1:4], -there[single, 0, 1:4], atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lanes", [4, 8])
def test_lanes_give_the_bits_of_one_world(kind: str, lanes: int, rng: np.random.Generator) -> None:
    """Return the same bits from lanes as from one world, in double and in float."""
    vert = mesh_of(kind, rng)
    a, b = random_pairs(rng, 203, 0.3)
    assert np.array_equal(collide(kind, a, b, vert), collide(kind, a, b, vert, lanes=lanes))
    one = collide(kind, a, b, vert, single=True)
    assert np.array_equal(one, collide(kind, a, b, vert, lanes=lanes, single=True))


@pytest.mark.parametrize("kind", KINDS)
def test_float_agrees_with_double(kind: str, rng: np.random.Generator) -> None:
    """Find the same gap in float32 to a few units in its last place."""
    vert = mesh_of(kind, rng)
    a, b = random_pairs(rng, 300, 0.3)
    error = lowest(collide(kind, a, b, vert, single=True)) - lowest(collide(kind, a, b, vert))
    assert np.quantile(np.abs(error), 0.98) < 1e-6
    assert np.all(np.abs(error) < 1e-2)


def tangent(s: Array, twist: Array, size_tan: Array) -> Array:
    """Tangent of the 15 numbers under a world twist (angular, linear) about the origin."""
    w, v = twist[:3], twist[3:]
    R_tan = np.cross(w, s[3:12].reshape(3, 3).T).T
    return np.concatenate([v + np.cross(w, s[:3]), R_tan.ravel(), size_tan])


def moved_along(s: Array, twist: Array, size_tan: Array, step: float) -> Array:
    """The shape after `step` along a twist, to first order in position, exact in rotation."""
    w, v = twist[:3] * step, twist[3:] * step
    angle = float(np.linalg.norm(w))
    R = turn(w / angle, angle) if angle > 0 else np.eye(3)
    return shape(R @ s[:3] + v, R @ s[3:12].reshape(3, 3), s[12:] + size_tan * step)


@pytest.mark.parametrize("kind", KINDS)
def test_tangent_agrees_with_finite_differences(kind: str, rng: np.random.Generator) -> None:
    """Carry gaps, normals and points to first order in poses and sizes, away from switches."""
    vert = mesh_of(kind, rng)
    a, b = random_pairs(rng, 300, 0.3)
    step, checked = 1e-6, 0
    for s, t in zip(a, b, strict=True):
        twists, sizes = rng.normal(size=(2, 6)), rng.normal(size=(2, 3)) * 0.1
        tans = [tangent(s, twists[0], sizes[0]), tangent(t, twists[1], sizes[1])]
        exact = pairs(kind, s, t, vert).tangent(tans[0][None], tans[1][None])[0]
        runs = [
            collide(
                kind,
                moved_along(s, twists[0], sizes[0], e),
                moved_along(t, twists[1], sizes[1], e),
                vert,
            )[0]
            for e in (-step, -step / 2, 0.0, step / 2, step)
        ]
        on = runs[2][:, 7] > 0
        difference = (runs[4] - runs[0])[on, :7] / (2 * step)
        finer = (runs[3] - runs[1])[on, :7] / step
        scale = 1 + np.abs(difference).max()
        # a switch between the five runs shows as two differences that disagree
        if np.abs(difference - finer).max() > 1e-5 * scale:
            continue
        checked += 1
        assert np.abs(exact[on] - finer).max() <= 2e-5 * scale
    assert checked >= 280


def test_degenerate_shapes_give_finite_unit_normals() -> None:
    """Give finite numbers and unit normals for coincident, parallel and zero-length shapes."""
    turns = [np.eye(3), turn([1, 0, 0], np.pi / 2), turn([0, 0, 1], np.pi / 2)]
    sizes = [[0.1, 0.2, 0.3], [0.1, 0.0, 0.1], [0.1, 0.1, 0.1]]
    shifts = [[0.0, 0, 0], [0.1, 0, 0], [0, 0.2, 0], [0, 0, 0.3], [0.1, 0.1, 0.1]]
    point = framed(np.zeros((3, 3)))
    for kind, R, Q, size, shift in itertools.product(KINDS, turns, turns, sizes, shifts):
        a, b = shape([0.0, 0, 0], R, size), shape(shift, Q, size)
        vert = point if kind.endswith("mesh") else NO_MESH
        touch = collide(kind, a, b, vert)
        assert np.isfinite(touch).all(), (kind, touch)
        assert np.allclose(np.linalg.norm(touch[..., 1:4], axis=-1), 1, atol=1e-14), kind
        assert touch[..., 7].any(), kind
        zero = np.zeros((1, 15))
        tans = pairs(kind, a, b, vert).tangent(zero, zero + 1)
        assert np.isfinite(tans[touch[..., 7] > 0]).all(), kind


def drift(rng: np.random.Generator) -> tuple[Callable[[float], tuple[Array, Array]], float]:
    """A path of a pair of shapes in [0, 1] and a bound on the speed of any surface point."""
    a, b = (table[0] for table in random_pairs(rng, 1, 0.25))
    velocity, spin = rng.normal(size=3) * 0.3, rng.normal(size=3) * 2

    def at(time: float) -> tuple[Array, Array]:
        angle = float(np.linalg.norm(spin)) * time
        R = turn(spin / np.linalg.norm(spin), angle) @ b[3:12].reshape(3, 3)
        return a, shape(b[:3] + velocity * time, R, b[12:])

    reach = float(np.linalg.norm(b[12:])) + 0.3
    return at, float(np.linalg.norm(velocity) + np.linalg.norm(spin) * reach)


@pytest.mark.parametrize("kind", KINDS)
def test_lowest_gap_has_no_jump(kind: str, rng: np.random.Generator) -> None:
    """Change the lowest gap by no more than the surfaces move, whatever slots switch."""
    vert = mesh_of(kind, rng)
    for _ in range(20):
        at, speed = drift(rng)
        pairs = [at(time) for time in np.linspace(0, 1, 401)]
        touch = collide(
            kind, np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs]), vert
        )
        phi = lowest(touch)
        # bias towards faces: five per cent of the depth, one of the smallest half extent
        slack = 0.06 * np.abs(phi[1:]) + 0.011 * 0.3 if kind in ("capsule-box", "box-box") else 1e-9
        # slots over a face: (CV.19)
        slack = 0.05 * np.abs(phi[1:]) + 1e-3 * 0.6 if kind in CONVEX else slack
        assert np.all(np.abs(np.diff(phi)) <= speed / 400 + slack)


def test_flat_shapes_rest_on_full_manifolds() -> None:
    """Support resting shapes at the points that keep them from tipping."""
    ground = shape([0.0, 0, 0], np.eye(3), [0.0, 0, 0])
    lying = turn([1, 0, 0], np.pi / 2)

    def feet(kind: str, a: Array, b: Array, vert: Array = NO_MESH) -> Array:
        touch = collide(kind, a, b, vert)[0]
        return touch[(touch[:, 7] > 0) & (np.abs(touch[:, 0]) < 1e-9)]

    assert len(feet("plane-box", ground, shape([0, 0, 0.1], np.eye(3), [0.2, 0.3, 0.1]))) == 4
    assert len(feet("plane-capsule", ground, shape([0, 0, 0.1], lying, [0.1, 0.3, 0]))) == 2
    assert len(feet("plane-cylinder", ground, shape([0, 0, 0.1], lying, [0.1, 0.3, 0]))) == 2
    assert len(feet("plane-cylinder", ground, shape([0, 0, 0.3], np.eye(3), [0.1, 0.3, 0]))) == 3
    cube = framed(np.array(list(itertools.product([-0.1, 0.1], repeat=3))))
    assert len(feet("plane-mesh", ground, shape([0, 0, 0.1], np.eye(3), [0.0, 0, 0]), cube)) == 4

    box = shape([0.0, 0, 0], np.eye(3), [0.2, 0.2, 0.1])
    assert len(feet("box-box", box, shape([0.0, 0, 0.2], np.eye(3), [0.2, 0.2, 0.1]))) == 4
    assert len(feet("box-box", box, shape([0.1, 0.05, 0.3], np.eye(3), [0.2, 0.2, 0.2]))) == 4
    turned = shape([0.0, 0, 0.2], turn([0, 0, 1], np.pi / 4), [0.2, 0.2, 0.1])
    assert len(feet("box-box", box, turned)) == 8
    log = shape([0.0, 0, 0.2], lying, [0.1, 0.15, 0])
    assert len(feet("capsule-box", log, box)) == 2
    assert len(feet("capsule-capsule", log, shape([0.0, 0.1, 0.4], lying, [0.1, 0.3, 0]))) == 2


def test_long_capsule_rests_on_both_edges_of_a_narrow_box() -> None:
    """Support an overhanging capsule at two edges, also under a tilt of round-off size."""
    box = shape([0.0, 0, 0], np.eye(3), [0.05, 0.05, 0.1])
    for tilt in (0.0, 1e-12, -1e-12):
        log = shape([0.0, 0, 0.15], turn([1, 0, 0], np.pi / 2 + tilt), [0.05, 0.5, 0])
        touch = collide("capsule-box", log, box)[0]
        on = touch[touch[:, 7] > 0]
        assert sorted(np.round(on[:, 5], 6)) == [-0.05, 0.05]
        assert np.allclose(on[:, 0], 0, atol=1e-9)


@pytest.mark.parametrize("angle", [0.01, 0.03, 0.045, 0.06])
def test_parallel_capsules_split_continuously(angle: float) -> None:
    """Go from two touches to one without a jump as the axes turn away from each other."""
    lying = turn([1, 0, 0], np.pi / 2)
    a = shape([0.0, 0, 0], lying, [0.1, 0.3, 0])
    near, far = (
        collide(
            "capsule-capsule", a, shape([0, 0, 0.21], turn([0, 0, 1], t) @ lying, [0.1, 0.3, 0])
        )
        for t in (angle, angle + 1e-7)
    )
    assert np.abs(near - far).max() < 1e-4
    assert near[0, :, 7].sum() == (1 if angle > 0.05 else 2)


def test_cylinder_keeps_its_feet_while_it_stands() -> None:
    """Hold a standing cylinder's support points still under tilts of round-off size."""
    ground = shape([0.0, 0, 0], np.eye(3), [0.0, 0, 0])
    still = collide("plane-cylinder", ground, shape([0, 0, 0.3], np.eye(3), [0.1, 0.3, 0]))
    for axis in ([1.0, 0, 0], [0, 1.0, 0], [-1.0, 1.0, 0]):
        tilted = shape(
            [0, 0, 0.3], turn(np.array(axis) / np.linalg.norm(axis), 1e-6), [0.1, 0.3, 0]
        )
        assert np.abs(collide("plane-cylinder", ground, tilted) - still).max() < 1e-6
