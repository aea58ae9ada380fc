"""The exceptions of featherback. Each message is one sentence: where, what we got, what to do."""

from __future__ import annotations

from typing import Any

__all__ = [
    "FeatherbackError",
    "ModelError",
    "OptimisationError",
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


class OptimisationError(FeatherbackError, RuntimeError):
    """An optimisation stopped for a reason that makes its result useless, such as divergence.

    Attributes:
        outcome: what had been reached before, where the method has something to hand out.
    """

    def __init__(self, message: str, outcome: Any = None) -> None:
        """Keep the sentence and what was reached."""
        super().__init__(message)
        self.outcome = outcome
