"""Forward, reverse, Jacobian and second derivatives of a step in which convex shapes touch.

Gradients of every pair against differences under the hard law are in `test_every_kind.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import featherback as fb
from tests.property.kinds import Vector, pair_model, supported_pairs, touching

PAIRS = [
    pair
    for pair in supported_pairs()
    if not pair.startswith("plane")
    and {"hfield", "ellipsoid", "cylinder", "mesh"} & set(pair.split("-"))
]
LAWS: dict[str, dict[str, Any]] = {
    "hard": {"tolerance": 1e-12},
    "mujoco": {"contact": "mujoco"},
}
cases = pytest.mark.parametrize("pair", PAIRS)
laws = pytest.mark.parametrize("law", LAWS)


def scene(pair: str, law: str, tilt: float) -> tuple[fb.Simulator, Vector, Vector]:
    """Return two shapes that touch, tilted at one point or nearly flat at several."""
    model = pair_model(pair, 0.5)
    sim = fb.Simulator(model, **LAWS[law])
    q, v = touching(model, sim, tilt)
    return sim, q, v


def directions(model: fb.Model, q: Vector) -> tuple[Vector, Vector, dict[str, Vector]]:
    """Return a random direction of the state, along the manifold of rotations, and of the sizes."""
    print("seed 8")
    rng = np.random.default_rng(8)
    dq, dv = np.zeros(model.nq), rng.normal(size=model.nv)
    for start in range(0, model.nq, 7):
        dq[start : start + 3] = rng.normal(size=3)
        w, (a, b, c, d) = rng.normal(size=3), q[start + 3 : start + 7]
        rows = np.array([[-b, -c, -d], [a, -d, c], [d, a, -b], [-c, b, a]])
        dq[start + 3 : start + 7] = 0.5 * rows @ w
    sizes = {
        name: 0.1 * rng.normal(size=model.params[name].shape)
        for name in ("geom_size", "mesh_scale", "hfield_size", "geom_pos")
    }
    return dq, dv, sizes


@laws
@cases
@pytest.mark.parametrize("tilt", [1.0, 0.003])
def test_forward_mode_pairs_with_reverse_mode(pair: str, law: str, tilt: float) -> None:
    """Give the same number by jvp and by vjp, in poses, sizes and mesh scale."""
    sim, q, v = scene(pair, law, tilt)
    dq, dv, sizes = directions(sim.model, q)
    rng = np.random.default_rng(9)
    q_bar, v_bar = rng.normal(size=q.shape), rng.normal(size=v.shape)
    params = {name: sim.params[name] for name in sizes}
    q_dot, v_dot = sim.jvp(q, v, dq=dq, dv=dv, params=params, dparams=sizes)[-2:]
    grad = sim.vjp(q, v, q_bar=q_bar, v_bar=v_bar, params=params)
    terms = [grad.q @ dq, grad.v @ dv, *(np.vdot(grad.params[k], d) for k, d in sizes.items())]
    forward = q_bar @ q_dot + v_bar @ v_dot
    assert abs(forward - sum(terms)) <= 1e-9 * (1 + sum(map(abs, terms)))


@laws
@cases
def test_jacobian_has_the_columns_of_forward_mode(pair: str, law: str) -> None:
    """Give the columns of A that jvp gives."""
    sim, q, v = scene(pair, law, 1.0)
    dv = np.random.default_rng(10).normal(size=v.shape)
    A, _ = sim.linearize(q, v)
    v_dot = sim.jvp(q, v, dv=dv)[-1]
    n = len(v)
    assert np.abs(A[n:, n:] @ dv - v_dot).max() <= 1e-9 * (1 + np.abs(v_dot).max())


@cases
def test_second_derivatives_match_differences_of_the_first(pair: str) -> None:
    """Carry tangents through the reverse mode of a step that holds on to the contact."""
    model = pair_model(pair, 0.5)
    sim = fb.Simulator(model, contact="mujoco")
    q, v = touching(model, sim, 1.0)
    dq, dv, _ = directions(model, q)
    v_bar = np.random.default_rng(11).normal(size=v.shape)
    step = 1e-6

    def gradient(along: float) -> Vector:
        roll = sim.rollout(q + along * dq, v + along * dv, steps=1)
        grad = roll.vjp(v_bar=v_bar)
        return np.concatenate([grad.q, grad.v]).astype(np.float64)

    product = sim.rollout(q, v, steps=1).hessian_vector_product(
        v_bar=v_bar, direction=(dq, dv, None)
    )
    exact = np.concatenate([product.q, product.v])
    difference = (gradient(step) - gradient(-step)) / (2 * step)
    assert np.abs(exact - difference).max() <= 1e-5 * np.abs(difference).max()
