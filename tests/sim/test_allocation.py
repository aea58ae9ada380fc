"""No memory is allocated in a step: a shim counts malloc around rollouts of different lengths."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from typing import Any

import pytest

# glibc's own entries stand behind the wrappers, so nothing has to be looked up inside malloc
SHIM = r"""
#include <atomic>
#include <cerrno>
#include <cstddef>
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
static std::atomic<long> calls{0};
long allocation_calls() { return calls; }
void* malloc(size_t n) { ++calls; return __libc_malloc(n); }
void* calloc(size_t n, size_t m) { ++calls; return __libc_calloc(n, m); }
void* realloc(void* p, size_t n) { ++calls; return __libc_realloc(p, n); }
void* memalign(size_t a, size_t n) { ++calls; return __libc_memalign(a, n); }
void* aligned_alloc(size_t a, size_t n) { ++calls; return __libc_memalign(a, n); }
int posix_memalign(void** p, size_t a, size_t n) {
  ++calls;
  *p = __libc_memalign(a, n);
  return *p ? 0 : ENOMEM;
}
}
"""

# Python's own small objects are counted too: the variable PYTHONMALLOC sends them to malloc
PROGRAM = """
import ctypes, gc, json, sys
import numpy as np
import featherback as fb

calls = ctypes.CDLL(sys.argv[1]).allocation_calls
calls.restype = ctypes.c_long
model = fb.models.laikago()
q0 = np.array(model.keyframe(0)[0])
SHORT, LONG = 10, 10_000


def counted(work):
    gc.disable()
    work()
    before = calls()
    work()
    return calls() - before


out = {"sanity": counted(lambda: [np.empty(1000) for _ in range(100)])}
for worlds in (1, 16):
    for threads in (1, 2):
        sim = fb.Simulator(model, threads=threads)
        q = q0 if worlds == 1 else np.tile(q0, (worlds, 1))
        v = np.zeros((*q.shape[:-1], model.nv))
        u = q0[7:]
        rolls = {n: sim.rollout(q, v, u, steps=n) for n in (SHORT, LONG // 10)}
        bars = {n: np.ones_like(roll.v) for n, roll in rolls.items()}
        counts = {
            "rollout": [counted(lambda: sim.rollout(q, v, u, steps=n)) for n in (SHORT, LONG)],
            "vjp": [counted(lambda: rolls[n].vjp(None, bars[n])) for n in (SHORT, LONG // 10)],
        }
        out[f"{worlds} {threads}"] = counts
json.dump(out, sys.stdout)
"""

PIECES = 500
"""Calls allowed for a long rollout on top of a short one: a few for each piece of about 50 ms,
which are many where other programs take the processor; one in twenty steps would be more."""


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Compile the shim, run the program under it and return what it counted."""
    compiler = shutil.which(os.environ.get("CXX") or "g++")
    if compiler is None:
        pytest.skip("there is no C++ compiler here to build the shim that counts malloc")
    if platform.libc_ver()[0] != "glibc":
        pytest.skip("the shim that counts malloc needs glibc")
    if "libasan" in os.environ.get("LD_PRELOAD", ""):
        pytest.skip("the address sanitiser has a malloc of its own")
    folder = tmp_path_factory.mktemp("shim")
    source, library = folder / "shim.cpp", folder / "shim.so"
    source.write_text(SHIM)
    flags = ["-O2", "-shared", "-fPIC", "-fno-builtin", "-o", str(library), str(source)]
    subprocess.run([compiler, *flags], check=True)
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(library)],
        env={**os.environ, "LD_PRELOAD": str(library), "PYTHONMALLOC": "malloc"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_the_shim_counts(counts: dict[str, Any]) -> None:
    """Count the hundred arrays that are allocated on purpose."""
    assert counts["sanity"] >= 100


@pytest.mark.parametrize("job", ["rollout", "vjp"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("worlds", [1, 16])
def test_allocations_do_not_grow_with_steps(
    counts: dict[str, Any], worlds: int, threads: int, job: str
) -> None:
    """Allocate as often for 10 000 steps (1000 backwards) as for 10, but for a few per 50 ms."""
    short, long = counts[f"{worlds} {threads}"][job]
    print(f"{short} allocations for 10 steps, {long} for many")
    assert long - short <= PIECES
