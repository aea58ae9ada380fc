"""A ball is thrown with a spin so that it bounces, slides and rests at a point 10 m away."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np

import featherback as fb
from featherback._typing import Array
from featherback.experiments.context import Context
from featherback.experiments.least_squares import Solution, run_least_squares
from featherback.experiments.methods import run_cma
from featherback.experiments.result import Claim, Result, Trace
from featherback.experiments.target_task import length
from featherback.models import ball, ball_xml

SUMMARY = "the throw and spin with which a bouncing ball rests 10 m away after 5 s"
RADIUS, MASS, RESTITUTION = 0.5, 5.0, 0.5  # [m], [kg]; friction is 1
SECONDS, STEP = 5.0, 1e-3
TARGET = (10.0, 0.0)  # [m]
NEAR = 0.01  # [m] and [m/s]
ITERATIONS = 88
FIRST, SPREAD = (3.0, 0.0, 3.0, 0.0, 0.0, 0.0), 1.0  # the start, and what a seed adds [m/s]
MAX_SPEED = 50.0  # bound of all unknowns [m/s]
BUDGET, QUICK = 2422, 30  # iterations of CMA-ES
SIGMA = 3.0  # initial spread of CMA-ES, the best of 1, 3 and 10 [m/s]
HIT = -0.1  # a speed upwards below which the ball falls [m/s]
REST = (
    "There is no rolling friction: a ball that rolls does not stop. It rests where its spin runs "
    "out together with its speed, so the throw needs backspin."
)
TIMING = (
    "The speed upwards sets when the ball touches down; the steps are cut there, so that their "
    "derivative includes it. Evaluations are simulations, all of them."
)


@dataclass(frozen=True, eq=False)
class Throw:
    """Errors of the ball at the end, as functions of velocity and spin at the start.

    Unknowns are the velocity [m/s] and the spin as speed of the rim [m/s], in the world's axes;
    errors are the position [m], the velocity and the spin as speed of the rim [m/s], likewise.

    Attributes:
        sim: the ball on its floor.
        target: where it should rest [m].
        size: number of unknowns.
        lower: their lower bounds.
        upper: their upper bounds.
    """

    sim: fb.Simulator
    target: tuple[float, float] = TARGET
    size: int = 6
    lower: Array = field(default_factory=lambda: np.full(6, -MAX_SPEED))
    upper: Array = field(default_factory=lambda: np.full(6, MAX_SPEED))

    def rollout(self, x: Array) -> fb.Rollout:
        """Return the throws of x[worlds, 6]."""
        # the ball is not rotated at the start, so that its axes are the world's
        q = np.tile(self.sim.model.q0, (len(x), 1))
        v = np.concatenate([x[:, :3], x[:, 3:] / RADIUS], axis=1)
        return self.sim.rollout(q, v, steps=round(SECONDS / self.sim.dt))

    def errors(self, x: Array) -> Array:
        """Return float64[worlds, 8] at x[worlds, 6]."""
        roll = self.rollout(x)
        q, v = (np.asarray(part[:, -1], np.float64) for part in (roll.q, roll.v))
        rim = RADIUS * rotated(q[:, 3:], v[:, 3:])
        return np.concatenate([q[:, :2] - self.target, v[:, :3], rim], axis=1)

    def values(self, x: Array) -> Array:
        """Return half the squared lengths of the errors at x[worlds, 6]."""
        return 0.5 * np.sum(self.errors(x) ** 2, axis=1)

    def jacobian(self, x: Array) -> Array:
        """Return the exact derivative of the steps taken at x[6], float64[8, 6]."""
        roll = self.rollout(np.tile(x, (6, 1)))
        along = np.diag([1.0, 1.0, 1.0, *[1.0 / RADIUS] * 3])
        q_dot, v_dot = (np.asarray(part[:, -1], np.float64) for part in roll.jvp(dv=along))
        q, v = (np.asarray(part[:, -1, 3:], np.float64) for part in (roll.q, roll.v))
        rim = RADIUS * rotated(q, v_dot[:, 3:] + np.cross(body_rotation(q, q_dot[:, 3:]), v))
        return np.concatenate([q_dot[:, :2], v_dot[:, :3], rim], axis=1).T


def make_task(step: float = STEP) -> Throw:
    """Return the scene with a time step [s]."""
    model = ball(radius=RADIUS, mass=MASS)
    restitution = np.zeros(model.ngeom)
    restitution[model.geom_names.index("ball")] = RESTITUTION
    threads = min(os.cpu_count() or 1, 8)
    return Throw(
        fb.Simulator(model, dt=step, threads=threads, params={"geom_restitution": restitution})
    )


def rotated(quaternion: Array, vector: Array) -> Array:
    """Return vectors in body axes in the world's axes."""
    axis, angle = quaternion[..., 1:], quaternion[..., :1]
    once = np.cross(axis, vector)
    return vector + 2.0 * (angle * once + np.cross(axis, once))


def body_rotation(quaternion: Array, rate: Array) -> Array:
    """Return the rotation vector, in body axes, of a change of the body's quaternion."""
    a, b = quaternion, rate
    return 2.0 * (
        a[..., :1] * b[..., 1:] - b[..., :1] * a[..., 1:] - np.cross(a[..., 1:], b[..., 1:])
    )


def count_hits(upwards: Array) -> int:
    """Return how often a ball with these speeds upwards bounced off the floor."""
    return int(np.sum((upwards[:-1] < HIT) & (upwards[1:] > 0.0)))


def first_throw(context: Context) -> Array:
    """Return the throw that a search starts from."""
    return np.array(FIRST) + SPREAD * context.rng.normal(size=6)


def run(context: Context) -> Result:
    """Find the throw by exact derivatives, then by CMA-ES."""
    task, start = make_task(), first_throw(context)
    found, ours = run_least_squares(
        context, task, start, max_iterations=ITERATIONS - 1, tolerance=NEAR
    )
    roll = task.rollout(found.x[None])
    context.record(
        ball_xml(radius=RADIUS, mass=MASS),
        {"q": roll.q[0], "v": roll.v[0], "u": np.zeros((roll.q.shape[1] - 1, 0))},
        dt=task.sim.dt,
        target=[*TARGET, RADIUS],
        camera=(5.0, 0.0, 0.5, 12.0, 90.0, -12.0),
    )
    _, baseline = run_cma(
        context,
        task,
        max_iterations=QUICK if context.quick else BUDGET,
        sigma=SIGMA,
        measure=length,
        start=start,
        stop=NEAR,
    )
    hits = count_hits(np.asarray(roll.v[0, :, 2], np.float64))
    return Result(
        ours=ours,
        baseline=baseline,
        figures=figures(task, found, hits, (ours, baseline)),
        claims=claims(task, found, hits, (ours, baseline), context.quick),
        notes=[REST, TIMING, f"The search: {found.reason}"],
    )


def figures(
    task: Throw, found: Solution, hits: int, traces: tuple[Trace, Trace]
) -> dict[str, float | None]:
    """Return the headline numbers."""
    ours, baseline = traces
    error = task.errors(found.x[None])[0]
    finer = make_task(0.5 * task.sim.dt).errors(found.x[None])[0]
    names = ("speed along x", "speed along y", "speed upwards", "spin x", "spin y", "spin z")
    return {
        "distance from the target [m]": float(np.linalg.norm(error[:2])),
        "speed at the end, spin included [m/s]": float(np.linalg.norm(error[2:])),
        "bounces": hits,
        "iterations to 1 cm and 1 cm/s": ours.first_below(NEAR),
        "simulations to 1 cm and 1 cm/s": ours.evaluations_until(NEAR),
        "seconds to 1 cm and 1 cm/s": ours.seconds_until(NEAR),
        "CMA-ES iterations to 1 cm and 1 cm/s": baseline.first_below(NEAR),
        "CMA-ES simulations to 1 cm and 1 cm/s": baseline.evaluations_until(NEAR),
        "CMA-ES seconds to 1 cm and 1 cm/s": baseline.seconds_until(NEAR),
        "CMA-ES loss at the end": baseline.loss[-1],
        "distance with half the time step [m]": float(np.linalg.norm(finer[:2])),
        "speed at the end with half the time step [m/s]": float(np.linalg.norm(finer[2:])),
        **{f"{name} [m/s]": float(value) for name, value in zip(names, found.x, strict=True)},
    }


def claims(
    task: Throw, found: Solution, hits: int, traces: tuple[Trace, Trace], quick: bool
) -> list[Claim]:
    """Return the claims; what needs CMA-ES's full budget is not judged in a quick run."""
    ours, baseline = traces
    error = task.errors(found.x[None])[0]
    distance, speed = float(np.linalg.norm(error[:2])), float(np.linalg.norm(error[2:]))
    near, time = ours.first_below(NEAR), ours.seconds_until(NEAR)
    spent = ours.evaluations_until(NEAR)
    # where CMA-ES does not reach it, its full budget is a lower bound
    faster = None if time is None else baseline.total_seconds / time
    fewer = None if spent is None else baseline.total_evaluations / spent
    return [
        Claim("within 1 cm [m]", distance, distance < NEAR),
        Claim("within 1 cm/s, spin included [m/s]", speed, speed < NEAR),
        Claim(f"in fewer than {ITERATIONS} iterations", near, near is not None),
        Claim("the ball bounces on its way: bounces", hits, hits > 0),
        Claim(
            "ahead in wall clock: time of CMA-ES, at most its budget, over ours",
            faster,
            None if quick else faster is not None and faster > 1.0,
        ),
        Claim(
            "ahead in simulations: those of CMA-ES, at most its budget, over ours",
            fewer,
            None if quick else fewer is not None and fewer > 1.0,
        ),
    ]
