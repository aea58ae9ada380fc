"""Runs a policy and counts its returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from featherback._typing import Array

Act = Callable[[NDArray[Any]], NDArray[Any]]
LIMIT = 100_000  # steps after which an environment that never ends is left


def run_policy(policy: Act, env: Any, *, seed: int = 0) -> Array:
    """Run one episode in every world of a vector environment with same-step resets.

    Args:
        policy: observations[worlds, n] -> actions[worlds, m].
        env: a gymnasium.vector.VectorEnv.
        seed: of the worlds' starts.

    Returns:
        float64[worlds], the sum of rewards of each world's first episode.
    """
    observation, _ = env.reset(seed=seed)
    total = np.zeros(env.num_envs)
    live = np.ones(env.num_envs, bool)
    for _ in range(LIMIT):
        observation, reward, terminated, truncated, _ = env.step(policy(observation))
        total += np.where(live, reward, 0.0)
        live &= ~(np.asarray(terminated) | np.asarray(truncated))
        if not live.any():
            break
    return total
