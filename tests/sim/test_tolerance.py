"""What the tolerance of a solve is measured by."""

import numpy as np
import pytest

import featherback as fb

# a mass held by dry friction of twice its weight, and a ball that hangs over the floor
HANGING = """
<mujoco>
  <option timestep="{dt}"/>
  <worldbody>
    <geom type="plane" size="0 0 1" condim="3"/>
    <body pos="0 0 2">
      <joint type="slide" axis="0 0 1" frictionloss="20"/>
      <geom type="sphere" size=".05" mass="1" contype="0" conaffinity="0"/>
    </body>
    <body pos="1 0 .14">
      <joint type="slide" axis="0 0 1" frictionloss="20"/>
      <geom type="sphere" size=".05" mass="1"/>
    </body>
  </worldbody>
</mujoco>
"""


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("solver", ["newton", "interior", "pgs"])
def test_a_gap_that_stays_open_does_not_loosen_other_rows(solver, dtype):
    """Hold a mass by dry friction beside a contact whose gap over the step is 900 m/s."""
    model = fb.load(HANGING.format(dt=1e-4))
    sim = fb.Simulator(model, dtype=dtype, margin=0.1, solver=solver)
    roll = sim.rollout(model.q0, np.zeros(2), steps=500)
    assert roll.status == 0
    assert np.abs(roll.v).max() < 1e-3
    assert abs(roll.q[-1, 0]) < 1e-5
