"""Models and states for the tests of the JAX bridge; skips them where JAX is absent."""

from __future__ import annotations

import numpy as np
import pytest

import featherback as fb
from tests.core.models import activation_model, laikago, loop_model, tree_model

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'featherback[jax]'")
jax.config.update("jax_enable_x64", True)

MODELS = {
    "laikago": laikago,
    "tree": tree_model,
    "loop": loop_model,
    "activation": activation_model,
}


def draw(
    model: fb.Model, worlds: int, steps: int, dtype: str = "float64"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw initial states near the model's own, (worlds, n), and controls (worlds, steps, nu)."""
    rng = np.random.default_rng(worlds)
    print(f"seed {worlds}")
    q = np.tile(model.q0, (worlds, 1)) + 0.05 * rng.normal(size=(worlds, model.nq))
    v = 0.3 * rng.normal(size=(worlds, model.nv))
    u = 0.5 * rng.normal(size=(worlds, steps, model.nu))
    if model.name == "laikago":
        q[:, 2] -= 0.05
        u += q[:, None, 7:]
    return q.astype(dtype), v.astype(dtype), u.astype(dtype)


def draw_act(model: fb.Model, worlds: int, dtype: str = "float64") -> np.ndarray:
    """Draw initial activations, (worlds, na)."""
    rng = np.random.default_rng([worlds, 1])
    return (0.2 * rng.normal(size=(worlds, model.na))).astype(dtype)
