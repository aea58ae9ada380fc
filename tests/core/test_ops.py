"""The same checks for every op of the table, and a table that knows every adjoint of the core."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.core.ops import ROWS, TESTED_ELSEWHERE, OpRow

CORE = Path(__file__).parents[2] / "core"
DRAWS = 200
rows = pytest.mark.parametrize("row", ROWS, ids=[r.label for r in ROWS])


def rng_of(row: OpRow) -> np.random.Generator:
    """Return the generator of a row and print its seed."""
    seed = sum(map(ord, row.label))
    print(f"seed {seed}")
    return np.random.default_rng(seed)


def tangent_of(row: OpRow, inputs: int, rng: np.random.Generator) -> np.ndarray:
    """Draw a direction in the inputs that have a gradient."""
    return rng.normal(size=inputs) * (row.differentiable() if row.differentiable else 1.0)


def pairing_error(row: OpRow, ops, x, rng) -> tuple[float, float]:
    """Return |<y_bar, J x_tan> - <J' y_bar, x_tan>| / sum of |terms|, and that sum."""
    name = row.name
    inputs, outputs = ops.sizes(name)
    x_tan, y_bar = tangent_of(row, inputs, rng), rng.normal(size=outputs)
    y_tan = ops.tangent(name, x, x_tan)
    x_bar = ops.adjoint(name, x, y_bar, np.zeros(inputs))
    scale = np.abs(y_bar * y_tan).sum() + np.abs(x_bar * x_tan).sum()
    return abs(y_bar @ y_tan - x_bar @ x_tan) / max(scale, 1e-300), scale


@rows
def test_pairs_with_dual_numbers(row: OpRow) -> None:
    """Agree with the tangent of the same template within the row's bound, never all zero."""
    rng, ops = rng_of(row), row.ops()
    errors = [pairing_error(row, ops, row.sample(rng), rng) for _ in range(DRAWS)]
    assert max(e for e, _ in errors) <= row.pairing
    assert min(scale for _, scale in errors) > 0


@rows
def test_jacobian_matches_differences(row: OpRow) -> None:
    """Match differences of fourth order entry by entry, relative to each column's largest entry."""
    rng, ops = rng_of(row), row.ops()
    inputs, outputs = ops.sizes(row.name)
    x = row.sample(rng)
    rows_ = [ops.adjoint(row.name, x, e, np.zeros(inputs)) for e in np.eye(outputs)]
    jacobian = np.array(rows_)
    worst = []
    has = row.differentiable() if row.differentiable else np.ones(inputs)
    # large inputs are checked on a sample of their columns
    for i in rng.permutation(np.flatnonzero(has))[:150]:
        h = 1e-5 * max(1.0, abs(x[i]))

        def at(k: float, i: int = i, h: float = h) -> np.ndarray:
            moved = x.copy()
            moved[i] += k * h
            return ops.forward(row.name, moved)

        slope = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h)
        size = np.abs(jacobian[:, i]).max()
        worst.append(np.abs(slope - jacobian[:, i]).max() / max(size, 1e-3))
    # a draw may sit within the stencil of a switch in a few directions; most must agree
    assert np.quantile(worst, 0.9) <= 1e-5


@rows
def test_cotangent_algebra(row: OpRow) -> None:
    """Be linear in the cotangent, add exactly nothing for zero, and add rather than overwrite."""
    rng, ops = rng_of(row), row.ops()
    inputs, outputs = ops.sizes(row.name)
    x, zero = row.sample(rng), np.zeros(inputs)
    a, b, base = rng.normal(size=outputs), rng.normal(size=outputs), rng.normal(size=inputs)
    one, two = (ops.adjoint(row.name, x, c, zero) for c in (a, b))
    both = ops.adjoint(row.name, x, a + 2 * b, zero)
    size = np.abs(one).max() + np.abs(two).max()
    np.testing.assert_allclose(both, one + 2 * two, atol=1e-11 * size, rtol=0)
    np.testing.assert_array_equal(ops.adjoint(row.name, x, np.zeros(outputs), base), base)
    added = ops.adjoint(row.name, x, a, base)
    np.testing.assert_allclose(added, base + one, atol=1e-13 * (size + 1), rtol=0)


@rows
def test_repeats_and_leaves_inputs_alone(row: OpRow) -> None:
    """Give the same bits twice and change no input."""
    rng, ops = rng_of(row), row.ops()
    inputs, outputs = ops.sizes(row.name)
    x, y_bar = row.sample(rng), rng.normal(size=outputs)
    kept_x, kept_bar = x.copy(), y_bar.copy()
    first = ops.adjoint(row.name, x, y_bar, np.zeros(inputs))
    np.testing.assert_array_equal(ops.forward(row.name, x), ops.forward(row.name, x))
    np.testing.assert_array_equal(first, ops.adjoint(row.name, x, y_bar, np.zeros(inputs)))
    np.testing.assert_array_equal(x, kept_x)
    np.testing.assert_array_equal(y_bar, kept_bar)


@rows
def test_lanes_equal_scalar_bits(row: OpRow) -> None:
    """Give in each lane the bits of the scalar run."""
    rng, ops = rng_of(row), row.ops()
    for _ in range(10):
        x = [row.sample(rng) for _ in range(3)] + [row.edge(rng)]
        lanes = ops.forward_lanes(row.name, np.concatenate(x))
        for k, one in enumerate(x):
            np.testing.assert_array_equal(lanes[k] + 0.0, ops.forward(row.name, one) + 0.0)


@rows
def test_edges_are_finite(row: OpRow) -> None:
    """Stay finite, forward and adjoint, at the edges of the domain."""
    rng, ops = rng_of(row), row.ops()
    inputs, outputs = ops.sizes(row.name)
    for _ in range(50):
        x = row.edge(rng)
        assert np.all(np.isfinite(ops.forward(row.name, x)))
        assert np.all(
            np.isfinite(ops.adjoint(row.name, x, rng.normal(size=outputs), np.zeros(inputs)))
        )


@rows
def test_float32_is_close(row: OpRow) -> None:
    """Stay near the double run in float32, forward and adjoint, in the median draw."""
    rng, ops = rng_of(row), row.ops()
    outputs = ops.sizes(row.name)[1]
    errors = []
    for _ in range(20):
        x = row.sample(rng).astype(np.float32).astype(np.float64)
        y, y32 = ops.forward(row.name, x), ops.forward_float(row.name, x)
        y_bar = rng.normal(size=outputs).astype(np.float32).astype(np.float64)
        bar = ops.adjoint(row.name, x, y_bar, np.zeros(len(x)))
        bar32 = ops.adjoint_float(row.name, x, y_bar)
        errors.append(
            max(
                np.abs(y - y32).max() / np.abs(y).max(),
                np.abs(bar - bar32).max() / np.abs(bar).max(),
            )
        )
    assert np.median(errors) <= row.float_tolerance


@pytest.mark.parametrize("row", [r for r in ROWS if r.reference], ids=lambda r: r.label)
def test_forward_matches_its_reference(row: OpRow) -> None:
    """Give the value of the closed form."""
    rng, ops = rng_of(row), row.ops()
    assert row.reference is not None
    for _ in range(DRAWS):
        x = row.sample(rng)
        np.testing.assert_allclose(ops.forward(row.name, x), row.reference(x), rtol=1e-14)


def test_every_adjoint_is_registered() -> None:
    """Find each `foo_adjoint` of core/ in the op table; an unregistered one fails the build."""
    written: set[str] = set()
    for header in CORE.glob("*.hpp"):
        written |= set(re.findall(r"\b(\w+)_adjoint\s*\(", header.read_text()))
    known = {name for row in ROWS for name in row.ops().adjoint_of(row.name).split()}
    assert written - known - set(TESTED_ELSEWHERE) == set()
