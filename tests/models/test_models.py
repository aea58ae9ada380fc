"""Our own models: sizes, masses, keyframes, and standing in MuJoCo."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest

import featherback as fb
from featherback import models


def stand(model: fb.Model, dt: float, drop: float, seconds: float) -> mujoco.MjData:
    """Hold the keyframe's joint angles in MuJoCo after a drop, and return the final state."""
    compiled = model.mujoco
    compiled.opt.timestep = dt
    data = mujoco.MjData(compiled)
    mujoco.mj_resetDataKeyframe(compiled, data, 0)
    data.qpos[2] += drop
    for _ in range(round(seconds / dt)):
        mujoco.mj_step(compiled, data)
    return data


@pytest.mark.parametrize(
    ("model", "sizes", "mass"),
    [
        (models.laikago(), (19, 18, 12), 25.433),
        (models.laikago(3), (57, 54, 36), 3 * 25.433),
        (models.quadruped(), (15, 14, 8), 9.4),
        (models.chain(5), (5, 5, 0), 0.5),
        (models.chain(5, ground=True, motors=True), (5, 5, 5), 0.5),
        (models.pendulum(3, mass=2.0), (3, 3, 3), 6.0),
        (models.ball(mass=0.3), (7, 6, 0), 0.3),
        (models.box(mass=0.7), (7, 6, 0), 0.7),
        (models.cartpole(), (2, 2, 1), 1.1),
        (models.thrower(), (16, 15, 9), 17.7 + 0.145),
        (models.reacher(), (4, 4, 4), 6.0),
        (models.golfer(), (9, 8, 2), 3.5 + 0.0459),
    ],
    ids=lambda value: value.name if isinstance(value, fb.Model) else None,
)
def test_sizes_and_masses(model: fb.Model, sizes: tuple[int, int, int], mass: float) -> None:
    """Have the documented nq, nv, nu and total mass, with nothing dropped."""
    assert (model.nq, model.nv, model.nu) == sizes
    assert model.mujoco.body_mass.sum() == pytest.approx(mass, rel=1e-12)
    assert not [notice for notice in model.notices if notice.kind == "dropped"]


@pytest.mark.parametrize("draw", [models.laikago, models.quadruped])
@pytest.mark.parametrize(("dt", "drop"), [(0.001, 0.0), (0.005, 0.0), (0.002, 0.3)])
def test_robots_stand_in_mujoco(draw: object, dt: float, drop: float) -> None:
    """Stand level within 15 mm of the keyframe's height after 3 s, at rest within 1 cm/s."""
    assert callable(draw)
    model = draw()
    data = stand(model, dt, drop, 3.0)
    height = model.keyframe("stand")[0][2]
    assert height - 0.015 < data.qpos[2] < height
    assert abs(data.qpos[3]) > math.cos(0.01)
    assert np.abs(data.qvel[:3]).max() < 0.01


@pytest.mark.parametrize("draw", [models.laikago, models.quadruped])
def test_feet_touch_the_floor_in_the_keyframe(draw: object) -> None:
    """Put the lowest point of every foot at z = 0 in keyframe stand."""
    assert callable(draw)
    compiled = draw().mujoco
    data = mujoco.MjData(compiled)
    mujoco.mj_resetDataKeyframe(compiled, data, 0)
    mujoco.mj_kinematics(compiled, data)
    for leg in ("FR", "FL", "RR", "RL"):
        radius = compiled.geom(f"{leg}_foot").size[0]
        assert data.site(f"{leg}_foot").xpos[2] == pytest.approx(radius, abs=1e-15)


def test_laikago_touches_the_floor_and_other_trunks_only() -> None:
    """Let shapes meet the floor and bumpers meet bumpers, and nothing else."""
    model = models.laikago(3)
    names = model.geom_names
    pairs = model.parsed.pairs
    met = {(names[a], names[b]) for a, b in zip(pairs.geom1, pairs.geom2, strict=True)}
    bumpers = {(f"robot{a}/bumper", f"robot{b}/bumper") for a in range(3) for b in range(a + 1, 3)}
    shapes = {("floor", name) for name in names if name != "floor" and "bumper" not in name}
    assert met == bumpers | shapes
    assert len(shapes) == 3 * 13


def test_laikagos_stand_on_a_grid() -> None:
    """Put robots 1.5 m apart, centred on the origin."""
    q = models.laikago(4).keyframe("stand")[0].reshape(4, 19)
    expected = [[-0.75, -0.75], [0.75, -0.75], [-0.75, 0.75], [0.75, 0.75]]
    assert q[:, :2].tolist() == expected


def test_pendulum_period() -> None:
    """Have inertia 1.004 m l^2 about the hinge, which gives T = 2 pi sqrt(1.004 l / g)."""
    compiled = models.pendulum(length=0.7, mass=2.0).mujoco
    data = mujoco.MjData(compiled)
    mujoco.mj_forward(compiled, data)
    inertia = np.zeros(1)
    mujoco.mj_mulM(compiled, data, inertia, np.ones(1))
    assert inertia[0] == pytest.approx(1.004 * 2.0 * 0.7**2, rel=1e-12)
