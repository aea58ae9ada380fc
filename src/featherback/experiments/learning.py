"""What the experiments that learn policies share: rows that are trained or resumed, and curves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from featherback.experiments.context import Context
from featherback.experiments.result import Trace

if TYPE_CHECKING:
    from featherback.learn import Settings, Trained


def train_row(context: Context, row: str, settings: Settings) -> Trained:
    """Train a policy in a folder of its own; a stopped run goes on from its checkpoint."""
    from featherback.learn import train

    folder = context.path(f"-{row.replace(', ', '-').replace(' ', '-').lower()}")
    again = context.resume and (folder / "checkpoint.pt").exists()
    trained = train(settings, out=folder, resume=again, show=context.show)
    context.files[f"policy, {row}"] = folder / "policy.pt"
    context.save()
    return trained


def curve(trained: Trained, method: str) -> Trace:
    """Return evaluations as a trace: the return with its sign changed, against processor time."""
    rows = [row for row in trained.log if np.isfinite(row.get("evaluation", np.nan))]
    seconds = np.diff([0.0, *(row["cpu_seconds"] for row in rows)])
    steps = np.diff([0.0, *(row["steps"] for row in rows)])
    return Trace(
        method,
        [-row["evaluation"] for row in rows],
        [float(x) for x in seconds],
        [int(x) for x in steps],
    )


def last_mean(trace: Trace, share: float = 0.25) -> float | None:
    """Return the mean return of the last evaluations, which hides no lucky one."""
    if not trace.loss:
        return None
    count = max(1, round(share * len(trace.loss)))
    return -float(np.mean(trace.loss[-count:]))
