"""Compile the headers of core/ for a GPU with nvcc; nothing is run, so no GPU is needed.

A source file that includes every header and names each function of ENTRIES in a kernel is written
to a temporary folder and compiled for sm_90. Where nvcc is missing, this is said and nothing fails.

    python tools/check_cuda.py
    NVCC=/opt/cuda/bin/nvcc python tools/check_cuda.py
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ARCHITECTURE = "sm_90"

# functions whose address a kernel takes, so that nvcc makes code of them and all they call
ENTRIES = (
    "step<double, double>",
    "step<float, float>",
    "step_adjoint<double, double>",
    "step_adjoint<float, float>",
)

# 1675: a pragma of GCC's; nvcc passes over it
FLAGS = ("-std=c++20", "--expt-relaxed-constexpr", "-diag-suppress", "1675", "-c")


def source(core: Path, entries: tuple[str, ...] = ENTRIES) -> str:
    """Return a CUDA source file that includes every header and names every entry.

    Args:
        core: folder of the headers.
        entries: template functions of the core with their arguments.
    """
    lines = ["#define FB_ISA cuda"]
    lines += [f'#include "core/{header.name}"' for header in sorted(core.glob("*.hpp"))]
    lines += ["namespace fb::cuda {", "__global__ void entries(void** out) {"]
    lines += [f"  out[{i}] = (void*)&{entry};" for i, entry in enumerate(entries)]
    return "\n".join([*lines, "}", "}  // namespace fb::cuda", ""])


def compile_core(nvcc: str, root: Path, entries: tuple[str, ...] = ENTRIES) -> str:
    """Compile the headers below ``root``; return nvcc's complaints, empty if there are none."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "core.cu")
        file.write_text(source(root / "core", entries))
        command = [nvcc, *FLAGS, f"-arch={ARCHITECTURE}", f"-I{root}", "-o"]
        command += [str(file.with_suffix(".o")), str(file)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    said = (run.stdout + run.stderr).strip()
    return said or (f"nvcc ended with code {run.returncode}" if run.returncode else "")


def find_nvcc() -> str | None:
    """Return the path of nvcc: that of the variable NVCC, or the first on the path."""
    return shutil.which(os.environ.get("NVCC") or "nvcc")


def main() -> int:
    """Compile; return 1 if nvcc complains."""
    nvcc = find_nvcc()
    if nvcc is None:
        print("check_cuda: there is no nvcc here, so the core is not compiled for a GPU.")
        return 0
    begin = time.monotonic()
    complaints = compile_core(nvcc, ROOT)
    if complaints:
        print(complaints)
        print(f"check_cuda: core/ does not compile for {ARCHITECTURE}; correct it as nvcc says.")
        return 1
    seconds = time.monotonic() - begin
    print(f"check_cuda: core/ compiles for {ARCHITECTURE}, {len(ENTRIES)} entries, {seconds:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
