"""Simulators, states and parameters for the tests of the PyTorch bridge."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

import featherback as fb

STEPS = 6
# parameters with a gradient, one with a single number among them
PARAMS = {
    "cartpole": ["body_mass", "dt", "gravity"],
    "laikago": ["body_mass", "geom_friction", "dt"],
}


class Scene(NamedTuple):
    """A simulator with a start, controls and parameters, with and without a world axis."""

    sim: fb.Simulator
    q: np.ndarray
    v: np.ndarray
    u: np.ndarray
    params: dict[str, np.ndarray]


@lru_cache
def simulator(name: str, dtype: str = "float64") -> fb.Simulator:
    """Return a simulator of one of our models."""
    return fb.Simulator(getattr(fb.models, name)(), dtype=dtype)


def scene(name: str, dtype: str = "float64", worlds: int | None = None, seed: int = 0) -> Scene:
    """Return a scene; the Laikago stands on the ground."""
    print(f"seed {seed}")
    sim = simulator(name, dtype)
    rng = np.random.default_rng(seed)
    model = sim.model
    lead = () if worlds is None else (worlds,)

    def near(x: Any, spread: float, *shape: int) -> np.ndarray:
        x = np.asarray(x)
        return (x + spread * rng.normal(size=(*lead, *shape, *x.shape))).astype(sim.dtype)

    q0, v0 = model.keyframe(0) if model.keyframe_names else (model.q0, model.v0)
    u0 = model.mujoco.key_ctrl[0] if model.keyframe_names else np.zeros(model.nu)
    q = near(q0, 0.01)
    if name == "laikago":
        q[..., 3:7] = q0[3:7]
    # shares of one, so that what is zero stays so
    params = {
        key: (sim.params[key] * rng.uniform(0.9, 1.1, size=(*lead, *sim.params[key].shape))).astype(
            sim.dtype
        )
        for key in PARAMS[name]
    }
    return Scene(sim, q, near(v0, 0.05), near(u0, 0.05, STEPS), params)
