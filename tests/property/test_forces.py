"""Gravity compensation, fluids, muscles and actuators on sites: forces, gradients, bits."""

from __future__ import annotations

import copy
from typing import Any

import mujoco
import numpy as np
import pytest

import featherback as fb
from tests.core import references
from tests.core.ops_models import Case
from tests.property.forces import draw_forces
from tests.property.gradients import parameters
from tests.property.random_models import random_state
from tests.property.test_random_linearize import lift

LAWS: dict[str, dict[str, Any]] = {
    "hard": {},
    "euler": {"contact": "mujoco", "integrator": "euler"},
    "implicitfast": {"contact": "mujoco", "integrator": "implicitfast"},
    "rk4": {"contact": "mujoco", "integrator": "rk4"},
}
PARAMETERS = (
    "body_gravcomp density viscosity wind geom_fluid geom_size muscle_gainprm site_pos "
    "actuator_gear"
).split()
MORE = set(
    "muscle_biasprm muscle_dynprm muscle_lengthrange muscle_acc0 site_quat "
    "actuator_cranklength".split()
)


@pytest.mark.parametrize("chunk", range(4))
def test_forces_are_those_of_mujoco(chunk: int) -> None:
    """Have MuJoCo's passive and actuator forces and its rates of activation, to 1e-9."""
    seen = {"gravcomp": 0, "fluid": 0, "muscle": 0, "limited": 0, "site": 0}
    for seed in range(50 * chunk, 50 * chunk + 50):
        model, rng = draw_forces(seed)
        m, ops = model.mujoco, Case(lambda model=model: model).ops
        q, v = random_state(model, rng)
        act, u = rng.uniform(-0.2, 1.2, model.na), rng.uniform(-0.5, 1.5, model.nu)
        x = np.r_[q, v, act, u]
        data = references.data_at(model, x)
        data.act, data.ctrl = act, u
        mujoco.mj_fwdActuation(m, data)
        tau = data.qfrc_passive + data.qfrc_actuator
        found = ops.forward("actuation", x)[: model.nv]
        np.testing.assert_allclose(found, tau, rtol=0, atol=1e-9 * max(1.0, np.abs(tau).max()))
        if model.na:
            after = data.act + m.opt.timestep * data.act_dot
            own = ops.forward("activation", x)
            np.testing.assert_allclose(own, after, rtol=0, atol=1e-9)
        carried = data.qfrc_gravcomp * m.jnt_actgravcomp[m.dof_jntid] != 0
        held = m.jnt_actfrclimited[m.dof_jntid].astype(bool)
        seen["gravcomp"] += bool(np.any(data.qfrc_gravcomp))
        seen["fluid"] += bool(np.any(data.qfrc_fluid))
        seen["muscle"] += int(np.sum(m.actuator_gaintype == int(mujoco.mjtGain.mjGAIN_MUSCLE)))
        seen["site"] += int(np.sum(m.actuator_trntype != int(mujoco.mjtTrn.mjTRN_JOINT)))
        seen["limited"] += bool(np.any(carried & held))
    print(seen)
    assert min(seen.values()) > 10


@pytest.mark.parametrize("law", [name for name in LAWS if name != "hard"])
def test_steps_are_those_of_mujoco(law: str) -> None:
    """Take MuJoCo's step without constraints under its law, with each of its integrators."""
    number = {"euler": 0, "rk4": 1, "implicitfast": 3}[law]
    worst = 0.0
    for seed in range(300, 340):
        model, rng = draw_forces(seed, bodies=1 + seed % 7, rows=False)
        m = copy.copy(model.mujoco)
        q, v = random_state(model, rng)
        act, u = rng.uniform(0, 1, model.na), rng.uniform(0, 1, model.nu)
        m.opt.integrator = number
        data = mujoco.MjData(m)
        data.qpos, data.qvel, data.act, data.ctrl = q, v, act, u
        mujoco.mj_normalizeQuat(m, data.qpos)
        mujoco.mj_step(m, data)
        sim = fb.Simulator(model, **LAWS[law])
        found = sim.step(q, v, u, act=act if model.na else None)
        theirs = (data.qpos, data.qvel, data.act)
        for one, other in zip(found, theirs, strict=False):
            worst = max(worst, float(np.abs(one - other).max() / max(1.0, np.abs(other).max())))
    print(worst)
    assert worst < 1e-9


def one_step(seed: int, law: str) -> tuple[fb.Simulator, fb.Rollout, list[np.ndarray], Any]:
    """Return one step of a random model, and cotangents of its end."""
    model, rng = draw_forces(seed)
    q, v = random_state(model, rng)
    act, u = rng.uniform(0, 1, model.na), rng.uniform(0, 1, (1, model.nu))
    # values that no file asks for: a part of a fluid's force, a muscle without a range of lengths
    own = {name: model.params[name].copy() for name in ("geom_fluid", "muscle_gainprm")}
    own["geom_fluid"][..., :1] *= rng.uniform(0.4, 0.9)
    if seed % 3 == 0:
        own["muscle_gainprm"][:1, 1] = own["muscle_gainprm"][:1, 0]
    sim = fb.Simulator(model, **LAWS[law], params=own)
    given = parameters(model, sim.options.contact) | own
    roll = sim.rollout(q, v, u, act=act if model.na else None, params=given)
    bars = [rng.normal(size=x.shape) for x in (roll.q, roll.v, roll.act)]
    for bar in bars:
        bar[0] = 0
    return sim, roll, bars, rng


@pytest.mark.parametrize("law", LAWS)
def test_all_derivatives_agree(law: str) -> None:
    """Agree in jvp, linearize and vjp to 1e-9, in states, controls and all parameters."""
    worst = {"jvp": 0.0, "linearize": 0.0}
    acted: set[str] = set()
    for seed in range(400, 430):
        sim, roll, bars, rng = one_step(seed, law)
        model = sim.model
        if not roll.ok:
            continue
        found = roll.vjp(*bars)
        acted |= {name for name, a in found.params.items() if np.any(a)}
        t, dv, da, du = (rng.normal(size=n) for n in (model.nv, model.nv, model.na, model.nu))
        dq = lift(model, roll.q[0], t)
        steps = {n: 1e-2 * rng.normal(size=a.shape) for n, a in found.params.items()}
        moved = roll.jvp(dq, dv, du[None], dact=da, dparams=steps)
        state = [found.q * dq, found.v * dv, found.act * da, found.u * du]
        reverse = {
            "jvp": [*state, *(found.params[n] * steps[n] for n in steps)],
            "linearize": state,
        }
        act = roll.act[0] if model.na else None
        A, B = sim.linearize(roll.q[0], roll.v[0], roll.u[0], act=act)
        column = A @ np.r_[t, dv, da] + B @ du
        ends = np.split(column, [model.nv, 2 * model.nv])
        place = lift(model, roll.q[1], ends[0])
        forward = {
            "jvp": [bar * x for bar, x in zip(bars, moved, strict=False)],
            "linearize": [bars[0][1] * place, bars[1][1] * ends[1], bars[2][1] * ends[2]],
        }
        for name, one in forward.items():
            other = reverse[name]
            size = sum(np.abs(x).sum() for x in (*one, *other))
            gap = abs(sum(x.sum() for x in one) - sum(x.sum() for x in other)) / size
            worst[name] = max(worst[name], float(gap))
    print(worst)
    assert max(worst.values()) < 1e-9
    assert acted >= MORE | set(PARAMETERS)


@pytest.mark.parametrize("law", LAWS)
def test_gradients_are_those_of_differences(law: str) -> None:
    """Agree with differences over several steps, in states, controls and these parameters."""
    for seed in range(500, 506):
        model, rng = draw_forces(seed, bodies=4)
        q, v = random_state(model, rng)
        v = v / max(1.0, np.abs(v).max())
        # steps so short that rk4 does not explode by the drag of light bodies
        sim = fb.Simulator(model, **LAWS[law], params={"dt": 0.1 * model.params["dt"]})
        names = [n for n in PARAMETERS if sim.params[n].size and np.any(sim.params[n])]
        act = rng.uniform(0, 1, model.na) if model.na else None
        u = rng.uniform(0, 1, (5, model.nu))
        report = fb.check_gradients(
            sim, q=q, v=v, u=u, act=act, steps=5, draws=2, params=names, seed=seed
        )
        print(report)
        assert report.ok, str(report)


@pytest.mark.parametrize("law", LAWS)
def test_second_derivatives_are_those_of_differences(law: str) -> None:
    """Give Hessian products that are differences of gradients."""
    for seed in range(600, 604):
        sim, roll, bars, rng = one_step(seed, law)
        model = sim.model
        dv = rng.normal(size=model.nv)
        found = roll.hessian_vector_product(*bars, direction=(None, dv, None))
        h = 1e-6
        ends = []
        for side in (-h, h):
            act = roll.act[0] if model.na else None
            moved = sim.rollout(roll.q[0], roll.v[0] + side * dv, roll.u, act=act)
            ends.append(moved.vjp(*bars).v)
        slope = (ends[1] - ends[0]) / (2 * h)
        assert np.abs(slope - found.v).max() <= 1e-5 * max(1e-3, np.abs(found.v).max())


@pytest.mark.parametrize("law", LAWS)
def test_worlds_of_a_batch_have_the_bits_of_one_world(law: str) -> None:
    """Step and differentiate worlds of a batch as each by itself, beside one that holds NaN."""
    for seed in range(700, 703):
        model, rng = draw_forces(seed, bodies=5)
        q, v = random_state(model, rng)
        worlds = 9
        q = np.repeat(q[None], worlds, axis=0)
        v = v / max(1.0, np.abs(v).max()) + 0.3 * rng.normal(size=(worlds, model.nv))
        u = rng.uniform(0, 1, (worlds, 3, model.nu))
        u[1, 1] = np.nan
        bars = rng.normal(size=(worlds, model.nq)), rng.normal(size=(worlds, model.nv))
        sim = fb.Simulator(model, **LAWS[law])
        roll = sim.rollout(q, v, u)
        u[1, 1] = 0.5
        found = sim.rollout(q, v, u).vjp(*bars)
        assert roll.status[1] and not np.delete(roll.status, 1).any()
        for k in (0, 2, worlds - 1):
            one = sim.rollout(q[k], v[k], u[k])
            np.testing.assert_array_equal(roll.v[k], one.v)
            np.testing.assert_array_equal(found.v[k], one.vjp(bars[0][k], bars[1][k]).v)
