"""The smooth part of a step against Pinocchio: one Laikago in the air, analytic derivatives.

Pinocchio's model is built from the numbers of ours. Its velocity of the base is in body axes and
ours in the world's; its Jacobians of the acceleration are turned into those of our next velocity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from straight import EPS, rotation
from timing import interleave, one_core

import featherback as fb

Array = NDArray[np.float64]
STATES = 32
STEPS = 50  # of the rollout whose backward pass is timed
SEED = 20240


def pinocchio_model(sim: fb.Simulator) -> Any:
    """Return Pinocchio's model of a free base with hinges along the axes of their bodies.

    What our step treats implicitly, armature and the damping of one step, is its armature.
    """
    import pinocchio as pin

    t, p, model = sim.model.structure.tables, sim.params, pin.Model()
    hinge = (pin.JointModelRX, pin.JointModelRY, pin.JointModelRZ)
    turn = rotation(p["body_iquat"])
    model.gravity.linear = p["gravity"].copy()
    for body in range(1, len(p["body_mass"])):
        joint = t["body_jntadr"][body]
        axis = p["jnt_axis"][joint]
        free = t["jnt_type"][joint] == 0
        if not free and axis.tolist() not in np.eye(3).tolist():
            raise ValueError(f"smooth: joint {joint} turns about {axis}, expected x, y or z")
        kind = pin.JointModelFreeFlyer() if free else hinge[int(axis.argmax())]()
        offset = np.zeros(3) if free else p["body_pos"][body]
        place = pin.SE3(np.eye(3) if free else rotation(p["body_quat"][body]), offset)
        # joints are numbered like bodies, the world is 0
        model.addJoint(int(t["body_parent"][body]), kind, place, f"joint{body}")
        x, y, z = p["body_inertia_products"][body]
        own = np.diag(p["body_inertia"][body]) + np.array([[0, x, y], [x, 0, z], [y, z, 0]])
        about = turn[body] @ own @ turn[body].T
        inertia = pin.Inertia(float(p["body_mass"][body]), p["body_ipos"][body].copy(), about)
        model.appendBodyToJoint(body, inertia, pin.SE3.Identity())
    model.armature = p["dof_armature"] + p["dt"][0] * p["dof_damping"]
    return model


def states(sim: fb.Simulator) -> list[tuple[Array, Array, Array]]:
    """Return drawn states above the ground with servo targets near the pose."""
    rng = np.random.default_rng(SEED)
    stand, _ = sim.model.keyframe("stand")
    out: list[tuple[Array, Array, Array]] = []
    for _ in range(STATES):
        q = stand.copy()
        q[:3] = rng.uniform((-1.0, -1.0, 2.0), (1.0, 1.0, 4.0))
        q[3:7] = rng.normal(size=4)
        q[3:7] /= np.linalg.norm(q[3:7])
        u = stand[7:] + rng.uniform(-0.04, 0.04, sim.model.nu)
        q[7:] += rng.uniform(-0.04, 0.04, sim.model.nu)
        out.append((q, rng.uniform(-1.0, 1.0, sim.model.nv), u))
    return out


def spin(sim: fb.Simulator, w: Array) -> tuple[Array, Array]:
    """Return the mid-step torque of the base in its own axes, and its slope in w (spin.md)."""
    p, half = sim.params, 0.5 * sim.params["dt"][0]
    turn, (x, y, z) = rotation(p["body_iquat"][1]), p["body_inertia_products"][1]
    own = np.diag(p["body_inertia"][1]) + np.array([[0, x, y], [x, 0, z], [y, z, 0]])
    inertia = turn @ own @ turn.T

    def slope(a: Array) -> Array:
        """Return the derivative of a x (I a), D; it is linear in a."""
        return skew(a) @ inertia - skew(inertia @ a)

    D, g = slope(w), np.cross(w, inertia @ w)
    K = inertia + half * D
    y = np.linalg.solve(K, g)
    # of D y and of K y = g, by each number of w
    by_w = np.stack([slope(e) @ y for e in np.eye(3)], axis=1)
    dy = np.linalg.solve(K, D - half * by_w)
    return -half * D @ y, -half * (by_w + D @ dy)


def to_peer(sim: fb.Simulator, q: Array, v: Array, u: Array) -> tuple[Array, Array, Array]:
    """Return Pinocchio's positions, velocities and joint forces of one of our states."""
    p = sim.params
    R = rotation(q[3:7])
    bias = p["actuator_biasprm"]
    force = p["actuator_gainprm"][:, 0] * u + bias[:, 0] + bias[:, 1] * q[7:]
    if np.any(force != np.clip(force, *p["actuator_forcerange"].T)) or np.any(bias[:, 2]):
        raise ValueError("smooth: a servo is at its limit or damped, expected neither")
    tau = -p["dof_damping"] * v
    tau[6:] += force
    tau[3:6] -= spin(sim, v[3:6])[0]
    turned = np.concatenate([q[:3], q[4:7], q[3:4], q[7:]])
    return turned, np.concatenate([R.T @ v[:3], v[3:]]), tau


def skew(x: Array) -> Array:
    """Return the matrix that takes a cross product with x from the left."""
    return np.einsum("kji,k->ij", EPS, x)


def next_velocity(sim: fb.Simulator, model: Any, data: Any, q: Array, v: Array, u: Array) -> Array:
    """Return the derivative of our next velocity in (dq, v, u) from Pinocchio's Jacobians."""
    import pinocchio as pin

    p, n, R = sim.params, sim.model.nv, rotation(q[3:7])
    peer = to_peer(sim, q, v, u)
    dq, dv, dtau = (np.array(a) for a in pin.computeABADerivatives(model, data, *peer))
    dtau = np.triu(dtau) + np.triu(dtau, 1).T
    a = np.array(data.ddq)
    lin, w = peer[1][:3], peer[1][3:6]
    # our coordinates of a small displacement and of the velocity, in Pinocchio's
    turn = np.eye(n)
    turn[:3, :3] = R.T
    moved = np.zeros((n, n))
    moved[:3, 3:6] = skew(lin)
    force = np.zeros((n, n))
    force[6:, 6:] = np.diag(p["actuator_biasprm"][:, 1])
    in_q = dq @ turn + dv @ moved + dtau @ force
    in_v = dv @ turn - dtau @ np.diag(p["dof_damping"])
    in_v[:, 3:6] -= dtau[:, 3:6] @ spin(sim, v[3:6])[1]
    in_u = dtau[:, 6:] * p["actuator_gainprm"][:, 0]
    # our acceleration of the base is R (a + w x v)
    in_q[:3] = R @ (in_q[:3] + skew(w) @ moved[:3])
    in_q[:3, 3:6] -= R @ skew(a[:3] + np.cross(w, lin))
    in_v[:3] = R @ (in_v[:3] + skew(w) @ turn[:3])
    in_v[:3, 3:6] -= R @ skew(lin)
    in_u[:3] = R @ in_u[:3]
    h = p["dt"][0]
    return np.hstack([h * in_q, np.eye(n) + h * in_v, h * in_u])


def disagreement(sim: fb.Simulator, model: Any) -> float:
    """Return the largest difference of the two Jacobians, as a share of their largest number."""
    data, worst, n = model.createData(), 0.0, sim.model.nv
    for q, v, u in states(sim):
        A, B = sim.linearize(q, v, u)
        mine = np.hstack([A[n:], B[n:]])
        theirs = next_velocity(sim, model, data, q, v, u)
        worst = max(worst, float(np.abs(mine - theirs).max() / np.abs(mine).max()))
    return worst


def measure(dt: float | None, rounds: int) -> dict[str, Any]:
    """Return microseconds of one call from Python, and how far the Jacobians are apart."""
    import pinocchio as pin

    sim = fb.Simulator(fb.models.laikago(), dt=dt, threads=1)
    model = pinocchio_model(sim)
    data, points = model.createData(), states(sim)
    peers = [to_peer(sim, *point) for point in points]
    q, v, u = points[0]
    roll = sim.rollout(q, v, np.tile(u, (STEPS, 1)))
    ones = np.ones_like(q), np.ones_like(v)
    jobs: dict[str, Callable[[], object]] = {
        "pin.aba": lambda: [pin.aba(model, data, *x) for x in peers],
        "pin.computeABADerivatives": lambda: [
            pin.computeABADerivatives(model, data, *x) for x in peers
        ],
        "sim.step": lambda: [sim.step(*x) for x in points],
        "sim.linearize": lambda: [sim.linearize(*x) for x in points],
        "roll.vjp, a step": lambda: roll.vjp(*ones),
    }
    with one_core():
        times = interleave(jobs, rounds, patience=2.0)
    count = dict.fromkeys(jobs, STATES) | {"roll.vjp, a step": STEPS}
    rows = {name: timing.per(count[name]) for name, timing in times.items()}
    return {"version": pin.__version__, "error": disagreement(sim, model), "calls": rows}
