"""What each stage of a Laikago's step and of its adjoint costs, and its share of the FMA peak.

    python bench/stages.py                  measure, print, save in bench/stages.json
    python bench/stages.py --name before    the same under another name, to compare with
    python bench/stages.py --docs           put the tables of the JSON file into docs/profile.md

The core is compiled into bench/profiling/main.cpp with the kernels' flags three times: one program
reads the processor's clock where a stage begins, one counts floating-point operations by a number
that counts, and one is watched by callgrind, which has no AVX-512 and so gets the AVX2 code. The
peak is that of chains of fused products in the same process. States are those of bench/scenes.py.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from autodiff.build import write_scene
from numpy.typing import NDArray
from ours import Ours
from report import ROOT, provenance
from scenes import laikago_scene
from stages_text import put_into, tables
from timing import one_core

import featherback as fb

SOURCE = ROOT / "bench" / "profiling"
JSON_FILE = ROOT / "bench" / "stages.json"
PAGE = ROOT / "docs" / "profile.md"
TIME, OPERATIONS, INSTRUCTIONS = 0, 1, 2  # values of FB_METER
WIDTHS = {"avx512": {"double": 8, "float": 16}, "avx2": {"double": 4, "float": 8}}
ATTEMPTS = 20  # timed runs, of which the one with the highest peak is taken
MARKS = ("fb::profiling::ended_*", "fb::profiling::turned*")


@dataclass(frozen=True)
class Case:
    """One way to run a Laikago.

    Attributes:
        name: what the table is called.
        real: number of the machine, as C++ spells it.
        lanes: whether worlds share registers.
        scene: shape (worlds, steps) of the states.
        counted: the same for callgrind, which is slow.
    """

    name: str
    real: str
    lanes: bool
    scene: tuple[int, int]
    counted: tuple[int, int]

    @property
    def dtype(self) -> str:
        """NumPy's name of the number."""
        return {"double": "float64", "float": "float32"}[self.real]

    def width(self, isa: str) -> int:
        """Return the lanes of one register, 1 for a single world."""
        return WIDTHS[isa][self.real] if self.lanes else 1


CASES = (
    Case("one world, float64", "double", False, (1, 200), (1, 20)),
    Case("64 worlds in lanes, float64", "double", True, (64, 20), (64, 2)),
    Case("64 worlds in lanes, float32", "float", True, (64, 20), (64, 2)),
)


def kernel_flags(isa: str) -> list[str]:
    """Return the flags with which CMakeLists.txt compiles the kernels of an instruction set."""
    text = (ROOT / "CMakeLists.txt").read_text()
    words = re.findall(r"(?:set\(|APPEND )fb_kernel_flags ([^)]*)\)", text)[:2]
    words += re.findall(rf"set\(fb_{isa}_flags ([^)]*)\)", text)
    return " ".join(words).split()


def compile_case(case: Case, meter: int, isa: str, folder: Path) -> Path:
    """Compile the program of one case, unless it is newer than its sources."""
    width = case.width(isa)
    program = folder / f"stages_{meter}_{isa}_{case.real}_{width}"
    folders = (SOURCE, ROOT / "bench" / "autodiff", ROOT / "core", ROOT / "engine")
    newest = max(f.stat().st_mtime for path in folders for f in path.rglob("*.[hc]pp"))
    if program.exists() and program.stat().st_mtime > newest:
        return program
    compiler = os.environ.get("CXX") or shutil.which("g++") or "c++"
    numbers = (f"-DFB_REAL={case.real}", f"-DFB_WIDTH={width}", f"-DFB_METER={meter}")
    flags = [*kernel_flags(isa), "-std=c++20", "-Wno-psabi", f"-DFB_ISA={isa}", *numbers]
    command = [compiler, *flags, f"-I{ROOT}", str(SOURCE / "main.cpp"), "-o", str(program)]
    subprocess.run(command, check=True)
    return program


def save_scene(case: Case, shape: tuple[int, int], path: Path) -> None:
    """Write the states of a warm rollout; worlds that share a register stand one after another."""
    ours = Ours(laikago_scene(1, *shape), case.dtype)
    roll = ours.roll()

    def by_step(a: NDArray[Any]) -> NDArray[Any]:
        return a.reshape(*shape, -1).swapaxes(0, 1)

    q, v = (a.reshape(shape[0], shape[1] + 1, -1)[:, :-1] for a in (roll.q, roll.v))
    write_scene(path, ours.sim, by_step(q), by_step(v), by_step(ours.u))


def run_program(program: Path, scene: Path, repeats: int) -> dict[str, Any]:
    """Return what the program prints."""
    command = (str(program), str(scene), str(repeats))
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def fastest_run(program: Path, scene: Path, repeats: int) -> dict[str, Any]:
    """Return the report of the run with the highest peak: a shared core is not always as fast."""
    reports: list[dict[str, Any]] = []
    for _ in range(ATTEMPTS):
        reports.append(run_program(program, scene, repeats))
        time.sleep(0.5)
    return max(reports, key=lambda report: min(report["peak"], report["peak_after"]))


def quiet_mean(report: dict[str, Any], way: str) -> list[float]:
    """Return what a step spends in each stage: the mean of the shortest fifth of the repeats."""
    spent = np.array([repeat[way] for repeat in report["repeats"]], dtype=float)
    shortest = np.argsort(spent.sum(axis=1))[: -(-len(spent) // 5)]
    return list(spent[shortest].mean(axis=0) / report["steps"])


def callgrind(program: Path, scene: Path, steps: int, names: list[str]) -> dict[str, list[float]]:
    """Return instructions of a step by stage, forwards and backwards."""
    out = {way: [0.0] * len(names) for way in ("forward", "backward")}
    with tempfile.TemporaryDirectory() as folder:
        dumps = [f"--dump-before={mark}" for mark in MARKS]
        command = ("valgrind", "--tool=callgrind", *dumps)
        files = f"--callgrind-out-file={folder}/counts"
        subprocess.run(
            (*command, files, str(program), str(scene), "1"), check=True, capture_output=True
        )
        turns, number = 0, 1
        while (path := Path(folder) / f"counts.{number}").exists():
            text = path.read_text()
            number += 1
            stage = re.search(r"^desc: Trigger: .*ended_(\w+)", text, re.MULTILINE)
            if stage is None:
                turns += "turned" in text
                continue
            total = re.search(r"^totals: (\d+)", text, re.MULTILINE)
            # the first stage of a turn ends before its first step begins
            if total is not None and turns and stage[1] != "other":
                way = "forward" if turns == 1 else "backward"
                out[way][names.index(stage[1])] += int(total[1]) / steps
    return out


def measure(case: Case, folder: Path, repeats: int) -> dict[str, Any]:
    """Return the figures of one case, by stage and per step of one world."""
    isa = "avx512" if fb.isa() == "avx512" else "avx2"
    scene, short = folder / "scene.bin", folder / "short.bin"
    save_scene(case, case.scene, scene)
    timed = fastest_run(compile_case(case, TIME, isa, folder), scene, repeats)
    counted = run_program(compile_case(case, OPERATIONS, isa, folder), scene, 1)
    nanoseconds = 1e9 / timed["ticks_per_second"]
    ways = ("forward", "backward")
    out: dict[str, Any] = {
        "name": case.name,
        "lanes": timed["width"],
        "isa": isa,
        "stages": timed["stages"],
        "peak_gflops": max(timed["peak"], timed["peak_after"]) / nanoseconds,
        "ns": {way: [x * nanoseconds for x in quiet_mean(timed, way)] for way in ways},
        "operations": {way: quiet_mean(counted, way) for way in ways},
    }
    if shutil.which("valgrind"):
        save_scene(case, case.counted, short)
        program = compile_case(case, INSTRUCTIONS, "avx2", folder)
        steps = case.counted[0] * case.counted[1]
        out["instructions"] = callgrind(program, short, steps, timed["stages"])
    return out


def main(arguments: list[str] | None = None) -> int:
    """Measure all cases, or put the tables into the page; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--name", default="now", choices=("now", "before"), help="of the run")
    parser.add_argument("--repeats", type=int, default=100, help="of all steps")
    parser.add_argument(
        "--docs", action="store_true", help=f"write {PAGE.name} and measure nothing"
    )
    parser.add_argument("--out", type=Path, default=JSON_FILE, help="JSON file")
    given = parser.parse_args(arguments)
    runs: dict[str, Any] = json.loads(given.out.read_text()) if given.out.exists() else {}
    if given.docs:
        put_into(PAGE, tables(runs))
        return 0
    folder = ROOT / "build" / "stages"
    folder.mkdir(parents=True, exist_ok=True)
    facts = provenance()
    with one_core():
        cases = [measure(case, folder, given.repeats) for case in CASES]
    runs[given.name] = {"provenance": facts, "repeats": given.repeats, "cases": cases}
    print(tables(runs))
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(runs, indent=1, default=float) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
