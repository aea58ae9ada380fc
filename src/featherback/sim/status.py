"""What can go wrong in a world, as bit flags with a sentence each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from featherback._core import Status, describe_worlds, status_table

__all__ = ["SENTENCES", "Status", "describe"]

SENTENCES: dict[Status, str] = {Status(row.bit): row.sentence for row in status_table()}


def describe(status: NDArray[np.uint32], step: NDArray[np.int32]) -> str:
    """Return a text that names each world that is not OK, at most ten of them."""
    text = describe_worlds(np.ascontiguousarray(status), np.ascontiguousarray(step))
    return text or f"all {len(status)} worlds are OK"
