"""Tensors under MuJoCo's contact law: states and gradients of NumPy, bit for bit, and gradcheck."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed; install featherback[torch]")

import torch

import featherback as fb
import featherback.torch as fbt
from featherback.errors import ParameterError
from tests.core.ops_soft import scene_model

NAMES = ("geom_solref", "geom_solimp", "geom_friction", "body_mass")


def test_gradients_are_those_of_numpy() -> None:
    """Return states and gradients of a rollout bit for bit, those of solref and solimp too."""
    sim = fb.Simulator(fb.models.laikago(), contact="mujoco")
    q, v = (np.array(x) for x in sim.model.keyframe("stand"))
    q[2] -= 0.01
    u = np.tile(q[7:], (8, 1))
    params = {name: np.array(sim.params[name]) for name in NAMES}
    want = sim.rollout(q, v, u, params=params)
    rng = np.random.default_rng(3)
    bars = [rng.normal(size=x.shape) for x in (want.q, want.v)]
    gradient = want.vjp(*bars)
    tensors = [torch.tensor(x, requires_grad=True) for x in (q, v, u, *params.values())]
    found = fbt.rollout(sim, *tensors[:3], dict(zip(params, tensors[3:], strict=True)))
    assert np.array_equal(found.q.detach().numpy(), want.q)
    torch.autograd.backward([found.q, found.v], [torch.tensor(x) for x in bars])
    wanted = (gradient.q, gradient.v, gradient.u, *(gradient.params[name] for name in NAMES))
    for tensor, value in zip(tensors, wanted, strict=True):
        assert tensor.grad is not None and np.array_equal(tensor.grad.numpy(), value)
    assert np.abs(gradient.params["geom_solref"]).max() > 0


def test_gradcheck_of_contact_softness() -> None:
    """Agree with the differences of torch in state and softness of a ball that touches."""
    sim = fb.Simulator(fb.models.ball(), contact="mujoco")
    q, v = np.array(sim.model.q0), np.zeros(sim.model.nv)
    radius = sim.model.params["geom_size"].max()
    q[2], v[2] = 0.99 * radius, -0.3
    start = [torch.tensor(x, requires_grad=True) for x in (q, v, sim.params["geom_solref"])]

    def speed(q: torch.Tensor, v: torch.Tensor, solref: torch.Tensor) -> torch.Tensor:
        return fbt.rollout(sim, q, v, params={"geom_solref": solref}, steps=3).v[-1]

    assert torch.autograd.gradcheck(speed, start, eps=1e-7, atol=1e-5, rtol=1e-5)


def test_parameters_of_the_other_law_are_refused() -> None:
    """Refuse a parameter that has no effect, in calls and in a layer."""
    soft = fb.Simulator(fb.models.ball(), contact="mujoco")
    q, v = (torch.tensor(x) for x in (soft.model.q0, soft.model.v0))
    given = {"geom_restitution": torch.tensor(soft.model.params["geom_restitution"])}
    with pytest.raises(ParameterError, match='contact="hard" only'):
        fbt.step(soft, q, v, params=given)
    with pytest.raises(ParameterError, match='contact="mujoco" only'):
        fbt.SimulatorLayer(fb.Simulator(soft.model), ["geom_solref"])


@pytest.mark.parametrize("integrator", ["euler", "rk4"])
def test_warm_starts_are_carried(integrator: str) -> None:
    """Carry accelerations through a rollout, steps and closed loops, bit for bit as NumPy does."""
    sim = fb.Simulator(scene_model(), contact="mujoco", integrator=integrator, warmstart=1)
    rng, model = np.random.default_rng(4), sim.model
    q, v = np.array(model.q0), 0.1 * rng.normal(size=model.nv)
    u = 0.3 * rng.normal(size=(6, model.nu))
    want = sim.rollout(q, v, u)
    bars = [rng.normal(size=x.shape) for x in (want.q, want.v, want.act)]
    gradient = want.vjp(*bars)
    tensors = [torch.tensor(x, requires_grad=True) for x in (q, v, u)]
    found = fbt.rollout(sim, *tensors)
    assert np.array_equal(found.warm.numpy(), want.warm) and not found.warm.requires_grad
    ends = [found.q, found.v, found.act]
    torch.autograd.backward(ends, [torch.tensor(x) for x in bars])
    for tensor, value in zip(tensors, (gradient.q, gradient.v, gradient.u), strict=True):
        assert tensor.grad is not None and np.array_equal(tensor.grad.numpy(), value)
    state = [torch.tensor(x) for x in (q, v, model.act0, np.zeros(model.nv))]
    for control in torch.tensor(u):
        state = [*fbt.step(sim, *state[:2], control, act=state[2], warm=state[3])]
    for part, value in zip(state, (want.q, want.v, want.act, want.warm), strict=True):
        assert np.array_equal(part.numpy(), value[-1])
    controls = torch.tensor(u)
    for memory in ("states", "checkpoint", "graph"):
        start = torch.tensor(v, requires_grad=True)
        loop = fbt.closed_loop(
            sim, lambda *x: controls[x[-1]], torch.tensor(q), start, 6, memory=memory, segment=4
        )
        assert np.array_equal(loop.warm.numpy(), want.warm)
        ends = [loop.q, loop.v, loop.act]
        torch.autograd.backward(ends, [torch.tensor(x) for x in bars])
        assert start.grad is not None
        np.testing.assert_allclose(start.grad.numpy(), gradient.v, rtol=1e-12, atol=1e-12)


def test_warm_starts_in_transformations() -> None:
    """Differentiate, batch and curve a rollout that carries its starts; refuse what is not one."""
    sim = fb.Simulator(fb.models.ball(), contact="mujoco", warmstart=1)
    q, v = np.array(sim.model.q0), np.zeros(sim.model.nv)
    q[2], v[2] = 0.99 * sim.model.params["geom_size"].max(), -0.3
    x, y = torch.tensor(q), torch.tensor(v)
    cold = fb.Simulator(sim.model, contact="mujoco")

    def speed(own: fb.Simulator, v: torch.Tensor) -> torch.Tensor:
        return fbt.rollout(own, x, v, steps=4).v[-1]

    found, want = (torch.func.jacrev(lambda v, s=s: speed(s, v))(y) for s in (sim, cold))
    assert (found - want).abs().max() < 1e-8
    many = torch.func.vmap(lambda v: speed(sim, v))(torch.stack([y, 2 * y]))
    assert torch.equal(many[0], speed(sim, y))
    twice = torch.func.jacrev
    curved = [twice(twice(lambda v, s=s: speed(s, v)[2]))(y) for s in (sim, cold)]
    assert (curved[0] - curved[1]).abs().max() < 1e-6
    with pytest.raises(ParameterError, match="warm holds a NaN"):
        fbt.step(sim, x, y, warm=torch.full((6,), torch.nan, dtype=torch.float64))
    with pytest.raises(ParameterError, match="carries no warm start"):
        fbt.rollout(cold, x, y, steps=1, warm=torch.zeros(6, dtype=torch.float64))
