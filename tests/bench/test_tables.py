"""The tables against autodiff: their text, and the core compiled outside the package."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import featherback as fb

BENCH = Path(__file__).resolve().parents[2] / "bench"


def load(path: str) -> ModuleType:
    """Load a file of bench/ that imports no other file of it."""
    spec = importlib.util.spec_from_file_location("bench_" + Path(path).stem, BENCH / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def figures(tool: str, ms: float, memory: float) -> dict[str, Any]:
    """Return one row as bench/tables.py saves it."""
    time = {"ms": ms, "low_ms": ms, "high_ms": ms, "samples": 4, "quiet": int(ms < 0.1)}
    row = {"robots": 1, "tool": tool, "steps": 50, "commit": "c" * 40, "forward": time}
    row["backward"] = {**time, "ms": 2 * ms}
    return {**row, "memory_mb": memory, "state_error": 2e-13, "gradient_error": 3e-15}


def result(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return rows with an invented origin."""
    names = ("processor", "featherback", "isa", "mujoco")
    facts = {**dict.fromkeys(names, "x"), "cores": 2, "load": [9.0], "commit": "c" * 40}
    limits = {"rounds": 1, "seconds": 900, "address_space_bytes": 12 << 30}
    absent = {"MJX": "mujoco.mjx is not installed; pip install --group bench"}
    calls = {"sim.step": {"us": 4.732}, "pin.aba": {"us": 5.5}}
    smooth = {"version": "4.1.0", "error": 1.3e-13, "calls": calls}
    known = {"libraries": {}, "missing": absent, "dt": 0.002, "smooth": smooth}
    return {"provenance": facts, "limits": limits, "rows": rows, **known}


def test_tables_name_ratios_failures_and_the_load() -> None:
    """Write cells, ratios, what failed and why, what is missing, and that there was a load."""
    failed = {"robots": 1, "tool": "MuJoCo", "steps": 50, "commit": "c" * 40}
    failed["failed"] = "took over 900 s"
    compiled = {**figures("JAX", 0.3, 40.0), "compile_s": [33.75, 7.8], "finite": False}
    rows = [figures("featherback", 0.01, 1.0), figures("CppAD", 0.5, 200.0), failed, compiled]
    rows.append(figures("Ceres jets", 0.02, 0.5))
    rows.append({**figures("featherback", 0.09, 2.0), "robots": 10, "commit": "d" * 40})
    lines = load("tables_text.py").tables(result(rows)).splitlines()
    for line in (
        "| featherback | 0.01 |",
        "| CppAD | 1 |",
        "| Peak MB above the idle process, one robot, by steps | 50 |",
        "| MuJoCo | too long |",
        "| CppAD | 50 | 50x | 50x | 50x | 0.5 % |",
        "| Against CppAD | Qiao et al. (2021), 50 to 5000 steps | expected here | here, 50 to 50 "
        "steps |",
        "| forward | 8x to 22x | 30x | 50x to 50x |",
        "| memory at 50 steps | 1 % | under 1 % | 0.5 % |",
        "| `sim.step` | 4.73 |",
        "featherback, 50 steps, a robot among 10 and one alone: forward 9 and 10 µs; "
        "backward 18 and 20 µs.",
        "Jacobians of the next velocity in positions, velocities and controls, ours and those "
        "from Pinocchio's: within 1.3e-13 of their largest number.",
        "- CppAD: last state within 2.0e-13 of ours, "
        "gradient within 3.0e-15 of its largest number.",
        "- Smaller than ours: memory of Ceres jets, one robot, at 50 steps.",
        "- MuJoCo, one robot, 50 steps: took over 900 s.",
        "- JAX, one robot, 50 steps: not finite.",
        "- JAX is compiled before: forward 33.8 to 33.8 s, backward 7.8 to 7.8 s.",
        "- MJX was not there: mujoco.mjx is not installed; pip install --group bench.",
    ):
        assert line in lines
    assert any(
        line.startswith("- Taken on a loaded machine (load 9 on 2 cores): 4 of 10 times")
        for line in lines
    )
    named = f"; commits {'c' * 12} (one robot), {'d' * 12} (ten robots); "
    assert any(named in line for line in lines)


def test_a_part_measured_by_itself_replaces_its_rows() -> None:
    """Keep saved rows that were not measured anew, in the order of robots, steps and tools."""
    tools = ("featherback", "CppAD")
    old = [figures("featherback", 1.0, 1.0), figures("CppAD", 2.0, 2.0)]
    late = {**figures("featherback", 3.0, 3.0), "robots": 10}
    new = figures("featherback", 4.0, 4.0)
    found = load("tables_text.py").merged([late, *old], [new], tools)
    assert found == [new, old[1], late]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("took over 900 s", "too long"),
        ("ended with code -6: what():  std::bad_alloc", "out of memory"),
        ("ended with code 1: RESOURCE_EXHAUSTED: Out of memory", "out of memory"),
        ("not tried, since 1000 steps failed", "not tried"),
        ("ended with code 2: no message", "failed"),
    ],
)
def test_cells_say_why_a_tool_has_no_figure(text: str, word: str) -> None:
    """Tell the limits of time and memory from other failures."""
    assert load("tables_text.py").failure(text) == word


def test_page_keeps_its_text_around_the_tables() -> None:
    """Replace what stands between the marks, and nothing else."""
    text = load("tables_text.py")
    page = f"before\n{text.BEGIN}\nold\n{text.END}\nafter\n"
    assert text.put_into(page, "new") == f"before\n{text.BEGIN}\nnew\n{text.END}\nafter\n"


def test_worker_reports_our_own_rollout(tmp_path: Path) -> None:
    """Run the worker in a fresh process and find the same state and gradient as here."""
    sim = fb.Simulator(fb.models.laikago())
    q, v = sim.model.keyframe("stand")
    u = np.tile(q[7:], (5, 1))
    np.savez(tmp_path / "scene.npz", q=q, v=v, u=u)
    command = (sys.executable, str(BENCH / "tables_worker.py"), "featherback")
    told = json.dumps({"robots": 1, "dt": 0.002})
    done = subprocess.run(
        (*command, str(tmp_path / "scene.npz"), "0.01", told), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    roll = sim.rollout(q, v, u)
    g = roll.vjp(np.ones_like(q), np.ones_like(v))
    assert np.array_equal(report["state"], np.concatenate([roll.q[-1], roll.v[-1]]))
    assert np.array_equal(report["gradient"], np.concatenate([g.q, g.v, g.u.reshape(-1)]))
    assert report["peak_kb"] >= report["idle_kb"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["double", "CppAD", "Ceres jets"])
def test_compiled_core_takes_our_steps(tool: str, tmp_path: Path) -> None:
    """Compile the core on another number and find our trajectory and our gradient."""
    build = load("autodiff/build.py")
    sim = fb.Simulator(fb.models.laikago())
    q, v = sim.model.keyframe("stand")
    u = np.tile(q[7:], (20, 1))
    program = build.compile_tool(tool, tmp_path, q.size + v.size)
    if isinstance(program, str) and "was not found" in program:
        pytest.skip(program)
    assert isinstance(program, Path), program
    build.write_scene(tmp_path / "scene.bin", sim, q, v, u)
    done = subprocess.run(
        (str(program), str(tmp_path / "scene.bin"), "0"), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    roll = sim.rollout(q, v, u)
    g = roll.vjp(np.ones_like(q), np.ones_like(v))
    state = np.concatenate([roll.q[-1], roll.v[-1]])
    gradient = np.concatenate([g.q, g.v, g.u.reshape(-1)])[: len(report["gradient"])]
    assert np.abs(np.array(report["state"]) - state).max() < 1e-9
    assert np.allclose(report["gradient"], gradient, rtol=1e-6, atol=1e-6)
