"""Hits of articulated bodies: states and derivatives converge to motion from event to event."""

from __future__ import annotations

import numpy as np
import pytest

import featherback as fb
from tests.physics.events import Events, Vector

HEAD = '<geom type="plane" size="0 0 1" contype="1" conaffinity="0" friction="{mu} 0 0"/>'
PLANAR = '<joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/><joint axis="0 1 0"/>'


def ball(position: str) -> str:
    """Return a sphere that hits the floor alone."""
    return (
        f'<geom size="0.05" pos="{position}" mass="0" contype="0" conaffinity="1" '
        'friction="0 0 0"/>'
    )


ARM = (
    '<body pos="0 0 0.9"><joint axis="0 1 0"/>'
    '<inertial pos="0.25 0 0" mass="1" diaginertia="0.02 0.02 0.02"/>'
    '<body pos="0.5 0 0"><joint axis="0 1 0"/>'
    '<inertial pos="0.2 0 0" mass="0.7" diaginertia="0.01 0.01 0.01"/>'
    f"{ball('0.45 0 0')}</body></body>"
)
ROD = (
    f'<body>{PLANAR}<inertial pos="0 0 0" mass="1" diaginertia="0.03 0.03 0.03"/>'
    f"{ball('0.3 0 0')}{ball('-0.3 0 0')}</body>"
)
DISC = (
    f'<body>{PLANAR}<inertial pos="0 0 0" mass="1" diaginertia="0.03 0.002 0.03"/>'
    f"{ball('0 0 0')}</body>"
)
# name -> bodies, q, v, seconds, e, mu, hits
MOTIONS = {
    "arm": (ARM, [0.1, 0.3], [0.5, -0.4], 0.5, 0.6, 0.3, 1),
    "rod, its ends one after the other": (ROD, [0, 0.4, 0.12], [0.2, -0.5, 0.3], 0.5, 0.6, 0.3, 5),
    "disc that slides": (DISC, [0, 0.4, 0.1], [2.0, -0.5, 0.3], 0.5, 0.6, 0.1, 1),
    "disc that sticks": (DISC, [0, 0.4, 0.1], [0.2, -0.5, 0.3], 0.5, 0.6, 0.5, 1),
}


def of_steps(sim: fb.Simulator, q: Vector, v: Vector, seconds: float) -> tuple[Vector, Vector]:
    """Return the final state of a rollout and its derivative by the initial one."""
    n = len(q)
    roll = sim.rollout(q, v, steps=round(seconds / sim.params["dt"].item()))
    columns = []
    for direction in np.eye(2 * n):
        q_dot, v_dot = roll.jvp(direction[:n], direction[n:])[:2]
        columns.append(np.r_[q_dot[-1], v_dot[-1]])
    return np.r_[roll.q[-1], roll.v[-1]], np.array(columns).T


@pytest.mark.parametrize("name", MOTIONS)
def test_steps_converge_to_events(name: str) -> None:
    """Reach place, speed and their derivatives at first order in the step."""
    bodies, q, v, seconds, e, mu, hits = MOTIONS[name]
    world = (HEAD + bodies).replace("{mu}", str(mu))
    model = fb.load(f"<mujoco><worldbody>{world}</worldbody></mujoco>")
    q, v, n = np.array(q, float), np.array(v, float), len(q)
    events = Events(model, e, mu)
    end = events.run(q, v, seconds)
    assert len(events.hits) == hits
    slope = events.jacobian(q, v, seconds)
    for dt in (2e-3, 5e-4, 1.25e-4):
        sim = fb.Simulator(model, dt=dt, params={"geom_restitution": np.full(model.ngeom, e)})
        state, jacobian = of_steps(sim, q, v, seconds)
        error = np.abs(jacobian - slope)
        place, speed = (
            float(error[part].max() / np.abs(slope[part]).max())
            for part in (slice(n), slice(n, None))
        )
        far = float(np.abs(state - end).max())
        print(f"{name}, dt {dt:g}: state {far:.1e}, place {place:.1e}, speed {speed:.1e}")
        # where within a step the hit falls changes the factor of h, but not the order
        assert max(far / 40, place / 30, speed / 30) <= dt


def test_hits_beyond_the_last_happen_at_the_end_of_the_step() -> None:
    """Stay finite and below the first energy where more is hit than a step is cut for."""
    rng = np.random.default_rng(0)
    print("seed 0")
    bodies = "".join(
        f'<body pos="{0.3 * i} 0 0.0501"><freejoint/>{ball("0 0 0")}'
        '<inertial pos="0 0 0" mass="1" diaginertia="0.01 0.01 0.01"/></body>'
        for i in range(20)
    )
    world = HEAD.replace("{mu}", "0.3") + bodies
    model = fb.load(f"<mujoco><worldbody>{world}</worldbody></mujoco>")
    sim = fb.Simulator(model, dt=4e-3, params={"geom_restitution": np.full(model.ngeom, 0.8)})
    q, v = np.array(model.q0), np.zeros(model.nv)
    q[2::7] += rng.uniform(0, 0.005, 20)
    v[2::6] = -2.0
    roll = sim.rollout(q, v, steps=5)
    assert roll.ok
    up = roll.v[-1, 2::6]
    # every ball leaves, at most at the speed that restitution gives it
    assert np.all(up > 0)
    assert np.all(up <= 0.8 * 2.0 + 0.1)
    bars = rng.normal(size=roll.q.shape), rng.normal(size=roll.v.shape)
    gradient = roll.vjp(*bars)
    dq, dv = rng.normal(size=model.nq), rng.normal(size=model.nv)
    q_dot, v_dot = roll.jvp(dq, dv)[:2]
    forward = float((bars[0] * q_dot).sum() + (bars[1] * v_dot).sum())
    backward = float(gradient.q @ dq + gradient.v @ dv)
    assert forward == pytest.approx(backward, rel=1e-9)


def test_a_given_compliance_is_no_spring_within_a_hit() -> None:
    """Leave a hit of many feet as without one: the same speed, and the same slopes."""
    print("seed 1")
    rng = np.random.default_rng(1)
    feet = "".join(ball(f"{0.2 * (i % 5)} {0.2 * (i // 5)} 0") for i in range(20))
    feet = feet.replace('friction="0 0 0"', 'friction="0.4 0 0"')
    inertial = '<inertial pos="0.4 0.3 0.1" mass="3" diaginertia="0.1 0.1 0.1"/>'
    world = (
        f'{HEAD.replace("{mu}", "0.4")}<body pos="0 0 0.0505"><freejoint/>{inertial}{feet}</body>'
    )
    model = fb.load(f"<mujoco><worldbody>{world}</worldbody></mujoco>")
    v = np.array([0.1, 0.0, -1.0, 0.0, 0.0, 0.0])
    bars = rng.normal(size=(2, model.nq)), rng.normal(size=(2, model.nv))
    found = []
    for compliance in (0.0, 1e-5):
        given = {"geom_restitution": 0.5, "contact_compliance": compliance}
        params = {name: np.full(model.ngeom, value) for name, value in given.items()}
        roll = fb.Simulator(model, tolerance=1e-12, params=params).rollout(model.q0, v, steps=1)
        gradient = roll.vjp(*bars)
        found.append(np.concatenate([roll.v[-1], gradient.q, gradient.v]))
    print(found[0][:6])
    assert found[0][2] == pytest.approx(0.5, rel=0.1)
    np.testing.assert_allclose(found[1], found[0], rtol=0, atol=1e-9 * np.abs(found[0]).max())


def test_contacts_show_the_hit() -> None:
    """Show the impulse of a hit over the step, where and when it happens."""
    model = fb.models.ball(radius=0.1)
    sim = fb.Simulator(model, dt=2e-3, params={"geom_restitution": np.full(model.ngeom, 0.5)})
    q, v = np.array(model.q0), np.zeros(6)
    q[2], v[2] = 0.101, -1.0
    contacts = sim.contacts(q, v)
    mass = float(model.params["body_mass"][1])
    assert int(contacts.count) == 1
    assert abs(float(contacts.gap[0])) <= 1e-5
    assert contacts.force[0, 2] == pytest.approx(1.5 * mass / 2e-3, rel=0.05)
