"""Angular speeds whose rotation within a step has no digits left."""

from __future__ import annotations

import numpy as np
import pytest

import featherback as fb

BALL = """<mujoco><worldbody><body><freejoint/>
<geom size="0.1" mass="1" pos="0.1 0.05 0.02"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("contact", ["hard", "mujoco"])
def test_a_quaternion_is_a_rotation_or_the_world_is_flagged(contact: str, dtype: str) -> None:
    """Give a quaternion of length one, or the status that numbers are not finite."""
    model = fb.load(BALL)
    sim = fb.Simulator(model, contact=contact, dtype=dtype)
    for exponent in range(0, 36, 2):
        speed = 10.0**exponent
        roll = sim.rollout(model.q0, [0, 0, 0, speed, 0.5 * speed, -speed], steps=1)
        length = np.linalg.norm(roll.q[-1, 3:7])
        flagged = bool(roll.status & fb.Status.NONFINITE)
        assert flagged or abs(length - 1.0) < 1e-5, (speed, length)
        assert not flagged or exponent >= 6
