"""Steps of a robot of the corpus: which are flagged, what the solve leaves, and what they cost.

A robot is stepped from its default pose and from its first keyframe, without controls, under both
contact laws and in MuJoCo; times are those of the processor, so that other programs do not count.
Residuals are those of the states that were visited, each a world of a batch; `check_gradients`
judges gradients near one of them.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

State = tuple[Any, ...]  # q, v, and act where there is any

CHUNK = 64  # visited states whose step and gradient are taken in one call
CHECKED = 100  # visited state from which gradients are checked
GRADIENT = {"steps": 5, "draws": 3}  # of that check
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
        us: mean time of the processor in a step [us].
        peer_us: mean time of MuJoCo's step [us].
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
    us: float = 0.0
    peer_us: float = 0.0
    rows: int = 0
    peer_warnings: int = 0
    lines: int = 0
    gradient: float = 0.0
    wrong: str = ""

    @property
    def solved(self) -> bool:
        """Whether every step was solved and stayed finite, as far as MuJoCo's own steps did."""
        lost = self.flagged["NONFINITE"] and not (self.law == "mujoco" and self.peer_warnings)
        return not (self.flagged["UNCONVERGED"] or lost)

    def __str__(self) -> str:
        """Return one line; flags that no step has are left out."""
        flags = "".join(f", {n} {name}" for name, n in self.flagged.items() if n)
        over = ", the time was over" if self.over else ""
        warned = f", {self.peer_warnings} warnings" if self.peer_warnings else ""
        checked = f"gradient to {self.gradient:.1e} on {self.lines} lines"
        wrong = f"; WRONG: {self.wrong}" if self.wrong else ""
        return (
            f"{self.law}, {self.pose}: {self.steps} steps{over}{flags}, "
            f"residual {self.residual:.1e}, {self.us:.1f} us "
            f"(MuJoCo {self.peer_us:.1f} us, {self.rows} rows{warned}), "
            f"{checked if self.lines else 'no gradient compared'}{wrong}"
        )


def poses(model: Any) -> Iterator[tuple[str, State]]:
    """Yield the default pose and the first keyframe, each as (q, v) or (q, v, act)."""
    rest = (np.zeros(model.na),) if model.na else ()
    yield "default", (np.array(model.q0), np.zeros(model.nv), *rest)
    if model.keyframe_names:
        yield str(model.keyframe_names[0]), tuple(np.array(a) for a in model.keyframe(0))


def step_here(simulator: Any, state: State, most: tuple[int, float], out: Run) -> list[State]:
    """Take the steps, note their flags and their time; return the states that were visited."""
    from featherback.sim import Status

    visited: list[State] = []
    u, last = np.zeros(simulator.model.nu), int(Status.NONFINITE)
    flags: list[int] = []
    begin = time.thread_time_ns()
    # the bound is on the processor's time too: how far a robot comes does not depend on others
    ends = begin + 1e9 * most[1]
    while len(flags) < most[0] and time.thread_time_ns() < ends:
        visited.append(state)
        q, v, act = (*state, None)[:3]
        *after, status = simulator.step(q, v, u, act=act, return_status=True)
        flags.append(int(status))
        if flags[-1] & last:
            break
        state = tuple(after)
    out.steps = len(flags)
    out.over = len(flags) < most[0] and not flags[-1] & last if flags else most[0] > 0
    out.us = (time.thread_time_ns() - begin) / 1e3 / max(out.steps, 1)
    for name in COUNTED:
        out.flagged[name] += sum(bool(flag & int(Status[name])) for flag in flags)
    return visited


def step_mujoco(compiled: Any, state: State, out: Run) -> None:
    """Take as many steps by MuJoCo, and note their time, its rows and its warnings."""
    import mujoco

    data = mujoco.MjData(compiled)
    data.qpos[:], data.qvel[:] = state[:2]
    data.act[:] = state[2] if len(state) > 2 else 0.0
    begin = time.thread_time_ns()
    for _ in range(out.steps):
        mujoco.mj_step(compiled, data)
        out.rows = max(out.rows, int(data.nefc))
    out.peer_us = (time.thread_time_ns() - begin) / 1e3 / max(out.steps, 1)
    out.peer_warnings = sum(warning.number for warning in data.warning)


def look_again(simulator: Any, visited: list[State], out: Run) -> None:
    """Note the residual of every visited state's step, and whether it has a gradient."""
    from featherback import WorldError
    from featherback.sim import Status

    for first in range(0, len(visited), CHUNK):
        q, v, act = (*map(np.array, zip(*visited[first : first + CHUNK], strict=True)), None)[:3]
        roll = simulator.rollout(q, v, act=act, steps=1)
        out.residual = max(out.residual, float(roll.residual.max(initial=0.0)))
        for k in np.flatnonzero(roll.status & int(Status.UNCONVERGED)):
            out.where.append((first + int(k), float(roll.residual[k])))
        try:
            roll.vjp(np.ones_like(q), np.ones_like(v))
        except WorldError as error:
            lost = np.atleast_1d(error.status) & int(Status.NO_GRADIENT)
            out.flagged["NO_GRADIENT"] += int(np.count_nonzero(lost))


def check(simulator: Any, visited: list[State], out: Run) -> None:
    """Compare gradients of rollouts near a visited state with differences."""
    from featherback import check_gradients

    finite = [state for state in visited if all(np.isfinite(a).all() for a in state)]
    q, v, act = (*finite[min(CHECKED, len(finite) - 1)], None)[:3]
    found = check_gradients(simulator, q=q, v=v, act=act, **GRADIENT)
    out.lines = found.lines
    out.gradient = found.worst.error if found.worst else 0.0
    out.wrong = "" if found.ok or not found.lines else str(found.worst)


def take_steps(model: Any, simulator: Any, most: tuple[int, float]) -> Iterator[Run]:
    """Yield the run of each pose; `most` are the steps of one and the seconds of all."""
    starts = list(poses(model))
    for pose, state in starts:
        run = Run(simulator.options.contact, pose)
        visited = step_here(simulator, state, (most[0], most[1] / len(starts)), run)
        step_mujoco(model.mujoco, state, run)
        look_again(simulator, visited, run)
        check(simulator, visited, run)
        yield run


def stepped(robots: list[list[Run]], law: str) -> str:
    """Return the line that sums up the steps of all robots under a law."""
    robots = [[run for run in robot if run.law == law] for robot in robots]
    runs = [run for robot in robots for run in robot]
    counts = {name: sum(run.flagged[name] for run in runs) for name in COUNTED}
    flagged = sum(not all(run.solved for run in robot) for robot in robots)
    return (
        f"{law}: {sum(map(bool, robots))} robots, {len(runs)} starts, "
        f"{sum(run.steps for run in runs)} steps, "
        + ", ".join(f"{n} {name}" for name, n in counts.items())
        + f", largest residual {max((run.residual for run in runs), default=0.0):.1e}; "
        f"{flagged} robots not solved, {sum(run.over for run in runs)} starts out of time; "
        f"slower than MuJoCo {sum(run.us > run.peer_us for run in runs)} starts; gradients of "
        f"{sum(run.lines > 0 for run in runs)} starts compared on {sum(run.lines for run in runs)} "
        f"lines, worst {max((run.gradient for run in runs), default=0.0):.1e}, "
        f"{sum(bool(run.wrong) for run in runs)} starts wrong"
    )


def write_report(path: Path, robots: Iterable[tuple[tuple[Any, ...], list[Run]]]) -> None:
    """Write a line for each start: package, path, dofs and pairs of its robot, and its figures."""
    flags = [name.lower() for name in COUNTED]
    head = ["package", "path", "nv", "pairs", "law", "pose", "steps", "over", *flags, "residual"]
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        last = ["us", "peer_us", "rows", "peer_warnings", "lines", "gradient", "wrong"]
        out.writerow([*head, *last, "unconverged_steps"])
        for robot, runs in robots:
            for run in runs:
                figures = [run.law, run.pose, run.steps, int(run.over), *run.flagged.values()]
                times = [f"{run.us:.2f}", f"{run.peer_us:.2f}", run.rows, run.peer_warnings]
                times += [run.lines, f"{run.gradient:.2e}", run.wrong]
                where = " ".join(f"{k}:{x:.1e}" for k, x in run.where)
                out.writerow([*robot, *figures, f"{run.residual:.3e}", *times, where])
