"""Identification of parameters from logs, by bounded least squares with exact Jacobians."""

from featherback.identify.body_inertia import BodyInertia, inertia_of
from featherback.identify.estimate import Estimate, SingularDirection
from featherback.identify.fit import identify
from featherback.identify.log import Log
from featherback.identify.unknowns import Unknown, Unknowns, scale_factor, unknown

__all__ = [
    "BodyInertia",
    "Estimate",
    "Log",
    "SingularDirection",
    "Unknown",
    "Unknowns",
    "identify",
    "inertia_of",
    "scale_factor",
    "unknown",
]
