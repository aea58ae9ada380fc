"""A nine-joint arm throws a ball that rolls to rest at a target on the floor."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np

import featherback as fb
from featherback._typing import Array
from featherback.control import FinalPosition, Shooting, Sum, final_position, make_controls
from featherback.experiments.context import Context
from featherback.experiments.result import Result
from featherback.experiments.target_task import Budget, mean_effort, run_target
from featherback.models.throwing import BALL_MASS, BALL_RADIUS, JOINTS, thrower_xml

SUMMARY = "a nine-joint arm throws a ball that rolls to rest at a target on the floor"
RELEASE, STEPS = 60, 500  # steps of 5 ms: the hand opens after 0.3 s, the ball rests after 2.5 s
GRIP = 40.0  # [N], closing until the release and opening afterwards
BUDGET = Budget(gradients=20, iterations=500, quick=20)
EFFORT = 5e-4  # weight of the mean squared torque, as a fraction of the limits [m²]
RATE = 0.05  # first step of the gradients, as a fraction of the torque limits
SIGMA = 0.1  # initial spread of CMA-ES, as a fraction of the torque limits
TARGETS = ((1.2, -0.4), (2.0, 0.4))  # corners of the part of the floor that targets come from [m]
NOTE = (
    "A target is two numbers, so CMA-ES comes within 1 cm of it in tens of iterations, whatever "
    "the number of unknowns; what it does not find is how to do it with little torque."
)


def hold_torque(sim: fb.Simulator, q: Array) -> Array:
    """Return the controls that hold the arm and the ball still, float64[9].

    The arm's own weight is its bias force at rest; the ball hangs midway between the fingers, so
    its weight acts through the derivative of that point's height.
    """
    bias = sim.bias(q, np.zeros(sim.model.nv))[: len(JOINTS)]
    fingers = [sim.model.body_names.index(f"{side}_finger") for side in ("left", "right")]
    height = np.zeros((sim.model.nbody, 3))
    height[fingers, 2] = 0.5
    pull = sim.body_poses_vjp(q, height).q[: len(JOINTS)]
    weight = -BALL_MASS * float(sim.params["gravity"][2])
    return np.concatenate([bias + weight * pull, [-GRIP, -GRIP]])


def make_task(seed: int) -> tuple[Shooting, FinalPosition]:
    """Return the throw at the target that a seed chooses, and the cost of its distance."""
    model = fb.load(thrower_xml(), name="thrower")
    sim = fb.Simulator(model, threads=min(os.cpu_count() or 1, 8))
    q, v = (np.array(part) for part in model.keyframe("hold"))
    base = np.tile(hold_torque(sim, q), (STEPS, 1))
    base[RELEASE:, len(JOINTS) :] = GRIP
    limits = [limit for _, _, _, _, limit, *_ in JOINTS]
    controls = make_controls(model, base, free=range(len(JOINTS)), active=RELEASE, unit=limits)
    target = np.array([*np.random.default_rng(seed).uniform(*TARGETS), BALL_RADIUS])
    final = final_position(model, "ball", target)
    cost = Sum([final, mean_effort(controls, EFFORT)])
    return Shooting(sim, q, v, controls, cost), final


def run(context: Context) -> Result:
    """Throw by gradients, then by CMA-ES, both from gravity compensation alone."""
    problem, final = make_task(context.seed)
    found = run_target(
        context,
        problem,
        final,
        BUDGET,
        xml=thrower_xml(),
        camera=(0.85, 0.0, 0.4, 2.7, 100.0, -12.0),
        ball=slice(9, 12),
        rate=RATE,
        sigma=SIGMA,
    )
    return replace(found, notes=[NOTE])
