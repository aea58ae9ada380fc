"""The robots of Gymnasium's tasks, from the files that its package brings, and their resets."""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from pathlib import Path

import numpy as np

from featherback._typing import Array as Float64
from featherback.errors import FeatherbackError
from featherback.model import Model, load


def find_file(name: str) -> Path:
    """Return the path of a model file of the installed gymnasium package."""
    where = f"envs: {name}"
    spec = importlib.util.find_spec("gymnasium")
    if spec is None or spec.origin is None:
        raise FeatherbackError(
            f"{where}: gymnasium is not installed; the robot's file comes with it: "
            "pip install 'featherback[rl]'."
        )
    path = Path(spec.origin).parent / "envs" / "mujoco" / "assets" / name
    if not path.exists():
        raise FeatherbackError(
            f"{where}: {path} does not exist; install a gymnasium that brings it: "
            "pip install 'featherback[rl]'."
        )
    return path


@lru_cache(maxsize=16)
def load_file(name: str) -> Model:
    """Return the model of a file of gymnasium, read once."""
    return load(find_file(name))


def near_rest(
    model: Model, rng: np.random.Generator, noise: float, *, normal: bool
) -> tuple[Float64, Float64]:
    """Return a state near the model's own, with the numbers that Gymnasium's tasks draw."""
    q = model.q0 + rng.uniform(low=-noise, high=noise, size=model.nq)
    if normal:
        return q, model.v0 + noise * rng.standard_normal(model.nv)
    return q, model.v0 + rng.uniform(low=-noise, high=noise, size=model.nv)
