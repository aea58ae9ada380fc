"""Trajectory optimization by shooting: right gradients, bounds kept, honest failures."""

from __future__ import annotations

import importlib.util
from functools import partial

import numpy as np
import pytest

import featherback as fb
from featherback.control import (
    Shooting,
    bundle,
    clip_norm,
    make_controls,
    optimize,
    site_position,
)
from featherback.errors import (
    OptimizationError,
    ShapeError,
)
from tests.control.helpers import STEPS, Quadratic, swing
from tests.golden.sentences import refused

pytest.importorskip("scipy")
TORCH = importlib.util.find_spec("torch") is not None


def test_a_trajectory_that_is_not_finite_has_an_infinite_cost() -> None:
    """Return infinity for the position of a site where a world becomes non-finite."""
    model = fb.models.pendulum(2)
    sim = fb.Simulator(model, dt=0.5)
    controls = make_controls(model, np.zeros((400, 2)))
    cost = site_position(sim, "tip", [1.0, 0.0, 0.0], always=True)
    problem = Shooting(sim, np.zeros(2), np.zeros(2), controls, cost)
    found = problem.values(np.stack([np.zeros(800), np.full(800, 1e6)]))
    assert np.isfinite(found[0]) and np.isinf(found[1])
    assert problem.value(np.full(800, 1e6)) == np.inf


@pytest.mark.parametrize("hold", [1, 4, 7])
def test_gradient_agrees_with_differences(hold: int) -> None:
    """Agree with central differences for unknowns that hold one or several steps."""
    print("seed 3")
    problem = swing(hold=hold)
    x = 0.2 * np.random.default_rng(3).standard_normal(problem.size)
    _, gradient = problem.gradient(x)
    assert problem.size == -(-STEPS // hold)
    for i in range(0, problem.size, 5):
        step = np.zeros(problem.size)
        step[i] = 1e-5
        slope = (problem.value(x + step) - problem.value(x - step)) / 2e-5
        assert abs(slope - gradient[i]) < 1e-8 + 1e-6 * np.abs(gradient).max()


def test_a_batch_has_the_values_of_its_rows() -> None:
    """Give each row of a batch the cost and gradient it has alone, bit for bit."""
    print("seed 4")
    problem = swing()
    x = 0.2 * np.random.default_rng(4).standard_normal((5, problem.size))
    costs, gradients = problem.gradients(x)
    assert np.array_equal(problem.values(x), costs)
    for row, cost, gradient in zip(x, costs, gradients, strict=True):
        alone = problem.gradient(row)
        assert alone[0] == cost
        assert np.array_equal(alone[1], gradient)


METHODS = ["l-bfgs", "projected-gradient"] + (["adam"] if TORCH else [])


@pytest.mark.parametrize("method", METHODS)
def test_methods_reach_the_goal_within_bounds(method: str) -> None:
    """Bring the pendulum to rest at 0.5 rad, with every control within its bounds."""
    problem = swing(limit=3.0)
    goal = 2e-3 if method == "adam" else 1e-3
    rate = 0.02 if method == "adam" else None
    outcome = optimize(problem, method=method, max_evaluations=300, goal=goal, rate=rate)
    roll = problem.rollout(outcome.x)
    assert outcome.reached
    assert outcome.cost <= goal
    assert problem.value(outcome.x) == outcome.cost
    assert np.abs(roll.u).max() <= 3.0
    assert abs(roll.q[-1, 0] - 0.5) < 0.1
    assert outcome.total_evaluations == problem.count.gradients
    assert np.all(np.diff(outcome.costs) <= 0.0)
    assert f"{outcome.cost:.6g}" in outcome.reason and f"goal {goal:.6g}" in outcome.reason


@pytest.mark.parametrize("method", METHODS)
def test_bounds_that_act_are_reached_and_kept(method: str) -> None:
    """Stop at the upper bound in the unknowns whose minimum lies beyond it."""
    objective = Quadratic(4)
    outcome = optimize(objective, method=method, max_evaluations=2000, rate=0.05)
    expected = np.minimum(objective.centre, 2.0)
    assert np.abs(outcome.x - expected).max() < 1e-3
    assert outcome.x.max() == 2.0


def test_evaluations_are_counted_and_never_exceeded() -> None:
    """Spend no more evaluations than allowed, line searches counted, and report each iteration."""
    problem = swing()
    seen: list[tuple[int, float, int]] = []
    outcome = optimize(problem, max_evaluations=7, report=lambda *what: seen.append(what))
    assert problem.count.gradients == 7
    assert outcome.total_evaluations == 7
    assert [i for i, _, _ in seen] == list(range(len(outcome.costs)))
    assert [cost for _, cost, _ in seen] == outcome.costs
    assert sum(spent for _, _, spent in seen) == 7


def test_an_unreachable_target_is_reported() -> None:
    """Report that the goal was missed, and raise with the same reason when asked to."""
    problem = swing(goal=3.0, limit=0.1)
    outcome = optimize(problem, max_evaluations=30, goal=1e-3)
    assert not outcome.reached
    assert outcome.cost > 1.0
    spent = f"after {outcome.total_evaluations} gradient evaluations"
    assert spent in outcome.reason and "goal 0.001" in outcome.reason
    with pytest.raises(OptimizationError) as caught:
        outcome.raise_if_missed()
    assert str(caught.value) == outcome.reason
    assert caught.value.outcome is outcome


def test_a_nan_stops_with_the_step_and_the_reason() -> None:
    """Stop at the evaluation whose cost is NaN, and keep the best before it."""
    with pytest.raises(OptimizationError, match="iteration 1, evaluation 3") as caught:
        optimize(Quadratic(broken="cost", after=2))
    assert caught.value.outcome.total_evaluations == 3
    assert caught.value.outcome.cost < Quadratic().value(np.zeros(3))


def test_a_rollout_that_explodes_stops_with_its_step() -> None:
    """Name the step at which the rollout of the start becomes non-finite."""
    model = fb.models.pendulum(2)
    sim = fb.Simulator(model, dt=0.5)
    controls = make_controls(model, np.zeros((400, 2)))
    problem = Shooting(sim, np.zeros(2), np.zeros(2), controls, swing().cost)
    start = np.full(problem.size, 1e6)
    where = "l-bfgs: iteration 0, evaluation 1: world 0, first at step "
    refused(lambda: optimize(problem, start=start), OptimizationError, where, "NONFINITE")


@pytest.mark.skipif(not TORCH, reason="torch is not installed")
def test_divergence_stops_adam() -> None:
    """Stop a learning rate under which the cost grows a million times."""
    objective = Quadratic()
    objective.lower, objective.upper = np.full(3, -np.inf), np.full(3, np.inf)
    call = partial(optimize, objective, method="adam", rate=1e6)
    refused(call, OptimizationError, "adam: iteration 0, evaluation 2", "1e+06 times", "6.15625")


def test_projected_gradient_takes_back_a_bad_trial() -> None:
    """Go on where a trial step has no cost, instead of stopping."""

    class Walled(Quadratic):
        """Has no cost beyond a wall that the first step crosses."""

        def gradient(self, x: np.ndarray) -> tuple[float, np.ndarray]:
            """Return cost and gradient."""
            cost, gradient = super().gradient(x)
            return (float("nan") if x[0] > 0.6 else cost), gradient

    outcome = optimize(Walled(), method="projected-gradient", rate=1.9, max_evaluations=200)
    assert np.abs(outcome.x - [0.5, 1.75, 2.0]).max() < 1e-6


@pytest.mark.parametrize("always", [False, True])
def test_a_hand_is_brought_to_its_target(always: bool) -> None:
    """Agree with differences, and bring the tip of a pendulum to a point it can reach."""
    print("seed 7")
    model = fb.models.pendulum(2)
    sim = fb.Simulator(model, dt=0.01)
    target = sim.site_positions(np.array([0.7, 0.4]))[0]
    controls = make_controls(model, np.zeros((40, 2)), lower=-20.0, upper=20.0)
    problem = Shooting(
        sim, model.q0, model.v0, controls, site_position(sim, "tip", target, always=always)
    )
    x = np.random.default_rng(7).standard_normal((2, problem.size))
    costs, gradients = problem.gradients(x)
    for row in range(2):
        for i in (0, 11, 70):
            step = np.zeros(problem.size)
            step[i] = 1e-5
            slope = (problem.value(x[row] + step) - problem.value(x[row] - step)) / 2e-5
            assert abs(slope - gradients[row, i]) < 1e-10 + 1e-5 * np.abs(gradients[row]).max()
    outcome = optimize(problem, start=x[0], max_evaluations=60)
    assert outcome.cost < (0.5 * costs[0] if always else 1e-8)


@pytest.mark.parametrize("hold", [1, 7])
def test_an_outcome_has_its_controls(hold: int) -> None:
    """Return the controls of the unknowns found, which give the rollout of the cost."""
    problem = swing(hold=hold)
    outcome = optimize(problem, max_evaluations=5)
    roll = problem.rollout(outcome.x)
    assert outcome.u.shape == (STEPS, 1)
    assert np.array_equal(outcome.u, roll.u)


def test_unknowns_expand_flat_or_in_a_batch() -> None:
    """Expand one vector, rows of them, or their unflattened shape, and refuse other shapes."""
    print("seed 8")
    controls = swing(hold=7).controls
    x = np.random.default_rng(8).standard_normal((3, *controls.shape))
    batch = controls.expand(x)
    assert batch.shape == (3, STEPS, 1)
    assert np.array_equal(controls.expand(x.reshape(3, -1)), batch)
    assert np.array_equal(controls.expand(x[1].ravel()), batch[1])
    for shape in ((4,), (2, 4), (3, 2, 2), ()):
        with pytest.raises(ShapeError, match=r"Controls\.expand\(\): x has shape"):
            controls.expand(np.zeros(shape))


def test_clip_norm_shortens_only_what_is_long() -> None:
    """Keep short gradients and shorten long ones to the norm."""
    long, short = np.array([3.0, 4.0]), np.array([0.3, 0.4])
    assert np.array_equal(clip_norm(short, 1.0), short)
    assert np.array_equal(clip_norm(long, None), long)
    assert np.allclose(clip_norm(long, 1.0), [0.6, 0.8], rtol=1e-15)


@pytest.mark.parametrize("order", ["first", "zeroth", "mixed"])
def test_bundles_estimate_the_smoothed_gradient(order: str) -> None:
    """Estimate the gradient of a quadratic within four standard errors."""
    print("seed 5")
    objective, x = Quadratic(), np.array([0.1, -0.4, 1.0])
    found = bundle(objective, x, sigma=0.3, samples=4096, rng=np.random.default_rng(5), order=order)
    error = found.gradient - (x - objective.centre)
    assert np.abs(error).max() <= 4.0 * np.sqrt(found.variance) + 1e-12
    assert found.variance < 0.02
    assert abs(found.cost - objective.values(x[None])[0] - 0.5 * 3 * 0.09) < 0.1
    assert found.first == pytest.approx(1.0 if order != "zeroth" else 0.0, abs=1e-3)


def test_the_zeroth_order_sees_a_jump() -> None:
    """Give a slope at a jump, where the exact gradient is zero on both sides."""
    print("seed 6")

    class Step(Quadratic):
        """One where x is positive, else zero."""

        def values(self, x: np.ndarray) -> np.ndarray:
            """Return the costs."""
            return (x[:, 0] > 0.0).astype(float)

        def gradients(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            """Return costs and gradients."""
            return self.values(x), np.zeros_like(x)

    rng = np.random.default_rng(6)
    options = {"sigma": 0.5, "samples": 4096, "rng": rng}
    assert not bundle(Step(1), np.zeros(1), order="first", **options).gradient.any()
    # the mean of a unit step under noise has the normal density as its slope
    slope = bundle(Step(1), np.zeros(1), order="zeroth", **options)
    assert abs(slope.gradient[0] - 1.0 / (0.5 * np.sqrt(2.0 * np.pi))) < 4 * slope.variance**0.5


@pytest.mark.parametrize("method", METHODS)
def test_bounds_that_fix_everything_end_at_the_start(method: str) -> None:
    """Stay where nothing can move."""
    outcome = optimize(swing(limit=0.0), method=method, max_evaluations=5)  # type: ignore[arg-type]
    assert not outcome.x.any()
    assert outcome.cost == outcome.costs[0]
