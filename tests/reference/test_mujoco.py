"""Smooth dynamics against MuJoCo: matrices, forces, poses, one step and free flights.

Contacts, joint limits, dry friction and equalities follow a law of our own and are switched off
here on both sides. What is left is the same equation, so the two agree to rounding:

* M, bias, forward and inverse dynamics, poses of bodies and sites;
* one step with springs, damping and armature against MuJoCo's Euler integrator, which is implicit
  in joint damping as ours is (its flag eulerdamp);
* one step with actuators against MuJoCo's implicitfast, which is implicit in the damping of servos
  too, as ours is. Two cases are left out: an actuator that pushes along with its velocity, which
  our step leaves explicit, and free joints, whose gyroscopic force MuJoCo takes implicitly there.

The gyroscopic torque of free and ball joints is that of the middle of our step; MuJoCo's bodies are
given the difference as an applied torque.
Against Euler, which is explicit in servos, a step differs by O(h^2) in the velocity.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

import featherback as fb
from tests.core.references import apply_spin
from tests.property.random_models import random_state, random_tree
from tools import corpus_table, corpus_work

Vector = NDArray[np.float64]

TREES = 60
FLIGHT_STEP = 5e-4  # short enough for the stiffest spring on the lightest body [s]
OWN: dict[str, Callable[[], fb.Model]] = {
    "laikago": fb.models.laikago,
    "two laikagos": lambda: fb.models.laikago(robots=2),
    "chain": lambda: fb.models.chain(12),
    "pendulum": lambda: fb.models.pendulum(3),
    "ball": fb.models.ball,
    "box": fb.models.box,
    "cartpole": fb.models.cartpole,
    "quadruped": fb.models.quadruped,
}


def smooth_tree(seed: int, **options: Any) -> tuple[fb.Model, np.random.Generator]:
    """Return a random tree with every constraint switched off, and the generator behind it."""
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    text = random_tree(rng, limits=False, **options)
    head, body = text.split("/>\n  <worldbody>", 1)
    flags = '><flag constraint="disable"/></option>\n  <worldbody>'
    return fb.load(head + flags + body), rng


def their_step(
    model: fb.Model, integrator: str, q: Vector, v: Vector, u: Vector, h: float | None = None
) -> tuple[Vector, Vector]:
    """Return the next state by MuJoCo, without constraints."""
    compiled = copy.copy(model.mujoco)
    compiled.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    compiled.opt.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{integrator}")
    compiled.opt.timestep = h or compiled.opt.timestep
    data = mujoco.MjData(compiled)
    data.qpos[:], data.qvel[:], data.ctrl[:] = q, v, u
    apply_spin(compiled, data)
    mujoco.mj_step(compiled, data)
    return np.array(data.qpos), np.array(data.qvel)


def error(ours: Vector, theirs: Vector) -> float:
    """Return the largest difference, relative to the largest entry or one."""
    return float(np.abs(ours - theirs).max(initial=0.0) / max(np.abs(theirs).max(initial=0.0), 1.0))


def servo_slopes(model: fb.Model, q: Vector, v: Vector, u: Vector) -> Vector:
    """Return d(force)/d(speed) of each actuator, zero where its force is at a limit."""
    m = model.mujoco
    data = mujoco.MjData(m)
    data.qpos[:], data.qvel[:], data.ctrl[:] = q, v, u
    mujoco.mj_forward(m, data)
    limited = m.actuator_ctrllimited.astype(bool)
    ctrl = np.where(limited, np.clip(u, *m.actuator_ctrlrange.T), u)
    gain = np.where(m.actuator_gaintype == int(mujoco.mjtGain.mjGAIN_AFFINE), ctrl, 0.0)
    bias = np.where(m.actuator_biastype == int(mujoco.mjtBias.mjBIAS_AFFINE), 1.0, 0.0)
    slopes = gain * m.actuator_gainprm[:, 2] + bias * m.actuator_biasprm[:, 2]
    low, high = m.actuator_forcerange.T
    held = (data.actuator_force <= low) | (data.actuator_force >= high)
    return np.where(m.actuator_forcelimited.astype(bool) & held, 0.0, slopes)


def check_dynamics(model: fb.Model, seed: int) -> None:
    """Compare M, bias, forward and inverse dynamics at five random states.

    Errors are those of `corpus_work.compare`: relative to the largest entry of MuJoCo's
    result (bias: plus 1e-6 of the largest entry of M), and for inverse after forward dynamics
    relative to the largest sum of magnitudes |M| |a| + |bias|.
    """
    worst = corpus_work.compare(model, fb.Simulator(model), seed)
    print({name: f"{value:.1e}" for name, value in worst.items()})
    for name, value in worst.items():
        limit = corpus_table.INVERSE_LIMIT if name == "inverse" else corpus_table.DYNAMICS_LIMIT
        assert value <= limit, name


@pytest.mark.parametrize("seed", range(TREES))
def test_dynamics_of_random_trees(seed: int) -> None:
    """Give MuJoCo's M, bias and acceleration on a tree of 1 to 40 bodies, mass ratio to 1e4."""
    print(f"seed {seed}")
    text = random_tree(np.random.default_rng(seed), equality=seed % 3 == 0)
    check_dynamics(fb.load(text), seed)


@pytest.mark.parametrize("name", OWN)
def test_dynamics_of_our_own_models(name: str) -> None:
    """Give MuJoCo's M, bias and acceleration on every model of ours."""
    print("seed 0")
    check_dynamics(OWN[name](), 0)


@pytest.mark.parametrize("name", [*OWN, *range(20)])
def test_poses_of_bodies_and_sites(name: str | int) -> None:
    """Put every body and site where MuJoCo puts it, to 1e-12."""
    print("seed 0")
    rng = np.random.default_rng(0)
    if isinstance(name, int):
        model, rng = smooth_tree(name)
    else:
        model = OWN[name]()
    sim, data = fb.Simulator(model), mujoco.MjData(model.mujoco)
    for _ in range(5):
        q, _ = random_state(model, rng)
        data.qpos[:] = q
        mujoco.mj_kinematics(model.mujoco, data)
        bodies, sites = sim.body_poses(q), sim.site_poses(q)
        assert error(bodies[0], data.xpos) <= 1e-12
        assert error(bodies[1], data.xmat.reshape(-1, 3, 3)) <= 1e-12
        assert error(sites[0], data.site_xpos) <= 1e-12
        assert error(sites[1], data.site_xmat.reshape(-1, 3, 3)) <= 1e-12
        assert np.array_equal(sites[0], sim.site_positions(q))


@pytest.mark.parametrize("seed", range(TREES))
def test_one_step_with_springs_and_damping(seed: int) -> None:
    """Take MuJoCo's Euler step, springs, damping and armature included, on every joint type."""
    model, rng = smooth_tree(seed, actuators=False)
    q, v = random_state(model, rng)
    ours = fb.Simulator(model).step(q, v)
    theirs = their_step(model, "EULER", q, v, np.zeros(0))
    assert error(ours[0], theirs[0]) <= 1e-10
    assert error(ours[1], theirs[1]) <= 1e-10


def test_one_step_with_actuators() -> None:
    """Take MuJoCo's implicitfast step with motors and servos, force limits reached or not."""
    compared = limited = 0
    for seed in range(TREES):
        model, rng = smooth_tree(seed, joints=("ball", "hinge", "slide"))
        q, v = random_state(model, rng)
        u = rng.uniform(-1, 1, model.nu)
        slopes = servo_slopes(model, q, v, u)
        if model.nu == 0 or np.any(slopes > 0):
            continue
        ours = fb.Simulator(model).step(q, v, u)
        theirs = their_step(model, "IMPLICITFAST", q, v, u)
        assert error(ours[0], theirs[0]) <= 1e-10
        assert error(ours[1], theirs[1]) <= 1e-10
        compared += 1
        limited += bool(np.any((slopes == 0) & (model.mujoco.actuator_biasprm[:, 2] < 0)))
    print(f"{compared} trees, {limited} with a servo at its limit")
    assert compared >= TREES // 2
    assert limited >= 5


@pytest.mark.parametrize("name", ["laikago", "quadruped"])
def test_one_step_of_a_robot_in_the_air(name: str) -> None:
    """Take MuJoCo's Euler step with the servos of a robot, whose damping is the joints' own."""
    print("seed 0")
    rng = np.random.default_rng(0)
    model = OWN[name]()
    # no limit is near and no force at its limit
    q, v = np.array(model.keyframe(0)[0]), 0.1 * rng.standard_normal(model.nv)
    q[2] += 10.0
    u = q[7:] + rng.uniform(-0.01, 0.01, model.nu)
    sim = fb.Simulator(model, params={"dof_frictionloss": np.zeros(model.nv)})
    ours, theirs = sim.step(q, v, u), their_step(model, "EULER", q, v, u)
    assert error(ours[0], theirs[0]) <= 1e-12
    assert error(ours[1], theirs[1]) <= 1e-12


def test_servo_damping_differs_from_an_explicit_step_by_the_square_of_the_step() -> None:
    """Quarter the difference to MuJoCo's Euler step when the step is halved."""
    geom = '<geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0" contype="0"/>'
    model = fb.load(
        f'<mujoco><worldbody><body><joint name="a" axis="0 1 0"/>{geom}'
        f'<body pos="0.3 0 0"><joint name="b" axis="0 1 0"/>{geom}</body></body></worldbody>'
        '<actuator><position joint="a" kp="20" kv="2"/><position joint="b" kp="20" kv="2"/>'
        "</actuator></mujoco>"
    )
    q, v, u = np.array([0.3, -0.4]), np.array([1.0, 2.0]), np.array([0.5, 0.1])
    errors = []
    for h in (1e-5, 5e-6):
        _, ours = fb.Simulator(model, dt=h).step(q, v, u)
        _, theirs = their_step(model, "EULER", q, v, u, h)
        errors.append(np.abs(ours - theirs).max())
    print(f"differences {errors[0]:.2e}, {errors[1]:.2e} rad/s")
    assert errors[0] / errors[1] == pytest.approx(4.0, abs=0.1)


@pytest.mark.parametrize("seed", range(10))
def test_free_flights_stay_together(seed: int) -> None:
    """Fly 200 steps beside MuJoCo, apart by no more than a first difference of 1e-12 grows.

    How a difference grows is measured on our own trajectory, started 1e-7 aside.
    """
    model, rng = smooth_tree(seed, actuators=False, bodies=6, mass_ratio=100.0)
    q, v = random_state(model, rng)
    sim = fb.Simulator(model, dt=FLIGHT_STEP)
    roll = sim.rollout(q, v, steps=200)
    aside = sim.rollout(q, v + 1e-7 * rng.standard_normal(model.nv), steps=200)
    assert roll.ok
    growth = max(float(np.abs(aside.v - roll.v).max()) / 1e-7, 1.0)
    apart = 0.0
    for k in range(200):
        q, v = their_step(model, "EULER", q, v, np.zeros(0), FLIGHT_STEP)
        apart = max(apart, error(roll.q[k + 1], q), error(roll.v[k + 1], v))
    print(f"apart by {apart:.1e}, growth {growth:.1e}")
    assert apart <= 1e-12 * growth
