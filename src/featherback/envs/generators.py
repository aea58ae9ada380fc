"""One generator of random numbers for each world."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from featherback.errors import ParameterError


class Generators:
    """Generators by the number of the world.

    A seed gives the generator that `gymnasium.Env.reset(seed=...)` makes, so that a world draws
    what an environment by itself draws.
    """

    def __init__(self, count: int) -> None:
        """Make generators that have no seed yet."""
        self._own: list[np.random.Generator | None] = [None] * count

    def __len__(self) -> int:
        """Return the number of worlds."""
        return len(self._own)

    def __getitem__(self, i: int) -> np.random.Generator:
        """Return the generator of a world; one that has no seed gets one of the system's."""
        own = self._own[i]
        if own is None:
            own = self._own[i] = np.random.Generator(np.random.PCG64())
        return own

    def get_state(self) -> list[str]:
        """Return the state of every generator, as text; empty where it has no seed yet."""
        return ["" if own is None else json.dumps(own.bit_generator.state) for own in self._own]

    def set_state(self, state: list[str]) -> None:
        """Take over the states of all generators."""
        for i, text in enumerate(state):
            own = np.random.Generator(np.random.PCG64(0)) if text else None
            if own is not None:
                own.bit_generator.state = json.loads(text)
            self._own[i] = own

    def seed(self, where: str, seed: Any, rows: Any) -> None:
        """Seed the worlds `rows` by seed + i, or by one seed for each world; None: leave them."""
        if seed is None:
            return
        count = len(self._own)
        if isinstance(seed, int | np.integer):
            seeds = [int(seed) + i for i in range(count)]
        else:
            seeds = [None if s is None else int(s) for s in seed]
        if len(seeds) != count or any(s is not None and s < 0 for s in seeds):
            raise ParameterError(
                f"{where}: seed is {seed!r}; it must be one integer >= 0, or {count} of them, one "
                "for each world."
            )
        for i in rows:
            if seeds[i] is not None:
                self._own[i] = np.random.Generator(
                    np.random.PCG64(np.random.SeedSequence(seeds[i]))
                )
