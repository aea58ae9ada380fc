"""A and B of one step against dual numbers of the whole step, activation included."""

from __future__ import annotations

import numpy as np
import pytest

import featherback as fb
from featherback import _oracle
from tests.core.ops import state
from tests.core.ops_models import Case, activation, limits, pile, tree
from tests.core.references import BALL, FREE

CASES = {"activation": activation, "tree": tree, "limits": limits, "pile": pile}


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the product of two quaternions."""
    cross = a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:])
    return np.r_[a[0] * b[0] - a[1:] @ b[1:], cross]


def tangent_map(model: fb.Model, q: np.ndarray) -> np.ndarray:
    """Return dq / d(tangent) at q, float64[nq, nv]: identity, or q (0, t) / 2 on quaternions."""
    m = model.mujoco
    out = np.zeros((m.nq, m.nv))
    for j in range(m.njnt):
        qa, da, kind = int(m.jnt_qposadr[j]), int(m.jnt_dofadr[j]), m.jnt_type[j]
        flat = 3 if kind == FREE else 0 if kind == BALL else 1
        out[qa : qa + flat, da : da + flat] = np.eye(flat)
        if kind in (FREE, BALL):
            quat = q[qa + flat : qa + flat + 4]
            for i, e in enumerate(np.eye(4)[1:]):
                out[qa + flat : qa + flat + 4, da + flat + i] = product(quat, e) / 2
    return out


def exact(case: Case, x: np.ndarray) -> np.ndarray:
    """Return A and B side by side, column by column from dual numbers."""
    model, ops = case.model, case.ops
    nq, inputs = model.nq, len(x)
    into = np.zeros((inputs, inputs - nq + model.nv))
    into[:nq, : model.nv] = tangent_map(model, x[:nq])
    into[nq:, model.nv :] = np.eye(inputs - nq)
    y = ops.forward("step", x)
    columns = np.array([ops.tangent("step", x, direction) for direction in into.T]).T
    turned = np.linalg.pinv(tangent_map(model, y[:nq])) @ columns[:nq]
    return np.r_[turned, columns[nq:]]


@pytest.mark.parametrize("name", CASES)
def test_linearization_has_the_columns_of_dual_numbers(name: str) -> None:
    """Give A and B, (2 nv + na) rows, to 1e-9 of their largest entry in 20 draws."""
    case, rng = CASES[name], np.random.default_rng(0)
    print("seed 0")
    model = case.model
    n = 2 * model.nv + model.na
    for _ in range(20):
        x = state(model, rng, model.na + model.nu)
        found = np.asarray(_oracle.linearize(*case.arrays, x))
        expected = exact(case, x)
        assert found.shape == expected.shape == (n, n + model.nu)
        assert np.abs(found - expected).max() <= 1e-9 * np.abs(expected).max()
