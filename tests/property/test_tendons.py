"""Gradients on random models with tendons, under both contact laws, against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import featherback as fb
from featherback.errors import WorldError
from tests.property.gradients import Comparison, Tally, parameters
from tests.property.modes import STATES
from tests.property.soft import soft_options
from tests.property.tendons import draw_tendons
from tests.property.test_random_linearize import lift

OF_TENDONS = "wrap_prm tendon_stiffness tendon_damping tendon_lengthspring tendon_range".split()


def check(seed: int, steps: int, hard: bool, tally: Tally) -> None:
    """Compare the gradient of one model along random lines, by states and by tendon parameters."""
    model, q, v, rng = draw_tendons(seed, narrow=hard)
    options: dict[str, Any] = {"tolerance": 1e-12} if hard else soft_options(seed)
    sim = fb.Simulator(model, **options)
    known = parameters(model)
    inputs = {"q": q, "v": v, "u": rng.normal(size=(steps, model.nu))}
    inputs |= {name: known[name] for name in OF_TENDONS if name in known}
    roll = sim.rollout(q, v, inputs["u"])
    if not roll.ok:
        tally.count["models unconverged"] += 1
        return
    case = Comparison(sim, inputs, rng, f"seed {seed}, {steps} steps")
    for name in (*(s for s in STATES if s in inputs), *OF_TENDONS):
        if inputs[name].size:
            case.compare(name, case.random_directions(name, 2), tally)


@pytest.mark.parametrize("hard", [True, False], ids=["hard", "mujoco"])
def test_gradients_agree_with_differences(hard: bool) -> None:
    """Agree with differences over one step and over ten, on forty models each."""
    tally = Tally()
    for seed in range(40):
        for steps in (1, 10):
            check(seed, steps, hard, tally)
    print(tally)
    assert not tally.failures, "\n".join(tally.failures)
    assert {*OF_TENDONS, "q", "v", "u"} <= tally.acted


@pytest.mark.parametrize("hard", [True, False], ids=["hard", "mujoco"])
def test_columns_and_dual_numbers_agree_with_reverse_mode(hard: bool) -> None:
    """Give one derivative by columns, by dual numbers and by cotangents, to 1e-9."""
    worst, compared = 0.0, 0
    for seed in range(25):
        model, q, v, rng = draw_tendons(seed, narrow=hard)
        options: dict[str, Any] = {"tolerance": 1e-13} if hard else soft_options(seed)
        sim = fb.Simulator(model, **options)
        u = rng.normal(size=model.nu)
        try:
            A, B = sim.linearize(q, v, u)
        except WorldError:
            continue
        q_bar, v_bar = rng.normal(size=model.nq), rng.normal(size=model.nv)
        back = sim.vjp(q, v, u, q_bar, v_bar)
        t, dv, du = (rng.normal(size=n) for n in (model.nv, model.nv, model.nu))
        dq = lift(model, q, t)
        backward = [back.q * dq, back.v * dv, back.u * du]
        columns = A @ np.r_[t, dv] + B @ du
        moved = lift(model, sim.step(q, v, u)[0], columns[: model.nv])
        by_columns = np.r_[q_bar * moved, v_bar * columns[model.nv :]]
        tangent = sim.jvp(q, v, u, dq, dv, du)
        by_duals = np.r_[q_bar * tangent[0], v_bar * tangent[1]]
        for forward in (by_columns, by_duals):
            size = np.abs(forward).sum() + sum(np.abs(a).sum() for a in backward)
            error = abs(forward.sum() - sum(a.sum() for a in backward)) / size
            worst = max(worst, float(error))
        compared += 1
    print(worst, compared)
    assert worst < 1e-9 and compared > 15
