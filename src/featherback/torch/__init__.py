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
from featherback.torch.outputs import (
    bias,
    body_poses,
    center_of_mass,
    com_inertias,
    com_velocities,
    contact_forces,
    forward_dynamics,
    inverse_dynamics,
    mass_centers,
    mass_matrix,
    site_poses,
    site_positions,
)
from featherback.torch.rollout import Trajectory, rollout, step

__all__ = [
    "ClosedLoop",
    "SimulatorLayer",
    "Trajectory",
    "bias",
    "body_poses",
    "center_of_mass",
    "closed_loop",
    "com_inertias",
    "com_velocities",
    "contact_forces",
    "forward_dynamics",
    "inverse_dynamics",
    "mass_centers",
    "mass_matrix",
    "rollout",
    "site_poses",
    "site_positions",
    "step",
]
