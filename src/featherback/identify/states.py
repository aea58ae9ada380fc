"""Starts of windows as unknowns: steps in the tangent space of the configurations."""

from __future__ import annotations

import numpy as np

from featherback._typing import Array
from featherback.model import Model
from featherback.model.joints import BALL, FREE


def quaternion_columns(model: Model) -> list[int]:
    """Return the first columns of the quaternions in q."""
    tables = model.mujoco
    columns: list[int] = []
    for joint in range(model.njnt):
        kind, at = int(tables.jnt_type[joint]), int(tables.jnt_qposadr[joint])
        if kind in (FREE, BALL):
            columns.append(at + 3 if kind == FREE else at)
    return columns


def normalized(model: Model, q: Array) -> Array:
    """Return configurations whose quaternions have unit length."""
    out = q.copy()
    for at in quaternion_columns(model):
        quaternion = out[..., at : at + 4]
        quaternion /= np.linalg.norm(quaternion, axis=-1, keepdims=True)
    return out


def same_side(model: Model, q: Array, like: Array) -> Array:
    """Return q with its quaternions on the side of those of `like`: q and -q are one rotation."""
    out = q.copy()
    for at in quaternion_columns(model):
        quaternion = out[..., at : at + 4]
        away = np.sum(quaternion * like[..., at : at + 4], axis=-1, keepdims=True) < 0.0
        quaternion *= np.where(away, -1.0, 1.0)
    return out


def tangent_basis(model: Model, q: Array) -> Array:
    """Return the change of q, its quaternions of unit length, with each tangent coordinate."""
    basis = np.zeros((*q.shape[:-1], model.nv, model.nq))
    tables = model.mujoco
    for joint in range(model.njnt):
        kind = int(tables.jnt_type[joint])
        at, to = int(tables.jnt_qposadr[joint]), int(tables.jnt_dofadr[joint])
        if kind == FREE:
            for k in range(3):
                basis[..., to + k, at + k] = 1.0
            at, to = at + 3, to + 3
        if kind in (FREE, BALL):
            w, x, y, z = np.moveaxis(q[..., at : at + 4], -1, 0)
            # half of q times each imaginary unit
            products = ((-x, w, z, -y), (-y, -z, w, x), (-z, y, -x, w))
            for k, product in enumerate(products):
                basis[..., to + k, at : at + 4] = 0.5 * np.stack(product, axis=-1)
        else:
            basis[..., to, at] = 1.0
    return basis
