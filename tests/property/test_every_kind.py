"""Gradients of every pair of shapes, joint type, equality and parameter, by name and without gaps.

Each is compared with differences under both friction laws, with both solvers and in float32. A kind
that is added to the library and not to these tables fails here.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

import featherback as fb
from featherback._core import activation_types
from tests.property.gradients import Comparison, Tally, parameters, soften_like_float32
from tests.property.kinds import (
    ACTING,
    ACTIVATIONS,
    EQUALITIES,
    JOINTS,
    Vector,
    activated_model,
    equality_model,
    pair_model,
    supported_pairs,
    touching,
)
from tests.property.modes import SLIDES, STATES, STICKS, contact_modes

Friction = Literal["cone", "box"]
Solver = Literal["newton", "pgs"]
STEPS = 3
PAIRS = supported_pairs()
# parameters of two shapes that touch, whatever they are
CONTACT = set(
    "q v dt gravity body_mass body_ipos body_inertia geom_pos contact_compliance "
    "xfrc_applied".split()
)
MU = {STICKS: 3.0, SLIDES: 0.04}
# the rims of two cylinders meet so that less than 0.04 of the impulse along the normal holds them
LOW_MU = {"cylinder-cylinder": 0.01}
# tilted shapes touch at one place, nearly flat ones at several
TILTS = {"tilted": 1.0, "flat": 0.003}
SEVERAL = {"plane-capsule", "plane-cylinder", "plane-box", "capsule-box", "box-box"}


def pair_inputs(model: fb.Model, sim: fb.Simulator, tilt: str) -> dict[str, Vector]:
    """Return two shapes that hit each other, with a bounce and a compliance of their own."""
    q, v = touching(model, sim, TILTS[tilt])
    params = parameters(model)
    # several places that bounce in different measure have no common solution
    params["geom_restitution"] += np.array([0.2, 0.3]) * (tilt == "tilted")
    params["contact_compliance"] += np.array([1e-6, 2e-6])
    # once it stands, the lowest point of a cylinder is anywhere on its rim: rounding decides
    steps = 1 if (model.name, tilt) == ("plane-cylinder", "flat") else STEPS
    return {"q": q, "v": v, "u": np.zeros((steps, 0)), **params}


def compared(sim: fb.Simulator, inputs: dict[str, Vector], label: str) -> tuple[Comparison, Tally]:
    """Compare every input along random lines."""
    tally, rng = Tally(), np.random.default_rng(0)
    case = Comparison(sim, inputs, rng, label)
    assert case.roll.ok
    for name in inputs:
        case.compare(name, case.random_directions(name, 2), tally)
    print(f"seed 0, {label}: {tally}")
    assert not tally.failures, "\n".join(tally.failures)
    assert tally.count["crossed lines unresolved"] <= 0.1 * tally.count["lines"]
    return case, tally


def acting(pair: str, mode: int, tilt: str) -> set[str]:
    """Return the inputs that must act where two shapes touch."""
    names = CONTACT | ({"geom_friction"} if mode == SLIDES else set[str]())
    # a hit has no time for a spring
    names = names - {"contact_compliance"} | {"geom_restitution"} if tilt == "tilted" else names
    names |= {"mesh_scale"} if pair.endswith("mesh") else set[str]()
    names |= {"hfield_size"} if pair.startswith("hfield") else set[str]()
    alone = ("plane-mesh", "mesh-mesh", "hfield-mesh")
    names |= {"geom_size"} if pair not in alone else set[str]()
    return names | (set() if pair == "sphere-sphere" else {"geom_quat"})


@pytest.mark.parametrize("solver", ["newton", "pgs"])
@pytest.mark.parametrize("friction", ["cone", "box"])
@pytest.mark.parametrize("pair", PAIRS)
def test_pairs(pair: str, friction: Friction, solver: Solver) -> None:
    """Agree with differences for every pair of shapes, sticking and sliding, tilted and flat."""
    for mode, tilt in ((STICKS, "tilted"), (SLIDES, "tilted"), (SLIDES, "flat")):
        model = pair_model(pair, LOW_MU.get(pair, MU[mode]) if mode == SLIDES else MU[mode])
        sim = fb.Simulator(
            model, friction=friction, solver=solver, tolerance=1e-12, max_sweeps=2000
        )
        inputs = pair_inputs(model, sim, tilt)
        case, tally = compared(sim, inputs, f"{pair}, mode {mode}, {tilt}")
        modes = contact_modes(sim, inputs, case.roll)
        assert modes[0, 0, 0, mode] > 0
        assert tilt == "tilted" or pair not in SEVERAL or modes[0, 0].sum() > 1
        assert acting(pair, mode, tilt) <= tally.acted


def joint_inputs(model: fb.Model, beyond: bool) -> dict[str, Vector]:
    """Return a body on one joint that turns, with actuators within and at their limits.

    Args:
        model: the model of one joint.
        beyond: whether the joint moves beyond its limit.
    """
    rng = np.random.default_rng(1)
    q, v = np.array(model.q0), np.full(model.nv, 0.5)
    if model.nq == model.nv:
        q[:] = 0.4003 if beyond else 0.2
    else:
        half = 0.2502 if beyond else 0.1
        q[-4:] = np.r_[np.cos(half), np.sin(half) * np.array([0.6, 0.64, 0.48])]
    u = np.tile([0.1, 0.5, 0.4], (STEPS, 1)) + 0.01 * rng.normal(size=(STEPS, 3))
    params = parameters(model)
    params["xfrc_applied"] += rng.normal(size=params["xfrc_applied"].shape)
    return {"q": q, "v": v, "u": u, **params}


@pytest.mark.parametrize("solver", ["newton", "pgs"])
@pytest.mark.parametrize("kind", JOINTS)
def test_joints(kind: str, solver: Solver) -> None:
    """Agree with differences for every joint type, each of its terms in force."""
    model, acted = fb.load(JOINTS[kind]), set[str]()
    sim = fb.Simulator(model, solver=solver, tolerance=1e-12, max_sweeps=30_000)
    for beyond in (False, True):
        inputs = joint_inputs(model, beyond)
        acted |= compared(sim, inputs, f"{kind}, beyond its limit: {beyond}")[1].acted
    print(f"act: {sorted(acted)}")
    assert acted >= ACTING[kind]


def activated_inputs(model: fb.Model) -> dict[str, Vector]:
    """Return a hinge whose activations are on their way, and one of them at its limit."""
    rng = np.random.default_rng(4)
    u = np.array([0.5, 0.3, -0.6]) + 0.01 * rng.normal(size=(STEPS, 3))
    act = np.array([0.3995, -0.2, 0.35])
    return {"q": np.array([0.2]), "v": np.array([0.5]), "act": act, "u": u, **parameters(model)}


def test_activations() -> None:
    """Agree with differences for every type of activation, early and late, free and at a limit."""
    model = activated_model()
    inputs = activated_inputs(model)
    case, tally = compared(fb.Simulator(model, tolerance=1e-12), inputs, "activations")
    assert tally.acted >= {"act", "u", "dt", "actuator_dynprm", "actuator_actrange"}
    assert (case.roll.act[-1] != inputs["act"]).all() and case.roll.act[-1, 0] == 0.4
    # an integrator has no time constant, and only the limit that holds it acts
    assert (case.gradient["actuator_dynprm"].ravel() != 0).tolist() == [False, True, True]
    limits = case.gradient["actuator_actrange"]
    assert np.argwhere(limits).tolist() == [[0, 1]]


@pytest.mark.parametrize("kind", EQUALITIES)
def test_equalities(kind: str) -> None:
    """Agree with differences for every equality."""
    model = equality_model(kind)
    v = 0.2 * np.random.default_rng(2).normal(size=model.nv)
    inputs = {"q": model.q0, "v": v, "u": np.zeros((STEPS, 0)), **parameters(model)}
    acted = compared(fb.Simulator(model, tolerance=1e-12), inputs, kind)[1].acted
    assert acted >= {"q", "v", "eq_data", "body_mass", "dt"}


def test_nothing_is_left_out() -> None:
    """Have every pair, joint type, equality and parameter of the library in these tables."""
    assert set(JOINTS) == {"free", "ball", "hinge", "slide"}
    assert set(EQUALITIES) == {"connect", "weld", "joint"}
    assert len(PAIRS) == 33
    # one without activation is in JOINTS, muscles in test_forces; one that is held does not move
    others = {"none", "held", "muscle"}
    assert set(ACTIVATIONS) == {row.name for row in activation_types()} - others
    pairs = (acting(pair, SLIDES, tilt) for pair in PAIRS for tilt in TILTS)
    names = set().union(*ACTING.values(), *pairs)
    names |= {"act", "actuator_dynprm", "actuator_actrange"}
    known = set(parameters(fb.load(JOINTS["hinge"])))
    # tested in test_tendons
    known -= {name for name in known if name.startswith(("tendon_", "wrap_", "site_"))}
    # tested in test_equalities, test_random_gradients, and on longer chains there
    elsewhere = {"eq_data", "pair_friction", "body_pos"}
    # rims of contacts: test_turning_and_rolling
    elsewhere |= {"pair_friction_rest"}
    # those of gravity compensation, fluids, muscles and actuators on sites: test_forces
    forces = "body_gravcomp density viscosity wind geom_fluid muscle_gainprm muscle_biasprm "
    forces += "muscle_dynprm muscle_lengthrange muscle_acc0 actuator_cranklength"
    assert known - names == elsewhere | set(forces.split())


def float32_error(model: fb.Model, inputs: dict[str, Vector], **options: Any) -> float:
    """Return how far gradients in float32 are from those in float64, input by input."""
    point: dict[str, Any] = {k: a.astype(np.float32) for k, a in inputs.items() if k in STATES}
    params = {
        k: a.astype(np.float32).astype(np.float64) for k, a in inputs.items() if k not in STATES
    }
    found: list[dict[str, Vector]] = []
    rng = np.random.default_rng(3)
    bars = [rng.normal(size=(STEPS + 1, n)) for n in (model.nq, model.nv, model.na)]
    for dtype, tolerance in (("float64", 1e-10), ("float32", 1e-6)):
        sim = fb.Simulator(model, dtype=dtype, tolerance=tolerance, max_sweeps=2000, **options)
        gradient = sim.rollout(**point, params=params).vjp(*bars)
        assert gradient.q.dtype == dtype
        found.append({k: getattr(gradient, k) for k in STATES} | gradient.params)
    wide, narrow = found
    largest = max(float(np.abs(a).max(initial=0)) for a in wide.values())
    scale = {k: max(float(np.abs(a).max(initial=0)), 1e-4 * largest) for k, a in wide.items()}
    return float(np.max([np.abs(wide[k] - narrow[k]).max(initial=0) / scale[k] for k in wide]))


@pytest.mark.parametrize("friction", ["cone", "box"])
def test_float32(friction: Friction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agree in float32 with float64 on the same physics, for every pair, joint and equality."""
    soften_like_float32(monkeypatch)
    print("seed 3")
    errors: dict[str, float] = {}
    for pair in PAIRS:
        model = pair_model(pair, MU[SLIDES])
        inputs = pair_inputs(model, fb.Simulator(model), "tilted")
        errors[pair] = float32_error(model, inputs, friction=friction)
    for kind in JOINTS:
        model = fb.load(JOINTS[kind])
        errors[kind] = float32_error(model, joint_inputs(model, False), friction=friction)
    model = activated_model()
    errors["activations"] = float32_error(model, activated_inputs(model), friction=friction)
    for kind in EQUALITIES:
        model = equality_model(kind)
        inputs = {
            "q": model.q0,
            "v": model.v0 + 0.1,
            "u": np.zeros((STEPS, 0)),
            **parameters(model),
        }
        errors[kind] = float32_error(model, inputs, friction=friction)
    print(errors)
    # rows of equalities are stiff: what is left of the gap weighs 1 / dt; the moment of a hit is a
    # gap over a speed, and a gap is a small difference of places, most of all beside a radius
    bounds = {"connect": 2e-4, "weld": 5e-4}
    bounds |= dict.fromkeys(("sphere-capsule", "sphere-mesh", "capsule-mesh"), 5e-4)
    assert all(error <= bounds.get(kind, 1e-4) for kind, error in errors.items())
