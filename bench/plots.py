"""Draw the figures of bench/scaling.py and bench/tables.py, from their JSON files only.

python bench/plots.py bench/scaling.json docs
python bench/plots.py bench/tables.json docs
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Rows = list[Row]

OURS = ("#1f6fb2", "#5aa0d8", "#12416b", "#7fb9e6")
OTHERS = (
    *("#c8553d", "#8a6d3b", "#7d5ba6", "#5a8f3d", "#777777"),
    *("#d8a02f", "#c2569b", "#3aa6a0"),
)
MARKS = "os^Dv<>Ph"
DPI = 100


@dataclass(frozen=True)
class Line:
    """One line of a plot.

    Attributes:
        label: in the legend.
        x: sizes.
        y: figures.
        low: lower quartiles, empty for none.
        high: upper quartiles, empty for none.
        dashed: whether it is drawn dashed.
    """

    label: str
    x: list[float]
    y: list[float]
    low: list[float]
    high: list[float]
    dashed: bool = False


def timed(
    rows: Rows, label: str, what: str, scale: Callable[[float], float], **where: Any
) -> Line | None:
    """Return the line of a timing over the rows in which every key of `where` has its value."""
    of = [r for r in rows if what in r and all(r.get(k) == v for k, v in where.items())]
    if not of:
        return None
    y, low, high = ([scale(r[what][k]) for r in of] for k in ("us", "low_us", "high_us"))
    return Line(label, [r["x"] for r in of], y, low, high, what == "backward")


def plain(rows: Rows, label: str, figure: Callable[[Row], float], **where: Any) -> Line | None:
    """Return the line of a figure without quartiles over the rows that did not fail."""
    of = [r for r in rows if "failed" not in r and all(r.get(k) == v for k, v in where.items())]
    return Line(label, [r["x"] for r in of], [figure(r) for r in of], [], []) if of else None


def _same(us: float) -> float:
    return us


def _per_second(us: float) -> float:
    return 1e6 / us


def is_ours(label: str) -> bool:
    """Return whether a line is drawn in our colours."""
    others = ("MuJoCo", "MJX", "CppAD", "Ceres", "PyTorch", "JAX", "our differences")
    return not label.startswith((*others, 'checkpoint="bytes'))


def draw(
    axes: Any, lines: list[Line | None], labels: tuple[str, str, str], linear: str = ""
) -> None:
    """Draw lines with the band between their quartiles.

    Args:
        axes: where.
        lines: what; None is left out.
        labels: title, x label, y label.
        linear: names of the axes that are not logarithmic, among "x" and "y".
    """
    colours = {True: iter(OURS * 3), False: iter(OTHERS * 3)}
    shown = [line for line in lines if line is not None]
    for place, line in enumerate(shown):
        colour = next(colours[is_ours(line.label)])
        style = {"color": colour, "linestyle": "--" if line.dashed else "-"}
        mark = MARKS[place % len(MARKS)]
        axes.plot(line.x, line.y, marker=mark, markersize=4, label=line.label, **style)
        if line.low:
            axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.2, linewidth=0)
    axes.set_title(labels[0], fontsize=10)
    axes.set_xlabel(labels[1])
    axes.set_ylabel(labels[2])
    if "x" not in linear:
        axes.set_xscale("log")
        ticks = sorted({x for line in shown for x in line.x})
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=8)
        axes.set_xticks([], minor=True)
    if "y" not in linear:
        axes.set_yscale("log")
    axes.grid(alpha=0.3, which="major")
    axes.legend(fontsize=7.5)


def tools(rows: Rows) -> list[str]:
    """Return the tools of a sweep in order."""
    return list(dict.fromkeys(row["tool"] for row in rows))


def both_ways(rows: Rows, scale: Callable[[float], float], **where: Any) -> list[Line | None]:
    """Return a line for forward and one for backward of every tool."""
    return [
        timed(rows, f"{tool}, {what}", what, scale, tool=tool, **where)
        for tool in tools(rows)
        for what in ("forward", "backward")
    ]


def batch(rows: Rows, figure: Any) -> None:
    """World-steps per second by worlds."""
    labels = ("One core", "worlds in the batch", "world-steps per second")
    draw(figure.subplots(), both_ways(rows, _per_second), labels)


def threads(rows: Rows, figure: Any) -> None:
    """World-steps per second by threads."""
    labels = ("1024 worlds", "threads", "world-steps per second")
    axes = figure.subplots()
    draw(axes, both_ways(rows, _per_second), labels, "xy")
    axes.set_ylim(bottom=0.0)
    axes.set_xticks([row["x"] for row in rows if row["tool"] == rows[0]["tool"]])


def by_scene(rows: Rows, figure: Any, label: str, linear: str) -> None:
    """Time of a step, one plot for each scene."""
    scenes = list(dict.fromkeys(row["scene"] for row in rows))
    for axes, scene in zip(figure.subplots(1, len(scenes), sharey=True), scenes, strict=True):
        draw(axes, both_ways(rows, _same, scene=scene), (scene, label, ""), linear)
    figure.axes[0].set_ylabel("time of one step [us]")


def links(rows: Rows, figure: Any) -> None:
    """Time of a step by links."""
    by_scene(rows, figure, "links of the chain", "")


def contacts(rows: Rows, figure: Any) -> None:
    """Time of a step by contacts."""
    by_scene(rows, figure, "contacts", "x")
    for axes in figure.axes:
        axes.set_xscale("symlog", base=2, linthresh=1.0)
        axes.set_xlim(left=0.0)
        ticks = sorted({row["x"] for row in rows})
        axes.set_xticks(ticks, [str(tick) for tick in ticks])


def horizon(rows: Rows, figure: Any) -> None:
    """Time of a step by steps."""
    axes = figure.subplots()
    draw(axes, both_ways(rows, _same), ("One Laikago", "steps", "time of one step [us]"), "y")
    axes.set_ylim(bottom=0.0)


def memory(rows: Rows, figure: Any) -> None:
    """Peaks by steps for each schedule, measured and predicted."""
    left, right = figure.subplots(1, 2)
    label = ("Peak above the idle process", "steps", "measured [MB]")
    draw(left, [plain(rows, t, lambda r: r["peak_mb"], tool=t) for t in tools(rows)], label)

    def said(row: Row) -> float:
        return row["predicted_mb"]["states"] + row["predicted_mb"]["controls"]

    label = ("What sim.memory says: states and controls", "steps", "predicted [MB]")
    draw(right, [plain(rows, t, said, tool=t) for t in tools(rows)], label)
    bottom = min(left.get_ylim()[0], right.get_ylim()[0])
    top = max(left.get_ylim()[1], right.get_ylim()[1])
    for axes in (left, right):
        axes.set_ylim(bottom, top)


def kind_of(schedule: str) -> str:
    """Return which kind of schedule a row of the ablation has."""
    if "CppAD" in schedule:
        return "every intermediate"
    if "bytes:" in schedule:
        return "budget of bytes"
    return "every state" if "step" in schedule else "every k-th state"


def ablation(rows: Rows, figure: Any) -> None:
    """Memory against backward time, a point for each schedule, a plot for each number of robots."""
    counts = list(dict.fromkeys(row["robots"] for row in rows))
    for axes, robots in zip(figure.subplots(1, len(counts)), counts, strict=True):
        mine = [row for row in rows if row["robots"] == robots]
        of = [row for row in mine if "failed" not in row]
        colours = dict(
            zip(
                ("every state", "every k-th state", "budget of bytes"),
                (*OURS[:2], OTHERS[0]),
                strict=True,
            )
        )
        for kind, colour in colours.items():
            points = [row for row in of if kind_of(row["tool"]) == kind]
            x, y = [r["backward"]["us"] for r in points], [r["peak_mb"] for r in points]
            axes.plot(x, y, "o", color=colour, markersize=5, label=kind)
            for row, px, py in zip(points, x, y, strict=True):
                name = re.sub(r'checkpoint=|bytes:|"', "", row["tool"])
                axes.annotate(name, (px, py), (3, 3), fontsize=6.5, textcoords="offset points")
        for row in (row for row in mine if kind_of(row["tool"]) not in colours):
            text = row.get("failed") or f"{row['peak_mb']:.0f} MB, {row['backward']['us']:.0f} us"
            axes.plot([], [], "x", color=OTHERS[1], label=f"off the plot: CppAD's tape, {text}")
        who = "One Laikago" if robots == 1 else f"{robots} Laikagos in one world"
        axes.set_title(f"{who}, {of[0]['x']} steps", fontsize=10)
        axes.set(xscale="log", ylim=(0.0, None), xlabel="backward, time of one step [us]")
        axes.grid(alpha=0.3, which="both", axis="x")
        axes.grid(alpha=0.3, axis="y")
        axes.legend(fontsize=7.5)
    figure.axes[0].set_ylabel("peak above the idle process [MB]")


def ten(rows: Rows, figure: Any) -> None:
    """Memory and time of ten robots by steps."""
    left, right = figure.subplots(1, 2)
    title = "Ten Laikagos in one world"
    peaks = [plain(rows, t, lambda r: r["peak_mb"], tool=t) for t in tools(rows)]
    draw(left, peaks, (title, "steps", "peak above the idle process [MB]"), "x")
    draw(right, both_ways(rows, _same), (title, "steps", "time of one step [us]"), "x")


def jacobian(rows: Rows, figure: Any) -> None:
    """Time of A and B by degrees of freedom."""
    lines = [timed(rows, tool, "time", _same, tool=tool) for tool in tools(rows)]
    labels = ("A and B of one step of a driven chain", "degrees of freedom", "time [us]")
    draw(figure.subplots(), lines, labels)


# by sweep: what draws it, and the width of the picture in inches
PLOTS: dict[str, tuple[Callable[[Rows, Any], None], float]] = {
    "batch": (batch, 6.5),
    "threads": (threads, 6.5),
    "links": (links, 9.5),
    "contacts": (contacts, 12.0),
    "horizon": (horizon, 6.5),
    "memory": (memory, 11.0),
    "ablation": (ablation, 11.0),
    "ten": (ten, 11.0),
    "jacobian": (jacobian, 6.5),
}


def tables(rows: Rows, figure: Any) -> None:
    """Memory and time of every tool of the tables of Qiao et al. (2021), by steps.

    Backward is shown with forward, since some tools have the derivatives from forward already.
    """
    for row in rows:
        row["x"] = row["steps"]
    panels = {
        "peak above the idle process [MB]": lambda r: r["memory_mb"],
        "forward, time of one step [ms]": lambda r: r["forward"]["ms"],
        "forward and backward, time of one step [ms]": (
            lambda r: r["forward"]["ms"] + r["backward"]["ms"]
        ),
    }
    for axes, (label, value) in zip(figure.subplots(1, 3), panels.items(), strict=True):
        draw(axes, [plain(rows, t, value, tool=t) for t in tools(rows)], ("", "steps", label))
        axes.get_legend().remove()
    # one for all: the lines lie where each of three would stand
    names = figure.axes[0].get_legend_handles_labels()
    figure.legend(*names, loc="outside lower center", ncols=5, fontsize=7.5)


def save(call: Callable[[Rows, Any], None], rows: Rows, width: float, path: Path) -> Path:
    """Draw rows into a new picture of a width in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SystemExit(
            "plots: matplotlib is not installed; pictures need it: pip install 'featherback[plot]'."
        ) from None

    figure = Figure(figsize=(width, 4.2), dpi=DPI, layout="constrained")
    call(rows, figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    # without the library's version in it, equal figures give equal files
    figure.savefig(path, metadata={"Software": None})
    return path


def plot_all(saved: dict[str, Any], folder: Path) -> list[Path]:
    """Draw every sweep of a file of bench/scaling.py into a folder; return the pictures."""
    return [
        save(PLOTS[name][0], sweep["rows"], PLOTS[name][1], folder / f"scaling_{name}.png")
        for name, sweep in saved.items()
    ]


def plot_tables(saved: dict[str, Any], folder: Path) -> list[Path]:
    """Draw the rows of a file of bench/tables.py, a picture for each number of robots."""
    counts = dict.fromkeys(row.get("robots", 1) for row in saved["rows"])
    return [
        save(
            tables,
            [dict(row) for row in saved["rows"] if row.get("robots", 1) == robots],
            13.0,
            folder / f"tables_{robots}.png",
        )
        for robots in counts
    ]


def main(file: Path, folder: Path) -> None:
    """Draw a file of either kind and print the pictures."""
    saved = json.loads(file.read_text())
    for path in plot_tables(saved, folder) if "rows" in saved else plot_all(saved, folder):
        print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
