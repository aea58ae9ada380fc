"""Steps that are cut by hits on random models: derivatives of every kind, and differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import featherback as fb
from featherback.errors import WorldError
from featherback.sim.inputs import NO_GRADIENT
from tests.property import random_models
from tests.property.gradients import Comparison, Tally, Vector
from tests.property.random_models import Rng
from tests.property.test_random_gradients import draw, law
from tests.property.test_random_linearize import lift

SEEDS = 160
STEPS = 4


def bouncing(seed: int) -> tuple[fb.Simulator, tuple[Vector, Vector, Vector], Rng]:
    """Return a random model whose shapes all bounce, and where it starts."""
    if seed % 4 == 0:
        model, q, v, rng = draw(seed)
        v = 4 * v
    else:
        rng = np.random.default_rng(seed)
        model = fb.load(random_models.random_contact_scene(rng, gap=(0.0, 0.003)))
        q, v = random_models.random_state(model, rng, spread=0.001)
        v = rng.uniform(1, 4) * v / np.abs(v).max()
    sim = fb.Simulator(
        model,
        friction=law(seed),
        tolerance=1e-13,
        params={"geom_restitution": rng.uniform(0.2, 0.9, model.ngeom)},
    )
    return sim, (q, v, rng.normal(size=(STEPS, model.nu))), rng


def is_hit(sim: fb.Simulator, roll: fb.Rollout, u: Vector) -> Vector:
    """Return for each step of a rollout whether restitution acts in it."""
    calm = {**sim.params, "geom_restitution": np.zeros(sim.model.ngeom)}
    after = sim.step(roll.q[:-1], roll.v[:-1], u, params=calm)[1]
    return np.abs(after - roll.v[1:]).max(axis=-1) > 1e-6


def inner(pairs: list[tuple[Vector, Vector]]) -> tuple[float, float]:
    """Return the sum of products, and that of their sizes."""
    products = [a * b for a, b in pairs]
    return sum(float(p.sum()) for p in products), sum(float(np.abs(p).sum()) for p in products)


@pytest.mark.parametrize("chunk", range(4))
def test_forward_mode_pairs_with_reverse_mode(chunk: int) -> None:
    """Pair jvp with vjp to 1e-9, parameters and time step included."""
    worst, hits, several = 0.0, 0, 0
    for seed in range(SEEDS * chunk // 4, SEEDS * (chunk + 1) // 4):
        sim, (q, v, u), rng = bouncing(seed)
        params = {k: np.array(a) for k, a in sim.params.items() if k not in NO_GRADIENT and a.size}
        roll = sim.rollout(q, v, u, params=params)
        if not roll.ok:
            continue
        hit = is_hit(sim, roll, u)
        if not hit.any():
            continue
        hits += int(hit.sum())
        several += int(hit[0])
        bars = [rng.normal(size=a.shape) for a in (roll.q, roll.v)]
        gradient = roll.vjp(*bars)
        dq, dv, du = (rng.normal(size=a.shape) for a in (q, v, u))
        dparams = {k: rng.normal(size=a.shape) * (np.abs(a) + 1e-3) for k, a in params.items()}
        q_dot, v_dot = roll.jvp(dq, dv, du, dparams=dparams)[:2]
        forward, size = inner([(bars[0], q_dot), (bars[1], v_dot)])
        pairs = [(gradient.q, dq), (gradient.v, dv), (gradient.u, du)]
        backward, other = inner(pairs + [(gradient.params[k], dparams[k]) for k in params])
        error = abs(forward - backward) / (size + other)
        worst = max(worst, error)
        assert error <= 1e-9, f"seed {seed}"
    print(f"part {chunk} of {SEEDS} seeds: worst {worst:.1e}, {hits} steps with hits")
    assert hits > 20
    assert several > 5


def test_reverse_mode_agrees_with_differences() -> None:
    """Agree in q, v, u and every parameter that moves a hit, along random lines."""
    tally, hits = Tally(), 0
    names = ("dt", "geom_restitution", "geom_friction", "body_mass", "geom_size", "gravity")
    for seed in range(1000, 1080):
        sim, (q, v, u), rng = bouncing(seed)
        params = {name: np.array(sim.params[name]) for name in names}
        inputs = {"q": q, "v": v, "u": u[: 1 + seed % 2], **params}
        try:
            case = Comparison(sim, inputs, rng, f"seed {seed}")
        except WorldError:
            tally.count["models without gradient"] += 1
            continue
        hits += int(is_hit(sim, case.roll, inputs["u"]).sum())
        for name in inputs:
            case.compare(name, case.random_directions(name, 2), tally)
    print(f"seeds 1000 to 1079: {hits} steps with hits, {tally}")
    assert hits > 40
    assert not tally.failures, "\n".join(tally.failures)
    assert tally.count["crossed lines"] <= 0.15 * tally.count["lines"]
    assert tally.acted >= {"q", "v", *names}


def test_jacobians_agree_with_reverse_mode() -> None:
    """Agree with vjp in A and B where a step is hit."""
    worst, hits = 0.0, 0
    for seed in range(2000, 2060):
        sim, (q, v, u), rng = bouncing(seed)
        roll = sim.rollout(q, v, u[:1])
        if not roll.ok or not is_hit(sim, roll, u[:1])[0]:
            continue
        hits += 1
        A, B = sim.linearize(q, v, u[0])
        bars = [rng.normal(size=a.shape) for a in (roll.q, roll.v)]
        bars[0][0], bars[1][0] = 0.0, 0.0
        gradient = roll.vjp(*bars)
        nv = sim.model.nv
        t, dv, du = (rng.normal(size=n) for n in (nv, nv, sim.model.nu))
        found = A @ np.r_[t, dv] + B @ du
        moved = lift(sim.model, roll.q[1], found[:nv])
        forward, size = inner([(bars[0][1], moved), (bars[1][1], found[nv:])])
        pairs = [(gradient.q, lift(sim.model, q, t)), (gradient.v, dv), (gradient.u[0], du)]
        backward, other = inner(pairs)
        error = abs(forward - backward) / (size + other)
        worst = max(worst, error)
        assert error <= 1e-9, f"seed {seed}"
    print(f"seeds 2000 to 2059: worst {worst:.1e}, {hits} hits")
    assert hits > 15


def test_hessian_products_agree_with_differences() -> None:
    """Agree with differences of vjp where a step is hit."""
    errors: list[float] = []
    for seed in range(3000, 3040):
        sim, (q, v, u), rng = bouncing(seed)
        roll = sim.rollout(q, v, u[:1])
        if not roll.ok or not is_hit(sim, roll, u[:1])[0]:
            continue
        bars = [rng.normal(size=a.shape) for a in (roll.q, roll.v)]
        dv, du = rng.normal(size=v.shape), rng.normal(size=u[:1].shape)
        product = roll.hessian_vector_product(*bars, direction=(np.zeros_like(q), dv, du))
        best = np.inf
        for h in (1e-5, 1e-6, 1e-7):
            ends = []
            for sign in (h, -h):
                beside = sim.rollout(q, v + sign * dv, u[:1] + sign * du)
                gradient = beside.vjp(*bars)
                ends.append(np.r_[gradient.q, gradient.v, gradient.u.reshape(-1)])
            slope = (ends[0] - ends[1]) / (2 * h)
            found = np.r_[product.q, product.v, product.u.reshape(-1)]
            best = min(best, float(np.abs(slope - found).max() / np.abs(found).max()))
        errors.append(best)
    print(f"seeds 3000 to 3039: {len(errors)} hits, errors {sorted(errors)}")
    assert len(errors) > 10
    # a line that crosses a mode, or starts on one, has no second derivative
    assert np.quantile(errors, 0.8) <= 1e-4


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_worlds_keep_their_bits(dtype: Any) -> None:
    """Give a world the bits it has alone where some lanes are hit and others are not."""
    print("seed 5")
    rng = np.random.default_rng(5)
    model = fb.load(
        '<mujoco><option timestep="0.004"/><worldbody><geom type="plane" size="0 0 1"/>'
        '<body pos="0 0 0.3"><freejoint/><geom type="capsule" size="0.05 0.2" mass="1"/></body>'
        '<body pos="0.3 0 0.3"><freejoint/><geom type="box" size="0.1 0.1 0.1" mass="1"/></body>'
        "</worldbody></mujoco>"
    )
    worlds, steps = 11, 150
    q = np.tile(model.q0, (worlds, 1))
    q[:, 2] += rng.uniform(0, 0.2, worlds)
    q[:, 3:7] += 0.5 * rng.normal(size=(worlds, 4))
    q[:, 10:14] += 0.5 * rng.normal(size=(worlds, 4))
    v = rng.normal(size=(worlds, model.nv))
    e = {"geom_restitution": np.full(3, 0.7)}
    own = {"geom_restitution": np.tile(e["geom_restitution"], (worlds, 1))}
    sim = fb.Simulator(model, dtype=dtype)
    roll, each = (sim.rollout(q, v, steps=steps, params=given) for given in (e, own))
    assert np.array_equal(roll.q, each.q) and np.array_equal(roll.v, each.v)
    bars = [rng.normal(size=a.shape) for a in (roll.q, roll.v)]
    gradient = each.vjp(*bars)
    A, _ = sim.linearize(roll.q[:, 50], roll.v[:, 50], params=e)
    for k in range(worlds):
        alone = sim.rollout(q[k], v[k], steps=steps, params=e)
        assert np.array_equal(roll.q[k], alone.q) and np.array_equal(roll.v[k], alone.v), k
        one = alone.vjp(*(bar[k] for bar in bars))
        assert np.array_equal(gradient.q[k], one.q) and np.array_equal(gradient.v[k], one.v), k
        found = gradient.params["geom_restitution"][k]
        assert np.array_equal(found, one.params["geom_restitution"]), k
        single, _ = sim.linearize(roll.q[k, 50], roll.v[k, 50], params=e)
        assert np.array_equal(A[k], single), k


def test_too_many_rows_together() -> None:
    """Give worlds that are hit at different places their own steps when rows do not fit."""
    bodies = "".join(
        f'<body pos="{i} 0 0.3"><freejoint/><geom size="0.1" mass="1"/></body>' for i in range(4)
    )
    model = fb.load(
        f'<mujoco><worldbody><geom type="plane" size="0 0 1"/>{bodies}</worldbody></mujoco>'
    )
    e = {"geom_restitution": np.full(5, 0.6)}
    few, many = (fb.Simulator(model, max_contacts=n, params=e) for n in (1, 8))
    # ball k comes down in world k
    q = np.tile(model.q0, (4, 1))
    v = np.zeros((4, model.nv))
    for k in range(4):
        q[k, 7 * k + 2] = 0.102
        v[k, 6 * k : 6 * k + 3] = 0.3, 0.1, -2.0 - 0.1 * k
    bars = np.random.default_rng(0).normal(size=(4, 4, model.nv))
    rolls = [sim.rollout(q, v, steps=3) for sim in (few, many)]
    assert all(roll.ok for roll in rolls)
    assert np.all(np.diagonal(rolls[0].v[:, -1, 2::6]) > 1.0)
    assert np.array_equal(rolls[0].q, rolls[1].q) and np.array_equal(rolls[0].v, rolls[1].v)
    one, two = (roll.vjp(None, bars) for roll in rolls)
    assert np.array_equal(one.q, two.q) and np.array_equal(one.v, two.v)
    A, other = (sim.linearize(q, v)[0] for sim in (few, many))
    assert np.array_equal(A, other)
