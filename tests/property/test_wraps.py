"""Gradients on random models with tendons around geoms, under both laws, against differences."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

import featherback as fb
from tests.property.gradients import Tally
from tests.property.test_tendons import check, derivatives_apart
from tests.property.wraps import draw_wraps

NAMES = "geom_size geom_pos geom_quat site_pos body_pos wrap_prm tendon_lengthspring".split()


@pytest.mark.parametrize("hard", [True, False], ids=["hard", "mujoco"])
def test_gradients_agree_with_differences(hard: bool) -> None:
    """Agree with differences over one step and over ten, on forty models each."""
    tally = Tally()
    for seed in range(40):
        for steps in (1, 10):
            check(draw_wraps(seed, narrow=hard), seed, (steps, NAMES, hard), tally)
    print(tally)
    assert not tally.failures, "\n".join(tally.failures)
    assert {*NAMES, "q", "v", "u"} <= tally.acted


@pytest.mark.parametrize("hard", [True, False], ids=["hard", "mujoco"])
def test_columns_and_dual_numbers_agree_with_reverse_mode(hard: bool) -> None:
    """Give one derivative by columns, by dual numbers and by cotangents, to 1e-9."""
    apart = [derivatives_apart(draw_wraps(seed, narrow=hard), seed, hard) for seed in range(25)]
    found = [error for error in apart if error is not None]
    print(max(found), len(found))
    assert max(found) < 1e-9 and len(found) > 15


@pytest.mark.parametrize("law", ["hard", "mujoco"])
def test_a_world_has_its_bits_in_any_batch(law: Literal["hard", "mujoco"]) -> None:
    """Give one world the same bits alone, among others and beside one that is not finite."""
    model, q, v, rng = draw_wraps(5, narrow=True)
    sim = fb.Simulator(model, contact=law)
    n = 19
    qs, vs = np.repeat(q[None], n, 0), v + rng.normal(size=(n, model.nv)) * 0.5
    u = rng.normal(size=(n, 12, model.nu))
    whole = sim.rollout(qs, vs, u)
    bars = rng.normal(size=whole.q.shape), rng.normal(size=whole.v.shape)
    back = whole.vjp(*bars)
    for k in (0, 7, 18):
        alone = sim.rollout(qs[k], vs[k], u[k])
        assert np.array_equal(alone.q, whole.q[k]) and np.array_equal(alone.v, whole.v[k])
        one = alone.vjp(bars[0][k], bars[1][k])
        assert np.array_equal(one.q, back.q[k]) and np.array_equal(one.u, back.u[k])
    vs[3] = np.nan
    beside = sim.rollout(qs, vs, u)
    kept = np.arange(n) != 3
    assert np.array_equal(beside.q[kept], whole.q[kept])
