"""The sweeps: their scenes, what they save, and the pages and pictures made from it."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import featherback as fb

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
STORED = BENCH / "scaling.json"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that imports a file of bench/, whose files import each other by name."""
    monkeypatch.syspath_prepend(str(BENCH))

    def call(name: str) -> ModuleType:
        return importlib.import_module(name)

    return call


def script(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script of bench/ in a process of its own."""
    command = (sys.executable, str(BENCH / name), *arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def timing(us: float) -> dict[str, float]:
    """Return a timing as the sweeps save it."""
    return {"us": us, "low_us": 0.9 * us, "high_us": 1.3 * us, "samples": 3, "quiet": 3}


def test_quick_sweep_is_saved_with_its_origin(tmp_path: Path) -> None:
    """Save one sweep with machine, versions and commit, and leave the others of the file alone."""
    out = tmp_path / "scaling.json"
    other = {"provenance": {}, "rows": []}
    out.write_text(json.dumps({"jacobian": other}))
    done = script("scaling.py", "--quick", "--only", "horizon", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert "| us for each step, featherback, float64 | 50 | 1000 | 10000 |" in done.stdout
    saved = json.loads(out.read_text())
    assert list(saved) == ["horizon", "jacobian"]
    assert saved["jacobian"] == other
    facts = saved["horizon"]["provenance"]
    assert {"processor", "cores", "numpy", "mujoco", "featherback", "isa", "commit"} <= set(facts)
    assert facts["quick"] is True
    assert [row["x"] for row in saved["horizon"]["rows"]] == [50, 1000, 10_000]
    for row in saved["horizon"]["rows"]:
        assert 0 < row["forward"]["us"] < row["backward"]["us"]


def test_docs_need_a_saved_file(tmp_path: Path) -> None:
    """Say which file is missing."""
    path = tmp_path / "nothing.json"
    done = script("scaling.py", "--docs", "--out", str(path))
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        f"scaling.py: error: {path} does not exist; measure first, or name a file with --out"
    )


def test_docs_take_the_stored_file_itself(
    load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Renew a page from the stored figures, named by another path to the same file."""
    module = load("run")
    page = tmp_path / "speed.md"
    page.write_text("before\n<!-- begin: bench/run.py -->\n<!-- end: bench/run.py -->\nafter\n")
    monkeypatch.setattr(module, "PAGE", page)
    monkeypatch.chdir(BENCH)
    module.put_into_docs(Path("budgets.json"))
    assert "| `single` | one Laikago, forward step" in page.read_text()


@pytest.mark.parametrize("scene", ["balls", "rigid body", "legs"])
def test_scene_has_the_contacts_it_names(load: Any, scene: str) -> None:
    """Have exactly as many contacts as asked for in the first step, and the same tree for all."""
    make = load("scaling_sweeps").CONTACT_SCENES[scene]
    sizes: set[tuple[int, int]] = set()
    for contacts in (0, 1, 2, 4, 8, 16, 32, 64):
        one = make(contacts, 3)
        sim = fb.Simulator(one.model)
        touch = sim.contacts(one.q[0], one.v[0], one.u[0, 0])
        assert int(touch.count) == contacts
        sizes.add((one.model.nq, one.model.nv))
    assert len(sizes) == 1


def test_differences_are_those_of_the_step(load: Any) -> None:
    """Agree with the exact Jacobians to the error of centred differences."""
    scene = load("scaling_scenes").driven_chain_scene(6, 1)
    sim = fb.Simulator(scene.model)
    point = (scene.q[0], scene.v[0], scene.u[0, 0])
    found = load("scaling_sweeps").differences(sim, *point)()
    for a, b in zip(sim.linearize(*point), found, strict=True):
        error = np.abs(a - b).max()
        print(f"largest difference {error:.1e}")
        assert error < 1e-6


def test_worker_tells_peak_prediction_and_bits() -> None:
    """Take less memory with fewer states, as told before, and return the same bits."""
    reports: dict[str | int, Any] = {}
    for checkpoint in ("step", 100):
        task = {"robots": 1, "steps": 20_000, "checkpoint": checkpoint, "seconds": 0.0}
        done = script("scaling_worker.py", json.dumps(task))
        assert done.returncode == 0, done.stderr
        reports[checkpoint] = json.loads(done.stdout)
    whole, some = reports["step"], reports[100]
    assert whole["bits"] == some["bits"]
    assert (whole["kept"], some["kept"]) == (20_001, 201)
    for report in (whole, some):
        peak = 1024 * (report["peak_kb"] - report["idle_kb"])
        told = report["predicted"]["states"] + report["predicted"]["controls"]
        print(f"peak {peak / 1e6:.2f} MB, told {told / 1e6:.2f} MB without the workspace")
        assert told < peak < told + report["predicted"]["workspace"]


def test_table_names_failures_and_what_is_slower(load: Any) -> None:
    """Write a column for each size, failed cells as such, and where MuJoCo's step is shorter."""
    text = load("scaling_text")
    sizes = {("featherback", 1): 2.0, ("featherback", 8): 30.0, ("MuJoCo", 1): 4.0}
    rows = [
        {"tool": tool, "x": x, "scene": "balls", "forward": timing(us)}
        for (tool, x), us in (sizes | {("MuJoCo", 8): 10.0}).items()
    ]
    assert text.links(rows) == [
        "| us for each step | 1 | 8 |",
        "|---|---|---|",
        "| balls: featherback, forward | 2 | 30 |",
        "| balls: MuJoCo, forward | 4 | 10 |",
        "",
    ]
    assert text.slower(rows) == ["- balls: MuJoCo's step takes less time at 8 (3x)."]
    failed = {"tool": "CppAD", "x": 1000, "failed": "needs over 8 GiB"}
    lines = text.ten([failed, {"tool": "featherback", "x": 1000, "peak_mb": 1234.4}])
    assert "| CppAD, peak MB | failed |" in lines
    assert "| featherback, peak MB | 1234 |" in lines
    assert lines[-1] == "- CppAD at 1000 steps: needs over 8 GiB."


def test_exponent_is_that_of_a_power_law(load: Any) -> None:
    """Find the exponent of exact powers."""
    rows = [
        {"tool": tool, "x": n, "scene": "free", "forward": timing(n**1.5), "backward": timing(n)}
        for n in (10, 100, 1000)
        for tool in ("featherback", "MuJoCo")
    ]
    assert load("scaling_text").exponents(rows) == [
        "- free, exponent of the time in the number of links: featherback forward 1.50, "
        "featherback backward 1.00, MuJoCo forward 1.50."
    ]


def test_pages_show_the_stored_figures(load: Any) -> None:
    """Find in docs/ what the stored JSON files say, with a picture for every sweep."""
    saved = json.loads(STORED.read_text())
    page = (ROOT / "docs" / "scaling.md").read_text()
    assert load("scaling_text").put_into(page, saved) == page
    for name in load("scaling").SWEEPS:
        picture = ROOT / "docs" / f"scaling_{name}.png"
        assert name in saved
        assert f"]({picture.name})" in page
        assert 1000 < picture.stat().st_size < 150_000
    text, page = load("speed_text"), (ROOT / "docs" / "speed.md").read_text()
    budgets = text.budgets(json.loads((BENCH / "budgets.json").read_text()))
    assert text.put_into(page, "bench/run.py", budgets) == page
    counts = text.instructions(json.loads((BENCH / "instructions.json").read_text()))
    assert text.put_into(page, "bench/count.py", counts) == page


@pytest.mark.slow
def test_every_sweep_runs(tmp_path: Path) -> None:
    """Run all sweeps in short form: rows and a picture of each, the same bits for all schedules."""
    out = tmp_path / "scaling.json"
    command = ("--quick", "--out", str(out), "--plots", str(tmp_path))
    done = script("scaling.py", *command)
    assert done.returncode == 0, done.stderr
    saved = json.loads(out.read_text())
    assert len(saved) == 9
    for name, sweep in saved.items():
        assert sweep["rows"]
        assert (tmp_path / f"scaling_{name}.png").exists()
    schedules = [row for row in saved["ablation"]["rows"] if row["tool"].startswith("checkpoint")]
    assert len(schedules) >= 6
    assert all(row["same_bits"] for row in schedules)


def test_pictures_are_drawn_from_the_file_alone(load: Any, tmp_path: Path) -> None:
    """Draw a picture of every stored sweep, the same bytes twice."""
    plots, saved = load("plots"), json.loads(STORED.read_text())
    first = plots.plot_all(saved, tmp_path / "a")
    second = plots.plot_all(saved, tmp_path / "b")
    assert [path.name for path in first] == [f"scaling_{name}.png" for name in saved]
    for a, b in zip(first, second, strict=True):
        assert a.read_bytes().startswith(b"\x89PNG")
        assert a.read_bytes() == b.read_bytes()
    paths = plots.plot_tables(json.loads((BENCH / "tables.json").read_text()), tmp_path)
    assert paths[0].name == "tables_1.png"
    assert paths[0].read_bytes().startswith(b"\x89PNG")


def test_slower_kernels_are_named_in_a_sentence(load: Any) -> None:
    """Name the kernels over 3 %, those that were not counted, and another Python."""
    verdict = load("count").verdict
    stored = {"python": "3.0", "instructions": {"a": 100.0, "b": 100.0, "c": 1.0}}
    version = ".".join(map(str, sys.version_info[:3]))
    assert verdict(stored, {"a": 104.0, "b": 102.0}) == (
        "Slower by over 3 %: a. Stored but not counted: c. "
        f"Stored with Python 3.0, counted with {version}."
    )
    assert verdict({}, {"a": 1.0}) == "Slower by over 3 %: nothing."


def test_report_names_parts_that_failed(load: Any, tmp_path: Path) -> None:
    """Put the figures of a part that went well beside the name of one that failed."""
    count = {"isa": "avx2", "python": "3.11", "instructions": {"a": 10.0}, "verdict": "None."}
    (tmp_path / "count.json").write_text(json.dumps(count))
    path = load("full").write_report(tmp_path, {"tables": False, "count": True})
    assert path.read_text() == (
        "# Measurements\n\n## tables\n\nbench/tables.py failed; tables.log says why.\n\n"
        "## count\n\n| kernel | instructions for each step or Jacobian |\n|---|---|\n| a | 10 |\n\n"
        "- avx2 kernels, Python 3.11.\n- None.\n"
    )
