"""Arrays of JAX under MuJoCo's contact law: states and gradients of the Simulator, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import featherback as fb
from featherback.errors import ParameterError
from tests.core.ops_soft import scene_model
from tests.jax.helpers import draw, jax, laikago

jnp: Any = jax.numpy
fbj = pytest.importorskip("featherback.jax")

NAMES = ("geom_solref", "geom_solimp", "geom_friction", "body_mass")


def test_gradients_are_those_of_the_simulator() -> None:
    """Give states and gradients of a compiled rollout, those of solref and solimp too."""
    model = laikago()
    sim = fb.Simulator(model, contact="mujoco")
    q, v, u = draw(model, 3, 5)
    params = {name: np.array(sim.params[name]) for name in NAMES}
    want = sim.rollout(q, v, u, params=params)
    rng = np.random.default_rng(1)
    bars = [rng.normal(size=x.shape) for x in (want.q, want.v)]
    gradient = want.vjp(*bars)

    def run(q: Any, v: Any, u: Any, params: Any) -> Any:
        got = fbj.rollout(sim, q, v, u, params)
        return got.q, got.v

    out, back = jax.vjp(jax.jit(run), q, v, u, params)
    assert np.array_equal(out[0], want.q)
    *state, slopes = back(tuple(bars))
    for found, value in zip(state, (gradient.q, gradient.v, gradient.u), strict=True):
        assert np.array_equal(found, value)
    for name, value in gradient.params.items():
        assert np.array_equal(slopes[name], value)
    assert np.abs(gradient.params["geom_solref"]).max() > 0


def test_forward_mode_is_linearize() -> None:
    """Push a tangent through a step as the Jacobians of linearize do."""
    sim = fb.Simulator(laikago(), contact="mujoco")
    q, v, u = (x[0] for x in draw(sim.model, 2, 1))
    rng = np.random.default_rng(2)
    dv = rng.normal(size=sim.model.nv)
    A, _ = sim.linearize(q, v, u[0])
    _, moved = jax.jvp(lambda v: fbj.step(sim, q, v, u[0])[1], (v,), (dv,))
    wanted = A[sim.model.nv :, sim.model.nv :] @ dv
    assert np.abs(moved - wanted).max() < 1e-11 * np.abs(wanted).max()


def test_parameters_of_the_other_law_are_refused() -> None:
    """Refuse a parameter that has no effect, when a function is traced."""
    sim = fb.Simulator(laikago())
    model = sim.model
    with pytest.raises(ParameterError, match='contact="mujoco" only'):
        jax.jit(lambda x: fbj.step(sim, model.q0, model.v0, None, {"geom_solref": x}))(
            model.params["geom_solref"]
        )


@pytest.mark.parametrize("integrator", ["euler", "rk4"])
def test_warm_starts_are_carried(integrator: str) -> None:
    """Carry accelerations through a rollout and steps, bit for bit as the Simulator does."""
    sim = fb.Simulator(scene_model(), contact="mujoco", integrator=integrator, warmstart=1)
    rng, model = np.random.default_rng(4), sim.model
    q, v = np.array(model.q0), 0.1 * rng.normal(size=(3, model.nv))
    u = 0.3 * rng.normal(size=(3, 6, model.nu))
    want = sim.rollout(np.repeat(q[None], 3, 0), v, u)
    bars = tuple(rng.normal(size=x.shape) for x in (want.q, want.v, want.act))
    gradient = want.vjp(*bars)

    def run(v: Any, u: Any) -> Any:
        got = fbj.rollout(sim, q, v, u)
        return (got.q, got.v, got.act), got.warm

    out, back, carried = jax.vjp(jax.jit(run), v, u, has_aux=True)
    assert np.array_equal(out[1], want.v) and np.array_equal(carried, want.warm)
    for found, value in zip(back(bars), (gradient.v, gradient.u), strict=True):
        assert np.array_equal(found, value)

    def step(state: Any, control: Any) -> Any:
        q, v, act, warm = state
        return fbj.step(sim, q, v, control, act=act, warm=warm), None

    start = (q, v[1], np.array(model.act0), np.zeros(model.nv))
    last, _ = jax.lax.scan(step, jax.tree.map(jnp.asarray, start), u[1])
    for part, value in zip(last, (want.q, want.v, want.act, want.warm), strict=True):
        assert np.array_equal(part, value[1, -1])
    # nothing is differentiated by where a solve starts
    slope = jax.grad(lambda w: fbj.rollout(sim, q, v[0], u[0], warm=w).v[-1].sum())(v[0])
    assert not np.any(slope)
    slope = jax.grad(lambda v: fbj.rollout(sim, q, v, u[0]).warm.sum())(v[0])
    assert not np.any(slope)
    with pytest.raises(ParameterError, match="warm"):
        fbj.step(sim, q, v[0], warm=np.full(model.nv, np.nan))
    with pytest.raises(ParameterError, match="carries no warm start"):
        fbj.step(fb.Simulator(model, contact="mujoco"), q, v[0], warm=np.zeros(model.nv))
