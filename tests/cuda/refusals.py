"""What is refused of devices and of what lies on them; a GPU on paper stands for one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed; install featherback[torch]")

import torch

import featherback as fb
import featherback.torch as fbt
from featherback.errors import ParameterError, ShapeError
from featherback.sim import cuda, cuda_arrays
from tests.cuda.cases import OnDevice, Speaks
from tests.cuda.paper_device import PaperDevice
from tests.golden.sentences import Case, raises


class Elsewhere(torch.Tensor):
    """A tensor that says it lies on the second GPU."""

    @property
    def is_cpu(self) -> bool:
        """Return that it does not lie in the memory of the processor."""
        return False

    @property
    def device(self) -> torch.device:
        """Return the GPU."""
        return torch.device("cuda", 1)


def on_paper(call: Callable[[fb.Simulator], object], device: Any = "cuda") -> Callable[[], object]:
    """Return a call with a simulator on GPUs that compute nothing."""

    def run() -> object:
        before = cuda._devices.copy()
        cuda._devices.update({n: PaperDevice() for n in range(2)})
        try:
            return call(fb.Simulator(fb.models.cartpole(), device=device))
        finally:
            cuda._devices.clear()
            cuda._devices.update(before)

    return run


def zeros(*shape: int, **given: Any) -> torch.Tensor:
    """Return zeros in float64."""
    return torch.zeros(shape, dtype=torch.float64, **given)


def rolled(x: Any, u: Any) -> Callable[[], object]:
    """Return a rollout of arrays on the GPU."""
    return on_paper(lambda sim: cuda_arrays.rollout(sim, x, u))


X, U = OnDevice(np.zeros((3, 5, 4))), OnDevice(np.zeros((3, 4, 1)))
ARRAYS: dict[str, tuple[Any, Any, type[Exception], tuple[str, ...]]] = {
    "states without steps": (OnDevice(np.zeros((3, 4))), U, ShapeError, ("x", "(3, 4)")),
    "an array of NumPy": (X, np.zeros((3, 4, 1)), ParameterError, ("u", "ndarray")),
    "another GPU": (Speaks(np.zeros((3, 5, 4)), (2, 1)), U, ParameterError, ("x", "cuda:1")),
    "wide controls": (X, OnDevice(np.zeros((3, 4, 2))), ShapeError, ("u", "(3, 4, 2)")),
    "float32": (OnDevice(np.zeros((3, 5, 4), np.float32)), U, ParameterError, ("x", "float32")),
    "strides": (OnDevice(np.zeros((3, 5, 8))[..., ::2]), U, ParameterError, ("x", "contiguous")),
}
TENSORS: dict[str, tuple[Any, Any, tuple[str, ...]]] = {
    "tensors of the processor": (zeros(2), zeros(2), ("q", "cpu", 'q.to("cuda:0")')),
    "another GPU": (zeros(2).as_subclass(Elsewhere), zeros(2), ("q", "cuda:1", "cuda:0")),
    "the meta device": (zeros(2, device="meta"), zeros(2), ("q", "meta")),
}

CASES: list[Case] = [
    raises(
        f"Simulator, device {device!r}",
        ParameterError,
        lambda device=device: fb.Simulator(fb.models.cartpole(), device=device),
        "device",
        repr(device),
    )
    for device in ("gpu", "cuda:x", "cuda:0,0", 0)
]
CASES += [
    raises(f"cuda_arrays, {name}", error, rolled(x, u), "cuda_arrays.rollout()", *names)
    for name, (x, u, error, names) in ARRAYS.items()
]
CASES += [
    raises(
        f"torch.rollout, {name}",
        ShapeError,
        on_paper(lambda sim, q=q, v=v: fbt.rollout(sim, q, v, steps=2)),
        "featherback.torch.rollout()",
        *names,
    )
    for name, (q, v, names) in TENSORS.items()
]
CASES += [
    raises(
        "cuda_arrays on several GPUs",
        ParameterError,
        on_paper(lambda sim: cuda_arrays.rollout(sim, X, U), "cuda:0,1"),
        "cuda_arrays.rollout()",
        "cuda:0,1",
    ),
    raises(
        "torch.step on several GPUs",
        ParameterError,
        on_paper(lambda sim: fbt.step(sim, zeros(2), zeros(2)), "cuda:0,1"),
        "featherback.torch.step()",
        "cuda:0,1",
    ),
    raises(
        "cuda_arrays on the processor",
        ParameterError,
        lambda: cuda_arrays.rollout(fb.Simulator(fb.models.cartpole()), X, U),
        "cuda_arrays.rollout()",
        "cpu",
    ),
]
