"""Actuators on bodies against MuJoCo: steps under its law, by every cone and integrator."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import pytest

import featherback as fb
from tests.core.ops_soft import adhesion_model
from tests.property.soft import exact_mujoco


@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
@pytest.mark.parametrize("integrator", ["euler", "rk4", "implicitfast"])
def test_steps_are_mujocos(cone: str, integrator: str) -> None:
    """Agree to 1e-9 in the accelerations of a step; the actuators have to act."""
    options: dict[str, Any] = {
        "contact": "mujoco",
        "cone": cone,
        "integrator": integrator,
        "impratio": 1.0,
    }
    model = adhesion_model()
    reference, rng = exact_mujoco(model, options), np.random.default_rng(0)
    data, sim = mujoco.MjData(reference), fb.Simulator(model, **options)
    for _ in range(20):
        mujoco.mj_resetData(reference, data)
        u, act = rng.uniform(-2, 2, model.nu), rng.normal(size=model.na)
        v = rng.normal(size=model.nv) * 0.1
        data.qvel[:], data.ctrl[:], data.act[:] = v, u, act
        mujoco.mj_forward(reference, data)
        assert np.abs(data.qfrc_actuator).sum() > 1
        smooth = float(np.abs(data.qacc_smooth).max())
        mujoco.mj_step(reference, data)
        ours = sim.step(model.q0, v, u, act=act)[1]
        error = np.abs(ours - data.qvel).max() / sim.dt
        assert error < 1e-9 * max(1.0, smooth)


def test_a_ball_hangs_from_the_ceiling() -> None:
    """Hold a ball of 0.1 kg against gravity with 2 N, and let it fall with 0.5 N."""
    xml = """<mujoco><worldbody>
    <geom type="box" size="1 1 0.1" pos="0 0 1"/>
    <body name="b" pos="0 0 0.8499"><freejoint/><geom size="0.05" mass="0.1" margin="0.001"/></body>
    </worldbody><actuator><adhesion body="b" gain="2" ctrlrange="0 1"/></actuator></mujoco>"""
    sim = fb.Simulator(fb.load(xml), contact="mujoco")
    q, v = sim.model.q0, sim.model.v0
    held = sim.rollout(q, v, np.ones((500, 1)))
    falls = sim.rollout(q, v, np.full((500, 1), 0.25))
    assert abs(held.q[-1, 2] - q[2]) < 2e-3 and falls.q[-1, 2] < 0


def test_a_group_that_is_switched_off_does_not_pull() -> None:
    """Fall as MuJoCo has it where actuatorgroupdisable switches the actuator off, and say so."""
    xml = """<mujoco><option actuatorgroupdisable="2"/><worldbody>
    <geom type="box" size="1 1 0.1" pos="0 0 1"/>
    <body name="b" pos="0 0 0.8499"><freejoint/><geom size="0.05" mass="0.1" margin="0.001"/></body>
    </worldbody><actuator><adhesion body="b" gain="2" ctrlrange="0 1" group="2"/></actuator>
    </mujoco>"""
    model = fb.load(xml)
    roll = fb.Simulator(model, contact="mujoco").rollout(model.q0, model.v0, np.ones((100, 1)))
    data = mujoco.MjData(model.mujoco)
    data.ctrl[:] = 1
    mujoco.mj_step(model.mujoco, data, 100)
    np.testing.assert_allclose(roll.q[-1], data.qpos, rtol=0, atol=1e-9)
    assert "actuatorgroupdisable" in str(model.report())
