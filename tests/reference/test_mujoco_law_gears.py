"""Servos on ball and free joints under MuJoCo's law against `mj_step`, by each integrator."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

import featherback as fb
from tests.core.ops_soft import geared_model
from tests.property.soft import exact_mujoco

INTEGRATORS = ("euler", "rk4", "implicitfast")


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_step_is_mujocos(integrator: str) -> None:
    """Take MuJoCo's step from many states; with implicitfast the servos' damping is implicit."""
    model = geared_model()
    options = {"contact": "mujoco", "cone": "elliptic", "impratio": 1.0, "integrator": integrator}
    m, sim = exact_mujoco(model, options), fb.Simulator(model, **options)
    data, rng = mujoco.MjData(m), np.random.default_rng(2)
    for _ in range(40):
        mujoco.mj_resetData(m, data)
        data.qpos[2] += 0.5
        data.qvel[:], data.act[:] = 2 * rng.normal(size=m.nv), rng.normal(size=m.na)
        data.ctrl[:] = rng.normal(size=m.nu)
        given = [np.array(x) for x in (data.qpos, data.qvel, data.ctrl, data.act)]
        mujoco.mj_step(m, data)
        q, v, act = sim.step(*given[:3], act=given[3])
        for ours, theirs in ((q, data.qpos), (v, data.qvel), (act, data.act)):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9 * np.abs(data.qvel).max())


def test_damping_of_a_ball_is_implicit() -> None:
    """Slow a spin by a stiff servo without passing zero."""
    text = """<mujoco><option timestep="0.002" integrator="implicitfast"/><worldbody><body>
    <joint name="j" type="ball"/><geom type="capsule" fromto="0 0 0 0 0 -.3" size=".04"/></body>
    </worldbody><actuator><velocity joint="j" gear="0 0 1" kv="50"/></actuator></mujoco>"""
    model = fb.load(text)
    roll = fb.Simulator(model, contact="mujoco").rollout(model.q0, [0, 0, 5.0], steps=20)
    assert np.all(roll.v[:, 2] >= 0) and roll.v[-1, 2] < 1e-3
    data = mujoco.MjData(model.mujoco)
    data.qvel[2] = 5.0
    mujoco.mj_step(model.mujoco, data)
    np.testing.assert_allclose(roll.v[1], data.qvel, rtol=0, atol=1e-12)
