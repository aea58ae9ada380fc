"""Compile the headers of core/ and engine/ for a GPU with nvcc; nothing is run, no GPU is needed.

A source file that includes the headers and names each function of ENTRIES in a kernel is written to
a temporary folder and compiled for sm_90: without optimisation to the intermediate language, where
every rule of device code is checked, or in full to machine code, one entry after the other, since
a gradient alone takes nvcc 10 GB and ten minutes. Where nvcc is missing, this is said and nothing
fails.

    python -m tools.check.cuda
    python -m tools.check.cuda --full                 to machine code, hours
    python -m tools.check.cuda --full run_contacts    those with this in their names
    NVCC=/opt/cuda/bin/nvcc python -m tools.check.cuda
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ARCHITECTURE = "sm_90"
NUMBERS = ("double", "float")

# headers that a GPU must be able to read; what only a host needs stays out
HEADERS = ("core/**/*.hpp", "engine/jobs/*.hpp")

# per header, functions whose address a kernel takes, so that nvcc makes code of them and all they
# call; T becomes each of NUMBERS
ENTRIES: dict[str, tuple[str, ...]] = {
    "core/step.hpp": ("step<T, T>", "step_adjoint<T, T>"),
    "engine/jobs/rollout.hpp": ("run_rollout<T, T>",),
    "engine/jobs/backward.hpp": (
        "run_backward<T, T, VjpTask>",
        "run_backward<Dual<T>, T, HvpTask>",
    ),
    "engine/jobs/tangent.hpp": ("run_jvp<Dual<T>, T>",),
    "engine/jobs/linearize.hpp": ("run_linearize<T, T>",),
    "engine/jobs/output.hpp": ("run_output<T, T>", "run_output_vjp<T, T>"),
    "engine/jobs/contacts.hpp": ("run_contacts<T, T>",),
}

# 1675: a pragma of GCC's, which nvcc passes over; 128: a loop over lanes that one never reaches
FLAGS = ("-std=c++20", "--expt-relaxed-constexpr", "-diag-suppress", "1675,128")
QUICK = ("-ptx", "-Xcicc", "-O0")
FULL = ("-c",)


def entries_of(root: Path) -> list[str]:
    """Return the entries of the headers that exist, once per number type."""
    names = [name for header in ENTRIES if (root / header).exists() for name in ENTRIES[header]]
    return [re.sub(r"\bT\b", number, name) for name in names for number in NUMBERS]


def source(root: Path, entries: list[str]) -> str:
    """Return a CUDA source file that includes every header and names these entries."""
    headers = sorted(h.relative_to(root).as_posix() for glob in HEADERS for h in root.glob(glob))
    lines = ["#define FB_ISA cuda", *(f'#include "{header}"' for header in headers)]
    lines += ["namespace fb::cuda {", "__global__ void entries(void** out) {"]
    lines += [f"  out[{i}] = (void*)&{entry};" for i, entry in enumerate(entries)]
    return "\n".join([*lines, "}", "}  // namespace fb::cuda", ""])


def compile_headers(
    nvcc: str, root: Path, entries: list[str], stage: tuple[str, ...] = QUICK
) -> str:
    """Compile the headers below ``root``; return nvcc's complaints, empty if there are none."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "entries.cu")
        file.write_text(source(root, entries))
        command = [nvcc, *FLAGS, *stage, f"-arch={ARCHITECTURE}", f"-I{root}", "-o"]
        command += [str(file.with_suffix(".out")), str(file)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    said = (run.stdout + run.stderr).strip()
    return said or (f"nvcc ended with code {run.returncode}" if run.returncode else "")


def find_nvcc() -> str | None:
    """Return the path of nvcc: that of the variable NVCC, or the first on the path."""
    return shutil.which(os.environ.get("NVCC") or "nvcc")


def main(arguments: list[str]) -> int:
    """Compile; return 1 if nvcc complains."""
    nvcc = find_nvcc()
    if nvcc is None:
        print("cuda: there is no nvcc here, so nothing is compiled for a GPU")
        return 0
    begin, full = time.monotonic(), "--full" in arguments
    names = [word for word in arguments if word != "--full"]
    entries = [e for e in entries_of(ROOT) if not names or any(name in e for name in names)]
    for part in [[entry] for entry in entries] if full else [entries]:
        complaints = compile_headers(nvcc, ROOT, part, FULL if full else QUICK)
        if complaints:
            print(complaints)
            print(
                f"cuda: the headers do not compile for {ARCHITECTURE}; correct them as nvcc says."
            )
            return 1
    seconds = time.monotonic() - begin
    print(f"cuda: {len(entries)} entries compile for {ARCHITECTURE}, {seconds:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
