"""SAC and MBPO with the enhancements of Qiao et al. (2021), apart and together.

    python bench/enhancements.py --save            train all, write bench/enhancements.json
    python bench/enhancements.py --save --seeds 1  one seed only; what the file has stays
    python bench/enhancements.py --docs            put the table of that file into docs/learning.md

All rows have the same samples of the environment, updates and networks. Policies are run without
noise in 16 episodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mujoco_law_text import table
from seeds import EPISODES, Program, mean_return, middle, values

import featherback.learn as learn

TASK, STEPS = "InvertedDoublePendulum", 6000
COMMON: dict[str, Any] = {
    "env": TASK,
    "steps": STEPS,
    "warmup": 500,
    "worlds": 10,
    "rollout": 50,
    "hidden": (128, 128),
    "batch": 128,
    "learning_rate": 1e-3,
}
KINDS: dict[str, dict[str, Any]] = {
    "alone": {"samples": 0},
    "first-order samples": {},
    "exact samples": {"nearby": "exact"},
    "policy as published": {"samples": 0, "policy_gradient": "stored"},
    "policy resimulated": {"samples": 0, "policy_gradient": "resimulated"},
    "first-order samples, policy as published": {"policy_gradient": "stored"},
    "first-order samples, policy resimulated": {"policy_gradient": "resimulated"},
}
ROWS = tuple(f"{base}, {kind}" for base in ("SAC", "MBPO") for kind in KINDS)


def measure(row: str, seed: int) -> dict[str, float]:
    """Train a policy; return its mean return and processor time."""
    base, kind = row.split(", ", 1)
    own: Any = {**COMMON, **KINDS[kind], "base": base.lower()}
    settings = learn.Enhanced(seed=seed, **own)
    trained = learn.train(settings, show=False)
    found = mean_return(trained.policy, learn.make_env(settings, EPISODES))
    return {"return": found, "seconds": trained.cpu_seconds}


def text(result: dict[str, Any]) -> str:
    """Return the table."""
    lines: list[list[Any]] = []
    for row, seeds in result["rows"].items():
        returns = values(seeds, "return")
        found = ", ".join(f"{x:.0f}" for x in returns)
        lines.append([row, f"{np.median(returns):.0f}", found, middle(seeds, "seconds")])
    head = "| row | median return | seeds 0, 1, ... | time [s] |"
    facts = result["facts"]
    origin = (
        f"{TASK}, {STEPS} steps each, returns without noise over {EPISODES} episodes; processor "
        f"time. featherback {(facts['commit'] or 'no commit')[:10]} ({facts['isa']}), "
        f"{facts['processor']}."
    )
    return "\n".join([*table(head, lines), origin, ""])


if __name__ == "__main__":
    Program(__file__, str(__doc__), ROWS, measure, text).main()
