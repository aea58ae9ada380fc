"""Runs a policy and counts its returns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from featherback._checks import check_integer
from featherback._typing import Array
from featherback.errors import ShapeError
from featherback.learn.policy import load_policy
from featherback.learn.runner import box, make_env
from featherback.learn.settings import Contact, Settings

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


def evaluate_file(
    path: str | Path,
    *,
    episodes: int = 8,
    seed: int = 0,
    env: str | None = None,
    contact: Contact | None = None,
    options: tuple[str, ...] | None = None,
) -> Array:
    """Run a policy of a file where it was trained, or in another environment.

    Args:
        path: of the policy.
        episodes: how many, one in each world.
        seed: of their starts.
        env: name of another environment; gym:ID is one of gymnasium's own.
        contact: another contact law.
        options: other options of the environment, each as name=value.

    Returns:
        float64[episodes], returns.
    """
    check_integer("policy", "episodes", episodes)
    check_integer("policy", "seed", seed, minimum=0)
    policy = load_policy(path)
    if env is None:
        env = str(policy.about["env"])
        contact = policy.about["contact"] if contact is None else contact
        options = tuple(policy.about["options"]) if options is None else options
    made = make_env(Settings(env=env, contact=contact, options=options or ()), episodes)
    try:
        seen = box(made.single_observation_space, "observations").shape[0]
        wanted = policy.network.shape.observations
        if seen != wanted:
            raise ShapeError(
                f"policy: {path} takes observations of length {wanted} and {env} gives {seen}; "
                "name the environment it was trained in, with the same options."
            )
        return run_policy(policy, made, seed=seed)
    finally:
        made.close()
