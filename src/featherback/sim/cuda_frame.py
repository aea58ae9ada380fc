"""The arrays of one call on the GPU: copied there before a job, and back after it."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from featherback._typing import Real

Array = np.ndarray[Any, Any]


class Memory(Protocol):
    """What an engine offers for the arrays of a call."""

    device: Any

    def memory(self, name: str, count: int) -> int:
        """Return the address of at least `count` bytes."""
        ...

    def put(self, name: str, array: Array) -> int:
        """Copy an array to the GPU and return its address."""
        ...


class Frame:
    """The arrays of one call on the GPU, for the worlds of one piece."""

    def __init__(self, engine: Memory, part: slice) -> None:
        """Hold nothing yet."""
        self._engine, self._part = engine, part
        self._back: list[tuple[int, Array]] = []

    def _own(self, array: Array, shared: bool) -> Array:
        """Return this piece's worlds, contiguous."""
        return np.ascontiguousarray(array if shared else array[self._part])

    def read(self, name: str, array: Array | None, shared: bool = False) -> int:
        """Copy an array to the GPU and return its address, 0 for None."""
        if array is None:
            return 0
        return self._engine.put(name, self._own(array, shared))

    def write(self, name: str, array: Array | None) -> int:
        """Return the address of an array that the job writes and `finish` copies back."""
        if array is None:
            return 0
        address = self._engine.memory(name, array[self._part].nbytes)
        self._back.append((address, array))
        return address

    def change(self, name: str, array: Array | None) -> int:
        """Return the address of an array that the job reads and writes."""
        if array is not None:
            self.read(name, array)
        return self.write(name, array)

    def rows(self, name: str, rows: Real | None, first: int, steps: int) -> list[int]:
        """Return the words of rows from `first` on, (rows, n) for all worlds or each its own."""
        if rows is None:
            return [0, 0, 0]
        own, n = rows.ndim == 3, rows.shape[-1]
        cut = rows[..., first : first + steps, :]
        return [self.read(name, cut, shared=not own), steps * n if own else 0, n]

    def row(self, name: str, row: Real | None) -> list[int]:
        """Return the words of one row, (n) for all worlds or (worlds, n)."""
        if row is None:
            return [0, 0]
        own = row.ndim == 2
        return [self.read(name, row, shared=not own), row.shape[-1] if own else 0]

    def finish(self) -> None:
        """Copy back what was written."""
        for address, array in self._back:
            target = array[self._part]
            if target.flags.c_contiguous:
                self._engine.device.fetch(target, address)
            else:
                copy = np.empty(target.shape, target.dtype)
                self._engine.device.fetch(copy, address)
                target[...] = copy


def between(head: list[int], tail: list[int], first: int, last: int) -> list[int]:
    """Return words with the steps of a piece between others."""
    return [*head, first, last, *tail]


def backwards(head: list[int], tail: list[int], steps: int, first: int, last: int) -> list[int]:
    """Return the same for a job that runs from the last step to the first."""
    return [*head, steps - last, steps - first, *tail]
