"""Experiments: named runs with a baseline, a plot, a recorded motion and a JSON result."""

from featherback.experiments.context import Context
from featherback.experiments.recording import Recording
from featherback.experiments.registry import names
from featherback.experiments.result import Claim, Result, Trace
from featherback.experiments.runner import run, run_seeds

__all__ = ["Claim", "Context", "Recording", "Result", "Trace", "names", "run", "run_seeds"]
