"""Simulator.jvp and linearize: against vjp, differences and MuJoCo, and what they refuse."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import pytest

import featherback as fb
from featherback.errors import WorldError
from tests.core.models import laikago, loop_model, tree_model
from tests.core.ops import state
from tests.reference.test_linearize import spun_jacobians
from tests.sim.refusal import at_fault

MODELS = {"laikago": laikago, "tree": tree_model, "loop": loop_model}
WITHOUT_GRADIENT = ("body_invweight0", "dof_invweight0", "tendon_invweight0")


def draw(model: fb.Model, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw a state and a control, with rows in force."""
    x = state(model, rng, model.nu)
    q, v, u = x[: model.nq], x[model.nq : model.nq + model.nv], x[model.nq + model.nv :]
    return (q, v, u + q[7:]) if model.name == "laikago" else (q, v, u)


def batch(model: fb.Model, worlds: int) -> tuple[np.ndarray, ...]:
    """Draw worlds and directions (q, v, u, dq, dv, du)."""
    rng = np.random.default_rng(7)
    print("seed 7")
    point = [np.stack(a) for a in zip(*(draw(model, rng) for _ in range(worlds)), strict=True)]
    return (*point, *(rng.normal(size=a.shape) for a in point))


def parameters(model: fb.Model, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return the parameters that have a gradient, those that meet in a maximum made distinct."""
    given = {k: np.array(a) for k, a in fb.Simulator(model).params.items()}
    for name in ("geom_friction", "geom_restitution", "contact_compliance"):
        scale = 1e-6 if name == "contact_compliance" else 0.1
        given[name] = given[name] + scale * rng.uniform(0.1, 1, given[name].shape)
    return {k: a for k, a in given.items() if k not in WITHOUT_GRADIENT and a.size}


@pytest.mark.parametrize("friction", ["cone", "box"])
@pytest.mark.parametrize("name", MODELS)
def test_pairs_with_vjp(name: str, friction: Any) -> None:
    """Agree with vjp of one step on random pairs, parameters included."""
    model, rng = MODELS[name](), np.random.default_rng(0)
    sim = fb.Simulator(model, tolerance=1e-13, friction=friction)
    params = parameters(model, rng)
    touched = 0
    for draws in range(8):
        q, v, u = draw(model, rng)
        dq, dv, du = (rng.normal(size=a.shape) for a in (q, v, u))
        dparams = {k: rng.normal(size=a.shape) * (np.abs(a) + 1e-3) for k, a in params.items()}
        touched += int(sim.contacts(q, v, u, params=params).count)
        roll = sim.rollout(q, v, u[None], params=params)
        bars = rng.normal(size=roll.q.shape), rng.normal(size=roll.v.shape)
        bars[0][0], bars[1][0] = 0, 0
        gradient = roll.vjp(*bars)
        q_dot, v_dot = sim.jvp(q, v, u, dq, dv, du, params=params, dparams=dparams)
        forward = [bars[0][1] * q_dot, bars[1][1] * v_dot]
        backward = [gradient.q * dq, gradient.v * dv, gradient.u[0] * du]
        backward += [gradient.params[k] * dparams[k] for k in params]
        size = sum(float(np.abs(a).sum()) for a in forward + backward)
        error = abs(sum(float(a.sum()) for a in forward) - sum(float(a.sum()) for a in backward))
        print(f"seed 0, draw {draws}, error {error / size:.1e}")
        assert error <= 1e-11 * size
    assert name == "loop" or touched > 0


@pytest.mark.parametrize("name", MODELS)
def test_jvp_agrees_with_differences(name: str) -> None:
    """Agree with central differences of the step along random directions."""
    model, rng = MODELS[name](), np.random.default_rng(1)
    sim = fb.Simulator(model, tolerance=1e-13)
    mass = sim.params["body_mass"]
    for draws in range(4):
        point = draw(model, rng)
        along = [rng.normal(size=a.shape) for a in point]
        dmass = mass * rng.normal(size=mass.shape)
        found = np.concatenate(sim.jvp(*point, *along, dparams={"body_mass": dmass}))
        errors = []
        for e in (1e-5, 1e-6, 1e-7):
            ends = []
            for sign in (e, -e):
                moved = [a + sign * d for a, d in zip(point, along, strict=True)]
                params = {"body_mass": mass + sign * dmass}
                ends.append(np.concatenate(sim.step(*moved, params=params)))
            slope = (ends[0] - ends[1]) / (2 * e)
            errors.append(np.abs(slope - found).max() / np.abs(found).max())
        print(f"seed 1, draw {draws}, errors {errors}")
        assert min(errors) <= 1e-5


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("own", [False, True], ids=["shared", "per-world"])
def test_worlds_have_the_same_bits_anywhere(dtype: Any, own: bool) -> None:
    """Give each world the bits it has alone, at any place in the batch and for any threads."""
    model, worlds = laikago(), 19
    rng = np.random.default_rng(2)
    x = batch(model, worlds)
    mass = model.params["body_mass"]
    params = {"body_mass": mass * rng.uniform(0.8, 1.2, (worlds, 1))} if own else {}
    dparams = {"body_mass": mass * rng.normal(size=(worlds, 1)), "dt": 1e-3} if own else {}
    sim = fb.Simulator(model, dtype=dtype)
    q_dot, v_dot = sim.jvp(*x, params=params, dparams=dparams)
    A, B = sim.linearize(*x[:3], params=params)
    assert q_dot.dtype == v_dot.dtype == A.dtype == B.dtype == dtype
    two = fb.Simulator(model, dtype=dtype, threads=2)
    other = (*two.jvp(*x, params=params, dparams=dparams), *two.linearize(*x[:3], params=params))
    for a, b in zip((q_dot, v_dot, A, B), other, strict=True):
        assert np.array_equal(a, b)
    for k in range(worlds):
        mine = {n: a[k] for n, a in params.items()}
        dmine = {n: a[k] if np.ndim(a) else a for n, a in dparams.items()}
        alone = sim.jvp(*(a[k] for a in x), params=mine, dparams=dmine)
        assert np.array_equal(alone[0], q_dot[k]) and np.array_equal(alone[1], v_dot[k])
        alone = sim.linearize(*(a[k] for a in x[:3]), params=mine)
        assert np.array_equal(alone[0], A[k]) and np.array_equal(alone[1], B[k])
    turned = sim.jvp(*(np.roll(a, 5, axis=0) for a in x)) if not own else None
    assert turned is None or np.array_equal(np.roll(turned[0], -5, axis=0), q_dot)


def test_float32_is_close() -> None:
    """Agree with float64 to single precision, relative to the largest number."""
    x = batch(laikago(), 5)
    sims = [fb.Simulator(laikago(), dtype=t) for t in ("float64", "float32")]
    # the two number types have compliances of their own; give both the same
    params = {"contact_compliance": np.full(laikago().ngeom, 1e-6)}
    for wide, narrow in zip(*(s.jvp(*x, params=params) for s in sims), strict=True):
        assert np.abs(wide - narrow).max() <= 2e-2 * np.abs(wide).max()
    for wide, narrow in zip(*(s.linearize(*x[:3], params=params) for s in sims), strict=True):
        assert np.abs(wide - narrow).max() <= 2e-2 * np.abs(wide).max()


def moved(model: fb.Model, q: np.ndarray, dq: np.ndarray) -> np.ndarray:
    """Return q moved by a tangent vector."""
    out = np.array(q)
    mujoco.mj_integratePos(model.mujoco, out, dq, 1.0)
    return out


def difference(model: fb.Model, q1: np.ndarray, q2: np.ndarray) -> np.ndarray:
    """Return the tangent vector from q1 to q2."""
    out = np.zeros(model.nv)
    mujoco.mj_differentiatePos(model.mujoco, out, 1.0, q1, q2)
    return out


@pytest.mark.parametrize("name", MODELS)
def test_linearize_agrees_with_differences(name: str) -> None:
    """Agree with central differences of our own step in the tangent space, with contact."""
    model, rng = MODELS[name](), np.random.default_rng(3)
    sim = fb.Simulator(model, tolerance=1e-13)
    q, v, u = draw(model, rng)
    assert name == "loop" or sim.contacts(q, v, u).count > 0
    nv, e = model.nv, 1e-6
    A, B = sim.linearize(q, v, u)
    found = np.hstack([A, B])
    columns = []
    for d in np.eye(2 * nv + model.nu) * e:
        ends = [
            sim.step(moved(model, q, s * d[:nv]), v + s * d[nv : 2 * nv], u + s * d[2 * nv :])
            for s in (1.0, -1.0)
        ]
        dq = difference(model, ends[1][0], ends[0][0])
        columns.append(np.r_[dq, ends[0][1] - ends[1][1]] / (2 * e))
    error = np.abs(np.array(columns).T - found).max() / np.abs(found).max()
    print(f"seed 3, error {error:.1e}")
    assert error <= 1e-6


SMOOTH = """<mujoco model="smooth"><option integrator="Euler" timestep="0.002">
<flag contact="disable" eulerdamp="disable"/></option><worldbody>
<body pos="0 0 1"><freejoint/><geom type="box" size="0.2 0.1 0.05" mass="3"/>
<body pos="0.2 0 0.1"><joint axis="1 2 3" pos="0.02 0 0.01" armature="0.01"/>
<geom type="capsule" size="0.03 0.1" mass="0.7" pos="0.01 0.02 0.1"/>
<body pos="0 0.1 0.2"><joint type="ball" pos="0.01 0 -0.02"/>
<geom type="box" size="0.05 0.04 0.1" mass="0.5"/></body></body></body>
<body pos="1 0 1"><joint type="slide" axis="0 0.1 1"/><joint axis="0 1 0"/>
<geom size="0.1" pos="0.05 0 -0.1" mass="1"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize("xml", [SMOOTH, None], ids=["tree", "pendulum"])
def test_linearize_agrees_with_mujoco(xml: str | None) -> None:
    """Agree with differences of MuJoCo's step where both engines solve the same equations."""
    model = fb.load(xml) if xml else fb.models.pendulum(5)
    sim, rng = fb.Simulator(model), np.random.default_rng(4)
    for draws in range(3):
        q = moved(model, model.q0, 0.3 * rng.normal(size=model.nv))
        v, u = rng.normal(size=model.nv), rng.normal(size=model.nu)
        pairs = zip(sim.linearize(q, v, u), spun_jacobians(model, q, v, u), strict=True)
        error = np.max([np.abs(a - b).max(initial=0.0) for a, b in pairs])
        print(f"seed 4, draw {draws}, error {error:.1e}")
        assert error <= 1e-8


def test_missing_directions_are_zero() -> None:
    """Take a missing direction for zero, share what has no world axis, and hold no worlds too."""
    model = laikago()
    sim = fb.Simulator(model)
    q, v = model.keyframe("stand")
    q_dot, v_dot = sim.jvp(q, v)
    assert not q_dot.any() and not v_dot.any()
    along = np.random.default_rng(5).normal(size=(3, model.nu))
    q_dot, v_dot = sim.jvp(q, v, q[7:], du=along)
    assert q_dot.shape == (3, model.nq) and v_dot.shape == (3, model.nv)
    B = sim.linearize(q, v, q[7:])[1]
    assert np.abs(along @ B[model.nv :].T - v_dot).max() <= 1e-12 * np.abs(v_dot).max()
    none = np.zeros((0, model.nq)), np.zeros((0, model.nv))
    assert sim.jvp(*none)[0].shape == (0, model.nq)
    assert sim.linearize(*none)[1].shape == (0, 2 * model.nv, model.nu)


def test_too_many_rows_together() -> None:
    """Give worlds that touch at different places their own tangents when rows do not fit in all."""
    model = fb.models.box()
    sim, alone = fb.Simulator(model, max_contacts=4), fb.Simulator(model)
    q = np.tile(model.q0, (8, 1))
    turns = [[1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0], [1, -1, 0, 0]] * 2
    q[:, 3:7] = np.array(turns) / np.linalg.norm(turns, axis=1, keepdims=True)
    size = model.params["geom_size"][-1]
    q[:, 2] = np.where(np.arange(8) % 4 < 2, size[2], size[1])
    v = np.zeros((8, model.nv))
    dq = np.random.default_rng(6).normal(size=q.shape)
    both = sim.jvp(q, v, dq=dq)
    for k in range(8):
        one = alone.jvp(q[k], v[k], dq=dq[k])
        assert np.array_equal(one[0], both[0][k]) and np.array_equal(one[1], both[1][k])


@pytest.mark.parametrize("friction", ["cone", "box"])
def test_unfinished_solve(friction: Any) -> None:
    """Agree in forward and reverse mode where the contact solve did not converge."""
    model, rng = laikago(), np.random.default_rng(8)
    print("seed 8")
    sim = fb.Simulator(model, max_sweeps=2, solver="pgs", friction=friction)
    q, v, u = draw(model, rng)
    assert sim.rollout(q, v, u[None]).status == fb.Status.UNCONVERGED
    along = rng.normal(size=(5, model.nv))
    q_dot, v_dot = sim.jvp(q, v, u, dv=along)
    A = sim.linearize(q, v, u)[0]
    found = along @ A[:, model.nv :].T
    assert np.abs(found[:, :3] - q_dot[:, :3]).max() <= 1e-11 * np.abs(q_dot).max()
    assert np.abs(found[:, model.nv :] - v_dot).max() <= 1e-11 * np.abs(v_dot).max()


@pytest.mark.parametrize("method", ["jvp", "linearize"])
def test_worlds_without_gradient_raise(method: str) -> None:
    """Raise where contacts were left out, by world."""
    model = fb.models.box()
    q = np.tile(model.q0, (2, 1))
    q[0, 2], q[1, 2] = 1.0, model.params["geom_size"][-1, 2]
    with pytest.raises(WorldError) as caught:
        getattr(fb.Simulator(model, max_contacts=1), method)(q, model.v0)
    assert at_fault(caught.value) == [(1, 0, fb.Status.NO_GRADIENT)]


@pytest.mark.parametrize("method", ["jvp", "linearize"])
def test_nonfinite_worlds_raise(method: str) -> None:
    """Raise where a world leaves the finite numbers, by world."""
    model = fb.models.pendulum(2)
    v = np.zeros((3, 2))
    v[2, 1] = 1e200
    with pytest.raises(WorldError) as caught:
        getattr(fb.Simulator(model), method)(np.ones((3, 2)), v)
    assert at_fault(caught.value) == [(2, 0, fb.Status.NONFINITE)]
    with pytest.raises(WorldError, match="world 0, first at step 0, NONFINITE"):
        getattr(fb.Simulator(model), method)(np.ones(2), v[2])


@pytest.mark.parametrize("law", ["hard", "mujoco"])
def test_no_zero_of_a_tangent_is_negative(law: Any) -> None:
    """Give plus zero for a tangent below the smallest number."""
    model = fb.models.cartpole()
    sim = fb.Simulator(model, contact=law)
    roll = sim.rollout(model.q0, model.v0, steps=2)
    for tangent in roll.jvp(du=np.full(roll.u.shape, -1e-322))[:2]:
        assert (tangent == 0).any() and not np.signbit(tangent[tangent == 0]).any()


def test_no_worlds_with_own_parameters() -> None:
    """Return gradients without a world where no world has parameters of its own."""
    sim = fb.Simulator(fb.models.cartpole())
    none = np.zeros((0, 2))
    params: dict[str, Any] = {"body_mass": np.zeros((0, sim.model.nbody))}
    roll = sim.rollout(none, none, np.zeros((5, 1)), params=params)
    assert roll.vjp(none).params["body_mass"].shape == (0, sim.model.nbody)
    assert sim.vjp(none, none, q_bar=none, params=params).q.shape == (0, 2)
