"""What can go wrong in a world, as bit flags with a sentence each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from featherback._core import Status, describe_worlds, status_table
from featherback._typing import Ints, Real
from featherback.errors import WorldError

SENTENCES: dict[Status, str] = {Status(row.bit): row.sentence for row in status_table()}


def describe(status: NDArray[np.uint32], step: Ints, residual: Real | None = None) -> str:
    """Return a text that names each world that is not OK, at most ten of them."""
    found = None if residual is None else np.ascontiguousarray(residual, np.float64)
    text = describe_worlds(np.ascontiguousarray(status), np.ascontiguousarray(step), found)
    return text or f"all {len(status)} worlds are OK"


class WorldStatus(NamedTuple):
    """What a job of the engine says of each world.

    Attributes:
        status: uint32[worlds], bits of `Status`.
        step: int32[worlds], step at which the first bit was set, -1 for none.
    """

    status: NDArray[np.uint32]
    step: Ints

    @classmethod
    def ok(cls, worlds: int) -> WorldStatus:
        """Return that of worlds in which nothing went wrong."""
        step = np.empty(worlds, np.int32)
        step.fill(-1)
        return cls(np.zeros(worlds, np.uint32), step)

    def require_ok(self, where: str, first: int = 0) -> None:
        """Raise WorldError where a world is not OK; its steps are counted from `first`."""
        if np.count_nonzero(self.status):
            raise world_error(where, self.status, self.step + np.int32(first))


def world_error(
    where: str, status: NDArray[np.uint32], step: Ints, residual: Real | None = None
) -> WorldError:
    """Return the error that names each world that is not OK; see `describe` for the arrays."""
    bad = np.flatnonzero(status)
    return WorldError(
        f"{where}: {describe(status, step, residual)}",
        world=bad,
        step=step[bad],
        status=status[bad],
        residual=np.nan if residual is None else residual[bad],
    )


def overflow_error(
    where: str, what: str, worlds: NDArray[np.int64], hint: str, step: Ints | int = -1
) -> WorldError:
    """Return the error for a derivative that overflowed in some worlds."""
    more = f" and {len(worlds) - 1} more worlds" if len(worlds) > 1 else ""
    text = f"{where}: the {what} of world {worlds[0]}{more} is not finite: {hint}."
    return WorldError(text, world=worlds, step=step)
