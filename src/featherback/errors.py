"""The exceptions of featherback. A message is one sentence: where, what was given, what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "FeatherbackError",
    "ModelError",
    "OptimizationError",
    "ParameterError",
    "ShapeError",
    "WorldError",
]


class FeatherbackError(Exception):
    """Base of every exception that featherback raises on purpose."""


class ModelError(FeatherbackError, ValueError):
    """A model file, or something in it, cannot be used."""


class ShapeError(FeatherbackError, ValueError):
    """An array has the wrong shape, dtype or layout."""


class ParameterError(FeatherbackError, ValueError):
    """A parameter or an option has a name or a value that is not known."""


class WorldError(FeatherbackError, RuntimeError):
    """One or more worlds of a batch went wrong; the others are unaffected.

    Its arrays have one entry for each world that went wrong, in the order of the worlds.

    Attributes:
        world: int64[n], the worlds; empty where a gradient that all worlds share overflowed.
        step: int64[n], the step at which the first bit was set; -1 where it is not known.
        status: uint32[n], bits of `featherback.Status`; zero where a derivative overflowed in
            steps that are OK.
        residual: float64[n], largest residual of the contact solve [m/s]; NaN where it is not
            known.
    """

    def __init__(
        self,
        message: str,
        *,
        world: ArrayLike = (),
        step: ArrayLike = -1,
        status: ArrayLike = 0,
        residual: ArrayLike = np.nan,
    ) -> None:
        """Keep the sentence and what it was made of."""
        super().__init__(message)
        self.world: NDArray[np.int64] = np.array(world, np.int64)
        self.step = np.full(self.world.shape, step, np.int64)
        self.status = np.full(self.world.shape, status, np.uint32)
        self.residual = np.full(self.world.shape, residual, np.float64)


class OptimizationError(FeatherbackError, RuntimeError):
    """An optimization stopped for a reason that makes its result useless, such as divergence.

    Attributes:
        outcome: the result before it stopped, where there is one.
    """

    def __init__(self, message: str, outcome: Any = None) -> None:
        """Keep the message and the result."""
        super().__init__(message)
        self.outcome = outcome
