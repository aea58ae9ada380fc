"""Friction opposes slip; a body sticks below the angle atan(mu) and slides above it."""

from __future__ import annotations

import numpy as np
import pytest

import featherback as fb
from tests.physics.helpers import G, Vector, floor, scene
from tests.property.random_models import rotation, unit

DT = 0.002
WORLDS = 200


def slab(mu: float) -> fb.Model:
    """Return a flat box on a floor; its height is small beside its length, so it never tips."""
    return scene(
        f'{floor(mu)}<body pos="0 0 0.05"><freejoint/>'
        f'<geom type="box" size="0.2 0.2 0.05" mass="1" friction="{mu} 0 0"/></body>'
    )


def on_slope(angle: Vector, heading: float) -> Vector:
    """Return gravity [m/s^2] for floors tilted by each angle, downhill towards `heading`."""
    side = np.array([np.cos(heading), np.sin(heading), 0.0])
    return G * (np.sin(angle)[:, None] * side - np.cos(angle)[:, None] * np.array([0, 0, 1.0]))


def angle_to_slip(force: Vector, slip: Vector) -> Vector:
    """Return the angle between friction and the opposite of slip [degrees]."""
    cross = np.linalg.norm(np.cross(force, slip), axis=-1)
    return np.degrees(np.arctan2(cross, -np.einsum("...i,...i->...", force, slip)))


def test_friction_opposes_slip_of_a_point() -> None:
    """Point friction against slip, lam_t = -mu lam_n slip / |slip|, on random planes.

    A sphere on three slides cannot turn, so slip is the tangential part of its velocity.
    """
    print("seed 1")
    rng, mu = np.random.default_rng(1), 0.6
    slides = "".join(f'<joint type="slide" axis="{axis}"/>' for axis in ("1 0 0", "0 1 0", "0 0 1"))
    model = scene(
        f'{floor(mu)}<body>{slides}<geom size="0.1" mass="0.7" friction="{mu} 0 0"/></body>'
    )
    quat = np.array([unit(rng, 4) for _ in range(WORLDS)])
    normal = np.array([rotation(x)[:, 2] for x in quat])
    plane = np.tile(model.params["geom_quat"], (WORLDS, 1, 1))
    plane[:, 0] = quat
    along = np.cross(normal, rng.standard_normal((WORLDS, 3)))
    v = along - normal * rng.uniform(0.0, 1.0, (WORLDS, 1))
    gravity = G * np.array([unit(rng, 3) for _ in range(WORLDS)]) - 2 * G * normal
    params = {"geom_quat": plane, "gravity": gravity}
    sim = fb.Simulator(model, dt=DT)
    q = 0.1 * normal
    contacts = sim.contacts(q, v, params=params)
    after = sim.step(q, v, params=params)[1]
    force = contacts.force[:, 0]
    normal_force = np.einsum("wi,wi->w", force, normal)
    friction = force - normal_force[:, None] * normal
    slip = after - np.einsum("wi,wi->w", after, normal)[:, None] * normal
    sliding = np.linalg.norm(slip, axis=1) > 1e-3
    worst = angle_to_slip(friction, slip)[sliding].max()
    print(f"worst angle {worst:.1e} degrees over {sliding.sum()} worlds")
    assert sliding.sum() > 0.8 * WORLDS
    assert worst <= 1e-4
    size = np.linalg.norm(friction, axis=1)
    assert np.abs(size / normal_force - mu)[sliding].max() <= 1e-9


def test_friction_opposes_slip_of_a_box() -> None:
    """Point friction against slip at each corner of a box that slides, spins and tilts.

    The slip of a corner at p is v + R w x (p - x), with the velocities after the step.
    """
    print("seed 2")
    rng, mu = np.random.default_rng(2), 0.5
    model = slab(mu)
    q = np.tile(model.q0, (WORLDS, 1))
    v = rng.standard_normal((WORLDS, 6)) * np.array([1, 1, 0, 0, 0, 3.0])
    gravity = on_slope(rng.uniform(0.0, 1.0, WORLDS), 0.4)
    sim = fb.Simulator(model, dt=DT)
    contacts = sim.contacts(q, v, params={"gravity": gravity})
    roll = sim.rollout(q, v, steps=1, params={"gravity": gravity})
    after = roll.v[:, 1]
    arm = contacts.point[:, :8] - q[:, None, :3]
    slip = (after[:, None, :3] + np.cross(after[:, None, 3:], arm))[..., :2]
    friction = contacts.force[:, :8, :2]
    size, normal = np.linalg.norm(friction, axis=-1), contacts.force[:, :8, 2]
    used = (normal > 1e-3) & (np.linalg.norm(slip, axis=-1) > 0.05)
    used &= (roll.status == 0)[:, None]
    pad = np.zeros((*slip.shape[:2], 1))
    worst = angle_to_slip(np.dstack([friction, pad]), np.dstack([slip, pad]))[used].max()
    print(f"worst angle {worst:.1e} degrees over {used.sum()} corners")
    assert used.sum() > 2 * WORLDS
    assert worst <= 1e-4
    assert np.abs(size / np.maximum(normal, 1e-3) - mu)[used].max() <= 1e-8


@pytest.mark.parametrize("mu", [0.1, 0.3, 0.5, 0.8])
@pytest.mark.parametrize("heading", [0.0, 0.7])
def test_incline_threshold(mu: float, heading: float) -> None:
    """Stick below atan(mu) and slide above it with a = g (sin x - mu cos x), within 0.1 %.

    After 1 s a box that sticks moves with less than a hundredth of the speed that one slides with
    whose slope is 0.1 % above the threshold.
    """
    ratio = np.array([0.5, 0.9, 0.99, 0.999, 1.001, 1.01, 1.1])
    angle = ratio * np.arctan(mu)
    model = slab(mu)
    sim = fb.Simulator(model, dt=DT)
    start = np.tile(model.q0, (len(ratio), 1)), np.zeros((len(ratio), model.nv))
    roll = sim.rollout(*start, steps=500, params={"gravity": on_slope(angle, heading)})
    speed = roll.v[:, -1, :2] @ np.array([np.cos(heading), np.sin(heading)])
    expected = G * (np.sin(angle) - mu * np.cos(angle)) * 500 * DT
    print(f"speeds {speed}, expected {expected.clip(0)}")
    least = expected[ratio == 1.001][0]
    assert np.abs(speed[ratio < 1]).max() <= 0.01 * least
    assert np.abs(speed - expected)[ratio > 1].max() <= 0.01 * least


def test_incline_threshold_of_a_point() -> None:
    """Find the threshold of a mass on three slides by bisection: atan(mu) within 1e-6."""
    mu = 0.37
    slides = "".join(f'<joint type="slide" axis="{axis}"/>' for axis in ("1 0 0", "0 1 0", "0 0 1"))
    model = scene(
        f'{floor(mu)}<body pos="0 0 0.1">{slides}<geom size="0.1" friction="{mu} 0 0"/></body>'
    )
    sim = fb.Simulator(model, dt=DT)
    low, high = 0.9 * np.arctan(mu), 1.1 * np.arctan(mu)
    for _ in range(8):
        angles = np.linspace(low, high, 10)
        params = {"gravity": on_slope(angles, 0.3)}
        v = sim.rollout(np.zeros((10, 3)), np.zeros((10, 3)), steps=50, params=params).v[:, -1]
        # a mass that sticks creeps by its regularisation, 1e-6 g h
        slides_off = np.linalg.norm(v, axis=1) > 2e-6 * G * DT
        first = int(np.argmax(slides_off))
        assert 0 < first and slides_off[first:].all()
        low, high = angles[first - 1], angles[first]
    assert 0.5 * (low + high) == pytest.approx(np.arctan(mu), rel=1e-6)


def test_sliding_distance() -> None:
    """Stop a sliding block after v^2 / (2 mu g), to O(h): h v / 2 at most."""
    mu, speed = 0.4, np.array([0.5, 1.0, 2.0])
    model = slab(mu)
    sim = fb.Simulator(model, dt=DT)
    v = np.zeros((3, model.nv))
    v[:, 0] = speed
    roll = sim.rollout(np.tile(model.q0, (3, 1)), v, steps=400)
    distance = roll.q[:, -1, 0]
    expected = speed**2 / (2 * mu * G)
    print(f"distances {distance}, expected {expected}")
    assert np.all(np.abs(distance - expected) <= 0.5 * DT * speed + mu * G * DT**2)
    assert np.abs(roll.v[:, -1]).max() <= 1e-6 * G * DT


def test_box_friction_bounds_each_tangent() -> None:
    """Bound each tangent by itself with friction="box": a diagonal force reaches sqrt(2) mu N.

    The tangents of a level floor are x and y, so downhill along the diagonal the threshold is
    tan x = sqrt(2) mu, and along x it is mu.
    """
    mu = 0.4
    model = slab(mu)
    sim = fb.Simulator(model, dt=DT, friction="box")
    for heading, limit in ((0.0, mu), (np.pi / 4, np.sqrt(2) * mu)):
        angle = np.arctan(limit) * np.array([0.99, 1.01])
        start = np.tile(model.q0, (2, 1)), np.zeros((2, model.nv))
        roll = sim.rollout(*start, steps=200, params={"gravity": on_slope(angle, heading)})
        speed = np.linalg.norm(roll.v[:, -1, :2], axis=1)
        print(f"heading {heading:.2f}: speeds {speed}")
        assert speed[0] <= 0.01 * speed[1]
