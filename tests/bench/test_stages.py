"""The profile by stage: its text, its flags, and the program that counts operations."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
STEP = ("kinematics", "sweeps")
ADJOINT = ("adjoint_fields",)


def load(path: str) -> ModuleType:
    """Load a file of bench/ that imports no other file of it."""
    spec = importlib.util.spec_from_file_location("bench_" + Path(path).stem, BENCH / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_of(text: ModuleType, scale: float) -> dict[str, Any]:
    """Return a run as bench/stages.py saves it: three stages that cost something."""
    stages = ["other", *text.NAMES]
    forward = [scale * (100.0 if name in STEP else 0.0) for name in stages]
    backward = [scale * (100.0 if name in STEP + ADJOINT else 0.0) for name in stages]
    ways = {"forward": forward, "backward": backward}
    case = {"name": "one world", "lanes": 1, "isa": "avx2", "stages": stages, "peak_gflops": 4.0}
    names = ("processor", "featherback")
    facts = {**dict.fromkeys(names, "x"), "cores": 2, "load": [9.0], "commit": "c" * 40}
    return {
        "provenance": {**facts, "modified": False},
        "repeats": 7,
        "cases": [{**case, "ns": ways, "operations": ways}],
    }


def test_tables_have_shares_of_step_and_peak_and_the_change() -> None:
    """Write shares of the time and of the peak by stage, and what changed since the run before."""
    text = load("stages_text.py")
    lines = text.tables({"before": run_of(text, 2.0), "now": run_of(text, 1.0)}).splitlines()
    for line in (
        "x, 2 cores, load average 9.0; mean of the shortest fifth of 7 repeats.",
        "### One world",
        "Measured peak of fused products: 4.0 Gflop/s.",
        "| **step** | 200 | 100 % | 200 | 25 % |  |",
        "| kinematics | 100 | 50 % | 100 | 25 % |  |",
        "| **adjoint, without the step run again** | 100 | 100 % | 100 | 25 % |  |",
        "| one world, step | 400 to 200 (-50 %) | 400 to 200 (-50 %) |  |",
        "| one world, adjoint | 200 to 100 (-50 %) | 200 to 100 (-50 %) |  |",
    ):
        assert any(found.endswith(line) for found in lines), line


def test_page_keeps_what_stands_around_the_marks(tmp_path: Path) -> None:
    """Replace only what lies between the marks."""
    text = load("stages_text.py")
    page = tmp_path / "page.md"
    page.write_text(f"above\n{text.BEGIN}\nold\n{text.END}\nbelow\n")
    text.put_into(page, "new\n")
    assert page.read_text() == f"above\n{text.BEGIN}\n\nnew\n\n{text.END}\nbelow\n"


def test_stages_of_the_core_are_those_of_the_program() -> None:
    """Find every mark of the core and the engine in the program's list, and the other way."""
    files = [*(ROOT / "core").rglob("*.hpp"), *(ROOT / "engine").rglob("*.hpp")]
    marks = {name for f in files for name in re.findall(r"FB_STAGE\((\w+)\);", f.read_text())}
    header = (BENCH / "profiling" / "stage.hpp").read_text()
    listed = set(re.findall(r"X\((\w+)\)", header.split("namespace", 1)[0])) - {"X"}
    assert marks == listed - {"other"}
    assert marks == set(load("stages_text.py").NAMES)


PROGRAM = """
import json, sys
from pathlib import Path
import stages
folder = Path(sys.argv[1])
case = stages.CASES[0]
stages.save_scene(case, case.scene, folder / "scene.bin")
program = stages.compile_case(case, stages.OPERATIONS, "avx2", folder)
runs = [stages.run_program(program, folder / "scene.bin", 2) for _ in range(2)]
print(json.dumps(runs))
"""


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Compile the counting program, run it twice and return its reports."""
    done = subprocess.run(
        (sys.executable, "-c", PROGRAM, str(tmp_path_factory.mktemp("stages"))),
        cwd=BENCH,
        capture_output=True,
        text=True,
        timeout=600,
    )
    if "No such file or directory: 'c++'" in done.stderr:
        pytest.skip("there is no C++ compiler here")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_operations_are_counted_by_stage(counted: list[dict[str, Any]]) -> None:
    """Count the same operations in every repeat, and some in every stage of a step."""
    first, second = counted
    assert first["repeats"] == second["repeats"]
    assert first["repeats"][0] == first["repeats"][1]
    step = dict(zip(first["stages"], first["repeats"][0]["forward"], strict=True))
    back = dict(zip(first["stages"], first["repeats"][0]["backward"], strict=True))
    for name in load("stages_text.py").NAMES:
        own = back if name.startswith("adjoint") or name == "ties" else step
        assert own[name] > 0
    # the step that is run again costs what it cost, but for the integration
    again = {name: back[name] for name in step if step[name] and name != "integration"}
    assert again == {name: step[name] for name in again}


@pytest.mark.slow
def test_operations_do_not_grow(counted: list[dict[str, Any]]) -> None:
    """Stay within 3 % of the stored operations of a step and of its adjoint."""
    text = load("stages_text.py")
    stored = json.loads((BENCH / "stages.json").read_text())["now"]["cases"][0]
    ways = {
        way: [n / counted[0]["steps"] for n in counted[0]["repeats"][0][way]]
        for way in ("forward", "backward")
    }
    found = text.split({"stages": counted[0]["stages"], "operations": ways}, "operations")
    for part, values in text.split(stored, "operations").items():
        print(f"{part}: {sum(found[part].values()):.0f}, stored {sum(values.values()):.0f}")
        assert sum(found[part].values()) <= 1.03 * sum(values.values())
