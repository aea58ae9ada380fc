"""Placements whose distance was once wrong: nearly flat, nearly coaxial or nearly tied shapes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.core import fields
from tests.core.test_collision import (
    NO_MESH,
    Array,
    Reference,
    collide,
    framed,
    hull_planes,
    lowest,
    mesh_points,
    pairs,
    rotation,
    shape,
    tangent,
    turn,
)
from tests.core.test_convex import separation


def stored(name: str) -> list[dict[str, Any]]:
    """Placements of a file: kind, both shapes, mesh or field, and the distance that is proved."""
    return json.loads(Path(__file__).with_name(name).read_text())


PLACEMENTS, OVER_FIELDS = stored("failed_placements.json"), stored("failed_fields.json")
POINTS = stored("failed_points.json")


def mesh_in(given: dict[str, Any]) -> Array:
    """The mesh of a placement, or no rows."""
    return np.array(given.get("mesh", [])).reshape(-1, 3)


@pytest.mark.parametrize("number", range(len(PLACEMENTS)))
def test_distance_and_normal_are_right_where_they_were_wrong(number: int) -> None:
    """Find the distance of each, with a normal along which the shapes are that far apart."""
    given = PLACEMENTS[number]
    a, b = np.array(given["a"]), np.array(given["b"])
    vert = mesh_in(given)
    found = pairs(given["pair"], a, b, vert).closest()[0]
    assert abs(found[0] - given["gap"]) < 1e-9
    hull = framed(mesh_points(vert, b[12:])) if given["mesh"] else NO_MESH
    along = separation(given["pair"], a, b, found[None, 1:4], hull)[0]
    assert abs(along - found[0]) < 1e-9


@pytest.mark.parametrize("number", range(len(OVER_FIELDS)))
def test_shape_near_uneven_ground_is_not_missed(number: int) -> None:
    """Have a slot at the distance to the ground, also where a face carries most of them."""
    given = OVER_FIELDS[number]
    field = fields.Field(tuple(given["size"]), np.array(given["data"]))
    shapes = np.array(given["a"]), np.array(given["b"])
    found = lowest(fields.collide(given["pair"], *shapes, field, mesh_in(given), far=0.03))[0]
    assert abs(found - given["gap"]) < 1e-6


def outside(name: str, s: Array, x: Array, vert: Array = NO_MESH) -> float:
    """How far a point lies outside of a shape."""
    y, size = s[3:12].reshape(3, 3).T @ (x - s[:3]), s[12:]
    if name == "mesh":
        return max(float(n @ y - d) for n, d in hull_planes(vert, tuple(size)))
    if name == "box":
        return float((np.abs(y) - size).max())
    if name == "ellipsoid":
        return float((np.linalg.norm(y / size) - 1) * size.min())
    if name == "capsule":
        return float(np.linalg.norm(y - np.clip(y, *np.outer([-1, 1], [0, 0, size[1]]))) - size[0])
    return float(max(np.hypot(*y[:2]) - size[0], abs(y[2]) - size[1]))


@pytest.mark.parametrize("number", range(len(OVER_FIELDS)))
def test_points_over_fields_lie_on_both_surfaces(number: int) -> None:
    """Have no point elsewhere, as on a rim that lies along the ground but for 1e-6 rad."""
    given = OVER_FIELDS[number]
    a, b = np.array(given["a"]), np.array(given["b"])
    x, y, z, base = given["size"]
    fx, fy, fz = 1 + a[12:]
    ground = fields.Field((x * fx, y * fy, z * fz, base * fz), np.array(given["data"]))
    field = fields.Field((x, y, z, base), ground.data)
    vert = mesh_in(given)
    touch = fields.collide(given["pair"], a, b, field, vert, far=0.03)[0]
    R = a[3:12].reshape(3, 3)
    for slot in touch[touch[:, 7] > 0]:
        arm = slot[1:4] * slot[0] / 2
        foot = R.T @ (slot[4:7] - arm - a[:3])
        above = foot[2] - ground.height(*foot[:2])
        # at the border a side goes down
        inner = np.all(np.abs(foot[:2]) < np.array(ground.size[:2]) - 1e-9)
        assert (abs(above) if inner else above) < 1e-6
        assert outside(given["pair"].split("-")[1], b, slot[4:7] + arm, vert) < 1e-6


def beyond(given: dict[str, Any], x: Array, y: Array) -> tuple[float, float]:
    """How far a point lies outside of A, or above the ground, and one outside of B."""
    names = given["pair"].split("-")
    a, b = np.array(given["a"]), np.array(given["b"])
    out = []
    for name, s, point in zip(names, (a, b), (x, y), strict=True):
        local = s[3:12].reshape(3, 3).T @ (point - s[:3])
        if name == "hfield":
            stretched = np.array(given["size"]) * (1 + s[[12, 13, 14, 14]])
            field = fields.Field(tuple(stretched.tolist()), np.array(given["data"]))
            out.append(float(local[2] - field.height(*local[:2])))
        else:
            out.append(outside(name, s, point, mesh_in(given)))
    return out[0], out[1]


@pytest.mark.parametrize("number", range(len(POINTS)))
def test_points_lie_on_both_shapes_where_they_lay_elsewhere(number: int) -> None:
    """Have none off the shapes, and those of the lowest slot on both: edges along each other."""
    given = POINTS[number]
    a, b = np.array(given["a"]), np.array(given["b"])
    vert = mesh_in(given)
    if "data" in given:
        field = fields.Field(tuple(given["size"]), np.array(given["data"]))
        touch = fields.collide(given["pair"], a, b, field, vert, far=0.03)[0]
    else:
        touch = collide(given["pair"], a, b, vert)[0]
    on = touch[touch[:, 7] > 0]
    assert len(on) > 0
    # a face stands for a normal that leans while slots of a capsule are one: (C.13)
    most = 2e-6 + 1e-4 * a[12] * (given["pair"] == "capsule-box")
    for slot in on:
        arm = slot[1:4] * slot[0] / 2
        off = beyond(given, slot[4:7] - arm, slot[4:7] + arm)
        assert max(off) < most
        assert slot[0] > on[:, 0].min() or min(off) > -most


@pytest.mark.parametrize("number", range(len(PLACEMENTS) + len(POINTS)))
def test_adjoint_pairs_with_tangent_where_values_were_wrong(number: int) -> None:
    """Pair with dual numbers in every slot, however fast a normal turns over a small gap."""
    given, rng = [*PLACEMENTS, *POINTS][number], np.random.default_rng(number)
    a, b = np.array(given["a"]), np.array(given["b"])
    vert = mesh_in(given)
    if "data" in given:
        field = fields.Field(tuple(given["size"]), np.array(given["data"]))
        pair = fields.pairs(given["pair"], a, b, field, vert)
    else:
        pair = pairs(given["pair"], a, b, vert)
    twists, sizes = rng.normal(size=(2, 6)), 0.1 * rng.normal(size=(2, 3))
    tans = [tangent(*row)[None] for row in zip((a, b), twists, sizes, strict=True)]
    seeds = np.concatenate([twists[0], sizes[0], twists[1], sizes[1]])
    touch, dual = pair.collide()[0], pair.tangent(*tans)[0]
    for slot in np.flatnonzero(touch[:, 7] > 0):
        bar = rng.normal(size=7)
        left, right = bar * dual[slot], pair.adjoint(int(slot), bar[None])[0] * seeds
        assert np.isfinite(right).all()
        scale = np.abs(left).sum() + np.abs(right).sum()
        assert abs(left.sum() - right.sum()) < 1e-11 * scale


def test_cap_that_passes_an_edge_has_its_points_on_both() -> None:
    """Have them where a rim runs along an edge of a box, beside it or over it by rounding."""
    rng, worlds, half = np.random.default_rng(5), 1500, np.array([0.15, 0.1, 0.05])
    beside = [0.0, 1e-11, -1e-11, 1e-10, -1e-10, 1e-9, -1e-9, 1e-8]
    a, b = np.zeros((2, worlds, 15))
    for k in range(worlds):
        r, h = rng.uniform(0.02, 0.1, 2)
        R, p, axis = rotation(rng), rng.normal(size=3), rng.normal(size=3)
        tilt = turn(axis / np.linalg.norm(axis), rng.choice([0.0, 1e-12, 1e-10, 1e-9]))
        gap = rng.choice([1e-11, 1e-10, 1e-9, 1e-8, 1e-6, -1e-10, -1e-9])
        x = np.array([rng.uniform(-0.1, 0.1), half[1] + r + rng.choice(beside), half[2] + h + gap])
        a[k], b[k] = shape(p + R @ x, R @ tilt, [r, h, 0]), shape(p, R, half)
    touch = collide("cylinder-box", a, b)
    low = lowest(touch)
    for k, slot in np.argwhere(touch[..., 7] > 0):
        phi, n, x = touch[k, slot, 0], touch[k, slot, 1:4], touch[k, slot, 4:7]
        off = outside("cylinder", a[k], x - n * phi / 2), outside("box", b[k], x + n * phi / 2)
        assert max(off) < 1e-6
        assert phi > low[k] or min(off) > -1e-6


@pytest.mark.parametrize("kind", ["capsule-ellipsoid", "capsule-cylinder", "ellipsoid-cylinder"])
def test_points_of_shapes_in_one_pose_lie_on_both(kind: str) -> None:
    """Have points over each other where any place along an axis, or any direction, is as good."""
    names = kind.split("-")
    sizes = {"capsule": [0.12, 0.115, 0], "cylinder": [0.063, 0.06, 0], "ellipsoid": [0.1] * 3}
    R = np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]])
    pair = [shape([0.3, -0.2, 0.1], R, sizes[name]) for name in names]
    touch = collide(kind, *pair)[0]
    for slot in touch[touch[:, 7] > 0]:
        arm = slot[1:4] * slot[0] / 2
        assert abs(outside(names[0], pair[0], slot[4:7] - arm)) < 1e-9
        assert abs(outside(names[1], pair[1], slot[4:7] + arm)) < 1e-9


def test_capsule_over_the_edge_of_a_box_has_its_distance() -> None:
    """Keep the closest point where it is lower than an end of the stretch right beside it."""
    box = shape([0.0, 0, 0], np.eye(3), [0.05, 0.03, 0.01])
    tip, r, h = np.array([-0.0516, 0.004, 0.15]), 0.139, 0.15
    axis = np.array([0.64, 0.74, -0.2]) / np.linalg.norm([0.64, 0.74, -0.2])
    side = np.cross(axis, [0.0, 0, 1]) / np.linalg.norm(np.cross(axis, [0.0, 0, 1]))
    R = np.c_[np.cross(side, axis), side, axis]
    reference = Reference("capsule-box", NO_MESH)
    worst = 0.0
    for shift in np.linspace(0, 3e-3, 301):
        capsule = shape(tip + shift * axis - h * axis, R, [r, h, 0])
        gap = lowest(collide("capsule-box", capsule, box))[0]
        worst = max(worst, abs(gap - reference.distance(capsule, box)))
    assert worst < 1.1e-6 * r
