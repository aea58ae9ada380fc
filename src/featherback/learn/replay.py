"""Memory of samples: a ring of rows, kept in checkpoints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class Replay:
    """The last samples, by name of their columns.

    Attributes:
        columns: real[capacity, ...] each.
        count: samples that were ever added.
    """

    def __init__(self, capacity: int, widths: dict[str, int]) -> None:
        """Make room; a width of zero is a number, one of n a row."""
        self.capacity = capacity
        self.columns = {
            name: torch.zeros((capacity, width) if width else (capacity,))
            for name, width in widths.items()
        }
        self.count = 0

    def __len__(self) -> int:
        """Return the number of samples that are there."""
        return min(self.count, self.capacity)

    def add(self, **rows: Tensor) -> None:
        """Add samples; the oldest go where there is no room."""
        n = len(next(iter(rows.values())))
        at = torch.arange(self.count, self.count + n) % self.capacity
        for name, column in self.columns.items():
            column[at] = rows[name].to(column.dtype)
        self.count += n

    def draw(self, n: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Return n samples, each drawn from all that are there."""
        rows = torch.randint(0, len(self), (n,), generator=generator)
        return {name: column[rows] for name, column in self.columns.items()}

    def all(self) -> dict[str, Tensor]:
        """Return all samples that are there, in the order of the ring."""
        return {name: column[: len(self)] for name, column in self.columns.items()}

    def clear(self) -> None:
        """Forget all samples."""
        self.count = 0

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        # copies: a view would save the whole ring
        return {"count": self.count, "rows": {k: x.clone() for k, x in self.all().items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what a checkpoint kept."""
        self.count = state["count"]
        for name, rows in state["rows"].items():
            self.columns[name][: len(rows)] = rows
