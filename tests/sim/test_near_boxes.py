"""Boxes around geoms leave no pair out that is nearer than the margin."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import pytest

import featherback as fb

MARGIN = 0.03
SHAPES = (
    'type="mesh" mesh="wedge"',
    'type="cylinder" size="0.03 0.15"',
    'type="ellipsoid" size="0.03 0.06 0.2"',
    'type="box" size="0.02 0.1 0.2"',
    'type="capsule" size="0.02 0.15"',
    'size="0.05"',
)


def scene() -> fb.Model:
    """Return free bodies of every shape that the convex routine knows, one of them lopsided."""
    wedge = "0 0 0 0.4 0 0 0 0.1 0 0 0 0.05 0.1 0.02 0.08"
    bodies = "".join(
        f'<body><freejoint/><geom {shape} margin="{MARGIN / 2}"/></body>' for shape in SHAPES
    )
    return fb.load(
        f'<mujoco><asset><mesh name="wedge" vertex="{wedge}"/></asset>'
        f"<worldbody>{bodies}</worldbody></mujoco>"
    )


def random_poses(model: fb.Model, worlds: int) -> Any:
    """Return configurations in which some geoms are near each other and few overlap."""
    rng = np.random.default_rng(4)
    q = np.zeros((worlds, model.nq // 7, 7))
    q[..., :3] = rng.uniform(-0.25, 0.25, (worlds, model.nq // 7, 3))
    q[..., 3:] = rng.normal(size=(worlds, model.nq // 7, 4))
    q[..., 3:] /= np.linalg.norm(q[..., 3:], axis=-1, keepdims=True)
    return q.reshape(worlds, -1)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("law", ["hard", "mujoco"])
def test_pairs_are_those_within_the_margin(law: str, dtype: str) -> None:
    """Find every pair that MuJoCo has nearer than the margin, and none that is farther."""
    model, slack = scene(), 1e-5 if dtype == "float64" else 1e-3
    more: dict[str, Any] = {"margin": MARGIN} if law == "hard" else {}
    sim = fb.Simulator(model, contact=law, dtype=dtype, max_contacts=200, **more)
    q = random_poses(model, 150)
    found = sim.contacts(q, np.zeros((len(q), model.nv)))
    assert not found.overflow.any()
    data, near = mujoco.MjData(model.mujoco), 0
    for world, pose in enumerate(q):
        data.qpos[:] = pose
        mujoco.mj_kinematics(model.mujoco, data)
        count = int(found.count[world])
        ours = {
            frozenset((int(a), int(b)))
            for a, b in zip(found.geom1[world, :count], found.geom2[world, :count], strict=True)
        }
        for a in range(len(SHAPES)):
            for b in range(a + 1, len(SHAPES)):
                apart = mujoco.mj_geomDistance(model.mujoco, data, a, b, 1.0, None)
                if abs(apart - MARGIN) < slack:
                    continue
                near += apart < MARGIN
                assert (frozenset((a, b)) in ours) == (apart < MARGIN), (world, a, b, apart)
    assert near > 200
