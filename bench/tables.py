"""The tables of Qiao et al. (2021): standing Laikagos, time and memory of rollout and gradient.

    python bench/tables.py                       all tools, 50 to 5000 steps, one robot and ten
    python bench/tables.py --steps 50 --rounds 1 --robots 1 --only featherback --only CppAD
    python bench/tables.py --docs                put the tables of the JSON file into docs/tables.md

Every rollout runs in a fresh process on one core under limits of time and memory; rounds go through
all tools in turn. A tool that is not installed is named with the way to get it. The programs of
bench/autodiff are compiled at the first run.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import resource
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from autodiff.build import FLAGS, HEADERS, compile_tool, version, write_scene
from numpy.typing import NDArray
from peer import best_setting
from report import ROOT, provenance
from scenes import laikago_scene
from tables_text import merged, put_into, tables
from timing import one_core, summarise

import featherback as fb

sys.path.insert(0, str(ROOT / "bench" / "peers"))
import smooth
from rollouts import NEEDS
from rollouts import TOOLS as PYTHON_TOOLS
from straight import check_states

STEPS = (50, 100, 500, 1000, 5000)
ROBOTS = (1, 10)
TOOLS = (
    *("featherback", "CppAD", "Ceres jets", "PyTorch", "PyTorch, checkpoints"),
    *("JAX", "JAX, checkpoints", "MuJoCo", "MJX"),
)
SMOOTH = "Pinocchio"  # has no contacts, and a table of its own
# jets of ten robots carry 370 numbers each, and MJX tries each of their thousands of pairs
ONE_ROBOT = ("Ceres jets", "MJX")
OTHER_LAW = ("MuJoCo", "MJX")  # their trajectories are not ours
TIME_LIMIT = 900  # seconds for one process
MEMORY_LIMIT = 12 << 30  # bytes of address space for one process
PATIENCE = 0.5  # seconds for which a process repeats its rollout
LONG = 30.0  # seconds above which a process is not repeated in further rounds
JSON_FILE = ROOT / "bench" / "tables.json"
PAGE = ROOT / "docs" / "tables.md"
Run = dict[str, Any] | str  # what a process reports, or why it reports nothing


def missing(tool: str) -> str | None:
    """Return how to get a tool that is not here, None where it is."""
    if tool in HEADERS:
        if version(tool) is not None:
            return None
        how = "Debian's libceres-dev" if tool == "Ceres jets" else "pip install --group bench"
        return f"{HEADERS[tool]} was not found; install it ({how}) or name its folder in " + (
            "FEATHERBACK_BENCH_INCLUDE"
        )
    package = "pinocchio" if tool == SMOOTH else NEEDS.get(tool)
    if package is None or importlib.util.find_spec(package) is not None:
        return None
    return f"{package} is not installed; pip install --group bench"


def versions() -> dict[str, str]:
    """Return the versions of the libraries that the tools need, where they are installed."""
    found = {tool: version(tool) for tool in HEADERS}
    packages = {"PyTorch": "torch", "JAX": "jax", "MJX": "mujoco-mjx", "Pinocchio": "pin"}
    for name, package in packages.items():
        try:
            found[name] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {tool: text for tool, text in found.items() if text is not None}


class Tables:
    """What is measured: robots that stand, by number of steps, and a command for each tool."""

    def __init__(self, folder: Path, tools: list[str], robots: int, dt: float | None) -> None:
        """Compile the programs of the tools that need one, and find MuJoCo's setting."""
        self.folder, self.robots = folder, robots
        folder.mkdir(parents=True, exist_ok=True)
        self.sim = fb.Simulator(fb.models.laikago(robots=robots), dt=dt, threads=1)
        self.dt = float(self.sim.params["dt"][0])
        self.q, self.v = self.sim.model.keyframe("stand")
        state = self.q.size + self.v.size
        native = [tool for tool in tools if tool in HEADERS]
        self.programs = {tool: compile_tool(tool, folder, state) for tool in native}
        self.setting: dict[str, Any] = {}
        if "MuJoCo" in tools:
            self.setting = asdict(best_setting(laikago_scene(robots, 2, 200), quick=True)[0])

    def controls(self, steps: int) -> NDArray[np.float64]:
        """Return servo targets that hold the stand pose."""
        return np.tile(self.q.reshape(self.robots, -1)[:, 7:].reshape(-1), (steps, 1))

    def truth(self, steps: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return our last state and our gradient of the sum of its numbers."""
        roll = self.sim.rollout(self.q, self.v, self.controls(steps))
        roll.raise_if_bad()
        check_states(self.sim, roll)
        g = roll.vjp(np.ones_like(self.q), np.ones_like(self.v))
        gradient = np.concatenate([np.ravel(a) for a in (g.q, g.v, g.u)])
        return np.concatenate([roll.q[-1], roll.v[-1]]), gradient

    def command(self, tool: str, steps: int) -> list[str] | str:
        """Return the command of one run, or why there is none."""
        name = f"scene_{self.robots}_{steps}"
        if tool in PYTHON_TOOLS:
            path = self.folder / f"{name}.npz"
            np.savez(path, q=self.q, v=self.v, u=self.controls(steps))
            worker = str(ROOT / "bench" / "tables_worker.py")
            scene = {"robots": self.robots, "dt": self.dt, "setting": self.setting}
            return [sys.executable, worker, tool, str(path), str(PATIENCE), json.dumps(scene)]
        program = self.programs[tool]
        if isinstance(program, str):
            return program
        path = self.folder / f"{name}.bin"
        write_scene(path, self.sim, self.q, self.v, self.controls(steps))
        return [str(program), str(path), str(PATIENCE)]

    def run(self, tool: str, steps: int) -> Run:
        """Return what one fresh process reports, or why it reports nothing."""
        command = self.command(tool, steps)
        if isinstance(command, str):
            return command

        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))

        try:
            with one_core():
                done = subprocess.run(
                    command, capture_output=True, text=True, preexec_fn=limit, timeout=TIME_LIMIT
                )
        except subprocess.TimeoutExpired:
            return f"took over {TIME_LIMIT} s"
        if done.returncode:
            return f"ended with code {done.returncode}: {_reason(done.stderr)}"
        # libraries may have printed something before
        return json.loads(done.stdout.splitlines()[-1])


def _reason(text: str) -> str:
    """Return the line of a program's messages that says why it ended."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["no message"]
    told = [line for line in lines if "alloc" in line or "emory" in line]
    return (told or lines)[-1][:300]


def _milliseconds(samples: list[list[float]], steps: int) -> dict[str, float]:
    """Return the median and the quartiles of pooled samples in milliseconds for each step."""
    pairs = [(s[i], s[i + 1]) for s in samples for i in range(0, len(s), 2)]
    timing = summarise(pairs)
    return {
        key: value / 1e3 if key.endswith("us") else value
        for key, value in timing.per(steps).items()
    }


def _row(tool: str, steps: int, runs: list[Run], truth: Any) -> dict[str, Any]:
    """Return the figures of one tool at one number of steps."""
    row: dict[str, Any] = {"tool": tool, "steps": steps}
    failed = [run for run in runs if isinstance(run, str)]
    if failed:
        return {**row, "failed": failed[0]}
    good = [run for run in runs if not isinstance(run, str)]
    row["processes"] = len(good)
    for name in ("forward", "backward"):
        figures = _milliseconds([run[name] for run in good], steps)
        row[name] = {key.replace("us", "ms"): value for key, value in figures.items()}
    row["memory_mb"] = float(np.median([(r["peak_kb"] - r["idle_kb"]) / 1e3 for r in good]))
    if "compile_s" in good[0]:
        row["compile_s"] = np.median([run["compile_s"] for run in good], axis=0).tolist()
    state, gradient = np.array(good[0]["state"]), np.array(good[0]["gradient"])
    row["finite"] = bool(np.isfinite(state).all() and np.isfinite(gradient).all())
    # another contact law has another trajectory, and its gradient may have other coordinates
    if tool not in OTHER_LAW:
        row["state_error"] = float(np.abs(state - truth[0]).max())
        error = np.abs(gradient - truth[1][: gradient.size]).max()
        row["gradient_error"] = float(error / np.abs(truth[1]).max())
    return row


def measure_length(
    bench: Tables, tools: list[str], steps: int, rounds: int, gone: dict[str, int]
) -> list[dict[str, Any]]:
    """Return the rows of one number of steps; tools that fail are added to `gone`."""
    runs: dict[str, list[Run]] = {tool: [] for tool in tools}
    again = dict.fromkeys(tools, True)
    for tool, failed in gone.items():
        runs[tool], again[tool] = [f"not tried, since {failed} steps failed"], False
    for _ in range(rounds):
        for tool in tools:
            if not again[tool]:
                continue
            start = time.perf_counter()
            runs[tool].append(bench.run(tool, steps))
            if isinstance(runs[tool][-1], str):
                gone[tool] = steps
            again[tool] = tool not in gone and time.perf_counter() - start < LONG
    truth = bench.truth(steps)
    found = [_row(tool, steps, runs[tool], truth) for tool in tools]
    return [{"robots": bench.robots, **row, "commit": provenance()["commit"]} for row in found]


def measure(given: argparse.Namespace) -> None:
    """Save all rows with where they come from, anew after each number of steps."""
    asked = given.only or [*TOOLS, SMOOTH]
    absent = {tool: why for tool in asked if (why := missing(tool)) is not None}
    tools = [tool for tool in asked if tool not in absent and tool != SMOOTH]
    limits = {"seconds": TIME_LIMIT, "address_space_bytes": MEMORY_LIMIT, "rounds": given.rounds}
    result: dict[str, Any] = {"provenance": provenance(), "limits": limits, "missing": absent}
    result |= {"libraries": versions(), "compiler_flags": list(FLAGS), "mujoco_setting": {}}
    result["smooth"] = None
    if SMOOTH in asked and SMOOTH not in absent:
        result["smooth"] = smooth.measure(given.dt, 20 * given.rounds)
        print(json.dumps(result["smooth"]), flush=True)
    rows: list[dict[str, Any]] = []
    # a part that is measured by itself replaces its rows alone
    part = bool(given.only or given.steps or given.robots) and given.out.exists()
    saved = json.loads(given.out.read_text()) if part else {**result, "rows": []}
    result["smooth"] = result["smooth"] or saved["smooth"]
    result["mujoco_setting"] |= saved["mujoco_setting"]
    for robots in given.robots or ROBOTS:
        here = [tool for tool in tools if robots == 1 or tool not in ONE_ROBOT]
        bench = Tables(ROOT / "build" / "autodiff", here, robots, given.dt)
        result["mujoco_setting"][str(robots)] = bench.setting
        result["dt"] = bench.dt
        gone: dict[str, int] = {}
        for count in given.steps or STEPS:
            new = measure_length(bench, here, count, given.rounds, gone)
            rows += new
            for row in new:
                print(json.dumps(row), flush=True)
            whole = {**result, "rows": merged(saved["rows"], rows, TOOLS)}
            given.out.write_text(json.dumps(whole, indent=1) + "\n")


def main(arguments: list[str] | None = None) -> int:
    """Measure what was asked for and save it, or put saved figures into the page."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="--only, --steps and --robots may be repeated",
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--only", action="append", choices=(*TOOLS, SMOOTH), help="one tool")
    parser.add_argument("--steps", type=int, action="append", help="one length")
    parser.add_argument("--robots", type=int, action="append", help="robots in the world")
    parser.add_argument("--dt", type=float, help="time step [s]; the model's where not given")
    parser.add_argument("--rounds", type=int, default=3, help="fresh processes of each")
    parser.add_argument("--out", type=Path, default=JSON_FILE, help="JSON file")
    parser.add_argument("--docs", action="store_true", help="only put saved figures into the page")
    given = parser.parse_args(arguments)
    if not given.docs:
        measure(given)
    text = tables(json.loads(given.out.read_text()))
    print(text)
    if given.docs:
        PAGE.write_text(put_into(PAGE.read_text(), text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
