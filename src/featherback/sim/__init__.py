"""Simulation: the Simulator, what it returns, and what may go wrong in a world."""

from featherback.sim.check import GradientReport, check_gradients
from featherback.sim.contacts import Contacts
from featherback.sim.outputs import OutputGradient
from featherback.sim.rollout import Gradient, Rollout
from featherback.sim.simulator import Simulator
from featherback.sim.status import Status

__all__ = [
    "Contacts",
    "Gradient",
    "GradientReport",
    "OutputGradient",
    "Rollout",
    "Simulator",
    "Status",
    "check_gradients",
]
