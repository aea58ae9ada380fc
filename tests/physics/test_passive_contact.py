"""Passive contact takes energy out and never puts any in; friction stays inside its cone."""

from __future__ import annotations

import numpy as np
import pytest

import featherback as fb
from tests.physics.helpers import kinetic
from tests.property import random_models
from tests.property.random_models import random_state

SCENES = 300
STATES = 3
STEPS = 8


@pytest.mark.parametrize("block", range(3))
@pytest.mark.parametrize("friction", ["cone", "box"])
def test_contact_adds_no_energy(block: int, friction: str) -> None:
    """Do no positive work: lam' J (v* + v+) / 2 = T(v+) - T(v*) <= 1e-9 T(v*), gaps >= 0, e = 0.

    v* = v + h a is the free motion; without damping the step's inertia is M(q). A gap of -1e-9 m
    (a resting contact) gives back less than lam 1e-9 / h, which the bound allows for. With box
    friction the two tangents are bounded one by one, and their work is not positive either.
    """
    worst = worst_cone = -np.inf
    seen = 0
    for seed in range(SCENES * block // 3, SCENES * (block + 1) // 3):
        print(f"seed {seed}")
        rng = np.random.default_rng(seed)
        model = fb.load(random_models.random_contact_scene(rng))
        sim = fb.Simulator(
            model, friction=friction, tolerance=1e-12, params={"dof_damping": np.zeros(model.nv)}
        )
        q, v = (np.array(x) for x in zip(*(state(model, rng) for _ in range(STATES)), strict=True))
        for _ in range(STEPS):
            contacts = sim.contacts(q, v)
            free = v + sim.dt * sim.forward_dynamics(q, v, np.zeros_like(v))
            roll = sim.rollout(q, v, steps=1)
            before, after = kinetic(sim, q, free), kinetic(sim, q, roll.v[:, 1])
            overlap = np.minimum(contacts.gap, 0).min(axis=1)
            normal = np.einsum("wci,wci->wc", contacts.force, contacts.normal) * sim.dt
            given = (normal * np.maximum(-contacts.gap, 0)).sum(axis=1) / sim.dt
            use = (overlap >= -1e-9) & (roll.status == 0) & (normal.sum(axis=1) > 0)
            seen += int(use.sum())
            gain = (after - before - given) / before
            worst = max(worst, float(np.max(gain[use], initial=-np.inf)))
            worst_cone = max(worst_cone, cone_violation(sim, contacts, normal, friction))
            q, v = roll.q[:, 1], roll.v[:, 1]
    print(f"{seen} steps, energy gain at most {worst:.1e}, cone exceeded by {worst_cone:.1e}")
    assert seen > SCENES * STATES * STEPS / 3 / 4
    assert worst <= 1e-9
    assert worst_cone <= 1e-9


def state(model: fb.Model, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the reference pose, where nothing overlaps, with random velocities."""
    return model.q0.copy(), random_state(model, rng, spread=1.0)[1]


def cone_violation(
    sim: fb.Simulator, contacts: fb.sim.Contacts, normal: np.ndarray, friction: str
) -> float:
    """Return the largest |lam_t| - mu lam_n, relative to the world's largest lam_n.

    With box friction the bound of the pair is sqrt(2) mu lam_n.
    """
    impulse = contacts.force * sim.dt
    tangent = np.linalg.norm(impulse - normal[..., None] * contacts.normal, axis=-1)
    mu = np.maximum(*(sim.params["geom_friction"][g, 0] for g in (contacts.geom1, contacts.geom2)))
    mu = mu * (np.sqrt(2) if friction == "box" else 1.0)
    used = np.arange(normal.shape[1]) < contacts.count[:, None]
    assert normal[used].min(initial=0.0) >= 0.0
    scale = np.maximum(normal.max(axis=1, keepdims=True), 1e-9)
    return float(((tangent - mu * normal) / scale)[used].max(initial=0.0))


def test_restitution_adds_no_energy_in_one_hit() -> None:
    """Keep T(v+) <= T(v) in one central hit with 0 <= e <= 1: v+ = -e v along the normal."""
    model = fb.models.ball()
    for e in (0.0, 0.25, 0.5, 1.0):
        sim = fb.Simulator(
            model, params={"geom_restitution": np.full(2, e), "gravity": np.zeros(3)}
        )
        v = np.array([0.4, 0.0, -2.0, 0.0, 0.0, 0.0])
        q = model.q0.copy()
        after = sim.step(q, v)[1]
        assert kinetic(sim, q, after) <= kinetic(sim, q, v)
        assert after[2] == pytest.approx(2.0 * e, abs=2e-6 * 2.0)
