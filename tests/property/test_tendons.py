"""Gradients on random models with tendons, under both contact laws, against differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import featherback as fb
from featherback.errors import WorldError
from tests.property.gradients import Comparison, Tally, parameters
from tests.property.modes import STATES
from tests.property.random_models import Rng, Vector
from tests.property.soft import soft_options
from tests.property.tendons import draw_tendons
from tests.property.test_random_linearize import lift

ARMATURE = ["tendon_armature", "wrap_prm", "site_pos", "body_pos", "jnt_axis", "dt"]
OF_TENDONS = "wrap_prm tendon_stiffness tendon_damping tendon_lengthspring tendon_range".split()


Drawn = tuple[fb.Model, Vector, Vector, Rng]


def check(drawn: Drawn, seed: int, what: tuple[int, Sequence[str], bool], tally: Tally) -> None:
    """Compare the gradient of one model along random lines, by states and by some parameters.

    Args:
        drawn: the model, a state of it and its source of random numbers.
        seed: of the model.
        what: steps, names of parameters, and whether the law is the hard one.
        tally: what came of it.
    """
    (model, q, v, rng), (steps, names, hard) = drawn, what
    options: dict[str, Any] = {"tolerance": 1e-12} if hard else soft_options(seed)
    sim = fb.Simulator(model, **options)
    known = parameters(model)
    inputs = {"q": q, "v": v, "u": rng.normal(size=(steps, model.nu))}
    inputs |= {name: known[name] for name in names if name in known}
    roll = sim.rollout(q, v, inputs["u"])
    if not roll.ok:
        tally.count["models unconverged"] += 1
        return
    case = Comparison(sim, inputs, rng, f"seed {seed}, {steps} steps")
    for name in (*(s for s in STATES if s in inputs), *names):
        if inputs[name].size:
            case.compare(name, case.random_directions(name, 2), tally)


@pytest.mark.parametrize("hard", [True, False], ids=["hard", "mujoco"])
def test_gradients_agree_with_differences(hard: bool) -> None:
    """Agree with differences over one step and over ten, on forty models each."""
    tally = Tally()
    for seed in range(40):
        for steps in (1, 10):
            check(draw_tendons(seed, narrow=hard), seed, (steps, OF_TENDONS, hard), tally)
    print(tally)
    assert not tally.failures, "\n".join(tally.failures)
    assert {*OF_TENDONS, "q", "v", "u"} <= tally.acted


@pytest.mark.parametrize("hard", [True, False], ids=["hard", "mujoco"])
def test_gradients_with_armature_agree_with_differences(hard: bool) -> None:
    """Agree with differences over one step and over ten, on forty models each."""
    tally = Tally()
    for seed in range(40):
        for steps in (1, 10):
            drawn = draw_tendons(seed, narrow=hard, heavy=True)
            check(drawn, seed, (steps, ARMATURE, hard), tally)
    print(tally)
    assert not tally.failures, "\n".join(tally.failures)
    assert {*ARMATURE, "q", "v", "u"} <= tally.acted


def derivatives_apart(drawn: Drawn, seed: int, hard: bool) -> float | None:
    """Return how far columns, dual numbers and cotangents are apart, None where there are none."""
    model, q, v, rng = drawn
    options: dict[str, Any] = {"tolerance": 1e-13} if hard else soft_options(seed)
    sim = fb.Simulator(model, **options)
    u = rng.normal(size=model.nu)
    try:
        A, B = sim.linearize(q, v, u)
    except WorldError:
        return None
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
    apart = 0.0
    for forward in (by_columns, by_duals):
        size = np.abs(forward).sum() + sum(np.abs(a).sum() for a in backward)
        error = abs(forward.sum() - sum(a.sum() for a in backward)) / size
        apart = max(apart, float(error))
    return apart


@pytest.mark.parametrize("heavy", [False, True], ids=["light", "heavy"])
@pytest.mark.parametrize("hard", [True, False], ids=["hard", "mujoco"])
def test_columns_and_dual_numbers_agree_with_reverse_mode(hard: bool, heavy: bool) -> None:
    """Give one derivative by columns, by dual numbers and by cotangents, to 1e-9."""
    drawn = [draw_tendons(seed, narrow=hard, heavy=heavy) for seed in range(25)]
    apart = [derivatives_apart(each, seed, hard) for seed, each in enumerate(drawn)]
    found = [error for error in apart if error is not None]
    print(max(found), len(found))
    assert max(found) < 1e-9 and len(found) > 15
