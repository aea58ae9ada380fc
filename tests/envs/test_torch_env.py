"""Environments with gradients: values, gradients against differences, resets inside a horizon."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import featherback.envs as envs  # noqa: E402
import featherback.envs.torch as envs_torch  # noqa: E402
from featherback.envs import TASKS  # noqa: E402
from featherback.errors import FeatherbackError  # noqa: E402


@pytest.mark.parametrize("name", TASKS)
def test_values_are_those_of_the_vector_environment(name: str) -> None:
    """Give observations, rewards and ends as the vector environment does in the same steps."""
    ours = envs_torch.make(name, 3, max_episode_steps=4)
    plain = envs.make(name, 3, max_episode_steps=4, autoreset_mode="same_step")
    seen, _ = plain.reset(seed=7)
    np.testing.assert_allclose(ours.reset(seed=7).numpy(), seen, atol=1e-12)
    rng = np.random.default_rng(1)
    for _ in range(6):
        a = rng.uniform(plain.worlds.low, plain.worlds.high, (3, ours.action_size))
        obs, reward, terminated, truncated, info = plain.step(a)
        found = ours.step(torch.tensor(a))
        scale = 1e-11 * max(1.0, np.abs(obs).max())
        np.testing.assert_allclose(found[0].numpy(), obs, atol=scale)
        np.testing.assert_allclose(found[1].numpy(), reward, rtol=1e-11, atol=1e-11)
        assert np.array_equal(found[2].numpy(), terminated)
        assert np.array_equal(found[3].numpy(), truncated)
        final = info.get("final_obs", obs)
        np.testing.assert_allclose(found[4]["final_obs"].numpy(), final, atol=scale)


@pytest.mark.parametrize("name", TASKS)
def test_gradient_agrees_with_differences(name: str) -> None:
    """Differentiate rewards and the last observation by the actions of an episode."""
    env = envs_torch.make(name, 2)
    start = env.reset(seed=3)
    del start
    begin = env.q.clone(), env.v.clone()
    rng = np.random.default_rng(5)
    low, high = env.low.numpy(), env.high.numpy()
    actions = torch.tensor(0.3 * rng.uniform(low, high, (2, 2, env.action_size)))
    weight = torch.tensor(rng.standard_normal(env.observation_size))

    def loss(a):
        env.q, env.v = begin
        env.age = torch.zeros(2, dtype=torch.int64)
        out = 0.0
        for i in range(2):
            _, reward, _, _, info = env.step(a[i])
            out = out + reward.sum() + 1e-2 * (info["final_obs"] @ weight).sum()
        return out

    a = actions.clone().requires_grad_()
    loss(a).backward()
    along = torch.tensor(rng.standard_normal(tuple(a.shape)))
    slope = float((a.grad * along).sum())
    with torch.no_grad():
        steps = [1e-5, -1e-5]
        high_, low_ = (float(loss(actions + h * along)) for h in steps)
    difference = (high_ - low_) / 2e-5
    assert abs(slope - difference) <= 2e-5 * max(abs(difference), 1.0)


def test_reset_inside_a_horizon_cuts_the_graph_of_that_world() -> None:
    """Carry no gradient over a reset, but to the observation before it."""
    env = envs_torch.make("Hopper", 2, max_episode_steps=3)
    env.reset(seed=0)
    env.age = torch.tensor([0, 2])
    action = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    obs, _, _, truncated, info = env.step(action)
    assert truncated.tolist() == [False, True] and info["_final_obs"].tolist() == [False, True]
    (over,) = torch.autograd.grad(obs.sum(), action, retain_graph=True)
    assert over[0].abs().sum() > 0 and over[1].abs().sum() == 0
    (last,) = torch.autograd.grad(info["final_obs"].sum(), action)
    assert last.abs().sum(1).gt(0).all()


def test_detach_cuts_the_graph() -> None:
    """Start a new graph at the states that the worlds are in."""
    env = envs_torch.make("CartPole", 2)
    env.reset(seed=0)
    action = torch.full((2, 1), 0.1, dtype=torch.float64, requires_grad=True)
    obs, *_ = env.step(action)
    assert obs.requires_grad and env.q.requires_grad
    again = env.detach()
    assert not env.q.requires_grad and not env.v.requires_grad and not again.requires_grad
    torch.testing.assert_close(again, obs.detach(), rtol=0, atol=0)


def test_a_lost_world_has_no_gradient_and_spares_the_others() -> None:
    """Give the gradients of the other worlds where one leaves the finite numbers."""
    grads = []
    for harm in (False, True):
        env = envs_torch.make("NLinkPendulum", 3)
        env.reset(seed=0)
        action = torch.full((3, 3), 0.2, dtype=torch.float64)
        if harm:
            env.v = env.v.clone()
            env.v[1] = 1e200
            action[2, 0] = torch.nan
        action.requires_grad_()
        obs, reward, terminated, _, info = env.step(action)
        assert terminated.tolist() == [False, harm, harm] == info["nonfinite"].tolist()
        assert torch.isfinite(obs).all() and torch.isfinite(info["final_obs"]).all()
        (reward.sum() + obs.sum()).backward()
        grads.append(action.grad)
    assert torch.equal(grads[0][0], grads[1][0]) and grads[0][0].abs().sum() > 0
    assert grads[1][1:].abs().sum() == 0


def test_a_world_of_which_nothing_finite_can_be_told_has_no_gradient() -> None:
    """Lose a world whose angles are finite, and too large for a place of its tip."""
    env = envs_torch.make("NLinkPendulum", 2, frame_skip=1)
    env.reset(seed=0)
    env.v[1] = 1e20
    action = torch.full((2, 3), 0.2, dtype=torch.float64, requires_grad=True)
    obs, reward, terminated, _, info = env.step(action)
    assert terminated.tolist() == [False, True] == info["nonfinite"].tolist()
    assert reward[1] == 0.0 and torch.isfinite(obs).all()
    (reward.sum() + info["final_obs"].sum()).backward()
    assert action.grad is not None and torch.isfinite(action.grad).all()
    assert action.grad[0].abs().sum() > 0 and action.grad[1].abs().sum() == 0


def test_parameters_have_gradients() -> None:
    """Differentiate a reward by masses that the worlds share, or have of their own."""
    env = envs_torch.make("Hopper", 2)
    for shape in ((), (2, 1)):
        env.reset(seed=0)
        mass = torch.tensor(env.sim.params["body_mass"]).expand(*shape[:1], -1).clone()
        mass.requires_grad_()
        env.params = {"body_mass": mass}
        _, reward, *_ = env.step(torch.zeros(2, 3, dtype=torch.float64))
        reward.sum().backward()
        assert mass.grad.shape == mass.shape and mass.grad.abs().sum() > 0


def test_randomized_parameters_are_those_of_the_vector_environment() -> None:
    """Draw the parameters that the vector environment draws with the same seed."""
    rules = {"body_mass": (0.5, 1.5)}
    ours, plain = (
        envs_torch.make("Hopper", 3, randomize=rules),
        envs.make("Hopper", 3, randomize=rules),
    )
    ours.reset(seed=2)
    plain.reset(seed=2)
    np.testing.assert_array_equal(
        ours.params["body_mass"].numpy(), plain.worlds.params["body_mass"]
    )
    a = np.full((3, 3), 0.2)
    np.testing.assert_allclose(ours.step(torch.tensor(a))[0].numpy(), plain.step(a)[0], atol=1e-12)


@pytest.mark.parametrize("name", ["Ant", "HumanoidStandup"])
def test_contact_forces_have_gradients(name: str) -> None:
    """Observe and reward contact forces as the vector environment does, with their gradients."""
    options = {"contact_cost_weight": 5e-4} if name == "Ant" else {"impact_cost_weight": 5e-7}
    options["include_cfrc_ext_in_observation"] = True
    ours, plain = (make(name, 2, **options) for make in (envs_torch.make, envs.make))
    ours.reset(seed=3)
    plain.reset(seed=3)
    zero = np.zeros((2, ours.action_size))
    for _ in range(8):  # down to the floor
        obs = plain.step(zero)[0]
        seen = ours.step(torch.tensor(zero))[0]
    forces = obs[:, -6 * (ours.sim.model.nbody - 1) :]
    assert np.abs(forces).max() > 1e-3
    scale = 1e-9 * max(1.0, np.abs(obs).max())
    np.testing.assert_allclose(seen.detach().numpy(), obs, atol=scale)
    begin = ours.q.detach().clone(), ours.v.detach().clone()
    rng = np.random.default_rng(2)
    weight = torch.tensor(rng.standard_normal(forces.shape[1]))

    def loss(a):
        ours.q, ours.v = begin
        _, reward, _, _, info = ours.step(a)
        last = info["final_obs"][:, -len(weight) :]
        return reward.sum() + 1e-2 * (last @ weight).sum()

    a = torch.tensor(0.1 * rng.standard_normal((2, ours.action_size)), requires_grad=True)
    loss(a).backward()
    along = torch.tensor(rng.standard_normal(tuple(a.shape)))
    with torch.no_grad():
        slope = (loss(a + 1e-6 * along) - loss(a - 1e-6 * along)) / 2e-6
    np.testing.assert_allclose(float((a.grad * along).sum()), float(slope), rtol=1e-4)


def test_contact_forces_of_the_hard_law_have_no_gradient_and_say_so() -> None:
    """Refuse terms of contact forces where they have no gradient."""
    with pytest.raises(FeatherbackError, match="no gradient under the hard law"):
        envs_torch.make("Ant", 2, include_cfrc_ext_in_observation=True, contact="hard")
