"""The seed paper's Tables 1 to 3: one standing Laikago, time and memory of rollout and gradient.

    python bench/tables.py                       all tools, 50 to 5000 steps
    python bench/tables.py --steps 50 --rounds 1 --only featherback --only CppAD
    python bench/tables.py --docs                put the tables of the JSON file into docs/tables.md

Every rollout runs in a fresh process under limits of time and memory; rounds go through
all tools in turn. The programs of bench/autodiff are compiled at the first run.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from autodiff.build import FLAGS, HEADERS, compile_tool, version, write_scene
from numpy.typing import NDArray
from peer import best_setting
from report import ROOT, provenance
from scenes import laikago_scene
from tables_text import put_into, tables
from timing import summarise

import featherback as fb

STEPS = (50, 100, 500, 1000, 5000)
TOOLS = ("featherback", "CppAD", "Ceres jets", "MuJoCo")
PYTHON_TOOLS = ("featherback", "MuJoCo")
TIME_LIMIT = 900  # seconds for one process
MEMORY_LIMIT = 12 << 30  # bytes of address space for one process
PATIENCE = 0.5  # seconds for which a process repeats its rollout
JSON_FILE = ROOT / "bench" / "tables.json"
PAGE = ROOT / "docs" / "tables.md"


class Tables:
    """What is measured: the scene by number of steps, and a command for each tool."""

    def __init__(self, folder: Path, tools: list[str]) -> None:
        """Compile the programs of the tools that need one, and find MuJoCo's setting."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.sim = fb.Simulator(fb.models.laikago(), threads=1)
        self.q, self.v = self.sim.model.keyframe("stand")
        state = self.q.size + self.v.size
        native = [tool for tool in tools if tool not in PYTHON_TOOLS]
        self.programs = {tool: compile_tool(tool, folder, state) for tool in native}
        self.setting: dict[str, Any] = {}
        if "MuJoCo" in tools:
            self.setting = asdict(best_setting(laikago_scene(1, 2, 200), quick=True)[0])

    def controls(self, steps: int) -> NDArray[np.float64]:
        """Return servo targets that hold the stand pose."""
        return np.tile(self.q[7:], (steps, 1))

    def truth(self, steps: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return our last state and our gradient of the sum of its numbers."""
        roll = self.sim.rollout(self.q, self.v, self.controls(steps))
        roll.raise_if_bad()
        g = roll.vjp(np.ones_like(self.q), np.ones_like(self.v))
        gradient = np.concatenate([np.ravel(a) for a in (g.q, g.v, g.u)])
        return np.concatenate([roll.q[-1], roll.v[-1]]), gradient

    def command(self, tool: str, steps: int) -> list[str] | str:
        """Return the command of one run, or why there is none."""
        if tool in PYTHON_TOOLS:
            path = self.folder / f"scene_{steps}.npz"
            np.savez(path, q=self.q, v=self.v, u=self.controls(steps))
            worker = str(ROOT / "bench" / "tables_worker.py")
            setting = json.dumps(self.setting)
            return [sys.executable, worker, tool, str(path), str(PATIENCE), setting]
        program = self.programs[tool]
        if isinstance(program, str):
            return program
        path = self.folder / f"scene_{steps}.bin"
        write_scene(path, self.sim, self.q, self.v, self.controls(steps))
        return [str(program), str(path), str(PATIENCE)]

    def run(self, tool: str, steps: int) -> dict[str, Any] | str:
        """Return what one fresh process reports, or why it reports nothing."""
        command = self.command(tool, steps)
        if isinstance(command, str):
            return command

        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))

        try:
            done = subprocess.run(
                command, capture_output=True, text=True, preexec_fn=limit, timeout=TIME_LIMIT
            )
        except subprocess.TimeoutExpired:
            return f"took over {TIME_LIMIT} s"
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            return f"ended with code {done.returncode}: {last[:200]}"
        return json.loads(done.stdout)


def _milliseconds(samples: list[list[float]], steps: int) -> dict[str, float]:
    """Return the median and the quartiles of pooled samples in milliseconds for each step."""
    pairs = [(s[i], s[i + 1]) for s in samples for i in range(0, len(s), 2)]
    timing = summarise(pairs)
    return {
        key: value / 1e3 if key.endswith("us") else value
        for key, value in timing.per(steps).items()
    }


def _row(tool: str, steps: int, runs: list[dict[str, Any] | str], truth: Any) -> dict[str, Any]:
    """Return the figures of one tool at one number of steps."""
    row: dict[str, Any] = {"tool": tool, "steps": steps}
    failed = [run for run in runs if isinstance(run, str)]
    if failed:
        return {**row, "failed": failed[0]}
    good = [run for run in runs if not isinstance(run, str)]
    for name in ("forward", "backward"):
        figures = _milliseconds([run[name] for run in good], steps)
        row[name] = {key.replace("us", "ms"): value for key, value in figures.items()}
    row["memory_mb"] = float(np.median([(r["peak_kb"] - r["idle_kb"]) / 1e3 for r in good]))
    state, gradient = np.array(good[0]["state"]), np.array(good[0]["gradient"])
    # another contact law has another trajectory, and its gradient other coordinates
    if tool != "MuJoCo":
        row["state_error"] = float(np.abs(state - truth[0]).max())
        error = np.abs(gradient - truth[1][: gradient.size]).max()
        row["gradient_error"] = float(error / np.abs(truth[1]).max())
    return row


def measure(tools: list[str], steps: list[int], rounds: int, out: Path) -> None:
    """Save all rows with where they come from, anew after each number of steps."""
    facts, bench = provenance(), Tables(ROOT / "build" / "autodiff", tools)
    limits = {"seconds": TIME_LIMIT, "address_space_bytes": MEMORY_LIMIT, "rounds": rounds}
    result: dict[str, Any] = {"provenance": facts, "limits": limits}
    result["mujoco_setting"] = bench.setting
    result["libraries"] = {tool: version(tool) for tool in HEADERS if tool in tools}
    result["compiler_flags"] = list(FLAGS)
    rows: list[dict[str, Any]] = []
    for count in steps:
        runs: dict[str, list[dict[str, Any] | str]] = {tool: [] for tool in tools}
        for _ in range(rounds):
            for tool in tools:
                # a tool that failed once is not asked again
                if not any(isinstance(run, str) for run in runs[tool]):
                    runs[tool].append(bench.run(tool, count))
        truth = bench.truth(count)
        rows += [_row(tool, count, runs[tool], truth) for tool in tools]
        for row in rows[-len(tools) :]:
            print(json.dumps(row), flush=True)
        out.write_text(json.dumps({**result, "rows": rows}, indent=1) + "\n")


def main(arguments: list[str] | None = None) -> int:
    """Measure what was asked for and save it, or put saved figures into the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=TOOLS, help="one tool; may be repeated")
    parser.add_argument("--steps", type=int, action="append", help="one length; may be repeated")
    parser.add_argument("--rounds", type=int, default=3, help="fresh processes of each")
    parser.add_argument("--out", type=Path, default=JSON_FILE, help="JSON file")
    parser.add_argument("--docs", action="store_true", help="only put saved figures into the page")
    given = parser.parse_args(arguments)
    if not given.docs:
        measure(given.only or list(TOOLS), given.steps or list(STEPS), given.rounds, given.out)
    text = tables(json.loads(given.out.read_text()))
    print(text)
    if given.docs:
        PAGE.write_text(put_into(PAGE.read_text(), text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
