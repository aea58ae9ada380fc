"""The sweeps of bench/scaling.py that take memory too, each rollout in a fresh process."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from autodiff.build import compile_tool, write_scene
from report import ROOT
from scaling_scenes import standing_scene
from scaling_sweeps import OURS, Effort, Row
from timing import summarise

import featherback as fb

WORKER = ROOT / "bench" / "scaling_worker.py"
SCHEDULES: tuple[str | int, ...] = ("step", 10, 100, "bytes:64kB", "bytes:1MB")
ABLATION: tuple[str | int, ...] = (
    *("step", 2, 5, 10, 20, 70, 200, 1000, 5000),
    *("bytes:1MB", "bytes:256kB", "bytes:64kB", "bytes:16kB", "bytes:4kB"),
)
EVERYTHING = "every intermediate (CppAD's tape)"
TIME_LIMIT = 600  # seconds for one process
MEMORY_LIMIT = 8 << 30  # bytes of address space for one process


def _process(command: list[str]) -> dict[str, Any] | str:
    """Return what a process prints as JSON, or why it prints nothing."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))

    try:
        done = subprocess.run(
            command, capture_output=True, text=True, preexec_fn=limit, timeout=TIME_LIMIT
        )
    except subprocess.TimeoutExpired:
        return f"took over {TIME_LIMIT} s"
    if done.returncode:
        if "bad_alloc" in done.stderr or "MemoryError" in done.stderr:
            return f"needs over {MEMORY_LIMIT >> 30} GiB"
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return f"ended with code {done.returncode}: {last[:160]}"
    return json.loads(done.stdout)


def _ours(robots: int, steps: int, checkpoint: str | int, seconds: float) -> dict[str, Any] | str:
    """Return what our rollout takes in a fresh process."""
    task = {"robots": robots, "steps": steps, "checkpoint": checkpoint, "seconds": seconds}
    return _process([sys.executable, str(WORKER), json.dumps(task)])


@cache
def _program(folder: Path) -> Path | str:
    """Return the core compiled on CppAD's number, or why there is none."""
    return compile_tool("CppAD", folder, 37)


def _everything(robots: int, steps: int, seconds: float) -> dict[str, Any] | str:
    """Return what the same rollout takes where the tape keeps every intermediate result."""
    folder = ROOT / "build" / "autodiff"
    program = _program(folder)
    if isinstance(program, str):
        return program
    scene, path = standing_scene(robots, steps), folder / f"standing_{robots}_{steps}.bin"
    write_scene(path, fb.Simulator(scene.model), scene.q[0], scene.v[0], scene.u[0])
    found = _process([str(program), str(path), str(seconds)])
    path.unlink()
    if isinstance(found, str):
        return found
    for key in ("forward", "backward"):
        flat = found[key]
        found[key] = list(zip(flat[::2], flat[1::2], strict=True))
    return found


def _figures(found: dict[str, Any] | str, steps: int) -> Row:
    """Return peak, prediction and times for each step, or why there are none."""
    if isinstance(found, str):
        return {"failed": found}
    row: Row = {"peak_mb": (found["peak_kb"] - found["idle_kb"]) / 1e3}
    row |= {k: summarise(found[k]).per(steps) for k in ("forward", "backward")}
    if "predicted" in found:
        row["predicted_mb"] = {k: n / 1e6 for k, n in found["predicted"].items()}
        row["kept"] = found["kept"]
    return row


def _distance(mine: dict[str, Any] | str, theirs: dict[str, Any] | str) -> Row:
    """Return how far the last states of two tools are apart, where both have one."""
    if isinstance(mine, str) or isinstance(theirs, str):
        return {}
    pairs = zip(mine["state"], theirs["state"], strict=True)
    return {"state_error": max(abs(a - b) for a, b in pairs)}


def _scaled(checkpoint: str | int, robots: int) -> str | int:
    """Return a budget of bytes for so many robots, whose states are larger."""
    if isinstance(checkpoint, int) or ":" not in checkpoint:
        return checkpoint
    return re.sub(r"\d+", lambda found: str(robots * int(found[0])), checkpoint)


def _named(checkpoint: str | int) -> str:
    """Return the option as it is written in a call."""
    return (
        f'checkpoint="{checkpoint}"' if isinstance(checkpoint, str) else f"checkpoint={checkpoint}"
    )


def memory(effort: Effort) -> list[Row]:
    """Steps of one rollout of a standing Laikago, by checkpoint schedule: peak and prediction."""
    rows: list[Row] = []
    for steps in effort.sizes(50, 500, 5000, 50_000):
        for checkpoint in SCHEDULES:
            found = _ours(1, steps, checkpoint, 0.0 if effort.quick else 0.3)
            rows.append({"tool": _named(checkpoint), "x": steps, **_figures(found, steps)})
    return rows


def ablation(effort: Effort) -> list[Row]:
    """Checkpoint schedules of one rollout of one and of ten standing Laikagos."""
    rows: list[Row] = []
    steps = 100 if effort.quick else 5000
    schedules = ABLATION[::4] if effort.quick else ABLATION
    for robots in (1, 10):
        kind: Row = {"x": steps, "robots": robots}
        first: dict[str, Any] | str = ""
        for checkpoint in (_scaled(c, robots) for c in schedules):
            found = _ours(robots, steps, checkpoint, 0.0 if effort.quick else 0.5)
            first = first or found
            row = {"tool": _named(checkpoint), **kind, **_figures(found, steps)}
            if isinstance(first, dict) and isinstance(found, dict):
                row["same_bits"] = found["bits"] == first["bits"]
            rows.append(row)
        found = _everything(robots, steps, 0.0)
        rows.append(
            {"tool": EVERYTHING, **kind, **_figures(found, steps), **_distance(first, found)}
        )
    return rows


def ten(effort: Effort) -> list[Row]:
    """Steps of a rollout of ten standing Laikagos in one world; figure 3 of Qiao et al. (2021)."""
    rows: list[Row] = []
    counts = [50, 100] if effort.quick else [250, 500, 1000, 2000, 3000, 4000, 5000]
    dead = ""
    for steps in counts:
        mine = _ours(10, steps, "step", 0.0 if effort.quick else 1.0)
        rows.append({"tool": OURS, "x": steps, **_figures(mine, steps)})
        # what does not fit once does not fit with more steps
        theirs = dead or _everything(10, steps, 0.0)
        dead = theirs if isinstance(theirs, str) else ""
        row = {"tool": "CppAD", "x": steps, **_figures(theirs, steps)}
        rows.append(row | _distance(mine, theirs))
    return rows
