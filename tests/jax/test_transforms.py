"""JAX's transformations of step and rollout, alone and in combination."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import featherback as fb
from tests.jax.helpers import activation_model, draw, draw_act, jax, laikago, tree_model

jnp: Any = jax.numpy
fbj = pytest.importorskip("featherback.jax")


def tree() -> tuple[fb.Simulator, tuple[np.ndarray, ...]]:
    """Return a simulator of the tree with four worlds of six steps."""
    model = tree_model()
    return fb.Simulator(model), draw(model, 4, 6)


def loss_of(sim: fb.Simulator) -> Any:
    """Return a loss of (q, v, u, mass) on all states."""

    def loss(q: Any, v: Any, u: Any, mass: Any) -> Any:
        got = fbj.rollout(sim, q, v, u, {"body_mass": mass})
        return jnp.sum(jnp.sin(got.q)) + jnp.sum(got.v**2)

    return loss


def close(a: Any, b: Any, tolerance: float = 1e-11) -> None:
    """Ask for agreement relative to the largest number."""
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape
    assert np.max(np.abs(a - b), initial=0) <= tolerance * np.max(np.abs(b), initial=1)


def test_vmap_is_a_batch() -> None:
    """Give the bits of the batched call under vmap, over any subset of the arguments."""
    sim, (q, v, u) = tree()
    mass = sim.params["body_mass"] * np.linspace(0.8, 1.2, 4)[:, None]

    def run(q: Any, v: Any, u: Any, mass: Any) -> Any:
        return fbj.rollout(sim, q, v, u, {"body_mass": mass})

    for axes in ((0, 0, 0, 0), (0, 0, 0, None), (None, 0, None, 0), (None, None, None, 0)):
        args = [x if a == 0 else x[0] for x, a in zip((q, v, u, mass), axes, strict=True)]
        got = jax.jit(jax.vmap(run, in_axes=axes))(*args)
        for w in range(4):
            one = [x[w] if a == 0 else x for x, a in zip(args, axes, strict=True)]
            want = sim.rollout(*one[:3], params={"body_mass": one[3]})
            assert np.array_equal(got.q[w], want.q) and np.array_equal(got.v[w], want.v)
            assert got.status[w] == want.status
    trailing = jax.vmap(lambda q, v: fbj.step(sim, q, v), in_axes=1, out_axes=1)(q.T, v.T)
    assert np.array_equal(trailing[0].T, sim.step(q, v)[0])


def test_vmap_over_batches() -> None:
    """Give the bits of single calls where a batched call is mapped again."""
    sim, (q, v, u) = tree()
    mass = sim.params["body_mass"] * np.linspace(0.8, 1.2, 3)[:, None]

    def run(scale: Any, mass: Any) -> Any:
        return fbj.rollout(sim, scale * q, v, u, {"body_mass": mass})

    scales = np.array([1.0, 0.9, 1.1])
    got = jax.vmap(run)(scales, mass)
    per_world = jax.vmap(lambda s, m: run(s, jnp.tile(m, (4, 1))))(scales, mass)
    for i in range(3):
        want = sim.rollout(scales[i] * q, v, u, params={"body_mass": mass[i]})
        assert np.array_equal(got.q[i], want.q)
        assert np.array_equal(per_world.q[i], want.q)


@pytest.mark.parametrize("argnum", range(4))
def test_jacobians_agree(argnum: int) -> None:
    """Agree between jacfwd, jacrev, compiled or not, for each argument."""
    sim, (q, v, u) = tree()
    args = (q[:2], v[:2], u[:2], sim.params["body_mass"])

    def run(*args: Any) -> Any:
        got = fbj.rollout(sim, *args[:3], {"body_mass": args[3]})
        return jnp.concatenate([got.q[:, -1], got.v[:, -1]], axis=-1)

    forward = jax.jit(jax.jacfwd(run, argnum))(*args)
    close(jax.jacrev(run, argnum)(*args), forward)
    close(jax.jit(jax.jacrev(run, argnum))(*args), forward)


def test_gradient_agrees_with_differences() -> None:
    """Agree with central differences of the loss, by JAX's own checker, both modes."""
    from jax.test_util import check_grads

    sim, (q, v, u) = tree()
    mass, loss = sim.params["body_mass"], loss_of(sim)

    def scaled(q: Any, v: Any, u: Any, logarithm: Any) -> Any:
        return loss(q, v, u, mass * jnp.exp(logarithm))

    args = (q[0], v[0], u[0], np.zeros(len(mass)))
    check_grads(scaled, args, order=1, modes=("fwd", "rev"), rtol=1e-6, atol=1e-6)


def test_vmap_of_grad_and_grad_of_vmap() -> None:
    """Give each world its gradient, and shared parameters the sum."""
    sim, (q, v, u) = tree()
    mass = sim.params["body_mass"]
    loss = loss_of(sim)
    want = [jax.grad(loss, argnums=(0, 1, 2, 3))(q[w], v[w], u[w], mass) for w in range(4)]
    mapped = jax.vmap(jax.grad(loss, argnums=(0, 1, 2, 3)), in_axes=(0, 0, 0, None))(q, v, u, mass)
    for i in range(4):
        assert np.array_equal(mapped[i], np.stack([np.asarray(g[i]) for g in want]))

    def total(q: Any, v: Any, u: Any, mass: Any) -> Any:
        return jnp.sum(jax.vmap(loss, in_axes=(0, 0, 0, None))(q, v, u, mass))

    whole = jax.jit(jax.grad(total, argnums=(0, 1, 2, 3)))(q, v, u, mass)
    for i in range(3):
        close(whole[i], mapped[i])
    close(whole[3], np.sum(mapped[3], axis=0))


def test_scan_of_steps_is_a_rollout() -> None:
    """Give the rollout's states, and its gradient, by a scan over steps."""
    model = laikago()
    sim = fb.Simulator(model)
    q, v, u = (a[0] for a in draw(model, 1, 20))
    goal = q + 0.1

    @jax.jit
    def by_scan(q: Any, v: Any, u: Any) -> Any:
        def body(state: Any, control: Any) -> Any:
            state = fbj.step(sim, *state, control)
            return state, state

        _, (qs, vs) = jax.lax.scan(body, (q, v), u)
        return jnp.sum((qs - goal) ** 2) + jnp.sum(vs**2), (qs, vs)

    def by_rollout(q: Any, v: Any, u: Any) -> Any:
        got = fbj.rollout(sim, q, v, u)
        return jnp.sum((got.q[1:] - goal) ** 2) + jnp.sum(got.v[1:] ** 2)

    gradient, (qs, vs) = jax.grad(by_scan, argnums=(0, 1, 2), has_aux=True)(q, v, u)
    want = sim.rollout(q, v, u)
    assert np.array_equal(qs, want.q[1:]) and np.array_equal(vs, want.v[1:])
    for a, b in zip(gradient, jax.grad(by_rollout, argnums=(0, 1, 2))(q, v, u), strict=True):
        close(a, b)


def test_checkpointed_scan_and_while_loop() -> None:
    """Differentiate a scan that recomputes its states, and step inside a while loop."""
    sim, (q, v, u) = tree()

    def total(u: Any, wrap: Any) -> Any:
        def body(state: Any, control: Any) -> Any:
            return fbj.step(sim, *state, control), None

        (q1, v1), _ = jax.lax.scan(wrap(body), (q[0], v[0]), u)
        return jnp.sum(q1**2) + jnp.sum(v1**2)

    kept = jax.grad(total)(u[0], lambda f: f)
    assert np.array_equal(jax.grad(total)(u[0], jax.checkpoint), kept)
    q6, _ = jax.lax.fori_loop(
        0, 6, lambda i, s: fbj.step(sim, *s), (jnp.array(q[0]), jnp.array(v[0]))
    )
    assert np.array_equal(q6, sim.rollout(q[0], v[0], steps=6).q[-1])


def test_activation_moves_with_the_state() -> None:
    """Carry activations through vmap, scan and gradients, and share them between worlds."""
    from jax.test_util import check_grads

    model = activation_model()
    sim = fb.Simulator(model)
    q, v, u = draw(model, 3, 5)
    act = draw_act(model, 3)
    want = sim.rollout(q, v, u, act=act)
    mapped = jax.jit(jax.vmap(lambda q, v, u, act: fbj.rollout(sim, q, v, u, act=act)))
    assert np.array_equal(mapped(q, v, u, act).act, want.act)
    shared = sim.rollout(q[0], v[0], u[0], act=act)
    assert np.array_equal(fbj.rollout(sim, q[0], v[0], u[0], act=act).act, shared.act)
    assert np.any(shared.act[0, -1] != shared.act[1, -1])

    def last(act: Any, u: Any) -> Any:
        def body(state: Any, control: Any) -> Any:
            q, v, act = state
            return fbj.step(sim, q, v, control, act=act), None

        return jax.lax.scan(body, (q[0], v[0], act), u)[0]

    for a, b in zip(jax.jit(last)(act[0], u[0]), (want.q, want.v, want.act), strict=True):
        assert np.array_equal(a, b[0, -1])

    def loss(act: Any, u: Any) -> Any:
        return sum(jnp.sum(jnp.sin(x)) for x in last(act, u))

    check_grads(loss, (act[0], u[0]), order=2, modes=("rev",), rtol=1e-6, atol=1e-6)
    assert np.any(jax.grad(loss)(act[0], u[0]) != 0)


def test_linear_maps_transpose_both_ways() -> None:
    """Transpose the gradient as a function of its cotangents into the directional derivative."""
    sim, (q, v, u) = tree()
    mass = sim.params["body_mass"]

    def run(q: Any, mass: Any) -> Any:
        return fbj.rollout(sim, q, v, u, {"body_mass": mass})[:2]

    out, back = jax.vjp(run, q, mass)
    rng = np.random.default_rng(0)
    dots = (rng.normal(size=q.shape), rng.normal(size=mass.shape))
    bars = tuple(rng.normal(size=x.shape) for x in out)
    forward = jax.jvp(run, (q, mass), dots)[1]
    twice = jax.linear_transpose(back, bars)(dots)[0]
    for a, b in zip(twice, forward, strict=True):
        close(a, b)
    _, along = jax.jvp(back, (bars,), (bars,))
    for a, b in zip(along, back(bars), strict=True):
        close(a, b)
    mapped = jax.vmap(back)(tuple(jnp.stack([x, 2 * x]) for x in bars))
    for a, b in zip(mapped, back(bars), strict=True):
        close(a[0], b)
        close(a[1], 2 * b)


def test_one_gradient_among_constants() -> None:
    """Differentiate with respect to one argument while the others are constants."""
    sim, (q, v, u) = tree()
    mass = sim.params["body_mass"]
    loss = loss_of(sim)
    want = jax.grad(loss, argnums=(0, 1, 2, 3))(q, v, u, mass)
    for i in range(4):
        assert np.array_equal(jax.grad(loss, argnums=i)(q, v, u, mass), want[i])
