"""Bodies at rest: forces balance, nothing drifts, the next state has one slope to both sides."""

from __future__ import annotations

import numpy as np
import pytest

import featherback as fb
from tests.physics.helpers import G, Vector, floor, scene

# share of a body's inverse weight that is a contact's compliance when none is given
REGULARISATION = 1e-6


def stack(boxes: int, half: float = 0.1, dt: float = 0.002) -> fb.Simulator:
    """Return cubes of 1 kg on top of each other on a floor."""
    rows = "".join(
        f'<body pos="0 0 {half * (2 * i + 1)}"><freejoint/>'
        f'<geom type="box" size="{half} {half} {half}" mass="1"/></body>'
        for i in range(boxes)
    )
    return fb.Simulator(scene(floor() + rows), dt=dt)


def test_box_on_four_corners() -> None:
    """Rest a box on four corners: sum of forces = m g, each m g / 4, a gap of -1e-6 g h^2 / 4.

    The corner forces are rank-deficient without R = 1e-6 / m, a share of the body's inverse weight.
    A corner carries lam = m g h / 4, so that its gap at rest is -h R lam = -1e-6 g h^2 / 4.
    """
    model = fb.models.box(mass=3.0)
    sim = fb.Simulator(model, dt=0.002)
    roll = sim.rollout(model.q0, model.v0, steps=2500)
    contacts = sim.contacts(roll.q[-1], roll.v[-1])
    force = contacts.force[: contacts.count]
    assert roll.ok
    assert contacts.count == 4
    assert np.abs(force[:, 2] - 3.0 * G / 4).max() <= 1e-9 * 3.0 * G
    assert np.abs(force.sum(axis=0) - [0, 0, 3.0 * G]).max() <= 1e-9 * 3.0 * G
    assert roll.q[-1, 2] - model.q0[2] == pytest.approx(
        -REGULARISATION * G * 0.002**2 / 4, rel=1e-3
    )
    assert np.abs(roll.q - model.q0).max() <= REGULARISATION * G * 0.002**2
    assert np.abs(roll.v[-1]).max() <= 1e-12


def test_dropped_box_settles_flat() -> None:
    """Drop a tilted box: it comes to rest on a face, level within the regularisation's sink."""
    print("seed 4")
    rng = np.random.default_rng(4)
    model = fb.models.box()
    sim = fb.Simulator(model, dt=0.002)
    worlds = 32
    q = np.tile(model.q0, (worlds, 1))
    q[:, 2] += 0.2
    q[:, 3:] += 0.3 * rng.standard_normal((worlds, 4))
    roll = sim.rollout(q, np.zeros((worlds, 6)), steps=2500)
    height, speed = np.abs(roll.q[:, -1, 2] - 0.1).max(), np.abs(roll.v[:, -1]).max()
    print(f"height off by {height:.1e} m, speed {speed:.1e} m/s")
    assert height <= 1e-8
    assert speed <= 1e-6
    contacts = sim.contacts(roll.q[:, -1], roll.v[:, -1])
    assert np.abs(contacts.force.sum(axis=1) - [0, 0, G]).max() <= 1e-3 * G


@pytest.mark.parametrize("offset", [0.0, 0.01])
def test_stack_of_five_stands(offset: float) -> None:
    """Stand five boxes for 5 s: each contact carries what is above it and nothing drifts.

    A stack set down 5 mm apart and up to 1 cm off centre settles; from 2.5 s to 5 s it must not
    move by more than round-off, 2 cm x 1250 steps x epsilon.
    """
    print("seed 6")
    rng = np.random.default_rng(6)
    sim = stack(5)
    q = sim.model.q0.reshape(5, 7).copy()
    q[:, :2] += offset * rng.uniform(-1, 1, (5, 2))
    q[:, 2] += 0.5 * offset * np.arange(1, 6)
    roll = sim.rollout(q.ravel(), sim.model.v0, steps=2500)
    last = roll.q[-1].reshape(5, 7)
    heights = 0.1 * (2 * np.arange(5) + 1)
    drift = np.abs(roll.q[-1] - roll.q[1250]).max()
    print(f"heights off by {np.abs(last[:, 2] - heights).max():.1e} m, drift {drift:.1e}")
    assert roll.ok
    assert np.abs(last[:, 2] - heights).max() <= 1e-8
    assert np.abs(last[:, :2] - q[:, :2]).max() <= 1e-8
    assert drift <= 1e-13
    contacts = sim.contacts(roll.q[-1], roll.v[-1])
    for level in range(5):
        above = contacts.geom2[: contacts.count] == level + 1
        below = contacts.geom1[: contacts.count] == level
        force = contacts.force[: contacts.count][above & below].sum(axis=0)
        assert np.abs(force - [0, 0, (5 - level) * G]).max() <= 1e-7 * G


def test_mass_ratio_hundred() -> None:
    """Rest 100 kg on 1 kg: the lower contact carries 101 g within 1e-6 and the sink stays small."""
    model = scene(
        f'{floor()}<body pos="0 0 0.1"><freejoint/>'
        '<geom type="box" size="0.1 0.1 0.1" mass="1"/></body>'
        '<body pos="0 0 0.3"><freejoint/><geom type="box" size="0.1 0.1 0.1" mass="100"/></body>'
    )
    sim = fb.Simulator(model, dt=0.002)
    roll = sim.rollout(model.q0, model.v0, steps=1000)
    contacts = sim.contacts(roll.q[-1], roll.v[-1])
    on_floor = contacts.geom1[: contacts.count] == 0
    force = contacts.force[: contacts.count][on_floor].sum(axis=0)
    assert roll.ok
    assert force[2] == pytest.approx(101 * G, rel=1e-6)
    assert np.abs(roll.q[-1] - model.q0).max() <= 1e-7


def one_sided(
    sim: fb.Simulator, q: Vector, v: Vector, u: Vector | None, eps: float
) -> tuple[Vector, Vector]:
    """Return forward and backward difference quotients of the next state, one row per input."""
    n = sim.model.nq + sim.model.nv
    x = np.concatenate([q, v])
    ahead, back = (x + sign * eps * np.eye(n) for sign in (1.0, -1.0))
    states = np.concatenate([x[None], ahead, back])
    out = np.concatenate(sim.step(states[:, : len(q)], states[:, len(q) :], u), axis=1)
    return (out[1 : n + 1] - out[0]) / eps, (out[0] - out[n + 1 :]) / eps


def settled(name: str) -> tuple[fb.Simulator, Vector, Vector, Vector | None]:
    """Return a body or robot at rest on the floor."""
    model = {"ball": fb.models.ball, "box": fb.models.box, "laikago": fb.models.laikago}[name]()
    sim = fb.Simulator(model, dt=0.002)
    if name != "laikago":
        roll = sim.rollout(model.q0, model.v0, steps=1000)
        return sim, roll.q[-1], roll.v[-1], None
    q, v = model.keyframe("stand")
    u = model.mujoco.key_ctrl[0].copy()
    roll = sim.rollout(q, v, u, steps=6000)
    return sim, roll.q[-1], roll.v[-1], u


@pytest.mark.parametrize("name", ["ball", "box", "laikago"])
def test_equal_one_sided_slopes(name: str) -> None:
    """Give the next state one slope through rest: [f(x + e) - f(x)] / e = [f(x) - f(x - e)] / e.

    Both quotients are off by e |f''| / 2 and by round-off over e; |f''| is bounded here by the
    largest entry of a row times 100 (quaternion and geometry have curvature of order 1 / leg).
    """
    sim, q, v, u = settled(name)
    eps = 1e-7
    forward, backward = one_sided(sim, q, v, u, eps)
    scale = np.maximum(1.0, np.abs(forward).max(axis=1, keepdims=True))
    worst = (np.abs(forward - backward) / scale).max()
    print(f"{name}: slopes differ by {worst:.1e}, largest slope {np.abs(forward).max():.1f}")
    assert worst <= 100 * eps + 100 * np.finfo(float).eps / eps
