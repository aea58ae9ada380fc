"""JAX: a Simulator's step and rollout as functions that JAX transforms.

`jit`, `grad`, `vmap`, `jacfwd`, `jacrev` and `lax.scan` work; results equal those of the Simulator
bit for bit. Everything runs on the CPU.
"""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("jax") is None:
    raise ModuleNotFoundError(
        "featherback.jax needs JAX, which is not installed; install it with "
        "pip install 'featherback[jax]'."
    )

from featherback.jax.functions import Trajectory, rollout, step

__all__ = ["Trajectory", "rollout", "step"]
