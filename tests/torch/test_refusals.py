"""What the bridge refuses, with every sentence in full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed; install featherback[torch]")

import torch

import featherback as fb
import featherback.torch as fbt
from featherback.errors import ParameterError, ShapeError, WorldError
from tests.torch.scenes import simulator

SIM = simulator("cartpole")
ROLLOUT, STEP = "featherback.torch.rollout()", "featherback.torch.step()"
FINITE = "holds a NaN or infinity; give finite numbers."
SHAPES = 'expected (2,) or (worlds, 2) for model "cartpole".'
CONTROLS = 'expected (steps, 1), (worlds, steps, 1) or, with steps=, (1,) for model "cartpole".'
CPU = "the simulator computes on the CPU, so"


def zeros(*shape: int, **options: Any) -> torch.Tensor:
    """Return zeros in float64."""
    return torch.zeros(shape, dtype=torch.float64, **options)


def nan(*shape: int) -> torch.Tensor:
    """Return zeros with a NaN at the end."""
    x = zeros(*shape)
    x.view(-1)[-1] = float("nan")
    return x


def refusal(call: Callable[[], Any], kind: type[Exception]) -> str:
    """Return the message with which a call is refused."""
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize(
    ("q", "v", "u", "message"),
    [
        (zeros(3), zeros(2), zeros(5, 1), f"q has shape (3,); {SHAPES}"),
        (zeros(1, 1, 2), zeros(2), zeros(5, 1), f"q has shape (1, 1, 2); {SHAPES}"),
        (zeros(), zeros(2), zeros(5, 1), f"q has shape (); {SHAPES}"),
        (zeros(2), zeros(4, 3), zeros(5, 1), f"v has shape (4, 3); {SHAPES}"),
        (zeros(2), zeros(2), zeros(5, 2), f"u has shape (5, 2); {CONTROLS}"),
        (zeros(2), zeros(2), zeros(1), f"u has shape (1,); {CONTROLS}"),
        (zeros(2), zeros(2), None, "neither u nor steps is given; pass one of them."),
        (zeros(3, 2), zeros(4, 2), zeros(5, 1), "q has 3 worlds and v has 4; they must agree."),
        (zeros(3, 2), zeros(2), zeros(2, 5, 1), "q has 3 worlds and u has 2; they must agree."),
        (zeros(0, 2), zeros(0, 2), zeros(5, 1), "q has 0 worlds; give at least one."),
        (zeros(2), zeros(2), zeros(0, 5, 1), "u has 0 worlds; give at least one."),
        (
            np.zeros(2),
            zeros(2),
            zeros(5, 1),
            "q is of type ndarray; expected a torch.Tensor, such as "
            "torch.as_tensor(q, dtype=torch.float64).",
        ),
        (
            zeros(2),
            [0.0, 0.0],
            zeros(5, 1),
            "v is of type list; expected a torch.Tensor, such as "
            "torch.as_tensor(v, dtype=torch.float64).",
        ),
        (
            zeros(2).float(),
            zeros(2),
            zeros(5, 1),
            "q has dtype torch.float32; expected torch.float64: pass q.double() or build the "
            'Simulator with dtype="float32".',
        ),
        (
            zeros(2),
            zeros(2).long(),
            zeros(5, 1),
            "v has dtype torch.int64; expected torch.float64: pass v.double().",
        ),
        (
            zeros(2),
            zeros(2),
            zeros(5, 1).half(),
            "u has dtype torch.float16; expected torch.float64: pass u.double().",
        ),
        (
            zeros(2),
            zeros(2),
            zeros(5, 1, device="meta"),
            f'u is on device "meta"; {CPU} it has no numbers; pass a tensor with numbers.',
        ),
        (
            zeros(2).to_sparse(),
            zeros(2),
            zeros(5, 1),
            "q has layout torch.sparse_coo; expected a dense tensor: pass q.to_dense().",
        ),
    ],
)
def test_rollout_refuses_tensors(q: Any, v: Any, u: Any, message: str) -> None:
    """Refuse tensors of another shape, number type, device or layout."""
    assert refusal(lambda: fbt.rollout(SIM, q, v, u), ShapeError) == f"{ROLLOUT}: {message}"


def test_step_refuses_tensors() -> None:
    """Refuse in `step` what `rollout` refuses, under its own name."""
    for call, message in (
        (lambda: fbt.step(SIM, zeros(3), zeros(2)), f"q has shape (3,); {SHAPES}"),
        (
            lambda: fbt.step(SIM, zeros(2), zeros(2), zeros(2)),
            'u has shape (2,); expected (1,) or (worlds, 1) for model "cartpole".',
        ),
        (
            lambda: fbt.step(SIM, zeros(2), zeros(2), zeros(0, 1)),
            "u has 0 worlds; give at least one.",
        ),
        (
            lambda: fbt.step(SIM, "q", zeros(2)),
            "q is of type str; expected a torch.Tensor, such as "
            "torch.as_tensor(q, dtype=torch.float64).",
        ),
    ):
        assert refusal(call, ShapeError) == f"{STEP}: {message}"


class OnGpu(torch.Tensor):
    """A tensor that says it lies on a graphics card; this machine need not have one."""

    @property
    def is_cpu(self) -> bool:
        """Return that it does not lie in the memory of the processor."""
        return False

    @property
    def device(self) -> torch.device:
        """Return the card."""
        return torch.device("cuda", 0)


def test_cuda_tensors_are_refused() -> None:
    """Refuse tensors on a graphics card and say how to move them; never copy in silence."""
    q = zeros(2).as_subclass(OnGpu) if not torch.cuda.is_available() else zeros(2, device="cuda:0")
    message = refusal(lambda: fbt.rollout(SIM, q, zeros(2), zeros(5, 1)), ShapeError)
    assert message == (
        f'{ROLLOUT}: q is on device "cuda:0"; {CPU} pass q.cpu() and move the results back with '
        ".to(q.device)."
    )


@pytest.mark.parametrize("steps", [-1, 2.5, True, "3"])
def test_steps_must_be_a_whole_number(steps: Any) -> None:
    """Refuse numbers of steps that are none."""
    message = refusal(lambda: fbt.rollout(SIM, zeros(2), zeros(2), steps=steps), ShapeError)
    assert message == f"{ROLLOUT}: steps is {steps!r}; it must be an integer from 0 to 2147483647."


@pytest.mark.parametrize("u", [None, zeros(1)])
def test_steps_of_numpy_are_taken(u: Any) -> None:
    """Take a whole number of NumPy for steps."""
    steps: Any = np.int64(5)
    assert fbt.rollout(SIM, zeros(2), zeros(2), u, steps=steps).q.shape == (6, 2)


@pytest.mark.parametrize("u", [None, zeros(1)])
def test_rollouts_that_cannot_fit_are_refused(u: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse a rollout whose controls or states take more memory than is free."""
    monkeypatch.setattr("featherback.sim.memory.available", lambda: 10**6)
    free = r"1 MB of memory are free; take fewer steps or worlds\.$"
    told = rf"^featherback\.torch\.rollout\(\): the controls take 8 GB and {free}"
    with pytest.raises(MemoryError, match=told):
        fbt.rollout(SIM, zeros(2), zeros(2), u, steps=10**9)
    told = rf"^featherback\.torch\.rollout\(\): the states take 104 GB and {free}"
    ball = fb.Simulator(fb.models.ball())
    with pytest.raises(MemoryError, match=told):
        fbt.rollout(ball, zeros(7), zeros(6), steps=10**9)


def test_steps_must_fit_the_controls() -> None:
    """Refuse a number of steps that is not that of the controls."""
    call = lambda: fbt.rollout(SIM, zeros(2), zeros(2), zeros(5, 1), steps=4)  # noqa: E731
    assert refusal(call, ShapeError) == f"{ROLLOUT}: u has 5 steps and steps is 4."


def test_simulators_only() -> None:
    """Refuse what is not a simulator."""
    message = refusal(lambda: fbt.rollout(SIM.model, zeros(2), zeros(2), steps=1), ParameterError)
    assert message == f"{ROLLOUT}: sim is of type Model; pass a featherback.Simulator."


@pytest.mark.parametrize(
    ("params", "kind", "message"),
    [
        (
            [1.0],
            ParameterError,
            "params is of type list; it must be a dict from parameter names to tensors, such as "
            '{"body_mass": mass}.',
        ),
        (
            {"body_mas": zeros(3)},
            ParameterError,
            'unknown parameter "body_mas"; did you mean body_mass, body_pos, body_quat?',
        ),
        (
            {"site_pos": zeros(3)},
            ParameterError,
            'params["site_pos"] has no gradient: sites do not act on the motion; leave it out of '
            "the rollout's params, or pass it to the Simulator.",
        ),
        (
            {"body_mass": zeros(2)},
            ShapeError,
            'params["body_mass"] has shape (2,); expected (3,) or (4, 3).',
        ),
        (
            {"body_mass": zeros(3, 3)},
            ShapeError,
            'params["body_mass"] has shape (3, 3); expected (3,) or (4, 3).',
        ),
        (
            {"body_mass": np.zeros(3)},
            ShapeError,
            'params["body_mass"] is of type ndarray; expected a torch.Tensor, such as '
            'torch.as_tensor(params["body_mass"], dtype=torch.float64).',
        ),
        ({"body_mass": nan(3)}, ParameterError, f'params["body_mass"] {FINITE}'),
        (
            {"body_mass": zeros(3) - 1},
            ParameterError,
            'params["body_mass"] holds -1 kg; it must be >= 0.',
        ),
    ],
)
def test_parameters_are_refused(params: Any, kind: type[Exception], message: str) -> None:
    """Refuse parameters that are unknown, misshapen or without meaning."""
    call = lambda: fbt.rollout(SIM, zeros(4, 2), zeros(4, 2), zeros(5, 1), params)  # noqa: E731
    assert refusal(call, kind) == f"{ROLLOUT}: {message}"


def test_parameters_of_one_world_have_no_world_axis() -> None:
    """Name only the shape of the parameter where nothing has a world axis."""
    call = lambda: fbt.step(SIM, zeros(2), zeros(2), None, {"body_mass": zeros(4, 3)})  # noqa: E731
    message = refusal(call, ShapeError)
    assert message == f'{STEP}: params["body_mass"] has shape (4, 3); expected (3,).'


@pytest.mark.parametrize("name", ["q", "v", "u"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nonfinite_inputs_are_refused(name: str, value: float) -> None:
    """Refuse a NaN or infinity in an input, in one world or in one of many."""
    if name == "u" and value == float("inf"):
        # an infinite control is the limit of its actuator
        u = torch.full((1,), value, dtype=torch.float64)
        limit = SIM.model.mujoco.actuator_ctrlrange[0, 1]
        expected = SIM.step(np.zeros(2), np.zeros(2), np.array([limit]))
        np.testing.assert_array_equal(fbt.step(SIM, zeros(2), zeros(2), u)[1], expected[1])
        return
    for worlds in ((), (3,)):
        inputs = {"q": zeros(*worlds, 2), "v": zeros(*worlds, 2), "u": zeros(*worlds, 5, 1)}
        inputs[name].view(-1)[-1] = value
        message = refusal(lambda i=inputs: fbt.rollout(SIM, **i), ParameterError)
        assert message == f"{ROLLOUT}: {name} {FINITE}"
        single = {**inputs, "u": inputs["u"][..., -1, :]}
        message = refusal(lambda i=single: fbt.step(SIM, **i), ParameterError)
        assert message == f"{STEP}: {name} {FINITE}"


@pytest.mark.parametrize("name", ["q", "v"])
def test_nonfinite_derivatives_are_refused(name: str) -> None:
    """Refuse a backward pass that a NaN comes into, and say from where."""
    u = zeros(5, 1).requires_grad_()
    found = fbt.rollout(SIM, zeros(2), zeros(2), u)
    loss = (getattr(found, name) * float("nan")).sum()
    message = refusal(loss.backward, ParameterError)
    assert message == (
        f"{ROLLOUT}: the derivative of the loss with respect to the states {name} holds a NaN or "
        "infinity; look for one in what was computed from them."
    )


def test_gradients_that_overflow_are_refused() -> None:
    """Refuse a gradient that is not finite, as the Simulator does."""
    grew = (
        "the gradient of world 0 is not finite: it overflowed on the way back; take "
        "fewer steps, or see where it grows with diagnose()."
    )
    q, u = zeros(2).requires_grad_(), zeros(20, 1)
    found = fbt.rollout(SIM, q, zeros(2), u)
    loss = (found.q[-1] * 1e308).sum() + (found.v[-1] * 1e308).sum()
    assert refusal(loss.backward, WorldError) == f"{ROLLOUT}: {grew}"
    after = fbt.step(SIM, q, zeros(2), u[0])
    loss = (after[0] * 1e308).sum() + (after[1] * 1e308).sum()
    assert refusal(loss.backward, WorldError) == f"{STEP}: {grew}"


CHANGED = (
    "one of the variables needed for gradient computation has been modified by an inplace "
    "operation: [torch.DoubleTensor [{shape}]]{output} is at version 1; expected version 0 "
    "instead. Hint: enable anomaly detection to find the operation that failed to compute its "
    "gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False)."
)


@pytest.mark.parametrize("which", ["u", "states", "mass"])
def test_changes_between_forward_and_backward_are_refused(which: str) -> None:
    """Let torch refuse a backward pass after an input or a result was changed in place."""
    u = zeros(5, 1).requires_grad_()
    mass = torch.tensor(SIM.params["body_mass"])
    found = fbt.rollout(SIM, zeros(2), zeros(2), u, {"body_mass": mass})
    loss = found.q.square().sum()
    with torch.no_grad():
        {"u": u, "states": found.q, "mass": mass}[which].add_(1)
    if which == "mass":
        # parameters are copied into one tensor, so the gradient is that of the old ones
        loss.backward()
        roll = SIM.rollout(np.zeros(2), np.zeros(2), np.zeros((5, 1)))
        np.testing.assert_array_equal(u.grad, roll.vjp(2 * roll.q).u)
        return
    shape, output = {
        "u": ("5, 1", ""),
        "states": ("6, 2", ", which is output 0 of AsStrided,"),
    }[which]
    message = refusal(loss.backward, RuntimeError)
    assert message == CHANGED.format(shape=shape, output=output)


def test_changes_of_a_state_leave_the_gradient_of_its_step() -> None:
    """A step keeps a copy of its state, so the gradient is that of the old one."""
    start = torch.tensor([0.3, 0.1], dtype=torch.float64)
    q, u = start.clone(), zeros(1).requires_grad_()
    found = fbt.step(SIM, q, zeros(2), u)
    q.add_(1)
    (found[1].sum()).backward()
    exact = SIM.vjp(start.numpy(), np.zeros(2), np.zeros(1), v_bar=np.ones(2))
    np.testing.assert_array_equal(u.grad, exact.u)
