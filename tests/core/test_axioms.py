"""Axioms of rotations, of spatial algebra and of the manifold of configurations.

Hypothesis draws the numbers, zeros and tiny ones among them, and makes a failing example smaller.
Each law is one that holds whatever the conventions are, so no reference is needed.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from featherback.model.manifold import difference
from tests.core.ops_models import pure, tree

Vector = NDArray[np.float64]

ROUNDING = 1e-14
IDENTITY = np.array([1.0, 0.0, 0.0, 0.0])


def vectors(size: int, largest: float = 10.0) -> st.SearchStrategy[Vector]:
    """Draw vectors whose entries are at most so large."""
    return arrays(np.float64, size, elements=st.floats(-largest, largest))


def longer(x: Vector) -> bool:
    """Tell whether a vector has a direction that rounding leaves alone."""
    return bool(np.linalg.norm(x) > 1e-3)


quaternions = vectors(4, 2.0).filter(longer).map(lambda x: x / np.linalg.norm(x))
directions = vectors(3).filter(longer)
# mass, first moment and moments of inertia about the origin; the laws below ask for a mass only
inertias = st.builds(lambda m, x: np.r_[m, x], st.floats(1, 10), vectors(9))


def product(p: Vector, q: Vector) -> Vector:
    """Return the product of two quaternions."""
    w = p[0] * q[0] - p[1:] @ q[1:]
    return np.r_[w, p[0] * q[1:] + q[0] * p[1:] + np.cross(p[1:], q[1:])]


def rotation(q: Vector) -> Vector:
    """Return the rotation matrix of a quaternion."""
    return pure().forward("rotation_of", q).reshape(3, 3)


def integrate(q: Vector, w: Vector, h: float) -> Vector:
    """Return q after turning at the angular velocity w for the time h."""
    return pure().forward("integrate_quat", np.r_[q, w, h])


def close(a: Vector, b: Vector, scale: float = 1.0) -> bool:
    """Tell whether two vectors differ by rounding only."""
    return bool(np.abs(a - b).max() <= ROUNDING * max(scale, 1.0))


@given(quaternions, quaternions)
def test_rotations_are_a_group(p: Vector, q: Vector) -> None:
    """Multiply as quaternions do, keep lengths and handedness, and not see a quaternion's sign."""
    R = rotation(q)
    assert close(R @ R.T, np.eye(3))
    assert close(np.cross(R[:, 0], R[:, 1]), R[:, 2])
    assert close(rotation(product(p, q)), rotation(p) @ R, 4.0)
    assert np.array_equal(rotation(-q), R)


@given(quaternions, vectors(3), st.floats(-1, 1), st.floats(-1, 1))
def test_integration_is_a_flow(q: Vector, w: Vector, s: float, t: float) -> None:
    """Stay where nothing turns, add up times, come back, and turn after what was turned before."""
    assert close(integrate(q, np.zeros(3), s), q)
    assert close(integrate(q, w, 0.0), q)
    assert abs(np.linalg.norm(integrate(q, w, s)) - 1) <= ROUNDING
    # angles of up to 20 rad are known to their rounding
    assert close(integrate(integrate(q, w, s), w, t), integrate(q, w, s + t), 20.0)
    assert close(integrate(integrate(q, w, s), -w, s), q, 20.0)
    assert close(integrate(q, w, s), product(q, integrate(IDENTITY, w, s)), 4.0)


@given(vectors(3, 1.8))
def test_logarithm_undoes_integration(w: Vector) -> None:
    """Return the rotation vector of less than half a turn, and its negative for the inverse."""
    if np.linalg.norm(w) > 3.1:
        w = w * (3.1 / np.linalg.norm(w))
    q = integrate(IDENTITY, w, 1.0)
    # near half a turn the scalar part, from which the angle is read, is small
    assert close(pure().forward("log_right", q), w, 100.0)
    inverse = pure().forward("log_right", q * [1, -1, -1, -1])
    assert close(inverse, -pure().forward("log_right", q), 10.0)


@given(directions, st.floats(0.1, 10))
def test_frames_are_rotations(axis: Vector, scale: float) -> None:
    """Complete an axis or a normal to a right-handed frame that its length does not change."""
    n = axis / np.linalg.norm(axis)
    frame = pure().forward("axis_frame", axis).reshape(3, 3)
    assert close(frame @ frame.T, np.eye(3))
    assert close(np.cross(frame[:, 0], frame[:, 1]), frame[:, 2])
    assert close(frame[:, 2], n)
    assert close(pure().forward("axis_frame", scale * axis).reshape(3, 3), frame, 100.0)
    t1, t2 = pure().forward("tangents", n).reshape(2, 3)
    contact = np.stack([n, t1, t2])
    assert close(contact @ contact.T, np.eye(3), 10.0)
    assert close(np.cross(n, t1), t2)


@given(inertias, inertias, vectors(6), vectors(6), vectors(6))
def test_forces_of_bodies(first: Vector, second: Vector, v: Vector, a: Vector, b: Vector) -> None:
    """Add up bodies and accelerations; gyroscopic forces do no work and are even in v."""

    def force(inertia: Vector, v: Vector, a: Vector) -> Vector:
        return pure().forward("newton_euler", np.r_[inertia, v, a])

    scale = float(
        (1 + np.abs(np.r_[first, second]).max()) * (1 + np.abs(np.r_[v, a, b]).max()) ** 2
    )
    rest = np.zeros(6)
    assert close(force(first + second, v, a), force(first, v, a) + force(second, v, a), 20 * scale)
    assert close(force(first, v, a + b), force(first, v, a) + force(first, rest, b), 20 * scale)
    bias = force(first, v, rest)
    assert np.array_equal(force(first, -v, rest), bias)
    assert abs(bias @ v) <= 20 * ROUNDING * scale * (1 + np.abs(v).max())
    # the inertia is symmetric: the work of one acceleration along another
    assert abs(force(first, rest, a) @ b - force(first, rest, b) @ a) <= 20 * ROUNDING * scale


# velocities of one time step, by which no rotation reaches half a turn
moves = st.deferred(lambda: vectors(tree.model.nv, 1.7))


@given(moves, moves)
def test_difference_undoes_integration(first: Vector, v: Vector) -> None:
    """Lead from a configuration to one that integration reached, and back, on every joint type."""
    model, dt = tree.model, tree.sim.dt

    def integrate(q: Vector, move: Vector) -> Vector:
        return tree.ops.forward("integrate", np.r_[q, move / dt])

    q = integrate(model.q0, first)
    moved = integrate(q, v)
    assert close(integrate(q, 0 * v), q)
    assert close(integrate(moved, -v), q, 10.0)
    assert close(difference(model, q, moved), v, 100.0)
