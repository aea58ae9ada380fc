"""Boxes whose edges lie exactly over each other: the derivative is that of both sides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import featherback as fb

STEP = 1e-6
LAWS: list[dict[str, Any]] = [{"contact": "mujoco"}, {"smoothing": 0.01}]


def stacked(upper: str = ".1 .1 .1", **options: Any) -> fb.Simulator:
    """Return a simulator of a box on one that is held."""
    return fb.Simulator(
        fb.load(
            '<mujoco><option timestep="0.002"/><worldbody><geom type="box" size=".1 .1 .1"/>'
            f'<body><freejoint/><geom type="box" size="{upper}"/></body></worldbody></mujoco>'
        ),
        **options,
    )


def slopes(sim: fb.Simulator, q: np.ndarray, along: int, bar: np.ndarray) -> list[float]:
    """Return the slope of the next velocity times bar along an axis from the left and right."""
    at = [
        float(sim.rollout(q + h * np.eye(7)[along], np.zeros(6), steps=1).v[-1] @ bar)
        for h in (-STEP, 0.0, STEP)
    ]
    return [(at[1] - at[0]) / STEP, (at[2] - at[1]) / STEP]


@pytest.mark.parametrize("options", LAWS)
@pytest.mark.parametrize("place", [(0.0, 0.0), (0.03, 0.0), (0.0, -0.05), (0.02, 0.01)])
@pytest.mark.parametrize("upper", [".1 .1 .1", ".06 .1 .1", ".1 .1 .05"])
def test_derivative_of_aligned_boxes(
    options: dict[str, Any], place: tuple[float, float], upper: str
) -> None:
    """Agree with both one-sided slopes, wherever edges meet and wherever they do not."""
    sim = stacked(upper, **options)
    height = 0.1 + float(upper.split()[2]) - 1e-4
    q, bar = np.array([*place, height, 1.0, 0, 0, 0]), np.random.default_rng(3).normal(size=6)
    roll = sim.rollout(q, np.zeros(6), steps=1)
    v_bar = np.zeros_like(roll.v)
    v_bar[-1] = bar
    found = roll.vjp(np.zeros_like(roll.q), v_bar).q
    seen = 0
    for along in (0, 1, 2):
        left, right = slopes(sim, q, along, bar)
        if abs(left - right) > 1e-4 * max(1.0, abs(left)):
            continue
        seen += 1
        assert abs(found[along] - right) < 1e-3 * max(1.0, abs(right))
    assert seen >= 2


def test_a_stack_passes_the_check_of_gradients() -> None:
    """Differentiate two equal cubes that stand exactly on each other."""
    cube = '<body pos="0 0 {}"><freejoint/><geom type="box" size=".1 .1 .1"/></body>'
    sim = fb.Simulator(
        fb.load(
            '<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="3 3 .1"/>'
            f"{cube.format(0.0999)}{cube.format(0.2998)}</worldbody></mujoco>"
        ),
        contact="mujoco",
    )
    found = fb.check_gradients(sim, q=sim.model.q0, steps=1, draws=3)
    assert found.ok, str(found)


def test_jacobians_of_a_stack() -> None:
    """Give the matrices of states 10 micrometres aside."""
    cube = '<body pos="0 0 {}"><freejoint/><geom type="box" size=".1 .1 .1"/></body>'
    model = fb.load(
        '<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="3 3 .1"/>'
        f"{cube.format(0.0999)}{cube.format(0.2998)}</worldbody></mujoco>"
    )
    sim = fb.Simulator(model, contact="mujoco")
    aside = np.array(model.q0)
    aside[7:9] += 1e-5
    A, B = (sim.linearize(q, np.zeros(12))[0] for q in (np.array(model.q0), aside))
    np.testing.assert_allclose(A[22, 6], B[22, 6], rtol=1e-3)
    np.testing.assert_allclose(A, B, atol=2e-3)
