"""Independent values of the forwards of the op table: NumPy, MuJoCo, or the public simulator."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np

import featherback as fb

Vector = np.ndarray
ROWS = 8  # of the problem in bindings/ops_pure.hpp
NORMALS = (0, 3)
BOUNDED, ONE_SIDED = 6, 7

FREE, BALL, SLIDE = (int(getattr(mujoco.mjtJoint, f"mjJNT_{k}")) for k in ("FREE", "BALL", "SLIDE"))
TENDON = int(mujoco.mjtTrn.mjTRN_TENDON)
CONNECT, WELD = int(mujoco.mjtEq.mjEQ_CONNECT), int(mujoco.mjtEq.mjEQ_WELD)
SITE = int(mujoco.mjtObj.mjOBJ_SITE)
OWN_FRICTION = 1  # the rule of an explicit pair


def newton_euler(x: Vector) -> Vector:
    """Return f = I a + v x* (I v) for x = (m, m c, I_o, v, a), about the origin."""
    m, h, (xx, yy, zz, xy, xz, yz) = x[0], x[1:4], x[4:10]
    inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    v, a = x[10:16].reshape(2, 3), x[16:].reshape(2, 3)

    def momentum(y: Vector) -> Vector:
        return np.array([inertia @ y[0] + np.cross(h, y[1]), m * y[1] - np.cross(h, y[0])])

    p = momentum(v)
    bias = np.array([np.cross(v[0], p[0]) + np.cross(v[1], p[1]), np.cross(v[0], p[1])])
    return (momentum(a) + bias).reshape(-1)


def normalised(x: Vector) -> Vector:
    """Return x / |x|."""
    return x / np.linalg.norm(x)


def half_angle(x: Vector) -> Vector:
    """Return (cos(|x|/2), sin(|x|/2)/|x|) for x.x."""
    n = np.sqrt(x)
    return np.r_[np.cos(n / 2), np.sin(n / 2) / n]


def one_minus_exp(x: Vector) -> Vector:
    """Return 1 - exp(-x)."""
    return -np.expm1(-x)


def integrate_quat(x: Vector) -> Vector:
    """Return q exp(h w) for x = (q, w, h)."""
    q = normalised(x[:4])
    mujoco.mju_quatIntegrate(q, x[4:7], x[7])
    return q


def log(x: Vector) -> Vector:
    """Return the rotation vector of a quaternion, the shorter way round."""
    q = normalised(x) * (1.0 if x[0] >= 0 else -1.0)
    length = np.linalg.norm(q[1:])
    return q[1:] * (2 * np.arctan2(length, q[0]) / length)


def frame(x: Vector) -> Vector:
    """Return the frame of an axis, row by row."""
    return axis_frame(x).reshape(-1)


def matrix(x: Vector) -> Vector:
    """Return the rotation matrix of a quaternion, row by row."""
    return turn(x).reshape(-1)


def tangents(n: Vector) -> Vector:
    """Return two unit vectors that complete n to a right-handed frame."""
    e = np.eye(3)[0 if abs(n[0]) < 0.57735 else 1]
    t = normalised(e - n * (e @ n))
    return np.r_[t, np.cross(n, t)]


def rows(box: bool, sweeps: int) -> Callable[[Vector], Vector]:
    """Return the row problem's impulses after projected Gauss-Seidel sweeps from zero.

    Rows 0 to 2 and 3 to 5 are contacts, row 6 is bounded on both sides, row 7 on one.
    """

    def solve(x: Vector) -> Vector:
        B, b = x[:64].reshape(ROWS, ROWS), x[64:72]
        mu, bound = dict(zip(NORMALS, x[72:74], strict=True)), x[74]
        A = B @ B.T + 0.1 * np.eye(ROWS)
        D = np.diag(A).copy()
        if not box:
            for n in NORMALS:
                D[n + 1 : n + 3] = np.linalg.eigvalsh(A[n + 1 : n + 3, n + 1 : n + 3])[1]
        lam = np.zeros(ROWS)
        for _ in range(sweeps):
            before = lam.copy()
            for r in (0, 3, BOUNDED, ONE_SIDED):
                y = lam[r] - (A[r] @ lam + b[r]) / D[r]
                lam[r] = np.clip(y, -bound, bound) if r == BOUNDED else max(y, 0.0)
                if r in mu:
                    t = slice(r + 1, r + 3)
                    lam[t] = disc(lam[t] - (A[t] @ lam + b[t]) / D[t], mu[r] * lam[r], box)
            if np.array_equal(before, lam):
                break
        return lam

    return solve


HOLD, SHARE = {False: 2e-4, True: 0.5}, {False: 1e-6, True: 1e-4}
TOP = 0.5  # v_recover [m/s]


def gap_term(equality: bool) -> Callable[[Vector], Vector]:
    """Return (beta, rest, R) of x = (phi, h) for rows with one error, of the inverse weight 0.7."""

    def term(x: Vector) -> Vector:
        phi, h = x[:-1], x[-1]
        u = np.linalg.norm(phi) if equality else -phi[0]
        delta, jam = h * HOLD[equality], SHARE[equality] * TOP * h
        s = u if u <= delta else jam + (u - jam) / (1 + (u / delta - 1) ** 3)
        growth = (s / delta) ** 2 if equality else 0.0
        part = s / u if u > delta else 1.0
        compliance = 0.7 * (SHARE[equality] + growth)
        return np.r_[phi * part / h, phi * (1 - part) / h, compliance]

    return term


def _asked(rest: Vector, load: Vector, y0: float) -> Vector:
    """Return what some rows with one error are asked for, bounded by v_recover."""
    y = np.linalg.norm(load)
    a = max(y - y0, 0.0) / y0
    dead = y0 * (a**3 * (1 - a / 2) if a < 1 else a - 0.5)
    t = rest - load * (dead / y if y else 0.0)
    return t / np.sqrt(1 + t @ t / TOP**2)


def recover_rows(x: Vector) -> Vector:
    """Return the push of the eight rows in tests/native/ops_pure.hpp, trying every set of rows."""
    n, part, one_sided = 8, [0, 1, 2, 4, 5, 6, 7], [0, 1, 2]
    B, b, lam, rest, lead = x[:64].reshape(n, n), *x[64:].reshape(4, n)
    A0, share = B @ B.T, np.where(np.arange(n) < 4, 1e-4, 1e-3)
    c = lead.copy()
    for rows in ([0], [1], [2], [4, 5, 6], [7]):
        c[rows] += _asked(rest[rows], 1e-4 * lam[rows], 20 * TOP * share[rows[0]])
    c[1] += (A0 @ lam + 1e-4 * lam + b)[1]
    R1 = 0.1 * 1e-4 / share
    for on in np.ndindex(2, 2, 2):
        rows = [r for r in part if r not in one_sided or on[r]]
        push = np.zeros(n)
        push[rows] = np.linalg.solve((A0 + np.diag(R1))[np.ix_(rows, rows)], -c[rows])
        off = [r for r in one_sided if not on[r]]
        if np.all(push[one_sided] >= 0) and np.all((A0 @ push + c)[off] >= 0):
            return push
    raise AssertionError("no set of rows fits")


def disc(y: Vector, radius: float, box: bool) -> Vector:
    """Return the point of a disc, or a square, nearest to y."""
    if box:
        return np.clip(y, -radius, radius)
    length = np.linalg.norm(y)
    return y * (radius / length) if length > radius else y


def data_at(model: fb.Model, x: Vector) -> Any:
    """Return MuJoCo's data at x = (q, v, ...), quaternions made unit."""
    m = model.mujoco
    data = mujoco.MjData(m)
    data.qpos, data.qvel = x[: m.nq], x[m.nq : m.nq + m.nv]
    mujoco.mj_normalizeQuat(m, data.qpos)
    mujoco.mj_fwdPosition(m, data)
    mujoco.mj_fwdVelocity(m, data)
    return data


def inverse_dynamics(model: fb.Model, x: Vector) -> Vector:
    """Return MuJoCo's RNE at x = (q, v, a), with the armature."""
    m, data = model.mujoco, data_at(model, x)
    data.qacc = x[-m.nv :]
    tau = np.zeros(m.nv)
    mujoco.mj_rne(m, data, 1, tau)
    return tau + m.dof_armature * x[-m.nv :]


def integrate(model: fb.Model, x: Vector) -> Vector:
    """Return MuJoCo's position after a step at x = (q, v)."""
    m, data = model.mujoco, data_at(model, x)
    q = data.qpos.copy()
    mujoco.mj_integratePos(m, q, data.qvel, m.opt.timestep)
    return q


def actuation(model: fb.Model, x: Vector) -> Vector:
    """Return MuJoCo's passive and actuator forces, and armature + h damping, at (q, v, act, u).

    The damping is that of the joints and of the servos that brake: -d force / d speed times the
    gear squared, of one-dof joints, where neither the force nor the joint's sum is at a limit.
    That of tendons comes last; where it is a row's, the force is without it.
    """
    m, data = model.mujoco, data_at(model, x)
    data.act, data.ctrl = np.split(x[m.nq + m.nv :], [m.na])
    mujoco.mj_fwdActuation(m, data)
    after = activation(model, x)
    damping = np.array(m.dof_damping).reshape(-1)[: m.nv].copy()
    implicit = model.structure.tables["tendon_rows"] * m.tendon_damping
    for i in range(m.nu):
        j, on_tendon = m.actuator_trnid[i, 0], m.actuator_trntype[i] == TENDON
        gear = m.actuator_gear[i, 0]
        limited = m.actuator_forcelimited[i] and data.actuator_force[i] in m.actuator_forcerange[i]
        if limited or (on_tendon and not model.structure.tables["tendon_rows"][j]):
            continue
        d = 0 if on_tendon else m.jnt_dofadr[j]
        held = not on_tendon and (
            m.jnt_actfrclimited[j] and data.qfrc_actuator[d] in m.jnt_actfrcrange[j]
        )
        if held or (not on_tendon and m.jnt_type[j] < SLIDE):
            continue
        at, u = m.actuator_actadr[i], data.ctrl[i]
        if at >= 0:
            u = after[at] if m.actuator_actearly[i] else data.act[at]
        elif m.actuator_ctrllimited[i]:
            u = np.clip(u, *m.actuator_ctrlrange[i])
        slope = m.actuator_gainprm[i, 2] * u
        servo = max(-(slope + m.actuator_biasprm[i, 2]), 0.0) * gear**2
        if on_tendon:
            implicit[j] += servo
        else:
            damping[d] += servo
    tau = data.qfrc_passive + data.qfrc_actuator
    moments = tendon_moments(m, data)
    tau = tau + moments.T @ (implicit * (moments @ data.qvel))
    return np.r_[tau, m.dof_armature + m.opt.timestep * damping, implicit]


def tendon_moments(m: mujoco.MjModel, data: mujoco.MjData) -> Vector:
    """Return ten_J as a dense matrix."""
    out = np.zeros((m.ntendon, m.nv))
    for t in range(m.ntendon):
        at = slice(m.ten_J_rowadr[t], m.ten_J_rowadr[t] + m.ten_J_rownnz[t])
        out[t, m.ten_J_colind[at]] = np.asarray(data.ten_J).reshape(-1)[at]
    return out


def activation(model: fb.Model, x: Vector) -> Vector:
    """Return MuJoCo's activation after a step at (q, v, act, u)."""
    return free_step(model, x)[model.nq + model.nv :]


# parameters of actuation that both libraries read alike
ACTUATION = """
    qpos_spring jnt_stiffness dof_damping jnt_actfrcrange actuator_gear actuator_ctrlrange
    actuator_forcerange actuator_actrange
""".split()


def free_step(model: fb.Model, x: Vector) -> Vector:
    """Return MuJoCo's step without constraints, implicit in damping, at (q, v, act, u[, theta])."""
    m = model.mujoco
    q, v, act, u, flat = np.split(x, np.cumsum([m.nq, m.nv, m.na, m.nu]))
    params = all_parameters(fb.Simulator(model))
    theta = split(flat, params) if flat.size else params
    m = with_parameters(model, theta)
    for name in ACTUATION:
        getattr(m, name)[:] = theta[name].reshape(getattr(m, name).shape)
    for name in ("gainprm", "biasprm", "dynprm"):
        value = theta[f"actuator_{name}"]
        getattr(m, f"actuator_{name}")[:, : value.shape[1]] = value
    m.opt.timestep = theta["dt"].item()
    m.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    m.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    data = mujoco.MjData(m)
    data.qpos, data.qvel, data.act, data.ctrl = q, v, act, u
    data.xfrc_applied = theta["xfrc_applied"]
    mujoco.mj_normalizeQuat(m, data.qpos)
    apply_spin(m, data)
    mujoco.mj_step(m, data)
    return np.r_[data.qpos, data.qvel, data.act]


def apply_spin(m: Any, data: Any) -> None:
    """Apply to MuJoCo's bodies what the middle of the step takes off their gyroscopic torque."""
    mujoco.mj_forward(m, data)
    for j in np.flatnonzero(m.jnt_type <= int(mujoco.mjtJoint.mjJNT_BALL)):
        body = int(m.jnt_bodyid[j])
        # what moves with the last joint of a body: it, and what is fixed to it
        if j != m.body_jntadr[body] + m.body_jntnum[body] - 1:
            continue
        parts = np.flatnonzero(m.body_weldid == body)
        mass, places = m.body_mass[parts], data.xipos[parts]
        if mass.sum() == 0.0:
            continue
        centre = mass @ places / mass.sum()
        inertia = np.zeros((3, 3))
        for part, weight, place in zip(parts, mass, places, strict=True):
            R, d = data.ximat[part].reshape(3, 3), place - centre
            inertia += R @ np.diag(m.body_inertia[part]) @ R.T
            inertia += weight * (d @ d * np.eye(3) - np.outer(d, d))
        data.xfrc_applied[body, 3:] -= spin(inertia, data.cvel[body, :3], m.opt.timestep)


def spin(inertia: Vector, w: Vector, h: float) -> Vector:
    """Return what the middle of the step adds to the gyroscopic torque of a body."""
    turn = np.cross(np.eye(3), w)
    slope = turn @ inertia - np.cross(np.eye(3), inertia @ w)
    torque = np.cross(w, inertia @ w)
    return inertia @ np.linalg.solve(inertia + h / 2 * slope, torque) - torque


def with_parameters(model: fb.Model, theta: dict[str, Vector]) -> Any:
    """Return MuJoCo's model with other places and inertias; moments and axes are principal."""
    m = copy.copy(model.mujoco)
    for name in ("body_pos", "body_mass", "body_ipos", "jnt_pos", "qpos0", "site_pos"):
        getattr(m, name)[:] = theta[name]
    for name in ("body_quat", "site_quat", "jnt_axis"):
        getattr(m, name)[:] = theta[name] / np.linalg.norm(theta[name], axis=1, keepdims=True)
    m.dof_armature[:], m.opt.gravity[:] = theta["dof_armature"], theta["gravity"]
    for name in ("tendon_armature", "wrap_prm"):
        if theta[name].size:
            getattr(m, name)[:] = theta[name]
    for b in range(1, m.nbody):
        moments, axes = np.linalg.eigh(inertia_of(theta, b))
        axes[:, 2] *= np.linalg.det(axes)
        m.body_inertia[b] = moments
        mujoco.mju_mat2Quat(m.body_iquat[b], (turn(theta["body_iquat"][b]) @ axes).reshape(-1))
    # frames that the compiler found equal are so no more
    m.body_sameframe[:] = m.site_sameframe[:] = m.geom_sameframe[:] = 0
    return m


def output(model: fb.Model, name: str, x: Vector) -> Vector:
    """Return MuJoCo's value of an output at x = (q, v, a or tau, theta)."""
    nq, nv = model.nq, model.nv
    q, v, a, flat = np.split(x, [nq, nq + nv, nq + 2 * nv])
    m = with_parameters(model, split(flat, all_parameters(fb.Simulator(model))))
    data = mujoco.MjData(m)
    data.qpos, data.qvel = q, v
    mujoco.mj_normalizeQuat(m, data.qpos)
    mujoco.mj_kinematics(m, data)
    if name == "poses":
        places = np.r_[data.xpos, data.site_xpos], np.r_[data.xmat, data.site_xmat]
        return np.concatenate(places, axis=1).reshape(-1)
    if name == "center_of_mass":
        return m.body_mass[1:] @ data.xipos[1:] / m.body_mass[1:].sum()
    mujoco.mj_comPos(m, data)
    mujoco.mj_comVel(m, data)
    of_bodies = {
        "mass_centers": np.c_[data.xipos, data.subtree_com[m.body_rootid]],
        "com_inertias": data.cinert,
        "com_velocities": data.cvel,
    }
    if name in of_bodies:
        # the world has none
        return np.r_[0.0 * of_bodies[name][:1], of_bodies[name][1:]].reshape(-1)

    def force(acceleration: Vector) -> Vector:
        tau = np.zeros(nv)
        data.qacc = acceleration
        mujoco.mj_rne(m, data, 1, tau)
        return tau + m.dof_armature * acceleration + pulled + carried @ acceleration

    pulled, carried = np.zeros(nv), np.zeros((nv, nv))
    if np.any(m.tendon_armature):
        pulled -= force(np.zeros(nv))
        mujoco.mj_fwdPosition(m, data)
        mujoco.mj_fwdVelocity(m, data)
        pulled += data.qfrc_bias
        moments = tendon_moments(m, data)
        carried += moments.T * m.tendon_armature @ moments
    bias = force(np.zeros(nv))
    M = np.array([force(e) - bias for e in np.eye(nv)])
    if name == "mass_matrix":
        return M.reshape(-1)
    return force(a) if name == "inverse_dynamics" else np.linalg.solve(M, a - bias)


def _arguments(sim: fb.Simulator, x: Vector) -> tuple[tuple[Vector, ...], dict[str, Any]]:
    """Return (q, v, u) and the activations and parameters of x = (q, v, act, u, theta).

    The simulator refuses a range with its ends exchanged; of a ball only the larger end counts.
    """
    m = sim.model
    q, v, act, u, theta = np.split(x, np.cumsum([m.nq, m.nv, m.na, m.nu]))
    params = None
    if theta.size:
        given = split(theta, all_parameters(sim))
        params = {name: given[name] for name in sim.params}
        params["jnt_range"] = np.sort(params["jnt_range"], axis=1)
    return (q, v, u), {"act": act if m.na else None, "params": params}


def step(sim: fb.Simulator, x: Vector) -> Vector:
    """Return the simulator's step at x = (q, v, act, u), theta behind it or not."""
    point, others = _arguments(sim, x)
    return np.concatenate(sim.step(*point, **others))


def contact_forces(sim: fb.Simulator, x: Vector) -> Vector:
    """Return the sums of the forces that the simulator reports of single contacts."""
    point, others = _arguments(sim, x)
    params = others["params"] or dict(sim.params)
    found = sim.contacts(*point, **others)
    place, turn = sim.body_poses(point[0], params=params)
    centre = place + np.einsum("bij,bj->bi", turn, params["body_ipos"])
    out = np.zeros((sim.model.nbody, 6))
    for geom, sign in ((found.geom1, -1.0), (found.geom2, 1.0)):
        for i, body in enumerate(sim.model.mujoco.geom_bodyid[geom]):
            force, arm = found.force[i], found.point[i] - centre[body]
            out[body] += sign * np.r_[force, found.torque[i] + np.cross(arm, force)]
    out[0] = 0.0
    return out.reshape(-1)


def all_parameters(sim: fb.Simulator) -> dict[str, Vector]:
    """Return every parameter in the core's order, those of the other contact law too."""
    base = sim.model.structure.params
    return {name: np.asarray(sim.params.get(name, value)) for name, value in base.items()}


def split(flat: Vector, parameters: dict[str, Vector]) -> dict[str, Vector]:
    """Return the parameters that lie one after the other in a flat vector."""
    ends = np.cumsum([value.size for value in parameters.values()])
    parts = np.split(flat, ends[:-1])
    return {k: p.reshape(v.shape) for (k, v), p in zip(parameters.items(), parts, strict=True)}


def turn(quat: Vector) -> Vector:
    """Return the rotation matrix of a quaternion of any length."""
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, normalised(quat))
    return matrix.reshape(3, 3)


def axis_frame(axis: Vector) -> Vector:
    """Return a frame whose z is the axis and whose x is normal to the axis's smallest entry."""
    z = normalised(axis)
    x = normalised(np.cross(np.eye(3)[np.argmin(np.abs(z))], z))
    return np.column_stack([x, np.cross(z, x), z])


class Frames:
    """Frames of links and bodies at the reference configuration, in the world.

    At that configuration no joint displaces anything, so a body stands where its parent and its
    own position and orientation put it, and the link of a joint stands at the joint's anchor.
    """

    def __init__(self, model: fb.Model, theta: dict[str, Vector]) -> None:
        """Walk the tree once; a free body and its link stand at the origin."""
        m, self.model = model.mujoco, model
        self.tables = model.structure.tables
        self.body = [(np.eye(3), np.zeros(3))]
        self.link = {0: (np.eye(3), np.zeros(3))}
        self.below: dict[int, int] = {}
        for b in range(1, m.nbody):
            R, p = self.body[m.body_parentid[b]]
            R, p = R @ turn(theta["body_quat"][b]), p + R @ theta["body_pos"][b]
            below = int(self.tables["body_link"][m.body_parentid[b]])
            for j in range(m.body_jntadr[b], m.body_jntadr[b] + m.body_jntnum[b]):
                link, kind = int(self.tables["jnt_link"][j]), m.jnt_type[j]
                if kind == FREE:
                    R, p = np.eye(3), np.zeros(3)
                    self.link[link] = R, p
                else:
                    F = np.eye(3) if kind == BALL else axis_frame(theta["jnt_axis"][j])
                    self.link[link] = R @ F, p + R @ theta["jnt_pos"][j]
                self.below[link], below = below, link
            self.body.append((R, p))

    def in_link(self, link: int, R: Vector, p: Vector) -> tuple[Vector, Vector]:
        """Return a frame of the world as its link sees it."""
        L, o = self.link[link]
        return L.T @ R, L.T @ (p - o)

    def on_body(self, b: int, quat: Vector | None, pos: Vector) -> tuple[Vector, Vector]:
        """Return the frame of a thing on a body, as the body's link sees it."""
        R, p = self.body[b]
        Q = np.eye(3) if quat is None else turn(quat)
        return self.in_link(int(self.tables["body_link"][b]), R @ Q, p + R @ pos)


def inertia_of(theta: dict[str, Vector], b: int) -> Vector:
    """Return a body's inertia matrix in its inertial frame."""
    (xx, yy, zz), (xy, xz, yz) = theta["body_inertia"][b], theta["body_inertia_products"][b]
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def link_inertias(frames: Frames, theta: dict[str, Vector], links: int) -> dict[str, Vector]:
    """Return masses, centres of mass and inertias about them, of all links in their frames."""
    m = frames.model.mujoco
    mass, com, inertia = np.zeros(links), np.zeros((links, 3)), np.zeros((links, 6))
    for link in range(1, links):
        bodies = [b for b in range(1, m.nbody) if frames.tables["body_link"][b] == link]
        parts = [frames.on_body(b, theta["body_iquat"][b], theta["body_ipos"][b]) for b in bodies]
        weights = theta["body_mass"][bodies]
        mass[link] = weights.sum()
        com[link] = weights @ np.array([p for _, p in parts]) / (mass[link] or 1.0)
        total = np.zeros((3, 3))
        for b, (R, p) in zip(bodies, parts, strict=True):
            d = p - com[link]
            total += R @ inertia_of(theta, b) @ R.T
            total += theta["body_mass"][b] * (d @ d * np.eye(3) - np.outer(d, d))
        inertia[link] = total[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
    return {"link_mass": mass, "link_com": com, "link_I": inertia}


def pair_numbers(model: fb.Model, theta: dict[str, Vector]) -> list[Vector]:
    """Return friction, restitution and compliance of all pairs."""
    tables = model.structure.tables
    a, b = tables["pair_geom1"], tables["pair_geom2"]
    friction, lead = theta["geom_friction"][:, 0], model.mujoco.geom_priority
    mu = np.maximum(friction[a], friction[b])
    mu = np.where(lead[a] > lead[b], friction[a], np.where(lead[a] < lead[b], friction[b], mu))
    own = tables["pair_rule"] == OWN_FRICTION
    mu = np.where(own, theta["pair_friction"], mu)
    bounce, soft = theta["geom_restitution"], theta["contact_compliance"]
    return [mu, np.maximum(bounce[a], bounce[b]), soft[a] + soft[b]]


def equality_frames(frames: Frames, theta: dict[str, Vector]) -> list[Vector]:
    """Return p1, p2, R1, R2 of all equalities: the frames that they hold together."""
    m, sides = frames.model.mujoco, ([], [])
    for e in range(m.neq):
        weld = m.eq_type[e] == WELD
        data = theta["eq_data"][e]
        for side, obj in enumerate((m.eq_obj1id[e], m.eq_obj2id[e])):
            frame = np.eye(3), np.zeros(3)
            if m.eq_type[e] not in (CONNECT, WELD):
                pass
            elif m.eq_objtype[e] == SITE:
                quat, pos = theta["site_quat"][obj], theta["site_pos"][obj]
                frame = frames.on_body(m.site_bodyid[obj], quat, pos)
            elif weld and side == 0:
                frame = frames.on_body(obj, data[6:10], data[3:6])
            else:
                frame = frames.on_body(obj, None, data[0:3] if weld or side == 0 else data[3:6])
            sides[side].append(frame)
    return [
        *(np.array([p for _, p in side]) for side in sides),
        *(np.array([R for R, _ in side]) for side in sides),
    ]


def derive(model: fb.Model, x: Vector) -> Vector:
    """Return everything derived from the parameters; bounds of geoms count as zero."""
    m, theta = model.mujoco, split(x, all_parameters(fb.Simulator(model)))
    frames, links = Frames(model, theta), model.structure.sizes["nlink"]
    free = {int(frames.tables["jnt_link"][j]) for j in range(m.njnt) if m.jnt_type[j] == FREE}
    still = (np.eye(3), np.zeros(3))
    placed = [
        still if k == 0 or k in free else frames.in_link(frames.below[k], *frames.link[k])
        for k in range(links)
    ]
    body = [frames.on_body(b, None, np.zeros(3)) for b in range(m.nbody)]
    geom, site = (
        [frames.on_body(b, q, p) for b, q, p in zip(*of, strict=True)]
        for of in (
            (m.geom_bodyid, theta["geom_quat"], theta["geom_pos"]),
            (m.site_bodyid, theta["site_quat"], theta["site_pos"]),
        )
    )
    parts: list[Vector] = [np.array([f[k] for f in placed]) for k in (0, 1)]
    parts += link_inertias(frames, theta, links).values()
    parts += [np.array([f[k] for f in body]) for k in (0, 1)]
    parts += [np.array([f[k] for f in geom]) for k in (0, 1)] + [np.zeros(7 * m.ngeom)]
    parts += [np.array([f[k] for f in site]) for k in (0, 1)]
    parts += pair_numbers(model, theta) + equality_frames(frames, theta)
    return np.concatenate([part.reshape(-1) for part in parts])
