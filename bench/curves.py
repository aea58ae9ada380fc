"""Learning curves of `featherback run` over several seeds: kept, and drawn from what is kept.

    featherback run shac-locomotion --seeds 3
    python bench/curves.py --save shac-locomotion runs/shac-locomotion    into bench/curves.json
    python bench/curves.py --docs    tables into docs/experiments.md, pictures docs/curves_*.png

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
from mujoco_law_text import figure, put_between, table
from report import provenance

ROOT = Path(__file__).resolve().parent.parent
FILE, DOCS = Path(__file__).with_suffix(".json"), ROOT / "docs"
PAGE = DOCS / "experiments.md"
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
        f"fair, links: {links}": {row: f"fair-{links}-{row}" for row in SWING}
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
    kept: dict[str, Any] = {"processor": provenance()["processor"], "seeds": []}
    kept |= {"figures": {}, "curves": {}}
    for own in sorted(folder.glob("seed*")):
        seed = own.name.removeprefix("seed")
        if not (own / f"{name}.json").exists():
            continue
        kept["seeds"].append(seed)
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
    at = np.linspace(first, last, 60) if last > first else np.array([first])
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
                style: dict[str, Any] = {"color": colour, "label": label, "lw": 1.4}
                # one evaluation is a point
                style["marker"] = "" if len(at) > 1 else "o"
                axes.plot(at, np.median(values, axis=0), **style)
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


def cells(figures: dict[str, dict[str, float | None]], key: str, form: str) -> str:
    """Return what all seeds have of a figure; "stopped" where a learner did."""
    found = figures.get(key, {}).values()
    return ", ".join("stopped" if x is None else format(x, form) for x in found)


def middle(figures: dict[str, dict[str, float | None]], key: str) -> str:
    """Return the median of the seeds."""
    known = [x for x in figures.get(key, {}).values() if x is not None]
    return figure(float(np.median(known))) if known else ""


def swing_text(kept: dict[str, Any]) -> str:
    """Return the learners' tables of pendulum-policy, one for each scene."""
    figures, links = kept["figures"], range(1, 8)
    lines: list[str] = []
    for scene in ("fair", "seed"):
        rows: list[list[Any]] = []
        for learner in SWING:
            keys = [f"{scene}, {n} links, {learner}" for n in links]
            rows.append([learner, *(cells(figures, f"{k}: relative reward", ".2f") for k in keys)])
            if scene == "seed":
                best = [cells(figures, f"{k}: best", ".2f") for k in keys]
                rows.append([f"{learner}, best", *best])
        head = f"| {scene}: links | " + " | ".join(map(str, links)) + " |"
        lines += table(head, rows)
    times: list[list[Any]] = []
    for learner in SWING:
        keys = [f"fair, {n} links, {learner}: processor time [s]" for n in links]
        times.append([learner, *(middle(figures, k) for k in keys)])
    head = "| fair: processor time [s] | " + " | ".join(map(str, links)) + " |"
    return "\n".join([*lines, *table(head, times)])


def rows_text(kept: dict[str, Any], rows: list[str]) -> str:
    """Return a table of returns, with a line for each row."""
    figures = kept["figures"]
    head = "| row | return at the end | best evaluation | steps | processor time [s] |"
    lines: list[list[Any]] = []
    for row in rows:
        ends = [
            cells(figures, f"{row}: {x}", ".0f") for x in ("return at the end", "best evaluation")
        ]
        cost = [
            cells(figures, f"{row}: steps", ".0f"),
            middle(figures, f"{row}: processor time [s]"),
        ]
        lines.append([row, *ends, *cost])
    return "\n".join(table(head, lines))


def locomotion_text(kept: dict[str, Any]) -> str:
    """Return the returns of shac-locomotion, and the gradients by horizon."""
    tasks = ("Ant", "HalfCheetah", "Hopper", "Humanoid", "LaikagoTrot")
    rows = ("shac, compliant", "shac, hard", "ppo, hard", "sac, hard")
    returns = rows_text(kept, [f"{task}, {row}" for task in tasks for row in rows])
    horizons, figures = (2, 4, 8, 16, 32), kept["figures"]
    head = "| Ant: gradient norm over steps | " + " | ".join(map(str, horizons)) + " |"
    norms = [
        [
            law,
            *(cells(figures, f"Ant, {law}: gradient norm over {h} steps", ".3g") for h in horizons),
        ]
        for law in ("hard", "compliant", "mujoco")
    ]
    return "\n".join([returns, *table(head, norms)])


def samples_text(kept: dict[str, Any]) -> str:
    """Return the returns of ant-samples."""
    return rows_text(kept, [row.replace("-", ", ", 1) for row in SAMPLES])


TEXTS = {
    "pendulum-policy": swing_text,
    "shac-locomotion": locomotion_text,
    "ant-samples": samples_text,
}


def origin(kept: dict[str, Any]) -> str:
    """Return where the figures come from."""
    found = kept["versions"]
    return (
        f"Seeds {', '.join(kept['seeds'])}, a figure for each, medians of the times. "
        f"featherback {found['featherback']} ({found['isa']}), torch {found['torch']}, "
        f"MuJoCo {found['mujoco']}, {kept['processor']}.\n"
    )


def main() -> None:
    """Keep the curves of a run, or show what is kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", nargs=2, metavar=("NAME", "FOLDER"), help="keep a run's curves")
    parser.add_argument("--docs", action="store_true", help="tables and pictures")
    given = parser.parse_args()
    stored = json.loads(FILE.read_text()) if FILE.exists() else {}
    if given.save:
        name, folder = given.save
        stored[name] = keep(name, Path(folder))
        FILE.write_text(json.dumps(stored, separators=(",", ":")).replace("},", "},\n") + "\n")
    if given.docs:
        for name in stored:
            found = f"{TEXTS[name](stored[name])}\n{origin(stored[name])}"
            put_between(PAGE, f"bench/curves.py {name}", found)
            print(draw(name, stored[name]))


if __name__ == "__main__":
    main()
