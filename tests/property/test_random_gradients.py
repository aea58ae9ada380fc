"""Gradients of one step and of 50 steps on random models with contact, against differences.

A line whose differences do not agree among themselves crossed a contact mode (or met a world that
did not converge) inside the stencil; it is counted, and not compared.
"""

from __future__ import annotations

import os
import re
from typing import Any, Literal

import numpy as np
import pytest

import featherback as fb
from featherback.errors import WorldError
from tests.property import random_models
from tests.property.gradients import (
    Comparison,
    Tally,
    Vector,
    parameters,
    soften_like_float32,
)
from tests.property.kinds import with_activations
from tests.property.modes import STATES
from tests.property.random_models import Rng

CHUNK = 250
# how many models `make nightly` draws; 500 are part of `make test`
MODELS = int(os.environ.get("FEATHERBACK_GRADIENT_MODELS", "10000"))


def grounded_tree(rng: Rng, **changes: Any) -> str:
    """Return a random mechanism over a floor, with a sphere on most bodies.

    Gravity is any direction, and the height of the floor puts some of the spheres on it.
    """
    text = random_models.random_tree(rng, **changes)

    def with_sphere(found: re.Match[str]) -> str:
        if rng.random() < 0.2:
            return found.group(0)
        numbers = random_models.text
        return (
            f'{found.group(0)}<geom size="{numbers(rng.uniform(0.02, 0.08))}" '
            f'pos="{numbers(rng.uniform(-0.1, 0.1, 3))}" mass="0" '
            f'friction="{numbers(rng.uniform(0.05, 1.2))} 0 0"/>'
        )

    text = re.sub(r'<body name="b\d+"[^>]*>', with_sphere, text)
    height = random_models.text(rng.uniform(-0.5, 0.0))
    floor = f'<geom name="floor" type="plane" size="0 0 1" pos="0 0 {height}" friction="0.04 0 0"/>'
    return text.replace("<worldbody>", f"<worldbody>{floor}", 1)


def draw(seed: int, activated: bool = False) -> tuple[fb.Model, Vector, Vector, Rng]:
    """Return a model and a state: trees and scenes in turn, one tree in three with equalities.

    Args:
        seed: of all numbers.
        activated: whether most actuators that can have an activation have one.
    """
    rng = np.random.default_rng(seed)
    if seed % 2:
        gap = (-0.003, 0.003)
        model = fb.load(random_models.random_contact_scene(rng, gap=gap))
        q, v = random_models.random_state(model, rng, spread=rng.choice([0.001, 0.05]))
        return model, q, rng.uniform(0, 2) * v / np.abs(v).max(), rng
    closed = seed % 6 == 0
    text = grounded_tree(rng, equality=closed)
    model = fb.load(with_activations(text, np.random.default_rng((seed, 1))) if activated else text)
    # loops are drawn near where they close
    q, v = random_models.random_state(model, rng, spread=0.02 if closed else None)
    return model, q, v, rng


def law(seed: int) -> Literal["cone", "box"]:
    """Return the friction law of a seed."""
    return "box" if seed % 5 in (0, 3) else "cone"


def activation(model: fb.Model, seed: int) -> dict[str, Vector]:
    """Return random activations, some of them beyond the limits that random models have."""
    return {"act": 0.5 * np.random.default_rng((seed, 2)).normal(size=model.na)}


def compared(seed: int, steps: int, tally: Tally) -> Comparison | None:
    """Return the comparison of one model, or None where it has no gradient.

    The solve is sharpened for the sake of the differences; where it does not reach that, it runs
    at the default tolerance, converged or not.
    """
    model, q, v, rng = draw(seed, activated=True)
    inputs = {"q": q, "v": v, "u": rng.normal(size=(steps, model.nu)), **activation(model, seed)}
    for tolerance in (1e-12, None):
        sim = fb.Simulator(model, friction=law(seed), tolerance=tolerance)
        if not np.all(np.isfinite(sim.rollout(**inputs).v)):
            continue
        try:
            case = Comparison(sim, inputs, rng, f"seed {seed}, {steps} steps")
        except WorldError:
            continue
        if case.roll.ok or tolerance is None:
            tally.count["models unconverged"] += not case.roll.ok
            return case
    tally.count["models without gradient"] += 1
    return None


def check(seed: int, steps: int, tally: Tally) -> None:
    """Compare one model's gradient: entry by entry for one step, else along random lines."""
    case = compared(seed, steps, tally)
    if case is None:
        return
    before = tally.count["crossed lines"]
    for name in STATES:
        lines = case.entries(name) if steps == 1 else case.random_directions(name, 2)
        case.compare(name, lines, tally)
    tally.count["models"] += 1
    tally.count["models with a crossed line"] += tally.count["crossed lines"] > before
    start = {name: case.inputs[name] for name in STATES}
    contacts = case.sim.contacts(**{**start, "u": start["u"][0]})
    tally.count["activations"] += case.sim.model.na
    tally.count["contacts"] += int((np.abs(contacts.force).max(axis=-1, initial=0) > 0).sum())


def check_many(seeds: range, steps: int, *, crossed: float, missing: float) -> None:
    """Check many models; allow a share of lines that cross and of models without a gradient."""
    tally = Tally()
    for seed in seeds:
        check(seed, steps, tally)
    print(f"seeds {seeds.start} to {seeds.stop - 1}: {tally}")
    assert not tally.failures, "\n".join(tally.failures)
    assert tally.count["crossed lines"] <= crossed * tally.count["lines"]
    assert tally.count["models without gradient"] <= missing * len(seeds)
    assert tally.count["models unconverged"] <= 0.4 * len(seeds)
    assert tally.count["contacts"] > 0
    assert tally.count["activations"] > len(seeds) // 5


@pytest.mark.parametrize("first", range(0, 500, CHUNK))
def test_one_step(first: int) -> None:
    """Agree to 1e-6 of the largest entry, in every entry of q, v and u, on 500 models."""
    check_many(range(first, first + CHUNK), 1, crossed=0.05, missing=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(500, max(MODELS, 500), 500))
def test_one_step_of_many_models(first: int) -> None:
    """Agree to 1e-6 of the largest entry, in every entry of q, v and u, on all models."""
    check_many(range(first, min(first + 500, MODELS)), 1, crossed=0.05, missing=0.1)


@pytest.mark.parametrize("first", range(10_000_000, 10_000_200, 100))
def test_fifty_steps(first: int) -> None:
    """Agree to 1e-6 of the largest entry over 50 steps, along lines that cross no mode."""
    check_many(range(first, first + 100), 50, crossed=0.35, missing=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10_000_200, 10_000_000 + max(MODELS // 5, 200), 200))
def test_fifty_steps_of_many_models(first: int) -> None:
    """Agree to 1e-6 of the largest entry over 50 steps on a fifth as many models."""
    check_many(range(first, first + 200), 50, crossed=0.35, missing=0.1)


def parameter_case(seed: int, steps: int) -> Comparison:
    """Return a model with all its parameters as inputs, none of them tied or at its bound."""
    model, q, v, rng = draw(seed, activated=True)
    params = parameters(model)
    params["geom_friction"] *= rng.uniform(0.8, 1.2, params["geom_friction"].shape)
    params["geom_restitution"] += rng.uniform(0.1, 0.6, model.ngeom)
    params["contact_compliance"] += rng.uniform(1e-6, 1e-5, model.ngeom)
    # a servo that does not damp is at a bound: damping is implicit, driving is not
    params["actuator_biasprm"][:, 2] -= rng.uniform(0.01, 0.1, model.nu)
    inputs = {"q": q, "v": v, "u": rng.normal(size=(steps, model.nu)), **params}
    inputs |= activation(model, seed)
    sim = fb.Simulator(model, friction=law(seed), tolerance=1e-12)
    return Comparison(sim, inputs, rng, f"seed {seed}, parameters")


def test_every_parameter() -> None:
    """Agree in every parameter by name, along random lines, on forty models."""
    tally, names = Tally(), set[str]()
    for seed in range(20_000_000, 20_000_040):
        try:
            case = parameter_case(seed, 1 if seed % 4 < 2 else 10)
        except WorldError:
            tally.count["models without gradient"] += 1
            continue
        tally.count["models"] += 1
        names |= set(case.inputs)
        for name in case.inputs:
            if case.inputs[name].size:
                case.compare(name, case.random_directions(name, 2), tally)
    print(f"seeds 20000000 to 20000039: {tally}")
    assert not tally.failures, "\n".join(tally.failures)
    # tests of their own: the next one, tests/sim/test_mesh_scale.py and test_tendons.py
    elsewhere = {name for name in names if name.startswith(("tendon_", "wrap_", "site_"))}
    elsewhere |= {"pair_friction", "jnt_actfrcrange", "mesh_scale"}
    # test_turning_and_rolling.py, tests/physics/test_hfield.py and test_every_kind.py
    elsewhere |= {"pair_friction_rest", "hfield_size"}
    # those of test_forces.py
    elsewhere |= {name for name in names if name.startswith("muscle_")}
    elsewhere |= set("body_gravcomp density viscosity wind geom_fluid actuator_cranklength".split())
    assert tally.acted == names - elsewhere


# a pair with friction of its own, and a motor stronger than its joint
PAIR = """<mujoco><option timestep="0.002"/><worldbody>
<geom name="floor" type="plane" size="0 0 1"/>
<body pos="0 0 0.0999"><freejoint/><geom name="ball" size="0.1" mass="1"/>
<body pos="0.1 0 0.2"><joint name="turn" axis="0.1 1 0" actuatorfrcrange="-0.4 0.3"/>
<geom size="0.03" pos="0.1 0 0" mass="0.3"/></body></body></worldbody>
<contact><pair geom1="floor" geom2="ball" friction="0.03 0.03"/></contact>
<actuator><motor joint="turn" gear="2"/></actuator></mujoco>"""


@pytest.mark.parametrize("friction", ["cone", "box"])
def test_pair_friction_and_force_of_a_joint(friction: Literal["cone", "box"]) -> None:
    """Agree in the parameters that no random model has."""
    print("seed 0")
    model, rng, tally = fb.load(PAIR), np.random.default_rng(0), Tally()
    names = ("pair_friction", "jnt_actfrcrange")
    inputs = {"q": model.q0, "v": rng.normal(size=model.nv), "u": np.full((20, 1), 1.0)}
    inputs["v"][2] = -1.0
    inputs |= {name: np.array(model.params[name]) for name in names}
    case = Comparison(fb.Simulator(model, friction=friction, tolerance=1e-12), inputs, rng, "pair")
    for name in inputs:
        case.compare(name, case.random_directions(name, 4), tally)
    print(tally)
    assert not tally.failures, "\n".join(tally.failures)
    assert set(names) <= tally.acted


def test_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agree in float32 with float64 on the same physics, where both converge."""
    soften_like_float32(monkeypatch)
    errors: list[list[float]] = []
    for seed in range(30_000_000, 30_000_100):
        model, q, v, rng = draw(seed)
        u = rng.normal(size=(1, model.nu))
        q, v, u = (x.astype(np.float32) for x in (q, v, u))
        bars = [rng.normal(size=(2, n)) for n in (model.nq, model.nv)]
        rolls = [
            fb.Simulator(model, dtype=dtype, tolerance=sharp, friction=law(seed)).rollout(q, v, u)
            for dtype, sharp in (("float64", 1e-10), ("float32", 1e-6))
        ]
        if all(roll.ok for roll in rolls):
            found = [roll.vjp(*bars) for roll in rolls]
            pairs = [[np.r_[x.v, x.u.reshape(-1)] for x in found], [x.q for x in found]]
            errors.append([float(np.abs(a - b).max() / np.abs(a).max()) for a, b in pairs])
    quantiles = np.quantile(errors, [0.5, 0.9, 0.95, 1.0], axis=0)
    print(f"seeds 30000000 to 30000099: {len(errors)} compared, quantiles\n{quantiles}")
    assert len(errors) >= 80
    assert np.all(quantiles[:, 0] <= [2e-6, 5e-5, 1e-4, 5e-4])
    # gap terms bend beyond 4 um in float32 and beyond 0.4 um in float64, and q moves the gaps
    assert np.all(quantiles[:, 1] <= [2e-6, 2e-4, 5e-4, 6e-3])
