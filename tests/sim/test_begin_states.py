"""Solves that begin with the states which rows have at the velocity of the step's beginning."""

import numpy as np
import pytest

import featherback as fb
from featherback.models.laikago import laikago_xml
from featherback.sim import Status

BAD = int(Status.UNCONVERGED | Status.NONFINITE)


def standing(friction, options=None):
    """Return a simulator of a quadruped with dry friction, its stance and controls that hold it."""
    xml = laikago_xml().replace("<joint ", f'<joint frictionloss="{friction}" ')
    model = fb.load(xml)
    assert model.mujoco.dof_frictionloss.max() == friction
    sim = fb.Simulator(model, **(options or {}))
    q, v = model.keyframe(0)
    return sim, np.array(q), np.array(v), np.array(model.mujoco.key_ctrl[0])


@pytest.mark.parametrize("friction", [0.01, 0.1, 1.0])
def test_a_robot_that_stands_with_dry_friction_takes_few_factorisations(friction):
    """Solve a step of a quadruped that stands with one or two factorisations, as a rule."""
    sim, q, v, u = standing(friction)
    roll = sim.rollout(q, v, np.tile(u, (600, 1)))
    steps = sim.rollout(roll.q[100:600], roll.v[100:600], np.tile(u, (500, 1, 1)))
    assert not (steps.status & BAD).any()
    assert np.median(steps.factorisations) <= 2
    assert steps.factorisations.mean() < 3


@pytest.mark.parametrize("box", ["cone", "box"])
def test_states_that_are_guessed_wrong_do_not_matter(box):
    """Find the interior path's solution where velocities say nothing of the rows' states."""
    sim, q, v, u = standing(0.3, {"friction": box})
    path, *_ = standing(0.3, {"friction": box, "solver": "interior"})
    roll = sim.rollout(q, v, np.tile(u, (200, 1)))
    rng = np.random.default_rng(3)
    q = roll.q[50:200:5]
    v = rng.standard_normal((len(q), sim.model.nv)) * 10.0 ** rng.uniform(-8, 0, (len(q), 1))
    u = u + rng.standard_normal((len(q), len(u)))
    here, there = (s.rollout(q, v, u[:, None]) for s in (sim, path))
    assert not (here.status & BAD).any() and not (there.status & BAD).any()
    # a friction problem may have several solutions; where both have one they agree mostly
    apart = np.abs(here.v[:, 1] - there.v[:, 1]).max(axis=1)
    print(f"apart: median {np.median(apart):.1e}, largest {apart.max():.1e}")
    assert np.quantile(apart, 0.9) < 1e-6
