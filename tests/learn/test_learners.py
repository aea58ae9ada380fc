"""Every learner improves, resumes with the same bits, and leaves files that can be used."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("gymnasium")

import torch

from featherback.errors import OptimizationError
from featherback.learn import (
    BPTT,
    MBPO,
    PPO,
    SAC,
    SHAC,
    Enhanced,
    Settings,
    load_policy,
    run_policy,
    train,
)
from featherback.learn.session import CLOCK, Session
from tests.learn.worlds import GradientLine, KeptGradientLine, KeptLine, Line

SMALL = {"env": "Line", "hidden": (16, 16), "checkpoint_every": 2, "seed": 3}
PPO_SMALL = PPO(worlds=8, rollout=20, steps=960, batch=80, epochs=2, evaluate_every=3, **SMALL)
SAC_SMALL = SAC(worlds=4, rollout=10, steps=240, batch=32, warmup=60, capacity=100, **SMALL)
MBPO_SMALL = MBPO(
    worlds=4,
    rollout=10,
    steps=240,
    batch=32,
    warmup=60,
    model_batch=32,
    model_every=50,
    model_updates=5,
    model_capacity=500,
    ensemble=3,
    elites=2,
    model_hidden=(16,),
    model_horizon=2,
    **SMALL,
)
SHAC_SMALL = SHAC(worlds=8, horizon=6, steps=288, value_epochs=2, **SMALL)
BPTT_SMALL = BPTT(worlds=8, horizon=20, steps=960, evaluate_every=2, **SMALL)
ALL = [PPO_SMALL, SAC_SMALL, MBPO_SMALL, SHAC_SMALL, BPTT_SMALL]
# environment whose worlds start anew at checkpoints, and the one that gives its state
ENVS = {"shac": (GradientLine, KeptGradientLine), "bptt": (GradientLine, KeptGradientLine)}
CASES = [(s, env) for s in ALL for env in ENVS.get(s.learner, (Line, KeptLine))]


def weights(policy: Any) -> dict[str, torch.Tensor]:
    """Return all numbers of a policy."""
    return policy.network.state_dict()


def same_bits(a: Any, b: Any) -> bool:
    """Return whether two policies have the same bits."""
    one, two = weights(a), weights(b)
    return list(one) == list(two) and all(torch.equal(one[k], two[k]) for k in one)


def rows(path: Path) -> list[dict[str, str]]:
    """Return the log without the clock."""
    with path.open() as file:
        return [{k: x for k, x in row.items() if k != CLOCK} for row in csv.DictReader(file)]


@pytest.mark.parametrize(
    ("settings", "env"), CASES, ids=[f"{s.learner}-{env.__name__}" for s, env in CASES]
)
def test_a_resumed_run_has_the_bits_of_one_that_never_stopped(
    settings: Settings, env: Callable[[int], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupt between two checkpoints, resume, and compare weights and log."""
    whole = train(settings, out=tmp_path / "whole", env=env)
    end = Session._end

    def interrupt(session: Session, steps: int, row: Any) -> None:
        end(session, steps, row)
        if session.iteration == 5:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Session, "_end", interrupt)
        train(settings, out=tmp_path / "parts", env=env)
    stopped = load_policy(tmp_path / "parts" / "policy.pt")
    resumed = train(settings, out=tmp_path / "parts", env=env, resume=True)
    assert same_bits(whole.policy, resumed.policy)
    assert not same_bits(whole.policy, stopped)
    logs = [rows(tmp_path / name / "log.csv") for name in ("whole", "parts")]
    assert logs[0] == logs[1]
    assert [int(row["iteration"]) for row in logs[0]] == list(range(1, 7))


@pytest.mark.parametrize("settings", ALL, ids=lambda s: s.learner)
def test_a_seed_is_all_that_a_run_depends_on(settings: Settings) -> None:
    """Give the same bits for the same seed, whatever torch drew before, and others for another."""
    short = replace(settings, steps=settings.steps // 3)
    env = ENVS.get(settings.learner, (Line,))[0]
    torch.manual_seed(1)
    one = train(short, env=env)
    torch.manual_seed(2)
    state = torch.get_rng_state()
    two = train(short, env=env)
    assert torch.equal(state, torch.get_rng_state())
    other = train(replace(short, seed=4), env=env)
    assert same_bits(one.policy, two.policy)
    assert not same_bits(one.policy, other.policy)


def test_a_policy_file_acts_as_the_trained_policy(tmp_path: Path) -> None:
    """Load what was saved, act on one and on many observations, and run episodes."""
    trained = train(PPO_SMALL, out=tmp_path, env=Line)
    policy = load_policy(tmp_path / "policy.pt")
    seen = np.random.default_rng(0).standard_normal((5, 2))
    assert np.array_equal(policy(seen), trained.policy(seen))
    # products of one row and of many round by themselves
    assert np.allclose(policy(seen[0]), policy(seen)[0], rtol=1e-5, atol=1e-7)
    assert policy.about == {
        "env": "Line",
        "contact": None,
        "options": [],
        "seed": 3,
        "learner": "ppo",
        "steps": trained.steps,
    }
    returns = run_policy(policy, Line(6), seed=5)
    assert returns.shape == (6,)
    assert np.array_equal(returns, run_policy(trained.policy, Line(6), seed=5))


def test_ppo_learns_to_hold_the_mass() -> None:
    """Reach a mean return near the best possible 20 from one that is far below."""
    small = PPO(env="Line", worlds=16, rollout=20, steps=32_000, batch=160, hidden=(32,), seed=0)
    trained = train(replace(small, decay=False), env=Line)
    before = trained.log[4]["return"]
    after = float(np.mean(run_policy(trained.policy, Line(64), seed=1)))
    assert before < 12.0
    assert after > 17.0


@pytest.mark.parametrize("poison", [30, 3])
def test_nan_stops_the_training_and_leaves_the_checkpoint(tmp_path: Path, poison: int) -> None:
    """Stop with a sentence at the first NaN; the checkpoint before it can be used."""

    def make(worlds: int) -> Any:
        return Line(worlds, poison=poison)

    settings = replace(PPO_SMALL, rollout=5, evaluate_every=0)
    with pytest.raises(OptimizationError, match="NaN") as caught:
        train(settings, out=tmp_path, env=make)
    assert str(caught.value).startswith("learn ppo: iteration ")
    file = tmp_path / "checkpoint.pt"
    if poison == 3:
        assert not file.exists()
        assert "there is no checkpoint yet" in str(caught.value)
        return
    assert f"{file}, after iteration 6" in str(caught.value)
    resumed = train(settings, out=tmp_path, env=Line, resume=True)
    assert resumed.steps == PPO_SMALL.steps


def test_a_policy_that_gives_nan_stops_the_training(tmp_path: Path) -> None:
    """Name the weights, and say that there is a good checkpoint."""
    from featherback.learn import ppo

    session = Session(PPO_SMALL, tmp_path, Line, show=False)
    learner = ppo.Learner(PPO_SMALL, session)

    def iterate() -> dict[str, float]:
        row = learner.iterate()
        if session.iteration == 4:
            with torch.no_grad():
                learner.policy.body[0].weight[0, 0] = float("nan")
        return row

    with pytest.raises(OptimizationError, match=r"iteration 5: the weights body.0.weight"):
        session.run(iterate, learner.per_iteration)
    policy = load_policy(tmp_path / "policy.pt")
    assert np.isfinite(policy(np.zeros(2))).all()


PRECISE = {
    "ppo": PPO(worlds=4, rollout=8, steps=64, batch=16, epochs=1, **SMALL),
    "shac": SHAC(worlds=4, horizon=4, steps=32, **SMALL),
    "bptt": BPTT(worlds=4, horizon=5, steps=40, **SMALL),
    "enhanced": Enhanced(
        **SMALL, worlds=4, rollout=8, steps=64, warmup=32, batch=8, samples=0, base="sac",
        policy_gradient="stored",
    ),
}  # fmt: skip


@pytest.mark.parametrize("learner", PRECISE)
def test_a_simulator_of_float64_feeds_networks_of_float32(learner: str) -> None:
    """Train with dtype=float64 among the options: other bits than with float32, and a policy."""
    own = replace(PRECISE[learner], env="NLinkPendulum", options=("links=2",), evaluate_every=1)
    single = train(own)
    double = train(replace(own, options=(*own.options, "dtype=float64")))
    assert all(x.dtype != torch.float64 for x in double.policy.network.parameters())
    assert np.isfinite([row["evaluation"] for row in double.log]).all()
    assert not same_bits(single.policy, double.policy)
