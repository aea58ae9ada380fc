"""Overlaps, violated limits and equalities far from closed: taken back, and never into speed."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

import featherback as fb

DT = 0.002
OPTION = f'<option timestep="{DT}"/>'


def scene(bodies: str, after: str = "", condim: int = 3) -> fb.Model:
    """Return bodies as a model with a step of 2 ms."""
    default = f'<default><geom condim="{condim}"/></default>'
    return fb.load(f"<mujoco>{OPTION}{default}<worldbody>{bodies}</worldbody>{after}</mujoco>")


def pendulum(condim: int) -> fb.Model:
    """Return a pendulum of 1 m whose tip is 1 cm in the floor."""
    return scene(
        '<geom type="plane" size="2 2 .1"/><body pos="0 0 1.09"><joint axis="0 1 0" damping="0.1"/>'
        '<geom type="capsule" fromto="0 0 0 0 0 -1" size=".02" contype="0" conaffinity="0"/>'
        '<geom type="sphere" size=".1" pos="0 0 -1"/></body>',
        condim=condim,
    )


WHEEL = '<body name="w" pos="0 0 1"><joint axis="0 1 0"/><geom size=".1" mass="1"/></body>'
TIED = '<equality><connect body1="w" anchor="0 0 .1"/></equality>'
WALLS = (
    '<geom type="box" size=".1 1 1" pos="-.2 0 0"/><geom type="box" size=".1 1 1" pos=".2 0 0"/>'
)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_pendulum_leaves_the_floor_without_speed(dtype: str) -> None:
    """Move a tip out of the floor where the only joint can hardly do so, below 0.03 rad/s."""
    sim = fb.Simulator(pendulum(1), dtype=dtype)
    roll = sim.rollout([0.001], [0.0], steps=800)
    assert np.abs(roll.v).max() < 0.03
    assert not roll.status.any()
    # 1.09 m above the floor, 1 m long, a ball of 0.1 m
    assert abs(np.cos(roll.q[-1, 0]) - 0.99) < (1e-9 if dtype == "float64" else 1e-5)


def test_sticking_does_not_hold_an_overlap() -> None:
    """Come out of the floor although the tip sticks, with forces that sink again."""
    sim = fb.Simulator(pendulum(3))
    roll = sim.rollout([0.001], [0.0], steps=800)
    force = np.abs(sim.contacts(roll.q[-1], roll.v[-1]).force).max()
    assert np.abs(roll.v).max() < 0.01 and not roll.status.any()
    assert force < 1e4


def test_tied_wheel_closes_in_every_pose() -> None:
    """Close a connect 10 cm off the axis of a wheel from 101 poses; none is flagged."""
    model = scene(WHEEL, TIED)
    angle = np.linspace(-np.pi, np.pi, 101)[:, None]
    roll = fb.Simulator(model).rollout(angle, np.zeros((101, 1)), steps=1500)
    assert not roll.status.any()
    assert np.abs(roll.v).max() < 7
    # from exactly opposite no turn is shorter
    assert np.abs(roll.q[1:-1, -1]).max() < 1e-8


def test_arm_tied_out_of_reach_stays_slow() -> None:
    """Hold an outstretched arm whose tie is 2 cm out of reach, slower than MuJoCo does."""
    model = scene(
        '<body pos="0 0 1"><joint axis="0 1 0"/>'
        '<geom type="capsule" size=".03" fromto="0 0 0 .5 0 0" contype="0" conaffinity="0"/>'
        '<body name="b" pos=".5 0 0"><joint axis="0 1 0"/>'
        '<geom type="capsule" size=".03" fromto="0 0 0 .5 0 0" contype="0" conaffinity="0"/>'
        '<site name="tip" pos=".5 0 0"/></body></body><site name="post" pos="1.02 0 1"/>',
        '<equality><connect site1="tip" site2="post"/></equality>',
    )
    roll = fb.Simulator(model).rollout([0.001, 0.0], [0.0, 0.0], steps=300)
    data = mujoco.MjData(model.mujoco)
    data.qpos[0] = 0.001
    peer = 0.0
    for _ in range(300):
        mujoco.mj_step(model.mujoco, data)
        peer = max(peer, np.abs(data.qvel).max())
    assert np.abs(roll.v).max() < peer
    assert np.abs(roll.v[-1]).max() < 0.1 and not roll.status.any()


def test_squeezed_box_is_held() -> None:
    """Press a box that is 1 cm too wide for its slot with v_recover / h of its mass; it is held."""
    model = scene(f'{WALLS}<body><freejoint/><geom type="box" size=".105 .1 .1" mass="1"/></body>')
    sim = fb.Simulator(model)
    roll = sim.rollout(model.q0, model.v0, steps=200)
    assert not roll.status.any()
    assert np.abs(roll.q[-1] - model.q0).max() < 1e-6
    found = sim.contacts(roll.q[-1], roll.v[-1])
    side = np.abs(found.force[: int(found.count), 0])
    assert side.sum() / 2 == pytest.approx(1000, rel=0.05)


def test_overlap_moves_positions_and_not_velocities() -> None:
    """Leave a floor at no more than v_recover, with less than 1 mm/s, and rest on it."""
    model = fb.models.ball()
    q = model.q0.copy()
    q[2] -= 0.05
    roll = fb.Simulator(model, dt=DT).rollout(q, model.v0, steps=200)
    rise = np.diff(roll.q[:, 2]) / DT
    assert rise.max() < 0.5 and rise[:50].min() > 0.35
    assert np.abs(roll.v).max() < 1e-3
    assert roll.q[-1, 2] == pytest.approx(0.1, abs=1e-9)


def test_violated_limit_comes_back_without_speed() -> None:
    """Bring a joint back to its range at no more than v_recover, and leave it no speed."""
    model = scene(
        '<body><joint axis="0 0 1" range="-10 10"/>'
        '<geom type="box" size=".1 .1 .1" mass="1"/></body>'
    )
    roll = fb.Simulator(model).rollout([0.3], [0.0], steps=200)
    assert np.abs(np.diff(roll.q[:, 0])).max() <= 0.5 * DT
    assert np.abs(roll.v).max() < 1e-3
    assert roll.q[-1, 0] == pytest.approx(np.deg2rad(10), abs=1e-4)


def test_a_given_compliance_recovers_by_itself() -> None:
    """Leave rows with a compliance of their own to their spring: q moves with v alone."""
    model = fb.models.ball()
    q = model.q0.copy()
    q[2] -= 0.01
    soft = {"contact_compliance": np.full(model.ngeom, 1e-4)}
    roll = fb.Simulator(model, dt=DT, params=soft).rollout(q, model.v0, steps=20)
    np.testing.assert_allclose(np.diff(roll.q[:, 2]) / DT, roll.v[1:, 2], atol=1e-12)


@pytest.mark.parametrize("name", ["laikago", "box", "cartpole"])
def test_ordinary_steps_move_with_their_velocity(name: str) -> None:
    """Be a step without recovery where nothing is violated: q+ = q (+) h v+, to the last digits."""
    model = getattr(fb.models, name)()
    sim = fb.Simulator(model)
    q = np.array(model.keyframe(0)[0] if model.keyframe_names else model.q0)
    u = np.repeat(q[None, 7:], 200, 0) if name == "laikago" else None
    roll = sim.rollout(q, model.v0, u, steps=200)
    for k in range(200):
        moved = np.array(roll.q[k])
        mujoco.mj_integratePos(
            model.mujoco, moved, np.array(roll.v[k + 1]), float(sim.params["dt"][0])
        )
        np.testing.assert_allclose(roll.q[k + 1], moved, atol=1e-14)


def test_bounce_is_not_moved_beyond_its_speed() -> None:
    """Leave an overlap by bouncing where that is faster: positions add nothing."""
    model = fb.models.ball()
    q = model.q0.copy()
    q[2] -= 1e-4
    v = np.zeros(model.nv)
    v[2] = -2.0
    bouncy = {"geom_restitution": np.full(model.ngeom, 0.8)}
    q1, v1 = fb.Simulator(model, dt=DT, params=bouncy).step(q, v)
    # it was hit before the step began, when the gap was closed: phi + tau b + tau^2 d / (2 h) = 0
    d = -9.81 * DT
    b = v[2] + d / 2
    tau = -2e-4 / (np.sqrt(b**2 + 2e-4 * d / DT) - b)
    leaves = -0.8 * (v[2] + (tau / DT + 0.5) * d)
    assert v1[2] == pytest.approx(leaves - d / 2 - 9.81 * (DT - tau), rel=1e-5)
    hit = q[2] + tau * (v[2] + (1 + tau / DT) * d / 2)
    assert q1[2] == pytest.approx(hit + (DT - tau) * v1[2], abs=1e-12)


def test_inverse_weights_are_above_zero() -> None:
    """Give what can move an inverse weight of at least 0.15 over the mass it carries."""
    model = scene(
        f'{WHEEL}<body name="cart"><joint type="slide" axis="1 0 0"/><geom size=".1" mass="2"/>'
        '<body><joint axis="0 0 1"/><geom size=".1" mass="3"/></body></body><body name="fixed"/>'
    )
    weight = model.params["body_invweight0"]
    m = model.mujoco
    moving = np.flatnonzero(m.body_weldid)
    assert np.all(weight[moving, 0] >= 0.15 / m.body_subtreemass[moving])
    assert np.all(weight[moving, 1] > 0)
    fixed = mujoco.mj_name2id(m, mujoco.mjtObj.mjOBJ_BODY, "fixed")
    assert np.all(weight[[0, fixed]] == 0)
