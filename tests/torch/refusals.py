"""Calls of featherback.torch that raise, each with its error and the names at fault."""

from __future__ import annotations

import importlib
import itertools
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed; install featherback[torch]")

import torch

import featherback as fb
import featherback.torch as fbt
from featherback.errors import FeatherbackError, ParameterError, ShapeError, WorldError
from tests.control.helpers import push
from tests.golden.sentences import Case, module_as, raises
from tests.torch.scenes import simulator

SIM = simulator("cartpole")
MEMORY = ("graph", "states", "checkpoint")


def zeros(*shape: int, **options: Any) -> torch.Tensor:
    """Return zeros in float64."""
    return torch.zeros(shape, dtype=torch.float64, **options)


def nan(*shape: int) -> torch.Tensor:
    """Return zeros with a NaN at the end."""
    x = zeros(*shape)
    x.view(-1)[-1] = float("nan")
    return x


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


Q, V, U = zeros(2), zeros(2), zeros(5, 1)
# q, v and u of a rollout, and what the sentence names
TENSORS: dict[str, tuple[Any, Any, Any, tuple[str, ...]]] = {
    "long q": (zeros(3), V, U, ("q", "(3,)", "(2,)")),
    "q of three axes": (zeros(1, 1, 2), V, U, ("q", "(1, 1, 2)")),
    "a number for q": (zeros(), V, U, ("q", "()")),
    "long v of worlds": (Q, zeros(4, 3), U, ("v", "(4, 3)")),
    "wide u": (Q, V, zeros(5, 2), ("u", "(5, 2)", "(steps, 1)")),
    "one control without steps": (Q, V, zeros(1), ("u", "(1,)", "steps=")),
    "neither u nor steps": (Q, V, None, ("u", "steps")),
    "worlds of q and v": (zeros(3, 2), zeros(4, 2), U, ("q", "3", "v", "4")),
    "worlds of q and u": (zeros(3, 2), V, zeros(2, 5, 1), ("q", "3", "u", "2")),
    "no worlds": (zeros(0, 2), zeros(0, 2), U, ("q", "0 worlds")),
    "no worlds of u": (Q, V, zeros(0, 5, 1), ("u", "0 worlds")),
    "an array": (np.zeros(2), V, U, ("q", "ndarray", "torch.as_tensor(q")),
    "a list": (Q, [0.0, 0.0], U, ("v", "list")),
    "float32": (zeros(2).float(), V, U, ("q", "torch.float32", "q.double()", "Simulator")),
    "integers": (Q, zeros(2).long(), U, ("v", "torch.int64", "v.double()")),
    "half precision": (Q, V, U.half(), ("u", "torch.float16")),
    "the meta device": (Q, V, zeros(5, 1, device="meta"), ("u", "meta")),
    "a graphics card": (zeros(2).as_subclass(OnGpu), V, U, ("q", "cuda:0", "q.cpu()")),
    "a sparse tensor": (zeros(2).to_sparse(), V, U, ("q", "sparse", "q.to_dense()")),
}
PARAMS: dict[str, tuple[Any, type[Exception], tuple[str, ...]]] = {
    "a list": ([1.0], ParameterError, ("params", "list")),
    "an unknown name": ({"body_mas": zeros(3)}, ParameterError, ("body_mas", "body_mass")),
    "no gradient": (
        {"dof_invweight0": zeros(2)},
        ParameterError,
        ('params["dof_invweight0"]', "gradient"),
    ),
    "short": ({"body_mass": zeros(2)}, ShapeError, ('params["body_mass"]', "(2,)", "(4, 3)")),
    "worlds": ({"body_mass": zeros(3, 3)}, ShapeError, ('params["body_mass"]', "(3, 3)")),
    "an array": ({"body_mass": np.zeros(3)}, ShapeError, ('params["body_mass"]', "ndarray")),
    "a NaN": ({"body_mass": nan(3)}, ParameterError, ('params["body_mass"]', "NaN")),
    "below zero": ({"body_mass": zeros(3) - 1}, ParameterError, ('params["body_mass"]', "-1 kg")),
}


def _rollout(name: str, error: type[Exception], call: Callable[[], Any], *names: str) -> Case:
    """Return the case of a call of `rollout`."""
    return raises(f"rollout, {name}", error, call, "featherback.torch.rollout()", *names)


def _without_memory(call: Callable[[], Any]) -> None:
    """Run a call where one megabyte is free."""
    with mock.patch("featherback.sim.memory.available", lambda: 10**6):
        call()


def _rollouts() -> Iterator[Case]:
    """Tensors, steps and parameters of a rollout."""
    for name, (q, v, u, names) in TENSORS.items():
        yield _rollout(name, ShapeError, partial(fbt.rollout, SIM, q, v, u), *names)
    for steps in (-1, 2.5, True, "3"):
        call = partial(fbt.rollout, SIM, Q, V, steps=steps)
        yield _rollout(f"steps={steps!r}", ShapeError, call, "steps", repr(steps))
    call = partial(fbt.rollout, SIM, Q, V, U, steps=4)
    yield _rollout("two numbers of steps", ShapeError, call, "u", "5", "4")
    call = partial(fbt.rollout, SIM.model, Q, V, steps=1)
    yield _rollout("a model for sim", ParameterError, call, "sim", "Model")
    for name, (params, error, names) in PARAMS.items():
        call = partial(fbt.rollout, SIM, zeros(4, 2), zeros(4, 2), U, params)
        yield _rollout(f"params: {name}", error, call, *names)
    ball = fb.Simulator(fb.models.ball())
    for name, sim, sizes, u, need in (
        ("controls", SIM, (2, 2), None, "8 GB"),
        ("held controls", SIM, (2, 2), zeros(1), "8 GB"),
        ("states", ball, (7, 6), None, "104 GB"),
    ):
        call = partial(fbt.rollout, sim, *map(zeros, sizes), u, steps=10**9)
        what = name.removeprefix("held ")
        yield _rollout(f"too many {name}", MemoryError, partial(_without_memory, call), what, need)


def _steps() -> Iterator[Case]:
    """What a step refuses under its own name."""
    for name, arguments, names in (
        ("long q", (zeros(3), V), ("q", "(3,)")),
        ("long u", (Q, V, zeros(2)), ("u", "(2,)", "(1,)")),
        ("no worlds of u", (Q, V, zeros(0, 1)), ("u", "0 worlds")),
        ("controls of many worlds", (Q, V, zeros(10, 1)), ("u", "(10, 1)", "rollout()")),
        ("a text", ("q", V), ("q", "str")),
        ("worlds of a parameter", (Q, V, None, {"body_mass": zeros(4, 3)}), ("body_mass", "(3,)")),
    ):
        call = partial(fbt.step, SIM, *arguments)
        yield raises(f"step, {name}", ShapeError, call, "featherback.torch.step()", *names)
    filtered = push().sim
    call = partial(fbt.step, filtered, np.zeros(1), np.zeros(1))
    names = ("featherback.torch.step()", "q", "ndarray", "torch.as_tensor(q")
    yield raises("step, an array where there are activations", ShapeError, call, *names)
    loop = partial(fbt.closed_loop, filtered, lambda q, v, act, t: zeros(2), zeros(1), zeros(1), 3)
    names = ("policy(q, v, act, t)", "(2,)", "(1,)")
    yield raises("closed_loop, a long answer with activations", ShapeError, loop, *names)


def _values() -> Iterator[Case]:
    """Inputs and derivatives that are not finite."""
    for name, inputs in (("q", (nan(2), V, U)), ("v", (Q, nan(2), U)), ("u", (Q, V, nan(5, 1)))):
        call = partial(fbt.rollout, SIM, *inputs)
        yield _rollout(f"NaN in {name}", ParameterError, call, f"{name} holds", "NaN")
        call = partial(fbt.step, SIM, *inputs[:2], inputs[2][-1])
        where = "featherback.torch.step()"
        yield raises(f"step, NaN in {name}", ParameterError, call, where, f"{name} holds", "NaN")

    def nan_loss(name: str) -> None:
        found = fbt.rollout(SIM, Q, V, zeros(5, 1).requires_grad_())
        (getattr(found, name) * float("nan")).sum().backward()

    for name in ("q", "v"):
        call = partial(nan_loss, name)
        yield _rollout(f"NaN in the loss of {name}", ParameterError, call, f"states {name}", "NaN")

    def overflow(single: bool) -> None:
        q = zeros(2).requires_grad_()
        found = fbt.step(SIM, q, V, U[0]) if single else fbt.rollout(SIM, q, V, zeros(20, 1))
        ((found[0] * 1e308).sum() + (found[1] * 1e308).sum()).backward()

    names = ("gradient", "world 0")
    yield _rollout("a gradient that overflows", WorldError, lambda: overflow(False), *names)
    where = "featherback.torch.step()"
    call = partial(overflow, True)
    yield raises("step, a gradient that overflows", WorldError, call, where, *names)


def _derive(transform: Callable[..., Any], function: Callable[..., Any]) -> None:
    """Ask for a derivative of a sum; torch's own modules warn of their own functions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        transform(lambda q: function(q).sum())(Q)


def _outputs() -> Iterator[Case]:
    """Tensors of outputs, and derivatives that are not there."""
    for name, call, names in (
        ("site_positions", lambda: fbt.site_positions(SIM, Q[:1]), ("q", "(1,)")),
        ("bias", lambda: fbt.bias(SIM, Q.expand(3, 2), V.expand(2, 2)), ("q", "3", "v", "2")),
        ("mass_matrix", lambda: fbt.mass_matrix(SIM, Q.float()), ("q", "torch.float32")),
        ("center_of_mass", lambda: fbt.center_of_mass(SIM, Q.to("meta")), ("q", "meta")),
    ):
        yield raises(f"{name}, q", ShapeError, call, f"featherback.torch.{name}()", *names)
    second = partial(_derive, torch.func.hessian, partial(fbt.mass_matrix, SIM))
    yield raises("outputs, second derivative", FeatherbackError, second, "outputs", "second")
    transform = lambda f: torch.func.jacrev(torch.func.hessian(f))  # noqa: E731
    third = partial(_derive, transform, lambda q: fbt.step(SIM, q, V)[0])
    yield raises("step, third derivative", FeatherbackError, third, "above the second order")


def _layers() -> Iterator[Case]:
    """Parameters of a layer."""
    for name, params, error, names in (
        ("a number", 3, ParameterError, ("params", "int")),
        ("a number as a name", [3], ParameterError, ('"3"', "body_mass")),
        ("a text", "body_mass", ParameterError, ("params", "text", "body_mass")),
        ("an unknown name", ["body_mas"], ParameterError, ("body_mas", "body_mass")),
        ("no gradient", ["dof_invweight0"], ParameterError, ("dof_invweight0", "gradient")),
        ("float32", {"body_mass": torch.zeros(3)}, ShapeError, ("body_mass", "torch.float32")),
    ):
        call = partial(fbt.SimulatorLayer, SIM, params)
        where = "featherback.torch.SimulatorLayer()"
        yield raises(f"SimulatorLayer, {name}", error, call, where, *names)
    call = partial(fbt.SimulatorLayer, SIM.model)
    yield raises("SimulatorLayer, a model", ParameterError, call, where, "sim", "Model")


def still(q: torch.Tensor, v: torch.Tensor, t: int) -> torch.Tensor:
    """Return a control that depends on nothing but the state."""
    return 0 * q[:1]


GAIN = torch.full((1,), 0.5, dtype=torch.float64, requires_grad=True)
POLICIES: dict[str, tuple[Any, dict[str, Any], type[Exception], tuple[str, ...]]] = {
    "no policy": (3, {}, ParameterError, ("policy", "int")),
    "no steps": (still, {"steps": 0}, ParameterError, ("steps", "0")),
    "half a segment": (still, {"segment": 1.5}, ParameterError, ("segment", "1.5")),
    "unknown memory": (still, {"memory": "none"}, ParameterError, ("memory", "none", "graph")),
    "a long answer": (lambda q, v, t: q, {}, ShapeError, ("policy(q, v, t)", "(2,)", "(1,)")),
    "an answer in float32": (lambda q, v, t: q[:1].float(), {}, ShapeError, ("torch.float32",)),
    "a number as answer": (lambda q, v, t: 0.5, {}, ShapeError, ("policy(q, v, t)", "float")),
    "weights: a number": (still, {"weights": 3}, ParameterError, ("weights", "int")),
    "weights: a tensor": (still, {"weights": Q}, ParameterError, ("weights", "Tensor")),
    "weights: a list": (still, {"weights": [Q, 3]}, ParameterError, ("weights[1]", "int")),
    "unnamed weights": (lambda q, v, t: GAIN * q[:1], {}, ParameterError, ("weights=", "(1,)")),
    "an unnamed weight": (lambda q, v, t: GAIN, {}, ParameterError, ("weights=", "(1,)")),
}


def _asked_again(memory: str) -> None:
    """Differentiate a loop whose policy counts how often it is asked."""
    count = itertools.count()
    start = zeros(2).requires_grad_()
    found = fbt.closed_loop(
        SIM, lambda q, v, t: 0 * q[:1] + next(count), start, V, 6, memory=memory, segment=6
    )
    found.u.sum().backward()


def _loops() -> Iterator[Case]:
    """Options of a closed loop, and policies that do not fit them."""
    where = "featherback.torch.closed_loop()"
    loop = partial(fbt.closed_loop, SIM)
    for name, (policy, options, error, names) in POLICIES.items():
        call = partial(loop, policy, Q, V, **{"steps": 3, **options})
        yield raises(f"closed_loop, {name}", error, call, where, *names)
    for memory in MEMORY:
        call = partial(_without_memory, partial(loop, still, Q, V, 10**12, memory=memory))
        name = f"closed_loop, too many states, {memory}"
        yield raises(name, MemoryError, call, where, "states", "4e+04 GB")
    for memory, step in (("states", "step 5"), ("checkpoint", "step 0")):
        call = partial(_asked_again, memory)
        name = f"closed_loop, another answer, {memory}"
        yield raises(name, ParameterError, call, where, step, f'memory="{memory}"')

    transformed = partial(_derive, torch.func.grad, lambda q: loop(still, q, V, 3).q)

    def twice() -> None:
        q = zeros(2).requires_grad_()
        torch.autograd.grad(loop(still, q, V, 3).q.sum(), q, create_graph=True)

    names = ('memory="states"', 'memory="graph"')
    yield raises("closed_loop, torch.func", ParameterError, transformed, where, *names)
    yield raises("closed_loop, second derivative", FeatherbackError, twice, where, *names)


def _without_torch() -> None:
    """Import the bridge where torch is not installed."""
    with module_as("torch"):
        importlib.reload(fbt)


CASES = [
    raises("PyTorch is missing", ModuleNotFoundError, _without_torch, "PyTorch", "pip install"),
    *_rollouts(),
    *_steps(),
    *_values(),
    *_outputs(),
    *_layers(),
    *_loops(),
]
