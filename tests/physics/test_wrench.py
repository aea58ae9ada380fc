"""Wrenches applied to bodies: `xfrc_applied`, force and torque at the centre of mass."""

from __future__ import annotations

import mujoco
import numpy as np

import featherback as fb
from tests.core.references import apply_spin


def test_wrench_moves_a_free_ball() -> None:
    """Accelerate a free ball by f / m + g and turn it by t / I, exactly to round-off."""
    model = fb.models.ball(radius=0.1, mass=2.0)
    sim = fb.Simulator(model, dt=1e-3)
    wrench = np.zeros((model.nbody, 6))
    wrench[1] = [1.0, -2.0, 30.0, 0.1, 0.2, -0.3]
    q = np.array(model.q0)
    q[2] = 5.0
    v = sim.step(q, model.v0, params={"xfrc_applied": wrench})[1]
    expected = np.r_[wrench[1, :3] / 2.0 + [0, 0, -9.81], wrench[1, 3:] / (0.4 * 2.0 * 0.1**2)]
    np.testing.assert_allclose(v, 1e-3 * expected, rtol=1e-12, atol=1e-15)


def test_wrenches_match_mujoco() -> None:
    """Give MuJoCo's Euler step of the Laikago in the air under random wrenches on all bodies."""
    model, rng = fb.models.laikago(), np.random.default_rng(0)
    print("seed 0")
    data = mujoco.MjData(model.mujoco)
    q, v = (np.array(x) for x in model.keyframe("stand"))
    q[2] += 5.0
    v += rng.normal(size=model.nv)
    wrench = rng.normal(size=(model.nbody, 6)) * [20, 20, 20, 2, 2, 2]
    data.qpos[:], data.qvel[:], data.ctrl[:] = q, v, q[7:]
    data.xfrc_applied[:] = wrench
    apply_spin(model.mujoco, data)
    mujoco.mj_step(model.mujoco, data)
    sim = fb.Simulator(model)
    ours = sim.step(q, v, q[7:], params={"xfrc_applied": wrench})[1]
    np.testing.assert_allclose(ours, data.qvel, rtol=0, atol=1e-10)


def test_gradient_of_a_wrench() -> None:
    """Agree with central differences on the Laikago standing, per world and shared."""
    model, rng = fb.models.laikago(), np.random.default_rng(1)
    print("seed 1")
    sim = fb.Simulator(model, tolerance=1e-12)
    q, v = model.keyframe("stand")
    along = rng.normal(size=(model.nbody, 6))
    wrench = np.zeros_like(along)

    def run(step: float) -> fb.Rollout:
        params = {"xfrc_applied": wrench + step * along}
        return sim.rollout(q, v, q[7:], steps=20, params=params)

    roll = run(0.0)
    bar = rng.normal(size=roll.q.shape)
    slope = (np.sum(run(1e-4).q * bar) - np.sum(run(-1e-4).q * bar)) / 2e-4
    gradient = roll.vjp(bar).params["xfrc_applied"]
    assert abs(np.sum(gradient * along) - slope) <= 1e-7 * abs(slope)
