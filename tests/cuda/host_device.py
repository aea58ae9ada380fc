"""A device that is the processor: the kernels of engine/cuda compiled for the host.

What is tested with it is all that lies between a Simulator and the threads of a GPU: words,
strides, pieces, the kernels' own code; and nothing of NVIDIA's.
"""

from __future__ import annotations

import ctypes
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from featherback.sim.cuda import OTHER_JOBS

ROOT = Path(__file__).resolve().parents[2]
REALS = {"float64": "double", "float32": "float"}
FLAGS = ("-std=c++20", "-O1", "-fno-math-errno", "-ffp-contract=off", "-fPIC", "-shared")


def build(folder: Path, job: str, real: str) -> Path:
    """Compile the kernels of a job for the host, unless they are there."""
    file = folder / f"{job}_{real}.so"
    if not file.exists():
        macros = (f"-DFB_REAL={REALS[real]}", f"-DFB_JOB_{job}")
        source = str(ROOT / "tests/cuda/host.cpp")
        command = ["g++", *FLAGS, *macros, f"-I{ROOT}", "-o", str(file), source]
        subprocess.run(command, check=True)
    return file


_one = threading.Lock()


class HostDevice:
    """The interface of `featherback.sim.cuda_device.CudaDevice`, on the processor."""

    name = "host"
    multiprocessors, threads = 2, 64
    # its addresses are those of the processor
    place, dlpack, stream = "cpu", (1, 0), 0

    def __init__(self, folder: Path) -> None:
        """Keep compiled kernels in a folder."""
        self._folder, self._held = folder, dict[int, Any]()
        self.local, self.streams = True, list[int]()
        self.jobs: tuple[str, ...] = OTHER_JOBS
        self.free, self.launches = 10**12, list[tuple[str, int, int]]()

    def activate(self) -> None:
        """Do nothing: there is one device."""

    @contextmanager
    def on_stream(self, handle: int) -> Iterator[None]:
        """Write down the stream of a call."""
        self.streams.append(handle)
        yield

    def free_bytes(self) -> int:
        """Return what a test said."""
        return self.free

    def allocate(self, count: int) -> int:
        """Return memory that is full of nonsense, as that of a GPU is."""
        memory = np.full(count + 64, 0xA5, np.uint8)
        address = (memory.ctypes.data + 63) // 64 * 64
        self._held[address] = memory
        return address

    def release(self, address: int) -> None:
        """Give memory back."""
        del self._held[address]

    def send(self, address: int, array: np.ndarray[Any, Any]) -> None:
        """Copy an array."""
        assert array.flags.c_contiguous
        ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def fetch(self, array: np.ndarray[Any, Any], address: int) -> None:
        """Copy an array back."""
        assert array.flags.c_contiguous
        ctypes.memmove(array.ctypes.data, address, array.nbytes)

    def reserve_local(self, count: int) -> bool:
        """Return what a test said; a stack of the host has some megabytes."""
        return self.local

    def has_kernel(self, job: str, real: str) -> bool:
        """Return whether a test lets a job have a kernel; all others are the processor's."""
        return job in self.jobs

    def kernel(self, where: str, job: str, real: str, name: str) -> Any:
        """Return a kernel as a function of grid, block and words."""
        library = ctypes.CDLL(str(build(self._folder, job, real)))
        return name, getattr(library, f"launch_{name}")

    def launch(self, kernel: Any, threads: int, block: int, *words: int) -> None:
        """Run a kernel."""
        name, function = kernel
        self.launches.append((name, threads, block))
        # the threads of a launch share what stands for CUDA's indices
        with _one:
            function(*(ctypes.c_int64(n) for n in (-(-threads // block), block, *words)))

    def figures(self, kernel: Any) -> dict[str, int]:
        """Return the local memory of a kernel."""
        return {"registers": 1, "local_bytes": 1024}

    def start_clock(self) -> None:
        """Begin to measure."""
        self._begin = time.perf_counter()

    def stop_clock(self) -> float:
        """Return the seconds since then."""
        return time.perf_counter() - self._begin
