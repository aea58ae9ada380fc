"""Identification of models whose actuators have activation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import featherback as fb
from featherback.identify import Log, identify, unknown
from tests.control.helpers import FILTERED

pytest.importorskip("scipy")

MASS = np.array([0.0, 2.0])


def motion(steps: int = 200) -> tuple[fb.Simulator, fb.Rollout]:
    """Return a simulator with a mass of 1 kg and a motion with one of 2 kg."""
    sim = fb.Simulator(fb.load(FILTERED))
    u = np.sin(0.05 * np.arange(steps))[:, None]
    return sim, sim.rollout([0.0], [0.0], u, act=[0.2], params={"body_mass": MASS})


@pytest.mark.parametrize("starts", ["measured", "free"])
@pytest.mark.parametrize("window", [None, 20])
def test_windows_start_with_the_activation(window: int | None, starts: Any) -> None:
    """Recover the mass to rounding, whole or in windows."""
    sim, roll = motion()
    log = Log(roll.q, roll.v, roll.u, act=roll.act)
    found = identify(sim, log, [unknown(sim, "body_mass", 1)], window=window, starts=starts)
    assert found.converged
    np.testing.assert_allclose(found.x, 2.0, rtol=1e-6)


def test_a_log_starts_at_zero() -> None:
    """Take zero for the activation of the first row where none is given."""
    sim = fb.Simulator(fb.load(FILTERED))
    u = np.sin(0.05 * np.arange(100))[:, None]
    roll = sim.rollout([0.0], [0.0], u, params={"body_mass": MASS})
    found = identify(sim, Log(roll.q, roll.v, u), [unknown(sim, "body_mass", 1)])
    np.testing.assert_allclose(found.x, 2.0, rtol=1e-6)
