"""Learning curves of `featherback run` over several seeds: kept, and drawn from what is kept.

    featherback run shac-locomotion --seeds 3
    python bench/curves.py --save shac-locomotion runs/shac-locomotion    into bench/curves.json
    python bench/curves.py --docs                                         draw docs/curves_*.png

Kept of every row and seed are the evaluations with their steps and their processor time, and the
figures of the experiment. A line is the median of the seeds, a band their least and largest.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
FILE, DOCS = Path(__file__).with_suffix(".json"), ROOT / "docs"
COLOURS = ("#1f6fb2", "#5aa0d8", "#c8553d", "#8a6d3b", "#7d5ba6", "#5a8f3d")
TASKS = ("ant", "halfcheetah", "hopper", "humanoid", "laikagotrot")
LOCOMOTION = ("shac-compliant", "shac-hard", "ppo-hard", "sac-hard")
SAMPLES = [
    f"{base}-{kind}" for base in ("sac", "mbpo") for kind in ("alone", "first-order", "exact")
]
SWING = ("bptt", "shac", "ppo", "sac", "mbpo", "stored")
# panels of each picture: title, rows by their label
PICTURES: dict[str, dict[str, dict[str, str]]] = {
    "shac-locomotion": {task: {row: f"{task}-{row}" for row in LOCOMOTION} for task in TASKS},
    "ant-samples": {"ant": {row: row for row in SAMPLES}},
    "pendulum-policy": {
        f"fair, {links} links": {row: f"fair-{links}-{row}" for row in SWING}
        for links in (1, 2, 3, 5, 7)
    },
}


def read_log(path: Path) -> dict[str, list[float]]:
    """Return the evaluations in a learner's log."""
    with path.open() as file:
        rows = [row for row in csv.DictReader(file) if row.get("evaluation", "nan") != "nan"]
    names = {"steps": "steps", "seconds": "cpu_seconds", "return": "evaluation"}
    return {name: [round(float(r[key]), 4) for r in rows] for name, key in names.items()}


def keep(name: str, folder: Path) -> dict[str, Any]:
    """Return what is kept of an experiment; folder has seed0, seed1, ..."""
    kept: dict[str, Any] = {"figures": {}, "curves": {}}
    for own in sorted(folder.glob("seed*")):
        seed = own.name.removeprefix("seed")
        content = json.loads((own / f"{name}.json").read_text())
        kept |= {"versions": content["versions"], "full": content["full"]}
        for key, value in content["figures"].items():
            rounded = None if value is None else float(f"{value:.6g}")
            kept["figures"].setdefault(key, {})[seed] = rounded
        for log in sorted(own.glob(f"{name}-*/log.csv")):
            row = log.parent.name.removeprefix(f"{name}-")
            kept["curves"].setdefault(row, {})[seed] = read_log(log)
    return kept


def band(seeds: dict[str, Any], against: str) -> tuple[Any, Any] | None:
    """Return places and the returns of all seeds there, float64[seeds, n]."""
    curves = [c for c in seeds.values() if c["return"]]
    if not curves:
        return None
    first, last = max(c[against][0] for c in curves), min(c[against][-1] for c in curves)
    if last <= first:
        return None
    at = np.linspace(first, last, 60)
    return at, np.array([np.interp(at, c[against], c["return"]) for c in curves])


def draw(name: str, kept: dict[str, Any]) -> Path:
    """Draw returns against processor time above, and against steps below."""
    from matplotlib.figure import Figure

    panels = PICTURES[name]
    size = (max(3.2 * len(panels), 9.0), 6.0)
    picture = Figure(figsize=size, dpi=80, layout="constrained")
    grid = picture.subplots(2, len(panels), squeeze=False)
    for column, (title, rows) in enumerate(panels.items()):
        for axes, against in zip(grid[:, column], ("seconds", "steps"), strict=True):
            for colour, (label, row) in zip(COLOURS, rows.items(), strict=False):
                found = band(kept["curves"].get(row, {}), against)
                if found is None:
                    continue
                at, values = found
                axes.plot(at, np.median(values, axis=0), color=colour, label=label, lw=1.4)
                axes.fill_between(at, *np.quantile(values, (0, 1), axis=0), color=colour, alpha=0.2)
            axes.set_xlabel("processor time [s]" if against == "seconds" else "steps")
            axes.grid(alpha=0.3)
            if against == "steps":
                axes.set_xscale("log")
        grid[0, column].set_title(title)
    grid[0, 0].set_ylabel("return")
    grid[1, 0].set_ylabel("return")
    grid[0, 0].legend(fontsize=7)
    path = DOCS / f"curves_{name.replace('-', '_')}.png"
    picture.savefig(path)
    return path


def main() -> None:
    """Keep the curves of a run, or draw what is kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", nargs=2, metavar=("NAME", "FOLDER"), help="keep a run's curves")
    parser.add_argument("--docs", action="store_true", help="draw the pictures")
    given = parser.parse_args()
    stored = json.loads(FILE.read_text()) if FILE.exists() else {}
    if given.save:
        name, folder = given.save
        stored[name] = keep(name, Path(folder))
        FILE.write_text(json.dumps(stored, separators=(",", ":")).replace("},", "},\n") + "\n")
    if given.docs:
        for name in stored:
            print(draw(name, stored[name]))


if __name__ == "__main__":
    main()
