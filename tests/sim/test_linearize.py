"""Jacobians of a batch under the hard law: worlds that are hit, that overflow, and zeros."""

from __future__ import annotations

import numpy as np
import pytest

import featherback as fb
from tests.sim.refusal import at_fault

SLIDES = """<mujoco><option gravity="0 0 0" timestep="0.002"/><worldbody>
<geom type="plane" size="1 1 1"/>
<body pos="0 0 0.1"><joint type="slide" axis="0 0 1"/><geom size="0.1" mass="1"/></body>
<body pos="2 0 3"><joint name="x" type="slide" axis="1 0 0" stiffness="1"/>
<geom size="0.1" mass="1"/></body></worldbody><actuator>{motors}</actuator></mujoco>"""
MOTOR = '<motor joint="x"/>'


def test_worlds_beside_one_that_is_hit() -> None:
    """Give worlds that slide the Jacobian they have alone, also beside one that is hit."""
    model = fb.models.ball(radius=0.1)
    bounce = {"geom_restitution": np.full(model.ngeom, 0.5)}
    sim = fb.Simulator(model, dt=2e-3, params=bounce)
    q, v = np.tile(model.q0, (5, 1)), np.zeros((5, model.nv))
    q[:, 2], v[:, 0], v[:, 3] = 0.1, np.arange(5) + 0.3, 1.0
    q[1, 2], v[1, 2] = 0.101, -1.0
    assert sim.step(q, v)[1][1, 2] > 0.4
    A, _ = sim.linearize(q, v)
    for k in range(5):
        np.testing.assert_array_equal(A[k], sim.linearize(q[k], v[k])[0])


@pytest.mark.parametrize(("gap", "stiffness"), [(0.001, 1e200), (0.01, 1e308)])
def test_jacobians_beyond_the_largest_number_are_told(gap: float, stiffness: float) -> None:
    """Name the world whose Jacobian overflows: of two parts of a step that is hit, or of one."""
    model = fb.load(SLIDES.format(motors=""))
    bounce = {"geom_restitution": np.full(model.ngeom, 0.5)}
    sim = fb.Simulator(model, params=bounce)
    q, v = np.zeros((3, 2)), np.zeros((3, 2))
    q[:, 0], v[:, 0] = 0.01, -1.0
    q[1, 0] = gap
    stiff = np.ones((3, 2))
    # the slope of a velocity is beyond the square root of the largest number, or beyond that number
    stiff[1, 1] = stiffness
    mass = np.ones((3, model.nbody))
    mass[1, 2] = 1.0 if gap < 0.002 else 1e-9
    params = {"jnt_stiffness": stiff, "body_mass": mass}
    assert sim.rollout(q, v, steps=1, params=params).ok
    with pytest.raises(fb.WorldError, match="the Jacobian of world 1 is not finite") as error:
        sim.linearize(q, v, params=params)
    assert at_fault(error.value) == [(1, 0, 0)]
    A, _ = sim.linearize(q[::2], v[::2], params={"jnt_stiffness": stiff[::2]})
    assert np.isfinite(A).all()


@pytest.mark.parametrize("worlds", [1, 3])
def test_no_zero_is_negative(worlds: int) -> None:
    """Give plus zero for an effect of a control that is below the smallest number."""
    model = fb.load(SLIDES.format(motors=8 * MOTOR))
    gear = np.array(model.params["actuator_gear"])
    gear[:, 0] = -1e-320
    sim = fb.Simulator(model, params={"actuator_gear": gear})
    place = np.zeros((worlds, 2)) if worlds > 1 else np.zeros(2)
    for entries in sim.linearize(place, place):
        assert (entries == 0).any() and not np.signbit(entries[entries == 0]).any()
