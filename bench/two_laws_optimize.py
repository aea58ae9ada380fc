"""What optimisation through the hard contact law and through MuJoCo's looks like.

    python bench/two_laws_optimize.py          the table
    python bench/two_laws_optimize.py --docs   put it into docs/which_law.md

Three tasks, each by L-BFGS on the exact gradient of a rollout, with the same start and the same
number of evaluations under each law: the throw of `featherback run throw`, a push that moves a
box, and half a second of a gait that becomes faster. "mujoco, eased in" is MuJoCo's law with an
impedance that begins at zero and grows over 1 cm of depth (geom_solimp 1e-4 0.95 0.01), so that a
contact does not begin with a jump of its force. The controls that were found under one law are
tried under all. The gradient is compared with differences along a random direction at the start:
over a small step, where both must agree, and over one as large as an optimiser takes, where the
gradient must still say something. A second table varies where the impedance begins and the depth
over which it grows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from mujoco_law_text import figure, put_between, table
from numpy.typing import NDArray

import featherback as fb
from featherback.control import Shooting, Value, final_position, make_controls, optimize
from featherback.control.shooting import Count
from featherback.experiments.named.throw import RATE, make_task

PAGE = Path(__file__).resolve().parent.parent / "docs" / "which_law.md"
MARK = "bench/two_laws_optimize.py"
EASED = (1e-4, 0.95, 0.01, 0.5, 2.0)
LAWS = ("hard", "mujoco", "mujoco, eased in")
RAMPS = ((0.9, 0.001), (0.9, 0.01), (1e-4, 0.001), (1e-4, 0.01), (1e-4, 0.03))  # start, width [m]
SMALL, LARGE = 1e-4, 1e-2  # steps of a difference, in units of the unknowns
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Task:
    """Something to optimise.

    Attributes:
        name: what it is.
        problem: under the hard law.
        score: what is told of a motion, from its configurations.
        unit: of the score.
        evaluations: of the gradient, at most.
        rate: length of the first step.
    """

    name: str
    problem: Shooting
    score: Callable[[Array], float]
    unit: str
    evaluations: int
    rate: float

    def under(self, law: str) -> Shooting:
        """Return the problem under a law."""
        if "eased" in law:
            return self.with_impedance(EASED)
        old = self.problem.sim
        own = {"contact": "hard" if law == "hard" else "mujoco"}
        sim = fb.Simulator(old.model, dt=old.dt, threads=1, **own)
        return replace(self.problem, sim=sim, count=Count())

    def with_impedance(self, solimp: tuple[float, ...]) -> Shooting:
        """Return the problem under MuJoCo's law with one impedance for all geoms."""
        old = self.problem.sim
        params = {"geom_solimp": np.tile(solimp, (old.model.mujoco.ngeom, 1))}
        sim = fb.Simulator(old.model, dt=old.dt, threads=1, contact="mujoco", params=params)
        return replace(self.problem, sim=sim, count=Count())


def throw(seed: int) -> Task:
    """Return the throw at a target."""
    problem, final = make_task(seed)
    return Task(
        f"throw, target {seed}",
        problem,
        lambda q: 1e3 * float(final.distance(q)),
        "mm from the target",
        20,
        RATE,
    )


PUSH = """<mujoco><option timestep="0.004"/><default><geom friction="0.5 0.005 0.0001"/></default>
<worldbody><geom type="plane" size="3 3 1"/>
<body name="hand" pos="-0.2 0 0.1"><joint name="hand" type="slide" axis="1 0 0" damping="2"/>
<geom type="sphere" size="0.05" mass="1" contype="2" conaffinity="2"/></body>
<body name="box" pos="0 0 0.1"><freejoint/>
<geom type="box" size="0.1 0.1 0.1" mass="1" contype="3" conaffinity="3"/></body></worldbody>
<actuator><motor joint="hand" ctrlrange="-40 40"/></actuator></mujoco>"""


def push(force: float) -> Task:
    """Return a push of a box by 0.4 m that begins with a constant force [N]."""
    model = fb.load(PUSH)
    base = np.zeros((300, 1))
    base[:75] = force
    controls = make_controls(model, base, hold=15, active=75, unit=10.0)
    cost = final_position(model, "box", [0.4, 0.0, 0.1])
    sim = fb.Simulator(model, threads=1)
    problem = Shooting(sim, np.array(model.q0), np.array(model.v0), controls, cost)
    name = f"push by {force:g} N at the start"
    return Task(name, problem, lambda q: 1e3 * abs(q[-1, 1] - 0.4), "mm from the target", 30, 0.1)


GAIT_STEPS, GAIT_STEP = 125, 0.004


def gait(seed: int) -> Task:
    """Return half a second of a trot whose servo targets are free, from a start of its own."""
    model = fb.models.quadruped()
    q, v = (np.array(part) for part in model.keyframe("stand")[:2])
    angle = 2 * np.pi * 4.0 * GAIT_STEP * np.arange(GAIT_STEPS)
    swing = np.stack([np.sin(angle), np.sin(angle)], -1)
    base = q[7:] + 0.2 * np.concatenate([s * swing for s in (1, -1, -1, 1)], -1)
    base = base + 0.05 * np.random.default_rng(seed).standard_normal(model.nu)
    controls = make_controls(model, base, hold=5, unit=0.2)
    # way along x, and the trunk as it was in height and tilt
    goal = np.array([0.0, 0.0, q[2], 1.0, 0.0, 0.0, 0.0])

    def cost(qs: Array, _vs: Array, _us: Array) -> Value:
        q_bar = np.zeros_like(qs)
        miss = qs[:, :, 1:7] - goal[1:7]
        q_bar[:, :, 1:7] = miss / qs.shape[1]
        q_bar[:, -1, 0] -= 1.0
        return Value(0.5 * np.sum(miss**2, axis=(1, 2)) / qs.shape[1] - qs[:, -1, 0], q_bar)

    sim = fb.Simulator(model, dt=GAIT_STEP, threads=1)
    seconds = GAIT_STEP * GAIT_STEPS
    problem = Shooting(sim, q, v, controls, cost)
    return Task(f"gait {seed}", problem, lambda q: float(q[-1, 0]) / seconds, "m/s", 60, 0.1)


def slopes(problem: Shooting) -> list[float]:
    """Return how far the gradient is from differences over a small and over a large step."""
    rng = np.random.default_rng(0)
    x = np.zeros(problem.size)
    along = rng.standard_normal(problem.size)
    exact = float(problem.gradient(x)[1] @ along)
    out: list[float] = []
    for step in (SMALL, LARGE):
        ends = problem.values(np.stack([x + step * along, x - step * along]))
        slope = float(ends[0] - ends[1]) / (2 * step)
        out.append(abs(exact - slope) / max(abs(slope), abs(exact), 1e-12))
    return out


def solve(task: Task, law: str) -> tuple[list[str], Array]:
    """Return the cells of a task under a law, and the unknowns that were found."""
    problem = task.under(law)
    near = slopes(problem)
    begin = time.perf_counter()
    found = optimize(problem, max_evaluations=task.evaluations, rate=task.rate)
    spent = time.perf_counter() - begin
    first = task.score(np.asarray(problem.rollout(np.zeros(problem.size)).q))
    evaluations = int(np.sum(found.evaluations))
    cells = [f"{task.name} [{task.unit}]", law, figures(first)]
    cells += [str(evaluations), figure(1e3 * spent / evaluations)]
    return [*cells, f"{near[0]:.0e}", f"{100 * near[1]:.0f} %"], found.x


def figures(x: float) -> str:
    """Return a score to three digits."""
    return f"{x:.3g}"


def rows(tasks: list[Task]) -> list[list[str]]:
    """Return a line for each task and law."""
    out: list[list[str]] = []
    for task in tasks:
        for law in LAWS:
            cells, x = solve(task, law)
            tried = [task.score(np.asarray(task.under(o).rollout(x).q)) for o in LAWS]
            out.append([*cells[:3], *map(figures, tried), *cells[3:]])
            print(" | ".join(out[-1]), flush=True)
    return out


def ramps(tasks: list[Task]) -> list[list[str]]:
    """Return what is found with each ramp, and how far the gradient is off over a large step."""
    out: list[list[str]] = []
    for task in tasks:
        cells = [f"{task.name} [{task.unit}]"]
        for start, width in RAMPS:
            problem = task.with_impedance((start, 0.95, width, 0.5, 2.0))
            off = slopes(problem)[1]
            found = optimize(problem, max_evaluations=task.evaluations, rate=task.rate)
            score = task.score(np.asarray(problem.rollout(found.x).q))
            cells.append(f"{figures(score)} ({100 * off:.0f} %)")
        out.append(cells)
    return out


def main() -> None:
    """Print the table, or put it into the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--docs", action="store_true", help=f"write {PAGE.name} too")
    given = parser.parse_args()
    tasks = [throw(0), throw(1), throw(2), push(30.0), push(10.0), push(0.0)]
    tasks += [gait(seed) for seed in range(3)]
    head = "| task | found under | at the start | found, under hard | under mujoco | eased in |"
    head += " evaluations | ms each | gradient off, small step | large step |"
    lines = table(head, rows(tasks))
    names = " | ".join(f"{start:g}, {1e3 * width:g} mm" for start, width in RAMPS)
    touching = [task for task in tasks if not task.name.startswith("push by 0 N")]
    lines += table(f"| found (off over a large step) | {names} |", ramps(touching))
    text = "\n".join(lines)
    print(text)
    if given.docs:
        put_between(PAGE, MARK, text)


if __name__ == "__main__":
    main()
