"""Starts of windows as unknowns: steps in the tangent space of the configurations."""

from __future__ import annotations

import numpy as np

from featherback._typing import Array
from featherback.model import Model
from featherback.model.joints import joint_coordinates, quaternion_columns


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
    """Return the change of q with each coordinate of the tangent space, float64[..., nv, nq].

    Args:
        model: says which numbers are quaternions.
        q: float64[..., nq], quaternions of unit length.
    """
    basis = np.zeros((*q.shape[:-1], model.nv, model.nq))
    for joint in joint_coordinates(model):
        at, to = joint.q + joint.adds, joint.v + joint.adds
        for k in range(joint.adds):
            basis[..., joint.v + k, joint.q + k] = 1.0
        if joint.turns:
            w, x, y, z = np.moveaxis(q[..., at : at + 4], -1, 0)
            # half of q times each imaginary unit
            products = ((-x, w, z, -y), (-y, -z, w, x), (-z, y, -x, w))
            for k, product in enumerate(products):
                basis[..., to + k, at : at + 4] = 0.5 * np.stack(product, axis=-1)
    return basis
