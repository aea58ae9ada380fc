"""JAX: a Simulator's steps, rollouts and outputs as functions that JAX transforms.

`jit`, `grad`, `vmap`, `jacfwd`, `jacrev` and `lax.scan` work; results equal those of the Simulator
bit for bit. They run where the simulator does, on the CPU or on one GPU.
"""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("jax") is None:
    raise ModuleNotFoundError(
        "featherback.jax needs JAX, which is not installed; install it with "
        "pip install 'featherback[jax]'."
    )

from featherback.jax.functions import Trajectory, rollout, step
from featherback.jax.outputs import (
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

__all__ = [
    "Trajectory",
    "bias",
    "body_poses",
    "center_of_mass",
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
