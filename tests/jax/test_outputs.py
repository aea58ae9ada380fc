"""Outputs of a state in JAX: the Simulator's bits, gradients in both modes, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import featherback as fb
from tests.jax.helpers import draw, jax, laikago
from tests.jax.refusals import fails

jnp: Any = jax.numpy
fbj = pytest.importorskip("featherback.jax")

# output -> its inputs besides q, and the names of its cotangents
OUTPUTS: dict[str, tuple[int, int]] = {
    "body_poses": (0, 2),
    "site_positions": (0, 1),
    "site_poses": (0, 2),
    "center_of_mass": (0, 1),
    "mass_centers": (0, 1),
    "com_inertias": (0, 1),
    "com_velocities": (1, 1),
    "mass_matrix": (0, 1),
    "bias": (1, 1),
    "forward_dynamics": (2, 1),
    "inverse_dynamics": (2, 1),
}
PARAMS = ("body_mass", "body_ipos", "site_pos", "dof_armature")


def inputs(model: fb.Model, name: str, worlds: int, dtype: str) -> list[np.ndarray]:
    """Draw the inputs of an output."""
    q, v, _ = draw(model, worlds, 1, dtype)
    x = np.random.default_rng(9).normal(size=v.shape).astype(dtype)
    return [q, v, x][: 1 + OUTPUTS[name][0]]


def flat(out: Any) -> list[np.ndarray]:
    """Return one or two results as a list."""
    return [np.asarray(x) for x in (out if isinstance(out, tuple) else (out,))]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", OUTPUTS)
def test_values_and_gradients_have_the_simulators_bits(name: str, dtype: Any) -> None:
    """Give the value and the gradient of the Simulator, parameters shared and per world."""
    model = laikago()
    sim = fb.Simulator(model, dtype=dtype)
    args = inputs(model, name, 12, dtype)
    rng = np.random.default_rng(4)
    params = {k: np.asarray(sim.params[k], dtype) for k in PARAMS}
    params["dof_armature"] = rng.uniform(0.1, 0.2, (12, model.nv)).astype(dtype)
    want = flat(getattr(sim, name)(*args, params=params))
    bars = [rng.normal(size=x.shape).astype(dtype) for x in want]
    gradient = getattr(sim, f"{name}_vjp")(*args, *bars, params=params)
    there = [gradient.q, gradient.v, gradient.a if gradient.tau is None else gradient.tau]

    def run(args: Any, params: Any) -> Any:
        return getattr(fbj, name)(sim, *args, params)

    out, back = jax.vjp(jax.jit(run), args, params)
    for a, b in zip(flat(out), want, strict=True):
        assert a.dtype == b.dtype and np.array_equal(a, b)
    got, found = back(tuple(bars) if len(bars) > 1 else bars[0])
    for a, b in zip(got, there, strict=False):
        assert a.dtype == b.dtype and np.array_equal(a, b)
    for key, value in gradient.params.items():
        assert np.array_equal(found[key], value), key
    one = flat(getattr(fbj, name)(sim, *(a[3] for a in args)))
    for a, b in zip(one, flat(getattr(sim, name)(*(a[3] for a in args))), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("name", OUTPUTS)
def test_forward_mode_agrees_with_reverse_mode(name: str) -> None:
    """Agree between jacfwd and jacrev for every input and a parameter, mapped and not."""
    model = fb.models.cartpole()
    sim = fb.Simulator(model)
    args = inputs(model, name, 2, "float64")
    mass = sim.params["body_mass"]

    def run(args: Any, mass: Any) -> Any:
        out = getattr(fbj, name)(sim, *args, {"body_mass": mass})
        return [x.reshape(*x.shape[: np.ndim(args[0]) - 1], -1) for x in jax.tree.leaves(out)]

    @jax.jit
    def jacobians(args: Any, mass: Any) -> Any:
        one = [a[0] for a in args]
        forward = jax.jacfwd(run, (0, 1))(one, mass)
        mapped = jax.vmap(jax.jacfwd(run, (0, 1)), in_axes=(0, None))(args, mass)
        batched = jax.jacfwd(run, 1)(args, mass)
        return forward, jax.jacrev(run, (0, 1))(one, mass), mapped, batched

    forward, reverse, mapped, batched = jacobians(args, mass)
    pairs = list(zip(*map(jax.tree.leaves, (forward, reverse, mapped)), strict=True))
    pairs += [(x[1][0], y[0], x[1]) for x, y in zip(mapped, batched, strict=True)]
    assert any(np.any(a != 0) for a, _, _ in pairs)
    for a, b, many in pairs:
        assert np.allclose(a, b, rtol=1e-12, atol=1e-12)
        assert np.all(np.isfinite(many))


def test_gradient_agrees_with_differences() -> None:
    """Agree with central differences through a rollout and the positions of sites."""
    from jax.test_util import check_grads

    model = laikago()
    sim = fb.Simulator(model, tolerance=1e-13)
    q, v = model.keyframe("stand")
    u = q[7:] + 0.01 * np.random.default_rng(5).normal(size=(4, model.nu))
    assert sim.rollout(q, v, u).ok

    def loss(u: Any) -> Any:
        last = fbj.rollout(sim, q, v, u).q[-1]
        return jnp.sum(fbj.site_positions(sim, last) ** 2) + jnp.sum(fbj.center_of_mass(sim, last))

    check_grads(loss, (u,), order=1, modes=("fwd", "rev"), rtol=1e-4, atol=1e-6)


def test_zero_worlds_and_transposes() -> None:
    """Take zero worlds, and transpose the gradient as a function of its cotangent."""
    sim = fb.Simulator(fb.models.cartpole())
    none = np.zeros((0, 2))
    assert fbj.site_positions(sim, none).shape == (0, sim.model.nsite, 3)
    assert jax.grad(lambda q: fbj.body_poses(sim, q)[0].sum())(none).shape == (0, 2)
    assert jax.jacfwd(lambda m: fbj.bias(sim, none, none, {"body_mass": m}))(
        sim.params["body_mass"]
    ).shape == (0, 2, 3)
    q = np.array([[0.1, 0.2], [0.3, 0.4]])
    out, back = jax.vjp(lambda q: fbj.mass_matrix(sim, q), q)
    dot = jax.jvp(lambda q: fbj.mass_matrix(sim, q), (q,), (q + 1,))[1]
    again = jax.linear_transpose(back, out)((q + 1,))[0]
    assert np.allclose(again, dot, rtol=1e-13, atol=1e-13)


def test_traced_parameters_are_refused() -> None:
    """Refuse parameters without meaning that only the compiled function sees."""
    sim = fb.Simulator(fb.models.cartpole())
    moved = jax.jit(lambda m: fbj.bias(sim, np.zeros(2), np.zeros(2), {"body_mass": m}))
    told = fails(lambda: moved(-sim.params["body_mass"]))
    assert told.startswith("featherback.jax: ") and 'params["body_mass"]' in told
