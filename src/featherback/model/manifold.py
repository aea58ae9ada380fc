"""Configurations as a manifold: where quaternions lie, differences, and steps in tangent spaces."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from featherback._typing import Array
from featherback.model.joints import joint_coordinates
from featherback.model.model import Model


def quaternions(model: Model) -> list[tuple[int, int]]:
    """Return the columns of q and v at which a quaternion and its angular velocity start."""
    return [(at.q + at.adds, at.v + at.adds) for at in joint_coordinates(model) if at.turns]


def _others(model: Model) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the columns of q and v that are no rotation; one belongs to the other."""
    found = quaternions(model)
    four = [at + k for at, _ in found for k in range(4)]
    three = [to + k for _, to in found for k in range(3)]
    return np.delete(np.arange(model.nq), four), np.delete(np.arange(model.nv), three)


def normalized(model: Model, q: Array) -> Array:
    """Return configurations whose quaternions have unit length."""
    out = q.copy()
    for at, _ in quaternions(model):
        quaternion = out[..., at : at + 4]
        quaternion /= np.linalg.norm(quaternion, axis=-1, keepdims=True)
    return out


def same_side(model: Model, q: Array, like: Array) -> Array:
    """Return q with its quaternions on the side of those of `like`: q and -q are one rotation."""
    out = q.copy()
    for at, _ in quaternions(model):
        quaternion = out[..., at : at + 4]
        away = np.sum(quaternion * like[..., at : at + 4], axis=-1, keepdims=True) < 0.0
        quaternion *= np.where(away, -1.0, 1.0)
    return out


def tangent_basis(model: Model, q: Array) -> Array:
    """Return the change of q with each tangent coordinate, float64[..., nv, nq].

    Quaternions of q have unit length.
    """
    basis = np.zeros((*q.shape[:-1], model.nv, model.nq))
    columns, coordinates = _others(model)
    basis[..., coordinates, columns] = 1.0
    for at, to in quaternions(model):
        w, x, y, z = np.moveaxis(q[..., at : at + 4], -1, 0)
        # half of q times each imaginary unit
        for k, product in enumerate(((-x, w, z, -y), (-y, -z, w, x), (-z, y, -x, w))):
            basis[..., to + k, at : at + 4] = 0.5 * np.stack(product, axis=-1)
    return basis


def difference(model: Model, start: Array, end: Array) -> Array:
    """Return the tangent float64[..., nv] that leads from `start` to `end` in unit time.

    It is the inverse of the integration of a velocity, as MuJoCo's `mj_differentiatePos`.
    """
    shape = np.broadcast_shapes(start.shape, end.shape)[:-1]
    tangent = np.empty((*shape, model.nv))
    columns, coordinates = _others(model)
    tangent[..., coordinates] = end[..., columns] - start[..., columns]
    for at, to in quaternions(model):
        four = slice(at, at + 4)
        tangent[..., to : to + 3] = _rotation_vector(start[..., four], end[..., four])
    return tangent


def _rotation_vector(start: Array, end: Array) -> Array:
    """Return the rotation vector of conj(start) * end, in the axes of `start`."""
    a, b = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (start, end))
    w = np.sum(a * b, axis=-1)
    xyz = a[..., :1] * b[..., 1:] - b[..., :1] * a[..., 1:] - np.cross(a[..., 1:], b[..., 1:])
    # a quaternion and its negative are one rotation: take the shorter way
    xyz = np.where(w[..., None] < 0.0, -xyz, xyz)
    sine = np.linalg.norm(xyz, axis=-1)
    angle = 2.0 * np.arctan2(sine, np.abs(w))
    scale = np.where(sine > 1e-12, angle / np.where(sine > 1e-12, sine, 1.0), 2.0)
    return xyz * scale[..., None]
