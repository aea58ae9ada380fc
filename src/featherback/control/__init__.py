"""Control by gradients: trajectory optimisation by shooting, iLQR, receding horizons."""

from featherback.control.controls import Controls, make_controls
from featherback.control.cost import Cost, Effort, FinalPlace, Sum, Value, final_place
from featherback.control.outcome import Objective, Outcome
from featherback.control.problem import Shooting
from featherback.control.shooting import optimise
from featherback.control.smoothing import Bundle, bundle, clip_norm

__all__ = [
    "Bundle",
    "Controls",
    "Cost",
    "Effort",
    "FinalPlace",
    "Objective",
    "Outcome",
    "Shooting",
    "Sum",
    "Value",
    "bundle",
    "clip_norm",
    "final_place",
    "make_controls",
    "optimise",
]
