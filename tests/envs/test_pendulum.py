"""The options of the n-link pendulum: masses of its links, the clock, the reward of progress."""

from typing import Any

import numpy as np
import pytest

import featherback.envs as envs

SEED: dict[str, Any] = {
    "links": 3,
    "masses": (1.0, 2.16, 2.16),
    "damping": 0.0,
    "frame_skip": 1,
    "substep": 1.0 / 60.0,
    "ctrl_cost_weight": 0.0,
    "clock": True,
    "reward": "progress",
}
STEPS = 100


def actions(worlds: int) -> Any:
    """Return random actions of an episode."""
    return np.random.default_rng(0).uniform(-0.3, 0.3, (STEPS, worlds, 3))


def test_progress_telescopes_to_the_last_step() -> None:
    """Add up to 1 - 2 d^2 / d0^2 of the last step, less what the noise of the start had."""
    env = envs.make("NLinkPendulum", 4, **SEED, autoreset_mode="same_step")
    first, _ = env.reset(seed=0)
    told = [env.step(a) for a in actions(4)]
    last = told[-1][4]["final_obs"]
    assert told[-1][3].all() and np.allclose(last[:, -1], 1.0)

    def miss(seen: Any) -> Any:
        return (seen[:, :3].sum(-1) ** 2 + (seen[:, 3:6].sum(-1) + 3.0) ** 2) / 18.0

    total = sum(step[1] for step in told)
    np.testing.assert_allclose(total, miss(first) - 2.0 * miss(last), atol=1e-12)


def test_masses_are_those_of_the_links() -> None:
    """Scale the inertia of every link with its mass, and move accordingly."""
    heavy = envs.make("NLinkPendulum", 1, links=2, masses=(2.0, 2.0))
    same = envs.make("NLinkPendulum", 1, links=2, mass=2.0)
    np.testing.assert_allclose(heavy.sim.params["body_mass"], same.sim.params["body_mass"])
    np.testing.assert_allclose(heavy.sim.params["body_inertia"], same.sim.params["body_inertia"])


def test_torch_has_the_same_values_and_gradients_agree_with_differences() -> None:
    """Give the rewards of the vector environment, and the derivative of their sum."""
    torch = pytest.importorskip("torch")
    import featherback.envs.torch as envs_torch

    def total(a: Any) -> Any:
        env = envs_torch.make("NLinkPendulum", 2, **SEED)
        env.reset(0)
        return sum(env.step(x)[1] for x in a).sum()

    plain = envs.make("NLinkPendulum", 2, **SEED, autoreset_mode="same_step")
    plain.reset(seed=0)
    wanted = sum(plain.step(a)[1].sum() for a in actions(2))
    given = torch.tensor(actions(2), requires_grad=True)
    value = total(given)
    assert abs(float(value.detach()) - wanted) < 1e-9
    value.backward()
    along = torch.tensor(np.random.default_rng(1).normal(size=given.shape))
    step = 1e-7
    with torch.no_grad():
        change = (total(given + step * along) - total(given - step * along)) / (2.0 * step)
    slope = float((given.grad * along).sum())
    print(slope, float(change))
    assert abs(slope - float(change)) < 1e-4 * abs(slope)
