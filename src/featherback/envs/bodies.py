"""Inertias, velocities and joint forces as MuJoCo lays them out, over NumPy, torch or JAX.

All are made of what the engine tells with a gradient, poses of bodies and dynamics, so that they
have gradients too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from featherback._typing import Array as Float64
from featherback._typing import Ints
from featherback.errors import FeatherbackError
from featherback.model import Model

if TYPE_CHECKING:
    from featherback.envs.state import Array, State

FREE, BALL, SLIDE, HINGE = (
    int(getattr(mujoco.mjtJoint, f"mjJNT_{n}")) for n in ("FREE", "BALL", "SLIDE", "HINGE")
)


@dataclass(frozen=True, eq=False)
class Tree:
    """Which body hangs on which, and the joints of each.

    Attributes:
        parent: int[nbody].
        root: int[nbody], the body at the root of the tree that a body belongs to.
        joints: for each body its joints, the last first: kind, first number in q and in v, axis
            and place in the body's frame.
        membership: float64[nbody, nbody], row r has ones at the bodies of the tree with root r.
    """

    parent: Ints
    root: Ints
    joints: tuple[tuple[tuple[int, int, int, Float64, Float64], ...], ...]
    membership: Float64


@lru_cache(maxsize=32)
def tree_of(model: Model) -> Tree:
    """Return the tree of a model."""
    m = model.mujoco
    joints = tuple(
        tuple(
            (
                int(m.jnt_type[j]),
                int(m.jnt_qposadr[j]),
                int(m.jnt_dofadr[j]),
                np.array(m.jnt_axis[j]),
                np.array(m.jnt_pos[j]),
            )
            for j in reversed(range(m.body_jntadr[b], m.body_jntadr[b] + m.body_jntnum[b]))
        )
        for b in range(m.nbody)
    )
    root = np.array(m.body_rootid)
    membership = (root[None, :] == np.arange(m.nbody)[:, None]).astype(np.float64)
    return Tree(np.array(m.body_parentid), root, joints, membership)


def own(state: State, name: str) -> Array:
    """Return a parameter as the worlds have it, real[1 or worlds, ...]."""
    given = (state.params or {}).get(name)
    if given is None:
        return constant(state, state.sim.params[name])[None]
    return given if given.ndim > state.sim.params[name].ndim else given[None]


def constant(state: State, value: Any) -> Array:
    """Return numbers as an array like those of a state."""
    value = np.array(value, state.sim.dtype)
    return value if state.xp is np else state.xp.asarray(value)


def centers(state: State) -> tuple[Array, Array]:
    """Return the centres of mass of bodies and of their trees, real[worlds, nbody, 3] each."""
    place, turn = state.body_poses
    com = place + (turn * own(state, "body_ipos")[:, :, None, :]).sum(-1)
    mass = own(state, "body_mass")[:, :, None]
    tree = tree_of(state.model)
    # sums over bodies one by one, so that a world has the same bits in every batch
    moved, weight = mass * com, mass + 0.0 * com[..., :1]
    sums: dict[int, Array] = {}
    for root in sorted(set(tree.root.tolist())):
        rows = np.flatnonzero(tree.root == root).tolist()
        top = sum((moved[:, b] for b in rows[1:]), moved[:, rows[0]])
        below = sum((weight[:, b] for b in rows[1:]), weight[:, rows[0]])
        sums[root] = com[:, root] if root == 0 else top / below
    return com, state.xp.stack([sums[int(r)] for r in tree.root], 1)


def com_inertias(state: State) -> Array:
    """Return `cinert`, real[worlds, nbody, 10]: inertia about the tree's centre, moment, mass."""
    xp = state.xp
    com, middle = centers(state)
    turn = state.body_poses[1] @ _matrices(state, own(state, "body_iquat"))
    inertia = _symmetric(xp, own(state, "body_inertia"), own(state, "body_inertia_products"))
    whole = turn @ inertia @ xp.swapaxes(turn, -1, -2)
    mass = own(state, "body_mass") + 0.0 * com[..., 0]
    x, y, z = ((com - middle)[..., i] for i in range(3))
    return xp.stack(
        [
            whole[..., 0, 0] + mass * (y * y + z * z),
            whole[..., 1, 1] + mass * (x * x + z * z),
            whole[..., 2, 2] + mass * (x * x + y * y),
            whole[..., 0, 1] - mass * x * y,
            whole[..., 0, 2] - mass * x * z,
            whole[..., 1, 2] - mass * y * z,
            mass * x,
            mass * y,
            mass * z,
            mass,
        ],
        -1,
    )


def com_velocities(state: State) -> Array:
    """Return `cvel`, real[worlds, nbody, 6]: turn, and speed at the tree's centre of mass."""
    xp = state.xp
    place, turn = state.body_poses
    _, middle = centers(state)
    tree = tree_of(state.model)
    zero = 0.0 * middle[:, 0]
    spins: list[Array] = [zero]
    speeds: list[Array] = [zero]
    for body in range(1, state.model.nbody):
        # a tree starts at rest, since its parent is the world
        spin, speed = spins[tree.parent[body]], speeds[tree.parent[body]]
        # before its last joint moved it, a body lay elsewhere: go back joint by joint
        at, frame = place[:, body], turn[:, body]
        for kind, qadr, vadr, axis, offset in tree.joints[body]:
            along = _turned(frame, constant(state, axis))
            anchor = at + _turned(frame, constant(state, offset))
            reach = middle[:, body] - anchor
            rate = state.v[:, vadr : vadr + 1]
            if kind == HINGE:
                spin, speed = spin + along * rate, speed + cross(xp, along, reach) * rate
                back = _rotation(state, axis, -(state.q[:, qadr] - float(state.model.q0[qadr])))
                frame = frame @ back
                at = anchor - _turned(frame, constant(state, offset))
            elif kind == SLIDE:
                speed = speed + along * rate
                at = at - along * (state.q[:, qadr : qadr + 1] - float(state.model.q0[qadr]))
            elif kind == FREE:
                own_spin = (frame * state.v[:, None, vadr + 3 : vadr + 6]).sum(-1)
                spin = spin + own_spin
                speed = speed + state.v[:, vadr : vadr + 3] + cross(xp, own_spin, reach)
            else:
                raise FeatherbackError(
                    "com_velocities(): a ball joint is not covered; leave this term out."
                )
        spins.append(spin)
        speeds.append(speed)
    return xp.concatenate([xp.stack(spins, 1), xp.stack(speeds, 1)], -1)


def actuator_forces(state: State) -> Array:
    """Return `qfrc_actuator`, real[worlds, nv], of motors on joints under the control held."""
    m = state.model.mujoco
    joint = int(mujoco.mjtTrn.mjTRN_JOINT)
    plain = not (np.any(m.actuator_gaintype) or np.any(m.actuator_biastype))
    if not plain or np.any(m.actuator_dyntype) or np.any(m.actuator_trntype != joint):
        raise FeatherbackError(
            f'actuator_forces(): model "{state.model.name}" has actuators that are '
            "not motors on joints; leave this term out."
        )
    low, high = (constant(state, x) for x in m.actuator_ctrlrange.T)
    limited = constant(state, m.actuator_ctrllimited) > 0
    u = state.xp.where(limited, state.xp.clip(state.u, low, high), state.u)
    force = u * constant(state, m.actuator_gainprm[:, 0])
    low, high = (constant(state, x) for x in m.actuator_forcerange.T)
    limited = constant(state, m.actuator_forcelimited) > 0
    force = state.xp.where(limited, state.xp.clip(force, low, high), force)
    columns: list[Array] = [0.0 * state.v[:, 0]] * state.model.nv
    for i in range(state.model.nu):
        dof = int(m.jnt_dofadr[m.actuator_trnid[i, 0]])
        columns[dof] = columns[dof] + float(m.actuator_gear[i, 0]) * force[:, i]
    return state.xp.stack(columns, -1)


def cross(xp: Any, a: Array, b: Array) -> Array:
    """Return a x b over the last axis, of arrays with the same leading axes."""
    parts = [a[..., i] * b[..., j] - a[..., j] * b[..., i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return xp.stack(parts, -1)


def _turned(frame: Array, vector: Array) -> Array:
    """Return a vector of a body's frame in the world, real[worlds, 3]."""
    return (frame * vector).sum(-1)


def _rotation(state: State, axis: Float64, angle: Array) -> Array:
    """Return rotation matrices about a unit axis, real[worlds, 3, 3]."""
    x, y, z = (float(a) for a in axis)
    skew = constant(state, [[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    c, s = state.xp.cos(angle)[:, None, None], state.xp.sin(angle)[:, None, None]
    outer = constant(state, np.outer(axis, axis))
    return c * constant(state, np.eye(3)) + s * skew + (1.0 - c) * outer


def _matrices(state: State, quaternion: Array) -> Array:
    """Return the rotation matrices of unit quaternions (wxyz), real[..., 3, 3]."""
    w, x, y, z = (quaternion[..., i] for i in range(4))
    rows = [
        [w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z],
    ]
    return state.xp.stack([state.xp.stack(row, -1) for row in rows], -2)


def _symmetric(xp: Any, diagonal: Array, products: Array) -> Array:
    """Return symmetric matrices of (xx, yy, zz) and (xy, xz, yz)."""
    xx, yy, zz = (diagonal[..., i] for i in range(3))
    xy, xz, yz = (products[..., i] for i in range(3))
    return xp.stack([xp.stack(r, -1) for r in ([xx, xy, xz], [xy, yy, yz], [xz, yz, zz])], -2)
