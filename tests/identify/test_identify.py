"""Identification recovers parameters, knows how sure it is, and says what it cannot tell."""

from __future__ import annotations

import numpy as np
import pytest

import featherback as fb
from featherback.errors import OptimizationError
from featherback.identify import Log, Unknown, identify, scale_factor, unknown
from featherback.identify.log import cut
from featherback.identify.problem import PredictionProblem
from featherback.models import ball, pendulum
from featherback.models.struck_chain import struck_chain

pytest.importorskip("scipy")

TRUTH = {"body_mass": np.array([0.0, 1.3, 0.7]), "dof_damping": np.array([0.05, 0.02])}
ANSWER = (1.3, 0.7, 0.05, 0.02)


def driven_pendulum(steps: int = 600) -> tuple[fb.Simulator, fb.Rollout]:
    """Return a simulator with wrong parameters and a motion with the right ones."""
    sim = fb.Simulator(pendulum(2))
    u = 0.5 * np.sin(0.01 * np.arange(steps)[:, None] * np.array([1.0, 1.7]))
    return sim, sim.rollout([0.5, -0.3], [0.0, 0.0], u, params=dict(TRUTH))


def unknowns(sim: fb.Simulator) -> list[Unknown]:
    """Return two masses and two dampings."""
    return [
        unknown(sim, "body_mass", "link0"),
        unknown(sim, "body_mass", "link1"),
        unknown(sim, "dof_damping", "joint0"),
        unknown(sim, "dof_damping", 1, start=0.01),
    ]


def noisy(roll: fb.Rollout, seed: int, q_noise: float, v_noise: float) -> Log:
    """Return a log with noise on all states."""
    rng = np.random.default_rng(seed)
    q = roll.q + q_noise * rng.normal(size=roll.q.shape)
    v = roll.v + v_noise * rng.normal(size=roll.v.shape)
    return Log(q, v, roll.u, q_noise, v_noise)


@pytest.mark.parametrize("window", [None, 50])
def test_exact_logs_give_exact_parameters(window: int | None) -> None:
    """Recover parameters to rounding from a log without noise, whole or in windows."""
    sim, roll = driven_pendulum()
    estimate = identify(sim, Log(roll.q, roll.v, roll.u), unknowns(sim), window=window)
    assert estimate.converged
    np.testing.assert_allclose(estimate.x, ANSWER, rtol=1e-6)
    assert estimate.unresolved() == [] and estimate.at_bound == ()
    found = sim.rollout(roll.q[0], roll.v[0], roll.u, params=dict(estimate.params))
    np.testing.assert_allclose(found.q, roll.q, atol=1e-7)


def test_rows_may_be_rarer_than_steps() -> None:
    """Predict several simulator steps from a row to the next, with the control held."""
    sim = fb.Simulator(pendulum(2))
    u = np.repeat(0.3 * np.random.default_rng(0).normal(size=(60, 2)), 10, axis=0)
    roll = sim.rollout([0.5, -0.3], [0.0, 0.0], u, params=dict(TRUTH))
    log = Log(roll.q[::10], roll.v[::10], u[::10], every=10)
    estimate = identify(sim, [log, log], unknowns(sim), window=20)
    np.testing.assert_allclose(estimate.x, ANSWER, rtol=1e-6)


def test_deviations_are_those_over_many_noises() -> None:
    """Recover parameters within deviations whose size is that of the errors over ten seeds."""
    sim, roll = driven_pendulum()
    scores: list[np.ndarray] = []
    for seed in range(10):
        print("seed", seed)
        log = noisy(roll, seed, 1e-3, 1e-2)
        estimate = identify(sim, log, unknowns(sim), window=200, starts="free")
        scores.append((estimate.x - ANSWER) / np.sqrt(np.diag(estimate.covariance)))
        assert estimate.misfit is not None and 0.9 < estimate.misfit < 1.1
    # of 40 numbers with deviation 1, the root mean square lies in these bounds but for 1 in 10^4
    assert 0.6 < np.sqrt(np.mean(np.square(scores))) < 1.45


def test_free_starts_need_no_velocities() -> None:
    """Recover parameters from noisy positions alone."""
    sim, roll = driven_pendulum()
    log = Log(noisy(roll, 3, 1e-4, 1.0).q, u=roll.u, q_noise=1e-4)
    estimate = identify(sim, log, unknowns(sim), window=200, starts="free")
    spread = np.sqrt(np.diag(estimate.covariance))
    assert np.all(np.abs(estimate.x - ANSWER) < 4.0 * spread)
    assert np.all(spread < 0.1 * np.array(ANSWER))


def test_unknown_noise_is_estimated() -> None:
    """Give the deviations that a known noise gives when the noise is not given."""
    sim, roll = driven_pendulum()
    log = noisy(roll, 4, 1e-3, 1e-3)
    known = identify(sim, log, unknowns(sim), window=200, starts="free")
    blind = identify(sim, Log(log.q, log.v, log.u), unknowns(sim), window=200, starts="free")
    assert blind.misfit is not None and abs(blind.misfit / 1e-3 - 1.0) < 0.1
    for label, spread in known.deviations.items():
        assert abs(blind.deviations[label] / spread - 1.0) < 0.1


def test_what_cannot_be_separated_is_named() -> None:
    """Name mass and inertia of an undriven pendulum, of which only the ratio acts."""
    sim = fb.Simulator(pendulum(1))
    roll = sim.rollout([0.8], [0.0], steps=500)
    pair = [
        unknown(sim, "body_mass", "link0", start=1.0),
        unknown(sim, "body_inertia", "link0", column=1),
    ]
    estimate = identify(sim, Log(roll.q, roll.v, q_noise=1e-6, v_noise=1e-6), pair)
    (direction,) = estimate.unresolved()
    assert np.isinf(direction.deviation)
    np.testing.assert_allclose(list(direction.components.values()), np.sqrt(0.5), rtol=1e-6)
    assert "+0.71 body_mass[link0], +0.71 body_inertia[link0][1]" in direction.describe()
    assert direction.describe() in estimate.report()
    assert all(np.isinf(spread) for spread in estimate.deviations.values())


def test_what_does_not_act_is_named() -> None:
    """Name the mass of a body in free flight."""
    sim = fb.Simulator(ball())
    roll = sim.rollout([0, 0, 2.0, 1, 0, 0, 0], [1.0, 0, 0, 3.0, 2.0, 1.0], steps=100)
    log = Log(roll.q, roll.v, q_noise=1e-3, v_noise=1e-3)
    estimate = identify(sim, log, [unknown(sim, "body_mass", "ball")], starts="free")
    (direction,) = estimate.unresolved()
    assert direction.components == {"body_mass[ball]": 1.0} and np.isinf(direction.deviation)


@pytest.mark.parametrize("free", [False, True])
def test_jacobian_is_that_of_the_errors(free: bool) -> None:
    """Match central differences of the errors, and of the cost where starts are eliminated."""
    sim, roll = driven_pendulum(300)
    log = noisy(roll, 5, 1e-3, 1e-2)
    windows = cut("test", sim.model, sim.dt, [log], 99, free)
    problem = PredictionProblem(sim, windows, unknowns(sim), free)
    x = np.array([1.1, 0.8, 0.04, 0.03])
    point = problem.point(x)
    jacobian = problem.jacobian(point)
    for i, h in enumerate(1e-5 * x):
        ends = [problem.point(x + s * h * np.eye(4)[i]).residual for s in (1.0, -1.0)]
        if free:
            slope = 0.5 * (np.sum(ends[0] ** 2) - np.sum(ends[1] ** 2)) / (2.0 * h)
            own = float(np.sum(jacobian[..., i] * point.residual))
            assert abs(own / slope - 1.0) < 1e-5
        else:
            slopes = (ends[0] - ends[1]) / (2.0 * h)
            error = np.abs(jacobian[..., i] - slopes).max() / np.abs(slopes).max()
            assert error < 1e-7


def test_contacts_are_seen() -> None:
    """Recover the mass of a chain that is hit, from a log with one impact."""
    sim = fb.Simulator(struck_chain(3))
    mass = scale_factor(sim, ["body_mass", "body_inertia"], [1, 2, 3], label="mass", start=0.1)
    params = {name: np.array(sim.params[name]) for name in ("body_mass", "body_inertia")}
    mass.put(np.array([0.7]), params)
    roll = sim.rollout([0, 0, 0, 0.5], np.zeros(4), steps=400, params=dict(params))
    estimate = identify(sim, Log(roll.q, roll.v), [mass], window=100)
    assert abs(estimate.x[0] / 0.7 - 1.0) < 1e-6


def test_bounds_hold_and_are_named() -> None:
    """End at the bound that keeps the truth out, and say so."""
    sim, roll = driven_pendulum()
    mass = unknown(sim, "body_mass", "link0", start=1.0, bounds=(0.5, 1.1))
    estimate = identify(sim, Log(roll.q, roll.v, roll.u), [mass], window=50)
    assert 1.0999 < estimate.x[0] <= 1.1
    assert estimate.at_bound == ("body_mass[link0]",)
    assert "body_mass[link0] ended at a bound." in estimate.report()


def test_reaching_the_maximum_is_reported() -> None:
    """Say that the maximum was reached, and raise on request."""
    sim, roll = driven_pendulum()
    log = Log(roll.q, roll.v, roll.u)
    estimate = identify(sim, log, unknowns(sim), window=50, max_evaluations=3)
    assert not estimate.converged and sum(estimate.evaluations) == 3
    assert "after 3 predictions" in estimate.reason and "max_evaluations (3)" in estimate.reason
    with pytest.raises(OptimizationError) as caught:
        estimate.raise_if_unfinished()
    assert str(caught.value) == estimate.reason and caught.value.outcome is estimate


def test_reports_are_given_for_each_iteration() -> None:
    """Tell iteration, cost and predictions, the start first."""
    sim, roll = driven_pendulum(100)
    calls: list[tuple[int, float, int]] = []
    log = Log(roll.q, roll.v, roll.u)
    estimate = identify(sim, log, unknowns(sim), report=lambda *args: calls.append(args))
    assert [n for n, _, _ in calls] == list(range(estimate.iterations + 1))
    assert [cost for _, cost, _ in calls] == estimate.costs
    assert len(estimate.path) == len(calls)
    # the optimizer moves a start at a bound a little inside
    np.testing.assert_allclose(estimate.path[0], [1.0, 1.0, 0.0, 0.01], atol=1e-9)
