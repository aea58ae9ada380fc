"""Measure the budgets as ratios against MuJoCo, or against our own forward, in the same run.

    python bench/run.py                      all rows, about five minutes
    python bench/run.py --quick --only single
    python bench/run.py --only linearize --only gradient

MuJoCo runs at its fastest setting whose every solve converges at its default tolerance. Repeats of
both engines alternate, medians of undisturbed samples are taken, and the share next to ± is half
the distance of the quartiles. The exit code does not depend on the ratios.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from budgets import BUDGETS, Bench
from gradients import GRADIENTS
from report import ROOT, Row, provenance, save, table


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
    given = parser.parse_args(arguments)
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
