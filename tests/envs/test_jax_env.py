"""Environments with gradients for JAX: values, gradients against differences, jit and scan."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import featherback.envs as envs  # noqa: E402
import featherback.envs.jax as envs_jax  # noqa: E402
from featherback.errors import FeatherbackError  # noqa: E402

# one task of each kind; XLA takes long to compile them, and torch's test goes over every one
SLOW = ("Hopper", "Humanoid", "InvertedDoublePendulum", "LaikagoTrot")
NAMES = ("CartPole", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW))


@pytest.fixture(autouse=True)
def _double():
    """Compute in float64."""
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("name", NAMES)
def test_values_are_those_of_the_vector_environment(name: str) -> None:
    """Give what the vector environment gives in the same steps, resets included."""
    ours = envs_jax.make(name, 3, max_episode_steps=2)
    plain = envs.make(name, 3, max_episode_steps=2, autoreset_mode="same_step")
    seen, _ = plain.reset(seed=7)
    state, first = ours.reset(seed=7)
    np.testing.assert_allclose(first, seen, atol=1e-12)
    rng = np.random.default_rng(1)
    for _ in range(5):
        a = rng.uniform(plain.worlds.low, plain.worlds.high, (3, ours.action_size))
        obs, reward, terminated, truncated, info = plain.step(a)
        state, found = ours.step(state, jnp.asarray(a))
        scale = 1e-11 * max(1.0, np.abs(obs).max())
        np.testing.assert_allclose(found.observation, obs, atol=scale)
        np.testing.assert_allclose(found.reward, reward, rtol=1e-11, atol=1e-11)
        assert np.array_equal(found.terminated, terminated)
        assert np.array_equal(found.truncated, truncated)
        final = info.get("final_obs", obs)
        np.testing.assert_allclose(found.info["final_obs"], final, atol=scale)


@pytest.mark.parametrize("name", NAMES)
def test_gradient_agrees_with_differences(name: str) -> None:
    """Differentiate the rewards of a scan over an episode by its actions."""
    env = envs_jax.make(name, 2)
    state, _ = env.reset(seed=3)
    rng = np.random.default_rng(5)
    actions = jnp.asarray(0.3 * rng.uniform(env.low, env.high, (3, 2, env.action_size)))
    weight = jnp.asarray(rng.standard_normal(env.observation_size))

    def step(s, a):
        s, out = env.step(s, a)
        return s, out.reward.sum() + 1e-2 * (out.info["final_obs"] @ weight).sum()

    loss = jax.jit(lambda a: jax.lax.scan(step, state, a)[1].sum())
    along = jnp.asarray(rng.standard_normal(actions.shape))
    slope = float((jax.grad(loss)(actions) * along).sum())
    difference = float(loss(actions + 1e-5 * along) - loss(actions - 1e-5 * along)) / 2e-5
    assert abs(slope - difference) <= 2e-5 * max(abs(difference), 1.0)


def test_a_lost_world_ends_its_episode() -> None:
    """End the episode of a world whose action is not finite, and leave the others alone."""
    env = envs_jax.make("CartPole", 3)
    state, _ = env.reset(seed=0)
    good = jnp.full((3, 1), 0.1)
    _, plain = env.step(state, good)
    _, found = env.step(state, good.at[1, 0].set(jnp.nan))
    assert found.terminated.tolist() == [False, True, False] == found.info["nonfinite"].tolist()
    assert np.array_equal(found.observation[::2], plain.observation[::2])
    assert np.isfinite(found.observation).all() and found.reward[1] == 0.0


def test_a_world_of_which_nothing_finite_can_be_told_ends_its_episode() -> None:
    """Lose a world whose angles are finite, and too large for a place of its tip."""
    env = envs_jax.make("NLinkPendulum", 2, frame_skip=1)
    state, first = env.reset(seed=0)
    state = state._replace(v=state.v.at[1].set(1e20))
    _, found = env.step(state, jnp.zeros((2, 3)))
    assert found.terminated.tolist() == [False, True] == found.info["nonfinite"].tolist()
    assert np.isfinite(found.reward).all() and np.isfinite(found.observation).all()
    np.testing.assert_array_equal(found.info["final_obs"][1][:6], first[1][:6])


def test_randomized_parameters_are_in_the_state() -> None:
    """Draw masses at the reset; a reward has a gradient with respect to them."""
    env = envs_jax.make("NLinkPendulum", 2, randomize={"body_mass": (0.5, 1.5)})
    state, _ = env.reset(seed=2)
    scale = state.params["body_mass"][:, 1] / env.sim.params["body_mass"][1]
    assert 0.5 <= scale.min() < scale.max() <= 1.5

    def loss(mass):
        return env.step(state._replace(params={"body_mass": mass}), jnp.zeros((2, 3)))[
            1
        ].reward.sum()

    assert jnp.abs(jax.grad(loss)(state.params["body_mass"])).sum() > 0


def test_contact_forces_have_gradients() -> None:
    """Reward contact forces, with their gradients; refuse them under the hard law."""
    env = envs_jax.make("Ant", 2, include_cfrc_ext_in_observation=True, contact_cost_weight=5e-4)
    state, _ = env.reset(seed=3)
    for _ in range(8):  # down to the floor
        state, _ = env.step(state, jnp.zeros((2, 8)))

    def loss(a):
        return env.step(state, a)[1].observation[:, -78:].sum()

    a = 0.1 * np.random.default_rng(1).standard_normal((2, 8))
    along = np.random.default_rng(2).standard_normal((2, 8))
    slope = (loss(a + 1e-6 * along) - loss(a - 1e-6 * along)) / 2e-6
    assert abs(slope) > 1e-3
    np.testing.assert_allclose(np.sum(jax.grad(loss)(a) * along), slope, rtol=1e-4)
    with pytest.raises(FeatherbackError, match="no gradient under the hard law"):
        envs_jax.make("Ant", 2, include_cfrc_ext_in_observation=True, contact="hard")
