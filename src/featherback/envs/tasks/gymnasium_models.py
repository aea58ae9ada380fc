"""The robots of Gymnasium's tasks, from the files that its package brings, and their resets."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np

from featherback._typing import Array as Float64
from featherback.envs.task import Task
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


@dataclass(frozen=True, kw_only=True)
class NearRest(Task):
    """A task whose episodes start near the state of the file, with numbers that Gymnasium draws.

    Attributes:
        reset_noise_scale: of the noise in the first state.
    """

    reset_noise_scale: float = 1e-2

    # speeds of the first state are normal, or uniform
    normal: ClassVar[bool] = False

    def start(self, model: Model, rng: np.random.Generator) -> tuple[Float64, Float64]:
        """Return a state near that of the file."""
        q, v = self._near_rest(model, [rng])
        return q[0], v[0]

    def starts(
        self, model: Model, generators: Sequence[np.random.Generator]
    ) -> tuple[Float64, Float64]:
        """Return the states of several worlds at once, unless a task has starts of its own."""
        if type(self).start is not NearRest.start:
            return super().starts(model, generators)
        return self._near_rest(model, generators)

    def _near_rest(
        self, model: Model, generators: Sequence[np.random.Generator]
    ) -> tuple[Float64, Float64]:
        q, v = np.empty((len(generators), model.nq)), np.empty((len(generators), model.nv))
        for rng, own_q, own_v in zip(generators, q, v, strict=True):
            rng.random(out=own_q)
            if self.normal:
                rng.standard_normal(out=own_v)
            else:
                rng.random(out=own_v)
        noise = self.reset_noise_scale
        # uniform numbers as a generator's uniform() has them
        q = model.q0 + (2.0 * noise * q - noise)
        return q, model.v0 + (noise * v if self.normal else 2.0 * noise * v - noise)
