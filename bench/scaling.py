"""How time and memory grow: worlds, threads, links, contacts, steps, checkpoints, Jacobians.

    python bench/scaling.py                      all sweeps, about ten minutes
    python bench/scaling.py --quick              a minute, fewer and smaller sizes
    python bench/scaling.py --only links --only contacts
    python bench/scaling.py --docs               put the saved figures into docs/

Repeats of both engines alternate; medians of samples that no other process interrupted are taken.
Rollouts whose memory is measured run in fresh processes. Every sweep is saved with machine,
versions and commit; one that is measured alone replaces its own figures in the file and no others.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from plots import plot_all
from report import ROOT, provenance
from scaling_memory import ablation, memory, ten
from scaling_sweeps import Effort, Row, batch, contacts, horizon, jacobian, links, threads
from scaling_text import page, put_into

SWEEPS: dict[str, Callable[[Effort], list[Row]]] = {
    "batch": batch,
    "threads": threads,
    "links": links,
    "contacts": contacts,
    "horizon": horizon,
    "memory": memory,
    "ablation": ablation,
    "ten": ten,
    "jacobian": jacobian,
}
STORED = ROOT / "bench" / "scaling.json"
PAGE = ROOT / "docs" / "scaling.md"


def measure(names: list[str], quick: bool, out: Path) -> None:
    """Measure the sweeps and save each as it is done."""
    out.parent.mkdir(parents=True, exist_ok=True)
    saved: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
    for name in names:
        print(f"{name} ...", end=" ", flush=True, file=sys.stderr)
        facts, start = provenance(), time.perf_counter()
        rows = SWEEPS[name](Effort(quick))
        facts |= {"seconds": time.perf_counter() - start, "quick": quick}
        # the load at the end is what the sweep itself and others made of it
        facts["load_after"] = list(os.getloadavg()) if hasattr(os, "getloadavg") else None
        saved[name] = {"provenance": facts, "rows": rows}
        ordered = {key: saved[key] for key in SWEEPS if key in saved}
        out.write_text(json.dumps(ordered, indent=1) + "\n")
        print(f"{facts['seconds']:.1f} s", file=sys.stderr)


def put_into_docs(out: Path) -> None:
    """Store the figures of a JSON file, and put its tables and plots into the page."""
    if out.resolve() != STORED:
        shutil.copyfile(out, STORED)
    saved = json.loads(STORED.read_text())
    plot_all(saved, PAGE.parent)
    PAGE.write_text(put_into(PAGE.read_text(), saved))


def main(arguments: list[str] | None = None) -> int:
    """Measure what was asked for and print it, or put saved figures into the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="rough figures in a minute")
    parser.add_argument(
        "--only", action="append", choices=list(SWEEPS), metavar="NAME", help=", ".join(SWEEPS)
    )
    parser.add_argument(
        "--out", type=Path, default=ROOT / "results" / "scaling.json", help="JSON file"
    )
    parser.add_argument("--plots", type=Path, metavar="DIR", help="also draw PNGs into a folder")
    parser.add_argument("--docs", action="store_true", help="only put saved figures into docs/")
    given = parser.parse_args(arguments)
    if given.docs and not given.out.exists():
        parser.error(f"{given.out} does not exist; measure first, or name a file with --out")
    if given.docs:
        put_into_docs(given.out)
        return 0
    measure(given.only or list(SWEEPS), given.quick, given.out)
    saved = json.loads(given.out.read_text())
    print(page({name: saved[name] for name in given.only or saved}))
    if given.plots:
        plot_all(saved, given.plots)
    print(f"saved to {given.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
