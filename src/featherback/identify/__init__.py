"""Identification of parameters from logs, by bounded least squares with exact Jacobians."""

from featherback.identify.estimate import Direction, Estimate
from featherback.identify.fit import identify
from featherback.identify.log import Log
from featherback.identify.unknowns import Block, Unknown, factor, unknown

__all__ = ["Block", "Direction", "Estimate", "Log", "Unknown", "factor", "identify", "unknown"]
