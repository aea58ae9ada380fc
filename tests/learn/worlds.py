"""A small environment for tests: a mass on a line is to be held at the origin."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from featherback import Model, load
from featherback.envs import State, Task

LIMIT = 20  # steps of an episode
DT = 0.2
EDGE = 2.0  # an episode ends there


class Line(VectorEnv[Any, Any, Any]):
    """Observations are place and speed; actions are forces from -2 to 2."""

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, worlds: int, poison: int = -1) -> None:
        """Make the worlds; the step numbered `poison` gives NaN."""
        self.num_envs = worlds
        self.single_observation_space = Box(-np.inf, np.inf, (2,), np.float32)
        self.single_action_space = Box(-2.0, 2.0, (1,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, worlds)
        self.action_space = batch_space(self.single_action_space, worlds)
        self.x = np.zeros((worlds, 2))
        self.k = np.zeros(worlds, np.int64)
        self.poison, self.count = poison, 0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        """Start all worlds."""
        self.rng = np.random.default_rng(seed)
        self._start(np.ones(self.num_envs, bool))
        return self.x.astype(np.float32), {}

    def _start(self, which: Any) -> None:
        self.x[which] = self.rng.uniform(-1.0, 1.0, (int(which.sum()), 2))
        self.k[which] = 0

    def step(self, actions: Any) -> Any:
        """Step all worlds."""
        force = np.clip(actions[:, 0], -2.0, 2.0)
        v = self.x[:, 1] + DT * force
        self.x = np.stack([self.x[:, 0] + DT * v, v], -1)
        self.k += 1
        reward = 1.0 - self.x[:, 0] ** 2 - 0.1 * v**2 - 0.01 * force**2
        if self.count == self.poison:
            self.x[0] = np.nan
        self.count += 1
        terminated = np.abs(self.x[:, 0]) > EDGE
        truncated = self.k >= LIMIT
        done = terminated | truncated
        info: dict[str, Any] = {}
        if done.any():
            final = np.full(self.num_envs, None, object)
            for i in np.flatnonzero(done):
                final[i] = self.x[i].astype(np.float32)
            info = {"final_obs": final, "_final_obs": done}
            self._start(done)
        return self.x.astype(np.float32), reward, terminated, truncated, info


class KeptLine(Line):
    """The same; it can give and take its state."""

    def get_state(self) -> dict[str, Any]:
        """Return all that the next step depends on."""
        state = self.rng.bit_generator.state
        return {"x": self.x, "k": self.k, "rng": str(state)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over a state."""
        self.x, self.k = state["x"].copy(), state["k"].copy()
        self.rng = np.random.default_rng()
        self.rng.bit_generator.state = ast.literal_eval(state["rng"])


class GradientLine:
    """The same with gradients for torch."""

    def __init__(self, worlds: int) -> None:
        """Make the worlds."""
        self.num_envs, self.observation_size, self.action_size = worlds, 2, 1
        self.low, self.high = torch.tensor([-2.0]), torch.tensor([2.0])
        self.x = torch.zeros(worlds, 2)
        self.k = torch.zeros(worlds, dtype=torch.int64)

    def reset(self, seed: int) -> Any:
        """Start all worlds."""
        self.rng = np.random.default_rng(seed)
        self.x = self._starts(self.num_envs)
        self.k = torch.zeros_like(self.k)
        return self.x

    def _starts(self, n: int) -> Any:
        return torch.tensor(self.rng.uniform(-1.0, 1.0, (n, 2)).astype(np.float32))

    def step(self, action: Any) -> Any:
        """Step all worlds."""
        force = action[:, 0].clamp(-2.0, 2.0)
        v = self.x[:, 1] + DT * force
        final = torch.stack([self.x[:, 0] + DT * v, v], -1)
        reward = 1.0 - final[:, 0].square() - 0.1 * v.square() - 0.01 * force.square()
        self.k = self.k + 1
        terminated, truncated = final[:, 0].detach().abs() > EDGE, self.k >= LIMIT
        done = terminated | truncated
        self.x = torch.where(done[:, None], self._starts(self.num_envs), final)
        self.k = torch.where(done, 0, self.k)
        return self.x, reward, terminated, truncated, {"final_obs": final, "_final_obs": done}

    def detach(self) -> Any:
        """Cut the graph."""
        self.x = self.x.detach()
        return self.x


class KeptGradientLine(GradientLine):
    """The same; it can give and take its state."""

    def get_state(self) -> dict[str, Any]:
        """Return all that the next step depends on."""
        rng = str(self.rng.bit_generator.state)
        return {"x": self.x.detach().numpy().copy(), "k": self.k.numpy().copy(), "rng": rng}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over a state."""
        self.x, self.k = torch.from_numpy(state["x"]), torch.from_numpy(state["k"])
        self.rng = np.random.default_rng()
        self.rng.bit_generator.state = ast.literal_eval(state["rng"])


class NextStep(Line):
    """The same; episodes start again one step later."""

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012


class Endless(Line):
    """The same; actions have no bounds."""

    def __init__(self, worlds: int) -> None:
        """Make the worlds."""
        super().__init__(worlds)
        self.single_action_space = Box(-np.inf, np.inf, (1,), np.float32)


@dataclass(frozen=True, kw_only=True)
class Broken(Task):
    """A task whose model has no mass."""

    def model(self) -> Model:
        """Return nothing, since the file is refused."""
        body = '<body name="broken"><freejoint/></body>'
        return load(f"<mujoco><worldbody>{body}</worldbody></mujoco>", name="broken")

    def observe(self, state: State) -> Any:
        """Return velocities."""
        return state.v

    def rewards(self, before: State, after: State) -> dict[str, Any]:
        """Return nothing of worth."""
        return {"reward": 0.0 * after.v[:, 0]}
