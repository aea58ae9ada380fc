"""The batch of worlds as a vectorised environment of stable-baselines3.

model = PPO("MlpPolicy", featherback.envs.sb3.make("Ant", worlds=64))
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from featherback._typing import Bools, Real
from featherback.envs.registry import make as make_vector
from featherback.envs.task import Task
from featherback.envs.vector import VectorEnv
from featherback.errors import FeatherbackError

try:
    _vec_env: Any = importlib.import_module("stable_baselines3.common.vec_env")
except ImportError:
    raise FeatherbackError(
        "envs.sb3: stable_baselines3 is not installed; it is needed here: "
        "pip install stable-baselines3."
    ) from None


def make(name: str | Task, worlds: int = 1, **options: Any) -> VecEnvAdapter:
    """Return the worlds of a task as stable-baselines3 takes them; see `featherback.envs.make`."""
    return VecEnvAdapter(make_vector(name, worlds, autoreset_mode="same_step", **options))


class VecEnvAdapter(_vec_env.VecEnv):
    """A vector environment with autoreset in the same step, for stable-baselines3.

    Actions lie within -1 and 1, as its algorithms expect, and are stretched to the task's bounds;
    observations are float32.

    Attributes:
        env: the vector environment.
    """

    def __init__(self, env: VectorEnv) -> None:
        """Take a vector environment."""
        if env.mode.value != "SameStep":
            raise FeatherbackError(
                f'VecEnvAdapter(): autoreset_mode is "{env.mode.value}"; make the environment with '
                'autoreset_mode="same_step", since stable-baselines3 resets in the same step.'
            )
        self.env = env
        size, count = env.single_observation_space.shape, env.worlds.low.shape
        assert size is not None
        seen = gymnasium.spaces.Box(-np.inf, np.inf, size, np.float32)
        taken = gymnasium.spaces.Box(-1.0, 1.0, count, np.float32)
        self.render_mode = env.render_mode
        super().__init__(env.num_envs, seen, taken)
        self._middle = 0.5 * (env.worlds.high + env.worlds.low)
        self._half = 0.5 * (env.worlds.high - env.worlds.low)
        self._actions: Any = None

    def reset(self) -> Real:
        """Start new episodes, with the seeds that `seed` was given."""
        seeds = [s for s in self._seeds if s is not None]
        observation, _ = self.env.reset(seed=seeds if len(seeds) == self.num_envs else None)
        self._reset_seeds()
        return observation.astype(np.float32)

    def step_async(self, actions: Any) -> None:
        """Note the actions."""
        self._actions = self._middle + self._half * np.asarray(actions, np.float64)

    def step_wait(self) -> tuple[Real, Real, Bools, list[dict[str, Any]]]:
        """Take the step."""
        observation, reward, terminated, truncated, info = self.env.step(self._actions)
        done = terminated | truncated
        told: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(done):
            told[i]["terminal_observation"] = info["final_obs"][i].astype(np.float32)
            told[i]["TimeLimit.truncated"] = bool(truncated[i] and not terminated[i])
        for i in np.flatnonzero(info.get("nonfinite", ())):
            told[i]["nonfinite"] = True
        return observation.astype(np.float32), reward.astype(np.float32), done, told

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def get_images(self) -> Sequence[Any]:
        """Return a picture of every world."""
        return self.env.render() or ()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of the environment, once for each world."""
        return [getattr(self.env, attr_name)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of the environment; it is one for all worlds."""
        setattr(self.env, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of the environment; return its result once for each world."""
        result = getattr(self.env, method_name)(*method_args, **method_kwargs)
        return [result] * len(list(self._get_indices(indices)))

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return False for each world: none has a wrapper."""
        return [False] * len(list(self._get_indices(indices)))
