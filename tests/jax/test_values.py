"""Step and rollout in JAX equal the Simulator's bit for bit, gradients included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import featherback as fb
from tests.jax.helpers import MODELS, draw, draw_act, jax

jnp: Any = jax.numpy
fbj = pytest.importorskip("featherback.jax")


def same(a: Any, b: Any) -> None:
    """Ask for equal bits and types."""
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype and a.shape == b.shape
    assert np.array_equal(a, b, equal_nan=True)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", MODELS)
def test_rollout_and_step_equal_the_simulator(name: str, dtype: Any) -> None:
    """Give the same states and statuses, compiled or not, one world or many."""
    model = MODELS[name]()
    sim = fb.Simulator(model, dtype=dtype)
    q, v, u = draw(model, 5, 20, dtype)
    act = draw_act(model, 5, dtype)
    want = sim.rollout(q, v, u, act=act)
    for run in (fbj.rollout, jax.jit(fbj.rollout, static_argnums=0)):
        got = run(sim, q, v, u, act=act)
        for part in ("q", "v", "act", "status", "status_step"):
            same(getattr(got, part), getattr(want, part))
    one = jax.jit(lambda *x: fbj.rollout(sim, *x[:3], act=x[3]))(q[0], v[0], u[0], act[0])
    same(one.q, want.q[0])
    same(one.act, want.act[0])
    for args, options in (
        ((q, v, u[:, 0]), {"act": act}),
        ((q, v, u[:, 0]), {}),
        ((q[0], v[0]), {}),
    ):
        got, there = fbj.step(sim, *args, **options), sim.step(*args, **options)
        assert len(got) == (3 if model.na else 2)
        for x, y in zip(got, there, strict=True):
            same(x, y)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", MODELS)
def test_gradient_equals_vjp(name: str, dtype: Any) -> None:
    """Give the gradient of Rollout.vjp with respect to states, controls and parameters."""
    model = MODELS[name]()
    sim = fb.Simulator(model, dtype=dtype)
    q, v, u = draw(model, 20, 10, dtype)
    rng = np.random.default_rng(1)
    shared = {"dt": sim.params["dt"] * 0.9, "body_mass": sim.params["body_mass"] * 1.1}
    armature = sim.params["dof_armature"] + rng.uniform(0.1, 0.2, (20, model.nv))
    params = {k: np.asarray(a, dtype) for k, a in {**shared, "dof_armature": armature}.items()}
    act = draw_act(model, 20, dtype)
    want = sim.rollout(q, v, u, act=act, params=params)
    bars = [rng.normal(size=a.shape).astype(dtype) for a in (want.q, want.v, want.act)]
    gradient = want.vjp(*bars)

    def run(q: Any, v: Any, act: Any, u: Any, params: Any) -> Any:
        got = fbj.rollout(sim, q, v, u, params, act=act)
        return got.q, got.v, got.act

    out, back = jax.vjp(jax.jit(run), q, v, act, u, params)
    same(out[0], want.q)
    *got, slopes = back(tuple(bars))
    for a, b in zip(got, (gradient.q, gradient.v, gradient.act, gradient.u), strict=True):
        same(a, b)
    for key, value in gradient.params.items():
        same(slopes[key], value)


@pytest.mark.parametrize("name", ["laikago", "activation"])
def test_gradient_of_a_step_equals_vjp(name: str) -> None:
    """Give the gradient of a rollout of one step."""
    model = MODELS[name]()
    sim = fb.Simulator(model)
    q, v, u = draw(model, 3, 1)
    act = draw_act(model, 3)
    want = sim.rollout(q, v, u, act=act, params={"body_mass": sim.params["body_mass"]})
    rng = np.random.default_rng(2)
    bars = [rng.normal(size=a.shape) for a in (q, v, act)]
    gradient = want.vjp(*(np.stack([0 * x, x], axis=1) for x in bars))

    def run(q: Any, v: Any, act: Any, u: Any, mass: Any) -> Any:
        return fbj.step(sim, q, v, u, {"body_mass": mass}, act=act)

    out, back = jax.vjp(run, q, v, act, u[:, 0], sim.params["body_mass"])
    got = back(tuple(bars[: len(out)]))
    there = (gradient.q, gradient.v, gradient.act, gradient.u[:, 0], gradient.params["body_mass"])
    for a, b in zip(got, there, strict=True):
        same(a, b)


@pytest.mark.parametrize("name", MODELS)
def test_jvp_equals_the_simulator(name: str) -> None:
    """Give the directional derivative of Simulator.jvp, step after step in a rollout."""
    model = MODELS[name]()
    sim = fb.Simulator(model)
    q, v, u = draw(model, 3, 4)
    state = (q, v, draw_act(model, 3))
    rng = np.random.default_rng(3)
    dots: Any = [rng.normal(size=a.shape) for a in state]
    du = rng.normal(size=u.shape)
    mass = sim.params["body_mass"]
    dmass = rng.normal(size=mass.shape)

    def run(state: Any, u: Any, mass: Any) -> Any:
        got = fbj.rollout(sim, *state[:2], u, {"body_mass": mass}, act=state[2])
        return got.q, got.v, got.act

    roll, along = jax.jvp(jax.jit(run), (state, u, mass), (tuple(dots), du, dmass))
    extra = {"params": {"body_mass": mass}, "dparams": {"body_mass": dmass}}
    for k in range(4):
        for a, b in zip(along, dots, strict=False):
            same(a[:, k], b)
        at = [np.asarray(x[:, k]) for x in roll]
        more = {"act": at[2], "dact": dots[2] if model.na else None, **extra}
        dots = sim.jvp(at[0], at[1], u[:, k], dots[0], dots[1], du[:, k], **more)
    for a, b in zip(along, dots, strict=False):
        same(a[:, 4], b)
    point, dot = (*state, u[:, 0]), (*state, u[:, 0])
    single = jax.jvp(lambda q, v, act, u: fbj.step(sim, q, v, u, act=act), point, dot)[1]
    own = {"act": state[2], "dact": state[2]}
    for a, b in zip(single, sim.jvp(q, v, u[:, 0], q, v, u[:, 0], **own), strict=True):
        same(a, b)


def test_shared_inputs_and_steps() -> None:
    """Share states and controls between worlds, hold one control, and fill in zeros."""
    model = MODELS["laikago"]()
    sim = fb.Simulator(model)
    q, v, u = draw(model, 3, 6)
    for args, options in (
        ((q, v, u[0]), {}),
        ((q[0], v[0], u), {}),
        ((q[0], v, u[0]), {}),
        ((q, v, u[0, 0]), {"steps": 4}),
        ((q, v), {"steps": 5}),
        ((q[0], v[0], u[0]), {"steps": 6}),
        ((q, v), {"steps": 0}),
    ):
        want = sim.rollout(*args, **options)
        got = fbj.rollout(sim, *args, **options)
        same(got.q, want.q)
        same(got.v, want.v)
    same(fbj.rollout(sim, list(q[0]), list(v[0]), steps=2).q, sim.rollout(q[0], v[0], steps=2).q)


def test_zero_worlds() -> None:
    """Take zero worlds forward and back; shared parameters get a zero gradient."""
    model = MODELS["laikago"]()
    sim = fb.Simulator(model)
    q, v, u = (a[:0] for a in draw(model, 1, 4))

    def loss(q: Any, v: Any, u: Any, mass: Any) -> Any:
        got = fbj.rollout(sim, q, v, u, {"body_mass": mass})
        q1, v1 = fbj.step(sim, q, v, u[:, 0], {"body_mass": mass})
        return jnp.sum(got.q) + jnp.sum(got.v) + jnp.sum(q1) + jnp.sum(v1)

    args = (q, v, u, sim.params["body_mass"])
    value, gradient = jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2, 3)))(*args)
    assert value == 0
    for a, b in zip(gradient, args, strict=True):
        same(a, np.zeros_like(b))
    assert jax.jacfwd(loss, argnums=3)(*args).shape == args[3].shape


@pytest.mark.parametrize("compiled", [False, True])
def test_batches_of_nothing(compiled: bool) -> None:
    """Map over no elements: empty results of the right shapes, derivatives too."""
    sim = fb.Simulator(MODELS["laikago"]())
    nq, nv, nu = sim.model.nq, sim.model.nv, sim.model.nu
    mass = jnp.zeros((0, sim.model.nbody))
    inputs = jnp.zeros((0, nq)), jnp.zeros((0, nv)), jnp.zeros((0, 4, nu)), mass

    def run(q: Any, v: Any, u: Any, mass: Any) -> Any:
        roll = fbj.rollout(sim, q, v, u, {"body_mass": mass})
        states = fbj.step(sim, q, v, u[0], {"body_mass": mass})
        poses = fbj.body_poses(sim, q, {"body_mass": mass})
        return roll, states, poses, fbj.bias(sim, q, v), fbj.center_of_mass(sim, q)

    def loss(*inputs: Any) -> Any:
        return sum(jnp.sum(x) for x in jax.tree.leaves(run(*inputs)) if x.dtype == q_type)

    q_type = inputs[0].dtype
    every = jax.jit if compiled else lambda f: f
    found = every(jax.vmap(run))(*inputs)
    nbody = sim.model.nbody
    shapes = [(5, nq), (5, nv), (), (), (5, 0), (5, 0), (nq,), (nv,)]
    shapes += [(nbody, 3), (nbody, 3, 3), (nv,), (3,)]
    assert [x.shape for x in jax.tree.leaves(found)] == [(0, *shape) for shape in shapes]
    slopes = every(jax.vmap(jax.grad(loss, argnums=(0, 1, 2, 3))))(*inputs)
    assert [x.shape for x in slopes] == [x.shape for x in inputs]
    shared = every(jax.grad(lambda m: jnp.sum(jax.vmap(loss, (0, 0, 0, None))(*inputs[:3], m))))
    same(shared(sim.params["body_mass"]), np.zeros(nbody))
    tangents = every(jax.vmap(jax.jacfwd(run, argnums=1)))(*inputs)
    assert jax.tree.leaves(tangents)[0].shape == (0, 5, nq, nv)
