"""One world as Gymnasium's environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from featherback._typing import Real
from featherback.envs.render import Camera, check_render_mode
from featherback.envs.task import Task
from featherback.envs.vector import spaces_of
from featherback.envs.worlds import Randomize, Worlds
from featherback.errors import ParameterError
from featherback.sim import Simulator


class SingleEnv(gymnasium.Env[Any, Any]):
    """One world. It has the bits of world i of a batch whose seed is seed - i.

    The length of an episode is limited by the wrapper that `gymnasium.make` puts around it.

    Attributes:
        task: the task.
        sim: the simulator.
        worlds: a batch of one world.
    """

    def __init__(
        self,
        task: Task,
        sim: Simulator,
        *,
        randomize: Randomize | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Make the world."""
        self.task, self.sim = task, sim
        self.worlds = Worlds(task, sim, 1, randomize)
        self.render_mode = check_render_mode("gymnasium.make()", render_mode)
        rate = 1.0 / task.step_time(sim)
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": max(round(rate), 1)}
        self._camera = Camera(task, sim.model)
        self.worlds.set_states(slice(None), sim.model.q0, sim.model.v0)
        self.observation_space, self.action_space = spaces_of(self.worlds)
        self._started = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Real, dict[str, Any]]:
        """Start a new episode; options {"q": ..., "v": ...} choose its state."""
        super().reset(seed=seed)
        self.worlds.reset(np.zeros(1, np.int64), [self.np_random])
        chosen = {name: (options or {}).get(name) for name in ("q", "v")}
        if any(x is not None for x in chosen.values()):
            own = {"q": self.worlds.q, "v": self.worlds.v}
            state = (own[k].copy() if x is None else np.asarray(x)[None] for k, x in chosen.items())
            self.worlds.set_states(slice(None), *state)
        self._started = True
        return self.worlds.observe()[0], {}

    def step(self, action: Any) -> tuple[Real, float, bool, bool, dict[str, Any]]:
        """Take one step; an action that is not finite ends the episode."""
        if not self._started:
            raise ParameterError("step(): the world has no state yet; call reset() first.")
        found = self.worlds.step(self.worlds.read_actions("step()", np.asarray(action)[None]))
        info: dict[str, Any] = {name: float(x[0]) for name, x in found.terms.items()}
        info["status"] = int(found.status[0])
        if found.nonfinite[0]:
            info["nonfinite"] = True
        reward, terminated = float(found.reward[0]), bool(found.terminated[0])
        return found.observation[0], reward, terminated, False, info

    def render(self) -> Any:
        """Return a picture, uint8[height, width, 3]."""
        if self.render_mode is None:
            return None
        return self._camera.picture(np.asarray(self.worlds.q[0], np.float64))
