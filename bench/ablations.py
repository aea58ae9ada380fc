"""The ant by SHAC and PPO with one thing changed: horizon, contacts, number type.

    python bench/ablations.py --save            train all, write bench/ablations.json
    python bench/ablations.py --save --seeds 1  one seed only; seeds and rows that the file has stay
    python bench/ablations.py --docs            put the table of that file into docs/learning.md

All rows have the same number of steps. SHAC has the same samples in an iteration for every horizon,
so that a horizon of 64 has 32 worlds where one of 8 has 256, and all make the same updates.
Policies are run without noise in 16 episodes where they were trained.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mujoco_law_text import table
from seeds import EPISODES, Program, mean_return, middle, values

import featherback.learn as learn

STEPS = 600_000
SAMPLES = 2048  # of an iteration of SHAC
COMPLIANCE = 1e-3  # of the contacts in the rows of horizons [m/N]


def contacts(compliance: float) -> tuple[str, ...]:
    """Return the options with which the contacts of the ant yield [m/N]."""
    import featherback.envs as envs

    # the compliances of the two shapes of a contact add up
    count = len(envs.make("Ant", 1, contact="hard").sim.params["contact_compliance"])
    return (f"params={{'contact_compliance': {[0.5 * compliance] * count}}}",)


def shac(horizon: int = 8, compliance: float = 0.0, **given: Any) -> dict[str, Any]:
    """Return what SHAC is given."""
    options = (
        *given.pop("options", ()),
        "speed=end",
        *(contacts(compliance) if compliance else ()),
    )
    law = {"contact": "hard", **given}
    return {"learner": "shac", "worlds": SAMPLES // horizon, "horizon": horizon, **law} | {
        "options": options
    }


def rows() -> dict[str, dict[str, Any]]:
    """Return what is trained, by what the table calls it."""
    found: dict[str, dict[str, Any]] = {
        f"SHAC, contacts of 1e-3 m/N, horizon {h}": shac(h, COMPLIANCE) for h in (4, 8, 16, 32, 64)
    }
    for compliance in (1e-4, 1e-2):
        found[f"SHAC, contacts of {compliance:.0e} m/N, horizon 8"] = shac(8, compliance)
    found["SHAC, hard, horizon 8"] = shac()
    found["SHAC, hard, horizon 8, float64"] = shac(options=("dtype=float64",))
    found['SHAC, contact="mujoco", horizon 8'] = shac(contact="mujoco")
    found["PPO, hard"] = {"learner": "ppo", "contact": "hard"}
    found["PPO, hard, float64"] = {**found["PPO, hard"], "options": ("dtype=float64",)}
    found["PPO, contacts of 1e-3 m/N"] = {**found["PPO, hard"], "options": contacts(COMPLIANCE)}
    return found


def measure(row: str, seed: int) -> dict[str, float]:
    """Train a policy; return its mean return, processor time and the lengths of its gradients."""
    own = rows()[row]
    make: Any = learn.SHAC if own.pop("learner") == "shac" else learn.PPO
    settings = make(env="Ant", steps=STEPS, seed=seed, **own)
    trained = learn.train(settings, show=False)
    found = {
        "return": mean_return(trained.policy, learn.make_env(settings, EPISODES)),
        "seconds": trained.cpu_seconds,
    }
    lengths = [row["gradient_norm"] for row in trained.log if "gradient_norm" in row]
    if lengths:
        found |= {"norm": float(np.median(lengths)), "largest": float(np.max(lengths))}
    return found


def text(result: dict[str, Any]) -> str:
    """Return the table."""
    lines: list[list[Any]] = []
    for row, seeds in result["rows"].items():
        returns = values(seeds, "return")
        norms = ""
        if all("norm" in x for x in seeds.values()):
            norms = f"{np.median(values(seeds, 'norm')):.2g} ({max(values(seeds, 'largest')):.0e})"
        found = ", ".join(f"{x:.0f}" for x in returns)
        lines.append([row, f"{np.median(returns):.0f}", found, norms, middle(seeds, "seconds")])
    head = "| row | median return | seeds 0, 1, ... | gradient norm, median (largest) | time [s] |"
    facts = result["facts"]
    commit = (facts["commit"] or "no commit")[:10]
    origin = (
        f"{STEPS} steps each, returns without noise over {EPISODES} episodes; processor time. "
        f"featherback {commit} ({facts['isa']}), {facts['processor']}."
    )
    return "\n".join([*table(head, lines), origin, ""])


if __name__ == "__main__":
    Program(__file__, str(__doc__), tuple(rows()), measure, text).main()
