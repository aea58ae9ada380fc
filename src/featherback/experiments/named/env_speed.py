"""Steps of the environments for a second of one core, against EnvPool, Gymnasium and MuJoCo."""

from __future__ import annotations

import json

import numpy as np

from featherback._optional import import_optional
from featherback.experiments.context import Context
from featherback.experiments.result import Claim, Result, Trace

SUMMARY = "steps of environments a second, against EnvPool, Gymnasium and MuJoCo's rollout"
HAS_FULL = True
QUICK_TASKS, QUICK_WORLDS = ("Hopper", "CartPole"), 16
ROUNDS, QUICK_ROUNDS, FULL_ROUNDS = 3, 1, 15
RATIO = 10.0  # of ours and EnvPool's, that every task should have
NOTES = (
    "Thousands of steps of the environment for one second of processor time, one thread, random "
    "actions; observation, reward, termination and autoreset are included everywhere but in "
    "MuJoCo's rollout. ours has the integrator of the file, which is RK4 for all of Gymnasium's "
    "tasks but HalfCheetah; euler is the other column.",
    "EnvPool is measured where it is installed: pip install envpool.",
)


def run(context: Context) -> Result:
    """Measure every task; a resumed run keeps what it has."""
    import_optional(f"run {context.name}", "gymnasium", "rl")
    from featherback.experiments.neural.env_rates import FORCES, OWN, WORLDS, jobs_of, measure

    figures: dict[str, float | None] = {}
    ratios: list[float] = []
    tasks = QUICK_TASKS if context.quick else (*FORCES, *OWN)
    rounds = QUICK_ROUNDS if context.quick else FULL_ROUNDS if context.full else ROUNDS
    for task in tasks:
        known = context.kept(f"rates.{task}")
        worlds = QUICK_WORLDS if context.quick else WORLDS
        rates: dict[str, float] = (
            measure(jobs_of(task, worlds), rounds) if known is None else json.loads(str(known))
        )
        context.keep(**{f"rates.{task}": json.dumps(rates)})
        figures |= {f"{task}: {name}": 1e-3 * x for name, x in rates.items()}
        if "envpool" in rates:
            ratios.append(rates["ours"] / rates["envpool"])
            figures[f"{task}: ours over EnvPool"] = ratios[-1]
            figures[f"{task}: float32 over EnvPool"] = rates["float32"] / rates["envpool"]
    least = float(np.min(ratios)) if ratios else None
    claim = Claim(
        f"at least {RATIO:.0f} times EnvPool on every task, the least",
        least,
        None if context.quick or least is None else least >= RATIO,
    )
    return Result(Trace("steps a second"), None, figures, [claim], notes=list(NOTES))
