"""Compile the kernels of engine/cuda with nvcc into src/featherback/kernels: make cuda.

One file for each job and number type, with machine code for every architecture asked for and PTX
of the newest, which a driver compiles for later GPUs when it loads it. What is newer than the
sources is left alone.

    python -m tools.cuda                       sm_90
    python -m tools.cuda --arch 80 90 100      more architectures, each takes as long again
    NVCC=/opt/cuda/bin/nvcc python -m tools.cuda --jobs rollout
    python -m tools.cuda --jobs jvp hvp        dual numbers too
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from tools.check.cuda import FLAGS, ROOT, find_nvcc

# without the first three there is no engine; of the others, those that are not built run on the
# processor. Dual numbers take nvcc long, and are compiled when they are asked for
DEFAULT = ("model", "rollout", "vjp", "linearize", "contacts", "output", "output_vjp")
JOBS = (*DEFAULT, "jvp", "hvp")
REALS = {"float64": "double", "float32": "float"}
SOURCE = ROOT / "engine" / "cuda" / "jobs.cu"
FOLDER = ROOT / "src" / "featherback" / "kernels"
# products and sums are joined only where the core says so: the bits are those of a processor that
# has the joined instruction. Two blocks of 256 threads share a multiprocessor
OPTIMISED = ("-O3", "-fmad=false", "-maxrregcount=128")


def command(nvcc: str, job: str, real: str, architectures: list[int], out: Path) -> list[str]:
    """Return the call of nvcc that compiles one file."""
    newest = max(architectures)
    codes = [f"arch=compute_{n},code=sm_{n}" for n in sorted(architectures)]
    codes.append(f"arch=compute_{newest},code=compute_{newest}")
    chosen = [word for code in codes for word in ("-gencode", code)]
    macros = [f"-DFB_REAL={REALS[real]}", f"-DFB_JOB_{job}"]
    flags = [*FLAGS, *OPTIMISED, "-fatbin", *chosen, *macros, f"-I{ROOT}"]
    return [nvcc, *flags, "-o", str(out), str(SOURCE)]


def is_current(file: Path) -> bool:
    """Return whether a file is newer than all it is made of."""
    if not file.exists():
        return False
    sources = [*ROOT.glob("core/**/*.hpp"), *ROOT.glob("engine/**/*.hpp"), SOURCE]
    return file.stat().st_mtime > max(source.stat().st_mtime for source in sources)


def main(arguments: list[str]) -> int:
    """Compile what is older than its sources; return 1 where nvcc is missing or complains."""
    parser = argparse.ArgumentParser(description="compile the kernels for a GPU")
    parser.add_argument("--arch", type=int, nargs="+", default=[90], help="such as 80 90 100")
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(DEFAULT))
    parser.add_argument("--reals", nargs="+", choices=list(REALS), default=list(REALS))
    given = parser.parse_args(arguments)
    nvcc = find_nvcc()
    if nvcc is None:
        print("cuda: there is no nvcc here; install NVIDIA's CUDA toolkit, or name it: NVCC=<path>")
        return 1
    FOLDER.mkdir(exist_ok=True)
    for real in given.reals:
        for job in given.jobs:
            file = FOLDER / f"{job}_{real}.fatbin"
            if is_current(file):
                continue
            begin, unfinished = time.monotonic(), file.with_suffix(".part")
            run = subprocess.run(command(nvcc, job, real, given.arch, unfinished), check=False)
            if run.returncode:
                print(f"cuda: nvcc does not compile {job} for {real}; correct what it names")
                return 1
            unfinished.rename(file)
            print(f"cuda: {file.name}, {time.monotonic() - begin:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
