"""Jacobians of a batch under MuJoCo's law: each world's own controls, zeros, statuses."""

from __future__ import annotations

import numpy as np
import pytest

import featherback as fb

ARM = """<mujoco><worldbody><geom type="plane" size="1 1 1"/>
<body pos="0 0 {height}"><joint name="j" axis="0 1 0" stiffness="1" damping="0.1"/>
<inertial mass="{mass}" pos="0 0 0.1" diaginertia="{mass} {mass} {mass}"/>
<geom type="capsule" fromto="-0.3 0 0 0.3 0 0" size="0.05" mass="0"/></body></worldbody>
<actuator><motor joint="j" gear="2" forcelimited="true" forcerange="-1 1"/></actuator></mujoco>"""


def arm(height: float = 1.0, mass: float = 1.0) -> fb.Model:
    """Return a bar on a hinge above a floor, driven by a motor with a largest force."""
    return fb.load(ARM.format(height=height, mass=mass))


def test_each_world_has_its_own_controls() -> None:
    """A control beyond the largest force has no effect in its world alone."""
    model = arm()
    sim = fb.Simulator(model, contact="mujoco")
    u = np.array([[0.1], [5.0], [-0.2], [-7.0], [0.3]])
    q, v = np.linspace(0.1, 0.5, 5)[:, None], np.zeros((5, 1))
    A, B = sim.linearize(q, v, u)
    assert (B[:, 1, 0] != 0).tolist() == [True, False, True, False, True]
    for k in range(5):
        one = sim.linearize(q[k], v[k], u[k])
        np.testing.assert_array_equal(A[k], one[0])
        np.testing.assert_array_equal(B[k], one[1])
    assert not np.signbit(A[A == 0]).any() and not np.signbit(B[B == 0]).any()


def test_each_world_has_its_own_row_of_controls() -> None:
    """With several motors every world reads all of its own controls."""
    two = '<motor joint="j" gear="2" forcelimited="true" forcerange="-1 1"/>'
    model = fb.load(ARM.format(height=1.0, mass=1.0).replace(two, two + two))
    sim = fb.Simulator(model, contact="mujoco")
    u = np.array([[0.1, 5.0], [5.0, 0.1], [0.2, 0.3], [-7.0, 6.0]])
    _, B = sim.linearize(np.zeros((4, 1)), np.zeros((4, 1)), u)
    assert np.array_equal(B[:, 1] != 0, np.abs(2 * u) < 1)


@pytest.mark.parametrize("name", ["quadruped", "ball"])
def test_no_zero_is_negative(name: str) -> None:
    """Where nothing acts all entries that vanish are plus zero, however a body is turned."""
    model = getattr(fb.models, name)()
    sim = fb.Simulator(model, contact="mujoco")
    for turn in np.array([[1, 0, 0, 0], [-1, 0, 0, 0], [-1, 1, 0, 0], [0, 0, -1, 0]]):
        q, v = np.array(model.q0), np.array(model.v0)
        q[2] += 1.0
        q[3:7] = turn / np.linalg.norm(turn)
        A, B = sim.linearize(q, v)
        assert (A == 0).any()
        assert not np.signbit(A[A == 0]).any() and not np.signbit(B[B == 0]).any()


def test_the_world_without_a_jacobian_is_named() -> None:
    """Contacts that were left out, in one world of three, are that world's status."""
    sim = fb.Simulator(arm(height=0.04), contact="mujoco", max_contacts=1)
    q = np.array([[0.3], [0.0], [0.3]])
    with pytest.raises(fb.WorldError, match="NO_GRADIENT") as error:
        sim.linearize(q, np.zeros((3, 1)))
    assert (error.value.world.tolist(), error.value.step.tolist()) == ([1], [0])


def test_jacobians_beyond_the_largest_number_are_told() -> None:
    """A step that is finite may have a Jacobian that is not."""
    sim = fb.Simulator(arm(mass=1e-9), contact="mujoco")
    q, v, u = np.zeros((2, 1)), np.zeros((2, 1)), np.zeros((2, 1))
    stiff = {"jnt_stiffness": np.full(1, 1e308)}
    assert sim.rollout(q, v, steps=1, params=stiff).ok
    with pytest.raises(fb.WorldError, match="finite") as error:
        sim.linearize(q, v, u, params=stiff)
    assert error.value.world.tolist() == [0, 1]
