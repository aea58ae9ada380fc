"""Environments with gradients for JAX: pure functions of a state, for jit, grad and scan.

    env = featherback.envs.jax.make("Ant", worlds=64)
    state, obs = env.reset(seed=0)
    state, out = jax.jit(env.step)(state, policy(obs))

The state holds everything: where the worlds are, how old their episodes are, and where the next
ones start. Starts are drawn by the reset, `starts` of them for each world and in the order in which
a vector environment draws them; after the last the first comes again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import featherback.jax as fbj
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

LIBRARY = (jnp, fbj)


class EnvState(NamedTuple):
    """Where the worlds of an environment are.

    Attributes:
        q: real[worlds, nq], configurations.
        v: real[worlds, nv], velocities.
        act: real[worlds, na], activations.
        u: real[worlds, nu], the controls held last.
        action: real[worlds, n], the actions taken last.
        age: int32[worlds], steps since the reset.
        episode: int32[worlds], episodes that were started.
        starts: first states of the episodes to come, real[worlds, starts, nq] and
            real[worlds, starts, nv].
        params: parameters by name, shared or with a leading axis for worlds; empty for those of
            the simulator. They may be replaced, and have gradients.
    """

    q: jax.Array
    v: jax.Array
    act: jax.Array
    u: jax.Array
    action: jax.Array
    age: jax.Array
    episode: jax.Array
    starts: tuple[jax.Array, jax.Array]
    params: dict[str, jax.Array]


class StepResult(NamedTuple):
    """What a step tells.

    Attributes:
        observation: real[worlds, n], after the reset where an episode ended.
        reward: real[worlds].
        terminated: bool[worlds].
        truncated: bool[worlds].
        info: the terms of the reward, `final_obs` with the observations before resets,
            `_final_obs` with whose episodes ended, `status` and `nonfinite`.
    """

    observation: jax.Array
    reward: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    info: dict[str, jax.Array]


def make(
    name: str | Task,
    worlds: int = 1,
    *,
    dtype: Any = "float64",
    threads: int = 1,
    contact: str | None = None,
    max_episode_steps: int | None = None,
    randomize: Randomize | None = None,
    starts: int = 16,
    **options: Any,
) -> DifferentiableEnv:
    """Return a batch of worlds of one task with gradients; see `featherback.envs.make`.

    `randomize` draws the parameters of every world once, at a reset; `starts` is the number of
    first states that are drawn for each world.
    """
    given = {**options, "dtype": dtype, "threads": threads, "contact": contact}
    task, sim = build("envs.jax.make()", name, given)
    return DifferentiableEnv(
        task,
        sim,
        worlds,
        max_episode_steps=max_episode_steps,
        randomize=randomize,
        starts=starts,
    )


class DifferentiableEnv:
    """A batch of worlds whose steps are functions of JAX arrays.

    Attributes:
        task: the task.
        sim: the simulator.
        num_envs: number of worlds.
        observation_size: numbers in an observation.
        action_size: numbers in an action.
        low: float64[n], least actions.
        high: float64[n], largest actions.
    """

    def __init__(
        self,
        task: Task,
        sim: Simulator,
        worlds: int,
        *,
        max_episode_steps: int | None = None,
        randomize: Randomize | None = None,
        starts: int = 16,
    ) -> None:
        """Make the worlds; `reset` draws their first states."""
        where = "envs.jax.make()"
        self.task, self.sim = task, sim
        self.num_envs = check_integer(where, "worlds", worlds, minimum=1, maximum=MAX_WORLDS)
        limit = task.max_episode_steps if max_episode_steps is None else max_episode_steps
        self.max_episode_steps = check_integer(where, "max_episode_steps", limit, maximum=2**31 - 1)
        self._count = check_integer(where, "starts", starts, minimum=1, maximum=10**6)
        self.low, self.high = task.bounds(sim.model)
        self.action_size = len(self.low)
        self._randomizer = Randomizer(sim, self.num_envs, randomize) if randomize else None
        self._generators = Generators(self.num_envs)
        self.observation_size = self.reset()[1].shape[1]

    def reset(self, seed: int | None = None) -> tuple[EnvState, jax.Array]:
        """Return worlds at the start of new episodes, and their observations.

        Args:
            seed: of world 0; world i has seed + i, and the first states of a vector environment
                that is reset with it. None goes on with the generators there are.
        """
        n, model = self.num_envs, self.sim.model
        rows = np.arange(n)
        self._generators.seed("reset()", seed, rows)
        q, v = self._draw_starts()
        params: dict[str, jax.Array] = {}
        if self._randomizer is not None:
            self._randomizer.draw(rows, self._generators)
            params = {name: self._array(x) for name, x in self._randomizer.params.items()}
        state = EnvState(
            q=q[:, 0],
            v=v[:, 0],
            act=self._array(np.zeros((n, model.na))),
            u=self._array(np.zeros((n, model.nu))),
            action=self._array(np.zeros((n, self.action_size))),
            age=jnp.zeros(n, jnp.int32),
            episode=jnp.ones(n, jnp.int32),
            starts=(q, v),
            params=params,
        )
        return state, self.observe(state)

    def _array(self, x: Any) -> jax.Array:
        """Return numbers as an array of the simulator's type."""
        return jnp.asarray(np.asarray(x, self.sim.dtype))

    def _draw_starts(self) -> tuple[jax.Array, jax.Array]:
        """Return first states of episodes, real[worlds, starts, nq] and [worlds, starts, nv]."""
        model, start = self.sim.model, self.task.start
        drawn = [
            [start(model, self._generators[i]) for _ in range(self._count)]
            for i in range(self.num_envs)
        ]
        q, v = (self._array([[pair[k] for pair in row] for row in drawn]) for k in range(2))
        return q, v

    def view(self, state: EnvState) -> State:
        """Return the states of all worlds as a task sees them."""
        seen = State(self.sim, LIBRARY, state.params or None)
        seen.q, seen.v, seen.act, seen.u = state.q, state.v, state.act, state.u
        seen.action = state.action
        seen.time = state.age.astype(state.q.dtype) * self.task.step_time(self.sim)
        return seen

    def observe(self, state: EnvState) -> jax.Array:
        """Return the observations, real[worlds, n]."""
        return self.task.observe(self.view(state))

    def step(self, state: EnvState, action: jax.Array) -> tuple[EnvState, StepResult]:
        """Return the worlds after one step, and what it tells; a pure function.

        A world whose action is not finite ends its episode, as does one that leaves the finite
        numbers; both have a reward of zero. A gradient through the latter is not finite.
        """
        if tuple(action.shape) != (self.num_envs, self.action_size):
            raise ShapeError(
                f"step(): the action has shape {tuple(action.shape)}; expected "
                f"{(self.num_envs, self.action_size)}, one row for each world."
            )
        lost = ~jnp.isfinite(action).all(-1)
        action = jnp.where(lost[:, None], 0.0, action).astype(state.q.dtype)
        before = self.view(state)
        moved, status = self._advance(state, self.task.control(before, action))
        lost = lost | ((status & int(Status.NONFINITE)) != 0)
        keep = ~lost[:, None]
        moved = moved._replace(
            q=jnp.where(keep, moved.q, state.q),
            v=jnp.where(keep, moved.v, state.v),
            act=jnp.where(keep, moved.act, state.act),
            action=action,
            age=state.age + 1,
        )
        after = self.view(moved)
        terms, final = self.task.rewards(before, after), self.task.observe(after)
        # states so far out that what is told of them is not finite are lost too
        wrong = ~(jnp.isfinite(total(terms)) & jnp.isfinite(final).all(-1)) & ~lost
        lost = lost | wrong
        terms = {name: jnp.where(wrong, 0.0, x) for name, x in terms.items()}
        seen = jax.lax.cond(wrong.any(), lambda: self.task.observe(before), lambda: final)
        final = jnp.where(wrong[:, None], seen, final)
        ended = self.task.terminated(after)
        terminated = lost if ended is None else ended | lost
        truncated = moved.age >= self.max_episode_steps
        done = terminated | truncated
        moved = self._restart(moved, done)
        info = {**terms, "status": status, "nonfinite": lost}
        info |= {"final_obs": final, "_final_obs": done}
        observation = jnp.where(done[:, None], self.observe(moved), final)
        reward = jnp.where(lost, 0.0, total(terms)).astype(state.q.dtype)
        return moved, StepResult(observation, reward, terminated, truncated, info)

    def _advance(self, state: EnvState, u: jax.Array) -> tuple[EnvState, jax.Array]:
        """Move the states under controls that are held."""
        held = jnp.repeat(u[:, None], self.task.frame_skip, axis=1)
        act = state.act if self.sim.model.na else None
        params: Any = state.params or None
        roll = fbj.rollout(self.sim, state.q, state.v, held, params, act=act)
        ends = (roll.q[:, -1], roll.v[:, -1], roll.act[:, -1])
        return state._replace(q=ends[0], v=ends[1], act=ends[2], u=u), roll.status

    def _restart(self, state: EnvState, done: jax.Array) -> EnvState:
        """Start the next episodes where the last have ended."""
        which = (state.episode % self._count)[:, None, None]
        q, v = (jnp.take_along_axis(x, which, 1)[:, 0] for x in state.starts)
        again = done[:, None]
        return state._replace(
            q=jnp.where(again, q, state.q),
            v=jnp.where(again, v, state.v),
            act=jnp.where(again, 0.0, state.act),
            u=jnp.where(again, 0.0, state.u),
            action=jnp.where(again, 0.0, state.action),
            age=jnp.where(done, 0, state.age),
            episode=state.episode + done,
        )
