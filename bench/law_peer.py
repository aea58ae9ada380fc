"""MuJoCo beside contact="mujoco": the same options, run to its end, and its fastest setting.

MuJoCo stops its solver where the cost no longer improves by its tolerance, so how near it comes to
the minimum depends on the file. `fastest` looks for the cheapest of its settings whose
accelerations are as near the minimum as asked for.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
from mujoco import rollout as mujoco_rollout
from numpy.typing import NDArray

import featherback as fb

Array = NDArray[np.float64]

FULL = mujoco.mjtState.mjSTATE_FULLPHYSICS
NUMBERS = {"euler": 0, "rk4": 1, "implicitfast": 3}  # MuJoCo's numbers of integrators
ISLANDS = int(mujoco.mjtDisableBit.mjDSBL_ISLAND)
WARM = int(mujoco.mjtDisableBit.mjDSBL_WARMSTART)
TOLERANCES = (1e-8, 1e-10, 1e-12, 1e-14, 0.0)
DENSE, SPARSE = int(mujoco.mjtJacobian.mjJAC_DENSE), int(mujoco.mjtJacobian.mjJAC_SPARSE)
LARGE = 150  # dofs from which dense matrices are not tried


@dataclass(frozen=True)
class Setting:
    """How MuJoCo's Newton solver is run.

    Attributes:
        jacobian: "dense" or "sparse".
        islands: whether islands are solved by themselves.
        tolerance: of the solver.
        error: of its accelerations, relative, in all but a twentieth of the states.
        us: time of a step when it was chosen [us].
    """

    jacobian: str
    islands: bool
    tolerance: float
    error: float = np.inf
    us: float = np.inf

    def __str__(self) -> str:
        """Return the setting in words."""
        return f"{self.jacobian}{', islands' if self.islands else ''}, {self.tolerance:g}"

    def apply(self, m: mujoco.MjModel) -> mujoco.MjModel:
        """Return a copy of a compiled model with this setting, warm starts included."""
        m = copy.deepcopy(m)
        m.opt.solver = int(mujoco.mjtSolver.mjSOL_NEWTON)
        m.opt.iterations, m.opt.tolerance = 100, self.tolerance
        m.opt.jacobian = DENSE if self.jacobian == "dense" else SPARSE
        m.opt.disableflags &= ~(ISLANDS | WARM)
        m.opt.disableflags |= 0 if self.islands else ISLANDS
        return m


def law_of(model: fb.Model) -> dict[str, Any]:
    """Return options of a simulator for the law of a file, with Euler where it has no other."""
    own = model.structure.law["integrator"]
    has = own in NUMBERS and not (own == "rk4" and model.na)
    return {"contact": "mujoco", "integrator": own if has else "euler"}


def matched(model: fb.Model) -> mujoco.MjModel:
    """Return the compiled model with the integrator that `law_of` chooses."""
    m = copy.deepcopy(model.mujoco)
    m.opt.integrator = NUMBERS[law_of(model)["integrator"]]
    return m


def to_its_end(m: mujoco.MjModel) -> mujoco.MjModel:
    """Return a copy whose solver finds the minimum from a cold start."""
    m = copy.deepcopy(m)
    m.opt.solver = int(mujoco.mjtSolver.mjSOL_NEWTON)
    m.opt.tolerance, m.opt.iterations = 0.0, 60
    m.opt.ls_tolerance, m.opt.ls_iterations = 1e-12, 200
    m.opt.jacobian, m.opt.noslip_iterations = DENSE, 0
    m.opt.disableflags |= ISLANDS | WARM
    return m


def full_state(m: mujoco.MjModel, q: Array, v: Array, act: Array | None) -> Array:
    """Return a state, or one for each world, as MuJoCo's rollout takes it."""
    parts = [np.zeros((*q.shape[:-1], 1)), q, v, *([] if act is None else [act])]
    state = np.concatenate(parts, axis=-1)
    rest = mujoco.mj_stateSize(m, FULL) - state.shape[-1]
    return np.concatenate([state, np.zeros((*q.shape[:-1], rest))], axis=-1)


class Runner:
    """MuJoCo's rollout of some worlds, one after another, as a call without arguments."""

    def __init__(self, m: mujoco.MjModel, first: Array, u: Array) -> None:
        """Take the states at the start (worlds, ...) and the controls (worlds, steps, nu)."""
        self.m, self.data = m, mujoco.MjData(m)
        self.first, self.u, self.steps = first, u, u.shape[-2]

    def __call__(self) -> Array:
        """Take the steps; return the states."""
        control = self.u if self.u.shape[-1] else None
        return mujoco_rollout.rollout(self.m, self.data, self.first, control, nstep=self.steps)[0]


def visit(m: mujoco.MjModel, first: Array, u: Array, every: int) -> Iterator[mujoco.MjData]:
    """Yield the data before every so many steps of one world, with the warm start it would take."""
    data = mujoco.MjData(m)
    mujoco.mj_setState(m, data, first, FULL)
    for k, control in enumerate(u):
        data.ctrl[:] = control
        if k % every == every - 1:
            yield copy.copy(data)
        mujoco.mj_step(m, data)


def distance(m: mujoco.MjModel, first: Array, u: Array, every: int) -> float:
    """Return how far accelerations are from the minimum, relative, in all but a twentieth."""
    exact = to_its_end(m)
    errors: list[float] = []
    for data in visit(m, first, u, every):
        state = np.empty(mujoco.mj_stateSize(m, FULL))
        mujoco.mj_getState(m, data, state, FULL)
        other = mujoco.MjData(exact)
        mujoco.mj_setState(exact, other, state, FULL)
        other.ctrl[:] = data.ctrl
        mujoco.mj_forward(m, data)
        mujoco.mj_forward(exact, other)
        size = max(np.abs(other.qacc).max(), np.abs(other.qacc_smooth).max(), 1e-9)
        errors.append(float(np.abs(data.qacc - other.qacc).max() / size))
    return float(np.quantile(errors, 0.95))


def fastest(m: mujoco.MjModel, first: Array, u: Array, near: float) -> Setting:
    """Return the fastest setting of MuJoCo's Newton solver that comes near the minimum."""
    kinds = ("sparse",) if m.nv > LARGE else ("dense", "sparse")
    every = max(len(u) // 20, 1)
    best = Setting(kinds[0], True, 0.0)
    for jacobian in kinds:
        for islands in (True, False):
            for tolerance in TOLERANCES:
                setting = Setting(jacobian, islands, tolerance)
                candidate = setting.apply(m)
                error = distance(candidate, first, u, every)
                # the last is taken as it is
                if error > near and tolerance > 0.0:
                    continue
                run, times = Runner(candidate, first[None], u[None]), []
                for _ in range(3):
                    begin = time.process_time()
                    run()
                    times.append((time.process_time() - begin) / len(u) * 1e6)
                if min(times) < best.us:
                    best = Setting(jacobian, islands, tolerance, error, min(times))
                break
    return best


def differences(
    m: mujoco.MjModel, state: Array, u: Array, eps: float, centred: bool = True
) -> tuple[Array, Array]:
    """Return A and B of one step by differences, as `mjd_transitionFD`, which refuses RK4."""
    n = 2 * m.nv + m.na
    A, B = np.zeros((n, n)), np.zeros((n, m.nu))
    data = mujoco.MjData(m)
    if m.opt.integrator != NUMBERS["rk4"]:
        mujoco.mj_setState(m, data, state, FULL)
        data.ctrl[:] = u
        mujoco.mjd_transitionFD(m, data, eps, centred, A, B if m.nu else None, None, None)
        return A, B
    base = _moved(m, data, state, u, np.zeros(n + m.nu))
    for k in range(n + m.nu):
        step = np.zeros(n + m.nu)
        step[k] = eps
        ahead = _moved(m, data, state, u, step)
        behind = _moved(m, data, state, u, -step) if centred else base
        column = _minus(m, ahead, behind) / (2 * eps if centred else eps)
        (A if k < n else B)[:, k if k < n else k - n] = column
    return A, B


def _moved(m: mujoco.MjModel, data: Any, state: Array, u: Array, step: Array) -> Array:
    """Return the state after a step from one that is moved by (dq, dv, dact, du)."""
    mujoco.mj_setState(m, data, state, FULL)
    mujoco.mj_integratePos(m, data.qpos, step[: m.nv], 1.0)
    data.qvel[:] += step[m.nv : 2 * m.nv]
    data.act[:] += step[2 * m.nv : 2 * m.nv + m.na]
    data.ctrl[:] = u + step[2 * m.nv + m.na :]
    mujoco.mj_step(m, data)
    return np.concatenate([data.qpos, data.qvel, data.act])


def _minus(m: mujoco.MjModel, one: Array, other: Array) -> Array:
    """Return the difference of two states in the tangent space."""
    dq = np.empty(m.nv)
    mujoco.mj_differentiatePos(m, dq, 1.0, other[: m.nq], one[: m.nq])
    return np.concatenate([dq, one[m.nq :] - other[m.nq :]])
