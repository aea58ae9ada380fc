"""Energy and momentum: exact where the scheme conserves, first order in the step elsewhere."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

import featherback as fb
from tests.physics.helpers import Vector, kinetic, potential, scene, slope
from tests.property import random_models
from tests.property.random_models import random_inertial, random_state, text, unit

STEPS = np.array([8e-4, 4e-4, 2e-4, 1e-4])
SECONDS = 0.08


def passive_tree(seed: int, **options: object) -> tuple[fb.Model, Vector, Vector]:
    """Return a random mechanism without friction, damping and limits, and a random state."""
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    source = random_models.random_tree(
        rng,
        bodies=int(rng.integers(2, 7)),
        mass_ratio=10.0,
        terms=False,
        limits=False,
        actuators=False,
        **options,
    )
    model = fb.load(source)
    return model, *random_state(model, rng)


def momentum(model: fb.Model, q: Vector, v: Vector) -> tuple[Vector, Vector]:
    """Return MuJoCo's linear momentum and angular momentum about the centre of mass."""
    data = mujoco.MjData(model.mujoco)
    data.qpos[:], data.qvel[:] = q, v
    mujoco.mj_forward(model.mujoco, data)
    mujoco.mj_subtreeVel(model.mujoco, data)
    mass = model.mujoco.body_mass.sum()
    return mass * data.subtree_linvel[0], np.array(data.subtree_angmom[0])


@pytest.mark.parametrize("seed", range(6))
def test_energy_error_is_first_order(seed: int) -> None:
    """Keep T + V of a passive mechanism to O(h): the error at a fixed time has slope 1 +- 0.1."""
    model, q, v = passive_tree(seed)
    errors = []
    for dt in STEPS:
        sim = fb.Simulator(model, dt=float(dt))
        roll = sim.rollout(q, v, steps=round(SECONDS / dt))
        ends = roll.q[[0, -1]], roll.v[[0, -1]]
        energy = kinetic(sim, *ends) + potential(sim, ends[0])
        errors.append(abs(energy[1] - energy[0]))
    print(f"errors {errors} J, slope {slope(STEPS, np.array(errors)):.3f}")
    assert slope(STEPS, np.array(errors)) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("seed", range(4))
def test_momentum_error_is_first_order(seed: int) -> None:
    """Keep both momenta of a floating mechanism without gravity to O(h), slope 1 +- 0.1.

    The step holds joint rates, not momenta, constant over the change of pose, so for joints that
    turn the linear momentum too is kept to first order only.
    """
    print(f"seed {seed}")
    rng = np.random.default_rng(100 + seed)
    model = floating_tree(rng)
    q, v = random_state(model, rng)
    errors: list[tuple[float, float]] = []
    for dt in STEPS:
        sim = fb.Simulator(model, dt=float(dt), params={"gravity": np.zeros(3)})
        roll = sim.rollout(q, v, steps=round(SECONDS / dt))
        first, last = (momentum(model, roll.q[k], roll.v[k]) for k in (0, -1))
        errors.append(tuple(float(np.linalg.norm(b - a)) for a, b in zip(first, last, strict=True)))
    for name, column in zip(("linear", "angular"), np.array(errors).T, strict=True):
        print(f"{name}: errors {column}, slope {slope(STEPS, column):.3f}")
        assert slope(STEPS, column) == pytest.approx(1.0, abs=0.1)


def floating_tree(rng: np.random.Generator) -> fb.Model:
    """Return one free body with hinges and balls below it."""
    inner = "".join(
        f'<body pos="{text(rng.uniform(-0.3, 0.3, 3))}"><joint {joint}/>{random_inertial(rng, 1.0)}'
        for joint in (f'axis="{text(unit(rng, 3))}"', 'type="ball"', f'axis="{text(unit(rng, 3))}"')
    )
    root = f"<body><freejoint/>{random_inertial(rng, 2.0)}"
    return fb.load(f"<mujoco><worldbody>{root}{inner}{'</body>' * 4}</worldbody></mujoco>")


def test_linear_momentum_of_free_bodies_is_exact() -> None:
    """Keep sum m v of free bodies to 1e-12 without gravity, through collisions and friction.

    Contact impulses are equal and opposite, so the sum changes by round-off only.
    """
    print("seed 9")
    rng = np.random.default_rng(9)
    shapes = [
        'type="sphere" size="0.1"',
        'type="capsule" size="0.08 0.1"',
        'type="box" size=".1 .1 .1"',
    ]
    bodies = "".join(
        f'<body pos="{0.35 * (i % 3)} {0.35 * (i // 3)} 0"><freejoint/>'
        f'<geom {shapes[i % 3]} mass="{text(rng.uniform(0.5, 2.0))}"/></body>'
        for i in range(9)
    )
    model = fb.load(f'<mujoco><option gravity="0 0 0"/><worldbody>{bodies}</worldbody></mujoco>')
    sim = fb.Simulator(model, dt=0.002, params={"geom_restitution": np.full(9, 0.5)})
    v = rng.standard_normal((9, 6))
    # all bodies head for the middle
    v[:, :3] += 8.0 * (np.array([0.35, 0.35, 0.0]) - model.q0.reshape(9, 7)[:, :3])
    roll = sim.rollout(model.q0, v.ravel(), steps=500)
    velocity = roll.v.reshape(-1, 9, 6)
    total = np.einsum("b,tbi->ti", model.params["body_mass"][1:], velocity[..., :3])
    hits = np.abs(np.diff(velocity[..., :3], axis=0)).max(axis=(1, 2)) > 1e-3
    print(
        f"{hits.sum()} steps with collisions, momentum off by {np.abs(total - total[0]).max():.1e}"
    )
    assert hits.sum() > 10
    assert np.abs(total - total[0]).max() <= 1e-12 * np.abs(velocity).max() * 9


def test_linear_momentum_of_a_floating_body_on_slides_is_exact() -> None:
    """Keep the total momentum of masses on slides on a free body that does not turn to 1e-12."""
    model = fb.load(
        '<mujoco><option gravity="0 0 0"/><worldbody><body>'
        '<joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/>'
        '<joint type="slide" axis="0 0 1"/><geom size="0.1" mass="3"/>'
        '<body><joint name="s" type="slide" axis="1 2 0.5" stiffness="30"/>'
        '<geom size="0.1" mass="1"/></body></body></worldbody></mujoco>'
    )
    sim = fb.Simulator(model, dt=0.002)
    v = np.array([0.3, -0.2, 0.5, 2.0])
    roll = sim.rollout(model.q0, v, steps=2000)
    total = np.einsum("tij,tj->ti", sim.mass_matrix(roll.q), roll.v)[:, :3]
    assert np.abs(roll.v[:, 3] - 2.0).max() > 1.0
    assert np.abs(total - total[0]).max() <= 1e-12


def test_free_flight_keeps_velocity_bits() -> None:
    """Keep the linear velocity of a free body without gravity to the last bit, spinning or not."""
    model = fb.models.ball()
    sim = fb.Simulator(model, dt=0.002, params={"gravity": np.zeros(3)})
    q = model.q0.copy()
    q[2] = 100.0
    v = np.array([0.3, -0.7, 0.2, 5.0, -4.0, 3.0])
    roll = sim.rollout(q, v, steps=1000)
    assert np.array_equal(roll.v[:, :3], np.tile(v[:3], (1001, 1)))


def test_pendulum_energy_has_no_trend() -> None:
    """Let a pendulum's energy wander by O(h) without a trend over 1e5 steps (symplectic scheme).

    The extremes over the last tenth equal those over the first to (w h)^2 of the swing's energy.
    """
    model = fb.models.pendulum(1)
    sim = fb.Simulator(model, dt=1e-3)
    roll = sim.rollout([2.0], [0.0], steps=100_000)
    energy = kinetic(sim, roll.q, roll.v) + potential(sim, roll.q)
    size, omega = energy.max() - potential(sim, np.zeros(1)), np.sqrt(9.81 / 0.502)
    first, last = energy[:10_000], energy[-10_000:]
    trend = max(abs(last.max() - first.max()), abs(last.min() - first.min()))
    print(f"wander {np.ptp(energy) / size:.1e}, trend {trend / size:.1e}")
    assert np.ptp(energy) <= 2 * omega * 1e-3 * size
    assert trend <= (omega * 1e-3) ** 2 * size


SLENDER = '<geom type="box" size="0.2 0.05 0.02" mass="1"/>'


@pytest.mark.parametrize("joint", ['<joint type="free"/>', '<joint type="ball"/>'])
@pytest.mark.parametrize("speed", [20.0, 40.0, 100.0])
def test_a_fast_spin_keeps_its_energy(joint: str, speed: float) -> None:
    """Keep energy and angular momentum of a slender body over two seconds, about any axis.

    An explicit gyroscopic torque gains a factor of 3.3 at 20 rad/s, and is not finite at 40.
    """
    model = scene(f"<body>{joint}{SLENDER}</body>")
    sim = fb.Simulator(model, dt=2e-3, params={"gravity": np.zeros(3)})
    v = np.zeros((3, model.nv))
    v[:, -3:] = speed * np.array([[1.0, 1, 1], [0.01, 1, 0.01], [1, 0.01, 0.3]])
    roll = sim.rollout(np.tile(model.q0, (3, 1)), v, steps=1000)
    assert roll.ok
    inertia = np.array([0.05**2 + 0.02**2, 0.2**2 + 0.02**2, 0.2**2 + 0.05**2]) / 3
    w = roll.v[..., -3:]
    for power in (1, 2):
        size = (inertia**power * w**2).sum(axis=-1)
        drift = np.abs(size / size[:, :1] - 1).max()
        print(f"{joint}, {speed} rad/s: moment to the power {power} drifts by {drift:.1e}")
        assert drift <= 1e-6 * speed**2
