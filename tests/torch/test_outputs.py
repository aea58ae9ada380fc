"""Poses and dynamics of tensors: bit for bit what the NumPy interface returns, gradients too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed; install featherback[torch]")

import torch

import featherback as fb
import featherback.torch as fbt
from tests.golden.sentences import refused
from tests.torch.scenes import Scene, scene

# torch's own modules warn of their own functions
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
]

# name of the output -> names of its inputs
OUTPUTS = {
    "body_poses": ("q",),
    "site_poses": ("q",),
    "site_positions": ("q",),
    "center_of_mass": ("q",),
    "mass_centers": ("q",),
    "com_inertias": ("q",),
    "com_velocities": ("q", "v"),
    "mass_matrix": ("q",),
    "bias": ("q", "v"),
    "forward_dynamics": ("q", "v", "tau"),
    "inverse_dynamics": ("q", "v", "a"),
}


def arrays(case: Scene, job: str) -> list[np.ndarray]:
    """Return the inputs of an output."""
    return [case.q, case.v, case.v + 1][: len(OUTPUTS[job])]


def params(case: Scene, shared: bool) -> dict[str, np.ndarray]:
    """Return masses of each world, or of all, and places that all share."""
    mass = case.params["body_mass"]
    place = np.asarray(case.sim.params["body_pos"], case.sim.dtype)
    return {"body_mass": mass[0] if shared and mass.ndim == 2 else mass, "body_pos": place}


def as_tuple(x: Any) -> tuple[Any, ...]:
    """Return results as a tuple."""
    return x if isinstance(x, tuple) else (x,)


@pytest.mark.parametrize("job", OUTPUTS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("worlds", [None, 3])
@pytest.mark.parametrize("shared", [False, True])
def test_output_equals_numpy(job: str, dtype: str, worlds: int | None, shared: bool) -> None:
    """Return the numbers and gradients of the NumPy interface, bit for bit."""
    case = scene("laikago", dtype, worlds)
    given, named = arrays(case, job), params(case, shared)
    expected = as_tuple(getattr(case.sim, job)(*given, params=named))
    inputs = [torch.tensor(a, requires_grad=True) for a in given]
    leaves = {k: torch.tensor(a, requires_grad=True) for k, a in named.items()}
    found = as_tuple(getattr(fbt, job)(case.sim, *inputs, leaves))
    rng = np.random.default_rng(1)
    bars = [rng.normal(size=y.shape).astype(dtype) for y in expected]
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x.detach(), y)
    gradient = getattr(case.sim, f"{job}_vjp")(*given, *bars, params=named)
    torch.autograd.backward(found, [torch.tensor(bar) for bar in bars])
    for tensor, name in zip(inputs, OUTPUTS[job], strict=True):
        np.testing.assert_array_equal(tensor.grad, getattr(gradient, name))
    for name, tensor in leaves.items():
        np.testing.assert_array_equal(tensor.grad, gradient.params[name])


@pytest.mark.parametrize("job", OUTPUTS)
@pytest.mark.parametrize("worlds", [None, 2])
def test_gradcheck(job: str, worlds: int | None) -> None:
    """Pass gradcheck, batched over cotangents too."""
    case = scene("cartpole", worlds=worlds)
    base = torch.tensor(case.sim.params["body_mass"])

    def function(share: torch.Tensor, *inputs: torch.Tensor) -> Any:
        return getattr(fbt, job)(case.sim, *inputs, {"body_mass": share * base})

    inputs = [torch.tensor(a, requires_grad=True) for a in arrays(case, job)]
    share = torch.ones(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(function, (share, *inputs), check_batched_grad=True)


@pytest.mark.parametrize("job", OUTPUTS)
def test_transformations(job: str) -> None:
    """Work in torch.func and torch.compile; refuse forward mode and second derivatives."""
    case = scene("laikago", worlds=3)
    inputs = [torch.tensor(a) for a in arrays(case, job)]
    mass = torch.tensor(case.sim.params["body_mass"])

    def loss(mass: torch.Tensor, *inputs: torch.Tensor) -> torch.Tensor:
        found = as_tuple(getattr(fbt, job)(case.sim, *inputs, {"body_mass": mass}))
        return sum(y.square().sum() for y in found)

    leaf = mass.clone().requires_grad_()
    each = [
        torch.autograd.grad(loss(leaf, *(x[i] for x in inputs)), leaf, allow_unused=True)[0]
        for i in range(3)
    ]
    dims = (None, *(0 for _ in inputs))
    slopes = torch.vmap(torch.func.grad(loss), dims)(mass, *inputs)
    torch.testing.assert_close(slopes, torch.stack(each), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(torch.func.grad(loss)(mass, *inputs), slopes.sum(0))
    q = inputs[0][0].clone().requires_grad_()
    one = (mass, q, *(x[0] for x in inputs[1:]))
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    (found,) = torch.autograd.grad(compiled(*one), q)
    (expected,) = torch.autograd.grad(loss(*one), q)
    assert torch.equal(found, expected)
    torch._dynamo.reset()
    row = [x[0] for x in inputs]
    for ask in (
        lambda: torch.func.jvp(loss, (mass, *row), (mass, *row)),
        lambda: torch.func.jacrev(torch.func.grad(loss))(mass, *row),
        lambda: torch.func.hessian(loss)(mass, *row),
    ):
        refused(ask, fb.FeatherbackError, "featherback.torch", "outputs")


def test_places_along_a_trajectory() -> None:
    """Take all axes of a trajectory, and give its gradient to the controls."""
    case = scene("cartpole", worlds=2)
    u = torch.tensor(case.u, requires_grad=True)
    roll = fbt.rollout(case.sim, torch.tensor(case.q), torch.tensor(case.v), u)
    tip = fbt.site_positions(case.sim, roll.q)
    assert tip.shape == (2, 7, 1, 3)
    each = [case.sim.site_positions(q) for q in roll.q.detach().numpy()]
    np.testing.assert_array_equal(tip.detach(), np.stack(each))
    c = fbt.bias(case.sim, roll.q, roll.v)
    assert c.shape == (2, 7, 2)
    assert torch.autograd.gradcheck(
        lambda u: fbt.site_positions(
            case.sim, fbt.rollout(case.sim, torch.tensor(case.q), torch.tensor(case.v), u).q
        ),
        u,
    )


def test_sites_can_be_moved() -> None:
    """Have a gradient with respect to the places of sites, which no rollout has."""
    case = scene("cartpole")
    place = torch.tensor(case.sim.params["site_pos"], requires_grad=True)
    found = fbt.site_positions(case.sim, torch.tensor(case.q), {"site_pos": place})
    (bar,) = torch.autograd.grad(found[0, 2], place)
    np.testing.assert_allclose(bar[0, 2], np.cos(case.q[1]), rtol=1e-12)
