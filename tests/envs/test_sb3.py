"""The adapter to stable-baselines3, where that is installed."""

import warnings

import gymnasium
import numpy as np
import pytest

pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")

import featherback.envs as envs
import featherback.envs.sb3 as envs_sb3
from featherback.errors import FeatherbackError


@pytest.mark.parametrize("name", envs.TASKS)
def test_stable_baselines_accepts_the_environment(name: str) -> None:
    """Pass its check of an environment."""
    from stable_baselines3.common.env_checker import check_env

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(gymnasium.make(f"featherback/{name}-v0").unwrapped, skip_render_check=True)


def test_steps_are_those_of_the_vector_environment() -> None:
    """Give observations, rewards and ends in its form, and the last observation of an episode."""
    ours = envs_sb3.make("Humanoid", 3, max_episode_steps=2)
    plain = envs.make("Humanoid", 3, max_episode_steps=2, autoreset_mode="same_step")
    ours.seed(4)
    seen, _ = plain.reset(seed=4)
    np.testing.assert_array_equal(ours.reset(), seen.astype(np.float32))
    action = np.random.default_rng(0).uniform(-1, 1, (3, 17)).astype(np.float32)
    for step in range(2):
        obs, reward, done, told = ours.step(action)
        there = plain.step(0.4 * action.astype(np.float64))
        np.testing.assert_allclose(obs, there[0], rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose(reward, there[1], rtol=1e-5)
        assert done.tolist() == [step == 1] * 3
    final = there[4]["final_obs"].astype(np.float32)
    np.testing.assert_allclose(told[2]["terminal_observation"], final[2], rtol=1e-5, atol=1e-4)
    assert all(t["TimeLimit.truncated"] for t in told)
    assert ours.get_attr("num_envs") == [3] * 3 and ours.env_is_wrapped(object) == [False] * 3


def test_another_autoreset_mode_is_refused() -> None:
    """Say which mode it takes."""
    with pytest.raises(FeatherbackError, match='autoreset_mode="same_step"'):
        envs_sb3.VecEnvAdapter(envs.make("Hopper", 2))


def test_an_algorithm_learns_from_it() -> None:
    """Run a few steps of its PPO."""
    from stable_baselines3 import PPO

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env = envs_sb3.make("CartPole", 4)
        model = PPO("MlpPolicy", env, n_steps=8, batch_size=16, n_epochs=1, device="cpu", seed=0)
        model.learn(32)
    assert model.num_timesteps == 32
