"""Inertias, velocities and joint forces as MuJoCo lays them out, over NumPy, torch or JAX.

All are made of what the engine tells with a gradient, poses of bodies and dynamics, so that they
have gradients too. A vector is a list of three arrays real[worlds, bodies] and a matrix a list of
three rows, since numbers that lie side by side are summed quickly; sums over bodies are taken one
by one, so that a world has the same bits in every batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from featherback._typing import Array as Float64
from featherback.envs.body_velocities import body_velocities
from featherback.errors import FeatherbackError
from featherback.model import Model

if TYPE_CHECKING:
    from featherback.envs.state import Array, State

Vector = list[Any]
Matrix = list[list[Any]]

KINDS = {int(getattr(mujoco.mjtJoint, f"mjJNT_{n}")): n for n in ("FREE", "BALL", "SLIDE", "HINGE")}


@dataclass(frozen=True, eq=False)
class Layer:
    """The joints that are the k-th from the last of their body, all of one kind.

    Attributes:
        kind: "FREE", "SLIDE" or "HINGE".
        bodies: their bodies.
        q: first number of each in q.
        v: first number of each in v.
        rest: the configuration in which the file is written, of each.
        axis: float64[joints, 3], in the body's frame.
        offset: float64[joints, 3], place in the body's frame.
        inner: those whose bodies have another joint before them.
    """

    kind: str
    bodies: list[int]
    q: list[int]
    v: list[int]
    rest: Float64
    axis: Float64
    offset: Float64
    inner: list[int]


@dataclass(frozen=True, eq=False)
class Tree:
    """Which body hangs on which, and the joints of each.

    Attributes:
        parent: the body on which a body hangs.
        root: the body at the root of the tree that a body belongs to.
        layers: joints, the last of each body first.
    """

    parent: list[int]
    root: list[int]
    layers: tuple[Layer, ...]


@lru_cache(maxsize=32)
def tree_of(model: Model) -> Tree:
    """Return the tree of a model."""
    m = model.mujoco
    depth: dict[tuple[int, str], list[int]] = {}
    for joint in range(m.njnt):
        body = int(m.jnt_bodyid[joint])
        last = int(m.body_jntadr[body] + m.body_jntnum[body] - 1)
        depth.setdefault((last - joint, KINDS[int(m.jnt_type[joint])]), []).append(joint)
    layers = tuple(
        Layer(
            kind=kind,
            bodies=[int(b) for b in m.jnt_bodyid[joints]],
            q=[int(a) for a in m.jnt_qposadr[joints]],
            v=[int(a) for a in m.jnt_dofadr[joints]],
            rest=np.array(m.qpos0[m.jnt_qposadr[joints]]),
            axis=np.array(m.jnt_axis[joints]),
            offset=np.array(m.jnt_pos[joints]),
            inner=[k for k, j in enumerate(joints) if j > m.body_jntadr[m.jnt_bodyid[j]]],
        )
        for (_, kind), joints in sorted(depth.items())
    )
    return Tree([int(b) for b in m.body_parentid], [int(b) for b in m.body_rootid], layers)


def constant(state: State, value: Any) -> Array:
    """Return numbers as an array like those of a state."""
    value = np.array(value, state.sim.dtype)
    return value if state.xp is np else state.xp.asarray(value)


def own(state: State, name: str) -> Array:
    """Return a parameter as the worlds have it, real[1 or worlds, ...]."""
    given = (state.params or {}).get(name)
    if given is None:
        return constant(state, state.sim.params[name])[None]
    return given if given.ndim > state.sim.params[name].ndim else given[None]


def own_vector(state: State, name: str, size: int = 3) -> Vector:
    """Return the numbers of a parameter of bodies, each real[1 or worlds, nbody]."""
    value = own(state, name)
    return [value[..., i] for i in range(size)]


def split_poses(place: Array, turn: Array) -> tuple[Vector, Matrix]:
    """Return places and rotations of all bodies as lists."""
    if isinstance(place, np.ndarray):
        # the numbers of one body lie side by side, as those of bodies that are picked out
        numbers = [np.asfortranarray(place[..., i]) for i in range(3)]
        turns = [[np.asfortranarray(turn[..., i, j]) for j in range(3)] for i in range(3)]
        return numbers, turns
    # products are copies, whose numbers lie side by side
    return [1.0 * place[..., i] for i in range(3)], [
        [1.0 * turn[..., i, j] for j in range(3)] for i in range(3)
    ]


def find_centers(state: State) -> tuple[Vector, Vector]:
    """Return the centres of mass of all bodies, and of the trees they belong to."""
    place, turn = state.split_poses
    com = add(place, times(turn, own_vector(state, "body_ipos")))
    mass, tree = own(state, "body_mass"), tree_of(state.model)
    middle: Vector = []
    for x in com:
        moved, means = mass * x, dict[int, Any]()
        for root in sorted(set(tree.root)):
            rows = [body for body, r in enumerate(tree.root) if r == root]
            top, below = moved[:, rows[0]], mass[:, rows[0]]
            for body in rows[1:]:
                top, below = top + moved[:, body], below + mass[:, body]
            means[root] = x[:, 0] if root == 0 else top / below
        middle.append(state.xp.stack([means[root] for root in tree.root], -1))
    return com, middle


def com_inertias(state: State) -> Array:
    """Return `cinert`, real[worlds, nbody, 10]: inertia about the tree's centre, moment, mass."""
    com, middle = state.centers
    _, turn = state.split_poses
    lies = _rotations(own_vector(state, "body_iquat", 4))
    (xx, yy, zz), (xy, xz, yz) = (
        own_vector(state, name) for name in ("body_inertia", "body_inertia_products")
    )
    inertia = product(product(lies, [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]), transposed(lies))
    half = product(turn, inertia)
    xx, yy, zz, xy, xz, yz = (
        half[i][0] * turn[j][0] + half[i][1] * turn[j][1] + half[i][2] * turn[j][2]
        for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
    )
    x, y, z = (a - b for a, b in zip(com, middle, strict=True))
    # as long as the others, also where all worlds share it
    mass = own(state, "body_mass") + 0.0 * x
    parts = [
        xx + mass * (y * y + z * z),
        yy + mass * (x * x + z * z),
        zz + mass * (x * x + y * y),
        xy - mass * x * y,
        xz - mass * x * z,
        yz - mass * y * z,
    ]
    return state.xp.stack([*parts, mass * x, mass * y, mass * z, mass], -1)


def com_velocities(state: State) -> Array:
    """Return `cvel`, real[worlds, nbody, 6]: turn, and speed at the tree's centre of mass."""
    tree = tree_of(state.model)
    if state.xp is np and all(layer.kind != "BALL" for layer in tree.layers):
        return body_velocities(state, tree)
    rates: list[list[Any]] = [[] for _ in range(state.model.nbody)]
    for layer, spin, speed in _joint_velocities(state, tree):
        for k, body in enumerate(layer.bodies):
            new = [*(x[:, k] for x in spin), *(x[:, k] for x in speed)]
            rates[body] = _sums(rates[body], new)
    rates[0] = [0.0 * state.v[:, 0]] * 6
    for body in range(1, state.model.nbody):
        above = rates[tree.parent[body]] if tree.parent[body] else []
        rates[body] = _sums(above, rates[body]) or rates[0]
    return state.xp.stack([state.xp.stack(rate, -1) for rate in rates], 1)


def _sums(a: list[Any], b: list[Any]) -> list[Any]:
    """Return sums of the numbers of two lists, where an empty one is zero."""
    return [x + y for x, y in zip(a, b, strict=True)] if a and b else a or b


def _joint_velocities(state: State, tree: Tree) -> list[tuple[Layer, Vector, Vector]]:
    """Return what the joints of each layer add: turn, and speed at the tree's centre of mass."""
    place, turn = state.split_poses
    _, middle = state.centers
    # where the bodies lie before their last joints move them: these are undone one by one
    out: list[tuple[Layer, Vector, Vector]] = []
    for layer in tree.layers:
        b = layer.bodies
        frame, at = [[x[:, b] for x in row] for row in turn], [x[:, b] for x in place]
        axis, offset = (_columns(state, x) for x in (layer.axis, layer.offset))
        along, anchor = times(frame, axis), add(at, times(frame, offset))
        reach = [m[:, b] - a for m, a in zip(middle, anchor, strict=True)]
        if layer.kind == "FREE":
            spin = times(frame, [state.v[:, [a + 3 + i for a in layer.v]] for i in range(3)])
            pace = [state.v[:, [a + i for a in layer.v]] for i in range(3)]
            out.append((layer, spin, add(pace, cross(spin, reach))))
            continue
        rate = state.v[:, layer.v]
        moved = state.q[:, layer.q] - constant(state, layer.rest)
        if layer.kind == "SLIDE":
            out.append((layer, [0.0 * rate] * 3, [rate * a for a in along]))
        elif layer.kind == "HINGE":
            spin = [rate * a for a in along]
            out.append((layer, spin, cross(spin, reach)))
        else:
            raise FeatherbackError(
                f'com_velocities(): model "{state.model.name}" has a ball joint, which is not '
                "covered; leave this term out."
            )
        # bodies that have another joint lie before it as this one leaves them
        k = layer.inner
        if not k:
            continue
        b, moved = [b[i] for i in k], moved[:, k]
        axis, offset = ([x[:, k] for x in vector] for vector in (axis, offset))
        frame = [[x[:, k] for x in row] for row in frame]
        if layer.kind == "SLIDE":
            at = [x[:, k] - moved * a[:, k] for x, a in zip(at, along, strict=True)]
        else:
            frame = product(frame, _about(state, axis, -moved))
            turned = times(frame, offset)
            at = [x[:, k] - y for x, y in zip(anchor, turned, strict=True)]
        place = [_placed(state, x, b, y) for x, y in zip(place, at, strict=True)]
        turn = [
            [_placed(state, x, b, y) for x, y in zip(row, new, strict=True)]
            for row, new in zip(turn, frame, strict=True)
        ]
    return out


def actuator_forces(state: State) -> Array:
    """Return `qfrc_actuator`, real[worlds, nv], of motors on joints under the control held."""
    m = state.model.mujoco
    joint = int(mujoco.mjtTrn.mjTRN_JOINT)
    plain = not (np.any(m.actuator_gaintype) or np.any(m.actuator_biastype))
    if not plain or np.any(m.actuator_dyntype) or np.any(m.actuator_trntype != joint):
        raise FeatherbackError(
            f'actuator_forces(): model "{state.model.name}" has actuators that are not motors on '
            "joints; leave this term out."
        )
    u = _cut(state, state.u, m.actuator_ctrlrange, m.actuator_ctrllimited)
    force = u * constant(state, m.actuator_gainprm[:, 0])
    force = _cut(state, force, m.actuator_forcerange, m.actuator_forcelimited)
    columns: list[Array] = [0.0 * state.v[:, 0]] * state.model.nv
    for i in range(state.model.nu):
        dof = int(m.jnt_dofadr[m.actuator_trnid[i, 0]])
        columns[dof] = columns[dof] + float(m.actuator_gear[i, 0]) * force[:, i]
    return state.xp.stack(columns, -1)


def _cut(state: State, x: Array, ranges: Any, limited: Any) -> Array:
    """Return numbers within their ranges, where they have one."""
    low = np.where(limited, ranges[:, 0], -np.inf)
    high = np.where(limited, ranges[:, 1], np.inf)
    return state.xp.clip(x, constant(state, low), constant(state, high))


def add(a: Vector, b: Vector) -> Vector:
    """Return a + b."""
    return [x + y for x, y in zip(a, b, strict=True)]


def cross(a: Vector, b: Vector) -> Vector:
    """Return a x b."""
    return [a[i] * b[j] - a[j] * b[i] for i, j in ((1, 2), (2, 0), (0, 1))]


def times(m: Matrix, a: Vector) -> Vector:
    """Return M a."""
    return [row[0] * a[0] + row[1] * a[1] + row[2] * a[2] for row in m]


def product(m: Matrix, n: Matrix) -> Matrix:
    """Return M N."""
    return transposed([times(m, column) for column in transposed(n)])


def transposed(m: Matrix) -> Matrix:
    """Return the transpose of M."""
    return [list(column) for column in zip(*m, strict=True)]


def _columns(state: State, vectors: Float64) -> Vector:
    """Return constant vectors, float64[n, 3], as a list of three."""
    return [constant(state, vectors[:, i])[None] for i in range(3)]


def _placed(state: State, x: Array, columns: list[int], new: Array) -> Array:
    """Return x, real[worlds, bodies], with new columns."""
    if state.xp is np:
        x = x.copy()
        x[:, columns] = new
        return x
    rows = {c: k for k, c in enumerate(columns)}
    parts = [new[:, rows[i]] if i in rows else x[:, i] for i in range(x.shape[1])]
    return state.xp.stack(parts, -1)


def _about(state: State, axis: Vector, angle: Array) -> Matrix:
    """Return rotations about unit axes."""
    x, y, z = axis
    c, s = state.xp.cos(angle), state.xp.sin(angle)
    d = 1.0 - c
    return [
        [c + d * x * x, d * x * y - s * z, d * x * z + s * y],
        [d * x * y + s * z, c + d * y * y, d * y * z - s * x],
        [d * x * z - s * y, d * y * z + s * x, c + d * z * z],
    ]


def _rotations(quaternion: Vector) -> Matrix:
    """Return the rotation matrices of unit quaternions (wxyz)."""
    w, x, y, z = quaternion
    return [
        [w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z],
    ]
