"""Simulator.contacts: where a contact lies, the sign of its zeros, and what a hit shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import featherback as fb

BODIES = """<mujoco><worldbody>{floor}
<body pos="3 1 0.1">{joint}<geom {first} condim="1"/></body>
<body pos="{place}">{other}<geom {second} condim="1"/></body></worldbody></mujoco>"""
BALL, BOX = 'size="0.1"', 'type="box" size="0.1 0.1 0.1"'
FREE = "<freejoint/>"


@pytest.mark.parametrize(("joint", "other"), [(FREE, ""), ("", FREE), (FREE, FREE)])
def test_points_lie_in_the_world(joint: str, other: str) -> None:
    """Put the point between two balls, whichever of them moves."""
    text = BODIES.format(
        floor="", joint=joint, other=other, first=BALL, second=BALL, place="3 1 0.29"
    )
    model = fb.load(text)
    found = fb.Simulator(model).contacts(model.q0, model.v0)
    assert (int(found.count), int(found.geom1[0]), int(found.geom2[0])) == (1, 0, 1)
    np.testing.assert_allclose(found.point[0], (3, 1, 0.195), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.normal[0], (0, 0, 1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("law", ["hard", "mujoco"])
def test_no_zero_is_negative(law: Any) -> None:
    """Give plus zero for what vanishes in normals and forces along an axis, either way."""
    for place in ("2.801 1 0.1", "3.199 1 0.1", "3 0.801 0.1", "3 1 -0.099"):
        text = BODIES.format(floor="", joint=FREE, other=FREE, first=BOX, second=BALL, place=place)
        model = fb.load(text)
        found = fb.Simulator(model, contact=law).contacts(model.q0, model.v0)
        assert int(found.count) == 1
        for numbers in (found.gap, found.point, found.normal, found.force, found.torque):
            assert not np.signbit(numbers[numbers == 0]).any(), place
        assert (found.normal == 0).any() and (found.force == 0).any()


def test_overflow_before_a_hit_is_told() -> None:
    """Tell of contacts that were left out of a step though its hit, which is shown, has one."""
    text = BODIES.format(
        floor='<geom type="plane" size="1 1 1"/>',
        joint=FREE,
        other=FREE,
        first=BALL,
        second=BALL,
        place="4 1 0.1001",
    )
    model = fb.load(text)
    bounce = {"geom_restitution": np.full(model.ngeom, 0.5)}
    q, v = np.array(model.q0), np.zeros(model.nv)
    # one comes down, the other has left the floor before they meet
    q[2], v[2], v[8] = 0.101, -1.0, 20.0
    few, many = (
        fb.Simulator(model, dt=2e-3, max_contacts=n, params=bounce).contacts(q, v) for n in (1, 2)
    )
    assert int(few.count) == int(many.count) == 1
    assert few.force[0, 2] == many.force[0, 2] > 100.0
    assert bool(few.overflow) and not bool(many.overflow)


@pytest.mark.parametrize("second", [0.0, 1.0])
def test_contacts_that_leave_are_listed_in_their_order(second: float) -> None:
    """List contacts that the free motion opens before and after one that holds."""
    balls = "".join(
        f'<body pos="{k} 0 0.1">{FREE}<geom {BALL} condim="3"/></body>' for k in range(3)
    )
    model = fb.load(
        f'<mujoco><worldbody><geom type="plane" size="9 9 1"/>{balls}</worldbody></mujoco>'
    )
    v = np.array(model.v0)
    v[[2, 8, 14]] = 1.0, -1e-3, second
    found = fb.Simulator(model).contacts(model.q0, v)
    assert int(found.count) == 3 and found.geom2[:3].tolist() == [1, 2, 3]
    np.testing.assert_allclose(found.point[:3, 0], [0, 1, 2], rtol=0, atol=1e-12)
    pushed = found.force[:3, 2] > 1.0
    assert pushed.tolist() == [False, True, second == 0.0]
