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
    "resimulated": replace(SMALL, samples=0, policy_gradient="resimulated"),
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


def test_the_gradient_is_that_of_the_worth() -> None:
    """Agree with differences of reward and value behind the step."""
    settings = replace(KINDS["resimulated"], batch=4)
    session = Session(settings, None, None, show=False)
    learner = Learner(settings, session, {"q": 2, "v": 2, "age": 0})
    simulator = ThroughSimulator(settings, learner)
    columns = simulator.columns({"observation": learner.runner.observation})
    batch = {name: columns[name].to(torch.float32) for name in ("q", "v", "age")}
    action = (0.3 * session.noise(4, 2)).requires_grad_()
    state = session.generator.get_state()

    def worth(action: torch.Tensor) -> torch.Tensor:
        # the same noise in the action behind the step
        session.generator.set_state(state)
        return simulator.ahead(batch, action)

    slope = torch.autograd.grad(worth(action).sum(), action)[0]
    step = 1e-2
    for k in range(2):
        shift = torch.zeros_like(action)
        shift[:, k] = step
        change = (worth(action.detach() + shift) - worth(action.detach() - shift)) / (2 * step)
        assert torch.allclose(change, slope[:, k], rtol=2e-2, atol=2e-3)


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
        (replace(SMALL, policy_gradient="stored"), "samples"),
        (replace(SMALL, env="gym:Pendulum-v1", options=()), "gym:Pendulum-v1"),
    ],
)
def test_what_cannot_be_enhanced_is_refused(settings: Enhanced, names: str) -> None:
    """Say what is missing."""
    with pytest.raises(ParameterError, match=names):
        train(settings)
