"""Gymnasium's reacher: an arm of two links brings its tip to a target in the plane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from featherback._typing import Array as Float64
from featherback.envs.state import Array, State
from featherback.envs.task import Task
from featherback.envs.tasks.gymnasium_models import load_file
from featherback.model import Model

REACH = 0.2  # the target lies within this distance of the base [m]


@dataclass(frozen=True, kw_only=True)
class Reacher(Task):
    """Terms and defaults of Gymnasium's v5. The target is part of q, so that it is in the state.

    Attributes:
        reward_dist_weight: of the distance from tip to target [m].
        reward_control_weight: of the sum of the squared actions.
    """

    frame_skip: int = 2
    max_episode_steps: int = 50
    reward_dist_weight: float = 1.0
    reward_control_weight: float = 1.0

    simulator_options: ClassVar[dict[str, Any]] = {"contact": "mujoco"}

    def model(self) -> Model:
        """Return Gymnasium's robot."""
        return load_file("reacher.xml")

    def start(self, model: Model, rng: np.random.Generator) -> tuple[Float64, Float64]:
        """Return an arm near its rest, and a target within reach."""
        q = rng.uniform(low=-0.1, high=0.1, size=model.nq) + model.q0
        goal = rng.uniform(low=-REACH, high=REACH, size=2)
        while not np.linalg.norm(goal) < REACH:
            goal = rng.uniform(low=-REACH, high=REACH, size=2)
        q[-2:] = goal
        v = model.v0 + rng.uniform(low=-0.005, high=0.005, size=model.nv)
        v[-2:] = 0.0
        return q, v

    def miss(self, state: State) -> Array:
        """Return the way from the target to the tip, real[worlds, 3]."""
        return state.body("fingertip") - state.body("target")

    def observe(self, state: State) -> Array:
        """Return cosines and sines of the angles, the target, speeds, and the miss."""
        xp, angle = state.xp, state.q[:, :2]
        parts = [xp.cos(angle), xp.sin(angle), state.q[:, 2:], state.v[:, :2]]
        return xp.concatenate([*parts, self.miss(state)[:, :2]], -1)

    def rewards(self, before: State, after: State) -> dict[str, Array]:
        """Return distance and cost of control."""
        distance = after.xp.sqrt((self.miss(after) ** 2).sum(-1))
        return {
            "reward_dist": -self.reward_dist_weight * distance,
            "reward_ctrl": -self.reward_control_weight * (after.action**2).sum(-1),
        }
