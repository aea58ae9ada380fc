"""The same twelve checks for every op of the table, and a table that knows every adjoint."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.core import ops as table
from tests.core.ops import TESTED_ELSEWHERE, OpRow
from tests.core.ops_forces import FORCE_ROWS
from tests.core.ops_models import pile
from tests.core.ops_rims import RIM_ROWS
from tests.core.ops_soft import SOFT_ROWS

ROWS = [*table.ROWS, *SOFT_ROWS, *FORCE_ROWS, *RIM_ROWS]
CORE = Path(__file__).parents[2] / "core"
rows = pytest.mark.parametrize("row", ROWS, ids=[r.label for r in ROWS])
nightly = pytest.param(10_000, marks=pytest.mark.slow)


def rng_of(row: OpRow) -> np.random.Generator:
    """Return the generator of a row and print its seed."""
    seed = sum(map(ord, row.label))
    print(f"seed {seed}")
    return np.random.default_rng(seed)


def differentiable(row: OpRow, inputs: int) -> np.ndarray:
    """Return 1 for each input that has a gradient, 0 elsewhere."""
    return row.differentiable() if row.differentiable else np.ones(inputs)


def pairing_error(
    row: OpRow, ops: Any, x: np.ndarray, rng: np.random.Generator
) -> tuple[float, float]:
    """Return |<y_bar, J x_tan> - <J' y_bar, x_tan>| / sum of |terms|, and that sum."""
    name = row.name
    inputs, outputs = ops.sizes(name)
    x_tan = rng.normal(size=inputs) * differentiable(row, inputs)
    y_bar = rng.normal(size=outputs)
    y_tan = ops.tangent(name, x, x_tan)
    x_bar = ops.adjoint(name, x, y_bar, np.zeros(inputs))
    scale = np.abs(y_bar * y_tan).sum() + np.abs(x_bar * x_tan).sum()
    return abs(y_bar @ y_tan - x_bar @ x_tan) / max(scale, 1e-300), scale


@rows
@pytest.mark.parametrize("draws", [5, pytest.param(50, marks=pytest.mark.slow)])
def test_forward_matches_its_reference(row: OpRow, draws: int) -> None:
    """Give the value of the reference (check 1)."""
    rng, ops = rng_of(row), row.ops()
    for _ in range(draws):
        x = row.sample(rng)
        y = ops.forward(row.name, x)
        assert np.abs(y - row.reference(x)).max() <= row.value * np.abs(y).max()


@rows
@pytest.mark.parametrize("draws", [1000, nightly])
def test_pairs_with_dual_numbers(row: OpRow, draws: int) -> None:
    """Agree with the tangent of the same template within the row's bound (check 2)."""
    rng, ops = rng_of(row), row.ops()
    # numpy's maximum is that of a NaN too
    errors = np.array([pairing_error(row, ops, row.sample(rng), rng) for _ in range(draws)])
    assert errors[:, 0].max() <= row.pairing
    assert errors[:, 1].min() > 0


@rows
def test_jacobian_matches_differences(row: OpRow) -> None:
    """Match differences of fourth order entry by entry, relative to each column (check 3)."""
    rng, ops = rng_of(row), row.ops()
    inputs, outputs = ops.sizes(row.name)
    x = row.sample(rng)
    rows_ = [ops.adjoint(row.name, x, e, np.zeros(inputs)) for e in np.eye(outputs)]
    jacobian = np.array(rows_)
    worst = []
    # large inputs are checked on a sample of their columns
    for i in rng.permutation(np.flatnonzero(differentiable(row, inputs)))[:150]:
        h = row.stencil * max(1.0, abs(x[i]))

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
def test_jacobian_is_that_of_dual_numbers(row: OpRow) -> None:
    """Have the entries of dual numbers, and be zero in no column where they are not (check 4)."""
    rng, ops = rng_of(row), row.ops()
    inputs, outputs = ops.sizes(row.name)
    found = total = 0
    for _ in range(3):
        x = row.sample(rng)
        picked = rng.permutation(np.flatnonzero(differentiable(row, inputs)))[:200]
        exact = np.array([ops.tangent(row.name, x, e) for e in np.eye(inputs)[picked]]).T
        bars = [ops.adjoint(row.name, x, e, np.zeros(inputs)) for e in np.eye(outputs)]
        jacobian = np.array(bars)[:, picked]
        column = np.abs(exact).max(axis=0)
        some = column > 1e-12 * column.max()
        error = np.abs(jacobian - exact).max(axis=0)
        assert np.all(error <= 1e-9 * column + row.pairing * column.max())
        assert np.all(np.abs(jacobian).max(axis=0)[some] > 0)
        found, total = found + int(some.sum()), total + len(picked)
    assert found >= total // 6


@rows
@pytest.mark.parametrize("edge", [False, True], ids=["ordinary", "edge"])
def test_cotangent_algebra(row: OpRow, edge: bool) -> None:
    """Add exactly nothing for zero (5), be linear (6), and add, never overwrite (7)."""
    rng, ops = rng_of(row), row.ops()
    inputs, outputs = ops.sizes(row.name)
    for _ in range(5):
        x, zero = (row.edge if edge else row.sample)(rng), np.zeros(inputs)
        a, b, base = rng.normal(size=outputs), rng.normal(size=outputs), rng.normal(size=inputs)
        one, two = (ops.adjoint(row.name, x, c, zero) for c in (a, b))
        both = ops.adjoint(row.name, x, a + 2 * b, zero)
        size = np.abs(one).max() + np.abs(two).max()
        np.testing.assert_allclose(both, one + 2 * two, atol=max(1e-11, row.pairing) * size, rtol=0)
        np.testing.assert_array_equal(ops.adjoint(row.name, x, np.zeros(outputs), base), base)
        added = ops.adjoint(row.name, x, a, base)
        np.testing.assert_allclose(added, base + one, atol=1e-13 * (size + 1), rtol=0)


@rows
def test_repeats_and_leaves_inputs_alone(row: OpRow) -> None:
    """Change no input (check 8) and give the same bits twice (check 9)."""
    rng, ops = rng_of(row), row.ops()
    inputs, outputs = ops.sizes(row.name)
    for x in (row.sample(rng), row.edge(rng)):
        y_bar = rng.normal(size=outputs)
        kept_x, kept_bar = x.copy(), y_bar.copy()
        first = ops.adjoint(row.name, x, y_bar, np.zeros(inputs))
        np.testing.assert_array_equal(ops.forward(row.name, x), ops.forward(row.name, x))
        np.testing.assert_array_equal(first, ops.adjoint(row.name, x, y_bar, np.zeros(inputs)))
        np.testing.assert_array_equal(x, kept_x)
        np.testing.assert_array_equal(y_bar, kept_bar)


@rows
def test_lanes_equal_scalar_bits(row: OpRow) -> None:
    """Give in each lane the bits of the scalar run, forward and adjoint (check 10)."""
    rng, ops = rng_of(row), row.ops()
    inputs, outputs = ops.sizes(row.name)
    for _ in range(10):
        x = [row.sample(rng) for _ in range(3)] + [row.edge(rng)]
        y_bar = rng.normal(size=(len(x), outputs))
        lanes = ops.forward_lanes(row.name, np.concatenate(x))
        bars = ops.adjoint_lanes(row.name, np.concatenate(x), y_bar.reshape(-1))
        for k, one in enumerate(x):
            np.testing.assert_array_equal(lanes[k] + 0.0, ops.forward(row.name, one) + 0.0)
            alone = ops.adjoint(row.name, one, y_bar[k], np.zeros(inputs))
            np.testing.assert_array_equal(bars[k] + 0.0, alone + 0.0)


@rows
@pytest.mark.parametrize("draws", [50, nightly])
def test_edges_are_finite(row: OpRow, draws: int) -> None:
    """Stay finite, forward and adjoint, at the edges of the domain (check 11)."""
    rng, ops = rng_of(row), row.ops()
    inputs, outputs = ops.sizes(row.name)
    for _ in range(draws):
        x, y_bar = row.edge(rng), rng.normal(size=outputs)
        assert np.all(np.isfinite(ops.forward(row.name, x)))
        assert np.all(np.isfinite(ops.adjoint(row.name, x, y_bar, np.zeros(inputs))))


@rows
def test_float32_is_close(row: OpRow) -> None:
    """Stay near the double run in float32 in the median draw, forward and adjoint (check 12)."""
    rng, ops = rng_of(row), row.ops()
    outputs = ops.sizes(row.name)[1]
    errors = []
    for _ in range(20):
        x = row.sample(rng).astype(np.float32).astype(np.float64)
        y, y32 = ops.forward(row.name, x), ops.forward_float(row.name, x)
        y_bar = rng.normal(size=outputs).astype(np.float32).astype(np.float64)
        bar = ops.adjoint(row.name, x, y_bar, np.zeros(len(x)))
        bar32 = ops.adjoint_float(row.name, x, y_bar)
        pairs = (y, y32), (bar, bar32)
        errors.append(np.max([np.abs(a - b).max() / np.abs(a).max() for a, b in pairs]))
    assert np.median(errors) <= row.float_tolerance


def unregistered(core: Path) -> set[str]:
    """Return the `foo` of each `foo_adjoint` in a folder of headers that no test claims."""
    written: set[str] = set()
    for header in core.rglob("*.hpp"):
        written |= set(re.findall(r"\b(\w+)_adjoint\s*\(", header.read_text()))
    known = {name for row in ROWS for name in row.ops().adjoint_of(row.name).split()}
    return written - known - set(TESTED_ELSEWHERE)


def test_every_adjoint_is_registered(tmp_path: Path) -> None:
    """Find each `foo_adjoint` of core/ in the op table; an unregistered one fails."""
    assert unregistered(CORE) == set()
    (tmp_path / "new.hpp").write_text("template <class T>\nFB_FN void foo_adjoint(T x);\n")
    assert unregistered(tmp_path) == {"foo"}


def test_every_op_has_a_row() -> None:
    """Find each op of the extension in the table."""
    named = {row.name for row in ROWS}
    assert set(_names()) - named == set()


def _names() -> list[str]:
    """Return the names of all ops, those without a model and those of one."""
    return [*ROWS[0].ops().names(), *pile.ops.names()]


def test_equal_frictions_share_their_gradient() -> None:
    """Split the cotangent of a maximum equally where two geoms tie, as docs/gradients.md says."""
    ops, params = pile.ops, pile.params
    at = dict(zip(params, np.cumsum([0, *(p.size for p in params.values())])[:-1], strict=True))
    x = np.concatenate([p.reshape(-1) for p in params.values()])
    geoms = params["geom_restitution"].size
    x[at["geom_restitution"] : at["geom_restitution"] + geoms] = 0.3
    inputs, outputs = ops.sizes("derive")
    moved = x.copy()
    moved[at["geom_restitution"] : at["geom_restitution"] + geoms] = 0.4
    pairs = np.flatnonzero(np.isclose(ops.forward("derive", moved) - ops.forward("derive", x), 0.1))
    bar = np.zeros(outputs)
    bar[pairs[0]] = 1.0
    shares = ops.adjoint("derive", x, bar, np.zeros(inputs))
    assert sorted(shares[shares != 0]) == [0.5, 0.5]
