"""What the bridge refuses: class and names at fault; and what it takes beside that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed; install featherback[torch]")

import torch

import featherback.torch as fbt
from featherback.errors import ParameterError
from tests.golden.sentences import Case, check, refused
from tests.torch.refusals import CASES, SIM, zeros


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_class_and_names(case: Case) -> None:
    """Raise the exception, and name where and what is at fault."""
    check(case)


@pytest.mark.parametrize("u", [None, zeros(1)])
def test_steps_of_numpy_are_taken(u: Any) -> None:
    """Take a whole number of NumPy for steps."""
    steps: Any = np.int64(5)
    assert fbt.rollout(SIM, zeros(2), zeros(2), u, steps=steps).q.shape == (6, 2)


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
        call = lambda i=inputs: fbt.rollout(SIM, **i)  # noqa: E731
        refused(call, ParameterError, "rollout()", f"{name} holds a NaN or infinity")
        single = {**inputs, "u": inputs["u"][..., -1, :]}
        call = lambda i=single: fbt.step(SIM, **i)  # noqa: E731
        refused(call, ParameterError, "step()", f"{name} holds a NaN or infinity")


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
    shape = {"u": "[5, 1]", "states": "[6, 2]"}[which]
    refused(loss.backward, RuntimeError, "modified by an inplace operation", shape)


def test_changes_of_a_state_are_refused() -> None:
    """Let torch refuse the backward pass of a step whose state was changed in place."""
    q, u = zeros(2), zeros(1).requires_grad_()
    found = fbt.step(SIM, q, zeros(2), u)
    q.add_(1)
    loss = found[1].sum()
    refused(loss.backward, RuntimeError, "modified by an inplace operation", "[2]")
