"""A device on paper: what a GPU would be told, where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


class PaperDevice:
    """A device that computes nothing: memory is NumPy's, launches are written down."""

    name, multiprocessors, threads, place, dlpack = "paper", 4, 64, "cuda:0", (2, 0)
    stream = 0

    def __init__(self) -> None:
        """Start with an empty list."""
        self.launches: list[tuple[str, int, int, list[int]]] = []
        self.free, self._held, self._next = 10**9, dict[int, Any](), 64

    def activate(self) -> None:
        """Do nothing."""

    @contextmanager
    def on_stream(self, handle: int) -> Iterator[None]:
        """Do nothing."""
        yield

    def free_bytes(self) -> int:
        """Return what a test said."""
        return self.free

    def reserve_local(self, count: int) -> bool:
        """Have all that is asked for."""
        return True

    def allocate(self, count: int) -> int:
        """Return an address."""
        self._next += 64
        self._held[self._next] = np.zeros(count, np.uint8)
        return self._next

    def release(self, address: int) -> None:
        """Forget an address."""
        del self._held[address]

    def send(self, address: int, array: Any) -> None:
        """Copy an array."""
        self._held[address][: array.nbytes] = np.frombuffer(array.tobytes(), np.uint8)

    def fetch(self, array: Any, address: int) -> None:
        """Copy an array back."""
        array[...] = self._held[address][: array.nbytes].view(array.dtype).reshape(array.shape)

    def has_kernel(self, job: str, real: str) -> bool:
        """Have a kernel of none but the first jobs."""
        return False

    def kernel(self, where: str, job: str, real: str, name: str) -> str:
        """Return a name."""
        return f"{job} {name}"

    def launch(self, kernel: str, threads: int, block: int, *words: int) -> None:
        """Write down a launch, with the words that a job is given."""
        given = words[1] if kernel.endswith(" job") else words[0]
        memory = self._held[given]
        told = memory[: memory.size // 8 * 8].view(np.int64)[:40].tolist()
        self.launches.append((kernel, threads, block, told))

    def figures(self, kernel: Any) -> dict[str, int]:
        """Return the local memory of a kernel."""
        return {"registers": 1, "local_bytes": 1024}

    def start_clock(self) -> None:
        """Do nothing."""

    def stop_clock(self) -> float:
        """Return no time."""
        return 0.0
