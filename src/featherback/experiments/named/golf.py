"""A two-link arm swings a club at a ball on a tee; the ball rolls to rest at a target."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np

import featherback as fb
from featherback.control import FinalPosition, Shooting, Sum, final_position, make_controls
from featherback.experiments.context import Context
from featherback.experiments.result import Claim, Result
from featherback.experiments.target_task import Budget, mean_effort, run_target
from featherback.models.throwing import GOLF_RADIUS, SWING, golfer_xml

SUMMARY = "a two-link arm swings a club; the ball leaves its tee and rolls to rest at a target"
ACTIVE, STEPS = 600, 3500  # steps of 1 ms: the swing, and until the ball rests
RESTITUTION = 0.7  # of the club's head
BUDGET = Budget(gradients=50, iterations=1500, quick=10)
EFFORT = 1e-2  # weight of the mean squared torque, as a fraction of the limits [m²]
RATE = 0.03  # first step of the gradients, as a fraction of the torque limits
SIGMA = 0.03  # initial spread of CMA-ES, as a fraction of the torque limits
TARGETS = (3.0, 9.0)  # range along x that targets come from [m]
NOTE = (
    "The head is round and meets the ball at the height of its centre, so that the direction of "
    "the hit does not depend on when within a step it happens: the derivative of a plain time step "
    "does not include that moment (docs/gradients.md)."
)
EASY = (
    "The target is one number, the distance along x, so CMA-ES comes within 1 cm of it in a few "
    "iterations; what it does not find is how to do it with little torque."
)


def make_task(seed: int) -> tuple[Shooting, FinalPosition]:
    """Return the swing at the target that a seed chooses, and the cost of its distance."""
    model = fb.load(golfer_xml(), name="golfer")
    restitution = np.zeros(model.ngeom)
    restitution[model.geom_names.index("head")] = RESTITUTION
    sim = fb.Simulator(
        model, threads=min(os.cpu_count() or 1, 8), params={"geom_restitution": restitution}
    )
    q, v = (np.array(part) for part in model.keyframe("raised"))
    controls = make_controls(
        model,
        np.zeros((STEPS, model.nu)),
        active=ACTIVE,
        unit=[limit for _, _, limit, *_ in SWING],
    )
    target = np.array([np.random.default_rng(seed).uniform(*TARGETS), 0.0, GOLF_RADIUS])
    final = final_position(model, "ball", target)
    cost = Sum([final, mean_effort(controls, EFFORT)])
    return Shooting(sim, q, v, controls, cost), final


def run(context: Context) -> Result:
    """Swing by gradients, then by CMA-ES, both from a club that falls by its own weight."""
    problem, final = make_task(context.seed)
    fallen = problem.rollout(np.zeros(problem.size))
    moved = float(fallen.q[-1, 2] - fallen.q[0, 2])
    x = final.target[0]
    found = run_target(
        context,
        problem,
        final,
        BUDGET,
        xml=golfer_xml(),
        camera=(0.45 * x, 0.0, 0.4, 1.5 + 0.75 * x, 90.0, -14.0),
        ball=slice(2, 5),
        rate=RATE,
        sigma=SIGMA,
        method="projected-gradient",
    )
    touched = Claim("the initial swing touches the ball: its travel [m]", moved, moved > 0.1)
    return replace(
        found,
        figures={"travel of the ball in the initial swing [m]": moved, **found.figures},
        claims=[touched, *found.claims],
        notes=[NOTE, EASY],
    )
