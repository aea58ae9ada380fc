"""Steps of a robot of the corpus: which are flagged, what the solve leaves, and what they cost.

A robot is stepped from its default pose and from its first keyframe, under random controls, under
both contact laws and in MuJoCo; one that has no floor stands on a plane below its lowest geom.
Times are those of a rollout of all steps in one call, here and in MuJoCo, on one thread, of the
processor, so that neither Python's loop nor other programs count.
Residuals are those of the states that were visited, each a world of a batch; `check_gradients`
judges gradients near one of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

State = tuple[Any, ...]  # q, v, and act where there is any

LAWS = ("hard", "mujoco")
HELD = 10  # steps for which a control is held
FREE_RANGE = 1.0  # controls without limits are drawn up to this
FALL = 1e-3  # height over the floor from which a robot falls [m]
FASTER = 3.0  # joint speeds may be this many times MuJoCo's largest
STILL = 0.01  # smallest speed that counts for MuJoCo's largest [rad/s or m/s]
REPEATS, ENOUGH = 3, 2e8  # rollouts that are timed at most, and when it is enough [ns]
SLOW = 5.0  # steps that cost more than this many of MuJoCo's are counted
CHUNK = 64  # visited states whose step and gradient are taken in one call
CHECKED = 100  # visited state from which gradients are checked
GRADIENTS = ({"steps": 5, "draws": 3}, {"steps": 1, "draws": 5})  # of that check, and of another
COUNTED = ("UNCONVERGED", "NO_GRADIENT", "CONTACT_OVERFLOW", "NONFINITE")  # flags


@dataclass
class Run:
    """What became of the steps from one pose.

    Attributes:
        law: the contact law.
        pose: "default" or the name of the keyframe.
        steps: how many were taken.
        over: whether they are fewer than asked for, since the time was over.
        flagged: number of steps by flag.
        residual: largest residual of a contact solve [m/s; under MuJoCo's law a share].
        where: numbers of the unconverged steps and their residuals [m/s].
        speed: largest speed of a joint [rad/s or m/s].
        peer_speed: largest one in MuJoCo's steps.
        us: mean time of a step in a rollout [us].
        peer_us: mean time of MuJoCo's [us].
        rows: largest number of constraint rows in MuJoCo's steps.
        peer_warnings: number of MuJoCo's warnings; it resets a state that is not finite.
        lines: lines along which gradients were compared with differences.
        gradient: largest error of those, relative to the largest entry of a gradient.
        wrong: where a gradient is not right, as the check says it.
    """

    law: str
    pose: str
    steps: int = 0
    over: bool = False
    flagged: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0))
    residual: float = 0.0
    where: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])
    speed: float = 0.0
    peer_speed: float = 0.0
    us: float = 0.0
    peer_us: float = 0.0
    rows: int = 0
    peer_warnings: int = 0
    lines: int = 0
    gradient: float = 0.0
    wrong: str = ""

    @property
    def solved(self) -> bool:
        """Whether every step was solved and stayed finite, where MuJoCo gave no warning."""
        lost = self.flagged["UNCONVERGED"] or self.flagged["NONFINITE"]
        return not lost or bool(self.peer_warnings)

    @property
    def too_fast(self) -> bool:
        """Whether a joint moved much faster than any in MuJoCo, where that gave no warning."""
        return self.speed > FASTER * max(self.peer_speed, STILL) and not self.peer_warnings

    @property
    def slow(self) -> bool:
        """Whether a step costs many times that of MuJoCo's."""
        return self.us > SLOW * self.peer_us

    def __str__(self) -> str:
        """Return one line; flags that no step has are left out."""
        flags = "".join(f", {n} {name}" for name, n in self.flagged.items() if n)
        over = ", the time was over" if self.over else ""
        warned = f", {self.peer_warnings} warnings" if self.peer_warnings else ""
        checked = f"gradient to {self.gradient:.1e} on {self.lines} lines"
        wrong = f"; WRONG: {self.wrong}" if self.wrong else ""
        return (
            f"{self.law}, {self.pose}: {self.steps} steps{over}{flags}, "
            f"residual {self.residual:.1e}, speed {self.speed:.3g} (MuJoCo {self.peer_speed:.3g})"
            f"{' TOO FAST' if self.too_fast else ''}, {self.us:.1f} us "
            f"(MuJoCo {self.peer_us:.1f} us, {self.rows} rows{warned}), "
            f"{checked if self.lines else 'no gradient compared'}{wrong}"
        )


def poses(model: Any) -> Iterator[tuple[str, State]]:
    """Yield the default pose and the first keyframe, each as (q, v) or (q, v, act)."""
    rest = (np.zeros(model.na),) if model.na else ()
    yield "default", (np.array(model.q0), np.zeros(model.nv), *rest)
    if model.keyframe_names:
        yield str(model.keyframe_names[0]), tuple(np.array(a) for a in model.keyframe(0))


def controls(compiled: Any, steps: int, seed: int) -> Any:
    """Return random controls [steps, nu] within their limits, each held for some steps."""
    rng = np.random.default_rng(seed)
    limited = (compiled.actuator_ctrllimited != 0)[:, None]
    low, high = np.where(limited, compiled.actuator_ctrlrange, (-FREE_RANGE, FREE_RANGE)).T
    draws = rng.uniform(low, high, (-(-steps // HELD), compiled.nu))
    return np.repeat(draws, HELD, axis=0)[:steps]


def joint_dofs(compiled: Any) -> Any:
    """Return which dofs are those of joints between bodies; all, where there are none."""
    inner = compiled.jnt_type[compiled.dof_jntid] != 0
    return inner if inner.any() else ~inner


# -------------------------------------------------------------------------------- floor


def floor_height(model: Any) -> float | None:
    """Return where a floor has to lie below all poses; None where there is one, or nothing."""
    import mujoco

    compiled = model.mujoco
    ground = (int(mujoco.mjtGeom.mjGEOM_PLANE), int(mujoco.mjtGeom.mjGEOM_HFIELD))
    touching = np.flatnonzero((compiled.geom_contype != 0) | (compiled.geom_conaffinity != 0))
    if not touching.size or np.isin(compiled.geom_type[touching], ground).any():
        return None
    data, lowest = mujoco.MjData(compiled), np.inf
    for _, state in poses(model):
        data.qpos[:] = state[0]
        mujoco.mj_kinematics(compiled, data)
        lowest = min(lowest, *(bottom(compiled, data, int(geom)) for geom in touching))
    return float(lowest) - FALL


def bottom(compiled: Any, data: Any, geom: int) -> float:
    """Return the height of the lowest point of a geom."""
    import mujoco

    kinds = mujoco.mjtGeom
    kind, size = kinds(compiled.geom_type[geom]), compiled.geom_size[geom]
    down, reach = np.abs(data.geom_xmat[geom].reshape(3, 3)[2]), 0.0
    if kind == kinds.mjGEOM_MESH:
        mesh = compiled.geom_dataid[geom]
        first = compiled.mesh_vertadr[mesh]
        points = compiled.mesh_vert[first : first + compiled.mesh_vertnum[mesh]]
        reach = -float((points @ data.geom_xmat[geom].reshape(3, 3)[2]).min())
    elif kind == kinds.mjGEOM_BOX:
        reach = float(size @ down)
    elif kind == kinds.mjGEOM_ELLIPSOID:
        reach = float(np.linalg.norm(size * down))
    elif kind == kinds.mjGEOM_CYLINDER:
        reach = float(size[1] * down[2] + size[0] * np.hypot(down[0], down[1]))
    else:
        reach = float(size[0] + (size[1] * down[2] if kind == kinds.mjGEOM_CAPSULE else 0.0))
    return float(data.geom_xpos[geom, 2]) - reach


# -------------------------------------------------------------------------------- steps


def step_here(simulator: Any, state: State, u: Any, seconds: float, out: Run) -> list[State]:
    """Take the steps, note their flags and speeds; return the states that were visited."""
    from featherback import ParameterError
    from featherback.sim import Status

    visited: list[State] = []
    joints, last = joint_dofs(simulator.model.mujoco), int(Status.NONFINITE)
    flags: list[int] = []
    # the bound is on the processor's time: how far a robot comes does not depend on others
    ends = time.thread_time_ns() + 1e9 * seconds
    while len(flags) < len(u) and time.thread_time_ns() < ends:
        visited.append(state)
        q, v, act = (*state, None)[:3]
        try:
            *after, status = simulator.step(q, v, u[len(flags)], act=act, return_status=True)
        except ParameterError:
            # a state that the step before gave and that is none
            after, status = [], last
        flags.append(int(status))
        if flags[-1] & last:
            break
        state = tuple(after)
    out.steps = len(flags)
    out.over = len(flags) < len(u) and not flags[-1] & last if flags else len(u) > 0
    out.speed = max((float(np.abs(s[1][joints]).max()) for s in [*visited, state]), default=0.0)
    for name in COUNTED:
        out.flagged[name] += sum(bool(flag & int(Status[name])) for flag in flags)
    return visited


def step_mujoco(compiled: Any, state: State, u: Any, out: Run) -> None:
    """Take as many steps by MuJoCo, and note their speeds, its rows and its warnings."""
    import mujoco

    data, speeds = mujoco.MjData(compiled), np.zeros(compiled.nv)
    data.qpos[:], data.qvel[:] = state[:2]
    data.act[:] = state[2] if len(state) > 2 else 0.0
    for control in u[: out.steps]:
        data.ctrl[:] = control
        mujoco.mj_step(compiled, data)
        out.rows = max(out.rows, int(data.nefc))
        np.maximum(speeds, np.abs(data.qvel), out=speeds)
    out.peer_speed = float(speeds[joint_dofs(compiled)].max(initial=0.0))
    out.peer_warnings = sum(warning.number for warning in data.warning)


def shortest(call: Callable[[], Any], steps: int) -> float:
    """Return the shortest time of a few calls, of the processor, for one of their steps [us]."""
    times: list[int] = []
    while len(times) < REPEATS and sum(times) < ENOUGH:
        begin = time.thread_time_ns()
        call()
        times.append(time.thread_time_ns() - begin)
    return min(times) / 1e3 / steps


def measure(simulator: Any, compiled: Any, state: State, u: Any, out: Run) -> None:
    """Note the time of the steps that were taken, in one call each, here and in MuJoCo."""
    import mujoco
    from mujoco import rollout

    if not out.steps:
        return
    q, v, act = (*state, None)[:3]
    u, kind = u[: out.steps], mujoco.mjtState.mjSTATE_FULLPHYSICS
    out.us = shortest(lambda: simulator.rollout(q, v, u, act=act), out.steps)
    data = mujoco.MjData(compiled)
    data.qpos[:], data.qvel[:] = q, v
    data.act[:] = 0.0 if act is None else act
    start = np.empty(mujoco.mj_stateSize(compiled, kind))
    mujoco.mj_getState(compiled, data, start, kind)
    drive = u[None] if compiled.nu else None
    out.peer_us = shortest(
        lambda: rollout.rollout(compiled, data, start[None], drive, nstep=out.steps), out.steps
    )


def look_again(simulator: Any, visited: list[State], u: Any, out: Run) -> None:
    """Note the residual of every visited state's step, and whether it has a gradient."""
    from featherback import WorldError
    from featherback.sim import Status

    for first in range(0, len(visited), CHUNK):
        chunk = visited[first : first + CHUNK]
        q, v, act = (*map(np.array, zip(*chunk, strict=True)), None)[:3]
        roll = simulator.rollout(q, v, u[first : first + len(chunk), None], act=act)
        out.residual = max(out.residual, float(roll.residual.max(initial=0.0)))
        for k in np.flatnonzero(roll.status & int(Status.UNCONVERGED)):
            out.where.append((first + int(k), float(roll.residual[k])))
        try:
            roll.vjp(np.ones_like(q), np.ones_like(v))
        except WorldError as error:
            lost = np.atleast_1d(error.status) & int(Status.NO_GRADIENT)
            out.flagged["NO_GRADIENT"] += int(np.count_nonzero(lost))


def check(simulator: Any, visited: list[State], u: Any, out: Run) -> None:
    """Compare gradients of rollouts near a visited state with differences."""
    from featherback import check_gradients

    finite = [state for state in visited if all(np.isfinite(a).all() for a in state)]
    here = min(CHECKED, len(finite) - 1)
    q, v, act = (*finite[here], None)[:3]
    for size in GRADIENTS:
        found = check_gradients(simulator, q=q, v=v, u=u[here], act=act, **size)
        # where contacts come and go within few steps, one step has a gradient to compare
        if found.lines:
            break
    out.lines = found.lines
    out.gradient = found.worst.error if found.worst else 0.0
    out.wrong = "" if found.ok or not found.lines else str(found.worst)


def take_steps(model: Any, simulator: Any, most: tuple[int, float], seed: int = 0) -> Iterator[Run]:
    """Yield the run of each pose; `most` are the steps of one and the seconds of all."""
    starts = list(poses(model))
    u = controls(model.mujoco, most[0], seed)
    for pose, state in starts:
        run = Run(simulator.options.contact, pose)
        visited = step_here(simulator, state, u, most[1] / len(starts), run)
        compiled = model.mujoco_for(run.law)
        step_mujoco(compiled, state, u, run)
        measure(simulator, compiled, state, u, run)
        look_again(simulator, visited, u, run)
        check(simulator, visited, u, run)
        yield run
