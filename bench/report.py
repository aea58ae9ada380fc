"""Rows of the benchmark: verdicts, the printed table, and the JSON file with its provenance."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from timing import Timing

import featherback as fb

ROOT = Path(__file__).resolve().parent.parent
HEADER = ("what", "ours", "MuJoCo", "ratio", "must", "goal", "verdict")


@dataclass(frozen=True)
class Row:
    """One budget as measured.

    Attributes:
        name: short name, for --only.
        what: what was measured.
        ours: our figure, with its spread.
        peer: MuJoCo's figure, with its spread.
        value: the number that the budget speaks of.
        must: budget.
        goal: goal, None for none.
        unit: unit of the three, "x" for a ratio.
        lower: whether a smaller value is better.
        notes: what was solved, and how well.
        data: further figures for the JSON file.
    """

    name: str
    what: str
    ours: str
    peer: str
    value: float
    must: float
    goal: float | None
    unit: str = "x"
    lower: bool = False
    notes: tuple[str, ...] = ()
    data: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def verdict(self) -> str:
        """Return "goal", "met" or "missed"."""
        sign = -1.0 if self.lower else 1.0
        if self.goal is not None and sign * self.value >= sign * self.goal:
            return "goal"
        return "met" if sign * self.value >= sign * self.must else "missed"

    def cells(self) -> tuple[str, ...]:
        """Return the row's columns as text."""
        bound = "<= " if self.lower else ">= "
        goal = "" if self.goal is None else bound + figure(self.goal, self.unit)
        must = bound + figure(self.must, self.unit)
        value = figure(self.value, self.unit)
        return (self.what, self.ours, self.peer, value, must, goal, self.verdict)


def figure(value: float, unit: str) -> str:
    """Return a number to three digits with its unit."""
    text = f"{value:.3g}"
    return text + unit if unit in ("x", "") else f"{text} {unit}"


def spread(timing: Timing, count: float, unit: str = "us") -> str:
    """Return the time of one of `count` parts of a call, and half the distance of quartiles."""
    return f"{timing.seconds / count * 1e6:.3g} {unit} ±{50 * timing.spread:.0f}%"


def disturbed(timings: dict[str, Timing]) -> tuple[str, ...]:
    """Return a note if other processes interrupted most samples of a job."""
    bad = [
        f"{name} {t.quiet}/{t.samples}" for name, t in timings.items() if 4 * t.quiet < t.samples
    ]
    return (f"disturbed by other processes; undisturbed samples: {', '.join(bad)}",) if bad else ()


def table(rows: list[Row]) -> str:
    """Return the table, notes under it."""
    lines = [HEADER, *(row.cells() for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADER))]
    out = ["  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) for line in lines]
    out.insert(1, "  ".join("-" * w for w in widths))
    for row in rows:
        out += ["", f"{row.name}: {row.what}", *(f"  {note}" for note in row.notes)]
    return "\n".join(line.rstrip() for line in out)


def _git(*arguments: str) -> str:
    """Return what git says, or nothing."""
    try:
        return subprocess.run(
            ("git", *arguments), cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _processor() -> str:
    """Return the processor's name."""
    try:
        with open("/proc/cpuinfo") as file:
            names = [
                line.split(":", 1)[1].strip() for line in file if line.startswith("model name")
            ]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def provenance() -> dict[str, Any]:
    """Return machine, versions, commit and instruction set."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "load": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "mujoco": mujoco.__version__,
        "featherback": fb.__version__,
        "isa": fb.isa(),
        "commit": _git("rev-parse", "HEAD") or None,
        "modified": bool(_git("status", "--porcelain")),
    }


def save(rows: list[Row], facts: dict[str, Any], path: Path) -> None:
    """Write the rows and where they come from as JSON."""
    keys = (
        "name",
        "what",
        "ours",
        "peer",
        "value",
        "unit",
        "must",
        "goal",
        "lower",
        "verdict",
        "notes",
        "data",
    )
    body = {"provenance": facts, "rows": [{key: getattr(row, key) for key in keys} for row in rows]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(body, indent=1, default=float) + "\n")
