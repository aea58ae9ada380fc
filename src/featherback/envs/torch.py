"""Environments with gradients for torch: a step is a node of the graph.

    env = featherback.envs.torch.make("Ant", worlds=64, dtype="float32")
    obs = env.reset(seed=0)
    obs, reward, terminated, truncated, info = env.step(policy(obs))

Rewards and observations have gradients with respect to actions, the state and parameters. An
episode that ends starts again in the same step; `info["final_obs"]` has the observation before
that, with its graph, for the value of the state at the end. `detach` cuts the graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

import featherback.torch as fbt
from featherback._checks import check_integer
from featherback.envs.generators import Generators
from featherback.envs.randomize import Randomizer
from featherback.envs.registry import build
from featherback.envs.state import State
from featherback.envs.task import Task, total
from featherback.envs.worlds import MAX_WORLDS, Randomize
from featherback.errors import ShapeError
from featherback.sim import Simulator
from featherback.sim.bridge import Status

LIBRARY = (torch, fbt)


def make(
    name: str | Task,
    worlds: int = 1,
    *,
    dtype: Any = "float64",
    threads: int = 1,
    contact: str | None = None,
    max_episode_steps: int | None = None,
    randomize: Randomize | None = None,
    **options: Any,
) -> DifferentiableEnv:
    """Return a batch of worlds of one task with gradients; see `featherback.envs.make`."""
    given = {**options, "dtype": dtype, "threads": threads, "contact": contact}
    task, sim = build("envs.torch.make()", name, given)
    return DifferentiableEnv(
        task, sim, worlds, max_episode_steps=max_episode_steps, randomize=randomize
    )


class DifferentiableEnv:
    """A batch of worlds whose steps are part of torch's graph.

    Attributes:
        task: the task.
        sim: the simulator.
        num_envs: number of worlds.
        observation_size: numbers in an observation.
        action_size: numbers in an action.
        low: real[n], least actions.
        high: real[n], largest actions.
        q: real[worlds, nq], configurations, with their graph.
        v: real[worlds, nv], velocities.
        act: real[worlds, na], activations.
        age: int64[worlds], steps since the reset; it may be set, so that episodes do not all end
            at once.
        params: parameters by name, each in its own shape or with a leading axis for worlds, or
            None; they may be set, and have gradients.
    """

    def __init__(
        self,
        task: Task,
        sim: Simulator,
        worlds: int,
        *,
        max_episode_steps: int | None = None,
        randomize: Randomize | None = None,
    ) -> None:
        """Make worlds at the model's own state; `reset` draws their first states."""
        where = "envs.torch.make()"
        self.task, self.sim = task, sim
        self.num_envs = check_integer(where, "worlds", worlds, minimum=1, maximum=MAX_WORLDS)
        limit = task.max_episode_steps if max_episode_steps is None else max_episode_steps
        self.max_episode_steps = check_integer(where, "max_episode_steps", limit, maximum=10**12)
        self.real = torch.float64 if sim.dtype == np.float64 else torch.float32
        self.low, self.high = (self._tensor(x) for x in task.bounds(sim.model))
        self.action_size = len(self.low)
        self._randomizer = Randomizer(sim, self.num_envs, randomize) if randomize else None
        self._generators = Generators(self.num_envs)
        self.params: dict[str, Tensor] | None = None
        self._draw_params(np.arange(0))
        model, n = sim.model, self.num_envs
        self.q, self.v = (self._tensor(x).repeat(n, 1) for x in (model.q0, model.v0))
        self.act = self.q.new_zeros(n, model.na)
        self.age = torch.zeros(n, dtype=torch.int64)
        self._forget()
        self.observation_size = self.observe().shape[1]

    def _tensor(self, x: Any) -> Tensor:
        """Return numbers as a tensor of the simulator's type."""
        return torch.as_tensor(np.asarray(x, self.sim.dtype).copy())

    def _forget(self) -> None:
        """Forget the last actions."""
        self._u = self.q.new_zeros(self.num_envs, self.sim.model.nu)
        self._action = self.q.new_zeros(self.num_envs, self.action_size)

    def state(self) -> State:
        """Return the states of all worlds, with their graph."""
        state = State(self.sim, LIBRARY, self.params)
        state.q, state.v, state.act = self.q, self.v, self.act
        state.u, state.action = self._u, self._action
        state.time = self.age.to(self.real) * self.task.step_time(self.sim)
        return state

    def observe(self) -> Tensor:
        """Return the observations, real[worlds, n]."""
        return self.task.observe(self.state())

    def reset(self, seed: int | None = None) -> Tensor:
        """Start new episodes in all worlds; return observations without a graph.

        Args:
            seed: of world 0; world i has seed + i, and the first state of a vector environment
                that is reset with it. None goes on with the generators there are.
        """
        rows = np.arange(self.num_envs)
        self._generators.seed("reset()", seed, rows)
        self.q, self.v = self._starts(rows)
        self.act = torch.zeros_like(self.act)
        self.age = torch.zeros_like(self.age)
        self._forget()
        self._draw_params(rows)
        return self.observe().detach()

    def _starts(self, rows: Any) -> tuple[Tensor, Tensor]:
        """Return first states of some worlds."""
        model, start = self.sim.model, self.task.start
        drawn = [start(model, self._generators[i]) for i in rows]
        q, v = (self._tensor(np.array(part)) for part in zip(*drawn, strict=True))
        return q, v

    def _draw_params(self, rows: Any) -> None:
        """Draw the parameters of worlds that start."""
        if self._randomizer is None:
            return
        if len(rows):
            self._randomizer.draw(rows, self._generators)
        self.params = {name: self._tensor(x) for name, x in self._randomizer.params.items()}

    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """Take one step in every world.

        Args:
            action: real[worlds, n], with its graph. A world whose action is not finite ends its
                episode, as does one that leaves the finite numbers; both have a reward of zero
                and no gradient.

        Returns:
            Observations, rewards, terminated, truncated, and a dictionary: the terms of the
            reward, `final_obs` with the observations before resets, `_final_obs` with whose
            episodes ended, `status` and `nonfinite`.
        """
        if tuple(action.shape) != (self.num_envs, self.action_size):
            raise ShapeError(
                f"step(): the action has shape {tuple(action.shape)}; expected "
                f"{(self.num_envs, self.action_size)}, one row for each world."
            )
        lost = ~torch.isfinite(action.detach()).all(-1)
        before = self.state()
        self.age = self.age + 1
        while True:
            roll, lost = self._advance(before, action.to(self.real), lost)
            after = self.state()
            terms, final = self.task.rewards(before, after), self.task.observe(after)
            told = total(terms).to(self.real)
            # states so far out that what is told of them is not finite are lost too
            known = torch.isfinite(told.detach()) & torch.isfinite(final.detach()).all(-1)
            if bool((known | lost).all()):
                break
            lost = lost | ~known
        reward = torch.where(lost, 0.0, told)
        ended = self.task.terminated(after)
        terminated = lost.clone() if ended is None else ended | lost
        truncated = self.age >= self.max_episode_steps
        done = terminated | truncated
        info = {**terms, "status": roll.status, "nonfinite": lost}
        info |= {"final_obs": final, "_final_obs": done}
        obs = self._restart(done) if bool(done.any()) else final
        return obs, reward, terminated, truncated, info

    def _advance(self, before: State, action: Tensor, lost: Tensor) -> tuple[Any, Tensor]:
        """Move the states; worlds that are lost stay where they were, without a gradient."""
        roll, found = self._roll(before, action, lost)
        if bool((found & ~lost).any()):
            # a world that leaves the finite numbers has no gradient: take it out of the graph
            lost = lost | found
            roll, _ = self._roll(before, action, lost)
        ends = (roll.q[:, -1], roll.v[:, -1], roll.act[:, -1])
        olds = (before.q, before.v, before.act)
        self.q, self.v, self.act = (
            torch.where(lost[:, None], old.detach(), new)
            for new, old in zip(ends, olds, strict=True)
        )
        return roll, lost

    def _roll(self, before: State, action: Tensor, lost: Tensor) -> tuple[Any, Tensor]:
        """Return a rollout, with lost worlds at rest in it, and where it is not finite."""
        out = lost[:, None]
        self._action = torch.where(out, 0.0, action)
        self._u = self.task.control(before, self._action)
        q, v, act, u = before.q, before.v, before.act, self._u
        if bool(lost.any()):
            q = torch.where(out, self._tensor(self.sim.model.q0), q)
            v, act, u = (torch.where(out, 0.0, x) for x in (v, act, u))
        held = u[:, None].expand(-1, self.task.frame_skip, -1)
        own = act if self.sim.model.na else None
        roll = fbt.rollout(self.sim, q, v, held, self.params, act=own)
        return roll, (roll.status & int(Status.NONFINITE)) != 0

    def _restart(self, done: Tensor) -> Tensor:
        """Start new episodes where they ended; return the observations after that."""
        rows = np.flatnonzero(done.numpy())
        q, v = self._starts(rows)
        index = torch.as_tensor(rows)
        self.q, self.v = self.q.index_copy(0, index, q), self.v.index_copy(0, index, v)
        zero = done[:, None]
        self.act, self._u, self._action = (
            torch.where(zero, 0.0, x) for x in (self.act, self._u, self._action)
        )
        self.age = torch.where(done, 0, self.age)
        self._draw_params(rows)
        return self.observe()

    def get_state(self) -> dict[str, Any]:
        """Return all that later steps depend on, in arrays and text; the graph is left out."""
        own = {"q": self.q, "v": self.v, "act": self.act, "u": self._u, "action": self._action}
        state: dict[str, Any] = {k: x.detach().numpy().copy() for k, x in own.items()}
        state |= {"age": self.age.numpy().copy(), "generators": self._generators.get_state()}
        if self._randomizer is not None:
            state["params"] = self._randomizer.get_state()
        return state

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `get_state` returned, in an environment made with the same arguments."""
        self.q, self.v, self.act = (self._tensor(state[name]) for name in ("q", "v", "act"))
        self._u, self._action = self._tensor(state["u"]), self._tensor(state["action"])
        self.age = torch.as_tensor(state["age"].copy())
        self._generators.set_state(state["generators"])
        if self._randomizer is not None:
            self._randomizer.set_state(state["params"])
            self._draw_params(np.arange(0))

    def detach(self) -> Tensor:
        """Cut the graph at the states that the worlds are in; return observations of them."""
        self.q, self.v, self.act = self.q.detach(), self.v.detach(), self.act.detach()
        self._u, self._action = self._u.detach(), self._action.detach()
        return self.observe().detach()
