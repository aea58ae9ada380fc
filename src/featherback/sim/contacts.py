"""Contacts of one step as outputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Contacts:
    """The contact candidates of one step, padded to the simulator's max_contacts.

    All arrays have a leading world axis if the input had one. Entries from `count` on are zero,
    their geoms -1.

    Attributes:
        count: int32[...], number of contact candidates.
        geom1: int32[..., max_contacts], geom A.
        geom2: int32[..., max_contacts], geom B.
        gap: real[..., max_contacts], [m], negative where the geoms overlap.
        point: real[..., max_contacts, 3], contact point in the world [m].
        normal: real[..., max_contacts, 3], unit normal from A to B.
        force: real[..., max_contacts, 3], force on B in the world [N], the impulse over dt.
        overflow: bool[...], whether more contacts than max_contacts were found; the last ones
            were left out.
    """

    count: NDArray[np.int32]
    geom1: NDArray[np.int32]
    geom2: NDArray[np.int32]
    gap: NDArray[np.floating]
    point: NDArray[np.floating]
    normal: NDArray[np.floating]
    force: NDArray[np.floating]
    overflow: NDArray[np.bool_]
