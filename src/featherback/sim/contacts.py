"""Contacts of one step as outputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from featherback._core import CONTACT_NUMBERS
from featherback._typing import Ints, Real
from featherback.sim.bridge import Bridge
from featherback.sim.state import Point


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
        torque: real[..., max_contacts, 3], torque on B about the point in the world [N·m]: that of
            torsional and rolling friction, zero under the hard law.
        overflow: bool[...], whether more contacts than max_contacts were found; the last ones
            were left out.
    """

    count: Ints
    geom1: Ints
    geom2: Ints
    gap: Real
    point: Real
    normal: Real
    force: Real
    torque: Real
    overflow: NDArray[np.bool_]


def find_contacts(bridge: Bridge, point: Point) -> Contacts:
    """Return the contacts that the step from a point sees."""
    worlds, capacity = point.worlds, bridge.options.max_contacts
    numbers = np.zeros((worlds, capacity, CONTACT_NUMBERS), bridge.layout.dtype)
    pair = np.full((worlds, capacity), -1, np.int32)
    count = np.zeros(worlds, np.int32)
    overflow = np.zeros(worlds, np.uint8)
    bridge.contacts(point, numbers, pair, count, overflow)
    geom1, geom2 = bridge.model.structure.pair_geoms(pair)
    one = point.one
    return Contacts(
        count=np.asarray(count[one]),
        geom1=geom1[one],
        geom2=geom2[one],
        gap=numbers[one][..., 0],
        point=numbers[one][..., 1:4],
        normal=numbers[one][..., 4:7],
        force=numbers[one][..., 7:10],
        torque=numbers[one][..., 10:],
        overflow=np.asarray(overflow[one] != 0),
    )
