"""Jacobians of one step on random models with contact: against reverse mode, and bit by bit.

Reverse mode sweeps cotangents over the links; linearize differentiates the equations of the step by
composite bodies. The two share the adjoints of touches and joints, and nothing of the dynamics.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import ArrayLike

import featherback as fb
from featherback.errors import WorldError
from tests.property.test_random_gradients import Vector, draw

SEEDS = 120


def product(a: Vector, b: Vector) -> Vector:
    """Return the product of two quaternions."""
    vector = a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:])
    return np.r_[a[0] * b[0] - a[1:] @ b[1:], vector]


def quaternions(model: fb.Model) -> list[tuple[int, int]]:
    """Return where each quaternion starts in q, and its turn in the tangent space."""
    m = model.mujoco
    shift = {0: 3, 1: 0}
    return [
        (int(qa) + shift[int(kind)], int(da) + shift[int(kind)])
        for kind, qa, da in zip(m.jnt_type, m.jnt_qposadr, m.jnt_dofadr, strict=True)
        if int(kind) in shift
    ]


def lift(model: fb.Model, q: Vector, tangent: Vector) -> Vector:
    """Return a tangent direction at q as an ambient one."""
    out = np.zeros(model.nq)
    m = model.mujoco
    for kind, qa, da in zip(m.jnt_type, m.jnt_qposadr, m.jnt_dofadr, strict=True):
        n = 3 if kind == 0 else 0 if kind == 1 else 1
        out[qa : qa + n] = tangent[da : da + n]
    for qa, da in quaternions(model):
        unit = q[qa : qa + 4] / np.linalg.norm(q[qa : qa + 4])
        out[qa : qa + 4] = 0.5 * product(unit, np.r_[0.0, tangent[da : da + 3]])
    return out


@pytest.mark.parametrize("chunk", range(4))
def test_columns_agree_with_reverse_mode(chunk: int) -> None:
    """Agree with vjp on random pairs, with wrenches on bodies and both laws of friction."""
    worst, touched, missing = 0.0, 0, 0
    for seed in range(chunk, SEEDS, 4):
        model, q, v, rng = draw(seed)
        friction = "box" if seed % 3 == 0 else "cone"
        sim = fb.Simulator(model, tolerance=1e-13, friction=friction)
        u = rng.normal(size=model.nu)
        params: dict[str, ArrayLike] = {}
        if seed % 5 == 0:
            params["xfrc_applied"] = rng.normal(size=sim.params["xfrc_applied"].shape)
        try:
            A, B = sim.linearize(q, v, u, params=params)
        except WorldError:
            missing += 1
            continue
        roll = sim.rollout(q, v, u[None], params=params)
        bars = rng.normal(size=roll.q.shape), rng.normal(size=roll.v.shape)
        bars[0][0], bars[1][0] = 0.0, 0.0
        gradient = roll.vjp(*bars)
        touched += int(sim.contacts(q, v, u, params=params).count)
        for _ in range(3):
            t, dv, du = (rng.normal(size=n) for n in (model.nv, model.nv, model.nu))
            found = A @ np.r_[t, dv] + B @ du
            moved = lift(model, roll.q[1], found[: model.nv])
            forward = np.r_[bars[0][1] * moved, bars[1][1] * found[model.nv :]]
            backward = [gradient.q * lift(model, q, t), gradient.v * dv, gradient.u[0] * du]
            size = np.abs(forward).sum() + sum(np.abs(a).sum() for a in backward)
            error = abs(forward.sum() - sum(a.sum() for a in backward)) / size
            worst = max(worst, float(error))
            assert error <= 1e-9, f"seed {seed}"
    print(
        f"seeds {chunk} to {SEEDS} by 4: worst {worst:.1e}, {touched} contacts, {missing} refused"
    )
    assert touched > 50
    assert missing < 3


def test_worlds_of_a_batch_keep_their_bits() -> None:
    """Give a world the bits it has alone where lanes differ in rows and one solve is unfinished."""
    model = fb.models.quadruped()
    sim = fb.Simulator(model, max_sweeps=3, solver="pgs", threads=1)
    rng = np.random.default_rng(0)
    print("seed 0")
    q = np.tile(model.q0, (11, 1))
    q[:, 2] += np.linspace(-0.02, 0.2, 11)
    v = 0.3 * rng.normal(size=(11, model.nv))
    u = rng.normal(size=(11, model.nu))
    unfinished = sim.rollout(q, v, u[:, None]).status == fb.Status.UNCONVERGED
    assert 0 < unfinished.sum() < 11
    A, B = sim.linearize(q, v, u)
    for k in range(11):
        alone = sim.linearize(q[k], v[k], u[k])
        assert np.array_equal(A[k], alone[0]) and np.array_equal(B[k], alone[1]), k


def test_too_many_rows_together() -> None:
    """Give worlds that touch at different places their own Jacobians when rows do not fit."""
    model = fb.models.box()
    sim, alone = fb.Simulator(model, max_contacts=4), fb.Simulator(model)
    q = np.tile(model.q0, (8, 1))
    turns = [[1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0], [1, -1, 0, 0]] * 2
    q[:, 3:7] = np.array(turns) / np.linalg.norm(turns, axis=1, keepdims=True)
    size = model.params["geom_size"][-1]
    q[:, 2] = np.where(np.arange(8) % 4 < 2, size[2], size[1])
    v = np.zeros((8, model.nv))
    A, _ = sim.linearize(q, v)
    for k in range(8):
        assert np.array_equal(A[k], alone.linearize(q[k], v[k])[0])
