"""Velocities of bodies in NumPy alone, in few calls: the numbers of `bodies.com_velocities`.

A vector is an array real[5, worlds] with the rows x, y, z, x, y, so that a cross product is one
difference of two products of slices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from featherback._typing import Real

if TYPE_CHECKING:
    from featherback.envs.bodies import Tree
    from featherback.envs.state import State

ROWS = (0, 1, 2, 0, 1)
# a joint of a body: its layer in the tree, and its place there
Joint = tuple[Any, int]


def body_velocities(state: State, tree: Tree) -> Real:
    """Return `cvel`, real[worlds, nbody, 6], as `bodies.com_velocities` does."""
    place, turn = state.split_poses
    worlds, bodies = state.q.shape[0], state.model.nbody
    out = np.zeros((6, bodies, worlds), state.sim.dtype)
    joints: list[list[Joint]] = [[] for _ in range(bodies)]
    for layer in tree.layers:
        for k, body in enumerate(layer.bodies):
            joints[body].append((layer, k))
    place, middle = _five(place), _five(state.centers[1])
    columns = [_five([row[j] for row in turn]) for j in range(3)]
    for body in range(1, bodies):
        if joints[body]:
            frame = [column[:, body] for column in columns]
            _add_joints(state, joints[body], (place[:, body], frame, middle[:, body]), out[:, body])
        if tree.parent[body]:
            out[:, body] = out[:, tree.parent[body]] + out[:, body]
    return np.ascontiguousarray(out.transpose(2, 1, 0))


def _five(vector: list[Real]) -> Real:
    """Return the numbers of all bodies, real[5, bodies, worlds]."""
    out = np.empty((5, *vector[0].T.shape), vector[0].dtype)
    for i, k in enumerate(ROWS):
        out[i] = vector[k].T
    return out


def _add_joints(state: State, joints: list[Joint], pose: tuple[Any, Any, Any], out: Real) -> None:
    """Add what the joints of a body add, the last of them first; each is undone in turn."""
    at, frame, center = pose
    for layer, k in joints:
        axis, offset = layer.axis[k], layer.offset[k]
        anchor = at
        if np.any(offset):
            anchor = at + _mix(frame, offset)
        reach, dof = center - anchor, layer.v[k]
        if layer.kind == "FREE":
            spin = _mix(frame, [state.v[:, dof + 3 + i] for i in range(3)])
            out[:3] += spin[:3]
            out[3:] += state.v[:, dof : dof + 3].T + _cross(spin, reach)
            continue
        along, rate = _mix(frame, axis), state.v[:, dof]
        moved = state.q[:, layer.q[k]] - state.sim.dtype.type(layer.rest[k])
        if layer.kind == "SLIDE":
            out[3:] += rate * along[:3]
            at = at - moved * along
            continue
        spin = rate * along
        out[:3] += spin[:3]
        out[3:] += _cross(spin, reach)
        if k not in layer.inner:
            continue
        frame = _turned(frame, axis, -moved)
        at = anchor - _mix(frame, offset) if np.any(offset) else anchor


def _cross(a: Real, b: Real) -> Real:
    """Return a x b, real[3, worlds]."""
    return a[1:4] * b[2:5] - a[2:5] * b[1:4]


def _mix(columns: list[Real], weights: Any) -> Real:
    """Return the sum of columns times weights; a number that is zero or one is no product."""
    out: Any = None
    for x, weight in zip(columns, weights, strict=True):
        term = x
        if isinstance(weight, np.ndarray):
            term = x * weight
        elif weight == 0.0:
            continue
        elif weight != 1.0:
            term = x * x.dtype.type(weight)
        out = term if out is None else out + term
    return out


def _turned(frame: list[Real], axis: Real, angle: Real) -> list[Real]:
    """Return the columns of a frame that is turned about an axis in it, as `_about` writes it."""
    one = frame[0].dtype.type
    a = [one(x) for x in axis]
    c, s = np.cos(angle), np.sin(angle)
    d = 1.0 - c
    out: list[Real] = []
    for j in range(3):
        weights: list[Any] = [0.0, 0.0, 0.0]
        for i in range(3):
            k = 3 - i - j
            both = d * a[i] * a[j] if axis[i] and axis[j] else None
            if i == j:
                weights[i] = c if both is None else c + both
            elif axis[k] and (i + 1) % 3 == j:
                weights[i] = -(s * a[k]) if both is None else both - s * a[k]
            elif axis[k]:
                weights[i] = s * a[k] if both is None else both + s * a[k]
            elif both is not None:
                weights[i] = both
        out.append(_mix(frame, weights))
    return out
