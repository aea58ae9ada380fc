"""Drops: the height a body comes back to, and how the error shrinks with the step."""

from __future__ import annotations

import numpy as np
import pytest

import featherback as fb
from tests.physics.helpers import Vector

RADIUS = 0.1
DROPS = 64
# share of a body's inverse weight that is a contact's compliance when none is given
REGULARISATION = 1e-6


def drop(e: float, dt: float, heights: Vector) -> fb.Rollout:
    """Drop balls from rest at the given gaps and follow them through their second fall."""
    model = fb.models.ball(radius=RADIUS)
    sim = fb.Simulator(model, dt=dt, params={"geom_restitution": np.full(model.ngeom, e)})
    q = np.tile(model.q0, (len(heights), 1))
    q[:, 2] = RADIUS + heights
    seconds = 2.2 * np.sqrt(2 * heights.max() / 9.81)
    roll = sim.rollout(q, np.zeros((len(heights), model.nv)), steps=int(seconds / dt))
    assert roll.ok
    return roll


def apex(roll: fb.Rollout) -> Vector:
    """Return the largest gap after the first bounce of each ball."""
    gap, speed = roll.q[..., 2] - RADIUS, roll.v[..., 2]
    up = np.maximum.accumulate(speed > 0, axis=1)
    return np.where(up, gap, -np.inf).max(axis=1)


def drop_heights() -> Vector:
    """Return random gaps [m], so that the hit falls anywhere within a step."""
    print("seed 0")
    return np.random.default_rng(0).uniform(0.3, 1.0, DROPS)


def test_no_restitution_stays() -> None:
    """Stay on the floor after the first touch when e = 0.

    The gap after a touch is -h R lam with R = 1e-6 / m and lam / m the velocity that the contact
    takes away, at most the approach speed sqrt(2 g H) plus g h.
    """
    heights, dt = drop_heights(), 1e-3
    roll = drop(0.0, dt, heights)
    gap = roll.q[..., 2] - RADIUS
    touched = np.maximum.accumulate(gap < 1e-6, axis=1)
    bound = dt * REGULARISATION * (np.sqrt(2 * 9.81 * heights.max()) + 9.81 * dt)
    assert touched[:, -1].all()
    assert np.abs(gap[touched]).max() <= bound
    assert np.abs(roll.v[:, -1]).max() <= REGULARISATION * 9.81 * dt


@pytest.mark.parametrize("e", [0.3, 0.5, 0.9, 1.0])
def test_returns_to_its_share(e: float) -> None:
    """Return to e^2 H at second order in h.

    Between hits a step is exact for velocities of its middle; at a hit each of the two parts is off
    by at most g h^2 / 8, and the apex falls between two states. What is left is the contact's
    regularisation, v+ = -(1 - 2 R) e v and an apex lower by 4 R H.
    """
    heights = drop_heights()
    for dt in (4e-3, 2e-3, 1e-3, 5e-4):
        error = np.abs(apex(drop(e, dt, heights)) - e**2 * heights)
        print(f"e {e}, dt {dt:g}: apex error mean {error.mean():.2e}, most {error.max():.2e} m")
        assert np.all(error <= 0.5 * 9.81 * dt**2 + 4.1 * REGULARISATION * heights)


def test_energy_of_many_bounces() -> None:
    """Keep the energy of an elastic ball over four seconds.

    Steps keep v^2 / 2 + g z - g h v / 2 in free flight.
    """
    model = fb.models.ball(radius=RADIUS)
    q = np.array(model.q0)
    q[2] = 0.5 + RADIUS
    for dt in (4e-3, 1e-3):
        sim = fb.Simulator(model, dt=dt, params={"geom_restitution": np.ones(model.ngeom)})
        roll = sim.rollout(q, np.zeros(model.nv), steps=round(4 / dt))
        z, v = roll.q[:, 2] - RADIUS, roll.v[:, 2]
        energy = v**2 / 2 + 9.81 * z - 9.81 * dt / 2 * v
        print(f"dt {dt:g}: energy changes by {energy[-1] / energy[0] - 1:.1e}")
        assert abs(energy[-1] / energy[0] - 1) <= 3e-4
        # no part of a step is shorter than a sixteenth of it
        assert z.min() >= -dt / 16 * np.abs(v).max()


def test_restitution_ends() -> None:
    """Come to rest in finite time when e < 1: below v_rest the ball no longer bounces."""
    heights = drop_heights()[:8]
    model = fb.models.ball(radius=RADIUS)
    sim = fb.Simulator(model, dt=1e-3, params={"geom_restitution": np.full(model.ngeom, 0.5)})
    q = np.tile(model.q0, (8, 1))
    q[:, 2] += heights
    roll = sim.rollout(q, np.zeros((8, model.nv)), steps=3000)
    assert np.abs(roll.v[:, -1]).max() <= REGULARISATION * 9.81 * 1e-3
    assert np.abs(roll.q[:, -1, 2] - RADIUS).max() <= 1e-9


def test_two_balls_exchange_velocities() -> None:
    """Exchange the velocities of two equal balls in a central hit with e = 1; momentum is kept."""
    model = fb.load(
        '<mujoco><option gravity="0 0 0" timestep="0.001"/><worldbody>'
        '<body><freejoint/><geom size="0.1" mass="1"/></body>'
        '<body pos="0.5 0 0"><freejoint/><geom size="0.1" mass="1"/></body>'
        "</worldbody></mujoco>"
    )
    sim = fb.Simulator(model, params={"geom_restitution": np.ones(2)})
    v = np.zeros(12)
    v[0], v[6] = 1.0, -0.5
    roll = sim.rollout(model.q0, v, steps=500)
    assert roll.v[-1, 0] == pytest.approx(-0.5, abs=4 * REGULARISATION)
    assert roll.v[-1, 6] == pytest.approx(1.0, abs=4 * REGULARISATION)
    assert np.abs(roll.v[:, 0] + roll.v[:, 6] - 0.5).max() <= 4e-16
