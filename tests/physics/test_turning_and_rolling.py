"""Friction against turning about the normal and against rolling: condim 4 and 6, the hard law."""

from __future__ import annotations

import re
from typing import Any, Literal

import numpy as np
import pytest

import featherback as fb
from tests.physics.helpers import G, Vector, scene

DT = 0.002
RADIUS, MASS = 0.1, 1.3
TURN, ROLL = 0.02, 0.005
INERTIA = 0.4 * MASS * RADIUS**2


def ball(condim: int, mu: float = 0.8, turn: float = TURN, roll: float = ROLL) -> fb.Model:
    """Return a ball on a floor."""
    return scene(
        '<geom name="floor" type="plane" size="0 0 1" friction="0 0 0"/>'
        f'<body pos="0 0 {RADIUS}"><freejoint/><geom name="ball" size="{RADIUS}" mass="{MASS}" '
        f'condim="{condim}" friction="{mu} {turn} {roll}"/></body>'
    )


def moved(sim: fb.Simulator, v: Any, steps: int) -> Vector:
    """Return the velocities of so many steps from the model's own pose."""
    roll = sim.rollout(sim.model.q0, np.array(v, float), np.zeros((steps, 0)))
    assert roll.ok
    return np.asarray(roll.v)


@pytest.mark.parametrize("condim", [4, 6])
@pytest.mark.parametrize("friction", ["cone", "box"])
def test_spin_is_slowed_by_the_torque_of_the_normal_force(
    condim: int, friction: Literal["cone", "box"]
) -> None:
    """Lose mu_t N / I of spin a second, then stay: omega = max(omega_0 - mu_t m g t / I, 0)."""
    sim = fb.Simulator(ball(condim), dt=DT, friction=friction)
    v = moved(sim, [0, 0, 0, 0, 0, 5.0], 120)
    time = DT * np.arange(121)
    expected = np.maximum(5.0 - TURN * MASS * G / INERTIA * time, 0.0)
    assert expected[-1] == 0.0
    assert np.abs(v[:, 5] - expected).max() < 1e-6 and np.abs(v[:, :5]).max() < 1e-7
    assert np.abs(v[-1, 5]) < 1e-7


def test_sliding_friction_alone_does_not_slow_a_spin() -> None:
    """Keep the spin of a ball of condim 3."""
    v = moved(fb.Simulator(ball(3), dt=DT), [0, 0, 0, 0, 0, 5.0], 50)
    assert np.abs(v[:, 5] - 5.0).max() < 1e-9


@pytest.mark.parametrize("heading", [0.0, 0.7, 2.0])
def test_rolling_is_slowed(heading: float) -> None:
    """Roll with the deceleration mu_r g r / (r^2 + I / m) to a stop, without slipping."""
    along = np.array([np.cos(heading), np.sin(heading), 0.0])
    spin = np.cross([0, 0, 1.0], along) / RADIUS
    v = moved(fb.Simulator(ball(6), dt=DT), 0.6 * np.r_[along, spin], 900)
    slowing = ROLL * G * RADIUS / (RADIUS**2 + INERTIA / MASS)
    expected = np.maximum(0.6 - slowing * DT * np.arange(901), 0.0)
    assert expected[-1] == 0.0
    assert np.abs(v[:, :3] - np.outer(expected, along)).max() < 1e-4
    assert np.abs(v[:, 3:] - np.outer(expected, spin)).max() < 1e-3


@pytest.mark.parametrize(("share", "stays"), [(0.9, True), (1.1, False)])
def test_a_ball_stays_on_a_slope_of_less_than_its_rolling_friction(
    share: float, stays: bool
) -> None:
    """Stay where tan(slope) < mu_r / r, and roll with what is left of gravity above it."""
    sim = fb.Simulator(ball(6), dt=DT)
    slope = np.arctan(share * ROLL / RADIUS)
    gravity = G * np.array([np.sin(slope), 0, -np.cos(slope)])
    roll = sim.rollout(sim.model.q0, np.zeros(6), np.zeros((200, 0)), params={"gravity": gravity})
    assert roll.ok
    left = np.sin(slope) * RADIUS - ROLL * np.cos(slope)
    expected = 0.0 if stays else G * left * RADIUS / (RADIUS**2 + INERTIA / MASS) * 200 * DT
    assert abs(roll.v[-1, 0] - expected) < (1e-6 if stays else 1e-3 * expected)


def test_torque_opposes_what_turns_and_rolls() -> None:
    """Show torques on their rims, opposed to spin and rolling, each with its own bound."""
    sim = fb.Simulator(ball(6, mu=0.0), dt=DT)
    spin = np.array([3.0, -4.0, 2.0])
    contacts = sim.contacts(sim.model.q0, np.r_[0, 0, 0, spin])
    force, torque = contacts.force[0], contacts.torque[0]
    assert abs(force[2] - MASS * G) < 1e-4
    assert np.abs(torque - force[2] * np.array([-0.6 * ROLL, 0.8 * ROLL, -TURN])).max() < 1e-8


def test_a_box_turns_as_one_that_slides_on_its_corners_and_turns_on_each() -> None:
    """Add the corners' turning friction, 4 mu_t N / 4, to that of their sliding."""
    half, mu = 0.1, 0.2
    model = scene(
        '<geom name="floor" type="plane" size="0 0 1" friction="0 0 0"/>'
        f'<body pos="0 0 {half}"><freejoint/><geom type="box" size="{half} {half} {half}" '
        f'mass="{MASS}" condim="4" friction="{mu} {TURN} 0"/></body>'
    )
    v = moved(fb.Simulator(model, dt=DT), [0, 0, 0, 0, 0, 6.0], 20)
    inertia = MASS * (2 * half) ** 2 / 6
    torque = MASS * G * (mu * half * np.sqrt(2) + TURN)
    expected = 6.0 - torque / inertia * DT * np.arange(21)
    assert np.abs(v[:, 5] - expected).max() < 1e-4


def test_mujoco_slows_a_spin_alike() -> None:
    """Lose spin as under MuJoCo's law with its elliptic cone, while both turn."""
    model = ball(4)
    hard = moved(fb.Simulator(model, dt=DT), [0, 0, 0, 0, 0, 20.0], 100)
    soft = fb.Simulator(model, dt=DT, contact="mujoco", cone="elliptic")
    # MuJoCo's contact carries the weight at a depth
    q, v = np.array(model.q0), np.zeros(6)
    for _ in range(400):
        q, v = soft.step(q, v)
    v[5] = 20.0
    spins = [20.0]
    for _ in range(100):
        q, v = soft.step(q, v)
        spins.append(float(v[5]))
    ours, theirs = (np.diff(x).mean() for x in (hard[:, 5], spins))
    assert abs(ours / theirs - 1) < 2e-3


def test_pairs_have_their_own_numbers() -> None:
    """Take turning and rolling friction of an explicit pair, and their gradients."""
    xml = (
        '<mujoco><option timestep="0.002"/><worldbody>'
        '<geom name="floor" type="plane" size="0 0 1"/>'
        f'<body pos="0 0 {RADIUS}"><freejoint/><geom name="ball" size="{RADIUS}" mass="{MASS}"/>'
        '</body></worldbody><contact><pair geom1="floor" geom2="ball" condim="6" '
        f'friction="0.8 0.8 {TURN} {ROLL} {ROLL}"/></contact></mujoco>'
    )
    model = fb.load(xml)
    sim = fb.Simulator(model)
    rest = {"pair_friction_rest": np.array(model.params["pair_friction_rest"])}
    spin = np.array([3.0, -4.0, 2.0])
    roll = sim.rollout(model.q0, np.r_[0, 0, 0, spin], np.zeros((1, 0)), params=rest)
    slowing = TURN * MASS * G * model.params["dt"][0] / INERTIA
    assert abs(roll.v[-1, 5] - (2.0 - slowing)) < 1e-6
    v_bar = np.zeros((2, 6))
    v_bar[-1, 5] = 1.0
    found = roll.vjp(np.zeros((2, 7)), v_bar).params["pair_friction_rest"]
    assert abs(found[0, 1] + slowing / TURN) < 1e-5 * slowing / TURN
    assert np.abs(found[0, [0, 2, 3]]).max() < 1e-9


def test_sweeps_alone_refuse_condim_4_and_6() -> None:
    """Name the solvers that have them."""
    said = (
        'Simulator(): solver is "pgs" and the model has contacts of condim 4; sweeps alone have '
        'condim 1 and 3, so pass solver="newton" or "interior".'
    )
    with pytest.raises(fb.ParameterError, match=re.escape(said)):
        fb.Simulator(ball(4), solver="pgs")


def test_a_bouncing_ball_loses_spin_at_the_hit() -> None:
    """Bound the change of spin at a hit by mu_t times the normal impulse, (1 + e) m v."""
    model = ball(4)
    sim = fb.Simulator(model, dt=DT)
    params = {"geom_restitution": np.array([0.5, 0.5])}
    q = np.array(model.q0)
    q[2] += 0.0001
    v = np.array([0, 0, -1.0, 0, 0, 50.0])
    roll = sim.rollout(q, v, np.zeros((1, 0)), params=params)
    assert roll.ok and roll.v[-1, 2] > 0.4
    lost = 50.0 - roll.v[-1, 5]
    # the speed of the hit is that of the middle of the step
    hit = 1.0 + 0.5 * G * DT
    assert abs(lost * INERTIA / (TURN * MASS * 1.5 * hit) - 1) < 2e-3


def test_equal_frictions_of_spin_have_half_of_the_gradient_each() -> None:
    """Give each of two geoms with the same torsional friction half of its gradient."""
    text = """<mujoco><worldbody><geom type="plane" size="1 1 1" friction="0.8 0.03 0.01"/>
    <body pos="0 0 0.1"><freejoint/><geom size="0.1" condim="4" friction="0.8 0.03 0.01"/></body>
    </worldbody></mujoco>"""
    model = fb.load(text)
    sim, v = fb.Simulator(model), np.array([0.0, 0, 0, 0, 0, 9])

    def run(change: float) -> fb.Rollout:
        both = model.params["geom_friction"] + [0, change, 0]
        return sim.rollout(model.q0, v, steps=20, params={"geom_friction": both})

    found = run(0.0).vjp(v_bar=np.eye(6)[5]).params["geom_friction"][:, 1]
    assert found[0] == found[1] < -1e-3
    slope = (run(1e-6).v[-1, 5] - run(-1e-6).v[-1, 5]) / 2e-6
    assert found.sum() == pytest.approx(slope, rel=1e-6)
