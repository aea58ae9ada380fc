"""Run clang-tidy over every C++ source and the headers it includes; .clang-tidy names the checks.

Sources of kernels are read for one number type and one lane width.

    python -m tools.check.tidy
    python -m tools.check.tidy engine/cpu.cpp      one file
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nanobind

ROOTS = ("engine", "bindings", "tests/native")
# what CMake defines for one kernel, and for the table of kernels
KERNEL = ("-DFB_ISA=base", "-DFB_REAL=double", "-DFB_WIDTH=2")
TABLE = ("-DFB_HAVE_base=1",)


def flags(text: str) -> list[str]:
    """Return what a compiler must know to read a source, given by its text."""
    # what others wrote is read, not judged
    others = ["third_party/xla_ffi", nanobind.include_dir(), sysconfig.get_path("include")]
    defines = KERNEL if "namespace fb::FB_ISA {" in text else TABLE
    return ["-std=c++20", "-I.", *(f"-isystem{folder}" for folder in others), *defines]


def sources(root: Path) -> list[str]:
    """Return every C++ source, largest first, so that the last to end is a small one."""
    found = [f for name in ROOTS for f in (root / name).rglob("*.cpp")]
    found.sort(key=lambda f: -f.stat().st_size)
    return [f.relative_to(root).as_posix() for f in found]


def examine(tidy: str, path: str) -> str:
    """Return what clang-tidy says of one source, empty if nothing."""
    command = [tidy, "--quiet", path, "--", *flags(Path(path).read_text())]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode == 0:
        return ""
    return (run.stdout + run.stderr).replace(f"{Path.cwd()}/", "").strip()


def main(arguments: list[str]) -> int:
    """Examine the sources; return 1 if clang-tidy complains."""
    beside = Path(sys.executable).with_name("clang-tidy")
    tidy = str(beside) if beside.exists() else shutil.which("clang-tidy")
    if tidy is None:
        print("tidy: there is no clang-tidy here; run pip install clang-tidy, or make check.")
        return 1
    begin = time.monotonic()
    paths = arguments or sources(Path())
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        said = [text for text in pool.map(lambda path: examine(tidy, path), paths) if text]
    seconds = time.monotonic() - begin
    print("\n".join(said) or f"tidy: {len(paths)} sources are clean, {seconds:.0f} s")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
