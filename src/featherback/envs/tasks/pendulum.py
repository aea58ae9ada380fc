"""A pendulum of n links that is swung up by a motor in every joint."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from featherback import models
from featherback._checks import check_integer
from featherback._typing import Array as Float64
from featherback.envs.state import Array, State
from featherback.envs.task import Task
from featherback.errors import ParameterError
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
        masses: of the links in turn [kg]; all have `mass` when empty.
        clock: whether the observation has the share of the episode that is over.
        reward: "height" is 1 with the tip at the top, 0 level and -1 hanging, in every step;
            "progress" is by how much the squared distance to the top falls, as a share of that at
            the start, and once more what is left of it at the end of the episode: then only the
            last step counts, with 1 - 2 d^2 / d0^2.
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
    masses: tuple[float, ...] = ()
    clock: bool = False
    reward: Literal["height", "progress"] = "height"

    def model(self) -> Model:
        """Return the pendulum of featherback.models."""
        return _pendulum(self.links, self.length, self.mass)

    def simulator(self, **options: Any) -> Simulator:
        """Return the simulator, with this task's step and damping unless others are given."""
        check_integer("NLinkPendulum", "links", self.links, minimum=1)
        given = dict(options.pop("params", None) or {})
        params = {"dof_damping": np.full(self.links, self.damping), **self.inertias(), **given}
        return super().simulator(**{"dt": self.substep, **options, "params": params})

    def inertias(self) -> dict[str, Float64]:
        """Return the parameters of links of other masses; their spheres keep their size."""
        if not self.masses:
            return {}
        if len(self.masses) != self.links:
            raise ParameterError(
                f"NLinkPendulum: masses has {len(self.masses)} numbers and there are {self.links} "
                "links; give one number for each link."
            )
        model = self.model().mujoco
        ratio = np.array([1.0, *self.masses]) / np.array([1.0, *[self.mass] * self.links])
        mass, inertia = np.asarray(model.body_mass), np.asarray(model.body_inertia)
        return {"body_mass": mass * ratio, "body_inertia": inertia * ratio[:, None]}

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
        parts = [state.xp.sin(angle), state.xp.cos(angle), state.v]
        if self.clock:
            share = self.over(state)[:, None]
            parts.append(share * state.xp.ones_like(angle[:, :1]))
        return state.xp.concatenate(parts, -1)

    def over(self, state: State) -> Array:
        """Return the share of the episode that is over, real[worlds]."""
        episode = self.max_episode_steps * self.frame_skip * self.substep
        return state.time / episode

    def miss(self, state: State) -> Array:
        """Return the squared distance of the tip from the top, as a share of the level one."""
        reach, tip = self.links * self.length, state.site_positions[:, 0]
        return (tip[:, 0] ** 2 + (tip[:, 2] - reach) ** 2) / (2.0 * reach * reach)

    def rewards(self, before: State, after: State) -> dict[str, Array]:
        """Return what the tip gains, and the cost of control."""
        control = -self.ctrl_cost_weight * (after.action**2).sum(-1)
        miss = self.miss(after)
        if self.reward == "height":
            return {"reward_tip": 1.0 - miss, "reward_ctrl": control}
        last = self.over(after) > 1.0 - 0.5 / self.max_episode_steps
        gain = self.miss(before) - (1.0 + last) * miss
        return {"reward_tip": gain, "reward_ctrl": control}
