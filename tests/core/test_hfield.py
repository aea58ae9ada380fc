"""Height fields against convex shapes: gaps, normals, points, flat ground, borders, lanes."""

from __future__ import annotations

import itertools

import mujoco
import numpy as np
import pytest

from tests.core.fields import (
    KINDS,
    SIZES,
    Field,
    bumpy,
    collide,
    level,
    mesh_of,
    over,
    pairs,
    settled,
)
from tests.core.test_collision import (
    NO_MESH,
    SEED,
    Array,
    lowest,
    rotation,
    shape,
    signed_distance,
    turn,
)
from tests.core.test_collision import collide as collide_convex

kinds = pytest.mark.parametrize("kind", KINDS)
# a field in the middle of the world
HERE = shape([0.0, 0, 0], np.eye(3), [0, 0, 0])


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator whose seed is printed."""
    print(f"seed {SEED}")
    return np.random.default_rng(SEED)


class Prisms:
    """The prisms under the triangles of a field as meshes of MuJoCo, and one shape over them."""

    def __init__(self, kind: str, field: Field, vert: Array, as_field: bool = False) -> None:
        """Compile them; as_field: MuJoCo's own height field instead of the meshes."""
        self.name, self.field, self.vert = kind.split("-")[1], field, vert
        assets, geoms = [], []
        if as_field:
            rows, columns = field.data.shape
            text = " ".join(map(str, field.data[::-1].ravel()))
            size = " ".join(map(str, field.size))
            assets.append(
                f'<hfield name="f" nrow="{rows}" ncol="{columns}" size="{size}" '
                f'elevation="{text}"/>'
            )
            geoms.append('<geom type="hfield" hfield="f"/>')
        for k, top in enumerate([] if as_field else field.triangles()):
            base = top.copy()
            base[:, 2] = -field.size[3]
            text = " ".join(map(str, np.r_[base, top].ravel()))
            assets.append(f'<mesh name="p{k}" vertex="{text}"/>')
            geoms.append(f'<geom type="mesh" mesh="p{k}"/>')
        points = " ".join(map(str, vert[5:].ravel()))
        own = f'type="{self.name}" size="1 1 1"'
        if self.name == "mesh":
            assets.append(f'<mesh name="h" vertex="{points}"/>')
            own = 'type="mesh" mesh="h"'
        self.model = mujoco.MjModel.from_xml_string(
            '<mujoco><option ccd_tolerance="1e-10" ccd_iterations="200"/>'
            f"<asset>{''.join(assets)}</asset><worldbody>{''.join(geoms)}"
            f'<body><freejoint/><geom {own} mass="1"/></body></worldbody></mujoco>'
        )
        self.data = mujoco.MjData(self.model)
        mujoco.mj_forward(self.model, self.data)

    def place(self, a: Array, b: Array) -> None:
        """Put the shape where it lies as seen from the field."""
        m, d, g = self.model, self.data, self.model.ngeom - 1
        R = a[3:12].reshape(3, 3)
        p, Q = R.T @ (b[:3] - a[:3]), R.T @ b[3:12].reshape(3, 3)
        if self.name == "mesh":
            frame, mesh = np.zeros(9), m.nmesh - 1
            mujoco.mju_quat2Mat(frame, m.mesh_quat[mesh])
            p, Q = p + Q @ m.mesh_pos[mesh], Q @ frame.reshape(3, 3)
        else:
            m.geom_size[g] = b[12:]
            m.geom_rbound[g] = 1.0
        d.geom_xpos[g], d.geom_xmat[g] = p, Q.ravel()

    def distance(self, a: Array, b: Array) -> float:
        """The least signed distance to a prism, exact where the shape is apart from all."""
        self.place(a, b)
        g = self.model.ngeom - 1
        return min(mujoco.mj_geomDistance(self.model, self.data, k, g, 1.0, None) for k in range(g))


@kinds
def test_gap_is_that_to_the_nearest_prism(kind: str, rng: np.random.Generator) -> None:
    """Agree with MuJoCo's distance to the prisms as meshes, where the shape is apart from them."""
    field, vert = bumpy(rng), mesh_of(kind, rng)
    reference = Prisms(kind, field, vert)
    a, b = over(kind, field, 120, rng)
    if vert is not NO_MESH:
        b[:, 12:] = 0.0
    a, b = settled(kind, field, (a, b), vert, rng.uniform(1e-4, 5e-3, len(a)))
    expected = np.array([reference.distance(*pair) for pair in zip(a, b, strict=True)])
    found = lowest(collide(kind, a, b, field, vert))
    apart = expected > 1e-5
    assert apart.sum() > 100
    error = np.abs(found - expected)[apart]
    print(np.sort(error)[-5:])
    # a flat side of a cylinder is padded where it lies on a face, and cut faces miss a little
    slack = 2e-3 if kind.endswith(("cylinder", "capsule", "box", "mesh")) else 2e-6
    assert np.quantile(error, 0.6 if kind.endswith("cylinder") else 0.9) < 2e-6
    assert error.max() < slack


def test_gap_of_a_ball_is_mujocos(rng: np.random.Generator) -> None:
    """Give the deepest contact of a sphere that MuJoCo's own height field gives."""
    field = bumpy(rng)
    reference = Prisms("hfield-sphere", field, NO_MESH, as_field=True)
    m, d = reference.model, reference.data
    heights = m.hfield_data.reshape(field.data.shape) * m.hfield_size[0, 2]
    assert np.allclose(heights, field.points()[..., 2], atol=1e-7)
    a, b = over("hfield-sphere", field, 60, rng, tilted=False)
    b[:, :3] -= a[:, :3]
    a[:, :3] = 0
    a, b = settled("hfield-sphere", field, (a, b), NO_MESH, rng.uniform(-0.01, -1e-3, len(a)))
    for s, t in zip(a, b, strict=True):
        m.geom_size[-1] = t[12:]
        d.qpos[:3], d.qpos[3:] = t[:3] - s[:3], [1, 0, 0, 0]
        mujoco.mj_forward(m, d)
        theirs = list(d.contact)
        ours = collide("hfield-sphere", s, t, field)[0]
        best = min(theirs, key=lambda c: c.dist)
        on = ours[ours[:, 7] > 0]
        lowest_one = on[np.argmin(on[:, 0])]
        assert abs(best.dist - lowest_one[0]) < 1e-6
        assert abs(best.frame[:3] @ lowest_one[1:4]) > 1 - 1e-5


@kinds
def test_flat_field_is_a_plane(kind: str, rng: np.random.Generator) -> None:
    """Give the gap and normal of a plane at the same height, over cells and their borders."""
    field, vert = level(), mesh_of(kind, rng)
    two = kind.split("-")[1]
    a, b = over(kind, field, 300, rng)
    b = settled(kind, field, (a, b), vert, rng.uniform(-5e-3, 5e-3, len(a)))[1]
    plane = a.copy()
    plane[:, :3] += 0.1 * a[:, 3:12].reshape(-1, 3, 3)[:, :, 2]
    expected = lowest(collide_convex(f"plane-{two}", plane, b, vert))
    touch = collide(kind, a, b, field, vert, far=0.01)
    found, on = lowest(touch), touch[..., 7] > 0
    near = expected < 0.01
    assert near.sum() > 280
    error = np.abs(found - expected)[near]
    print(np.sort(error)[-5:])
    # a lying cylinder is its axis with its radius; cut faces keep the corners that lie farthest out
    assert np.quantile(error, 0.5 if two == "cylinder" else 0.8) < 1e-9
    assert error.max() < (1e-3 if two not in ("sphere", "ellipsoid") else 1e-9)
    up = a[:, None, 3:12].reshape(-1, 1, 3, 3)[..., 2]
    lean = np.linalg.norm(np.cross(touch[..., 1:4], np.broadcast_to(up, (*on.shape, 3))), axis=-1)
    assert lean[on].max() < (1e-9 if two in ("sphere", "ellipsoid") else 0.08)
    assert on.sum(axis=1).max() <= 8


def test_ball_over_borders_has_one_contact() -> None:
    """Touch once, straight up, over points, borders and divisions of cells of flat ground."""
    field = level()
    places = [[0.0, 0.0], [0.05, 0.0], [0.0, 0.05], [0.05, 0.05], [0.1 + 1e-9, 1e-12], [0.03, 0.02]]
    for place, gap in itertools.product(places, (-0.04, -1e-3, 0.0, 1e-3)):
        ball = shape([*place, 0.1 + 0.06 + gap], np.eye(3), [0.06, 0, 0])
        touch = collide("hfield-sphere", HERE, ball, field)[0]
        on = touch[touch[:, 7] > 0]
        assert len(on) == 1, (place, gap, on)
        assert np.allclose(on[0, :4], [gap, 0, 0, 1], atol=1e-14)
        assert np.allclose(on[0, 4:6], place, atol=1e-9)
        # and turns with nothing: its bars are those of a plane
        bar = np.eye(7)[1:4].sum(axis=0)[None]
        assert np.allclose(pairs("hfield-sphere", HERE, ball, field).adjoint(0, bar)[0, 9:], 0)


def test_box_on_flat_ground_touches_at_its_corners() -> None:
    """Touch at the four lower corners, however many cells lie under the box."""
    field = level()
    for half in ([0.02, 0.03, 0.05], [0.1, 0.08, 0.05], [0.23, 0.17, 0.05]):
        for angle, tilt in ((0.0, 0.0), (0.35, 0.0), (0.7, 1e-7), (0.2, 1e-3)):
            R = turn([1, 0, 0], tilt) @ turn([0, 0, 1], angle)
            box = shape([0.013, -0.021, 0.1 + 0.05 - 1e-4], R, half)
            touch = collide("hfield-box", HERE, box, field)[0]
            on = touch[(touch[:, 7] > 0) & (touch[:, 0] < 5e-3)]
            corners = [
                box[:3] + R @ (np.array([x, y, -1]) * half) for x in (-1, 1) for y in (-1, 1)
            ]
            for corner in corners:
                at = np.linalg.norm(on[:, 4:6] - corner[:2], axis=1)
                assert at.min() < 1e-4 + 0.06 * tilt, (half, angle, tilt)
            assert len(on) <= 6


@kinds
def test_points_lie_on_the_surface(kind: str, rng: np.random.Generator) -> None:
    """Put p - n phi / 2 on the field and p + n phi / 2 on B, and look out of the ground."""
    field, vert = bumpy(rng), mesh_of(kind, rng)
    two = kind.split("-")[1]
    a, b = over(kind, field, 60, rng)
    a, b = settled(kind, field, (a, b), vert, rng.uniform(-5e-3, 5e-3, len(a)))
    touch = collide(kind, a, b, field, vert, far=6e-3)
    assert np.allclose(np.linalg.norm(touch[..., 1:4], axis=-1), 1, atol=1e-13)
    assert (touch[..., 7].sum(axis=1) > 0).all()
    for w, slot in zip(*np.nonzero(touch[..., 7]), strict=True):
        phi, n, p = touch[w, slot, 0], touch[w, slot, 1:4], touch[w, slot, 4:7]
        R = a[w, 3:12].reshape(3, 3)
        x = R.T @ (p - n * phi / 2 - a[w, :3])
        off = abs(x[2] - field.height(x[0], x[1]))
        assert off < 1e-6 or (two == "cylinder" and off < 4e-3), (w, slot, x)
        assert (R.T @ n)[2] > 0.2
        if two != "ellipsoid":
            gap = signed_distance(two, b[w], p + n * phi / 2, vert)
            assert abs(gap) < 1e-6 or (two == "cylinder" and abs(gap) < 4e-3) or gap < 0


@kinds
@pytest.mark.parametrize("lanes", [4, 8])
def test_lanes_give_the_bits_of_one_world(kind: str, lanes: int, rng: np.random.Generator) -> None:
    """Return the same bits from lanes as from one world, in double and in float."""
    field, vert = bumpy(rng), mesh_of(kind, rng)
    a, b = over(kind, field, 51, rng)
    for single in (False, True):
        one = collide(kind, a, b, field, vert, single=single, far=0.02)
        many = collide(kind, a, b, field, vert, single=single, far=0.02, lanes=lanes)
        assert np.array_equal(one, many)


@kinds
def test_float_agrees_with_double(kind: str, rng: np.random.Generator) -> None:
    """Find the same gap in float32 to a few units in its last place."""
    field, vert = bumpy(rng), mesh_of(kind, rng)
    a, b = settled(kind, field, over(kind, field, 100, rng), vert, rng.uniform(-2e-3, 2e-3, 100))
    wide = lowest(collide(kind, a, b, field, vert))
    error = np.abs(lowest(collide(kind, a, b, field, vert, single=True)) - wide)
    assert np.quantile(error, 0.9) < 2e-6
    assert error.max() < 5e-3


def test_beyond_the_border_there_is_nothing() -> None:
    """Touch the side of the field at its border, and nothing beyond it or below its base."""
    field = level()
    side = shape([0.4 + 0.05, 0.013, 0.02], np.eye(3), [0.06, 0, 0])
    touch = collide("hfield-sphere", HERE, side, field, far=0.01)[0]
    on = touch[touch[:, 7] > 0]
    assert len(on) == 1
    assert np.allclose(on[0, :4], [-0.01, 1, 0, 0], atol=1e-9)
    for away in ([0.5, 0.0, 0.02], [0.0, 0.0, -0.5]):
        ball = shape(away, np.eye(3), [0.06, 0, 0])
        assert not collide("hfield-sphere", HERE, ball, field, far=0.01)[0, :, 7].any()


def test_deep_shapes_are_pushed_up(rng: np.random.Generator) -> None:
    """Push shapes that lie under the surface out of it, not along the sides of prisms."""
    field = level()
    for kind in KINDS:
        vert = mesh_of(kind, rng)
        for _ in range(20):
            place = [*rng.uniform(-0.2, 0.2, 2), 0.1 - rng.uniform(0.0, 0.03)]
            other = shape(place, rotation(rng), SIZES[kind.split("-")[1]])
            touch = collide(kind, HERE, other, field, vert)[0]
            on = touch[touch[:, 7] > 0]
            assert len(on) > 0
            assert on[:, 0].min() < 0
            assert on[:, 3].min() > 0.99


def test_stretch_is_that_of_the_points(rng: np.random.Generator) -> None:
    """Give with a stretch what the field gives that is compiled with those sizes."""
    field = bumpy(rng)
    stretch = np.array([0.2, -0.1, 0.3])
    sizes = np.array(field.size) * np.r_[1 + stretch, 1.3]
    other = Field(tuple(float(x) for x in sizes), field.data)
    for kind in KINDS:
        vert = mesh_of(kind, rng)
        a, b = over(kind, field, 40, rng)
        there = collide(kind, a, b, other, vert, far=0.03)
        a[:, 12:] = stretch
        here = collide(kind, a, b, field, vert, far=0.03)
        assert np.allclose(lowest(here), lowest(there), atol=1e-9)
