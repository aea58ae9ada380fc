"""First-order samples and gradients through the simulator are what they are said to be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("gymnasium")

import torch

from featherback import envs
from featherback.errors import ParameterError
from featherback.learn import Enhanced, train
from featherback.learn.enhanced import Nearby, ThroughSimulator, moved
from featherback.learn.sac import Learner
from featherback.learn.session import Session
from tests.learn.test_learners import same_bits

pytestmark = [
    # torch's own, where its forward mode begins
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
]

SMALL = Enhanced(
    env="NLinkPendulum",
    options=("links=2",),
    worlds=4,
    rollout=5,
    steps=120,
    warmup=40,
    batch=16,
    hidden=(16,),
    checkpoint_every=2,
    model_batch=16,
    model_updates=3,
    ensemble=2,
    elites=1,
    model_hidden=(16,),
)
KINDS = {
    "samples": SMALL,
    "samples-mbpo": replace(SMALL, base="mbpo"),
    "exact": replace(SMALL, nearby="exact"),
    "stored": replace(SMALL, samples=0, policy_gradient="stored"),
    "stored-mbpo": replace(SMALL, samples=0, policy_gradient="stored", base="mbpo"),
    "resimulated": replace(SMALL, samples=0, policy_gradient="resimulated"),
    "both": replace(SMALL, policy_gradient="stored"),
    "both-mbpo": replace(SMALL, policy_gradient="stored", base="mbpo"),
    "both-exact": replace(SMALL, policy_gradient="stored", nearby="exact"),
    "both-resimulated": replace(SMALL, policy_gradient="resimulated"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_has_the_bits_of_one_that_never_stopped(kind: str, tmp_path: Path) -> None:
    """Train in two parts and in one; steps are all that the settings differ in."""
    settings = KINDS[kind]
    whole = train(settings, out=tmp_path / "whole")
    part = train(replace(settings, steps=80), out=tmp_path / "parts")
    assert not same_bits(whole.policy, part.policy)
    resumed = train(settings, out=tmp_path / "parts", resume=True)
    assert same_bits(whole.policy, resumed.policy)


@pytest.mark.parametrize(
    ("env", "nearby", "error"),
    [("Hopper", "first-order", 1e-4), ("Ant", "first-order", 1e-3), ("Ant", "exact", 1e-5)],
)
def test_samples_converge_to_steps_of_the_environment(env: str, nearby: Any, error: float) -> None:
    """Miss the exact successors by a small share of the change, in the median world."""
    settings = Enhanced(env=env, worlds=32, radius=0.01, hidden=(8,), seed=1, nearby=nearby)

    def make(worlds: int) -> Any:
        return envs.make(env, worlds, autoreset_mode="same_step")

    session = Session(settings, None, make, show=False)
    learner = Learner(settings, session)
    near = Nearby(settings, learner)
    base = session.noise(32, learner.runner.actions).clamp(-0.5, 0.5)
    state = near.worlds.state()
    state.action = learner.policy.scale(base).numpy()
    ahead = near.first_order(state) if near.first else near.exactly(state)
    other = learner.policy.scale(base + 0.01 * session.noise(*base.shape)).numpy()
    found = near.sample(state, ahead, other)
    assert found is not None
    start = learner.runner.env.get_state()
    exact = {}
    for name, action in (("base", state.action), ("other", other)):
        learner.runner.env.set_state(start)
        observation, reward, *_ = learner.runner.env.step(action)
        exact[name] = np.concatenate([observation, reward[:, None]], -1)
    guess = np.concatenate([found["after"].numpy(), found["reward"].numpy()[:, None]], -1)
    change = np.linalg.norm(exact["other"] - exact["base"], axis=1)
    miss = np.linalg.norm(guess - exact["other"], axis=1) / change
    print(env, np.median(miss), miss.max())
    assert np.median(miss) < error


class Sampled:
    """A learner, its simulator, and samples near actions that its worlds took."""

    def __init__(self, settings: Enhanced) -> None:
        """Draw samples in the states that episodes start in, a few steps later."""
        self.settings = settings
        self.session = Session(settings, None, None, show=False)
        env: Any = self.session.vector_env(1).unwrapped
        self.learner = Learner(settings, self.session, ThroughSimulator.widths(env))
        self.simulator = ThroughSimulator(settings, self.learner)
        self.near = Nearby(settings, self.learner)
        self.learner.observe = lambda x: self.near.before_step(self.simulator.columns(x))
        for _ in range(settings.rollout):
            self.learner.step()
        memory = self.near.memory
        self.batch = {name: x[-settings.batch :] for name, x in memory.all().items()}
        self.noise = self.session.generator.get_state()

    def worth(self, how: Any, action: torch.Tensor, **others: torch.Tensor) -> torch.Tensor:
        """Return what actions are worth, with the same noise in the actions behind the step."""
        self.session.generator.set_state(self.noise)
        return how({**self.batch, **others}, action)

    def slope(self, how: Any, action: torch.Tensor, **others: torch.Tensor) -> torch.Tensor:
        """Return its gradient."""
        action = action.detach().requires_grad_()
        return torch.autograd.grad(self.worth(how, action, **others).sum(), action)[0]


def sampled(env: str, *options: str, radius: float = 0.1) -> Sampled:
    """Return samples of an environment, simulated in float64."""
    given = {"worlds": 8, "samples": 2, "rollout": 6, "batch": 16, "radius": radius, "hidden": (8,)}
    kinds: Any = {"policy_gradient": "stored", "options": ("dtype=float64", *options)}
    return Sampled(Enhanced(env=env, seed=3, **given, **kinds))


@pytest.mark.parametrize("kind", ["ahead", "near"])
@pytest.mark.parametrize(
    "env", ["NLinkPendulum", "Hopper contact=hard", "Ant contact=hard", "Ant contact=mujoco"]
)
def test_the_gradient_is_that_of_the_worth(env: str, kind: str) -> None:
    """Agree with differences of reward and value behind the step, of a sample nearby too."""
    found = sampled(*env.split())
    how, action, taken = getattr(found.simulator, kind), found.batch["action"], found.batch["taken"]
    assert float((action - taken).abs().max()) > 0.05
    slope = found.slope(how, action)
    # networks compute in float32; a larger step meets contacts that open and close
    step = 2e-3
    for k in range(action.shape[1]):
        shift = torch.zeros_like(action)
        shift[:, k] = step
        up, down = (found.worth(how, action + x, taken=taken + x) for x in (shift, -shift))
        miss = ((up - down).detach() / (2 * step) - slope[:, k]).abs()
        print(env, kind, k, float(miss.median()), float(slope[:, k].abs().median()))
        assert float(miss.median()) < 1e-4


@pytest.mark.parametrize("env", ["NLinkPendulum", "Ant"])
def test_samples_of_gradients_are_those_of_the_critics(env: str) -> None:
    """Find reward, successor and worth as they were stored, with quaternions too."""
    found = sampled(env)
    worth = found.worth(found.simulator.near, found.batch["action"])
    found.session.generator.set_state(found.noise)
    ahead = found.learner.soft_value(found.batch["after"]) * (1.0 - found.batch["terminated"])
    wanted = found.batch["reward"] + found.settings.gamma * ahead
    assert torch.allclose(worth, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["ahead", "near"])
def test_a_world_that_is_lost_has_no_gradient(kind: str) -> None:
    """Leave the gradients of the others as they are where one leaves the finite numbers."""
    found = sampled("NLinkPendulum")
    how, action = getattr(found.simulator, kind), found.batch["action"]
    v = found.batch["v"].clone()
    v[3] = 1e30
    whole, slope = found.slope(how, action), found.slope(how, action, v=v)
    assert not slope[3].any()
    others = torch.arange(len(v)) != 3
    assert torch.equal(slope[others], whole[others])


@pytest.mark.parametrize("radius", [0.1, 0.2])
@pytest.mark.parametrize("env", ["NLinkPendulum", "Ant"])
def test_gradients_nearby_come_near_those_of_a_step(env: str, radius: float) -> None:
    """Miss the gradient under the sample's action by less than that of the world's action does."""
    found = sampled(env, radius=radius)
    exact = found.slope(found.simulator.ahead, found.batch["action"])
    near = found.slope(found.simulator.near, found.batch["action"])
    taken = found.slope(found.simulator.ahead, found.batch["taken"])
    size = exact.norm(dim=1)
    miss, other = (float(((x - exact).norm(dim=1) / size).median()) for x in (near, taken))
    print(env, radius, miss, other)
    assert miss < 0.25 * other


def test_moves_are_those_of_the_integrator() -> None:
    """Move a free body as the simulator's own difference of configurations measures it."""
    from featherback.model.manifold import difference

    model = envs.make("Ant").sim.model
    rng = np.random.default_rng(0)
    q = np.repeat(np.array(model.q0, np.float64)[None], 5, 0)
    change = 0.1 * rng.standard_normal((5, model.nv))
    to = moved(model, q, change)
    for one, two, wanted in zip(q, to, change, strict=True):
        assert np.allclose(difference(model, one, two), wanted, atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        (replace(SMALL, env="gym:Pendulum-v1", options=()), "gym:Pendulum-v1"),
    ],
)
def test_what_cannot_be_enhanced_is_refused(settings: Enhanced, names: str) -> None:
    """Say what is missing."""
    with pytest.raises(ParameterError, match=names):
        train(settings)
