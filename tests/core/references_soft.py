"""Independent values of the ops of MuJoCo's contact law: NumPy, or MuJoCo itself."""

from __future__ import annotations

from collections.abc import Callable

import mujoco
import numpy as np

import featherback as fb
from tests.core.references import normalised, split
from tests.property.soft import exact_mujoco

Vector = np.ndarray
ROOT = 0.8  # 1 / sqrt(impratio) in tests/native/ops_soft.hpp
LEAST, MOST = 1e-4, 0.9999  # impedance


def impedance(x: Vector) -> Vector:
    """Return d(x) of (solimp, x): a sigmoid between two values."""
    low, high, mid = np.clip(x[[0, 1, 3]], LEAST, MOST)
    width, power, gap = max(x[2], 0.0), max(x[4], 1.0), abs(x[5])
    if low == high or width <= 1e-15:
        return np.array([(low + high) / 2])
    u = min(gap / width, 1.0)
    lower = mid * (u / mid) ** power
    upper = 1 - (1 - mid) * ((1 - u) / (1 - mid)) ** power
    return np.array([low + (lower if u <= mid else upper) * (high - low)])


def row_spring(safe: bool) -> Callable[[Vector], Vector]:
    """Return (K, B) of (solref, solimp[1], h)."""

    def value(x: Vector) -> Vector:
        first, second, d, h = x[0], x[1], np.clip(x[2], LEAST, MOST), x[3]
        if first <= 0 and second <= 0:
            return np.array([-first / d**2, -second / d])
        time, ratio = (first, second) if first > 0 and second > 0 else (0.02, 1.0)
        time = max(time, 2 * h) if safe else time
        return np.array([1 / (d * time * ratio) ** 2, 2 / (d * time)])

    return value


def reference(sprung: bool) -> Callable[[Vector], Vector]:
    """Return (D, K d, B) of (solref, solimp, x, weight, h)."""

    def value(x: Vector) -> Vector:
        d = impedance(x[2:8])[0]
        K, B = row_spring(True)(np.r_[x[:2], x[3], x[9]])
        return np.array([d / ((1 - d) * x[8]), K * d if sprung else 0.0, B])

    return value


def equality(x: Vector) -> Vector:
    """Return the force of rows on both sides, x = (D, y)."""
    return -x[0] * x[1:]


def friction(x: Vector) -> Vector:
    """Return the force of dry friction, x = (D, loss, y)."""
    return np.clip(-x[0] * x[2:], -x[1], x[1])


def one_sided(x: Vector) -> Vector:
    """Return the force of a row on one side, x = (D, y)."""
    return np.maximum(-x[0] * x[1:], 0.0)


def ellipse(x: Vector) -> Vector:
    """Return the force of an elliptic contact, x = (D, mu, y), zone by zone."""
    rows = len(x) // 2
    D, own, y = x[0], x[1:rows], x[rows:]
    mu = own[0] * ROOT
    c = np.r_[mu, own]
    normal, tangent = (c * y)[0], np.linalg.norm((c * y)[1:])
    if normal >= mu * tangent:
        return np.zeros(rows)
    if mu * normal + tangent <= 0:
        return -D * (c / mu) ** 2 * y
    slope = np.r_[1.0, -mu * (c * y)[1:] / tangent]
    return -D / (mu**2 * (1 + mu**2)) * (normal - mu * tangent) * c * slope


def pyramid(x: Vector) -> Vector:
    """Return the force of a pyramidal contact, x = (D, mu, y), as the sum over its edges."""
    rows = len(x) // 2
    D, mu, y = x[0], x[1:rows], x[rows:]
    force = np.zeros(rows)
    for k in range(1, rows):
        for sign in (1.0, -1.0):
            edge = np.zeros(rows)
            edge[0], edge[k] = 1.0, sign * mu[k - 1]
            force += D * max(-(edge @ y), 0.0) * edge
    return force


def quaternion(x: Vector) -> Vector:
    """Return x / |x| with its largest entry positive."""
    q = normalised(x)
    return q * np.sign(q[np.argmax(np.abs(q))])


def contact_law(model: fb.Model, params: dict[str, Vector], flat: Vector) -> Vector:
    """Return solref, solreffriction, solimp, margin and five frictions of every pair."""
    m, theta, tables = model.mujoco, split(flat, params), model.structure.tables
    frictions, margins = theta["pair_friction"].reshape(-1), theta["geom_margin"].reshape(-1)
    out = []
    names = ("pair_geom1", "pair_geom2", "pair_explicit")
    for k, (g, h, own) in enumerate(zip(*(tables[name] for name in names), strict=True)):
        if own >= 0:
            law = [theta[f"pair_{name}"][own] for name in ("solref", "solreffriction", "solimp")]
            margin, rest = theta["pair_margin"].reshape(-1)[own], theta["pair_friction_rest"][own]
            out += [*law, [margin], np.maximum(np.r_[frictions[k], rest], 1e-5)]
            continue
        mix = theta["geom_solmix"].reshape(-1)[[g, h]]
        share = mix[0] / mix.sum()
        first, second = m.geom_priority[g], m.geom_priority[h]
        if first != second:
            share = float(first > second)
        refs, imps = theta["geom_solref"][[g, h]], theta["geom_solimp"][[g, h]]
        solref = share * refs[0] + (1 - share) * refs[1]
        if first == second and np.any(refs[:, 0] <= 0):
            solref = refs.min(axis=0)
        three = theta["geom_friction"][[g, h]]
        mu = three[0 if first > second else 1] if first != second else three.max(axis=0)
        solimp = share * imps[0] + (1 - share) * imps[1]
        out += [
            solref,
            np.zeros(2),
            solimp,
            [margins[[g, h]].sum()],
            np.maximum(mu[[0, 0, 1, 2, 2]], 1e-5),
        ]
    return np.concatenate(out)


def mujoco_step(sim: fb.Simulator, options: dict[str, object], x: Vector) -> Vector:
    """Return MuJoCo's step at x = (q, v, act, u), its solver run to the end."""
    m = exact_mujoco(sim.model, options)
    data = mujoco.MjData(m)
    data.qpos, data.qvel, data.act, data.ctrl = np.split(x, np.cumsum([m.nq, m.nv, m.na]))
    mujoco.mj_normalizeQuat(m, data.qpos)
    mujoco.mj_step(m, data)
    return np.r_[data.qpos, data.qvel, data.act]
