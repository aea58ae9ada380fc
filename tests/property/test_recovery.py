"""Random models with overlaps and open equalities: derivatives agree, speeds stay small."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

import featherback as fb
from tests.property.random_models import random_contact_scene, random_state, random_tree

PAIRING = 1e-9


def draw(seed: int) -> tuple[fb.Model, np.ndarray, np.ndarray, np.random.Generator]:
    """Draw a model with equalities or with overlaps, and a state far from where it belongs."""
    rng = np.random.default_rng(seed)
    if seed % 2:
        text = random_tree(rng, bodies=int(rng.integers(2, 6)), equality=True, mass_ratio=100.0)
    else:
        text = random_contact_scene(rng)
    model = fb.load(text, on_unsupported="drop")
    q, v = random_state(model.mujoco, rng)
    # overlaps of some millimetres to centimetres
    step = rng.normal(size=model.nv) * 10 ** rng.uniform(-4, -1)
    mujoco.mj_integratePos(model.mujoco, q, step, 1.0)
    return model, q, v * rng.choice([0.0, 0.1, 1.0]), rng


def moves(sim: fb.Simulator, q: np.ndarray, v: np.ndarray) -> bool:
    """Return whether a step moves positions by more than its velocity does."""
    q1, v1 = sim.step(q, v)
    alone = q.copy()
    mujoco.mj_integratePos(sim.model.mujoco, alone, np.array(v1), float(sim.params["dt"][0]))
    return not np.allclose(q1, alone, rtol=0, atol=1e-13)


def pairing(sim: fb.Simulator, q: np.ndarray, v: np.ndarray, rng: np.random.Generator) -> float:
    """Return by how much jvp and vjp differ on random directions, relative to their terms."""
    dq, q_bar = rng.normal(size=(2, len(q)))
    dv, v_bar = rng.normal(size=(2, len(v)))
    ddt = {"dt": rng.normal(size=1) * 1e-3}
    gradient = sim.vjp(q, v, None, q_bar, v_bar, params={"dt": sim.params["dt"]})
    q_dot, v_dot = sim.jvp(q, v, None, dq, dv, dparams=ddt)
    forward = [q_bar * q_dot, v_bar * v_dot]
    backward = [gradient.q * dq, gradient.v * dv, gradient.params["dt"] * ddt["dt"]]
    size = sum(float(np.abs(a).sum()) for a in forward + backward)
    return abs(sum(a.sum() for a in forward) - sum(a.sum() for a in backward)) / size


@pytest.mark.parametrize("first", [0, pytest.param(1000, marks=pytest.mark.slow)])
def test_forward_and_reverse_agree(first: int) -> None:
    """Pair jvp with vjp, the time step included, on models that recover by positions."""
    count, moved, worst = (60 if first == 0 else 1000), 0, 0.0
    for seed in range(first, first + count):
        model, q, v, rng = draw(seed)
        sim = fb.Simulator(model, tolerance=1e-13, max_sweeps=2000)
        if sim.step(q, v, return_status=True)[-1]:
            continue
        error = pairing(sim, q, v, rng)
        moved += moves(sim, q, v)
        worst = max(worst, error)
        assert error <= PAIRING, f"seed {seed}"
    print(f"{moved} of {count} moved positions, worst {worst:.1e}")
    assert moved > count // 3


def test_linearize_is_the_jacobian_of_moved_steps() -> None:
    """Give A the rows of the adjoint, also where positions are moved."""
    for seed in range(10):
        model, q, v, _ = draw(seed)
        sim = fb.Simulator(model, tolerance=1e-13, max_sweeps=2000)
        if sim.step(q, v, return_status=True)[-1]:
            continue
        A, _ = sim.linearize(q, v)
        n = model.nv
        rows = [sim.vjp(q, v, None, np.zeros(model.nq), e).v for e in np.eye(n)]
        np.testing.assert_allclose(A[n:, n:], rows, atol=1e-7 * max(1.0, np.abs(A).max()))


def test_hessian_products_agree_with_differences() -> None:
    """Differentiate the gradient of a step that moves positions once more."""
    found = []
    for seed in range(0, 20):
        model, q, v, rng = draw(seed)
        sim = fb.Simulator(model, tolerance=1e-13, max_sweeps=2000)
        if sim.step(q, v, return_status=True)[-1] or not moves(sim, q, v):
            continue
        v_dir = rng.normal(size=model.nv)
        q_bar, v_bar = rng.normal(size=(2, model.nq)), rng.normal(size=(2, model.nv))
        product = sim.rollout(q, v, steps=1).hessian_vector_product(
            q_bar, v_bar, direction=(None, v_dir, None)
        )
        errors = []
        for e in (1e-5, 1e-6, 1e-7):
            ends = [sim.rollout(q, v + s * e * v_dir, steps=1).vjp(q_bar, v_bar).v for s in (1, -1)]
            slope = (ends[0] - ends[1]) / (2 * e)
            errors.append(np.abs(slope - product.v).max() / max(np.abs(product.v).max(), 1e-6))
        found.append(min(errors))
    assert len(found) >= 5
    assert np.median(found) <= 1e-5


def test_random_overlaps_do_not_throw() -> None:
    """Stay slower than 30 rad/s or m/s where MuJoCo does, from overlaps and open equalities."""
    for seed in range(40):
        model, q, _, _ = draw(seed)
        roll = fb.Simulator(model).rollout(q, np.zeros(model.nv), steps=10)
        data = mujoco.MjData(model.mujoco)
        data.qpos[:] = q
        peer = 0.0
        for _ in range(10):
            mujoco.mj_step(model.mujoco, data)
            peer = max(peer, np.abs(data.qvel).max())
        assert np.abs(roll.v).max() <= max(30.0, 3 * peer), f"seed {seed}"
