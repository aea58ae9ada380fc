"""Observations, rewards and resets against those of Gymnasium's own tasks."""

import numpy as np
import pytest

import featherback.envs as envs
from tests.envs.gymnasium_tasks import ALL_TERMS, judge, make_theirs

STEPS, WORLDS = 12, 6
# largest difference measured: 3e-11 of the largest number
TOLERANCE = 1e-9
CONTACT = ("reward_contact", "reward_impact")


@pytest.mark.parametrize("name", ALL_TERMS)
def test_reset_draws_what_gymnasium_draws(name: str) -> None:
    """Start from the state that Gymnasium's task starts from with the same seed."""
    ours, theirs = envs.make(name, 3), make_theirs(name)
    for seed in (0, 5):
        ours.reset(seed=seed)
        for i in range(3):
            theirs.reset(seed=seed + i)
            np.testing.assert_array_equal(ours.worlds.q[i], theirs.data.qpos)
            np.testing.assert_array_equal(ours.worlds.v[i], theirs.data.qvel)


@pytest.mark.parametrize("name", ALL_TERMS)
def test_observations_and_rewards_are_gymnasiums(name: str) -> None:
    """Give what Gymnasium's own functions give on the same states, terms of contact included."""
    options = ALL_TERMS[name]
    ours, theirs = envs.make(name, WORLDS, max_episode_steps=10**6, **options), make_theirs(name)
    rng = np.random.default_rng(3)
    ours.reset(seed=1)
    low, high = ours.worlds.low, ours.worlds.high
    assert np.array_equal(ours.single_action_space.low, theirs.action_space.low)
    assert ours.single_observation_space.shape == theirs.observation_space.shape
    forces = 0.0
    for _ in range(STEPS):
        actions = rng.uniform(low, high, (WORLDS, len(low)))
        before = [(q.copy(), v.copy()) for q, v in zip(ours.worlds.q, ours.worlds.v, strict=True)]
        found = ours.worlds.step(actions)
        forces = max([forces, *np.abs([x for k, x in found.terms.items() if k in CONTACT]).flat])
        for i in range(WORLDS):
            u = actions[i]
            after = (ours.worlds.q[i], ours.worlds.v[i], u)
            seen, reward, ended = judge(theirs, (*before[i], u), after, u)
            scale = max(1.0, np.abs(seen).max())
            np.testing.assert_allclose(found.observation[i], seen, atol=TOLERANCE * scale, rtol=0)
            assert abs(found.reward[i] - reward) <= TOLERANCE * max(1.0, abs(reward))
            assert found.terminated[i] == ended
    assert forces > 0.0 or not {"contact_cost_weight", "impact_cost_weight"} & set(options)


def test_policy_of_gymnasium_meets_the_same_motion() -> None:
    """Move as Gymnasium's task does, under the contact law and integrator of its file."""
    for name in ("HalfCheetah", "Hopper", "Ant"):
        ours, theirs = envs.make(name, 1), make_theirs(name)
        ours.reset(seed=4)
        theirs.reset(seed=4)
        rng = np.random.default_rng(0)
        for _ in range(10):
            action = rng.uniform(ours.worlds.low, ours.worlds.high)
            ours.worlds.step(action[None])
            theirs.do_simulation(action, theirs.frame_skip)
        np.testing.assert_allclose(ours.worlds.q[0], theirs.data.qpos, atol=1e-5)
