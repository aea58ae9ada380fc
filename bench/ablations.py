"""The ant by SHAC and PPO with one thing changed: horizon, contacts, number type.

    python bench/ablations.py --save            train all, write bench/ablations.json
    python bench/ablations.py --save --seeds 1  one seed only; seeds and rows that the file has stay
    python bench/ablations.py --docs            put the table of that file into docs/learning.md

All rows have the same number of steps. SHAC has the same samples in an iteration for every horizon,
so that a horizon of 64 has 32 worlds where one of 8 has 256, and all make the same updates.
Policies are run without noise in 16 episodes where they were trained.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from mujoco_law_text import figure, put_between, table
from report import provenance

import featherback.learn as learn

FILE = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).resolve().parent.parent / "docs" / "learning.md"
STEPS, EPISODES, UNSEEN = 600_000, 16, 10_000
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


def measure(given: dict[str, Any], seed: int) -> dict[str, float]:
    """Train a policy; return its mean return, processor time and the lengths of its gradients."""
    own = dict(given)
    make: Any = learn.SHAC if own.pop("learner") == "shac" else learn.PPO
    settings = make(env="Ant", steps=STEPS, seed=seed, **own)
    trained = learn.train(settings, show=False)
    env = learn.make_env(settings, EPISODES)
    found = {
        "return": float(np.mean(learn.run_policy(trained.policy, env, seed=UNSEEN))),
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
        values = [x["return"] for x in seeds.values()]
        found = [f"{x:.0f}" for x in values]
        seconds = figure(float(np.median([x["seconds"] for x in seeds.values()])))
        norms = ""
        if all("norm" in x for x in seeds.values()):
            middle = np.median([x["norm"] for x in seeds.values()])
            norms = f"{middle:.2g} ({max(x['largest'] for x in seeds.values()):.0e})"
        lines.append([row, f"{np.median(values):.0f}", ", ".join(found), norms, seconds])
    head = "| row | median return | seeds 0, 1, ... | gradient norm, median (largest) | time [s] |"
    facts = result["facts"]
    commit = (facts["commit"] or "no commit")[:10]
    origin = (
        f"{STEPS} steps each, returns without noise over {EPISODES} episodes; processor time. "
        f"featherback {commit} ({facts['isa']}), {facts['processor']}."
    )
    return "\n".join([*table(head, lines), origin, ""])


def main() -> None:
    """Measure, print, and write what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", help="rows")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--save", action="store_true", help="write the JSON file")
    parser.add_argument("--docs", action="store_true", help="put the stored table into the page")
    given = parser.parse_args()
    if given.docs:
        put_between(PAGE, "bench/ablations.py", text(json.loads(FILE.read_text())))
        return
    stored = json.loads(FILE.read_text()) if FILE.exists() else {"rows": {}}
    result = {"facts": provenance(), "rows": stored["rows"]}
    for seed in range(given.seeds):
        for row, own in rows().items():
            seeds = result["rows"].setdefault(row, {})
            if str(seed) in seeds or (given.only and row not in given.only):
                continue
            seeds[str(seed)] = measure(own, seed)
            print(row, seed, seeds[str(seed)], flush=True)
            if given.save:
                FILE.write_text(json.dumps(result, indent=1) + "\n")
    print(text(result))


if __name__ == "__main__":
    main()
