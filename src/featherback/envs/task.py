"""What a task is: a robot, what is seen of it, what is rewarded, and when an episode ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from featherback._typing import Array as Float64
from featherback.envs.state import Array, State
from featherback.errors import ParameterError
from featherback.model import Model
from featherback.sim import Simulator


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """A task; its fields are its options, and keywords of `featherback.envs.make`.

    A task of one's own has three functions at least: `model`, `observe` and `rewards`. They act on
    batches of worlds, and are written once for NumPy, torch and JAX (see `State`).

    Attributes:
        frame_skip: steps of the simulator in one step of the environment; the control is held.
        max_episode_steps: steps of the environment after which an episode is truncated.
    """

    frame_skip: int = 1
    max_episode_steps: int = 1000

    # options of the Simulator that hold unless the caller gives others
    simulator_options: ClassVar[dict[str, Any]] = {}
    # look-at point [m], distance [m], azimuth and elevation [degrees]; None: from the model
    camera: ClassVar[tuple[float, ...] | None] = None
    # body that the camera follows, 0 for none
    followed: ClassVar[int] = 0

    @abstractmethod
    def model(self) -> Model:
        """Return the model."""

    @abstractmethod
    def observe(self, state: State) -> Array:
        """Return the observations, real[worlds, n]."""

    @abstractmethod
    def rewards(self, before: State, after: State) -> dict[str, Array]:
        """Return the terms of the reward of a step, each real[worlds]; the reward is their sum."""

    def terminated(self, state: State) -> Array | None:
        """Return bool[worlds], where the episode ends in this state; None: it never does."""
        return None

    def start(self, model: Model, rng: np.random.Generator) -> tuple[Float64, Float64]:
        """Return q and v of one world at the start of an episode."""
        return np.array(model.q0), np.array(model.v0)

    def starts(
        self, model: Model, generators: Sequence[np.random.Generator]
    ) -> tuple[Float64, Float64]:
        """Return q and v of several worlds, of each what `start` gives it."""
        q, v = zip(*(self.start(model, rng) for rng in generators), strict=True)
        return np.array(q), np.array(v)

    def control(self, state: State, action: Array) -> Array:
        """Return the controls of actions, real[worlds, nu]; by default they are the actions."""
        return action

    def bounds(self, model: Model) -> tuple[Float64, Float64]:
        """Return the least and the largest action, float64[n] each; by default `ctrlrange`."""
        if not np.all(model.mujoco.actuator_ctrllimited):
            raise ParameterError(
                f'{type(self).__name__}.bounds(): an actuator of model "{model.name}" has no range '
                "of control; give it a ctrlrange, or return the bounds of the actions from the "
                "task's bounds()."
            )
        low, high = np.array(model.mujoco.actuator_ctrlrange, np.float64).T
        return low, high

    def simulator(self, **options: Any) -> Simulator:
        """Return the simulator of this task; options are those of `featherback.Simulator`."""
        return Simulator(self.model(), **{**self.simulator_options, **options})

    def step_time(self, sim: Simulator) -> float:
        """Return the time of one step of the environment [s]."""
        return sim.dt * self.frame_skip

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """Return the names of the options."""
        return tuple(field.name for field in fields(cls))


def total(terms: dict[str, Array]) -> Array:
    """Return the sum of the terms of a reward, in their order."""
    values = list(terms.values())
    out = values[0]
    for value in values[1:]:
        out = out + value
    return out
