"""Step and rollout in JAX equal the Simulator's bit for bit, gradients included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import featherback as fb
from tests.jax.helpers import MODELS, draw, jax

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
    want = sim.rollout(q, v, u)
    for run in (fbj.rollout, jax.jit(fbj.rollout, static_argnums=0)):
        got = run(sim, q, v, u)
        for part in ("q", "v", "status", "status_step"):
            same(getattr(got, part), getattr(want, part))
    one = jax.jit(lambda q, v, u: fbj.rollout(sim, q, v, u))(q[0], v[0], u[0])
    same(one.q, want.q[0])
    for got, there in zip(fbj.step(sim, q, v, u[:, 0]), sim.step(q, v, u[:, 0]), strict=True):
        same(got, there)
    for got, there in zip(fbj.step(sim, q[0], v[0]), sim.step(q[0], v[0]), strict=True):
        same(got, there)


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
    want = sim.rollout(q, v, u, params=params)
    bars = [rng.normal(size=a.shape).astype(dtype) for a in (want.q, want.v)]
    gradient = want.vjp(*bars)

    def run(q: Any, v: Any, u: Any, params: Any) -> Any:
        return fbj.rollout(sim, q, v, u, params)[:2]

    out, back = jax.vjp(jax.jit(run), q, v, u, params)
    same(out[0], want.q)
    got = back(tuple(bars))
    for a, b in zip(got[:3], (gradient.q, gradient.v, gradient.u), strict=True):
        same(a, b)
    for key, value in gradient.params.items():
        same(got[3][key], value)


def test_gradient_of_a_step_equals_vjp() -> None:
    """Give the gradient of a rollout of one step, for one world and many."""
    model = MODELS["laikago"]()
    sim = fb.Simulator(model)
    q, v, u = draw(model, 3, 1)
    want = sim.rollout(q, v, u, params={"body_mass": sim.params["body_mass"]})
    rng = np.random.default_rng(2)
    bars = [rng.normal(size=a.shape) for a in (q, v)]
    gradient = want.vjp(*(np.stack([0 * x, x], axis=1) for x in bars))

    def run(q: Any, v: Any, u: Any, mass: Any) -> Any:
        return fbj.step(sim, q, v, u, {"body_mass": mass})

    _, back = jax.vjp(run, q, v, u[:, 0], sim.params["body_mass"])
    got = back(tuple(bars))
    there = (gradient.q, gradient.v, gradient.u[:, 0], gradient.params["body_mass"])
    for a, b in zip(got, there, strict=True):
        same(a, b)


@pytest.mark.parametrize("name", MODELS)
def test_jvp_equals_the_simulator(name: str) -> None:
    """Give the directional derivative of Simulator.jvp, step after step in a rollout."""
    model = MODELS[name]()
    sim = fb.Simulator(model)
    q, v, u = draw(model, 3, 4)
    rng = np.random.default_rng(3)
    dq, dv, du = (rng.normal(size=a.shape) for a in (q, v, u))
    mass = sim.params["body_mass"]
    dmass = rng.normal(size=mass.shape)

    def run(q: Any, v: Any, u: Any, mass: Any) -> Any:
        return fbj.rollout(sim, q, v, u, {"body_mass": mass})[:2]

    roll, dots = jax.jvp(jax.jit(run), (q, v, u, mass), (dq, dv, du, dmass))
    extra = {"params": {"body_mass": mass}, "dparams": {"body_mass": dmass}}
    for k in range(4):
        same(dots[0][:, k], dq)
        same(dots[1][:, k], dv)
        point = np.asarray(roll[0][:, k]), np.asarray(roll[1][:, k]), u[:, k]
        dq, dv = sim.jvp(*point, dq, dv, du[:, k], **extra)
    same(dots[0][:, 4], dq)
    same(dots[1][:, 4], dv)
    single = jax.jvp(lambda q, v, u: fbj.step(sim, q, v, u), (q, v, u[:, 0]), (q, v, u[:, 0]))[1]
    for a, b in zip(single, sim.jvp(q, v, u[:, 0], q, v, u[:, 0]), strict=True):
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
    shapes = [(5, nq), (5, nv), (), (), (nq,), (nv,), (nbody, 3), (nbody, 3, 3), (nv,), (3,)]
    assert [x.shape for x in jax.tree.leaves(found)] == [(0, *shape) for shape in shapes]
    slopes = every(jax.vmap(jax.grad(loss, argnums=(0, 1, 2, 3))))(*inputs)
    assert [x.shape for x in slopes] == [x.shape for x in inputs]
    shared = every(jax.grad(lambda m: jnp.sum(jax.vmap(loss, (0, 0, 0, None))(*inputs[:3], m))))
    same(shared(sim.params["body_mass"]), np.zeros(nbody))
    tangents = every(jax.vmap(jax.jacfwd(run, argnums=1)))(*inputs)
    assert jax.tree.leaves(tangents)[0].shape == (0, 5, nq, nv)
