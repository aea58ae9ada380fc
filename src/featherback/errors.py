"""The exceptions of featherback. Each message is one sentence: where, what we got, what to do."""

from __future__ import annotations

__all__ = ["FeatherbackError", "ModelError", "ParameterError", "ShapeError", "WorldError"]


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
