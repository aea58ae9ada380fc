"""What can go wrong in a world, as bit flags with a sentence each."""

from __future__ import annotations

from enum import IntFlag
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from featherback._typing import Ints, Real
from featherback.errors import WorldError


class Status(IntFlag):
    """State of a world after a step or a rollout; several bits may be set."""

    OK = 0
    NONFINITE = 1
    CONTACT_OVERFLOW = 2
    UNCONVERGED = 4
    NO_GRADIENT = 8

    def sentences(self) -> list[str]:
        """Return one sentence for each bit that is set."""
        return [text for bit, text in SENTENCES.items() if self & bit]


SENTENCES: dict[Status, str] = {
    Status.NONFINITE: (
        "NONFINITE: the state holds a NaN or an infinity from this step on; nothing was reset. "
        "Look at the controls and the state before it, or take a smaller dt."
    ),
    Status.CONTACT_OVERFLOW: (
        "CONTACT_OVERFLOW: more contacts than max_contacts were found and the last ones were left "
        "out; pass a larger max_contacts to the Simulator."
    ),
    Status.UNCONVERGED: (
        "UNCONVERGED: the contact solve reached max_sweeps above its tolerance; the step holds the "
        "last sweep's impulses. Pass a larger max_sweeps or a larger tolerance."
    ),
    Status.NO_GRADIENT: (
        "NO_GRADIENT: this step has no gradient, since contacts were left out of it; pass a larger "
        "max_contacts to the Simulator."
    ),
}


def describe(status: NDArray[np.uint32], step: Ints, residual: Real | None = None) -> str:
    """Return a text that names each world that is not OK, at most ten of them.

    Args:
        status: uint32[worlds].
        step: int32[worlds], the step at which the first bit was set.
        residual: real[worlds], largest residual of the contact solve [m/s], where it is known.
    """
    bad = np.flatnonzero(status)
    if len(bad) == 0:
        return f"all {len(status)} worlds are OK"
    lines = [f"{len(bad)} of {len(status)} worlds are not OK; the others are unaffected."]
    for w in bad[:10]:
        for sentence in Status(int(status[w])).sentences():
            lines.append(f"world {w}, first at step {step[w]}, {sentence}")
        if residual is not None and status[w] & Status.UNCONVERGED:
            lines[-1] += f" Its largest residual is {residual[w]:.1e} m/s."
    if len(bad) > 10:
        lines.append(f"and {len(bad) - 10} more worlds.")
    return "\n".join(lines)


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
        return cls(np.zeros(worlds, np.uint32), np.full(worlds, -1, np.int32))

    def require_ok(self, where: str, first: int = 0) -> None:
        """Raise WorldError where a world is not OK; its steps are counted from `first`."""
        if self.status.any():
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
    """Return the error for a derivative that overflowed.

    Args:
        where: the call, for messages.
        what: the derivative, such as "gradient".
        worlds: those in which it did.
        hint: what to do.
        step: int32[worlds], where it is known.
    """
    more = f" and {len(worlds) - 1} more worlds" if len(worlds) > 1 else ""
    text = f"{where}: the {what} of world {worlds[0]}{more} is not finite: {hint}."
    return WorldError(text, world=worlds, step=step)
