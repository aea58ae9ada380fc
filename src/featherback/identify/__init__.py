"""Identification of parameters from logs, by bounded least squares with exact Jacobians."""

from featherback.identify.body import BodyInertia, inertia_of
from featherback.identify.estimate import Direction, Estimate
from featherback.identify.fit import identify
from featherback.identify.log import Log
from featherback.identify.unknowns import Block, Unknown, factor, unknown

__all__ = [
    "Block",
    "BodyInertia",
    "Direction",
    "Estimate",
    "Log",
    "Unknown",
    "factor",
    "identify",
    "inertia_of",
    "unknown",
]
