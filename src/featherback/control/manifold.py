"""Differences of configurations in the tangent space."""

from __future__ import annotations

import numpy as np

from featherback._typing import Array
from featherback.model import Model
from featherback.model.joints import BALL, FREE


def difference(model: Model, start: Array, end: Array) -> Array:
    """Return the tangent float64[..., nv] that leads from `start` to `end` in unit time.

    It is the inverse of the integration of a velocity, as MuJoCo's `mj_differentiatePos`.
    """
    shape = np.broadcast_shapes(start.shape, end.shape)[:-1]
    tangent = np.empty((*shape, model.nv))
    tables = model.mujoco
    for joint in range(model.njnt):
        kind = int(tables.jnt_type[joint])
        at, to = int(tables.jnt_qposadr[joint]), int(tables.jnt_dofadr[joint])
        if kind == FREE:
            tangent[..., to : to + 3] = end[..., at : at + 3] - start[..., at : at + 3]
            at, to = at + 3, to + 3
        if kind in (FREE, BALL):
            rotation = _rotation_vector(start[..., at : at + 4], end[..., at : at + 4])
            tangent[..., to : to + 3] = rotation
        else:
            tangent[..., to] = end[..., at] - start[..., at]
    return tangent


def rotation_blocks(model: Model) -> list[slice]:
    """Return the triples of velocity coordinates that are angular velocities."""
    tables = model.mujoco
    blocks: list[slice] = []
    for joint in range(model.njnt):
        kind, to = int(tables.jnt_type[joint]), int(tables.jnt_dofadr[joint])
        if kind == FREE:
            blocks.append(slice(to + 3, to + 6))
        elif kind == BALL:
            blocks.append(slice(to, to + 3))
    return blocks


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
