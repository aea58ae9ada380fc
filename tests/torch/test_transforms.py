"""The bridge under torch's transformations: gradcheck, torch.func, torch.compile, odd backwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed; install featherback[torch]")

import torch
from torch.autograd import forward_ad

import featherback as fb
import featherback.torch as fbt
from featherback.sim.bridge import bridge_of
from tests.golden.sentences import refused
from tests.torch.scenes import scene, simulator

# torch's own modules warn of their own functions
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
]

STEPS = 4
Function = Callable[..., tuple[torch.Tensor, torch.Tensor]]
KINDS = ["rollout", "step"]


def problem(
    name: str, kind: str, worlds: int | None = None, shared: bool = False
) -> tuple[Function, tuple[torch.Tensor, ...]]:
    """Return a function of (q, v, u, share of the masses), and a point."""
    case = scene(name, worlds=worlds)
    u = case.u[..., :STEPS, :] if kind == "rollout" else case.u[..., 0, :]
    base = torch.tensor(case.sim.params["body_mass"])
    share = np.random.default_rng(3).uniform(0.9, 1.1, case.params["body_mass"].shape)
    if shared and worlds is not None:
        u, share = u[0], share[0]
    call = fbt.rollout if kind == "rollout" else fbt.step

    def function(
        q: torch.Tensor, v: torch.Tensor, u: torch.Tensor, share: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return call(case.sim, q, v, u, {"body_mass": share * base})[:2]

    return function, tuple(torch.tensor(a) for a in (case.q, case.v, u, share))


def loss_of(function: Function) -> Callable[..., torch.Tensor]:
    """Return a number that depends on all states."""
    return lambda *x: sum(y.square().sum() + y.sum() for y in function(*x))


def leaves(point: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """Return copies of tensors that require gradients."""
    return tuple(x.clone().requires_grad_() for x in point)


def gradient(function: Function, point: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """Return the gradient of the loss by a plain backward pass."""
    inputs = leaves(point)
    return torch.autograd.grad(loss_of(function)(*inputs), inputs)


def close(found: Any, expected: Any, tolerance: float = 1e-9) -> None:
    """Assert equal numbers, up to the order of sums."""
    for x, y in zip(found, expected, strict=True):
        assert x.shape == y.shape
        assert (x - y).abs().max() <= tolerance * (1 + y.abs().max())


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    """Forget compiled code after each test."""
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("worlds", [None, 2])
@pytest.mark.parametrize("shared", [False, True])
def test_gradcheck(kind: str, worlds: int | None, shared: bool) -> None:
    """Pass gradcheck in both modes, batched over cotangents and tangents too."""
    function, point = problem("cartpole", kind, worlds, shared)
    assert torch.autograd.gradcheck(
        function,
        leaves(point),
        check_forward_ad=True,
        check_batched_grad=True,
        check_batched_forward_grad=True,
        check_undefined_grad=True,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_gradcheck_with_contact(kind: str) -> None:
    """Pass gradcheck on a robot that stands; its first step takes its quaternion as it is."""
    function, point = problem("laikago", kind)
    small = tuple(x for x in leaves(point)[1:])
    assert torch.autograd.gradcheck(
        lambda v, u, share: function(point[0], v, u, share), small, atol=1e-4, rtol=1e-4
    )


@pytest.mark.parametrize("name", ["cartpole", "laikago"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("worlds", [None, 2])
def test_func_grad_and_jacobians(name: str, kind: str, worlds: int | None) -> None:
    """Return from grad, jacrev, jacfwd, vjp and jvp of torch.func what backward returns."""
    function, point = problem(name, kind, worlds, shared=True)
    loss, all_of_them = loss_of(function), (0, 1, 2, 3)
    expected = gradient(function, point)
    for x, y in zip(torch.func.grad(loss, all_of_them)(*point), expected, strict=True):
        assert torch.equal(x, y)
    close(torch.func.jacrev(loss, all_of_them)(*point), expected)
    close(torch.func.jacfwd(loss, all_of_them)(*point), expected)
    value, pull = torch.func.vjp(loss, *point)
    close(pull(torch.ones_like(value)), expected)
    dots = tuple(torch.randn(x.shape, dtype=x.dtype, generator=generator()) for x in point)
    _, slope = torch.func.jvp(loss, point, dots)
    pairing = sum((x * y).sum() for x, y in zip(expected, dots, strict=True))
    close([slope], [pairing])


def generator(seed: int = 5) -> torch.Generator:
    """Return random numbers that are the same in each run."""
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("worlds", [None, 2])
def test_jacobians_agree(kind: str, worlds: int | None) -> None:
    """Return the same matrices from reverse mode, forward mode and autograd.functional."""
    function, point = problem("cartpole", kind, worlds, shared=True)
    back = torch.func.jacrev(function, (0, 1, 2, 3))(*point)
    ahead = torch.func.jacfwd(function, (0, 1, 2, 3))(*point)
    for strategy in ("reverse-mode", "forward-mode"):
        rows = torch.autograd.functional.jacobian(
            lambda *x: function(*x)[0], point, vectorize=True, strategy=strategy
        )
        close(rows, back[0])
    for x, y in zip(back, ahead, strict=True):
        close(x, y)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("worlds", [None, 2])
@pytest.mark.parametrize("dims", [(0, 0, 0, 0), (1, None, None, None), (None, 0, -1, None)])
@pytest.mark.parametrize("shared", [False, True])
def test_vmap(kind: str, worlds: int | None, dims: tuple[int | None, ...], shared: bool) -> None:
    """Return from vmap, and from vmap of grad, what a loop over the batch returns."""
    function, point = problem("cartpole", kind, worlds, shared)
    share = torch.tensor([0.98, 1.0, 1.01], dtype=torch.float64)
    batch = [
        x if d is None else torch.stack([x * s for s in share], d)
        for x, d in zip(point, dims, strict=True)
    ]
    rows = [
        tuple(x if d is None else x.select(d, i) for x, d in zip(batch, dims, strict=True))
        for i in range(3)
    ]
    found = torch.vmap(function, dims)(*batch)
    close(found, [torch.stack(y) for y in zip(*(function(*r) for r in rows), strict=True)], 1e-12)
    slopes = torch.vmap(torch.func.grad(loss_of(function), (0, 1, 2, 3)), dims)(*batch)
    each = [gradient(function, row) for row in rows]
    close(slopes, [torch.stack(y) for y in zip(*each, strict=True)])
    # the other way round: the gradient of a sum over the batch
    whole = torch.func.grad(lambda *x: torch.vmap(loss_of(function), dims)(*x).sum(), (0, 1, 2, 3))(
        *batch
    )
    sums = [y.sum(0) if d is None else y.movedim(0, d) for y, d in zip(slopes, dims, strict=True)]
    close(whole, sums)


def test_nested_vmap() -> None:
    """Fold two batches into the worlds."""
    function, (q, v, u, share) = problem("cartpole", "rollout")
    starts = q + torch.tensor([0.0, 0.1])[:, None]
    controls = torch.stack([u, 2 * u, 3 * u])
    found = torch.vmap(lambda q: torch.vmap(lambda u: function(q, v, u, share)[0])(controls))(
        starts
    )
    for i in range(2):
        for j in range(3):
            close([found[i, j]], [function(starts[i], v, controls[j], share)[0]], 1e-12)


def test_dual_tensors() -> None:
    """Push a dual tensor through a rollout outside of torch.func."""
    function, point = problem("laikago", "rollout")
    dot = torch.randn(point[2].shape, dtype=torch.float64, generator=generator())
    with forward_ad.dual_level():
        out = function(point[0], point[1], forward_ad.make_dual(point[2], dot), point[3])
        found = [forward_ad.unpack_dual(x).tangent for x in out]
    _, expected = torch.func.jvp(lambda u: function(*point[:2], u, point[3]), point[2:3], (dot,))
    close(found, expected, 1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("worlds", [None, 2])
def test_compile(kind: str, worlds: int | None) -> None:
    """Compile a loss without a break in its graph; value and gradient are those of eager torch."""
    function, point = problem("laikago", kind, worlds, shared=True)
    inputs = leaves(point)
    compiled = torch.compile(loss_of(function), fullgraph=True, backend="aot_eager")
    value = compiled(*inputs)
    assert torch.equal(value, loss_of(function)(*point))
    for x, y in zip(torch.autograd.grad(value, inputs), gradient(function, point), strict=True):
        assert torch.equal(x, y)


def test_compile_a_loop_with_a_network() -> None:
    """Compile five steps with a network between them, by the default backend."""
    sim = simulator("cartpole")
    torch.manual_seed(2)
    net = torch.nn.Linear(4, 1).double()

    def loss(q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        for _ in range(5):
            q, v = fbt.step(sim, q, v, torch.tanh(net(torch.cat([q, v], -1))))
        return q.square().sum() + v.square().sum()

    q = torch.full((3, 2), 0.1, dtype=torch.float64)
    expected = torch.autograd.grad(loss(q, q), net.parameters())
    found = torch.autograd.grad(torch.compile(loss, fullgraph=True)(q, q), net.parameters())
    close(found, expected, 1e-12)


def test_compiled_code_knows_its_simulator() -> None:
    """Compile again for another simulator, and for other numbers of worlds."""
    case = scene("cartpole")
    other = fb.Simulator(fb.models.cartpole(), dt=0.002)

    def function(sim: fb.Simulator, q: torch.Tensor) -> torch.Tensor:
        return fbt.rollout(sim, q, torch.zeros_like(q), steps=3).q

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    for sim in (case.sim, other):
        for worlds in (1, 2, 3, 4):
            q = torch.full((worlds, 2), 0.2, dtype=torch.float64)
            assert torch.equal(compiled(sim, q), function(sim, q))
    assert not torch.equal(compiled(case.sim, q), compiled(other, q))


def test_transformation_inside_of_compiled_code_is_refused() -> None:
    """Raise, and return no wrong gradient, for torch.func inside of torch.compile."""
    function, point = problem("cartpole", "rollout")
    compiled = torch.compile(torch.func.grad(loss_of(function)), backend="aot_eager")
    with pytest.raises(torch._dynamo.exc.TorchRuntimeError, match="functorch transforms"):
        compiled(*point)


def test_operators_are_described_rightly() -> None:
    """Agree with torch's own checker of operators on shapes, aliases and fake tensors."""
    from featherback.torch import ops

    case = scene("cartpole", worlds=2)
    q, v, u = (torch.tensor(a) for a in (case.q, case.v, case.u))
    x = torch.cat([q, v], -1)
    mass = torch.tensor(case.params["body_mass"])
    head = (bridge_of(case.sim).handle, ";body_mass", ops.ROLLOUT)
    tests = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    for state in ((q, v, None), (x, None, None)):
        torch.library.opcheck(ops.rollout, (*head, *state, u, None, mass), test_utils=tests)
    *parts, flags = ops.rollout(*head, q, v, None, u, None, mass)
    states = torch.cat(parts, -1)
    assert torch.equal(ops.rollout(*head, x, None, None, u, None, mass)[0], states)
    kept = (states, u, flags, None, mass)
    torch.library.opcheck(ops.rollout_vjp, (*head, *kept, states), test_utils=tests)
    torch.library.opcheck(
        ops.rollout_hvp,
        (*head, *kept, states, x, u, None, mass, states),
        test_utils=tests,
    )
    torch.library.opcheck(ops.rollout_jvp, (*head, *kept, x, u, None, mass), test_utils=tests)


@pytest.mark.parametrize("kind", KINDS)
def test_several_backwards_on_one_graph(kind: str) -> None:
    """Return the same gradient each time a kept graph is run backwards."""
    function, point = problem("laikago", kind)
    inputs = leaves(point)
    q, v = function(*inputs)
    first = torch.autograd.grad(q.sum(), inputs, retain_graph=True)
    torch.autograd.grad(v.sum(), inputs, retain_graph=True)
    second = torch.autograd.grad(q.sum(), inputs, retain_graph=True)
    for x, y in zip(first, second, strict=True):
        assert torch.equal(x, y)
    torch.autograd.grad(q.sum(), inputs)
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        torch.autograd.grad(q.sum(), inputs)


def test_backward_inside_of_a_backward() -> None:
    """Differentiate another rollout of the same simulator inside of a backward pass."""
    function, point = problem("cartpole", "rollout")
    expected = gradient(function, point)

    class Nested(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, bar: torch.Tensor) -> torch.Tensor:
            with torch.enable_grad():
                inner = gradient(function, point)
            return bar + 0 * inner[0].sum()

    inputs = leaves(point)
    value = loss_of(
        lambda q, *rest: tuple(Nested.apply(y) for y in function(Nested.apply(q), *rest))
    )
    for x, y in zip(torch.autograd.grad(value(*inputs), inputs), expected, strict=True):
        assert torch.equal(x, y)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("worlds", [None, 2])
@pytest.mark.parametrize("shared", [False, True])
def test_double_backward(kind: str, worlds: int | None, shared: bool) -> None:
    """Pass gradgradcheck, in reverse over reverse and, batched, forward over reverse."""
    function, point = problem("cartpole", kind, worlds, shared)
    assert torch.autograd.gradgradcheck(
        function, leaves(point), check_fwd_over_rev=True, check_batched_grad=True
    )
    assert torch.autograd.gradgradcheck(function, leaves(point), check_rev_over_rev=True)


@pytest.mark.parametrize("name", ["cartpole", "laikago"])
@pytest.mark.parametrize("kind", KINDS)
def test_hessians(name: str, kind: str) -> None:
    """Return the Hessian from every mix of modes that has a reverse in it, equal to differences."""
    function, point = problem(name, kind)
    loss = loss_of(function)

    def slope(v: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(loss, 1)(point[0], v, *point[2:])

    steps = 1e-5 * torch.eye(len(point[1]), dtype=torch.float64)
    expected = torch.stack([(slope(point[1] + d) - slope(point[1] - d)) / 2e-5 for d in steps])
    value = lambda v: loss(point[0], v, *point[2:])  # noqa: E731
    found = [
        torch.func.hessian(value)(point[1]),
        torch.func.jacrev(torch.func.jacrev(value))(point[1]),
        torch.func.jacrev(torch.func.jacfwd(value))(point[1]),
        torch.autograd.functional.hessian(value, point[1]),
    ]
    for hessian in found:
        close([hessian], [found[0]], 1e-9)
        close([hessian], [expected], 1e-6)
        close([hessian], [hessian.T], 1e-9)
    direction = torch.randn(point[1].shape, dtype=torch.float64, generator=generator())
    _, product = torch.autograd.functional.vhp(value, point[1], direction)
    _, along = torch.func.jvp(torch.func.grad(value), (point[1],), (direction,))
    close([product, along], [found[0] @ direction] * 2, 1e-9)


def test_gradient_of_a_gradient_reaches_all_inputs() -> None:
    """Agree with differences in a loss on a gradient, in every input."""
    function, point = problem("laikago", "rollout")
    loss = loss_of(function)

    def penalty(*x: torch.Tensor) -> torch.Tensor:
        return 1e-3 * torch.autograd.grad(loss(*x), x[2], create_graph=True)[0].square().sum()

    inputs = leaves(point)
    slopes = torch.autograd.grad(penalty(*inputs), inputs)
    for i, slope in enumerate(slopes):
        d = torch.randn(point[i].shape, dtype=torch.float64, generator=generator())
        if i == 0:
            d[3:7] = 0
        ends = []
        for sign in (1, -1):
            moved = [x.clone() for x in point]
            moved[i] += sign * 1e-6 * d
            ends.append(penalty(*leaves(tuple(moved))).detach())
        difference = (ends[0] - ends[1]) / 2e-6
        close([(slope * d).sum()], [difference], 1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_higher_derivatives_are_refused(kind: str) -> None:
    """Refuse what is not available with a sentence; never return zero."""
    function, point = problem("cartpole", kind)
    loss, inputs = loss_of(function), leaves(point)
    (first,) = torch.autograd.grad(loss(*inputs), inputs[0], create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), inputs[0], create_graph=True)
    asked: list[Callable[[], Any]] = [
        lambda: torch.autograd.grad(second.sum(), inputs[0]),
        lambda: torch.func.jacfwd(torch.func.jacfwd(loss))(*point),
        lambda: torch.func.jacfwd(torch.func.hessian(loss))(*point),
        lambda: torch.func.jacrev(torch.func.hessian(loss))(*point),
    ]
    for ask in asked:
        refused(ask, fb.FeatherbackError, "featherback.torch", "above the second order")


def test_gradcheck_of_a_smooth_law_to_second_order() -> None:
    """Pass torch's own check of first and second derivatives with contacts that are smooth."""
    sim = fb.Simulator(fb.models.ball(), smoothing=0.05)
    q = torch.tensor(sim.model.q0).clone()
    q[2] = 0.1001
    v = torch.tensor([0.3, 0.1, -0.2, 0.1, 0.2, 0.3], dtype=torch.float64)

    def function(v: torch.Tensor) -> torch.Tensor:
        return fbt.rollout(sim, q, v, steps=2)[1][-1]

    point = v.clone().requires_grad_()
    assert torch.autograd.gradcheck(function, (point,), atol=1e-6)
    assert torch.autograd.gradgradcheck(function, (point,), atol=1e-4, rtol=1e-4)
    exact = fbt.rollout(fb.Simulator(fb.models.ball()), q, v, steps=2)[1][-1]
    assert (function(v) - exact).abs().max() > 1e-6
