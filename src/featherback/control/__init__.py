"""Control by gradients: trajectory optimisation by shooting, iLQR, receding horizons."""

from featherback.control.controls import Controls, make_controls
from featherback.control.cost import (
    Cost,
    Effort,
    FinalPlace,
    SitePlace,
    Sum,
    Value,
    final_place,
    site_place,
)
from featherback.control.ilqr import Policy, ilqr
from featherback.control.multiple import Segments, multiple_shooting
from featherback.control.outcome import Objective, Outcome
from featherback.control.problem import Shooting
from featherback.control.quadratic import StageCost, Tracking, tracking
from featherback.control.receding import ClosedLoop, RecedingHorizon, run_closed_loop
from featherback.control.shooting import optimise
from featherback.control.smoothing import Bundle, bundle, clip_norm

__all__ = [
    "Bundle",
    "ClosedLoop",
    "Controls",
    "Cost",
    "Effort",
    "FinalPlace",
    "Objective",
    "Outcome",
    "Policy",
    "RecedingHorizon",
    "Segments",
    "Shooting",
    "SitePlace",
    "StageCost",
    "Sum",
    "Tracking",
    "Value",
    "bundle",
    "clip_norm",
    "final_place",
    "ilqr",
    "make_controls",
    "multiple_shooting",
    "optimise",
    "run_closed_loop",
    "site_place",
    "tracking",
]
