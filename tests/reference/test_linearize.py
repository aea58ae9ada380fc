"""A and B of one step against MuJoCo's centred differences where both solve the same equations.

Constraints are off on both sides, or too far away to act; MuJoCo's integrator is Euler, implicit in
joint damping (see test_mujoco.py).
"""

from __future__ import annotations

import copy

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

import featherback as fb
from tests.core.references import apply_spin
from tests.property.random_models import random_state
from tests.reference.test_mujoco import OWN, error, smooth_tree

Vector = NDArray[np.float64]
STEP = 1e-6  # of the differences


def their_jacobians(
    model: fb.Model, integrator: str, q: Vector, v: Vector, u: Vector
) -> tuple[Vector, Vector]:
    """Return A and B by centred differences, without constraints."""
    compiled = copy.copy(model.mujoco)
    compiled.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    compiled.opt.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{integrator}")
    data = mujoco.MjData(compiled)
    data.qpos[:], data.qvel[:], data.ctrl[:] = q, v, u
    A, B = np.zeros((2 * model.nv, 2 * model.nv)), np.zeros((2 * model.nv, model.nu))
    mujoco.mjd_transitionFD(compiled, data, STEP, True, A, B if model.nu else None, None, None)
    return A, B


def spun_jacobians(model: fb.Model, q: Vector, v: Vector, u: Vector) -> tuple[Vector, Vector]:
    """Return A and B by centred differences of MuJoCo's step with the spin of its middle."""
    m = copy.copy(model.mujoco)
    m.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    m.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    data, n = mujoco.MjData(m), model.nv
    mujoco.mj_normalizeQuat(m, q := q.copy())

    def step(change: Vector) -> tuple[Vector, Vector]:
        mujoco.mj_resetData(m, data)
        data.qpos[:], data.qvel[:], data.ctrl[:] = q, v + change[n : 2 * n], u + change[2 * n :]
        mujoco.mj_integratePos(m, data.qpos, change[:n], 1.0)
        apply_spin(m, data)
        mujoco.mj_step(m, data)
        return data.qpos.copy(), data.qvel.copy()

    columns = np.empty((2 * n, 2 * n + model.nu))
    for column, change in enumerate(STEP * np.eye(2 * n + model.nu)):
        (q1, v1), (q0, v0) = step(change), step(-change)
        moved = np.empty(n)
        mujoco.mj_differentiatePos(m, moved, 1.0, q0, q1)
        columns[:, column] = np.r_[moved, v1 - v0] / (2 * STEP)
    return columns[:, : 2 * n], columns[:, 2 * n :]


@pytest.mark.parametrize("seed", range(20))
def test_random_trees(seed: int) -> None:
    """Agree on random trees with springs, damping and armature."""
    model, rng = smooth_tree(seed, actuators=False)
    sim = fb.Simulator(model)
    for draws in range(3):
        q, v = random_state(model, rng)
        v = v / max(1.0, float(np.abs(v).max()))
        ours = sim.linearize(q, v)
        theirs = spun_jacobians(model, q, v, np.zeros(model.nu))
        worst = error(np.asarray(ours[0], float), theirs[0])
        print(f"seed {seed}, draw {draws}, error {worst:.1e}")
        assert worst <= 3e-6


@pytest.mark.parametrize("name", ["laikago", "quadruped"])
def test_a_robot_in_the_air(name: str) -> None:
    """Agree with the servos of a robot, whose damping is the joints' own, B included."""
    print("seed 0")
    rng = np.random.default_rng(0)
    model = OWN[name]()
    q, v = np.array(model.keyframe(0)[0]), 0.1 * rng.standard_normal(model.nv)
    q[2] += 10.0
    u = q[7:] + rng.uniform(-0.01, 0.01, model.nu)
    sim = fb.Simulator(model, params={"dof_frictionloss": np.zeros(model.nv)})
    ours, theirs = sim.linearize(q, v, u), their_jacobians(model, "EULER", q, v, u)
    for found, expected in zip(ours, theirs, strict=True):
        assert error(np.asarray(found, float), expected) <= 1e-7
