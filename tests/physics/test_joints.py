"""Limits, dry friction, equalities, compliance and mocap bodies against their equations."""

from __future__ import annotations

import numpy as np
import pytest

import featherback as fb
from tests.physics.helpers import EPS, G, floor, scene, slope
from tests.property.random_models import rotation

DT = 0.002
# share of a joint's inverse weight that is a row's compliance when none is given
REGULARISATION = 1e-6


def slide(
    attributes: str = "", *, mass: float = 2.0, axis: str = "0 0 1", after: str = ""
) -> fb.Model:
    """Return a mass on a slide named x."""
    return scene(
        f'<body><joint name="x" type="slide" axis="{axis}" {attributes}/>'
        f'<geom size="0.1" mass="{mass}"/></body>',
        after=after,
    )


def test_slide_stops_at_its_range() -> None:
    """Stop at the end of the range: q >= q_min - h R lam, with lam the momentum taken, A = 1 / m.

    R lam = 1e-6 of the velocity that the limit takes away.
    """
    model = slide('range="-0.3 10"')
    roll = fb.Simulator(model, dt=DT).rollout([0.0], [0.0], steps=1000)
    speed = np.sqrt(2 * G * 0.3) + G * DT
    assert roll.ok
    assert roll.q.min() >= -0.3 - DT * REGULARISATION * speed
    assert roll.q[-1, 0] == pytest.approx(-0.3, abs=2 * DT * REGULARISATION * G * DT)
    assert abs(roll.v[-1, 0]) <= 1e-12
    upper = fb.Simulator(slide('range="-10 0.2"'), dt=DT).rollout([0.0], [3.0], steps=40)
    assert upper.q.max() == pytest.approx(0.2, abs=DT * REGULARISATION * 3.0)


def test_hinge_and_ball_stop_at_their_range() -> None:
    """Swing a hinge and a ball joint onto their limits: the angle stays within the range.

    A ball joint's angle is |log q|; the row is linear in the angle, so it overshoots by O(h^2 w^2).
    """
    hinge = scene(
        '<body><joint type="hinge" axis="0 1 0" range="-0.5 0.5"/>'
        '<geom size="0.05" pos="0.3 0 0" mass="1"/></body>'
    )
    roll = fb.Simulator(hinge, dt=DT).rollout([0.0], [0.0], steps=1500)
    assert roll.q[:, 0].max() <= 0.5 + DT * REGULARISATION * 10
    assert roll.q[-1, 0] == pytest.approx(0.5, abs=1e-9)
    ball = scene(
        '<body><joint type="ball" range="0 0.6" damping="0.02"/>'
        '<geom size="0.05" pos="0.2 0.05 0.1" mass="1"/></body>'
    )
    roll = fb.Simulator(ball, dt=DT).rollout(ball.q0, [0.5, 0.2, -0.3], steps=3000)
    angle = 2 * np.arctan2(np.linalg.norm(roll.q[:, 1:], axis=1), np.abs(roll.q[:, 0]))
    fastest = np.linalg.norm(roll.v, axis=1).max()
    print(f"largest angle {angle.max():.6f} of 0.6")
    assert angle.max() > 0.55
    assert angle.max() <= 0.6 + 2 * (DT * fastest) ** 2


@pytest.mark.parametrize("direction", [-1.0, 1.0])
def test_dry_friction_threshold(direction: float) -> None:
    """Hold against forces below frictionloss F, move with (f - F) / m above, within 1e-6.

    A joint that is held creeps with R lam = 1e-6 A F h.
    """
    loss, mass = 3.0, 2.0
    model = slide(
        f'frictionloss="{loss}"', axis="1 0 0", after='<actuator><motor joint="x"/></actuator>'
    )
    sim = fb.Simulator(model, dt=DT)
    for force in (0.5, 2.0, 2.999):
        roll = sim.rollout([0.0], [0.0], [direction * force], steps=500)
        assert np.abs(roll.v).max() <= REGULARISATION * force * DT / mass * (1 + 1e-6)
    for force in (3.001, 4.0, 10.0):
        roll = sim.rollout([0.0], [0.0], [direction * force], steps=500)
        speed = direction * (force - loss) / mass * 500 * DT
        assert roll.v[-1, 0] == pytest.approx(speed, rel=1e-3 if force < 3.01 else 1e-6)


def test_dry_friction_stops_motion() -> None:
    """Decelerate by F / m and stop for good after m v^2 / (2 F), to O(h)."""
    model = slide('frictionloss="3"', axis="1 0 0")
    roll = fb.Simulator(model, dt=DT).rollout([0.0], [1.2], steps=1000)
    v = np.maximum(0.0, 1.2 - 1.5 * DT * np.arange(1001))
    assert np.abs(roll.v[:, 0] - v).max() <= 2e-6 * 1.2
    assert roll.q[-1, 0] == pytest.approx(1.2**2 / 3.0, abs=0.5 * DT * 1.2 + 1.5 * DT**2)


FOUR_BAR = """
<body name="a"><joint name="a" axis="0 1 0"/>
  <geom type="capsule" fromto="0 0 0 0 0 0.3" size="0.02"/>
  <body name="b" pos="0 0 0.3"><joint name="b" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.02"/><site name="b" pos="0.4 0 0"/>
  </body></body>
<body name="c" pos="0.4 0 -0.15"><joint name="c" axis="0 1 0"/>
  <geom type="capsule" fromto="0 0 0 0 0 0.45" size="0.02"/><site name="c" pos="0 0 0.45"/></body>
"""


def test_connect_closes_a_four_bar() -> None:
    """Close a double pendulum to a four-bar: |p1 - p2| = O(h^2) and no drift.

    The row closes the gap to first order in each step, so what is left is the curvature of one
    step, h^2 w^2 L; halving h divides it by four (slope 2 +- 0.2).
    """
    model = scene(
        FOUR_BAR,
        after='<contact><exclude body1="b" body2="c"/><exclude body1="a" body2="c"/></contact>'
        '<equality><connect body1="b" body2="c" anchor="0.4 0 0"/></equality>',
    )
    gaps, steps = [], [2e-3, 1e-3, 5e-4]
    for dt in steps:
        sim = fb.Simulator(model, dt=dt)
        roll = sim.rollout(model.q0, [1.5, -1.5, 1.0], steps=round(2.0 / dt))
        sites = sim.site_positions(roll.q)
        gap = np.linalg.norm(sites[:, 0] - sites[:, 1], axis=1)
        fastest = np.abs(roll.v).max()
        assert roll.ok
        assert gap.max() <= 2 * (dt * fastest) ** 2 * 0.4
        gaps.append(gap.max())
    print(f"largest gaps {gaps}")
    assert slope(np.array(steps), np.array(gaps)) == pytest.approx(2.0, abs=0.2)


def test_weld_holds_two_bodies() -> None:
    """Hold two free bodies as one: they spin together and keep their relative pose to O(h^2)."""
    model = scene(
        '<body name="a" pos="0 0 5"><freejoint/>'
        '<geom type="box" size="0.1 0.05 0.05" mass="1"/></body>'
        '<body name="b" pos="0.3 0 5"><freejoint/>'
        '<geom type="box" size="0.1 0.05 0.02" mass="0.4"/></body>',
        after='<equality><weld body1="a" body2="b"/></equality>',
    )
    v = np.array([0.0, 0.0, 0.0, 1.0, 2.0, 0.5, 0.0, 0.0, 0.0, 1.0, 2.0, 0.5])
    v[6:9] = np.cross(v[3:6], [0.3, 0.0, 0.0])
    sim = fb.Simulator(model, dt=DT)
    roll = sim.rollout(model.q0, v, steps=500)
    p, R = sim.body_poses(roll.q)
    place = np.einsum("tji,tj->ti", R[:, 1], p[:, 2] - p[:, 1])
    turn = np.einsum("tji,tjk->tik", R[:, 1], R[:, 2])
    fastest = np.abs(roll.v[:, 3:6]).max()
    assert roll.ok
    assert np.abs(place - [0.3, 0.0, 0.0]).max() <= (2 * DT * fastest) ** 2 * 0.3
    assert np.abs(turn - np.eye(3)).max() <= (2 * DT * fastest) ** 2


def test_joint_equality_keeps_its_ratio() -> None:
    """Mimic q1 = c0 + c1 q2: linear, so it holds to the compliance, h R lam of both joints."""
    model = scene(
        '<body><joint name="one" axis="0 1 0"/><geom size="0.05" pos="0.2 0 0" mass="1"/></body>'
        '<body pos="0 1 0"><joint name="two" axis="0 1 0"/>'
        '<geom size="0.05" pos="0.1 0 0" mass="2"/></body>',
        after='<equality><joint joint1="one" joint2="two" polycoef="0.1 -2 0 0 0"/></equality>',
    )
    roll = fb.Simulator(model, dt=DT).rollout([0.1, 0.0], [0.0, 0.0], steps=1000)
    error = np.abs(roll.q[:, 0] - 0.1 + 2 * roll.q[:, 1]).max()
    print(f"ratio off by {error:.1e} rad")
    assert np.abs(roll.q[:, 1]).max() > 0.5
    assert error <= DT * 100 * REGULARISATION * G * DT / 0.1 * 2
    # the pair moves as one pendulum: (4 I1 + I2) a = -2 tau1 + tau2
    inertia = [1.0 * (0.04 + 0.4 * 0.05**2), 2.0 * (0.01 + 0.4 * 0.05**2)]
    torque = [G * 1.0 * 0.2 * np.cos(0.1), G * 2.0 * 0.1]
    expected = DT * (-2 * torque[0] + torque[1]) / (4 * inertia[0] + inertia[1])
    assert roll.v[1, 1] == pytest.approx(expected, rel=1e-3)


def test_quadratic_joint_equality() -> None:
    """Follow q1 = x + x^2 / 2 of q2, curvature left at O(h^2 v^2)."""
    model = scene(
        '<body><joint name="one" type="slide" axis="1 0 0"/><geom size="0.05" mass="1"/></body>'
        '<body pos="0 1 0"><joint name="two" type="slide" axis="1 0 0"/>'
        '<geom size="0.05" mass="2"/></body>',
        after='<equality><joint joint1="one" joint2="two" polycoef="0 1 0.5 0 0"/></equality>',
    )
    roll = fb.Simulator(model, dt=DT).rollout([0.0, 0.0], [0.5, 0.5], steps=500)
    x = roll.q[:, 1]
    assert np.abs(roll.q[:, 0] - x - 0.5 * x**2).max() <= (DT * 0.5) ** 2
    assert roll.q[-1, 1] > 0.3


@pytest.mark.parametrize("shape", ["ball", "box"])
def test_compliance_sinks_by_weight(shape: str) -> None:
    """Sink by weight times compliance: phi = -c F, with c the sum of both geoms' compliances."""
    model = fb.models.ball(mass=2.0) if shape == "ball" else fb.models.box(mass=2.0)
    compliance = np.array([1e-6, 4e-6])
    sim = fb.Simulator(model, dt=DT, params={"contact_compliance": compliance})
    roll = sim.rollout(model.q0, model.v0, steps=1000)
    contacts = sim.contacts(roll.q[-1], roll.v[-1])
    n = int(contacts.count)
    assert n == (1 if shape == "ball" else 4)
    sink = model.q0[2] - roll.q[-1, 2]
    assert sink == pytest.approx(5e-6 * 2.0 * G / n, rel=1e-9)
    assert contacts.force[:n].sum(axis=0)[2] == pytest.approx(2.0 * G, rel=1e-9)
    assert contacts.gap[:n] == pytest.approx(np.full(n, -5e-6 * 2.0 * G / n), rel=1e-9)


def test_condim_one_has_no_friction() -> None:
    """Slide without friction where condim is 1, whatever the coefficient."""
    model = scene(
        '<geom type="plane" size="0 0 1" condim="1"/><body pos="0 0 0.1"><freejoint/>'
        '<geom type="box" size="0.1 0.1 0.1" mass="1" condim="1" friction="2 0 0"/></body>'
    )
    roll = fb.Simulator(model, dt=DT).rollout(model.q0, [1, 0.5, 0, 0, 0, 0], steps=200)
    assert np.abs(roll.v[:, :2] - [1, 0.5]).max() <= 200 * 4 * EPS


def test_mocap_body_carries_a_welded_one() -> None:
    """Move a mocap body through body_pos and body_quat: what is welded to it follows.

    A target that moves slower than v_recover is followed by velocity, with a lag of at most one
    step, h times its speed.
    """
    model = scene(
        '<body name="hand" mocap="true" pos="0 0 1"/>'
        '<body name="tool" pos="0 0 1"><freejoint/><geom type="box" size="0.1 0.05 0.02" mass="1"/>'
        "</body>",
        after='<equality><weld body1="hand" body2="tool"/></equality>',
    )
    sim = fb.Simulator(model, dt=DT)
    q, v = model.q0, model.v0
    place, turn = model.params["body_pos"].copy(), model.params["body_quat"].copy()
    for k in range(500):
        angle = 0.3 * DT * k
        place[1] = [0.2 * DT * k, 0.0, 1.0]
        turn[1] = [np.cos(angle / 2), 0.0, 0.0, np.sin(angle / 2)]
        q, v = sim.step(q, v, params={"body_pos": place, "body_quat": turn})
    assert np.abs(q[:3] - place[1]).max() <= DT * 0.2 * 1.01
    assert np.abs(rotation(q[3:]) - rotation(turn[1])).max() <= DT * 0.3 * 1.01
    assert v[0] == pytest.approx(0.2, rel=1e-3)


def test_mocap_body_pushes() -> None:
    """Raise a mocap plate under a ball by less than v_recover: the ball rides on it, never inside.

    The plate has no velocity of its own, so the ball lags by one step of its motion.
    """
    model = scene(
        '<body name="plate" mocap="true" pos="0 0 0.1"><geom type="box" size="1 1 0.1"/></body>'
        '<body pos="0 0 0.3"><freejoint/><geom size="0.1" mass="1"/></body>'
    )
    sim = fb.Simulator(model, dt=DT)
    q, v = model.q0, model.v0
    place = model.params["body_pos"].copy()
    for k in range(250):
        place[1, 2] = 0.1 + 0.3 * DT * k
        q, v = sim.step(q, v, params={"body_pos": place})
    assert abs(q[2] - (place[1, 2] + 0.2)) <= DT * 0.3 * 1.01


def test_larger_friction_counts() -> None:
    """Take the larger friction of two geoms: v_x+ = v_x - max(mu_1, mu_2) g h."""
    model = scene(
        f'{floor(0.2)}<body pos="0 0 0.1"><freejoint/>'
        '<geom type="box" size="0.1 0.1 0.1" mass="1" friction="0.7 0 0"/></body>'
    )
    v = np.array([2.0, 0, 0, 0, 0, 0])
    after = fb.Simulator(model, dt=DT).step(model.q0, v)[1]
    assert after[0] == pytest.approx(2.0 - 0.7 * G * DT, rel=1e-6)
