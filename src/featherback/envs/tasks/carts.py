"""Poles on carts: Gymnasium's two, and the library's own, which is swung up."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np

from featherback import models
from featherback._typing import Array as Float64
from featherback.envs.state import Array, State
from featherback.envs.task import Task
from featherback.envs.tasks.gymnasium_models import NearRest, load_file
from featherback.model import Model


@dataclass(frozen=True, kw_only=True)
class InvertedPendulum(NearRest):
    """A pole that is balanced on a cart; terms and defaults of Gymnasium's v5.

    Attributes:
        reset_noise_scale: of the noise in the first state.
    """

    frame_skip: int = 2
    reset_noise_scale: float = 0.01

    simulator_options: ClassVar[dict[str, Any]] = {"contact": "mujoco"}
    # angle at which the pole counts as fallen [rad]
    fallen: ClassVar[float] = 0.2

    def model(self) -> Model:
        """Return Gymnasium's robot."""
        return load_file("inverted_pendulum.xml")

    def observe(self, state: State) -> Array:
        """Return q and v."""
        return state.xp.concatenate([state.q, state.v], -1)

    def terminated(self, state: State) -> Array:
        """Return where the pole has fallen."""
        return abs(state.q[:, 1]) > self.fallen

    def rewards(self, before: State, after: State) -> dict[str, Array]:
        """Return one for each step that ends with the pole up."""
        return {"reward_survive": 1.0 * ~self.terminated(after)}


@dataclass(frozen=True, kw_only=True)
class InvertedDoublePendulum(NearRest):
    """Two poles that are balanced on a cart; terms and defaults of Gymnasium's v5.

    Attributes:
        healthy_reward: of each step that ends with the tip above 1 m.
        reset_noise_scale: of the noise in the first state.
    """

    frame_skip: int = 5
    healthy_reward: float = 10.0
    reset_noise_scale: float = 0.1

    simulator_options: ClassVar[dict[str, Any]] = {"contact": "mujoco"}
    normal: ClassVar[bool] = True

    def model(self) -> Model:
        """Return Gymnasium's robot."""
        return load_file("inverted_double_pendulum.xml")

    def observe(self, state: State) -> Array:
        """Return place, sines and cosines of angles, speeds, and the force of the rail's ends."""
        xp, angle = state.xp, state.q[:, 1:]
        parts = [state.q[:, :1], xp.sin(angle), xp.cos(angle), xp.clip(state.v, -10.0, 10.0)]
        return xp.concatenate([*parts, xp.clip(state.constraint_forces[:, :1], -10.0, 10.0)], -1)

    def terminated(self, state: State) -> Array:
        """Return where the tip is at 1 m or below."""
        return state.site_positions[:, 0, 2] <= 1.0

    def rewards(self, before: State, after: State) -> dict[str, Array]:
        """Return health, distance of the tip from (0, 2), and the cost of speed."""
        tip, v = after.site_positions[:, 0], after.v
        return {
            "reward_survive": self.healthy_reward * ~self.terminated(after),
            "distance_penalty": -(0.01 * tip[:, 0] ** 2 + (tip[:, 2] - 2.0) ** 2),
            "velocity_penalty": -(1e-3 * v[:, 1] ** 2 + 5e-3 * v[:, 2] ** 2),
        }


@lru_cache(maxsize=1)
def _cartpole() -> Model:
    """Return the cart-pole, made once."""
    return models.cartpole()


@dataclass(frozen=True, kw_only=True)
class CartPole(Task):
    """The library's own cart-pole: the pole is swung up and kept there; nothing ends an episode.

    Attributes:
        start_at: "hanging" or "upright".
        reset_noise_scale: of the noise in the first state.
        place_cost_weight: of the squared place of the cart [1/m^2].
        ctrl_cost_weight: of the squared action.
    """

    frame_skip: int = 4
    max_episode_steps: int = 250
    start_at: Literal["hanging", "upright"] = "hanging"
    reset_noise_scale: float = 0.05
    place_cost_weight: float = 0.05
    ctrl_cost_weight: float = 1e-3

    # force of the action 1 [N]
    force: ClassVar[float] = 10.0

    def model(self) -> Model:
        """Return the cart-pole of featherback.models."""
        return _cartpole()

    def bounds(self, model: Model) -> tuple[Float64, Float64]:
        """Return -1 and 1."""
        return -np.ones(1), np.ones(1)

    def control(self, state: State, action: Array) -> Array:
        """Return the force of an action."""
        return self.force * action

    def start(self, model: Model, rng: np.random.Generator) -> tuple[Float64, Float64]:
        """Return a state near that of a keyframe."""
        q, v = model.keyframe(self.start_at)
        noise = rng.uniform(-self.reset_noise_scale, self.reset_noise_scale, model.nq + model.nv)
        return q + noise[: model.nq], v + noise[model.nq :]

    def observe(self, state: State) -> Array:
        """Return place, sine and cosine of the angle, and speeds."""
        angle = state.q[:, 1:]
        parts = [state.q[:, :1], state.xp.sin(angle), state.xp.cos(angle), state.v]
        return state.xp.concatenate(parts, -1)

    def rewards(self, before: State, after: State) -> dict[str, Array]:
        """Return the height of the pole, from 0 to 1, and the costs of place and control."""
        return {
            "reward_up": 0.5 * (1.0 + after.xp.cos(after.q[:, 1])),
            "reward_place": -self.place_cost_weight * after.q[:, 0] ** 2,
            "reward_ctrl": -self.ctrl_cost_weight * (after.action**2).sum(-1),
        }
