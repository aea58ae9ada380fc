"""Compile the core on the numbers of autodiff libraries, and write scenes for the programs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

import featherback as fb
from featherback._core import option_table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TOOLS = {"double": 0, "CppAD": 1, "Ceres jets": 2}
HEADERS = {"CppAD": "cppad/cppad.hpp", "Ceres jets": "ceres/jet.h"}
VERSIONS = {
    "CppAD": ("cppad/configure.hpp", r'CPPAD_PACKAGE_STRING\s+"cppad-([^"]+)"'),
    "Ceres jets": ("ceres/version.h", r"define CERES_VERSION_(?:MAJOR|MINOR|REVISION) (\d+)"),
}
FLAGS = ("-std=c++20", "-O2", "-march=native", "-DNDEBUG", "-fno-math-errno")
SYSTEM = (Path("/usr/include"), Path("/usr/local/include"))
# where the wheel cmeel-cppad puts its headers
INSTALLED = Path(sysconfig.get_paths()["purelib"]) / "cmeel.prefix" / "include"


def include_folder(tool: str) -> Path | None:
    """Return the folder with a library's headers.

    Looked at are those of FEATHERBACK_BENCH_INCLUDE, of installed wheels, and the system's.
    """
    named = [Path(p) for p in os.environ.get("FEATHERBACK_BENCH_INCLUDE", "").split(":") if p]
    folders = (*named, INSTALLED, *SYSTEM)
    return next((folder for folder in folders if (folder / HEADERS[tool]).exists()), None)


def version(tool: str) -> str | None:
    """Return the version that a library's headers name, None where there are none."""
    folder = include_folder(tool)
    if folder is None:
        return None
    file, pattern = VERSIONS[tool]
    return ".".join(re.findall(pattern, (folder / file).read_text()))


def compile_tool(tool: str, folder: Path, state: int) -> Path | str:
    """Compile the core on one library's number, unless the program is newer than its sources.

    Args:
        tool: a key of TOOLS.
        folder: where the program goes.
        state: number of derivatives that a jet carries.

    Returns:
        The program, or a sentence that says why there is none.
    """
    compiler = os.environ.get("CXX") or shutil.which("g++") or "c++"
    program = folder / f"autodiff_{TOOLS[tool]}_{state}"
    sources = [*HERE.glob("*.[hc]pp"), *(ROOT / "core").rglob("*.hpp")]
    newest = max(source.stat().st_mtime for source in sources)
    if program.exists() and program.stat().st_mtime > newest:
        return program
    folder.mkdir(parents=True, exist_ok=True)
    command = [compiler, *FLAGS, f"-DFB_TOOL={TOOLS[tool]}", f"-DFB_STATE={state}", f"-I{ROOT}"]
    if tool in HEADERS:
        include = include_folder(tool)
        if include is None:
            return f"{HEADERS[tool]} was not found; name its folder in FEATHERBACK_BENCH_INCLUDE"
        command += [f"-isystem{include}"] if include not in SYSTEM else []
        command += [f"-isystem{p}" for p in (Path("/usr/include/eigen3"),) if p.exists()]
    command += [str(HERE / "main.cpp"), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return f"does not compile: {done.stderr.strip().splitlines()[0][:200]}"
    return program


def _block(values: ArrayLike, dtype: type) -> bytes:
    """Return a count and the numbers behind it."""
    array = np.ascontiguousarray(values, dtype=dtype).reshape(-1)
    return np.int64(array.size).tobytes() + array.tobytes()


def write_scene(path: Path, sim: fb.Simulator, q: ArrayLike, v: ArrayLike, u: ArrayLike) -> None:
    """Write a simulator's model and options, an initial state and controls."""
    structure = sim.model.structure
    limits = {name: getattr(sim.options, name) for name in ("max_contacts", "max_sweeps")}
    parts = [_block(numbers, np.int32) for numbers in structure.packed(**limits)]
    every = {**structure.params, **sim.params}
    theta = np.concatenate([np.asarray(a, np.float64).reshape(-1) for a in every.values()])
    parts += [_block(theta, np.float64), _block(structure.vert, np.float64)]
    options = [(row, getattr(sim.options, row.name)) for row in option_table()]
    numbers = [row.choices.index(x) if row.choices else x for row, x in options]
    parts += [_block(numbers, np.float64)]
    parts += [_block(a, np.float64) for a in (q, v, u)]
    path.write_bytes(b"".join(parts))
