"""The simulators that refuse, and what an error says of worlds."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import featherback as fb

MODEL = fb.models.cartpole()
Q, V, U = np.array([0.1, 0.2]), np.array([0.3, -0.4]), np.array([0.5])
Z = np.zeros(2)
NAN = np.array([np.nan, 0.0])
BAR = np.zeros((6, 2))
BAR[3, 1] = np.inf


@cache
def sim() -> fb.Simulator:
    """Return a cart-pole simulator."""
    return fb.Simulator(MODEL)


@cache
def ball() -> fb.Simulator:
    """Return a simulator of a free body."""
    return fb.Simulator(fb.models.ball())


@cache
def roll(**options: Any) -> fb.Rollout:
    """Return a rollout of a double pendulum."""
    return fb.Simulator(fb.models.pendulum(2)).rollout(Z, np.ones(2), steps=5, **options)


def at_fault(error: fb.WorldError) -> list[tuple[int, int, int]]:
    """Return world, step and status of each world that an error names."""
    fields = (error.world, error.step, error.status)
    return list(zip(*(field.tolist() for field in fields), strict=True))
