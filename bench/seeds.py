"""What programs share that train policies: rows with seeds, kept in a file, told on a page.

Rows and seeds that the file has are not trained again, so that a run can be ended and gone on with.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from mujoco_law_text import figure, put_between
from report import provenance

import featherback.learn as learn

PAGE = Path(__file__).resolve().parent.parent / "docs" / "learning.md"
EPISODES, UNSEEN = 16, 10_000
# figures of a row by seed
Seeds = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Program:
    """A program that trains the rows of a table.

    Attributes:
        file: where it stands; results lie beside it.
        about: what --help says.
        rows: the names of the rows.
        measure: (row, seed) -> figures.
        text: what the page shows of a result.
        others: -> what the result has besides provenance and rows.
    """

    file: str
    about: str
    rows: tuple[str, ...]
    measure: Callable[[str, int], dict[str, float]]
    text: Callable[[dict[str, Any]], str]
    others: Callable[[], dict[str, Any]] = dict

    def main(self) -> None:
        """Measure, print, and write what is asked for."""
        parser = argparse.ArgumentParser(description=self.about.splitlines()[0])
        parser.add_argument("--only", nargs="*", default=list(self.rows), help="rows")
        parser.add_argument("--seeds", type=int, default=3)
        parser.add_argument("--save", action="store_true", help="write the JSON file")
        parser.add_argument("--docs", action="store_true", help="put the table into the page")
        given = parser.parse_args()
        kept = Path(self.file).with_suffix(".json")
        stored = json.loads(kept.read_text()) if kept.exists() else {"rows": {}}
        if given.docs:
            put_between(PAGE, f"bench/{Path(self.file).name}", self.text(stored))
            return
        result = {"facts": provenance(), **self.others(), "rows": stored["rows"]}
        for seed in range(given.seeds):
            for row in given.only:
                seeds = result["rows"].setdefault(row, {})
                if str(seed) in seeds:
                    continue
                seeds[str(seed)] = self.measure(row, seed)
                print(row, seed, seeds[str(seed)], flush=True)
                if given.save:
                    result["rows"] = self.in_order(result["rows"])
                    kept.write_text(json.dumps(result, indent=1) + "\n")
        print(self.text(result))

    def in_order(self, rows: dict[str, Seeds]) -> dict[str, Seeds]:
        """Return rows in the order of the program, and their seeds by number."""
        return {
            row: dict(sorted(rows[row].items(), key=lambda pair: int(pair[0])))
            for row in self.rows
            if row in rows
        }


def mean_return(policy: Any, env: Any) -> float:
    """Return the mean return of a policy in episodes that no training has seen."""
    return float(np.mean(learn.run_policy(policy, env, seed=UNSEEN)))


def values(seeds: Seeds, name: str) -> list[float]:
    """Return a figure of all seeds."""
    return [found[name] for found in seeds.values()]


def middle(seeds: Seeds, name: str) -> str:
    """Return the median of a figure, as the table has it."""
    return figure(float(np.median(values(seeds, name))))
