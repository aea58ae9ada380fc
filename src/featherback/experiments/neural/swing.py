"""Swinging a pendulum up by open-loop shooting, and feedback along the path that it finds.

Shooting follows the exact gradient of whole episodes from many first guesses and keeps the best.
The feedback is that of a linear-quadratic regulator along this path, from the Jacobians of its
steps, within the bounds of the actions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from featherback._typing import Array
from featherback.envs.tasks.pendulum import NLinkPendulum
from featherback.sim import Simulator, Status

LAST = 20  # steps at the end of an episode in which the tip should be at the top
RESTARTS, ITERATIONS, RATE = 32, 300, 0.1
MOMENT, SPREAD = 0.9, 0.99  # shares of the old moments of the gradient that Adam keeps
EFFORT = 1e-3  # weight of the mean squared action
FREE = 0.9  # share of the range of actions that the path may use; the rest is left for feedback
ANGLE, SPEED, END = 1.0, 0.03, 10.0  # weights of the regulator, for an action weight of 1


@dataclass(frozen=True)
class Path:
    """What shooting found: actions, and the states at the start of every step.

    Attributes:
        action: float64[steps, n].
        q: float64[steps + 1, n].
        v: float64[steps + 1, n].
        gains: float64[steps, n, 2 n], change of the action for a change of the state.
        steps: steps of the environment that the search took, all of them with a gradient.
    """

    action: Array
    q: Array
    v: Array
    gains: Array
    steps: int

    def follow(self, k: int, q: Array, v: Array, *, feedback: bool = True) -> Array:
        """Return actions of step k in states q, v [worlds, n]."""
        if not feedback:
            return np.repeat(self.action[k][None], len(q), 0)
        change = np.concatenate([q - self.q[k], v - self.v[k]], -1)
        return np.clip(self.action[k] + change @ self.gains[k].T, -1.0, 1.0)


def miss_of(q: Array) -> tuple[Array, Array]:
    """Return the squared distance of the tip from the top over that when level, and its slope.

    Args:
        q: float64[..., n].
    """
    angle = np.cumsum(q, -1)
    n = q.shape[-1]
    sine, cosine = np.sin(angle), np.cos(angle)
    x, z = sine.sum(-1, keepdims=True), cosine.sum(-1, keepdims=True) + n
    slope = (x * cosine - z * sine) / n**2
    return (x**2 + z**2)[..., 0] / (2.0 * n**2), np.cumsum(slope[..., ::-1], -1)[..., ::-1]


class Adam:
    """Steps of Adam; the gradient of every world is brought to the length one before."""

    def __init__(self, like: Array) -> None:
        """Start with moments of zero."""
        self.first, self.second, self.count = np.zeros_like(like), np.zeros_like(like), 0

    def step(self, slope: Array) -> Array:
        """Return the step against slopes [worlds, ...], before its rate."""
        length = np.sqrt((slope**2).sum((1, 2), keepdims=True))
        slope = slope / np.maximum(length, 1e-12)
        self.count += 1
        self.first += (1.0 - MOMENT) * (slope - self.first)
        self.second += (1.0 - SPREAD) * (slope**2 - self.second)
        spread = np.sqrt(self.second / (1.0 - SPREAD**self.count))
        return -self.first / (1.0 - MOMENT**self.count) / (spread + 1e-8)


def shoot(
    task: NLinkPendulum, seed: int, *, iterations: int = ITERATIONS, last: int = LAST
) -> Path:
    """Search for actions from the start without noise; `last`: steps at the end that count."""
    sim = task.simulator()
    rng = np.random.default_rng(seed)
    steps, n = task.max_episode_steps, task.links
    q, v = (np.zeros((RESTARTS, n)) for _ in range(2))
    q[:, 0] = 0.5 * np.pi
    # first guesses are held for ten steps
    y = np.repeat(rng.normal(0.0, 1.0, (RESTARTS, -(-steps // 10), n)), 10, 1)[:, :steps]
    adam = Adam(y)
    best, found = np.inf, np.zeros((steps, n))
    for k in range(iterations):
        action = FREE * np.tanh(y)
        cost, slope = _cost(sim, task, (q, v, action), last)
        if cost.min() < best:
            best, found = float(cost.min()), action[cost.argmin()].copy()
        rate = RATE * (1.0 - 0.9 * k / iterations)
        y += rate * adam.step(slope * (FREE - action**2 / FREE))
        # where a world was lost the next guess is weaker
        y[~np.isfinite(cost)] *= 0.5
    return regulate(sim, task, found, RESTARTS * iterations * steps)


def _cost(
    sim: Simulator, task: NLinkPendulum, start: tuple[Array, Array, Array], last: int
) -> tuple[Array, Array]:
    """Return the costs of actions [worlds, steps, n] and their gradients.

    A world that leaves the finite numbers has an infinite cost and no gradient.
    """
    q, v, action = start
    skip = task.frame_skip
    held = np.repeat(task.torque * action, skip, 1)
    roll = sim.rollout(q, v, held)
    bad = (roll.status & np.uint32(Status.NONFINITE)) != 0
    if np.any(bad):
        # a world that leaves the finite numbers has no gradient: it swings freely instead
        roll = sim.rollout(q, v, np.where(bad[:, None, None], 0.0, held))
    seen = np.asarray(roll.q, np.float64)
    miss, slope = miss_of(seen[:, skip::skip][:, -last:])
    bar = np.zeros_like(seen)
    bar[:, skip::skip][:, -last:] = slope / last
    effort = EFFORT * (action**2).mean((1, 2))
    back = roll.vjp(bar).u.reshape(*action.shape[:2], skip, -1).sum(2)
    gradient = task.torque * back + 2.0 * EFFORT * action / action[0].size
    gradient[bad] = 0.0
    return np.where(bad, np.inf, miss.mean(1) + effort), gradient


def regulate(sim: Simulator, task: NLinkPendulum, action: Array, steps: int) -> Path:
    """Return the path of actions with the gains of the regulator along it."""
    skip, n = task.frame_skip, task.links
    u = np.repeat(task.torque * action, skip, 0)
    q0 = np.zeros(n)
    q0[0] = 0.5 * np.pi
    roll = sim.rollout(q0, np.zeros(n), u)
    a, b = sim.linearize(roll.q[:-1], roll.v[:-1], u)
    a = np.asarray(a, np.float64).reshape(len(action), skip, 2 * n, 2 * n)
    b = task.torque * np.asarray(b, np.float64).reshape(len(action), skip, 2 * n, n)
    state, control = a[:, 0], b[:, 0]
    for k in range(1, skip):
        state, control = a[:, k] @ state, a[:, k] @ control + b[:, k]
    weight = np.diag(np.repeat([ANGLE, SPEED], n))
    value = END * weight
    gains = np.zeros((len(action), n, 2 * n))
    for k in reversed(range(len(action))):
        bend = np.eye(n) + control[k].T @ value @ control[k]
        gains[k] = -np.linalg.solve(bend, control[k].T @ value @ state[k])
        closed = state[k] + control[k] @ gains[k]
        value = weight + gains[k].T @ gains[k] + closed.T @ value @ closed
    q, v = (np.asarray(x[::skip], np.float64) for x in (roll.q, roll.v))
    return Path(action, q, v, gains, steps)


def follow(path: Path, env: Any, *, seed: int, feedback: bool = True) -> Array:
    """Run a path from starts with noise; return the relative rewards, float64[steps, worlds]."""
    env.reset(seed=seed)
    out: list[Array] = []
    for k in range(len(path.action)):
        q, v = np.array(env.worlds.q), np.array(env.worlds.v)
        seen, _, _, truncated, info = env.step(path.follow(k, q, v, feedback=feedback))
        seen = info["final_obs"] if np.any(truncated) else seen
        out.append(relative_reward(seen, path.action.shape[1]))
    return np.array(out)


def relative_reward(observation: Any, links: int) -> Array:
    """Return 1 - 2 d^2 / d0^2 of observations of the pendulum, float64[worlds]."""
    x = observation[:, :links].sum(-1)
    z = observation[:, links : 2 * links].sum(-1) + links
    return 1.0 - (x**2 + z**2) / links**2
