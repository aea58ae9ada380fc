"""Control through MuJoCo's contact law, without a word beyond the argument."""

from __future__ import annotations

import numpy as np
import pytest

import featherback as fb
from featherback.control import Shooting, ilqr, make_controls, optimize, site_position, tracking

pytest.importorskip("scipy")

# a puck on a floor, pushed by a motor against friction
PUCK = """<mujoco><option timestep="0.02" cone="elliptic"/><worldbody>
<geom type="plane" size="0 0 1" friction="0.3"/>
<body pos="0 0 0.0499"><joint name="x" type="slide" axis="1 0 0"/>
<joint type="slide" axis="0 0 1"/><geom name="puck" size="0.05" mass="1" friction="0.3"/>
<site name="puck"/></body></worldbody>
<actuator><motor joint="x"/></actuator></mujoco>"""


def test_ilqr_pushes_a_puck_to_its_place() -> None:
    """Bring a puck that rubs on the floor to rest half a metre away."""
    model = fb.load(PUCK)
    sim = fb.Simulator(model, contact="mujoco")
    goal = np.array([0.5, 0.0])
    cost = tracking(model, goal, running=1e-3, effort=1e-5, final=100.0)
    policy = ilqr(sim, model.q0, model.v0, np.zeros((40, 1)), cost)
    roll = sim.rollout(model.q0, model.v0, policy.u)
    assert abs(roll.q[-1, 0] - 0.5) < 0.02 and abs(roll.v[-1, 0]) < 0.1
    # the floor holds it all the way
    assert float(sim.contacts(roll.q[20], roll.v[20], policy.u[20]).force[0, 2]) > 5.0


def test_shooting_goes_through_contact() -> None:
    """Reach a place with the gradient of a whole rollout."""
    model = fb.load(PUCK)
    sim = fb.Simulator(model, contact="mujoco")
    cost = site_position(sim, "puck", [0.3, 0.0, 0.05])
    controls = make_controls(model, np.full((30, 1), 4.0), hold=10)
    shooting = Shooting(sim, model.q0, model.v0, controls, cost)
    found = optimize(shooting)
    assert found.cost < 1e-4
