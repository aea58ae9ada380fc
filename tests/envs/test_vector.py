"""The vector environment: the contract of Gymnasium, seeds, autoreset, and worlds that go wrong."""

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import featherback.envs as envs
from featherback.envs import TASKS
from featherback.errors import ParameterError, ShapeError


def run(env: Any, steps: int, seed: int) -> list[Any]:
    """Return what an environment tells over some steps under random actions."""
    rng = np.random.default_rng(seed)
    low, high = env.worlds.low, env.worlds.high
    return [env.step(rng.uniform(low, high, (env.num_envs, len(low)))) for _ in range(steps)]


@pytest.mark.parametrize("name", TASKS)
def test_gymnasium_accepts_the_environment(name: str) -> None:
    """Pass Gymnasium's own check of an environment, pictures included."""
    with warnings.catch_warnings():
        # it finds the bounds of observations and of forces wide
        warnings.simplefilter("ignore")
        env = gymnasium.make(f"featherback/{name}-v0", render_mode="rgb_array")
        check_env(env.unwrapped, skip_render_check=name not in ("Hopper", "LaikagoTrot"))


@pytest.mark.parametrize("name", TASKS)
def test_world_has_the_bits_of_an_environment_by_itself(name: str) -> None:
    """Give in world i of a batch, to the bit, what one environment gives with seed + i."""
    many = gymnasium.make_vec(f"featherback/{name}-v0", num_envs=5)
    assert isinstance(many.unwrapped, gymnasium.vector.VectorEnv)
    seen, _ = many.reset(seed=11)
    single = gymnasium.make(f"featherback/{name}-v0")
    rng = np.random.default_rng(2)
    low, high = many.unwrapped.worlds.low, many.unwrapped.worlds.high
    actions = rng.uniform(low, high, (8, 5, len(low)))
    told = [many.step(a) for a in actions]
    for i in (0, 3):
        first, _ = single.reset(seed=11 + i)
        np.testing.assert_array_equal(seen[i], first)
        for a, (obs, reward, terminated, _, info) in zip(actions, told, strict=True):
            one, r, ended, _, own = single.step(a[i])
            np.testing.assert_array_equal(obs[i], one)
            assert (reward[i], terminated[i]) == (r, ended)
            assert all(info[k][i] == own[k] for k in own)
            if ended:
                break


def test_same_step_resets_at_once() -> None:
    """Return the first observation of the next episode, and the last of the old one beside it."""
    ours = envs.make("Hopper", 6, autoreset_mode="same_step", max_episode_steps=7)
    plain = envs.make("Hopper", 6, autoreset_mode="disabled", max_episode_steps=7)
    assert ours.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    ours.reset(seed=0)
    plain.reset(seed=0)
    told, same = run(ours, 7, 3), run(plain, 7, 3)
    obs, reward, terminated, truncated, info = told[-1]
    assert truncated.all() and not terminated.any() and info["_final_obs"].all()
    np.testing.assert_array_equal(info["final_obs"], same[-1][0])
    np.testing.assert_array_equal(reward, same[-1][1])
    assert not np.array_equal(obs, info["final_obs"]) and (ours.worlds.age == 0).all()
    assert "final_obs" not in told[-2][-1]
    # the next start is that of an environment by itself
    plain.reset(options={"reset_mask": np.ones(6, bool)})
    np.testing.assert_array_equal(obs, plain.worlds.observe())


def test_next_step_resets_one_step_later() -> None:
    """Give the last observation first; the step after it starts the episode and has no reward."""
    env = envs.make("Hopper", 4, max_episode_steps=3)
    env.reset(seed=0)
    told = run(env, 5, 1)
    assert told[2][3].all() and (told[2][1] != 0.0).all()
    obs, reward, terminated, truncated, info = told[3]
    assert (reward == 0.0).all() and not (terminated | truncated).any()
    assert (info["reward_forward"] == 0.0).all()
    again = envs.make("Hopper", 4)
    again.reset(seed=0)
    second, _ = again.reset()
    np.testing.assert_array_equal(obs, second)
    assert (env.worlds.age == 1).all() and (told[4][1] != 0.0).all()


def test_disabled_goes_on_and_resets_by_mask() -> None:
    """Leave ended worlds alone until a mask names them, and others where they are."""
    env = envs.make("Hopper", 3, autoreset_mode=AutoresetMode.DISABLED, max_episode_steps=2)
    env.reset(seed=0)
    run(env, 2, 1)
    before = env.worlds.q.copy()
    env.reset(options={"reset_mask": np.array([False, True, False])})
    moved = (env.worlds.q != before).any(axis=1)
    assert moved.tolist() == [False, True, False] and env.worlds.age.tolist() == [2, 0, 2]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_action_that_is_not_finite_ends_one_episode(bad: float) -> None:
    """End the episode of that world, say so, and leave all others as they would have been."""
    env, plain = (envs.make("Ant", 5, autoreset_mode="same_step") for _ in range(2))
    for e in (env, plain):
        e.reset(seed=0)
    actions = np.random.default_rng(0).uniform(-1, 1, (5, 8))
    harmed = actions.copy()
    harmed[2, 3] = bad
    obs, reward, terminated, _, info = env.step(harmed)
    expected = plain.step(actions)
    rest = [0, 1, 3, 4]
    np.testing.assert_array_equal(obs[rest], expected[0][rest])
    assert terminated.tolist() == [False, False, True, False, False] and reward[2] == 0.0
    assert info["nonfinite"].tolist() == terminated.tolist()
    assert np.isfinite(obs).all() and np.isfinite(info["final_obs"]).all()


def test_a_world_that_leaves_the_finite_numbers_ends_its_episode() -> None:
    """End the episode of a world whose state overflows, with the state before as the last."""
    env = envs.make("NLinkPendulum", 4, autoreset_mode="same_step", dt=0.5, damping=0.0)
    env.reset(seed=0)
    env.worlds.v[1] = 1e200
    held = env.worlds.q.copy()
    obs, reward, terminated, _, info = env.step(np.ones((4, 3)))
    assert terminated.tolist() == [False, True, False, False] and reward[1] == 0.0
    assert info["nonfinite"][1] and info["status"][1] and np.isfinite(obs).all()
    angle = held[1].cumsum()
    np.testing.assert_array_equal(info["final_obs"][1][:3], np.sin(angle))
    assert np.isfinite(env.worlds.q).all()


def test_a_world_of_which_nothing_finite_can_be_told_ends_its_episode() -> None:
    """End the episode of a world whose angles are finite, and too large for a place of its tip."""
    env = envs.make("NLinkPendulum", 3, autoreset_mode="same_step", frame_skip=1)
    env.reset(seed=0)
    env.worlds.v[1] = 1e20
    held = env.worlds.q.copy()
    obs, reward, terminated, _, info = env.step(np.ones((3, 3)))
    assert terminated.tolist() == [False, True, False] == info["nonfinite"].tolist()
    assert reward[1] == 0.0 and np.isfinite(reward).all() and np.isfinite(obs).all()
    assert np.isfinite(info["reward_tip"]).all()
    np.testing.assert_array_equal(info["final_obs"][1][:3], np.sin(held[1].cumsum()))


def test_randomized_parameters_belong_to_a_world() -> None:
    """Draw parameters anew at each reset from the world's generator; single ones do the same."""
    rules = {"body_mass": (0.5, 1.5), "geom_friction": lambda rng, x: x * rng.uniform(0.9, 1.1)}
    env = envs.make("Hopper", 4, randomize=rules, autoreset_mode="same_step")
    env.reset(seed=3)
    mass = env.worlds.params["body_mass"].copy()
    scale = mass[:, 1:] / env.sim.params["body_mass"][1:]
    assert np.ptp(scale, axis=1).max() < 1e-12 and len(np.unique(scale[:, 0])) == 4
    assert (0.5 <= scale).all() and (scale <= 1.5).all()
    one = gymnasium.make("featherback/Hopper-v0", randomize=rules)
    first, _ = one.reset(seed=5)
    np.testing.assert_array_equal(first, env.worlds.observe()[2])
    action = np.full((4, 3), 0.3)
    np.testing.assert_array_equal(one.step(action[2])[0], env.step(action)[0][2])
    plain = envs.make("Hopper", 4)
    plain.reset(seed=3)
    assert not np.array_equal(plain.step(action)[0][2], env.worlds.observe()[2])
    env.reset()
    assert not np.array_equal(env.worlds.params["body_mass"], mass)


def test_float32_and_threads() -> None:
    """Have observations of the number type asked for, and the same bits with more threads."""
    told = []
    for threads in (1, 2):
        env = envs.make("HalfCheetah", 40, dtype="float32", threads=threads)
        env.reset(seed=0)
        told.append(run(env, 3, 0)[-1])
    assert told[0][0].dtype == np.float32 == env.single_observation_space.dtype
    np.testing.assert_array_equal(told[0][0], told[1][0])


def test_states_of_choice() -> None:
    """Start where the options of a reset say."""
    env = envs.make("CartPole", 3)
    env.reset(seed=0, options={"q": [0.5, 0.0], "v": np.zeros((3, 2))})
    np.testing.assert_array_equal(env.worlds.q, [[0.5, 0.0]] * 3)
    single = gymnasium.make("featherback/CartPole-v0")
    obs, _ = single.reset(seed=0, options={"q": [0.5, 0.0], "v": [0.0, 0.0]})
    np.testing.assert_array_equal(obs, env.worlds.observe()[0])


REFUSED = {
    "name": (lambda: envs.make("Antt"), "there is no task 'Antt'; did you mean \"Ant\"?"),
    "option": (
        lambda: envs.make("Ant", healthy_rewrd=2.0),
        "Ant has no option 'healthy_rewrd'; did you mean \"healthy_reward\"?",
    ),
    "mode": (lambda: envs.make("Ant", autoreset_mode="never"), "autoreset_mode is 'never'"),
    "randomize": (
        lambda: envs.make("Ant", randomize={"body_mass": 2.0}),
        "it must be a pair of finite factors",
    ),
    "render": (lambda: envs.make("Ant", render_mode="human"), "render_mode is 'human'"),
    "unreset": (lambda: envs.make("Ant", 2).step(np.zeros((2, 8))), "call reset() first"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_in_a_sentence(case: str) -> None:
    """Raise ParameterError with what was given and what to do."""
    call, message = REFUSED[case]
    with pytest.raises(ParameterError) as told:
        call()
    assert message in str(told.value)


def test_actions_of_another_shape_are_refused() -> None:
    """Raise ShapeError that names both shapes."""
    env = envs.make("Ant", 2)
    env.reset(seed=0)
    with pytest.raises(ShapeError, match=r"\(2, 7\); expected \(2, 8\)"):
        env.step(np.zeros((2, 7)))


def test_wrappers_of_gymnasium_work() -> None:
    """Run under Gymnasium's wrappers of vector environments."""
    from gymnasium.wrappers.vector import NormalizeObservation, RecordEpisodeStatistics

    env = gymnasium.make_vec("featherback/Hopper-v0", num_envs=3, max_episode_steps=5)
    wrapped = NormalizeObservation(RecordEpisodeStatistics(env))
    wrapped.reset(seed=0)
    wrapped.action_space.seed(0)
    infos = [wrapped.step(wrapped.action_space.sample())[-1] for _ in range(5)]
    assert "episode" in infos[-1] and (infos[-1]["episode"]["l"] == 5).all()
