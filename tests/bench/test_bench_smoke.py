"""The benchmark runs, names what it measured, and says where the figures come from."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


def run_bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run bench/run.py in a process of its own."""
    return subprocess.run(
        (sys.executable, str(BENCH / "run.py"), *arguments),
        capture_output=True,
        text=True,
        timeout=120,
    )


def load(name: str) -> ModuleType:
    """Load a file of bench/ that imports no other file of it."""
    spec = importlib.util.spec_from_file_location(f"bench_{name}", BENCH / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_quick_row_reports_speed_beside_what_was_solved(tmp_path: Path) -> None:
    """Print and save one row with its ratio, contact counts, residual, status and provenance."""
    out = tmp_path / "bench.json"
    done = run_bench("--quick", "--only", "single", "--out", str(out))
    assert done.returncode == 0, done.stderr
    header = ("what", "ours", "MuJoCo", "ratio", "must", "goal", "verdict")
    assert next(
        line for line in done.stdout.splitlines() if line.startswith("what")
    ).split() == list(header)
    saved = json.loads(out.read_text())
    assert {
        "processor",
        "cores",
        "python",
        "numpy",
        "mujoco",
        "featherback",
        "isa",
        "commit",
    } <= set(saved["provenance"])
    (row,) = saved["rows"]
    assert row["name"] == "single"
    assert row["value"] > 0
    assert row["verdict"] in ("goal", "met", "missed")
    assert row["data"]["solved"]["bad"] == 0
    assert 0 < row["data"]["solved"]["contacts"] <= 13
    assert 0 < row["data"]["peer_solved"]["contacts"] <= 13
    assert row["data"]["peer_solved"]["unconverged"] == 0
    assert row["data"]["solved"]["residual"] < 1e-8


def test_unknown_row_is_refused_by_name() -> None:
    """Refuse a row that does not exist and list those that do."""
    done = run_bench("--only", "nothing")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(
        "run.py: error: argument --only: invalid choice: 'nothing' (choose from"
    )


def test_exponent_of_a_power_law_is_found() -> None:
    """Fit the exponent of exact powers."""
    timing = load("timing")
    sizes = [10, 30, 100, 300, 1000]
    for power in (1.0, 2.0):
        found = timing.fitted_exponent(sizes, [3e-7 * n**power for n in sizes])
        assert found == pytest.approx(power, abs=1e-12)


def test_disturbed_samples_are_left_out() -> None:
    """Take the median of samples whose processor time equals their wall time."""
    timing = load("timing")
    got = timing.summarise([(1.0, 1.0), (3.0, 1.0), (1.2, 1.2), (9.0, 1.0), (1.1, 1.1)])
    assert (got.seconds, got.samples, got.quiet) == (1.1, 5, 3)


def test_slower_kernel_is_named() -> None:
    """Name what takes over 3 % more instructions than stored, and nothing else."""
    count = load("count")
    lines = count.compare({"a": 100.0, "b": 100.0}, {"a": 104.0, "b": 102.0, "c": 1.0})
    assert [line.split()[0] for line in lines if line.endswith("SLOWER")] == ["a"]
    assert lines[2].endswith("not stored yet")


def test_counted_instructions_are_stored_with_the_docs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Store what was counted, without the comparison, before the page is made of it."""
    full = load("full")
    counted = {"isa": "avx2", "python": "3.11.7", "instructions": {"step": 12.5}}
    (tmp_path / "count.json").write_text(json.dumps({**counted, "stored": {}, "verdict": "x"}))
    monkeypatch.setattr(full, "BENCH", tmp_path)
    seen: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert json.loads((tmp_path / "instructions.json").read_text()) == counted
        seen.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(full.subprocess, "run", run)
    assert full.put_into_docs("count", tmp_path)
    assert [command[1:] for command in seen] == [[str(tmp_path / "count.py"), "--docs"]]
