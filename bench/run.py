"""Measure the budgets as ratios against MuJoCo, or against our own forward, in the same run.

    python bench/run.py                      all rows, about five minutes
    python bench/run.py --quick --only single
    python bench/run.py --only linearize --only gradient
    python bench/run.py --docs               put the saved figures into docs/speed.md

MuJoCo runs at its fastest setting whose every solve converges at its default tolerance. Repeats of
both engines alternate, medians of undisturbed samples are taken, and the share next to ± is half
the distance of the quartiles. The exit code does not depend on the ratios.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from pathlib import Path

from budgets import BUDGETS, Bench
from gradients import GRADIENTS
from report import ROOT, Row, provenance, save, table
from speed_text import budgets as budgets_text
from speed_text import put_into

STORED = ROOT / "bench" / "budgets.json"
PAGE = ROOT / "docs" / "speed.md"


def put_into_docs(out: Path) -> None:
    """Store the figures of a JSON file, and put its table into the page."""
    if out.resolve() != STORED:
        shutil.copyfile(out, STORED)
    text = budgets_text(json.loads(STORED.read_text()))
    PAGE.write_text(put_into(PAGE.read_text(), "bench/run.py", text))


def main(arguments: list[str] | None = None) -> int:
    """Run the rows that were asked for, print the table and save it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="rough figures in seconds")
    budgets = BUDGETS | GRADIENTS
    parser.add_argument(
        "--only", action="append", choices=list(budgets), metavar="NAME", help=", ".join(budgets)
    )
    parser.add_argument(
        "--out", type=Path, default=ROOT / "results" / "bench.json", help="JSON file"
    )
    parser.add_argument("--docs", action="store_true", help="only put saved figures into docs/")
    given = parser.parse_args(arguments)
    if given.docs and not given.out.exists():
        parser.error(f"{given.out} does not exist; measure first, or name a file with --out")
    if given.docs:
        put_into_docs(given.out)
        return 0
    facts = provenance()
    print(
        f"featherback {facts['featherback']} ({facts['isa']}) and MuJoCo {facts['mujoco']} "
        f"on {facts['processor']}, {facts['cores']} cores"
    )
    bench = Bench(given.quick)
    rows: list[Row] = []
    start = time.perf_counter()
    for name in given.only or budgets:
        print(f"{name} ...", end=" ", flush=True, file=sys.stderr)
        began = time.perf_counter()
        rows.append(budgets[name](bench))
        print(f"{time.perf_counter() - began:.1f} s", file=sys.stderr)
    facts["seconds"] = time.perf_counter() - start
    facts["quick"] = given.quick
    print(f"\n{table(rows)}\n")
    save(rows, facts, given.out)
    print(f"saved to {given.out}; {facts['seconds']:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
