"""The convex routine: distances and normals against two references, manifolds, hulls."""

from __future__ import annotations

import itertools

import mujoco
import numpy as np
import pytest

from featherback.model.hulls import MOST_CORNERS, hull_triangles, hull_words, merged_faces
from tests.core.placing import SIZES
from tests.core.test_collision import (
    CONVEX,
    NO_MESH,
    SEED,
    Array,
    Reference,
    collide,
    framed,
    lowest,
    mesh_of,
    pairs,
    rotation,
    shape,
    turn,
    words_of,
)

kinds = pytest.mark.parametrize("kind", CONVEX)
RIGHT = [np.eye(3), turn([1, 0, 0], np.pi / 2), turn([0, 1, 0], np.pi / 2)]


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator whose seed is printed."""
    print(f"seed {SEED}")
    return np.random.default_rng(SEED)


def extents(name: str, s: Array, n: Array, vert: Array) -> Array:
    """Largest n . x over a shape, for rows n."""
    q, size = n @ s[3:12].reshape(3, 3), s[12:]
    if name == "sphere":
        reach = np.full(len(n), size[0])
    elif name == "capsule":
        reach = np.abs(q[:, 2]) * size[1] + size[0]
    elif name == "ellipsoid":
        reach = np.linalg.norm(q * size, axis=1)
    elif name == "cylinder":
        reach = np.hypot(q[:, 0], q[:, 1]) * size[0] + np.abs(q[:, 2]) * size[1]
    elif name == "box":
        reach = np.abs(q) @ size
    else:
        reach = (q @ vert[5:].T).max(axis=1)
    return n @ s[:3] + reach


def separation(kind: str, a: Array, b: Array, n: Array, vert: Array) -> Array:
    """How far two shapes are apart along each direction n from A to B."""
    one, two = kind.split("-")
    return -extents(two, b, -n, vert) - extents(one, a, n, vert)


def placed(kind: str, rng: np.random.Generator, worlds: int, vert: Array) -> tuple[Array, Array]:
    """Shapes at gaps from -3 to 5 mm, or touching; a third of them with parallel axes."""
    one, two = kind.split("-")
    a, b = np.zeros((worlds, 15)), np.zeros((worlds, 15))
    for k in range(worlds):
        R = rotation(rng)
        Q = rotation(rng)
        step = rng.normal(size=3) * 0.1
        if k % 3 == 0:
            axis = rng.normal(size=3)
            tilt = turn(axis / np.linalg.norm(axis), rng.choice([0.0, 1e-9, 1e-6, 1e-3, 0.03]))
            Q = tilt @ R @ RIGHT[rng.integers(3)]
            step = R @ (
                np.eye(3)[rng.integers(3)] * 0.2 + rng.normal(size=3) * rng.choice([0, 0.03])
            )
        p = rng.normal(size=3)
        a[k], b[k] = shape(p, R, SIZES[one]), shape(p + step, Q, SIZES[two])
    gap = rng.uniform(-3e-3, 5e-3, worlds)
    gap[::7] = rng.choice([0.0, 1e-9, -1e-9, 1e-6], len(gap[::7]))
    for _ in range(2):
        found = pairs(kind, a, b, vert).closest()
        b[:, :3] += found[:, 1:4] * (gap - found[:, 0])[:, None]
    return a, b


@kinds
def test_distance_and_normal_against_mujoco_and_all_directions(
    kind: str, rng: np.random.Generator
) -> None:
    """Agree with MuJoCo's distance; have the gap along the normal, and a larger one nowhere.

    The separation along any direction bounds the distance from below and is largest along the true
    normal, apart and in overlap: the second reference needs no search.
    """
    vert = mesh_of(kind, rng)
    a, b = placed(kind, rng, 600, vert)
    found = pairs(kind, a, b, vert).closest()
    reference = Reference(kind, vert)
    expected = np.array([reference.distance(*pair) for pair in zip(a, b, strict=True)])
    error = np.abs(found[:, 0] - expected)
    # MuJoCo keeps hulls in float32, and ends its search of curved shapes at 1e-10
    assert np.quantile(error, 0.98) < (2e-8 if "mesh" in kind else 2e-10)
    assert found[:, 7].mean() >= 0.995
    along, better = np.zeros(len(a)), np.zeros(len(a))
    for k, (s, t, touch) in enumerate(zip(a, b, found, strict=True)):
        gap, normal = touch[0], touch[1:4]
        assert abs(np.linalg.norm(normal) - 1) < 1e-12
        along[k] = abs(separation(kind, s, t, normal[None], vert)[0] - gap)
        near = normal + rng.normal(size=(100, 3)) * 10.0 ** rng.uniform(-7, 0, (100, 1))
        tried = np.concatenate([rng.normal(size=(100, 3)), near])
        tried /= np.linalg.norm(tried, axis=1, keepdims=True)
        better[k] = separation(kind, s, t, tried, vert).max() - gap
    # flat sides of a cylinder along those of the other but for 1e-6 rad have no regular pieces
    for miss in (along, better):
        assert np.quantile(miss, 0.99) < (1e-9 if "cylinder" in kind else 1e-12)
        assert miss.max() < (1e-7 if "cylinder" in kind else 1e-8)


@kinds
def test_distance_in_float_is_close(kind: str, rng: np.random.Generator) -> None:
    """Find the same distance in float32 to a few units in its last place."""
    vert = mesh_of(kind, rng).astype(np.float32).astype(float)
    a, b = (x.astype(np.float32).astype(float) for x in placed(kind, rng, 400, vert))
    wide, narrow = (pairs(kind, a, b, vert).closest(single=single) for single in (False, True))
    error = np.abs(wide[:, 0] - narrow[:, 0])
    assert np.quantile(error, 0.98) < 2e-7
    assert error.max() < 2e-5
    # the slots of a step do not need that record where flat sides lie along each other
    wide, narrow = (lowest(collide(kind, a, b, vert, single=single)) for single in (False, True))
    assert np.quantile(np.abs(wide - narrow), 0.98) < 5e-7


@kinds
def test_search_ends_early_beyond_the_gap_that_matters(kind: str, rng: np.random.Generator) -> None:
    """Give the slots of an endless search or none, and none only to shapes farther apart."""
    vert = mesh_of(kind, rng)
    a, b = placed(kind, rng, 300, vert)
    every = collide(kind, a, b, vert)
    gap = pairs(kind, a, b, vert).closest()[:, 0]
    for far in (-1e-3, 0.0, 1e-3, 4e-3):
        near = collide(kind, a, b, vert, far=far)
        given = near[..., 7].any(axis=1)
        assert np.array_equal(near[given], every[given])
        left_out = np.minimum(gap, lowest(every))[~given]
        assert np.all(np.maximum(gap, lowest(every))[~given] > far - 1e-12)
        assert np.all(np.minimum(gap, lowest(every))[given] <= far + 1e-12)
        # where a face carries the slots its lowest may lie a little below the gap of the shapes
        assert np.all(left_out > far - 1e-3 * 0.2 - 0.05 * abs(far))


@kinds
def test_lowest_slot_has_the_distance(kind: str, rng: np.random.Generator) -> None:
    """Have a slot at the distance of the shapes, to the tolerance of a face that carries slots."""
    vert = mesh_of(kind, rng)
    a, b = placed(kind, rng, 400, vert)
    gap = pairs(kind, a, b, vert).closest()[:, 0]
    touch = collide(kind, a, b, vert)
    count, error = touch[..., 7].sum(axis=1), np.abs(lowest(touch) - gap)
    carrier = pairs(kind, a, b, vert).features()[:, 0, 0].astype(int) & 3
    assert np.all(count >= 1)
    assert np.all(error[(count == 1) & (carrier == 0)] == 0)
    assert np.all(error <= 1e-3 * 0.2 + 0.05 * np.abs(gap) + 1e-9)


def cube(half: float) -> Array:
    """A cube as a mesh."""
    return framed(np.array(list(itertools.product([-half, half], repeat=3))))


def prism(sides: int, radius: float, half: float) -> Array:
    """A prism as a mesh."""
    angle = np.arange(sides) * 2 * np.pi / sides
    rim = np.c_[radius * np.cos(angle), radius * np.sin(angle)]
    return framed(np.vstack([np.c_[rim, np.full(sides, z)] for z in (-half, half)]))


LYING = turn([1, 0, 0], np.pi / 2)
SLAB, DISC, LOG, MESH = [0.3, 0.3, 0.1], [0.1, 0.1, 0.0], [0.1, 0.3, 0.0], [0.0, 0.0, 0.0]
SCENES = {
    # name: kind, sizes of the lower and the upper shape, both rotations, height, mesh, slots
    "cube on box": ("box-mesh", SLAB, MESH, np.eye(3), 0.2, cube(0.1), 4),
    "cube on cube": ("mesh-mesh", MESH, MESH, np.eye(3), 0.2, cube(0.1), 4),
    "prism on box": ("box-mesh", SLAB, MESH, np.eye(3), 0.15, prism(40, 0.1, 0.05), 8),
    "cylinder stands": ("cylinder-cylinder", DISC, DISC, np.eye(3), 0.2, NO_MESH, 8),
    "cylinder lies beside": ("cylinder-cylinder", LOG, LOG, LYING, 0.2, NO_MESH, 2),
    "capsule lies beside": ("capsule-cylinder", LOG, LOG, LYING, 0.2, NO_MESH, 2),
}


@pytest.mark.parametrize("name", SCENES)
def test_faces_and_axes_touch_at_several_points_that_stand_still(
    name: str, rng: np.random.Generator
) -> None:
    """Support shapes that rest on each other, at the same points under tilts of any small size."""
    kind, lower, upper, R, height, vert, count = SCENES[name]
    a = shape([0.0, 0, 0], R, lower)
    flat = collide(kind, a, shape([0, 0, height - 1e-4], R, upper), vert)[0]
    on = flat[:, 7] > 0
    assert on.sum() == count
    assert np.abs(flat[on, 0] + 1e-4).max() < 1e-9
    for size in (1e-9, 1e-6, 1e-4):
        for _ in range(10):
            tilt = rng.normal(size=3)
            b = shape([0, 0, height - 1e-4], turn(tilt / np.linalg.norm(tilt), size) @ R, upper)
            touch = collide(kind, a, b, vert)[0]
            points = touch[touch[:, 7] > 0, 4:7]
            moved = np.linalg.norm(points[:, None] - flat[None, on, 4:7], axis=2)
            assert moved.min(axis=0).max() < 2 * size + 1e-8
            assert moved.min(axis=1).max() < 2 * size + 1e-8


@pytest.mark.parametrize(
    ("kind", "one", "two", "depth"),
    [
        ("capsule-ellipsoid", [0.04, 0.1, 0], [0.08, 0.08, 0.05], 0.12),
        ("capsule-ellipsoid", [0.04, 0.01, 0], [0.1, 0.0999, 0.05], 0.1),
        ("ellipsoid-ellipsoid", [0.1, 0.07, 0.0701], [0.1, 0.07, 0.0701], 0.14),
        ("ellipsoid-cylinder", [0.1, 0.1, 0.1], [0.06, 0.1, 0], 0.16),
        ("capsule-cylinder", [0.04, 0.1, 0], [0.06, 0.1, 0], 0.1),
        ("cylinder-cylinder", [0.06, 0.1, 0], [0.06, 0.1, 0], 0.12),
        ("cylinder-cylinder", [0.1, 0.03, 0], [0.09, 0.02, 0], 0.05),
    ],
)
def test_shapes_in_one_pose_part_along_the_shortest_way(
    kind: str, one: list[float], two: list[float], depth: float, rng: np.random.Generator
) -> None:
    """Find the least of many directions of about the same depth, also at small tilts."""
    for tilt in (0.0, 1e-12, 1e-9, 1e-6, 1e-3):
        R, p = rotation(rng), rng.normal(size=3)
        axis = rng.normal(size=3)
        Q = turn(axis / np.linalg.norm(axis), tilt) @ R
        a, b = shape(p, R, one), shape(p, Q, two)
        found = pairs(kind, a, b).closest()[0]
        along = separation(kind, a, b, found[None, 1:4], NO_MESH)[0]
        assert abs(along - found[0]) < 1e-9
        # a tilt takes the ends of the shapes away from each other
        assert abs(found[0] + depth) < 1e-9 + 0.1 * tilt
        assert found[7] == 1


def test_rods_that_cross_touch_where_they_do() -> None:
    """Touch once in the middle where nearly parallel thin rods cross, not at their far ends."""
    lying = turn([1, 0, 0], np.pi / 2)
    for kind in ("capsule-cylinder", "cylinder-cylinder"):
        a = shape([0.0, 0, 0], lying, [0.002, 0.3, 0])
        b = shape([0, 0, 0.0035], turn([0, 0, 1], 0.02) @ lying, [0.002, 0.3, 0])
        touch = collide(kind, a, b)[0]
        on = touch[touch[:, 7] > 0]
        assert len(on) == 1
        assert np.allclose(on[0, :4], [-5e-4, 0, 0, 1], atol=1e-9)
        assert np.allclose(on[0, 4:6], 0, atol=1e-9)


def test_cylinder_rests_on_a_box_by_its_end_and_its_side() -> None:
    """Touch a box at eight points of a rim, or at the two ends of a line."""
    box = shape([0.0, 0, 0], np.eye(3), [0.3, 0.3, 0.1])
    standing = shape([0.0, 0, 0.2], np.eye(3), [0.05, 0.1, 0])
    lying = shape([0.0, 0, 0.15], LYING, [0.05, 0.1, 0])
    for upper, count in ((standing, 8), (lying, 2)):
        touch = collide("cylinder-box", upper, box)[0]
        on = touch[:, 7] > 0
        assert on.sum() == count
        assert np.abs(touch[on, 0]).max() < 1e-12
        assert np.allclose(touch[on, 1:4], [0, 0, -1], atol=1e-12)
        assert np.allclose(touch[on, 4:7].mean(axis=0), [0, 0, 0.1], atol=1e-12)


def test_flat_hull_and_point_hull_have_finite_contacts() -> None:
    """Give finite numbers and unit normals for a sheet, a stick and a point as meshes."""
    corners = np.array(list(itertools.product([-0.1, 0.1], repeat=3)))
    for squash in ([1, 1, 0], [1, 0, 0], [0, 0, 0]):
        vert = framed(corners * squash)
        for kind, p in itertools.product(CONVEX, ([0.0, 0, 0], [0, 0, 0.05], [0.3, 0, 0])):
            if not kind.endswith("mesh"):
                continue
            one = SIZES[kind.split("-")[0]]
            a, b = shape([0.0, 0, 0], np.eye(3), one), shape(p, np.eye(3), [0, 0, 0])
            touch = collide(kind, a, b, vert)[0]
            on = touch[:, 7] > 0
            assert on.any()
            assert np.isfinite(touch).all()
            assert np.allclose(np.linalg.norm(touch[:, 1:4], axis=1), 1)


def compiled(points: Array) -> mujoco.MjModel:
    """Compile a mesh."""
    text = " ".join(str(x) for x in points.ravel())
    return mujoco.MjModel.from_xml_string(
        f'<mujoco><asset><mesh name="h" vertex="{text}"/></asset><worldbody>'
        '<geom type="mesh" mesh="h"/></worldbody></mujoco>'
    )


def test_large_hull_is_walked_to_the_farthest_vertex(rng: np.random.Generator) -> None:
    """Find the distances of a hull that is walked where a scan finds them."""
    x = rng.normal(size=(300, 3))
    vert = framed(x / np.linalg.norm(x, axis=1, keepdims=True) * [0.1, 0.2, 0.15])
    a, b = placed("mesh-mesh", rng, 200, vert)
    walked = pairs("mesh-mesh", a, b, vert).closest()
    assert len(words_of(vert)) > 0
    assert walked[:, 7].all()
    for s, t, touch in zip(a, b, walked, strict=True):
        assert abs(separation("mesh-mesh", s, t, touch[None, 1:4], vert)[0] - touch[0]) < 1e-12


def test_coplanar_triangles_are_one_face() -> None:
    """Merge the triangles of a cube and of a prism; thin out a face of many corners."""
    for points, sizes in (
        (cube(0.1)[5:], [4] * 6),
        (prism(12, 0.1, 0.05)[5:], [4] * 12 + [12] * 2),
        (prism(60, 0.1, 0.05)[5:], [4] * 60 + [MOST_CORNERS] * 2),
    ):
        model = compiled(points)
        start = int(model.mesh_vertadr[0])
        own = model.mesh_vert[start : start + model.mesh_vertnum[0]].astype(float)
        graph, n = int(model.mesh_graphadr[0]), int(model.mesh_graph[model.mesh_graphadr[0]])
        own = own[model.mesh_graph[graph + 2 + n : graph + 2 + 2 * n]]
        words = hull_words(own, hull_triangles(model, 0))
        faces = words[0]
        starts = words[2 + n : 3 + n + faces]
        assert sorted(np.diff(starts)) == sizes
        for first, last in itertools.pairwise(starts):
            x = own[words[first:last]]
            normal = np.cross(x[len(x) // 3] - x[0], x[2 * len(x) // 3] - x[0])
            normal /= np.linalg.norm(normal)
            # outward, and no vertex beyond
            assert (own @ normal).max() < x[0] @ normal + 1e-6
            assert np.abs((x - x[0]) @ normal).max() < 1e-6


def test_faces_of_a_round_hull_are_its_triangles(rng: np.random.Generator) -> None:
    """Leave triangles in different planes alone, and name each once."""
    x = rng.normal(size=(40, 3))
    model = compiled(x / np.linalg.norm(x, axis=1, keepdims=True))
    triangles = hull_triangles(model, 0)
    faces = merged_faces(x, triangles)
    assert len(faces) == len(triangles) == 2 * 40 - 4
    assert all(sorted(loop) == members for loop, members in faces)
