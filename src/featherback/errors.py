"""The exceptions of featherback. A message is one sentence: where, what was given, what to do."""

from __future__ import annotations

from typing import Any

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
    """One or more worlds of a batch stopped; the others are unaffected."""


class OptimizationError(FeatherbackError, RuntimeError):
    """An optimization stopped for a reason that makes its result useless, such as divergence.

    Attributes:
        outcome: the result before it stopped, where there is one.
    """

    def __init__(self, message: str, outcome: Any = None) -> None:
        """Keep the message and the result."""
        super().__init__(message)
        self.outcome = outcome
