"""Contacts of condim 4 and 6 under the hard law on random models: solved, and with gradients."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import featherback as fb
from featherback.errors import WorldError
from tests.property import random_models
from tests.property.gradients import Comparison, Tally, Vector, parameters
from tests.property.random_models import Rng, text
from tests.property.test_random_gradients import grounded_tree, law
from tests.property.test_random_linearize import lift


def with_rims(xml: str, rng: Rng) -> str:
    """Give the geoms of a file condim 3, 4 or 6 and all three frictions."""

    def geom(found: re.Match[str]) -> str:
        old = re.sub(r' (friction|condim)="[^"]*"', "", found.group(0))
        friction = [rng.uniform(0.0, 1.2), 10 ** rng.uniform(-3, -1), 10 ** rng.uniform(-4, -1.5)]
        return old.replace(
            "<geom", f'<geom friction="{text(friction)}" condim="{rng.choice([3, 4, 6, 6])}"', 1
        )

    return re.sub(r"<geom [^>]*>", geom, xml)


def draw(seed: int) -> tuple[fb.Model, Vector, Vector, Rng]:
    """Return a model whose contacts turn and roll, and a state: trees and scenes in turn."""
    rng = np.random.default_rng((seed, 46))
    if seed % 2:
        xml = random_models.random_contact_scene(rng, gap=(-0.003, 0.003))
        spread = float(rng.choice([0.001, 0.05]))
    else:
        xml, spread = grounded_tree(rng, equality=seed % 6 == 0), 0.02 if seed % 6 == 0 else None
    model = fb.load(with_rims(xml, rng))
    q, v = random_models.random_state(model, rng, spread=spread)
    return model, q, rng.uniform(0, 2) * v / np.abs(v).max() if seed % 2 else v, rng


def test_random_scenes_are_solved() -> None:
    """Solve every step of random scenes in which bodies fall, spin and come to rest."""
    bad, touched = [], 0
    for seed in range(1, 81, 2):
        model, q, v, _ = draw(seed)
        sim = fb.Simulator(model, friction=law(seed))
        roll = sim.rollout(q, v, np.zeros((40, model.nu)))
        touched += int(np.asarray(sim.contacts(q, v).count).sum())
        if not roll.ok:
            bad.append(seed)
    print(f"odd seeds below 81: {touched} contacts, bad {bad}")
    assert touched > 50 and bad == []


def test_newton_and_interior_agree() -> None:
    """Give the same velocities by either solver, where the contact problem has one solution."""
    apart = []
    for seed in range(60):
        model, q, v, rng = draw(seed)
        u = rng.normal(size=(1, model.nu))
        one, other = (
            fb.Simulator(model, solver=solver, friction=law(seed)).rollout(q, v, u).v[1]
            for solver in ("newton", "interior")
        )
        if np.abs(one - other).max() > 1e-8 * max(1.0, np.abs(one).max()):
            apart.append(seed)
    print(f"seeds 0 to 59: apart {apart}")
    # Coulomb's law has several solutions where friction presses on its own normal
    assert len(apart) <= 3


@pytest.mark.parametrize("options", [{}, {"friction": "box"}, {"smoothing": 0.01}])
def test_forward_and_columns_pair_with_reverse(options: dict[str, Any]) -> None:
    """Agree in jvp, linearize and vjp to 1e-9, in states and all parameters."""
    worst = {"jvp": 0.0, "linearize": 0.0}
    touched = missing = 0
    for seed in range(40):
        model, q, v, rng = draw(seed)
        sim = fb.Simulator(model, **({"tolerance": 1e-13} if not options else {}), **options)
        u, params = rng.normal(size=(1, model.nu)), parameters(model)
        roll = sim.rollout(q, v, u, params=params)
        missing += not roll.ok
        if not roll.ok:
            continue
        touched += int(sim.contacts(q, v, u[0]).count)
        bars = [rng.normal(size=x.shape) for x in (roll.q, roll.v)]
        bars[0][0], bars[1][0] = 0.0, 0.0
        found = roll.vjp(*bars)
        t, dv, du = rng.normal(size=model.nv), rng.normal(size=model.nv), rng.normal(size=u.shape)
        dq = lift(model, q, t)
        steps = {n: 1e-2 * rng.normal(size=a.shape) for n, a in params.items()}
        moved = roll.jvp(dq, dv, du, dparams=steps)
        forward = [b * m for b, m in zip(bars, moved, strict=False)]
        states = [found.q * dq, found.v * dv, found.u * du]
        backward = [*states, *(found.params[n] * steps[n] for n in steps)]
        A, B = sim.linearize(q, v, u[0])
        column = A @ np.r_[t, dv] + B @ du[0]
        place = lift(model, roll.q[1], column[: model.nv])
        columns = [bars[0][1] * place, bars[1][1] * column[model.nv :]]
        for name, one, other in (("jvp", forward, backward), ("linearize", columns, states)):
            size = sum(np.abs(x).sum() for x in (*one, *other))
            error = abs(sum(x.sum() for x in one) - sum(x.sum() for x in other)) / size
            worst[name] = max(worst[name], error)
    print(f"seeds 0 to 39: {touched} contacts, {missing} missing, worst {worst}")
    assert touched > 30 and missing <= 1 and max(worst.values()) < 1e-9


@pytest.mark.parametrize("options", [{}, {"friction": "box"}, {"smoothing": 0.01}])
def test_gradients_agree_with_differences(options: dict[str, Any]) -> None:
    """Agree with differences of one step and of ten, in states and all parameters."""
    tally = Tally()
    for seed in range(24):
        model, q, v, rng = draw(seed)
        sim = fb.Simulator(model, **options)
        inputs = {"q": q, "v": v, "u": rng.normal(size=(1 if seed % 4 else 8, model.nu))}
        friction = {"geom_friction": np.array(model.params["geom_friction"])}
        try:
            case = Comparison(sim, {**inputs, **friction}, rng, f"seed {seed}")
        except WorldError:
            tally.count["models without gradient"] += 1
            continue
        for name in (*inputs, *friction):
            case.compare(name, case.random_directions(name, 3), tally)
    print(f"seeds 0 to 23: {tally}")
    assert not tally.failures, "\n".join(tally.failures)
    assert tally.count["models without gradient"] <= 1
    assert tally.count["crossed lines"] <= 0.15 * tally.count["lines"]
    assert "geom_friction" in tally.acted


def test_lanes_of_a_batch_are_worlds_alone() -> None:
    """Give the bits of each world alone, in batches where some worlds touch and others do not."""
    model, q, v, rng = draw(7)
    worlds = 9
    qs, vs = np.tile(q, (worlds, 1)), np.tile(v, (worlds, 1))
    qs[::2, 2] += 1.0
    vs += rng.normal(size=vs.shape) * 0.1
    for dtype in ("float64", "float32"):
        sim = fb.Simulator(model, dtype=dtype)
        many = sim.rollout(qs, vs, np.zeros((worlds, 5, model.nu)))
        for k in range(worlds):
            one = sim.rollout(qs[k], vs[k], np.zeros((5, model.nu)))
            assert np.array_equal(one.v, many.v[k])
