"""Tensors under MuJoCo's contact law: states and gradients of NumPy, bit for bit, and gradcheck."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed; install featherback[torch]")

import torch

import featherback as fb
import featherback.torch as fbt
from featherback.errors import ParameterError

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
