"""Environments with gradients, as the learners use them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from featherback.errors import OptimizationError, ParameterError
from featherback.learn.runner import Episodes, pack, unpack
from featherback.learn.settings import Settings


def make_gradient_env(settings: Settings, worlds: int) -> Any:
    """Return the environment of the settings with gradients for torch."""
    if ":" in settings.env:
        raise ParameterError(
            f"learn {settings.learner}: the environment {settings.env} has no gradients; name one "
            "of featherback.envs, or take a learner that needs none, such as ppo."
        )
    import featherback.envs.torch as envs

    options: dict[str, Any] = {"dtype": "float32", **settings.env_options()}
    return envs.make(settings.env, worlds, **options)


class GradientRunner:
    """Steps the worlds of an environment as nodes of torch's graph.

    The networks are of float32, whatever the number type of the simulator.

    Attributes:
        env: as `featherback.envs.torch.make` returns it.
        observation: float32[worlds, n], what the policy sees next, with its graph.
        episodes: returns of the episodes.
    """

    def __init__(self, env: Any, seed: int, where: str) -> None:
        """Start all worlds."""
        self.env, self.where = env, where
        self.worlds: int = env.num_envs
        self.observations: int = env.observation_size
        self.actions: int = env.action_size
        self.low, self.high = env.low.float(), env.high.float()
        if not bool(torch.isfinite(env.low).all() & torch.isfinite(env.high).all()):
            raise ParameterError(
                f"{where}: the actions of the environment have no bounds; learners need finite "
                "ones: give them in the task's bounds()."
            )
        self.episodes = Episodes(self.worlds)
        self.restart = seed
        self.reset(seed)

    def reset(self, seed: int) -> None:
        """Start all worlds anew."""
        self.observation: Tensor = self.env.reset(seed).float()
        self.episodes.start()

    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Step all worlds.

        Args:
            action: float32[worlds, m], in the units of the environment, with its graph.

        Returns:
            The successor float32[worlds, n], which is the last observation of an episode that
            ended, rewards, both with their graph, terminations and truncations.
        """
        if not bool(torch.isfinite(action).all()):
            world = int(torch.nonzero(~torch.isfinite(action).all(-1))[0])
            raise OptimizationError(f"the policy gives NaN or infinity in world {world}")
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.observation, reward = observation.float(), reward.float()
        if not bool(torch.isfinite(self.observation).all() & torch.isfinite(reward).all()):
            raise OptimizationError("the environment gives NaN or infinity")
        done = terminated | truncated
        after = torch.where(done[:, None], info["final_obs"].float(), self.observation)
        self.episodes.add(reward.detach().numpy(), done.numpy())
        return after, reward, terminated, truncated

    def detach(self) -> None:
        """Cut the graph here."""
        self.observation = self.env.detach().float()

    @property
    def has_state(self) -> bool:
        """Whether the environment can give and take its state."""
        return all(hasattr(self.env, name) for name in ("get_state", "set_state"))

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
        return {**state, "env": pack(self.env.get_state())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what a checkpoint kept."""
        if "restart" in state:
            self.reset(state["restart"])
        else:
            self.env.set_state(unpack(state["env"]))
            self.observation = self.env.detach().float()
        self.episodes.load_state_dict(state["episodes"])


class Plain:
    """An environment with gradients as one of arrays, for policies that are only run."""

    def __init__(self, env: Any) -> None:
        """Keep the environment."""
        self.env = env
        self.num_envs: int = env.num_envs

    def reset(self, *, seed: int) -> tuple[Any, dict[str, Any]]:
        """Start all worlds."""
        return self.env.reset(seed).numpy(), {}

    def step(self, action: Any) -> tuple[Any, ...]:
        """Step all worlds."""
        with torch.no_grad():
            found = self.env.step(torch.from_numpy(action))
        return (*(part.numpy() for part in found[:4]), {})

    def close(self) -> None:
        """Do nothing."""
