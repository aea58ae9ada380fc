"""Steps of environments for one second of one core: ours, EnvPool, Gymnasium, MuJoCo's rollout.

    python bench/env_speed.py                  measure, print the table
    python bench/env_speed.py --save           and write bench/env_speed.json
    python bench/env_speed.py --docs           put the table of that file into docs/environments.md

What is measured and how is in featherback/experiments/neural/env_rates.py, and `featherback run
env-speed` is the same as an experiment. EnvPool is measured where it is installed,
`pip install envpool`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from env_speed_text import put_table, text
from report import provenance

from featherback.experiments.neural.env_rates import FORCES, OWN, WORLDS, jobs_of, measure

FILE = Path(__file__).with_suffix(".json")


def main() -> None:
    """Measure, print, and write what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[*FORCES, *OWN], help="tasks")
    parser.add_argument("--worlds", type=int, default=WORLDS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save", action="store_true", help="write the JSON file")
    parser.add_argument("--docs", action="store_true", help="put the stored table into the page")
    given = parser.parse_args()
    if given.docs:
        put_table(json.loads(FILE.read_text()))
        return
    stored = json.loads(FILE.read_text()) if given.save and FILE.exists() else {"tasks": {}}
    result = {"worlds": given.worlds, "facts": provenance(), "tasks": stored["tasks"]}
    for name in given.only:
        result["tasks"][name] = measure(jobs_of(name, given.worlds), given.rounds)
        print(name, {k: round(v) for k, v in result["tasks"][name].items()}, flush=True)
        if given.save:
            FILE.write_text(json.dumps(result, indent=1) + "\n")
    print(text(result))


if __name__ == "__main__":
    main()
