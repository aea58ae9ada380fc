"""Control by gradients: trajectory optimization by shooting, iLQR, model predictive control."""

from featherback.control.controls import Controls, make_controls
from featherback.control.cost import (
    Cost,
    Effort,
    FinalPosition,
    SitePosition,
    Sum,
    Value,
    final_position,
    site_position,
)
from featherback.control.ilqr import Policy, ilqr
from featherback.control.mpc import ClosedLoopTrajectory, RecedingHorizon, run_closed_loop
from featherback.control.multiple_shooting import Segments, multiple_shooting
from featherback.control.optimize import optimize
from featherback.control.outcome import Objective, Outcome
from featherback.control.quadratic_cost import StageCost, Tracking, tracking
from featherback.control.shooting import Shooting
from featherback.control.smoothing import Bundle, bundle, clip_norm

__all__ = [
    "Bundle",
    "ClosedLoopTrajectory",
    "Controls",
    "Cost",
    "Effort",
    "FinalPosition",
    "Objective",
    "Outcome",
    "Policy",
    "RecedingHorizon",
    "Segments",
    "Shooting",
    "SitePosition",
    "StageCost",
    "Sum",
    "Tracking",
    "Value",
    "bundle",
    "clip_norm",
    "final_position",
    "ilqr",
    "make_controls",
    "multiple_shooting",
    "optimize",
    "run_closed_loop",
    "site_position",
    "tracking",
]
