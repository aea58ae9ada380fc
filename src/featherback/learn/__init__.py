"""Learners, one file each: a policy from an environment, with or without its gradients.

`train(PPO(env="Ant"), out="runs/ant")` trains and writes; `load_policy` reads what was trained.
Settings need no PyTorch; training does.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from featherback._optional import import_optional
from featherback.errors import ParameterError
from featherback.learn.settings import BPTT, MBPO, PPO, SAC, SHAC, Settings

if TYPE_CHECKING:
    from featherback.learn.evaluate import evaluate_file, run_policy
    from featherback.learn.policy import Policy, load_policy
    from featherback.learn.runner import Make, make_env
    from featherback.learn.session import Trained

__all__ = [
    "BPTT",
    "MBPO",
    "PPO",
    "SAC",
    "SHAC",
    "Policy",
    "Settings",
    "Trained",
    "evaluate_file",
    "load_policy",
    "make_env",
    "run_policy",
    "train",
]

_HOME = {
    "Policy": "policy",
    "Trained": "session",
    "evaluate_file": "evaluate",
    "load_policy": "policy",
    "make_env": "runner",
    "run_policy": "evaluate",
}


def train(
    settings: Settings,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    env: Make | None = None,
    show: bool = False,
) -> Trained:
    """Train a policy.

    Args:
        settings: of one of the learners; their class chooses it.
        out: folder for checkpoint.pt, policy.pt, log.csv and settings.json; None: no files.
        resume: go on from the checkpoint in that folder; the outcome has the bits of a run that
            was never stopped.
        env: worlds -> environment, in place of the one that the settings name.
        show: show a progress bar on standard error.

    Raises:
        OptimizationError: the policy, or the environment, gives NaN; the last checkpoint is good.
        ParameterError: a setting is not allowed, or there is nothing to resume.
        FeatherbackError: PyTorch or gymnasium is not installed.
    """
    if not settings.learner:
        raise ParameterError("learn: Settings belong to no learner; pass those of one, as PPO().")
    where = f"learn {settings.learner}"
    import_optional(where, "torch", "torch")
    import_optional(where, "gymnasium", "rl")
    # by name, so that the command line needs no PyTorch
    sessions: Any = importlib.import_module("featherback.learn.session")
    learner: Any = importlib.import_module(f"featherback.learn.{settings.learner}")
    folder = None if out is None else Path(out)
    session = sessions.Session(settings, folder, env, resume, show)
    return learner.train(settings, session)


def __getattr__(name: str) -> Any:
    """Import what needs PyTorch when it is asked for."""
    if name in _HOME:
        import_optional(f"featherback.learn.{name}", "torch", "torch")
        return getattr(importlib.import_module(f"featherback.learn.{_HOME[name]}"), name)
    raise AttributeError(f"module 'featherback.learn' has no attribute {name!r}")
