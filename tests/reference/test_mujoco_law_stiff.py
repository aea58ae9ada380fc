"""MuJoCo's law where its rows are stiff, weigh nothing or tie: one step against MuJoCo's own."""

from __future__ import annotations

from typing import Any, Literal

import mujoco
import numpy as np
import pytest

import featherback as fb
from tests.property.soft import exact_mujoco

BOX = """<mujoco><worldbody><geom type="plane" size="5 5 1" friction="{mu}"/>
<body pos="0 0 0.095"><freejoint/>
<geom type="box" size="0.1 0.1 0.1" mass="1" friction="{mu}" condim="{condim}"/></body>
</worldbody></mujoco>"""
WHEEL = """<mujoco><worldbody><geom type="plane" size="5 5 1"/>
<body pos="0 0 0.0995"><joint axis="0 1 0"/>
<geom type="{shape}" size="0.1 0.05" zaxis="0 1 0" mass="1"/></body>
</worldbody></mujoco>"""
CHILD = """<mujoco><option timestep="0.01" gravity="0 0 0"/><worldbody>
<body><freejoint/><geom type="box" size="0.1 0.2 0.3" mass="1"/>
<body pos="0.3 0 0"><geom size="0.05" mass="0.2"/></body></body></worldbody></mujoco>"""
JAM = """<mujoco><option timestep="0.01"/><worldbody>
<geom type="plane" size="1 1 0.1"/><geom type="box" pos="0 0.3 0.3" size="0.3 0.1 0.3"/>
<body pos="0 0 0.05"><joint axis="0 1 0"/><inertial mass="1" pos="0 0 0" diaginertia="1 1 1"/>
<geom type="box" size="0.1 0.03 0.06"/></body>
<body pos="0.15 0 0.05"><joint axis="0 0 1"/><inertial mass="1" pos="0 0 0" diaginertia="1 1 1"/>
<geom type="box" size="0.1 0.25 0.06"/></body></worldbody></mujoco>"""
BALL = """<mujoco><worldbody><body><joint type="ball" range="0 {end}" margin="0.2"/>
<geom type="box" size="0.1 0.2 0.3" pos="0.1 0.2 0.1"/></body></worldbody></mujoco>"""


def options(cone: str, **others: Any) -> dict[str, Any]:
    """Return the options of both sides."""
    chosen = {"contact": "mujoco", "cone": cone, "impratio": 1.0, "integrator": "euler"}
    return {**chosen, **others}


def step_error(model: fb.Model, v: Any, chosen: dict[str, Any], dtype: str) -> float:
    """Return how far one step is from MuJoCo's, relative to the change of velocity."""
    m = exact_mujoco(model, chosen)
    data = mujoco.MjData(m)
    data.qvel = v
    mujoco.mj_step(m, data)
    q = np.array(m.qpos0, dtype)
    roll = fb.Simulator(model, dtype=dtype, **chosen).rollout(q, np.array(v, dtype), steps=1)
    assert roll.ok
    change = np.abs(data.qvel - v).max()
    return float(np.abs(roll.v[1] - data.qvel).max() / change)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("condim", [3, 6])
@pytest.mark.parametrize("mu", [0.0, 1e-4, 1e-2, 1.0])
def test_low_friction(mu: float, condim: int, dtype: str) -> None:
    """Edges of a flat pyramid are stiff: accelerations do not come from sums of their forces."""
    model = fb.load(BOX.format(mu=mu, condim=condim))
    v = np.array([1.0, 0.5, 0.0, 0.0, 0.0, 0.0])
    error = step_error(model, v, options("pyramidal"), dtype)
    assert error <= (1e-10 if dtype == "float64" else 1e-4)


@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
@pytest.mark.parametrize("shape", ["sphere", "capsule"])
def test_rows_without_weight(shape: str, cone: str) -> None:
    """A wheel whose centre of mass cannot move has rows of the least compliance there is."""
    model = fb.load(WHEEL.format(shape=shape), on_unsupported="drop")
    for speed in (0.01, 1.0, 10.0):
        assert step_error(model, np.array([speed]), options(cone), "float64") <= 1e-9


@pytest.mark.parametrize("ratio", [100.0, 3000.0, 1e5])
def test_large_impratio(ratio: float) -> None:
    """Thin cones are solved from any velocity, in both precisions."""
    model = fb.load(BOX.format(mu=0.5, condim=3))
    rng = np.random.default_rng(0)
    chosen = options("elliptic", impratio=ratio)
    for _ in range(40):
        assert step_error(model, rng.normal(size=6), chosen, "float64") <= 1e-9
    v = rng.normal(size=(200, 6)).astype(np.float32)
    q = np.tile(model.mujoco.qpos0, (200, 1)).astype(np.float32)
    assert np.all(fb.Simulator(model, dtype="float32", **chosen).rollout(q, v, steps=1).ok)


def test_fixed_children_turn_with_their_body() -> None:
    """Under implicitfast a free body with fixed children has its torque at the end of the step."""
    model = fb.load(CHILD)
    v = np.array([0.0, 0.0, 0.0, 3.0, -4.0, 5.0])
    chosen = options("pyramidal", integrator="implicitfast")
    assert step_error(model, v, chosen, "float64") <= 1e-10


@pytest.mark.parametrize("law", ["hard", "mujoco"])
def test_equal_frictions_share_their_tangent(law: Literal["hard", "mujoco"]) -> None:
    """Where two geoms have one friction, forward mode gives each half, as reverse mode does."""
    model = fb.load(BOX.format(mu=0.3, condim=3).replace("0.095", "0.0999"))
    sim = fb.Simulator(model, contact=law)
    v = np.array([1.0, 0.5, -0.1, 0.0, 0.0, 0.0])
    params = {"geom_friction": np.array(model.params["geom_friction"])}
    roll = sim.rollout(model.mujoco.qpos0, v, steps=1, params=params)
    bar = np.zeros_like(roll.v)
    bar[1] = np.arange(1.0, 7.0)
    found = roll.vjp(np.zeros_like(roll.q), bar).params["geom_friction"]
    for geom in range(2):
        along = np.zeros_like(params["geom_friction"])
        along[geom, 0] = 1.0
        forward = float(np.sum(bar * roll.jvp(dparams={"geom_friction": along})[1]))
        assert abs(found[geom, 0]) > 0
        assert forward == pytest.approx(float(found[geom, 0]), rel=1e-9)


def test_jams_of_rows_without_weight() -> None:
    """Forces of 1e17 N cancel: their rounding is no failure, and what is one has no gradient."""
    sim = fb.Simulator(fb.load(JAM), contact="mujoco")
    rng = np.random.default_rng(0)
    roll = sim.rollout(0.3 * rng.normal(size=(256, 2)), rng.normal(size=(256, 2)), steps=50)
    bad = np.flatnonzero(roll.status)
    assert 0 < len(bad) <= 5
    with pytest.raises(fb.WorldError, match="NO_GRADIENT") as error:
        roll.vjp(np.ones_like(roll.q))
    np.testing.assert_array_equal(error.value.world, bad)


@pytest.mark.parametrize("end", [0.0, 0.1])
def test_limit_of_a_ball_without_rotation(end: float) -> None:
    """Where a ball is not turned its limit has MuJoCo's axis."""
    model = fb.load(BALL.format(end=end))
    assert step_error(model, np.array([1.0, 2.0, 3.0]), options("elliptic"), "float64") <= 1e-12
