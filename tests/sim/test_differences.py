"""Slopes from differences: right where a function is smooth, in doubt at kinks, jumps and noise."""

from __future__ import annotations

import numpy as np
import pytest

from featherback.sim.differences import LADDER, slopes, stencil

X = stencil()


def test_smooth_functions() -> None:
    """Find slopes of smooth functions to 1e-9, flat and steep ones."""
    for k in (1e-3, 1.0, 30.0):
        found = slopes(np.stack([np.sin(k * X), np.exp(k * X), X**2, 0 * X]))
        assert np.abs(found.value - [k, k, 0, 0]).max() <= 1e-9 * max(k, 1)
        assert found.doubt.max() <= 1e-8 * max(k, 1)


@pytest.mark.parametrize("at", [0.0, 1e-9, -3e-8, 1e-6])
def test_kinks_inside_all_steps(at: float) -> None:
    """Doubt the mean of two slopes that meet inside the smallest steps."""
    found = slopes(np.maximum(0, X - at)[None])
    assert found.doubt[0] >= 0.3


@pytest.mark.parametrize("at", [1e-5, -2e-5, 3e-4])
def test_kinks_between_steps(at: float) -> None:
    """Use the steps on this side of a kink."""
    found = slopes((np.sin(X) + 5 * np.maximum(0, (X - at) * np.sign(at)))[None])
    assert abs(found.value[0] - 1) <= 1e-7
    assert found.doubt[0] <= 1e-6


def test_jumps_and_noise() -> None:
    """Doubt a jump, and differences that drown in noise."""
    print("seed 0")
    noise = 1e-6 * np.random.default_rng(0).normal(size=(100, len(X)))
    assert slopes(np.heaviside(X, 0)[None]).doubt[0] >= 1
    found = slopes(X + noise)
    assert np.all(found.doubt >= 0.3 * np.abs(found.value - 1))


def test_missing_values_are_left_out() -> None:
    """Find the slope from the values that are there."""
    values = np.sin(X)
    values[1] = values[len(LADDER) + 3] = np.nan
    with np.errstate(invalid="ignore"):
        found = slopes(values[None])
        nothing = slopes(np.full((1, len(X)), np.nan))
    assert abs(found.value[0] - 1) <= 1e-9
    assert nothing.doubt[0] == np.inf
