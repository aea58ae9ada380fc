"""Differences of configurations in the tangent space."""

from __future__ import annotations

import numpy as np

from featherback._typing import Array
from featherback.model import Model
from featherback.model.joints import joint_coordinates


def difference(model: Model, start: Array, end: Array) -> Array:
    """Return the tangent that leads from one configuration to another in unit time.

    It is the inverse of the integration of a velocity, as MuJoCo's `mj_differentiatePos`.

    Args:
        model: says which numbers are quaternions.
        start: float64[..., nq].
        end: float64[..., nq].

    Returns:
        float64[..., nv].
    """
    shape = np.broadcast_shapes(start.shape, end.shape)[:-1]
    tangent = np.empty((*shape, model.nv))
    for joint in joint_coordinates(model):
        at, to = joint.q + joint.adds, joint.v + joint.adds
        tangent[..., joint.v : to] = end[..., joint.q : at] - start[..., joint.q : at]
        if joint.turns:
            rotation = _rotation_vector(start[..., at : at + 4], end[..., at : at + 4])
            tangent[..., to : to + 3] = rotation
    return tangent


def rotation_blocks(model: Model) -> list[slice]:
    """Return the triples of velocity coordinates that are angular velocities."""
    first = (at.v + at.adds for at in joint_coordinates(model) if at.turns)
    return [slice(to, to + 3) for to in first]


def _rotation_vector(start: Array, end: Array) -> Array:
    """Return the rotation vector of conj(start) * end, in the axes of `start`."""
    a, b = _unit(start), _unit(end)
    w = np.sum(a * b, axis=-1)
    xyz = a[..., :1] * b[..., 1:] - b[..., :1] * a[..., 1:] - np.cross(a[..., 1:], b[..., 1:])
    # a quaternion and its negative are one rotation: take the shorter way
    xyz = np.where(w[..., None] < 0.0, -xyz, xyz)
    sine = np.linalg.norm(xyz, axis=-1)
    angle = 2.0 * np.arctan2(sine, np.abs(w))
    scale = np.where(sine > 1e-12, angle / np.where(sine > 1e-12, sine, 1.0), 2.0)
    return xyz * scale[..., None]


def _unit(quaternion: Array) -> Array:
    return quaternion / np.linalg.norm(quaternion, axis=-1, keepdims=True)
