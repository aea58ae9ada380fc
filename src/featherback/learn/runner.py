"""Environments as the learners use them: made by name, stepped in tensors, kept in checkpoints."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor

from featherback.errors import OptimizationError, ParameterError
from featherback.learn.settings import Settings

# worlds -> a vector environment with same-step resets
Make = Callable[[int], VectorEnv[Any, Any, Any]]
RECENT = 100  # episodes over which the return is averaged
GYM = "gym:"


def make_env(settings: Settings, worlds: int) -> VectorEnv[Any, Any, Any]:
    """Return the environment of the settings; episodes that end begin again in the same step."""
    if settings.env.startswith(GYM):
        return _make_gymnasium(settings, worlds)
    from featherback import envs

    options: dict[str, Any] = {
        "dtype": "float32",
        **settings.env_options(),
        "autoreset_mode": "same_step",
    }
    return envs.make(settings.env, worlds, **options)


def _make_gymnasium(settings: Settings, worlds: int) -> VectorEnv[Any, Any, Any]:
    """Return worlds of one of gymnasium's own environments."""
    import gymnasium

    name = settings.env.removeprefix(GYM)
    if settings.contact is not None:
        raise ParameterError(
            f"learn {settings.learner}: contact is {settings.contact!r} and the environment is "
            f"gymnasium's {name}, which has its own; leave contact out."
        )
    try:
        return gymnasium.make_vec(
            name,
            num_envs=worlds,
            vectorization_mode="sync",
            vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
            **settings.env_options(),
        )
    except (gymnasium.error.Error, ImportError) as error:
        raise ParameterError(
            f"learn {settings.learner}: gymnasium cannot make {name}: {error}"
        ) from None


def box(space: Any, what: str) -> Box:
    """Return a space of vectors; raise ParameterError for another one."""
    if isinstance(space, Box) and len(space.shape) == 1:
        return space
    raise ParameterError(
        f"learn: the {what} of the environment are {space}; learners take boxes of one axis: "
        "wrap the environment."
    )


class Episodes:
    """Returns and lengths of episodes, running and ended.

    Attributes:
        returns: of the last RECENT episodes that ended.
        lengths: of the same episodes.
    """

    def __init__(self, worlds: int) -> None:
        """Start with none."""
        self.returns: deque[float] = deque(maxlen=RECENT)
        self.lengths: deque[int] = deque(maxlen=RECENT)
        self.worlds = worlds
        self.start()

    def start(self) -> None:
        """Forget the episodes that are running."""
        self.running = np.zeros(self.worlds)
        self.length = np.zeros(self.worlds, np.int64)

    def add(self, reward: Any, done: Any) -> None:
        """Add rewards to the running returns, and keep those of episodes that ended."""
        self.running += reward
        self.length += 1
        for i in np.flatnonzero(done):
            self.returns.append(float(self.running[i]))
            self.lengths.append(int(self.length[i]))
        self.running[done] = 0.0
        self.length[done] = 0

    def row(self) -> dict[str, float]:
        """Return the means of the recent episodes; NaN before one has ended."""
        if not self.returns:
            return {"return": float("nan"), "length": float("nan")}
        return {"return": float(np.mean(self.returns)), "length": float(np.mean(self.lengths))}

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        own = {"running": self.running, "length": self.length}
        return {"returns": list(self.returns), "lengths": list(self.lengths), **pack(own)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what a checkpoint kept."""
        self.returns.extend(state["returns"])
        self.lengths.extend(state["lengths"])
        self.running, self.length = state["running"].numpy(), state["length"].numpy()


class Runner:
    """Steps the worlds of an environment and counts returns.

    Attributes:
        env: the environment.
        observation: float32[worlds, n], what the policy sees next.
        episodes: their returns.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], seed: int, where: str) -> None:
        """Check the environment and start all worlds."""
        mode = env.metadata.get("autoreset_mode")
        if mode not in (AutoresetMode.SAME_STEP, AutoresetMode.SAME_STEP.value):
            raise ParameterError(
                f"{where}: the environment resets in mode {mode}; learners need "
                "AutoresetMode.SAME_STEP: pass it when the environment is made."
            )
        self.env: Any = env
        self.where = where
        self.observations = box(env.single_observation_space, "observations").shape[0]
        actions = box(env.single_action_space, "actions")
        self.actions, self.low, self.high = actions.shape[0], actions.low, actions.high
        if not (np.isfinite(self.low).all() and np.isfinite(self.high).all()):
            raise ParameterError(
                f"{where}: the actions of the environment have no bounds; learners need finite "
                "ones: wrap the environment."
            )
        self.worlds = env.num_envs
        self.episodes = Episodes(self.worlds)
        self.restart = seed
        self.reset(seed)

    def reset(self, seed: int) -> None:
        """Start all worlds anew."""
        observation, _ = self.env.reset(seed=seed)
        self.observation = self._tensor(observation, "observation")
        self.episodes.start()

    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Step all worlds.

        Args:
            action: float32[worlds, m], in the units of the environment.

        Returns:
            The successor float32[worlds, n], which is the last observation of an episode that
            ended, and rewards, terminations and truncations.
        """
        if not bool(torch.isfinite(action).all()):
            world = int(torch.nonzero(~torch.isfinite(action).all(-1))[0])
            raise OptimizationError(f"the policy gives NaN or infinity in world {world}")
        observation, reward, terminated, truncated, info = self.env.step(action.numpy())
        self.observation = self._tensor(observation, "observation")
        done = terminated | truncated
        after = self.observation
        if done.any():
            after = after.clone()
            which = np.flatnonzero(done)
            rows = np.stack([np.asarray(info["final_obs"][i], np.float32) for i in which])
            after[torch.from_numpy(which)] = self._tensor(rows, "last observation")
        self.episodes.add(reward, done)
        return (
            after,
            self._tensor(reward, "reward"),
            torch.as_tensor(terminated, dtype=torch.bool),
            torch.as_tensor(truncated, dtype=torch.bool),
        )

    def _tensor(self, value: Any, what: str) -> Tensor:
        """Return an array of the environment as a tensor of its own, finite."""
        tensor = torch.tensor(np.asarray(value, np.float32))
        if not bool(torch.isfinite(tensor).all()):
            raise OptimizationError(f"the environment gives a {what} that is NaN or infinite")
        return tensor

    @property
    def has_state(self) -> bool:
        """Whether the environment can give and take its state."""
        return all(hasattr(self.env.unwrapped, name) for name in ("get_state", "set_state"))

    def before_checkpoint(self, seed: int) -> None:
        """Start all worlds anew where the environment cannot give its state."""
        if not self.has_state:
            self.reset(seed)
            self.restart = seed

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        state: dict[str, Any] = {"episodes": self.episodes.state_dict()}
        if not self.has_state:
            return {**state, "restart": self.restart}
        own = pack(self.env.unwrapped.get_state())
        return {**state, "env": own, "observation": self.observation}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what a checkpoint kept."""
        if "restart" in state:
            self.reset(state["restart"])
        else:
            self.env.unwrapped.set_state(unpack(state["env"]))
            self.observation = state["observation"]
        self.episodes.load_state_dict(state["episodes"])


def pack(value: Any) -> Any:
    """Return a nest of arrays as one of tensors, which a file of torch may hold."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    if isinstance(value, dict):
        return {str(k): pack(x) for k, x in value.items()}
    if isinstance(value, (list, tuple)):
        return [pack(x) for x in value]
    return value


def unpack(value: Any) -> Any:
    """Return a nest of tensors as one of arrays."""
    if isinstance(value, Tensor):
        return value.numpy()
    if isinstance(value, dict):
        return {k: unpack(x) for k, x in value.items()}
    if isinstance(value, list):
        return [unpack(x) for x in value]
    return value
