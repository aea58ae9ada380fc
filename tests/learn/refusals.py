"""What learners refuse: settings, environments, files, and runs that go wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from featherback.errors import (
    FeatherbackError,
    ModelError,
    OptimizationError,
    ParameterError,
    ShapeError,
)
from featherback.learn import BPTT, PPO, SAC, Settings, evaluate_file, load_policy, train
from tests.golden.sentences import module_as, raises

pytest.importorskip("torch")
pytest.importorskip("gymnasium")

import featherback.envs as envs
from tests.learn.worlds import Broken, Endless, Line, NextStep

TINY = PPO(env="Line", worlds=2, rollout=4, batch=8, epochs=1, steps=8, hidden=(4,))


def _train(settings: Settings = TINY, **options: Any) -> Any:
    """Train for a moment."""
    return train(settings, **{"env": Line, **options})


def _poisoned(folder: Path) -> None:
    """Train where the environment gives NaN in the second iteration."""
    settings = PPO(**{**TINY.__dict__, "steps": 16, "checkpoint_every": 1})
    train(settings, out=folder, env=lambda worlds: Line(worlds, poison=6))


def _other_settings(folder: Path) -> None:
    """Resume with another learning rate."""
    _train(out=folder)
    _train(PPO(**{**TINY.__dict__, "learning_rate": 0.5}), out=folder, resume=True)


def _no_checkpoint(folder: Path) -> None:
    """Resume from a policy."""
    _train(out=folder)
    (folder / "checkpoint.pt").write_bytes((folder / "policy.pt").read_bytes())
    _train(out=folder, resume=True)


def _no_policy(folder: Path) -> None:
    """Load a checkpoint as a policy."""
    _train(out=folder)
    load_policy(folder / "checkpoint.pt")


def _damaged(folder: Path) -> None:
    """Load half of a policy."""
    _train(out=folder)
    content = (folder / "policy.pt").read_bytes()
    (folder / "policy.pt").write_bytes(content[: len(content) // 2])
    load_policy(folder / "policy.pt")


def _other_env(folder: Path) -> None:
    """Run a policy in an environment with other observations."""
    _train(out=folder)
    evaluate_file(folder / "policy.pt", env="Hopper")


def _bad_model(folder: Path) -> None:
    """Train in an environment whose model cannot be loaded; nothing is written."""
    try:
        train(PPO(), out=folder / "run", env=lambda worlds: envs.make(Broken(), worlds))
    finally:
        assert not (folder / "run").exists()


def _without(module: str) -> None:
    """Train where a package is not installed."""
    with module_as(module):
        _train()


SETTINGS = [
    raises("settings: no worlds", ParameterError, lambda: PPO(worlds=0), "learn ppo", "worlds"),
    raises("settings: a large seed", ParameterError, lambda: PPO(seed=2**31), "seed", "2147483648"),
    raises("settings: a discount", ParameterError, lambda: SAC(gamma=1.5), "learn sac", "gamma"),
    raises("settings: a rate", ParameterError, lambda: PPO(learning_rate=0.0), "learning_rate"),
    raises("settings: NaN", ParameterError, lambda: PPO(log_std=float("nan")), "log_std"),
    raises("settings: no layers", ParameterError, lambda: PPO(hidden=()), "hidden"),
    raises("settings: an option", ParameterError, lambda: PPO(options=("links",)), "'links'"),
    raises("settings: no learner", ParameterError, lambda: train(Settings()), "Settings"),
]

ENVIRONMENTS = [
    raises("env: another reset", ParameterError, lambda: _train(env=NextStep), "SAME_STEP"),
    raises("env: no bounds", ParameterError, lambda: _train(env=Endless), "bounds"),
    raises("env: no such task", ParameterError, lambda: train(PPO(env="Amt")), "'Amt'"),
    raises(
        "env: gymnasium has none", ParameterError, lambda: train(PPO(env="gym:Amt-v5")), "Amt-v5"
    ),
    raises(
        "env: gymnasium's with a law",
        ParameterError,
        lambda: train(PPO(env="gym:Pendulum-v1", contact="hard")),
        "Pendulum-v1",
        "contact",
    ),
    raises(
        "env: discrete actions",
        ParameterError,
        lambda: train(PPO(env="gym:CartPole-v1")),
        "actions",
    ),
    raises(
        "env: masses of other links",
        ParameterError,
        lambda: train(PPO(env="NLinkPendulum", options=("links=3", "masses=(1.0, 2.0)"))),
        "NLinkPendulum",
        "2 numbers",
    ),
    raises("env: a bad model", ModelError, _bad_model, "broken"),
    raises(
        "env: no gradients",
        ParameterError,
        lambda: train(BPTT(env="gym:Pendulum-v1")),
        "learn bptt",
        "gym:Pendulum-v1",
    ),
]

FILES = [
    raises("resume: nothing", ParameterError, lambda folder: _train(out=folder, resume=True)),
    raises("resume: other settings", ParameterError, _other_settings, "learning_rate", "0.5"),
    raises("resume: no checkpoint", ParameterError, _no_checkpoint, "FOLDER/checkpoint.pt"),
    raises(
        "policy: no file",
        FeatherbackError,
        lambda folder: load_policy(folder / "policy.pt"),
        "FOLDER/policy.pt",
    ),
    raises("policy: another file", FeatherbackError, _no_policy, "FOLDER/checkpoint.pt"),
    raises("policy: damaged", FeatherbackError, _damaged, "FOLDER/policy.pt"),
    raises("policy: another environment", ShapeError, _other_env, "Hopper", "11"),
    raises(
        "policy: an observation",
        ShapeError,
        lambda: _train().policy(np.zeros(3)),
        "(3,)",
        "Line",
    ),
]

RUNS = [
    raises("train: NaN", OptimizationError, _poisoned, "learn ppo", "iteration 2", "NaN"),
    raises("train: no torch", FeatherbackError, lambda: _without("torch"), "learn ppo", "torch"),
    raises("train: no gymnasium", FeatherbackError, lambda: _without("gymnasium"), "gymnasium"),
]

CASES = [*SETTINGS, *ENVIRONMENTS, *FILES, *RUNS]
