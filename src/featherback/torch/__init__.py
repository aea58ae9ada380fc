"""The simulator as a layer of PyTorch: steps and rollouts of tensors, with gradients.

Write `import featherback.torch as fbt`.
"""

import importlib

try:
    importlib.import_module("torch")
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "featherback.torch needs PyTorch, which is not installed; install it with "
        "pip install 'featherback[torch]'."
    ) from None

from featherback.torch.closed_loop import ClosedLoop, closed_loop
from featherback.torch.layer import SimulatorLayer
from featherback.torch.rollout import Trajectory, rollout, step

__all__ = [
    "ClosedLoop",
    "SimulatorLayer",
    "Trajectory",
    "closed_loop",
    "rollout",
    "step",
]
