"""One step as a user of an array library would write it: dense, batched, a fixed number of sweeps.

The contact model is that of docs/contact_model.md and the numbers are those of the model, so the
trajectory is ours.
Every function takes the library as `xp`, torch or jax.numpy, which differentiates it; a leading
axis of every array counts robots that do not touch each other. Covered is what the scene has: a
free base, hinges, servos, spheres on one plane, with the mid-step torque of the base. Joints that
reach their limits, hits with restitution, the position-level step of recovery and a base that
turns by more than a radian in a step are not: check() and check_states() refuse them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import featherback as fb
from featherback._core import pair_table

Array = Any  # of the library that is used
FREE, HINGE = 0, 3  # types of joints
PLANE_SPHERE = {name: kind for name, kind, *_ in pair_table()}["plane-sphere"]
HELD = 4e-4  # share of v_recover up to which velocity closes an overlap at once
JAMMED = 20.0  # impulses from which positions move too, in v_recover over the inverse weight
SWEEPS = 16  # of projected Gauss-Seidel in one step; a standing robot is then solved to 1e-11
EPS = np.array([np.cross(np.eye(3)[i], np.eye(3)) for i in range(3)])  # [i, j, k]: (e_i x e_j)_k


def rotation(q: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the matrices of quaternions (..., 4)."""
    q = q / np.linalg.norm(q, axis=-1, keepdims=True)
    w, x = q[..., 0, None, None], q[..., 1:]
    K = np.einsum("kji,...k->...ij", EPS, x)
    return np.eye(3) + 2.0 * w * K + 2.0 * K @ K


@dataclass(frozen=True)
class Robot:
    """Constants of a robot as arrays of one library; links in the order of the model.

    Attributes:
        n: numbers: step, gravity and the options of the solver.
        levels: for links of equal depth: the places of their parents in the level above, their
            positions and turns in the parent, and the addresses of their angles.
        back: places of the model's links in the order of levels.
        a: arrays by name.
    """

    n: dict[str, float]
    levels: list[dict[str, Array]]
    back: Array
    a: dict[str, Array]


def _levels(model: fb.Model, depth: NDArray[np.int32]) -> list[dict[str, NDArray[Any]]]:
    """Return what each level of hinges needs to be placed on the level above."""
    t, p, out = model.structure.tables, model.params, list[dict[str, NDArray[Any]]]()
    for k in range(2, depth.max() + 1):
        links = np.flatnonzero(depth == k)
        above = list(np.flatnonzero(depth == k - 1))
        axis = p["jnt_axis"][t["link_jnt"][links]]
        K = np.einsum("kji,...k->...ij", EPS, axis)
        R0, address = rotation(p["body_quat"][links]), t["link_qadr"][links]
        out.append(
            {
                "parent": np.array([above.index(i) for i in t["link_parent"][links]]),
                "pos": p["body_pos"][links],
                **{"R0": R0, "RK": R0 @ K, "RKK": R0 @ K @ K},
                **{"q": address, "q0": p["qpos0"][address]},
            }
        )
    return out


def _dofs(model: fb.Model) -> dict[str, NDArray[Any]]:
    """Return which link a dof turns or slides and about what, and which links it moves."""
    t, p = model.structure.tables, model.params
    link, nv = t["dof_link"], model.nv
    axis, slide = np.zeros((nv, 3)), np.zeros((nv, 3))
    slide[:3] = axis[3:6] = np.eye(3)
    axis[6:] = p["jnt_axis"][t["dof_jnt"][6:]]
    moves = np.zeros((model.structure.sizes["nlink"], nv))
    for i in range(1, len(moves)):
        d = t["link_lastdof"][i]
        while d >= 0:
            moves[i, d] = 1.0
            d = t["dof_parent"][d]
    out = {"link": link - 1, "axis": axis, "slide": slide, "moves": moves[1:]}
    out["turns"] = (np.abs(axis).sum(1) > 0.0)[:, None] * 1.0
    out |= {"above": moves[link].T, "damping": p["dof_damping"]}
    return out | {"armature": p["dof_armature"], "diagonal": np.eye(nv)}


def _feet(sim: fb.Simulator) -> dict[str, NDArray[Any]]:
    """Return the spheres that can touch the plane, and the plane."""
    t, p = sim.model.structure.tables, sim.params
    pair = np.flatnonzero(t["pair_kind"] == PLANE_SPHERE)
    plane, ball = t["pair_geom1"][pair], t["pair_geom2"][pair]
    n = rotation(p["geom_quat"][plane[0]])[:, 2]
    along = np.eye(3)[0 if abs(n[0]) < 0.57735 else 1]
    t1 = along - n * (n @ along)
    t1 /= np.linalg.norm(t1)
    weight = p["body_invweight0"][t["geom_body"][np.stack([plane, ball])], 0].sum(0)
    return {
        "foot_link": t["geom_link"][ball] - 1,
        "foot_pos": p["geom_pos"][ball],
        "foot_radius": p["geom_size"][ball, 0],
        "mu": np.maximum(p["geom_friction"][plane, 0], p["geom_friction"][ball, 0]),
        "weight": weight,
        "soft": np.diag(np.repeat(sim.options.regularization * weight, 3)),
        "frame": np.stack([n, t1, np.cross(n, t1)]),
        "ground": p["geom_pos"][plane[0]],
    }


def check(model: fb.Model) -> None:
    """Raise ValueError where the model has what this step does not cover."""
    t, p = model.structure.tables, model.params
    kinds = [int(k) for k in t["link_type"][1:]]
    if kinds != [FREE] + [HINGE] * (len(kinds) - 1) or any(t["body_jntnum"][1:] != 1):
        raise ValueError(f"straight: joints of types {kinds}, expected one free base, then hinges")
    balls = t["pair_kind"] == PLANE_SPHERE
    planes = np.unique(t["pair_geom1"][balls])
    if len(planes) != 1 or np.any(t["pair_rule"][balls]) or np.any(t["pair_condim"][balls] != 3):
        raise ValueError(
            f"straight: spheres on the planes {planes.tolist()}, expected one plane, the larger "
            "friction of a pair and three rows for each contact"
        )
    for name in ("jnt_pos", "jnt_stiffness", "geom_restitution", "contact_compliance"):
        if np.any(p[name]):
            raise ValueError(f"straight: {name} is not zero, which this step does not cover")


def check_states(sim: fb.Simulator, roll: fb.Rollout) -> None:
    """Raise ValueError where a step of one world's rollout has what this step does not cover."""
    p, t, o = sim.params, sim.model.structure.tables, sim.options
    h, q, v = float(p["dt"][0]), roll.q[:-1], roll.v[:-1]
    touch = sim.contacts(q, v, roll.u)
    bodies = t["geom_body"][np.stack([touch.geom1, touch.geom2])]
    load = h * np.linalg.norm(touch.force, axis=-1) * p["body_invweight0"][bodies, 0].sum(0)
    spin = v.reshape(len(v), -1, 6 + sim.model.nu // np.count_nonzero(t["jnt_type"] == FREE))
    (low, high), angle = p["jnt_range"][t["limit_jnt"]].T, q[:, t["jnt_qadr"][t["limit_jnt"]]]
    for what, found, most in (
        ("an overlap [m]", -touch.gap, h * HELD * o.v_recover),
        ("a load [m/s]", load, JAMMED * o.v_recover),
        ("half a step's turn [rad]", 0.5 * h * np.linalg.norm(spin[..., 3:6], axis=-1), 0.5),
        ("minus the room to a limit [rad]", -np.minimum(angle - low, high - angle), -o.margin),
    ):
        largest = found.max(axis=1, initial=-np.inf)
        k = int(largest.argmax())
        if not largest[k] <= most:
            raise ValueError(
                f"straight: {what} is {largest[k]:.3g} in step {k}, expected at most {most:.3g}, "
                "which is what this step covers"
            )


def robot(sim: fb.Simulator, array: Any) -> Robot:
    """Return the constants of a simulator's model as arrays that `array` makes."""
    model, p = sim.model, sim.params
    check(model)
    t = model.structure.tables
    depth = np.zeros(len(t["link_parent"]), np.int32)
    for i in range(1, len(depth)):
        depth[i] = depth[t["link_parent"][i]] + 1
    R = rotation(p["body_iquat"])
    x, y, z = p["body_inertia_products"].T
    o = np.zeros_like(x)
    J = np.array([[o, x, y], [x, o, z], [y, z, o]]).transpose(2, 0, 1)
    J = J + p["body_inertia"][:, :, None] * np.eye(3)
    act = t["jnt_dofadr"][t["act_jnt"]]
    a = {
        **_dofs(model),
        **_feet(sim),
        **{"mass": p["body_mass"][1:], "com": p["body_ipos"][1:], "eps": EPS},
        "inertia": (R @ J @ R.transpose(0, 2, 1))[1:],
        "act_q": t["jnt_qadr"][t["act_jnt"]],
        "act_dof": act,
        "to_dof": np.eye(model.nv)[act] * p["actuator_gear"][:, :1],
        **{"gear": p["actuator_gear"][:, 0], "gain": p["actuator_gainprm"][:, 0]},
        **{"bias": p["actuator_biasprm"].T, "unit": np.eye(3)},
        **{"u_range": p["actuator_ctrlrange"].T, "f_range": p["actuator_forcerange"].T},
        "gravity": np.concatenate([np.zeros(3), -p["gravity"]]),
    }
    recover, h = sim.options.v_recover, float(p["dt"][0])
    n = {"dt": h, "margin": sim.options.margin, "delta": h * HELD * recover}
    n["jam"] = h * sim.options.regularization * recover
    back = np.argsort(np.argsort(depth[1:], kind="stable"), kind="stable")
    levels = [{k: array(v) for k, v in level.items()} for level in _levels(model, depth)]
    constants = {k: array(v) for k, v in a.items()}
    return Robot(n, levels, array(back), constants)


def _turn(xp: Any, r: Robot, quat: Array) -> Array:
    """Return the matrices of unit quaternions."""
    w, K = quat[:, 0, None, None], _skew(xp, r, quat[:, 1:])
    return r.a["unit"] + 2.0 * w * K + 2.0 * K @ K


def _skew(xp: Any, r: Robot, x: Array) -> Array:
    """Return the matrices that take a cross product with x from the left."""
    return xp.einsum("kji,...k->...ij", r.a["eps"], x)


def _unit(xp: Any, quat: Array) -> Array:
    """Return quaternions of length one."""
    return quat / xp.sqrt((quat * quat).sum(-1))[:, None]


def places(xp: Any, r: Robot, q: Array) -> tuple[Array, Array]:
    """Return turns and positions of all links, level by level from the base."""
    R, x = _turn(xp, r, _unit(xp, q[:, 3:7]))[:, None], q[:, None, :3]
    turns, positions = [R], [x]
    for level in r.levels:
        up = R[:, level["parent"]]
        angle = (q[:, level["q"]] - level["q0"])[..., None, None]
        x = x[:, level["parent"]] + xp.einsum("blij,lj->bli", up, level["pos"])
        about = xp.sin(angle) * level["RK"] + (1.0 - xp.cos(angle)) * level["RKK"]
        R = up @ (level["R0"] + about)
        turns.append(R)
        positions.append(x)
    return xp.concatenate(turns, 1)[:, r.back], xp.concatenate(positions, 1)[:, r.back]


def _inertias(xp: Any, r: Robot, R: Array, x: Array) -> Array:
    """Return the spatial inertias of all links about the world's origin."""
    m = r.a["mass"][:, None, None]
    c = _skew(xp, r, x + xp.einsum("blij,lj->bli", R, r.a["com"]))
    turn = R @ r.a["inertia"] @ xp.swapaxes(R, -1, -2) - m * (c @ c)
    line = m * r.a["unit"] + 0.0 * c
    return xp.concatenate(
        [xp.concatenate([turn, m * c], -1), xp.concatenate([-m * c, line], -1)], -2
    )


def mid_step_torque(xp: Any, r: Robot, R: Array, w: Array) -> Array:
    """Return what the middle of the step adds to the base's gyroscopic torque (spin.md)."""
    inertia = R @ r.a["inertia"][0] @ xp.swapaxes(R, -1, -2)
    turned = (inertia @ w[..., None])[..., 0]
    D = _skew(xp, r, w) @ inertia - _skew(xp, r, turned)
    half = 0.5 * r.n["dt"]
    y = xp.linalg.solve(inertia + half * D, xp.linalg.cross(w, turned)[..., None])
    return -half * (D @ y)[..., 0]


def dynamics(xp: Any, r: Robot, R: Array, x: Array, v: Array) -> tuple[Array, Array, Array]:
    """Return the mass matrix by composite bodies, the bias forces, and the motion of each dof."""
    a, cross = r.a, xp.linalg.cross
    turn = xp.einsum("bdij,dj->bdi", R[:, a["link"]], a["axis"])
    S = xp.concatenate([turn, cross(x[:, a["link"]], turn) + a["slide"]], -1)
    V = xp.einsum("ld,bdi->bli", a["moves"], S * v[..., None])
    w, s = V[:, a["link"]], S * (v[..., None] * a["turns"])
    rate = xp.concatenate(
        [
            cross(w[..., :3], s[..., :3]),
            cross(w[..., :3], s[..., 3:]) + cross(w[..., 3:], s[..., :3]),
        ],
        -1,
    )
    acceleration = xp.einsum("ld,bdi->bli", a["moves"], rate) + a["gravity"]
    inertia = _inertias(xp, r, R, x)
    h = xp.einsum("blij,blj->bli", inertia, V)
    force = xp.einsum("blij,blj->bli", inertia, acceleration) + xp.concatenate(
        [
            cross(V[..., :3], h[..., :3]) + cross(V[..., 3:], h[..., 3:]),
            cross(V[..., :3], h[..., 3:]),
        ],
        -1,
    )
    bias = (S * xp.einsum("ld,bli->bdi", a["moves"], force)).sum(-1)
    # the base alone has three dofs that turn freely
    torque = mid_step_torque(xp, r, R[:, 0], V[:, 0, :3])
    free = (S[:, :6, :3] * torque[:, None]).sum(-1)
    bias = xp.concatenate([bias[:, :6] + free, bias[:, 6:]], -1)
    composite = xp.einsum("ld,blij->bdij", a["moves"], inertia)
    H = S @ xp.einsum("bdij,bdj->bid", composite, S) * a["above"]
    return H + xp.swapaxes(H, -1, -2) * (1.0 - a["above"]), bias, S


def actuation(xp: Any, r: Robot, q: Array, v: Array, u: Array) -> tuple[Array, Array]:
    """Return joint forces and the damping that the step treats implicitly."""
    a = r.a
    target = xp.clip(u, a["u_range"][0], a["u_range"][1])
    length, speed = q[:, a["act_q"]] * a["gear"], v[:, a["act_dof"]] * a["gear"]
    raw = a["gain"] * target + a["bias"][0] + a["bias"][1] * length + a["bias"][2] * speed
    force = xp.clip(raw, a["f_range"][0], a["f_range"][1])
    damping = xp.where(raw == force, -a["bias"][2], 0.0 * a["bias"][2]) * a["gear"]
    return force @ a["to_dof"] - a["damping"] * v, damping @ a["to_dof"] + a["damping"]


def contacts(xp: Any, r: Robot, R: Array, x: Array, S: Array) -> tuple[Array, Array]:
    """Return gaps, and the rows of normal and tangents of every foot: (robots, feet, 3, dofs)."""
    a = r.a
    centre = x[:, a["foot_link"]] + xp.einsum("bfij,fj->bfi", R[:, a["foot_link"]], a["foot_pos"])
    height = (centre - a["ground"]) @ a["frame"][0]
    point = centre - a["frame"][0] * (0.5 * (height + a["foot_radius"]))[..., None]
    at = S[:, None, :, 3:] + xp.linalg.cross(S[:, None, :, :3], point[:, :, None])
    at = at * a["moves"][a["foot_link"]][..., None]
    return height - a["foot_radius"], xp.einsum("ki,bfdi->bfkd", a["frame"], at)


def gap_velocity(xp: Any, r: Robot, gap: Array) -> Array:
    """Return the velocity that closes a gap in one step; less where it is too deep (L.13)."""
    delta, jam = r.n["delta"], r.n["jam"]
    over = -gap > delta
    deep = xp.where(over, -gap, delta * xp.ones_like(gap))
    x = (deep - delta) / delta
    held = jam + (deep - jam) / (1.0 + x * x * x)
    return xp.where(over, -held, gap) / r.n["dt"]


def disc(xp: Any, t: Array, radius: Array) -> Array:
    """Return the points of discs nearest to t."""
    length2 = (t * t).sum(-1)
    outside = length2 > radius * radius
    length = xp.sqrt(xp.where(outside, length2, xp.ones_like(length2)))
    return t * xp.where(outside, radius / length, xp.ones_like(length))[..., None]


def sweep(xp: Any, A: Array, mu: Array, on: Array, state: Any) -> Any:
    """Return impulses after one more sweep: every foot's normal, then its friction in the cone.

    Args:
        xp: the library.
        A: (robots, feet, 3, 3 feet), rows of the matrix over the diagonal of its columns.
        mu: (feet,), friction.
        on: (robots, feet), 1 where a foot can touch, 0 elsewhere.
        state: the residual (robots, 3 feet), and tuples of normal and tangent impulses by foot.
    """
    g, normal, tangent = state[0], list(state[1]), list(state[2])
    for f in range(len(normal)):
        i = 3 * f
        d = xp.maximum(g[:, i], -normal[f]) * on[:, f]
        normal[f] = normal[f] + d
        g = g - A[:, f, 0] * d[:, None]
        new = disc(xp, tangent[f] + g[:, i + 1 : i + 3], mu[f] * normal[f])
        d = new - tangent[f]
        tangent[f] = new
        g = g - (d[:, None] @ A[:, f, 1:])[:, 0]
    return g, tuple(normal), tuple(tangent)


def impulses(xp: Any, loop: Any, r: Robot, A: Array, b: Array, on: Array, sweeps: int) -> Array:
    """Return the impulses (robots, 3 feet) of the row problem after a fixed number of sweeps."""
    feet = on.shape[1]
    blocks = xp.diagonal(A.reshape(-1, feet, 3, feet, 3), 0, 1, 3)  # (robots, 3, 3, feet)
    n, s, t, o = blocks[:, 0, 0], blocks[:, 1, 1], blocks[:, 2, 2], blocks[:, 1, 2]
    half = 0.5 * (s - t)
    square = half * half + o * o
    root = xp.sqrt(xp.where(square > 0.0, square, xp.ones_like(square)))
    top = 0.5 * (s + t) + xp.where(square > 0.0, root, xp.zeros_like(root))
    D = xp.stack([n, top, top], -1).reshape(b.shape)
    scaled = (A / D[:, None]).reshape(-1, feet, 3, 3 * feet)
    g = -b / D
    start = (g, (0.0 * g[:, 0],) * feet, (0.0 * g[:, :2],) * feet)
    _, normal, tangent = loop(sweeps, lambda s: sweep(xp, scaled, r.a["mu"], on, s), start)
    each = [xp.concatenate([x[:, None], y], -1) for x, y in zip(normal, tangent, strict=True)]
    return xp.concatenate(each, -1)


def integrate(xp: Any, r: Robot, q: Array, v: Array) -> Array:
    """Return positions after a step with velocities v."""
    h = r.n["dt"]
    w = h * v[:, 3:6]
    square = (w * w).sum(-1)[:, None]
    small = square < 1e-6
    angle = xp.sqrt(xp.where(small, xp.ones_like(square), square))
    series = 0.5 - square / 48.0 + square * square / 3840.0
    k = xp.where(small, series, xp.sin(0.5 * angle) / angle)
    c = xp.where(small, 1.0 - square / 8.0 + square * square / 384.0, xp.cos(0.5 * angle))
    u = _unit(xp, q[:, 3:7])
    y = k * w
    scalar = u[:, :1] * c - (u[:, 1:] * y).sum(-1)[:, None]
    vector = u[:, :1] * y + c * u[:, 1:] + xp.linalg.cross(u[:, 1:], y)
    quat = _unit(xp, xp.concatenate([scalar, vector], -1))
    return xp.concatenate([q[:, :3] + h * v[:, :3], quat, q[:, 7:] + h * v[:, 6:]], -1)


def step(
    xp: Any, loop: Any, r: Robot, q: Array, v: Array, u: Array, sweeps: int
) -> tuple[Array, Array]:
    """Return the next positions and velocities of robots on the ground.

    Args:
        xp: torch or jax.numpy.
        loop: a call (count, function, state) that applies the function count times.
        r: constants, see robot().
        q: (robots, nq), positions.
        v: (robots, nv), velocities.
        u: (robots, nu), servo targets.
        sweeps: of projected Gauss-Seidel.
    """
    h = r.n["dt"]
    R, x = places(xp, r, q)
    M, bias, S = dynamics(xp, r, R, x, v)
    tau, damping = actuation(xp, r, q, v, u)
    gap, J = contacts(xp, r, R, x, S)
    rows = J.reshape(-1, 3 * gap.shape[1], v.shape[1])
    Mh = M + (r.a["armature"] + h * damping)[:, None] * r.a["diagonal"]
    both = xp.concatenate([(tau - bias)[..., None], xp.swapaxes(rows, -1, -2)], -1)
    solved = xp.linalg.solve(Mh, both)
    free = v + h * solved[..., 0]
    b = xp.einsum("bfkd,bd->bfk", J, free)
    on = xp.where((gap < r.n["margin"]) | (gap + h * b[..., 0] < 0.0), 1.0, 0.0)
    beta = gap_velocity(xp, r, gap)
    b = xp.concatenate([b[..., :1] + beta[..., None], b[..., 1:]], -1)
    A = rows @ solved[..., 1:] + r.a["soft"]
    lam = impulses(xp, loop, r, A, b.reshape(len(b), -1), on, sweeps)
    v = free + (solved[..., 1:] @ lam[..., None])[..., 0]
    return integrate(xp, r, q, v), v
