"""What the physics tests share: small scenes, rotations, energies."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import featherback as fb
from tests.property.random_models import rotation

Vector = NDArray[np.float64]
G = 9.81
EPS = float(np.finfo(np.float64).eps)


def scene(world: str, *, option: str = "", after: str = "") -> fb.Model:
    """Return a model in radians with gravity `G` along -z."""
    return fb.load(
        '<mujoco model="scene"><compiler angle="radian" autolimits="true"/>'
        f'<option timestep="0.002" gravity="0 0 {-G}" {option}/>'
        f"<worldbody>{world}</worldbody>{after}</mujoco>"
    )


def floor(mu: float = 1.0) -> str:
    """Return a floor at z = 0."""
    return f'<geom name="floor" type="plane" size="0 0 1" friction="{mu} 0 0"/>'


def multiply(a: Vector, b: Vector) -> Vector:
    """Return the quaternion product a b (wxyz), over leading axes of b."""
    w, x, y, z = a
    left = np.array([[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]])
    return b @ left.T


def turned(model: fb.Model, q: Vector, v: Vector, quat: Vector, shift: Vector) -> tuple[Any, Any]:
    """Return the state seen from a world that is turned by `quat`, then moved by `shift`."""
    R, q, v = rotation(quat), q.copy(), v.copy()
    compiled = model.mujoco
    for j in np.flatnonzero(compiled.jnt_type == 0):
        a, d = int(compiled.jnt_qposadr[j]), int(compiled.jnt_dofadr[j])
        q[..., a : a + 3] = q[..., a : a + 3] @ R.T + shift
        q[..., a + 3 : a + 7] = multiply(quat, q[..., a + 3 : a + 7])
        v[..., d : d + 3] = v[..., d : d + 3] @ R.T
    return q, v


def turned_params(model: fb.Model, quat: Vector, shift: Vector) -> dict[str, Vector]:
    """Return the parameters of the same model in that world."""
    R, compiled = rotation(quat), model.mujoco
    out = {"gravity": R @ model.params["gravity"]}
    on_world = {"body": compiled.body_parentid == 0, "geom": compiled.geom_bodyid == 0}
    on_world["body"][0] = False
    for kind, rows in on_world.items():
        position, orientation = (model.params[f"{kind}_{x}"].copy() for x in ("pos", "quat"))
        position[rows] = position[rows] @ R.T + shift
        orientation[rows] = multiply(quat, orientation[rows])
        out[f"{kind}_pos"], out[f"{kind}_quat"] = position, orientation
    return out


def kinetic(sim: fb.Simulator, q: Vector, v: Vector) -> Vector:
    """Return v' M(q) v / 2 [J] for one state or each of a batch."""
    return 0.5 * np.einsum("...i,...ij,...j->...", v, sim.mass_matrix(q), v)


def potential(sim: fb.Simulator, q: Vector) -> Vector:
    """Return the potential energy of gravity and of springs on scalar joints [J]."""
    p, R = sim.body_poses(q)
    params, compiled = sim.params, sim.model.mujoco
    com = p + np.einsum("...bij,bj->...bi", R, params["body_ipos"])
    energy = -np.einsum("...bi,i,b->...", com, params["gravity"], params["body_mass"])
    for j in np.flatnonzero(compiled.jnt_type >= 2):
        a = int(compiled.jnt_qposadr[j])
        stretch = q[..., a] - params["qpos_spring"][a]
        energy = energy + 0.5 * params["jnt_stiffness"][j] * stretch**2
    return energy


def slope(h: Vector, error: Vector) -> float:
    """Return the order of convergence: the slope of log(error) over log(h)."""
    return float(np.polyfit(np.log(h), np.log(error), 1)[0])
