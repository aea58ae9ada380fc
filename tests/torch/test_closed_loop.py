"""Closed loops: three ways to keep the graph, one result, and what each of them refuses."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed; install featherback[torch]")

import torch

import featherback as fb
import featherback.torch as fbt
from featherback.errors import ParameterError
from tests.golden.sentences import refused
from tests.torch.scenes import scene, simulator

WHERE = "featherback.torch.closed_loop()"
MEMORY = ["graph", "states", "checkpoint"]
SIM = simulator("cartpole")
START = torch.tensor([0.1, 0.2], dtype=torch.float64)


class Policy(torch.nn.Module):
    """A small network of the state around a base control."""

    def __init__(self, sim: fb.Simulator, base: np.ndarray, seed: int = 0) -> None:
        """Draw the weights."""
        super().__init__()
        model = sim.model
        torch.manual_seed(seed)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(model.nq + model.nv, 8), torch.nn.Tanh(), torch.nn.Linear(8, model.nu)
        ).to(torch.float64 if sim.dtype == np.float64 else torch.float32)
        self.register_buffer("base", torch.tensor(base.astype(sim.dtype)))

    def forward(self, q: torch.Tensor, v: torch.Tensor, t: int) -> torch.Tensor:
        """Return the control; it depends on the step too."""
        return self.base + 0.3 * self.net(torch.cat([q, v], -1)) * (1 + 0.01 * t)


def loss_of(found: fbt.ClosedLoop) -> torch.Tensor:
    """Return a number that depends on all states and controls."""
    return found.q.square().sum() + found.v[..., -1, :].sum() + 0.1 * found.u.square().sum()


def close(found: Any, expected: Any, tolerance: float) -> None:
    """Assert equal numbers, up to the order of sums."""
    for x, y in zip(found, expected, strict=True):
        assert x.shape == y.shape
        assert (x - y).abs().max() <= tolerance * (1 + y.abs().max())


@pytest.mark.parametrize("name", ["cartpole", "laikago"])
@pytest.mark.parametrize("worlds", [None, 3])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("own", [False, True])
def test_ways_agree(name: str, worlds: int | None, dtype: str, own: bool) -> None:
    """Return the same states bit for bit, and the same gradients, whatever the graph keeps."""
    case = scene(name, dtype, worlds)
    policy = Policy(case.sim, case.u.reshape(-1, case.u.shape[-1])[0])
    mass = case.params["body_mass"]
    mass = mass if own or worlds is None else mass[0]
    results, slopes = [], []
    for memory in MEMORY:
        inputs = [torch.tensor(a, requires_grad=True) for a in (case.q, case.v, mass)]
        found = fbt.closed_loop(
            case.sim, policy, *inputs[:2], 12, {"body_mass": inputs[2]}, memory=memory, segment=5
        )
        results.append(found)
        slopes.append(torch.autograd.grad(loss_of(found), [*inputs, *policy.parameters()]))
    for found, slope in zip(results[1:], slopes[1:], strict=True):
        for x, y in zip(found, results[0], strict=True):
            assert torch.equal(x, y)
        close(slope, slopes[0], 1e-11 if dtype == "float64" else 1e-3)
    # and the states are those of the controls the policy gave
    roll = case.sim.rollout(
        case.q, case.v, results[1].u.detach().numpy(), params={"body_mass": mass}
    )
    np.testing.assert_array_equal(results[1].q.detach(), roll.q)
    np.testing.assert_array_equal(results[1].v.detach(), roll.v)


@pytest.mark.parametrize("memory", MEMORY)
def test_gradient_against_differences(memory: str) -> None:
    """Agree with differences in the weights, the start and a parameter."""
    policy = Policy(SIM, np.zeros(1))
    weight = policy.net[0].weight
    gravity = torch.tensor(SIM.params["gravity"])

    def loss(q: torch.Tensor, w: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        def act(q: torch.Tensor, v: torch.Tensor, t: int) -> torch.Tensor:
            return torch.func.functional_call(policy, {"net.0.weight": w}, (q, v, t))

        weights = [w, *(p for p in policy.parameters() if p is not weight)]
        found = fbt.closed_loop(
            SIM, act, q, 0 * q, 9, {"gravity": g}, memory=memory, weights=weights
        )
        return loss_of(found)

    inputs = [x.detach().clone().requires_grad_() for x in (START, weight, gravity)]
    assert torch.autograd.gradcheck(loss, inputs, atol=1e-6, rtol=1e-5)


class Kept:
    """A tensor that a graph keeps."""

    def __init__(self, x: torch.Tensor) -> None:
        """Hold it."""
        self.x = x


def saved_bytes(call: Callable[[], Any]) -> int:
    """Return the bytes of different memory that a graph keeps once a call is over."""
    kept: list[weakref.ref[Kept]] = []

    def pack(x: torch.Tensor) -> Kept:
        # detached, since a saved output would hold its own graph
        box = Kept(x.detach())
        kept.append(weakref.ref(box))
        return box

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda box: box.x):
        call()
    storages = [box.x.untyped_storage() for ref in kept if (box := ref()) is not None]
    return sum({s.data_ptr(): s.nbytes() for s in storages}.values())


def test_graph_keeps_states_and_controls_only() -> None:
    """Keep the states and controls and the weights, and nothing of the policy's own graph."""
    policy = Policy(SIM, np.zeros(1))
    found = []
    bytes_of = {
        memory: saved_bytes(
            lambda m=memory: found.append(fbt.closed_loop(SIM, policy, START, START, 100, memory=m))
        )
        for memory in ("states", "graph")
    }
    rollout = found[0]
    expected = [*rollout, *policy.parameters()]
    assert bytes_of["states"] == sum(x.numel() * x.element_size() for x in expected)
    assert bytes_of["graph"] > 3 * bytes_of["states"]


def test_several_backwards() -> None:
    """Run a kept graph twice."""
    policy = Policy(SIM, np.zeros(1))
    weights = list(policy.parameters())
    found = fbt.closed_loop(SIM, policy, START, START, 5)
    first = torch.autograd.grad(loss_of(found), weights, retain_graph=True)
    second = torch.autograd.grad(loss_of(found), weights, retain_graph=True)
    for x, y in zip(first, second, strict=True):
        assert torch.equal(x, y)


def test_controls_alone_have_a_gradient() -> None:
    """Differentiate a loss on the controls only, and one with weights that are not used."""
    policy = Policy(SIM, np.zeros(1))
    spare = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    slopes = []
    for memory in MEMORY:
        found = fbt.closed_loop(
            SIM, policy, START, START, 5, memory=memory, weights=[*policy.parameters(), spare]
        )
        slopes.append(torch.autograd.grad(found.u.sum(), list(policy.parameters())))
    for slope in slopes[1:]:
        close(slope, slopes[0], 1e-12)


@pytest.mark.parametrize("memory", MEMORY)
def test_fixed_controls_need_no_weights(memory: str) -> None:
    """Pass gradients through the steps where the policy has none."""
    q = START.clone().requires_grad_()
    found = fbt.closed_loop(
        SIM, lambda q, v, t: torch.full((1,), 0.5 + t).double(), q, START, 4, memory=memory
    )
    roll = SIM.rollout(START.numpy(), START.numpy(), found.u.detach().numpy())
    (bar,) = torch.autograd.grad(found.q.sum(), q)
    np.testing.assert_allclose(bar, roll.vjp(np.ones_like(roll.q)).q, rtol=1e-14)


def test_transformations_take_the_graph() -> None:
    """Work in torch.func and torch.compile with memory="graph"."""
    policy = Policy(SIM, np.zeros(1))

    def loss(q: torch.Tensor) -> torch.Tensor:
        return loss_of(fbt.closed_loop(SIM, policy, q, torch.zeros_like(q), 4, memory="graph"))

    q = START.clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss(q), q)
    assert torch.equal(torch.func.grad(loss)(START), expected)
    batch = torch.stack([START, 2 * START])
    close([torch.vmap(loss)(batch)[0]], [loss(START)], 1e-12)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_compiled_closed_loop() -> None:
    """Compile a closed loop of a few steps without a break in its graph."""
    policy = Policy(SIM, np.zeros(1))

    def loss(q: torch.Tensor) -> torch.Tensor:
        return loss_of(fbt.closed_loop(SIM, policy, q, torch.zeros_like(q), 4, memory="graph"))

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    weights = list(policy.parameters())
    found = torch.autograd.grad(compiled(START), weights)
    close(found, torch.autograd.grad(loss(START), weights), 1e-13)


def test_random_policies() -> None:
    """Refuse a policy that answers otherwise again; draw the same numbers with checkpoints."""
    policy = Policy(SIM, np.zeros(1))

    def noisy(q: torch.Tensor, v: torch.Tensor, t: int) -> torch.Tensor:
        return policy(q, v, t) + 0.1 * torch.randn(1, dtype=torch.float64)

    weights = list(policy.parameters())
    found = fbt.closed_loop(SIM, noisy, START, START, 6, weights=weights)
    refused(loss_of(found).backward, ParameterError, WHERE, "step 5", 'memory="states"')
    slopes = []
    for memory in ("graph", "checkpoint"):
        torch.manual_seed(4)
        found = fbt.closed_loop(SIM, noisy, START, START, 6, memory=memory, weights=weights)
        loss = loss_of(found)
        slopes.append(torch.autograd.grad(loss, weights))
    close(slopes[1], slopes[0], 1e-14)


@pytest.mark.parametrize("memory", MEMORY)
def test_each_step_asks_the_policy_once(memory: Any) -> None:
    """Ask a policy that counts or remembers once for each step of the forward pass."""
    gain = torch.full((1,), 0.5, dtype=torch.float64, requires_grad=True)
    asked: list[int] = []

    def policy(q: torch.Tensor, v: torch.Tensor, t: int) -> torch.Tensor:
        asked.append(t)
        return gain * q[:1] + 0.1 * len(asked)

    found = fbt.closed_loop(SIM, policy, START, START, 5, memory=memory, weights=[gain])
    assert asked == [0, 1, 2, 3, 4]
    expected = 0.5 * found.q[:-1, :1] + 0.1 * torch.arange(1, 6).double()[:, None]
    torch.testing.assert_close(found.u, expected, atol=1e-15, rtol=0)


@pytest.mark.parametrize("memory", MEMORY)
def test_steps_of_numpy_are_taken(memory: Any) -> None:
    """Take whole numbers of NumPy for steps and segment."""
    steps: Any = np.int64(5)
    segment: Any = np.int32(2)
    policy = Policy(SIM, np.zeros(1))
    found = fbt.closed_loop(SIM, policy, START, START, steps, memory=memory, segment=segment)
    expected = fbt.closed_loop(SIM, policy, START, START, 5, memory=memory, segment=2)
    assert torch.equal(found.q, expected.q)
    loss_of(found).backward()


def test_weights_that_are_not_named_are_refused() -> None:
    """Refuse a policy that would leave a tensor without its gradient."""
    gain = torch.full((1,), 0.5, dtype=torch.float64, requires_grad=True)
    for policy in (lambda q, v, t: gain * q[:1], lambda q, v, t: gain):
        call = lambda p=policy: fbt.closed_loop(SIM, p, START, START, 3)  # noqa: E731
        refused(call, ParameterError, WHERE, "weights=")
        slopes = []
        for options in ({"weights": [gain]}, {"memory": "graph"}):
            found = fbt.closed_loop(SIM, policy, START, START, 3, **options)
            slopes.append(torch.autograd.grad(found.q.sum(), gain))
        close(slopes[0], slopes[1], 1e-14)
    # a weight that was computed from others
    product = 2 * gain
    found = fbt.closed_loop(
        SIM, lambda q, v, t: product * q[:1], START, START, 3, weights=[product]
    )
    (bar,) = torch.autograd.grad(found.q.sum(), gain)
    found = fbt.closed_loop(SIM, lambda q, v, t: 2 * gain * q[:1], START, START, 3, memory="graph")
    close([bar], torch.autograd.grad(found.q.sum(), gain), 1e-14)


def test_changed_weights_are_refused() -> None:
    """Let torch refuse a backward pass after the weights were changed in place."""
    policy = Policy(SIM, np.zeros(1))
    found = fbt.closed_loop(SIM, policy, START, START, 3)
    with torch.no_grad():
        policy.net[2].bias.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss_of(found).backward()


@pytest.mark.parametrize("memory", MEMORY)
def test_worlds_that_go_wrong_are_told(memory: str) -> None:
    """Return the status of each world; refuse a gradient through a NaN, by world and step."""
    v = torch.stack([START, START])
    v[1] = 1e200
    policy = Policy(SIM, np.zeros(1))
    found = fbt.closed_loop(
        SIM,
        lambda q, v, t: policy(q, v.clamp(-1, 1), t),
        torch.stack([START] * 2),
        v,
        6,
        memory=memory,
        weights=policy.parameters(),
        segment=2,
    )
    roll = SIM.rollout(torch.stack([START] * 2).numpy(), v.numpy(), found.u.detach().numpy())
    np.testing.assert_array_equal(found.trajectory.status, roll.status)
    np.testing.assert_array_equal(found.trajectory.status_step, roll.status_step)
    assert not found.trajectory.ok
    with pytest.raises(fb.WorldError, match="world 1, first at step 0, NONFINITE"):
        found.q[0].sum().backward()
