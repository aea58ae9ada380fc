"""Activations under MuJoCo's law against `mj_step`, by each integrator, in contact and without."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

import featherback as fb
from featherback.sim.differences import slopes, stencil
from tests.core.models import activation_model
from tests.core.ops_soft import driven_model
from tests.property.soft import exact_mujoco
from tests.property.test_random_linearize import lift
from tests.reference.test_activation import TYPES, law

STEPS = 100
INTEGRATORS = ("euler", "rk4", "implicitfast")


def options_of(integrator: str) -> dict[str, object]:
    """Return the options of a simulator."""
    return {
        "contact": "mujoco",
        "cone": "elliptic",
        "impratio": 1.0,
        "integrator": integrator,
    }


def apart(model: fb.Model, integrator: str, steps: int = STEPS) -> tuple[float, int]:
    """Return how far the states of a rollout lie from MuJoCo's, and how often a limit held."""
    rng = np.random.default_rng(3)
    options = options_of(integrator)
    m = exact_mujoco(model, options)
    data = mujoco.MjData(m)
    q, v = np.array(model.q0), 0.1 * rng.normal(size=m.nv)
    act = 0.1 * rng.normal(size=m.na)
    slow = np.sin(np.arange(steps)[:, None] / 30 + rng.uniform(0, 6, m.nu))
    u = 0.8 * slow + 0.2 * rng.normal(size=(steps, m.nu))
    data.qpos[:], data.qvel[:], data.act[:] = q, v, act
    roll = fb.Simulator(model, **options).rollout(q, v, u, act=act)
    assert roll.ok
    ranges = m.actuator_actrange[(m.actuator_actadr >= 0) & (m.actuator_actlimited > 0)]
    limited = m.actuator_actadr[(m.actuator_actadr >= 0) & (m.actuator_actlimited > 0)]
    worst, held = 0.0, 0
    for k in range(steps):
        data.ctrl[:] = u[k]
        mujoco.mj_step(m, data)
        theirs = np.r_[data.qpos, data.qvel, data.act]
        ours = np.r_[roll.q[k + 1], roll.v[k + 1], roll.act[k + 1]]
        worst = max(worst, float(np.abs(ours - theirs).max() / max(1.0, np.abs(theirs).max())))
        held += int(np.count_nonzero(ranges == data.act[limited, None]))
    return worst, held


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("early", [False, True])
def test_each_dynamics_type(kind: str, early: bool, integrator: str) -> None:
    """Follow MuJoCo through one dynamics type, at its limits and between them."""
    worst, held = apart(fb.load(law(kind, early, True)), integrator)
    print(worst, held)
    assert worst < 1e-9 and held > 10


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_all_together(integrator: str) -> None:
    """Take MuJoCo's step with every dynamics type at once, one of them held, from many states.

    Its fast filters on light links are not stable by explicit methods over many steps.
    """
    model, options = activation_model(), options_of(integrator)
    m, sim = exact_mujoco(model, options), fb.Simulator(model, **options)
    data, rng, held = mujoco.MjData(m), np.random.default_rng(5), 0
    limited = m.actuator_actadr[(m.actuator_actadr >= 0) & (m.actuator_actlimited > 0)]
    ranges = m.actuator_actrange[(m.actuator_actadr >= 0) & (m.actuator_actlimited > 0)]
    for _ in range(50):
        mujoco.mj_resetData(m, data)
        data.qvel[:], data.act[:] = 0.3 * rng.normal(size=m.nv), 0.3 * rng.normal(size=m.na)
        data.ctrl[:] = rng.normal(size=m.nu)
        q, v, act, u = (np.array(x) for x in (data.qpos, data.qvel, data.act, data.ctrl))
        mujoco.mj_step(m, data)
        theirs = np.r_[data.qpos, data.qvel, data.act]
        ours = np.concatenate(sim.step(q, v, u, act=act))
        assert np.abs(ours - theirs).max() <= 1e-11 * max(1.0, np.abs(theirs).max())
        held += int(np.count_nonzero(ranges == data.act[limited, None]))
    assert held > 10


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_in_contact(integrator: str) -> None:
    """Follow MuJoCo with contacts, limits and a coupling that activations press on."""
    worst, held = apart(driven_model(), integrator, steps=40)
    print(worst, held)
    assert worst < 1e-9 and held > 3


def test_the_orders_of_methods_differ() -> None:
    """Move activations by stages: Euler's step of a fast filter lies elsewhere."""
    model = fb.load(law("filter", False, False))
    ends = []
    for integrator in ("euler", "rk4"):
        sim = fb.Simulator(model, **options_of(integrator))
        ends.append(sim.step(model.q0, model.v0, np.ones(model.nu), act=model.act0)[2])
    ratio = model.mujoco.opt.timestep / 0.03
    control = np.array([0.8, 1.0])
    taylor = ratio - ratio**2 / 2 + ratio**3 / 6 - ratio**4 / 24
    assert np.abs(ends[0] - ratio * control).max() < 1e-15
    assert np.abs(ends[1] - taylor * control).max() < 1e-15


def pairing(sim: fb.Simulator, seed: int) -> float:
    """Return the gap between forward and reverse mode, and linearize, at a random state."""
    rng, model = np.random.default_rng(seed), sim.model
    v, act = 0.1 * rng.normal(size=model.nv), 0.15 * rng.normal(size=model.na)
    names = ("actuator_dynprm", "actuator_actrange", "actuator_gainprm", "dt", "body_mass")
    params = {name: np.array(sim.params[name]) for name in names}
    roll = sim.rollout(model.q0, v, rng.normal(size=(2, model.nu)), act=act, params=params)
    bars = [rng.normal(size=x[-1].shape) for x in (roll.q, roll.v, roll.act)]
    found = roll.vjp(*bars)
    t, dv, dact = (rng.normal(size=n) for n in (model.nv, model.nv, model.na))
    du = rng.normal(size=roll.u.shape)
    dq = lift(model, model.q0, t)
    dparams = {n: 1e-2 * rng.normal(size=a.shape) for n, a in params.items()}
    moved = roll.jvp(dq, dv, du, dact=dact, dparams=dparams)
    one = [bar * x[-1] for bar, x in zip(bars, moved, strict=True)]
    other = [found.q * dq, found.v * dv, found.act * dact, found.u * du]
    other += [found.params[n] * dparams[n] for n in names]
    size = sum(np.abs(x).sum() for x in (*one, *other))
    gap = abs(sum(x.sum() for x in one) - sum(x.sum() for x in other)) / size
    A, B = sim.linearize(roll.q[0], v, roll.u[0], act=act, params=params)
    single = sim.jvp(roll.q[0], v, roll.u[0], dq, dv, du[0], act=act, dact=dact, params=params)
    column = A @ np.r_[t, dv, dact] + B @ du[0]
    own = np.concatenate(single[1:])
    return max(float(gap), float(np.abs(column[model.nv :] - own).max() / np.abs(own).max()))


def test_forward_and_columns_pair_with_reverse() -> None:
    """Agree in jvp, linearize and vjp to 1e-10, activations and their parameters included."""
    for model in (activation_model(), driven_model()):
        sim = fb.Simulator(model, **options_of("rk4"))
        assert max(pairing(sim, seed) for seed in range(20)) < 1e-10


@pytest.mark.parametrize("name", ["act", "u", "actuator_dynprm", "actuator_actrange", "dt"])
def test_gradients_are_those_of_differences(name: str) -> None:
    """Agree with differences along a line in activations, controls and their parameters."""
    offsets, sure = stencil(), 0
    for seed in range(10):
        rng, model = np.random.default_rng(seed), driven_model()
        sim = fb.Simulator(model, **options_of("rk4"))
        given = {
            "act": 0.15 * rng.normal(size=model.na),
            "u": 0.5 * rng.normal(size=(3, model.nu)),
            **{n: np.array(sim.params[n]) for n in ("actuator_dynprm", "actuator_actrange", "dt")},
        }
        v = 0.1 * rng.normal(size=model.nv)
        line = 0.05 * given[name] * rng.normal(size=given[name].shape)
        moved = {n: np.repeat(x[None], len(offsets), 0) for n, x in given.items()}
        moved[name] = given[name] + offsets.reshape(-1, *(1,) * line.ndim) * line

        def roll(
            q: np.ndarray, v: np.ndarray, x: dict[str, np.ndarray], sim: fb.Simulator = sim
        ) -> fb.Rollout:
            params = {n: x[n] for n in x if n not in ("act", "u")}
            return sim.rollout(q, v, x["u"], act=x["act"], params=params)

        bars = [rng.normal(size=n) for n in (model.nq, model.nv, model.na)]
        many = [np.repeat(x[None], len(offsets), 0) for x in (model.q0, v)]
        ends = roll(*many, moved)
        values = ends.q[:, -1] @ bars[0] + ends.v[:, -1] @ bars[1] + ends.act[:, -1] @ bars[2]
        found = roll(model.q0, v, given).vjp(*bars)
        exact = np.sum(
            line * (getattr(found, name, None) if name in ("act", "u") else found.params[name])
        )
        slope = slopes(values[None])
        if slope.doubt[0] < 1e-7 * max(abs(exact), 1e-9):
            sure += 1
            assert abs(slope.value[0] - exact) < 1e-6 * max(abs(exact), 1e-9), seed
    assert sure > 3
