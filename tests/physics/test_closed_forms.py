"""Motions with a closed form, each with its equation; tolerances are orders of the step."""

from __future__ import annotations

import numpy as np
import pytest

import featherback as fb
from tests.physics.helpers import EPS, G, Vector, scene, slope


def test_free_fall_is_the_scheme_s_own_sum() -> None:
    """Fall as semi-implicit Euler sums it: z_n = z_0 + n h v_0 - g h^2 n (n + 1) / 2."""
    model = fb.models.ball()
    sim = fb.Simulator(model, dt=1e-3)
    q, v = model.q0.copy(), model.v0.copy()
    q[2], v[2] = 100.0, 3.0
    roll = sim.rollout(q, v, steps=1000)
    n = np.arange(1001)
    expected = 100.0 + n * 3e-3 - G * 1e-6 * n * (n + 1) / 2
    assert np.abs(roll.q[:, 2] - expected).max() <= 1000 * 100.0 * EPS
    assert np.abs(roll.v[:, 2] - (3.0 - G * 1e-3 * n)).max() <= 1000 * G * EPS


def test_projectile() -> None:
    """Fly as x = v_x t, z = z_0 + v_z t - g t^2 / 2, off by g h t / 2 (first order) and no more."""
    model = fb.models.ball()
    q, v = model.q0.copy(), model.v0.copy()
    q[2], v[:3], v[3:] = 50.0, (4.0, -2.0, 7.0), (1.0, 2.0, 3.0)
    errors, steps = [], np.array([8e-3, 4e-3, 2e-3, 1e-3])
    for dt in steps:
        n = round(1.6 / dt)
        roll = fb.Simulator(model, dt=float(dt)).rollout(q, v, steps=n)
        t = dt * np.arange(n + 1)
        assert np.abs(roll.q[:, :2] - t[:, None] * v[:2]).max() <= n * 8.0 * EPS
        error = np.abs(roll.q[:, 2] - (50.0 + 7.0 * t - 0.5 * G * t**2)).max()
        assert error <= 0.5 * G * dt * 1.6 * (1 + 1e-9)
        errors.append(error)
    assert slope(steps, np.array(errors)) == pytest.approx(1.0, abs=0.01)


def agm(a: float, b: float) -> float:
    """Return the arithmetic-geometric mean."""
    while abs(a - b) > 4 * EPS * a:
        a, b = 0.5 * (a + b), np.sqrt(a * b)
    return a


def period(q: Vector, dt: float) -> float:
    """Return the mean time between upward zero crossings, interpolated within a step."""
    up = np.flatnonzero((q[:-1] < 0) & (q[1:] >= 0))
    at = dt * (up - q[up] / (q[up + 1] - q[up]))
    return float(np.diff(at).mean())


@pytest.mark.parametrize("amplitude", [0.01, 0.5, 1.5, 2.8])
def test_pendulum_period(amplitude: float) -> None:
    """Swing with T = 2 pi sqrt(I / (m g l)) / agm(1, cos(a/2)), amplitude a.

    Semi-implicit Euler is symplectic here, and for small swings its period is short by the
    factor 1 - (w h)^2 / 24; twice that bounds all amplitudes, and the order is 2 +- 0.1.
    """
    length = 0.5
    model = fb.models.pendulum(1, length=length)
    omega = np.sqrt(G / (1.004 * length))
    exact = 2 * np.pi / omega / agm(1.0, np.cos(amplitude / 2))
    errors, steps = [], np.array([4e-3, 2e-3, 1e-3])
    for dt in steps:
        sim = fb.Simulator(model, dt=float(dt))
        roll = sim.rollout([amplitude], [0.0], steps=round(10 * exact / dt))
        errors.append(abs(period(roll.q[:, 0], float(dt)) / exact - 1))
    print(f"relative errors {errors}")
    assert np.all(np.array(errors) <= (omega * steps) ** 2 / 12)
    assert slope(steps, np.array(errors)) == pytest.approx(2.0, abs=0.1)


def test_spring_oscillation() -> None:
    """Oscillate as the scheme's own rotation: cos(w' h) = 1 - (w h)^2 / 2, w = sqrt(k / m).

    q_n = cos(w' h n) q_0 + c sin(w' h n) with q_1 = (1 - (w h)^2) q_0 for v_0 = 0.
    """
    k, m, dt = 40.0, 0.8, 0.01
    model = scene(
        f'<body><joint type="slide" axis="1 0 0" stiffness="{k}"/>'
        f'<geom size="0.1" mass="{m}"/></body>'
    )
    roll = fb.Simulator(model, dt=dt).rollout([0.3], [0.0], steps=1000)
    x = k / m * dt**2
    turn = 2 * np.arcsin(np.sqrt(x) / 2)
    c = ((1 - x) - np.cos(turn)) / np.sin(turn)
    n = np.arange(1001)
    expected = 0.3 * (np.cos(turn * n) + c * np.sin(turn * n))
    assert np.abs(roll.q[:, 0] - expected).max() <= 1000 * 4 * EPS
    omega = np.sqrt(k / m)
    assert turn / dt == pytest.approx(omega, rel=(omega * dt) ** 2 / 20)


def symmetric_top() -> fb.Model:
    """Return a free body with inertia (0.3, 0.3, 0.1) kg m^2 in a world without gravity."""
    return fb.load(
        '<mujoco><option gravity="0 0 0"/><worldbody><body><freejoint/>'
        '<inertial mass="2" pos="0 0 0" diaginertia="0.3 0.3 0.1"/></body></worldbody></mujoco>'
    )


def test_torque_free_top() -> None:
    """Turn in the body with rate (I3 - I1) / I1 w3, and in space about L with rate |L| / I1.

    Body rates: w1 + i w2 turns by exp(i Omega t), Omega = (I3 - I1) / I1 w3, and w3 is constant.
    The axis e3 keeps its angle to L. Rates are of second order (slope 2 +- 0.1), since their torque
    is that of the middle of the step; the axis is of first order (slope 1 +- 0.1).
    """
    model, w0 = symmetric_top(), np.array([0.8, 0.0, 3.0])
    omega = (0.1 - 0.3) / 0.3 * w0[2]
    L = np.array([0.3, 0.3, 0.1]) * w0
    steps, rate_error, space_error = np.array([4e-3, 2e-3, 1e-3, 5e-4]), [], []
    for dt in steps:
        n = round(2.0 / dt)
        sim = fb.Simulator(model, dt=float(dt))
        roll = sim.rollout(model.q0, np.concatenate([np.zeros(3), w0]), steps=n)
        t = dt * np.arange(n + 1)
        exact = w0[0] * np.exp(1j * omega * t)
        rate_error.append(np.abs(roll.v[:, 3] + 1j * roll.v[:, 4] - exact).max())
        assert np.abs(roll.v[:, 5] - w0[2]).max() <= n * EPS * w0[2]
        # the top's axis in space, and its exact place: a turn of e3 about L
        axis = sim.body_poses(roll.q)[1][:, 1, :, 2]
        unit, angle = L / np.linalg.norm(L), np.linalg.norm(L) / 0.3 * t
        start = np.array([0.0, 0.0, 1.0])
        along = unit * (unit @ start)
        place = (
            along
            + np.cos(angle)[:, None] * (start - along)
            + np.sin(angle)[:, None] * np.cross(unit, start)
        )
        space_error.append(np.abs(axis - place).max())
    print(f"rates off by {rate_error}, axis by {space_error}")
    assert slope(steps, np.array(rate_error)) == pytest.approx(2.0, abs=0.1)
    assert slope(steps, np.array(space_error)) == pytest.approx(1.0, abs=0.1)


def test_steady_spin_keeps_its_axis() -> None:
    """Turn about a principal axis by w t exactly: q = (cos(w t / 2), sin(w t / 2) e)."""
    model = symmetric_top()
    rate, dt = 5.0, 0.002
    sim = fb.Simulator(model, dt=dt)
    roll = sim.rollout(model.q0, [0, 0, 0, 0, 0, rate], steps=1000)
    half = 0.5 * rate * dt * np.arange(1001)
    assert np.abs(np.abs(roll.q[:, 3]) - np.abs(np.cos(half))).max() <= 1000 * 4 * EPS
    assert np.abs(np.linalg.norm(roll.q[:, 3:], axis=1) - 1).max() <= 4 * EPS


def test_damped_joint_decays_by_the_implicit_factor() -> None:
    """Decay as v_n = v_0 / (1 + h d / m)^n, implicit in damping, also where h d / m >> 1."""
    for damping in (0.1, 10.0, 1e4):
        model = scene(
            f'<body><joint type="slide" axis="1 0 0" damping="{damping}" armature="0.5"/>'
            '<geom size="0.1" mass="1.5"/></body>'
        )
        roll = fb.Simulator(model, dt=0.005).rollout([0.0], [2.0], steps=50)
        expected = 2.0 / (1 + 0.005 * damping / 2.0) ** np.arange(51)
        assert np.abs(roll.v[:, 0] - expected).max() <= 50 * 2.0 * EPS


def servo(kind: str) -> fb.Model:
    """Return a mass of 2 kg on a slide with one actuator."""
    return scene(
        '<body><joint name="x" type="slide" axis="1 0 0"/><geom size="0.1" mass="2"/></body>',
        after=f"<actuator>{kind}</actuator>",
    )


def test_position_servo_follows_its_recurrence() -> None:
    """Follow (m + h kv) (v+ - v) = h (kp (u - q) - kv v), q+ = q + h v+, gear 1."""
    kp, kv, m, h = 50.0, 4.0, 2.0, 0.004
    model = servo(f'<position joint="x" kp="{kp}" kv="{kv}"/>')
    roll = fb.Simulator(model, dt=h).rollout([0.1], [0.0], [0.7], steps=500)
    q, v = 0.1, 0.0
    for k in range(500):
        v += h * (kp * (0.7 - q) - kv * v) / (m + h * kv)
        q += h * v
        assert abs(roll.q[k + 1, 0] - q) <= 100 * EPS
    assert abs(roll.q[-1, 0] - 0.7) <= 0.7 * np.exp(-kv / (2 * m) * 2.0) * 1.1


def test_velocity_servo_decays_to_its_target() -> None:
    """Reach u as u - v_n = (u - v_0) / (1 + h kv / m)^n."""
    kv, m, h = 6.0, 2.0, 0.01
    model = servo(f'<velocity joint="x" kv="{kv}"/>')
    roll = fb.Simulator(model, dt=h).rollout([0.0], [0.0], [1.5], steps=100)
    expected = 1.5 - 1.5 / (1 + h * kv / m) ** np.arange(101)
    assert np.abs(roll.v[:, 0] - expected).max() <= 100 * EPS


def test_motor_gear_and_limits() -> None:
    """Accelerate by gear clamp(gain clamp(u)) / m, with control and force ranges."""
    model = servo(
        '<general joint="x" gainprm="3" gear="2" ctrlrange="-1 1" forcerange="-2.5 2.5"/>'
    )
    sim = fb.Simulator(model, dt=0.01)
    for u, force in ((0.5, 3.0), (0.8, 4.8), (1.0, 5.0), (9.0, 5.0), (-9.0, -5.0)):
        v = sim.step([0.0], [0.0], [u])[1]
        assert v[0] == pytest.approx(0.01 * force / 2.0, rel=4 * EPS)
