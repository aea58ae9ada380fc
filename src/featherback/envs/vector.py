"""The batch of worlds as Gymnasium's vector environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector import VectorEnv as GymnasiumVectorEnv
from gymnasium.vector.utils import batch_space

from featherback._checks import check_integer
from featherback._typing import Bools, Real
from featherback.envs.generators import Generators
from featherback.envs.options import check_reset, read_states
from featherback.envs.render import Camera, check_render_mode
from featherback.envs.task import Task
from featherback.envs.worlds import Outcome, Randomize, Worlds
from featherback.errors import ParameterError
from featherback.sim import Simulator

MODES = {
    "next_step": AutoresetMode.NEXT_STEP,
    "same_step": AutoresetMode.SAME_STEP,
    "disabled": AutoresetMode.DISABLED,
}


def read_mode(where: str, mode: Any) -> AutoresetMode:
    """Return an autoreset mode by its name, its value in Gymnasium, or as it is."""
    if isinstance(mode, AutoresetMode):
        return mode
    named = {**MODES, **{m.value: m for m in AutoresetMode}}
    if mode not in named:
        raise ParameterError(
            f"{where}: autoreset_mode is {mode!r}; it must be one of "
            f"{', '.join(map(repr, MODES))}, or a gymnasium.vector.AutoresetMode."
        )
    return named[mode]


def spaces_of(worlds: Worlds) -> tuple[gymnasium.spaces.Box, gymnasium.spaces.Box]:
    """Return the spaces of observations and actions of one world."""
    size = worlds.observe(slice(0, 1)).shape[1]
    seen = gymnasium.spaces.Box(-np.inf, np.inf, (size,), worlds.sim.dtype.type)
    low, high = (x.astype(np.float32) for x in (worlds.low, worlds.high))
    return seen, gymnasium.spaces.Box(low, high, dtype=np.float32)


class VectorEnv(GymnasiumVectorEnv[Any, Any, Any]):
    """A batch of worlds; one step of all of them is one call of the engine.

    Made by `featherback.envs.make`.

    Attributes:
        task: the task.
        sim: the simulator.
        worlds: the worlds: their states, and what they have of their own.
    """

    def __init__(
        self,
        task: Task,
        sim: Simulator,
        num_envs: int,
        *,
        autoreset_mode: Any = AutoresetMode.NEXT_STEP,
        max_episode_steps: int | None = None,
        randomize: Randomize | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Make the worlds and give them a first state."""
        where = "envs.make()"
        self.task, self.sim = task, sim
        self.worlds = Worlds(task, sim, num_envs, randomize)
        self.num_envs = self.worlds.count
        self.mode = read_mode(where, autoreset_mode)
        limit = task.max_episode_steps if max_episode_steps is None else max_episode_steps
        self.max_episode_steps = check_integer(where, "max_episode_steps", limit, maximum=10**12)
        self.render_mode = check_render_mode(where, render_mode)
        rate = 1.0 / task.step_time(sim)
        self.metadata = {
            "render_modes": ["rgb_array"],
            "render_fps": max(round(rate), 1),
            "autoreset_mode": self.mode,
        }
        self._camera = Camera(task, sim.model)
        self._generators = Generators(self.num_envs)
        self._started: Bools = np.zeros(self.num_envs, bool)
        self.worlds.set_states(slice(None), sim.model.q0, sim.model.v0)
        self.single_observation_space, self.single_action_space = spaces_of(self.worlds)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        # episodes that have ended and are not started again yet
        self._over: Bools = np.zeros(self.num_envs, bool)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Real, dict[str, Any]]:
        """Start new episodes.

        Args:
            seed: of world 0, world i has seed + i; or one for each world. None goes on with the
                generators there are.
            options: {"reset_mask": bool[worlds]} starts some worlds only; {"q": ..., "v": ...}
                puts worlds into states of choice, with a row for each world or one for all.

        Returns:
            Observations real[worlds, n], and an empty dictionary.
        """
        where, options = "reset()", options or {}
        check_reset(where, options)
        mask = np.ones(self.num_envs, bool)
        if options.get("reset_mask") is not None:
            mask = np.asarray(options["reset_mask"])
            if mask.shape != (self.num_envs,) or mask.dtype != np.bool_:
                raise ParameterError(
                    f"{where}: reset_mask has shape {mask.shape} and type {mask.dtype}; it must be "
                    f"an array of {self.num_envs} booleans."
                )
        rows = np.flatnonzero(mask)
        self._generators.seed(where, seed, rows)
        self._started |= mask
        self.worlds.reset(rows, self._generators)
        if "q" in options or "v" in options:
            q, v = (
                read_states(where, name, options.get(name, own), own)
                for name, own in (("q", self.worlds.q), ("v", self.worlds.v))
            )
            self.worlds.set_states(rows, q[rows], v[rows])
        self._over = self._over & ~mask
        return self.worlds.observe(), {}

    def step(self, actions: Any) -> tuple[Real, Real, Bools, Bools, dict[str, Any]]:
        """Take one step in every world.

        Args:
            actions: real[worlds, n]. A world whose action is not finite ends its episode.

        Returns:
            Observations, rewards, terminated, truncated, and a dictionary with the terms of the
            reward, `status`, and where worlds left the finite numbers `nonfinite`. With
            "same_step", `final_obs` has the observations before resets, real[worlds, n], and
            `_final_obs` tells whose episodes ended.
        """
        if not self._started.all():
            raise ParameterError("step(): a world has no state yet; call reset() first.")
        found = self.worlds.step(self.worlds.read_actions("step()", actions))
        if self.mode is AutoresetMode.NEXT_STEP and self._over.any():
            found = self._start_over(found)
        truncated = self.worlds.age >= self.max_episode_steps
        ended = found.terminated | truncated
        info = self._info(found)
        observation = found.observation
        if self.mode is AutoresetMode.SAME_STEP and ended.any():
            rows = np.flatnonzero(ended)
            info |= {"final_obs": observation.copy(), "_final_obs": ended.copy()}
            self.worlds.reset(rows, self._generators)
            observation[rows] = self.worlds.observe(rows)
        self._over = ended if self.mode is not AutoresetMode.SAME_STEP else np.zeros_like(ended)
        return observation, found.reward, found.terminated, truncated, info

    def get_state(self) -> dict[str, Any]:
        """Return all that later steps depend on, in arrays and text: a run can go on from it."""
        return {
            "worlds": self.worlds.get_state(),
            "generators": self._generators.get_state(),
            "started": self._started.copy(),
            "over": self._over.copy(),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `get_state` returned, in an environment made with the same arguments."""
        self.worlds.set_state(state["worlds"])
        self._generators.set_state(state["generators"])
        self._started, self._over = state["started"].copy(), state["over"].copy()

    def _start_over(self, found: Outcome) -> Outcome:
        """Start the episodes that the step before has ended; this step counts for nothing there."""
        over, rows = self._over, np.flatnonzero(self._over)
        self.worlds.reset(rows, self._generators)
        found.observation[rows] = self.worlds.observe(rows)
        return found._replace(
            reward=np.where(over, 0.0, found.reward),
            terminated=found.terminated & ~over,
            terms={name: np.where(over, 0.0, x) for name, x in found.terms.items()},
            status=np.where(over, 0, found.status).astype(found.status.dtype),
            nonfinite=found.nonfinite & ~over,
        )

    def _info(self, found: Outcome) -> dict[str, Any]:
        """Return what a step tells besides, with a mask for each name, as Gymnasium has it."""
        info: dict[str, Any] = {**found.terms, "status": found.status}
        info |= {f"_{name}": np.ones(self.num_envs, bool) for name in info}
        if found.nonfinite.any():
            info |= {"nonfinite": found.nonfinite, "_nonfinite": found.nonfinite.copy()}
        return info

    def render(self) -> tuple[Any, ...] | None:
        """Return a picture of every world, uint8[height, width, 3] each."""
        if self.render_mode is None:
            return None
        return tuple(self._camera.picture(q) for q in np.asarray(self.worlds.q, np.float64))
