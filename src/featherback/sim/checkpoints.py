"""Which states of a rollout are kept, and in which order the rest is computed again.

The backward pass needs every state, last to first. It works on units of consecutive steps: the
states of one unit are laid out on a tape, the adjoint runs over them, and the tape is used again
for the unit before. Where fewer states are kept than there are units, the missing ones are run
again from the nearest one before, in the binomial order that needs the fewest steps.
"""

from __future__ import annotations

import math
import re
import reprlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from featherback._checks import is_integer
from featherback.errors import ParameterError

Checkpoint = str | int

_BYTES = re.compile(r"bytes:(\d{1,18})(|kB|MB|GB)")
_UNITS = {"": 1, "kB": 1000, "MB": 1000**2, "GB": 1000**3}


@dataclass(frozen=True)
class Schedule:
    """How a rollout of `steps` steps is kept.

    Attributes:
        steps: number of steps.
        unit: steps on the tape at once.
        slots: states kept besides the first and the last.
        keeps_all: every state is kept, and no step of the tape is run again.
    """

    steps: int
    unit: int
    slots: int
    keeps_all: bool

    @classmethod
    def all(cls, steps: int) -> Schedule:
        """Return the schedule that keeps every state."""
        return cls(steps, max(steps, 1), 0, True)

    @property
    def units(self) -> int:
        """Number of units; the last may be shorter."""
        return math.ceil(self.steps / self.unit)

    @property
    def states(self) -> int:
        """States in memory at once: those kept, and those on the tape."""
        if self.keeps_all:
            return self.steps + 1
        return self.slots + 2 + self.unit + 1

    @cached_property
    def kept(self) -> NDArray[np.int64]:
        """int64[rows], the steps whose states the forward pass keeps, first and last included."""
        if self.keeps_all:
            return np.arange(self.steps + 1)
        kept, at, free = [0], 0, self.slots
        while free and self.units - at > 1:
            at += split(self.units - at, free)
            free -= 1
            kept.append(at * self.unit)
        return np.array([*kept, self.steps] if self.steps else kept)


def split(units: int, slots: int) -> int:
    """Return after how many of `units` the next of `slots` states is kept.

    From a kept state and with s more slots, C(s + 1 + r, s + 1) units can be reversed if each is
    run at most r times besides its run on the tape (Griewank and Walther, ACM TOMS 26, 2000). The
    part before the next kept state gets one run fewer, the part after it one slot fewer.
    """
    runs = runs_needed(units, slots)
    return min(math.comb(slots + runs, slots + 1), units - math.comb(slots + runs - 1, slots))


def runs_needed(units: int, slots: int) -> int:
    """Return how often a unit is run at most, the forward pass included, the tape's run not."""
    runs = 0
    while math.comb(slots + 1 + runs, slots + 1) < units:
        runs += 1
    return runs


def plan(where: str, checkpoint: Checkpoint, steps: int, state_bytes: int) -> Schedule:
    """Return the schedule for "step", for every k-th state, or for "bytes:N"."""
    if checkpoint == "step":
        return Schedule.all(steps)
    if is_integer(checkpoint) and int(checkpoint) >= 1:
        unit = min(int(checkpoint), max(steps, 1))
        return Schedule(steps, unit, max(math.ceil(steps / unit) - 1, 0), False)
    match = _BYTES.fullmatch(checkpoint) if isinstance(checkpoint, str) else None
    if match is None:
        raise ParameterError(
            f'{where}: checkpoint is {reprlib.repr(checkpoint)}; it must be "step" (every state is '
            'kept), an integer k >= 1 (every k-th), or a budget such as "bytes:64MB", of at '
            "most 18 digits."
        )
    budget = int(match[1]) * _UNITS[match[2]]
    return _fit(where, str(checkpoint), steps, budget // max(state_bytes, 1), state_bytes)


def _fit(where: str, given: str, steps: int, states: int, state_bytes: int) -> Schedule:
    """Return the schedule with the fewest runs that holds `states` states."""
    if states >= steps + 1:
        return Schedule.all(steps)
    # first and last, one on the way, and a tape of one step
    fewest = 5
    if states < fewest:
        raise ParameterError(
            f'{where}: checkpoint is "{given}", which holds {states} states of {state_bytes} '
            f"bytes; at least {fewest} are needed, {fewest * state_bytes} bytes."
        )
    best: tuple[int, int, Schedule] | None = None
    unit = 1
    while unit <= states - 4:
        slots = min(states - 3 - unit, max(math.ceil(steps / unit) - 1, 0))
        runs = runs_needed(math.ceil(steps / unit), slots)
        # among equals the longest tape: fewer, larger pieces of work
        if best is None or (runs, -unit) < best[:2]:
            best = (runs, -unit, Schedule(steps, unit, slots, False))
        unit = max(unit + 1, int(unit * 1.1))
    assert best is not None
    return best[2]
