"""Control of actuators with activation: it starts where it is said, and is part of the state."""

from __future__ import annotations

import numpy as np
import pytest

import featherback as fb
from featherback.control import (
    RecedingHorizon,
    ilqr,
    multiple_shooting,
    optimize,
    run_closed_loop,
    tracking,
)
from featherback.control.multiple_shooting import _Lagrangian  # pyright: ignore[reportPrivateUsage]
from tests.control.helpers import push

pytest.importorskip("scipy")

ACT = np.array([0.4])


@pytest.fixture(scope="module")
def sim() -> fb.Simulator:
    """Return a mass that is pushed through a filter."""
    return push().sim


def test_shooting_starts_with_the_activation(sim: fb.Simulator) -> None:
    """Roll out from the activation given, alone and in a batch, with the gradient of that."""
    shooting = push(ACT)
    print("seed 0")
    x = 0.1 * np.random.default_rng(0).normal(size=shooting.size)
    wanted = sim.rollout([0.0], [0.0], shooting.controls.expand(x), act=ACT)
    np.testing.assert_array_equal(shooting.rollout(x).q, wanted.q)
    np.testing.assert_array_equal(shooting.rollout(np.stack([x, x])).q[1], wanted.q)
    cost, gradient = shooting.gradient(x)
    assert cost == shooting.value(x)
    step = np.zeros_like(x)
    step[7] = 1e-5
    slope = (shooting.value(x + step) - shooting.value(x - step)) / 2e-5
    assert abs(gradient[7] - slope) < 1e-6 * abs(slope)


def test_segments_carry_the_activation(sim: fb.Simulator) -> None:
    """Join segments to one motion whose activation goes on from each to the next."""
    found = multiple_shooting(push(ACT), 4)
    whole = sim.rollout([0.0], [0.0], found.u, act=ACT)
    assert found.gap <= 1e-6 and found.act.shape == (61, 1)
    np.testing.assert_allclose(found.q, whole.q, atol=1e-5)
    np.testing.assert_allclose(found.act, whole.act, atol=1e-5)
    np.testing.assert_allclose(found.q[-1], 0.5, atol=1e-3)
    rows = np.arange(1, 4) * 15
    given = multiple_shooting(push(ACT), 4, states=(whole.q[rows], whole.v[rows], ACT))
    assert given.gap <= 1e-6


def test_gradient_of_segments_is_that_of_differences() -> None:
    """Match differences of the Lagrangian in every unknown, activations at the nodes included."""
    print("seed 1")
    rng = np.random.default_rng(1)
    inner = _Lagrangian(push(ACT, steps=8), 2, 3.0, rng.normal(size=(1, 3)))
    z = 0.3 * rng.normal(size=inner.size)
    gradient = inner.gradient(z)[1]
    steps = 1e-5 * np.eye(len(z))
    slopes = [(inner.value(z + s) - inner.value(z - s)) / 2e-5 for s in steps]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-7, atol=1e-9)


def test_ilqr_has_gains_on_the_activation(sim: fb.Simulator) -> None:
    """Reach a goal from an activation that is not zero, with feedback from it."""
    cost = tracking(sim.model, [0.5], effort=1e-4, final=100.0)
    policy = ilqr(sim, [0.0], [0.0], np.zeros((60, 1)), cost, act=ACT)
    assert policy.converged and abs(policy.q[-1, 0] - 0.5) < 0.01
    assert policy.gains.shape == (60, 1, 3) and np.any(policy.gains[:, :, 2] < 0.0)
    whole = sim.rollout([0.0], [0.0], policy.u, act=ACT)
    np.testing.assert_allclose(policy.q, whole.q, atol=1e-12)
    np.testing.assert_allclose(policy.act, whole.act, atol=1e-12)
    total = cost.total(policy.q, policy.v, policy.u, policy.act)
    assert policy.cost == pytest.approx(float(total))


def test_the_activation_may_have_a_weight(sim: fb.Simulator) -> None:
    """Bring the activation to its goal where it has a weight, and not where it has none."""
    ends = [
        ilqr(
            sim,
            [0.0],
            [0.0],
            np.zeros((60, 1)),
            tracking(sim.model, [0.5], act=0.3, effort=1e-4, final=final),
        ).act[-1, 0]
        for final in ([100.0, 0.0, 100.0], [100.0, 0.0])
    ]
    assert abs(ends[0] - 0.3) < 0.01 < abs(ends[1] - 0.3)


def test_closed_loop_plans_from_the_activation(sim: fb.Simulator) -> None:
    """Plan from the activation that the plant has, and return it."""
    cost = tracking(sim.model, [0.5], running=[1.0, 0.1], effort=1e-3, final=10.0)
    controller = RecedingHorizon(sim, cost, np.zeros((30, 1)))
    motion = run_closed_loop(controller, sim, [0.0], [0.0], 200, act=ACT, every=2)
    assert motion.act.shape == (201, 1) and motion.act[0] == ACT
    assert abs(motion.q[-1, 0] - 0.5) < 0.02
    whole = sim.rollout([0.0], [0.0], motion.u, act=ACT)
    np.testing.assert_allclose(motion.q, whole.q, atol=1e-12)
    assert controller.plan is not None
    np.testing.assert_array_equal(controller.plan.act[0], motion.act[198])


def test_optimize_reaches_the_goal(sim: fb.Simulator) -> None:
    """Find by shooting the controls that bring the mass to rest from the activation."""
    outcome = optimize(push(ACT), goal=1e-10)
    assert outcome.reached
    end = sim.rollout([0.0], [0.0], outcome.u, act=ACT)
    np.testing.assert_allclose(end.q[-1], 0.5, atol=1e-4)
