"""What can go wrong in a world, as bit flags with a sentence each."""

from __future__ import annotations

from enum import IntFlag

import numpy as np
from numpy.typing import NDArray


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


def describe(status: NDArray[np.uint32], step: NDArray[np.int32]) -> str:
    """Return a text that names each world that is not OK, at most ten of them."""
    bad = np.flatnonzero(status)
    if len(bad) == 0:
        return f"all {len(status)} worlds are OK"
    lines = [f"{len(bad)} of {len(status)} worlds are not OK; the others are unaffected."]
    for w in bad[:10]:
        for sentence in Status(int(status[w])).sentences():
            lines.append(f"world {w}, first at step {step[w]}, {sentence}")
    if len(bad) > 10:
        lines.append(f"and {len(bad) - 10} more worlds.")
    return "\n".join(lines)
