"""A pendulum of n links that is swung up by a motor in every joint."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from featherback import models
from featherback._typing import Array as Float64
from featherback.envs.state import Array, State
from featherback.envs.task import Task
from featherback.model import Model
from featherback.sim import Simulator


@lru_cache(maxsize=8)
def _pendulum(links: int, length: float, mass: float) -> Model:
    """Return the pendulum, made once."""
    return models.pendulum(links, length=length, mass=mass)


@dataclass(frozen=True, kw_only=True)
class NLinkPendulum(Task):
    """The tip of the pendulum is to reach the highest point, and to stay; nothing ends an episode.

    It starts level. The motors cannot hold it there, so it has to swing.

    Attributes:
        links: number of links.
        length: of a link [m].
        mass: at the end of a link [kg].
        torque: of the action 1 [N m].
        damping: of every joint [N m s/rad].
        substep: step of the simulator [s]; links of this mass leave the finite numbers at 1/60 s.
        reset_noise_scale: of the noise in the first state [rad, rad/s].
        ctrl_cost_weight: of the sum of the squared actions.
    """

    frame_skip: int = 4
    max_episode_steps: int = 100
    links: int = 3
    length: float = 0.5
    mass: float = 1.0
    torque: float = 10.0
    damping: float = 0.1
    substep: float = 1.0 / 240.0
    reset_noise_scale: float = 0.01
    ctrl_cost_weight: float = 1e-3

    def model(self) -> Model:
        """Return the pendulum of featherback.models."""
        return _pendulum(self.links, self.length, self.mass)

    def simulator(self, **options: Any) -> Simulator:
        """Return the simulator, with this task's step and damping unless others are given."""
        given = dict(options.pop("params", None) or {})
        params = {"dof_damping": np.full(self.links, self.damping), **given}
        return super().simulator(**{"dt": self.substep, **options, "params": params})

    def bounds(self, model: Model) -> tuple[Float64, Float64]:
        """Return -1 and 1."""
        return -np.ones(self.links), np.ones(self.links)

    def control(self, state: State, action: Array) -> Array:
        """Return torques, of actions within their bounds."""
        return self.torque * state.xp.clip(action, -1.0, 1.0)

    def start(self, model: Model, rng: np.random.Generator) -> tuple[Float64, Float64]:
        """Return the pendulum level, nearly at rest."""
        noise = rng.uniform(-self.reset_noise_scale, self.reset_noise_scale, 2 * self.links)
        q = noise[: self.links].copy()
        q[0] += 0.5 * np.pi
        return q, noise[self.links :]

    def observe(self, state: State) -> Array:
        """Return sines and cosines of the links' angles in the world, and joint speeds."""
        angle = state.q.cumsum(-1)
        return state.xp.concatenate([state.xp.sin(angle), state.xp.cos(angle), state.v], -1)

    def rewards(self, before: State, after: State) -> dict[str, Array]:
        """Return 1 with the tip at the top, 0 level and -1 hanging; and the cost of control."""
        reach, tip = self.links * self.length, after.site_positions[:, 0]
        miss = tip[:, 0] ** 2 + (tip[:, 2] - reach) ** 2
        return {
            "reward_tip": 1.0 - miss / (2.0 * reach * reach),
            "reward_ctrl": -self.ctrl_cost_weight * (after.action**2).sum(-1),
        }
