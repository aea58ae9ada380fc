"""The simulator as a module: its parameters, copies, and what it refuses."""

from __future__ import annotations

import copy

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed; install featherback[torch]")

import torch

import featherback as fb
import featherback.torch as fbt
from tests.torch.scenes import scene

WHERE = "featherback.torch.SimulatorLayer()"


def test_layer_equals_functions() -> None:
    """Return what `rollout`, `step` and `closed_loop` return with the same parameters."""
    case = scene("laikago")
    q, v, u = (torch.tensor(a) for a in (case.q, case.v, case.u))
    layer = fbt.SimulatorLayer(case.sim, ["body_mass", "dt"])
    params = {key: torch.tensor(case.sim.params[key]) for key in ("body_mass", "dt")}
    assert list(layer.state_dict()) == ["body_mass", "dt"]
    assert torch.equal(layer(q, v, u).q, fbt.rollout(case.sim, q, v, u, params).q)
    assert torch.equal(layer(q, v, steps=3).q, fbt.rollout(case.sim, q, v, None, params, steps=3).q)
    assert torch.equal(layer.step(q, v, u[0])[1], fbt.step(case.sim, q, v, u[0], params)[1])
    found = layer.closed_loop(lambda q, v, t: u[t], q, v, 3, memory="states")
    assert torch.equal(found.q, layer(q, v, u[:3]).q)


def test_parameters_are_learnt() -> None:
    """Find the mass of the cart and of the pole from a motion."""
    sim = fb.Simulator(fb.models.cartpole())
    q, v = torch.tensor([0.1, 0.4]).double(), torch.tensor([0.2, -0.1]).double()
    u = 5 * torch.sin(torch.arange(60.0).double())[:, None]
    true = torch.tensor([0.0, 1.3, 0.2]).double()
    seen = fbt.rollout(sim, q, v, u, {"body_mass": true}).q
    layer = fbt.SimulatorLayer(sim, ["body_mass"])
    optimiser = torch.optim.LBFGS(layer.parameters(), max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        value = 1e6 * (layer(q, v, u).q - seen).square().mean()
        value.backward()
        return value

    for _ in range(3):
        optimiser.step(loss)
    torch.testing.assert_close(layer.body_mass.detach(), true, atol=1e-5, rtol=0)


def test_worlds_have_their_own_parameters() -> None:
    """Take tensors by name, with a world axis too."""
    case = scene("cartpole", worlds=3)
    layer = fbt.SimulatorLayer(case.sim, {"body_mass": torch.tensor(case.params["body_mass"])})
    found = layer(torch.tensor(case.q), torch.tensor(case.v), torch.tensor(case.u))
    expected = case.sim.rollout(
        case.q, case.v, case.u, params={"body_mass": case.params["body_mass"]}
    )
    np.testing.assert_array_equal(found.q.detach(), expected.q)
    found.q.sum().backward()
    np.testing.assert_array_equal(
        layer.body_mass.grad, expected.vjp(np.ones_like(expected.q)).params["body_mass"]
    )


def test_copies_share_the_simulator() -> None:
    """Copy a layer inside of a network: its own parameters, the same simulator."""
    case = scene("cartpole")
    net = torch.nn.ModuleList([fbt.SimulatorLayer(case.sim, ["body_mass"]), torch.nn.Linear(2, 1)])
    other = copy.deepcopy(net)
    assert other[0].sim is case.sim
    with torch.no_grad():
        other[0].body_mass.mul_(2)
    assert torch.equal(2 * net[0].body_mass, other[0].body_mass)
    net.load_state_dict(other.state_dict())
    assert torch.equal(net[0].body_mass, other[0].body_mass)
    assert repr(net[0]).startswith('SimulatorLayer(Simulator("cartpole", dt=0.005')
