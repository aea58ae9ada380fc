"""Second derivatives in JAX: all orders of modes against each other, differences and the core."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import featherback as fb
from tests.golden.sentences import refused
from tests.jax.helpers import MODELS, draw, draw_act, jax, tree_model

jnp: Any = jax.numpy
fbj = pytest.importorskip("featherback.jax")


def by_rollout(sim: fb.Simulator, x: Any) -> Any:
    """Return a loss on the states of a rollout."""
    roll = fbj.rollout(sim, x["q"], x["v"], x["u"], {"body_mass": x["mass"]})
    return jnp.sum(jnp.sin(roll.q)) + jnp.sum(roll.v[..., -1, :] ** 2)


def by_steps(sim: fb.Simulator, x: Any) -> Any:
    """Return a loss on the states of a scan of steps."""

    def body(state: Any, control: Any) -> Any:
        state = fbj.step(sim, *state, control, {"body_mass": x["mass"]})
        return state, state

    (_, v), (qs, _) = jax.lax.scan(body, (x["q"], x["v"]), jnp.moveaxis(x["u"], -2, 0))
    return jnp.sum(jnp.sin(x["q"])) + jnp.sum(jnp.sin(qs)) + jnp.sum(v**2)


@pytest.mark.parametrize("worlds", [None, 2])
@pytest.mark.parametrize("loss", [by_rollout, by_steps])
def test_hessians_agree(loss: Any, worlds: int | None) -> None:
    """Agree between all orders of forward and reverse mode, and with differences."""
    from jax.flatten_util import ravel_pytree

    sim = fb.Simulator(fb.models.pendulum(2), dt=0.02)
    lead = () if worlds is None else (worlds,)
    rng = np.random.default_rng(3)
    print("seed 3")
    shapes = {"q": (*lead, 2), "v": (*lead, 2), "u": (*lead, 3, 2)}
    x = {k: jnp.asarray(rng.normal(size=shape)) for k, shape in shapes.items()}
    x["mass"] = jnp.asarray(sim.params["body_mass"]) + 0.1
    flat, back = ravel_pytree(x)

    def run(z: Any) -> Any:
        return loss(sim, back(z))

    hessian = jax.jit(jax.hessian(run))(flat)
    size = np.abs(hessian).max()
    assert np.abs(hessian - hessian.T).max() < 1e-12 * size
    for other in (lambda f: jax.jacrev(jax.jacfwd(f)), lambda f: jax.jacrev(jax.jacrev(f))):
        assert np.abs(jax.jit(other(run))(flat) - hessian).max() < 1e-12 * size
    direction = rng.normal(size=flat.shape)
    gradient = jax.jit(jax.grad(run))
    _, along = jax.jit(lambda z, d: jax.jvp(jax.grad(run), (z,), (d,)))(flat, direction)
    assert np.abs(hessian @ direction - along).max() < 1e-12 * size
    difference = (gradient(flat + 1e-5 * direction) - gradient(flat - 1e-5 * direction)) / 2e-5
    assert np.abs(difference - along).max() < 1e-7 * np.abs(along).max()


def test_contact_and_ties_of_cotangents() -> None:
    """Agree with differences through contact, along a direction in states and cotangents."""
    model = tree_model()
    sim = fb.Simulator(model, tolerance=1e-13)
    q, v, u = (a[0] for a in draw(model, 1, 3))
    rng = np.random.default_rng(6)
    du = rng.normal(size=u.shape)

    def back(u: Any, bar: Any) -> Any:
        _, pull = jax.vjp(lambda u: fbj.rollout(sim, q, v, u).v, u)
        return pull(bar)[0]

    bar, bar_dot = rng.normal(size=(2, 4, model.nv))
    _, dot = jax.jit(lambda *x: jax.jvp(back, x[:2], x[2:]))(u, bar, du, bar_dot)
    h = 1e-6
    ahead, behind = (jax.jit(back)(u + s * h * du, bar + s * h * bar_dot) for s in (1, -1))
    difference = (ahead - behind) / (2 * h)
    assert np.abs(difference - dot).max() < 1e-6 * np.abs(dot).max()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["tree", "activation"])
def test_bits_of_the_simulator(name: str, dtype: Any) -> None:
    """Give the bits of Rollout.hessian_vector_product, parameters included."""
    model = MODELS[name]()
    sim = fb.Simulator(model, dtype=dtype)
    q, v, u = draw(model, 3, 4, dtype)
    act = draw_act(model, 3, dtype)
    rng = np.random.default_rng(8)
    mass = np.asarray(sim.params["body_mass"], dtype)
    want = sim.rollout(q, v, u, act=act, params={"body_mass": mass})

    def like(*arrays: Any) -> list[Any]:
        return [rng.normal(size=np.shape(a)).astype(dtype) for a in arrays]

    states = (want.q, want.v, want.act)
    dots, bars, bar_dots = like(q, v, act, u, mass), like(*states), like(*states)
    there = want.hessian_vector_product(
        *bars,
        direction=(dots[0], dots[1], dots[3]),
        dact=dots[2],
        dparams={"body_mass": dots[4]},
        q_bar_dot=bar_dots[0],
        v_bar_dot=bar_dots[1],
        act_bar_dot=bar_dots[2],
    )

    def back(point: Any, bars: Any) -> Any:
        def run(q: Any, v: Any, act: Any, u: Any, mass: Any) -> Any:
            got = fbj.rollout(sim, q, v, u, {"body_mass": mass}, act=act)
            return got.q, got.v, got.act

        return jax.vjp(run, *point)[1](tuple(bars))

    args = ((q, v, act, u, mass), bars)
    _, got = jax.jit(lambda *x: jax.jvp(back, x[:2], x[2:]))(*args, tuple(dots), bar_dots)
    expected = (there.q, there.v, there.act, there.u, there.params["body_mass"])
    for a, b in zip(got, expected, strict=True):
        assert a.dtype == b.dtype and np.array_equal(a, b)


def test_linear_in_cotangents() -> None:
    """Transpose and differentiate the second derivative as a function of the cotangents."""
    sim = fb.Simulator(fb.models.pendulum(2), dt=0.02)
    q = np.array([0.3, -0.4])
    dq, bar = np.array([0.5, 0.7]), np.array([[0.1, 0.2], [0.3, 0.4]])

    def curved(bar: Any) -> Any:
        def back(q: Any) -> Any:
            _, pull = jax.vjp(lambda q: fbj.rollout(sim, q, q, steps=1).v, q)
            return pull(bar)[0]

        return jax.jvp(back, (q,), (dq,))[1]

    assert np.allclose(jax.jvp(curved, (bar,), (bar,))[1], curved(bar), rtol=1e-12)
    transposed = jax.linear_transpose(curved, bar)
    refused(lambda: transposed(dq), NotImplementedError, "featherback.jax", "forward mode over")


def test_what_is_missing_is_refused() -> None:
    """Refuse forward mode over forward mode, and third derivatives, of rollouts too."""
    sim = fb.Simulator(fb.models.pendulum(2))
    q = np.ones(2)
    run = lambda q: fbj.rollout(sim, q, q, steps=2).q.sum()  # noqa: E731
    twice, thrice = jax.jacfwd(jax.jacfwd(run)), jax.jacrev(jax.jacrev(jax.jacrev(run)))
    refused(lambda: twice(q), NotImplementedError, "featherback.jax", "forward mode over")
    refused(lambda: thrice(q), NotImplementedError, "featherback.jax", "third derivatives")


def test_hessian_of_a_smooth_law() -> None:
    """Agree with differences of gradients where a ball slides on contacts that are smooth."""
    sim = fb.Simulator(fb.models.ball(), smoothing=0.05)
    q = jnp.asarray(sim.model.q0).at[2].set(0.1001)
    v = jnp.asarray([0.3, 0.1, -0.2, 0.1, 0.2, 0.3])

    def loss(v: Any) -> Any:
        roll = fbj.rollout(sim, q, v, steps=2)
        return jnp.sum(roll.v[-1] ** 2) + jnp.sum(jnp.sin(roll.q[-1]))

    hessian = np.asarray(jax.jit(jax.hessian(loss))(v))
    gradient = jax.jit(jax.grad(loss))
    differences = [(gradient(v + 1e-5 * e) - gradient(v - 1e-5 * e)) / 2e-5 for e in np.eye(6)]
    assert np.abs(hessian - np.array(differences)).max() < 1e-6 * np.abs(hessian).max()
