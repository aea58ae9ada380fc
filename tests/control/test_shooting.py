"""Trajectory optimisation by shooting: right gradients, bounds kept, honest failures."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace

import numpy as np
import pytest

import featherback as fb
from featherback.control import (
    Shooting,
    Sum,
    bundle,
    clip_norm,
    final_position,
    make_controls,
    optimize,
    site_position,
)
from featherback.errors import (
    FeatherbackError,
    OptimizationError,
    ParameterError,
    ShapeError,
)
from tests.control.helpers import STEPS, swing

pytest.importorskip("scipy")
TORCH = importlib.util.find_spec("torch") is not None


class Quadratic:
    """A cost with a known minimum, and what may go wrong in it."""

    def __init__(self, size: int = 3, broken: str = "", after: int = 0) -> None:
        """Break the evaluation of a given number in a given way."""
        self.size, self.broken, self.after, self.count = size, broken, after, 0
        self.lower, self.upper = np.full(size, -2.0), np.full(size, 2.0)
        self.centre = np.linspace(0.5, 3.0, size)

    def value(self, x: np.ndarray) -> float:
        """Return the cost."""
        return self.gradient(x)[0]

    def values(self, x: np.ndarray) -> np.ndarray:
        """Return the costs of rows."""
        return 0.5 * np.sum((x - self.centre) ** 2, axis=1)

    def gradients(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return costs and gradients of rows."""
        return self.values(x), x - self.centre

    def gradient(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Return cost and gradient."""
        self.count += 1
        gradient = x - self.centre
        cost = 0.5 * float(gradient @ gradient)
        if self.broken and self.count > self.after:
            if self.broken == "cost":
                return float("nan"), gradient
            gradient = np.where(np.arange(self.size) == 1, np.nan, gradient)
        return cost, gradient


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
    assert outcome.reason == f"{method}: the cost {outcome.cost:.6g} is within the goal {goal:.6g}."


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


def test_an_unreachable_target_is_said() -> None:
    """Say that the goal was missed, and raise the same sentence when asked to."""
    problem = swing(goal=3.0, limit=0.1)
    outcome = optimize(problem, max_evaluations=30, goal=1e-3)
    assert not outcome.reached
    assert outcome.cost > 1.0
    start = (
        f"l-bfgs: stopped at the cost {outcome.cost:.6g}, above the goal 0.001, after "
        f"{outcome.total_evaluations} gradient evaluations, because "
    )
    end = (
        "; the target may be out of reach: increase max_evaluations, widen the bounds, give "
        "another initial guess, or choose a nearer target."
    )
    assert outcome.reason.startswith(start)
    assert outcome.reason.endswith(end)
    with pytest.raises(OptimizationError) as caught:
        outcome.raise_if_missed()
    assert str(caught.value) == outcome.reason
    assert caught.value.outcome is outcome


def test_a_nan_stops_with_the_step_and_the_reason() -> None:
    """Stop at the evaluation whose cost or gradient is NaN, and hand out the best before it."""
    with pytest.raises(OptimizationError) as caught:
        optimize(Quadratic(broken="cost", after=2))
    outcome = caught.value.outcome
    assert str(caught.value) == (
        f"l-bfgs: iteration 1, evaluation 3: the cost is nan; the best cost before was "
        f"{outcome.cost:.6g}: take smaller steps or tighter bounds."
    )
    with pytest.raises(OptimizationError) as caught:
        optimize(Quadratic(broken="gradient"))
    assert str(caught.value) == (
        "l-bfgs: iteration 0, evaluation 1: the gradient is not finite, first at unknown 1; this "
        "is the initial guess, so give another one or a smaller time step."
    )


def test_a_rollout_that_explodes_stops_with_its_step() -> None:
    """Name the step at which the rollout of the start becomes non-finite."""
    model = fb.models.pendulum(2)
    sim = fb.Simulator(model, dt=0.5)
    controls = make_controls(model, np.zeros((400, 2)))
    problem = Shooting(sim, np.zeros(2), np.zeros(2), controls, swing().cost)
    with pytest.raises(OptimizationError) as caught:
        optimize(problem, start=np.full(problem.size, 1e6))
    text = str(caught.value)
    assert text.startswith("l-bfgs: iteration 0, evaluation 1: world 0, first at step ")
    assert "NONFINITE" in text
    assert text.endswith("; this is the initial guess, so give another one or a smaller time step.")


@pytest.mark.skipif(not TORCH, reason="torch is not installed")
def test_divergence_stops_adam() -> None:
    """Stop a learning rate under which the cost grows a million times."""
    objective = Quadratic()
    objective.lower, objective.upper = np.full(3, -np.inf), np.full(3, np.inf)
    with pytest.raises(OptimizationError) as caught:
        optimize(objective, method="adam", rate=1e6)
    assert str(caught.value) == (
        "adam: iteration 0, evaluation 2: the cost grew from 6.16 at the initial guess to 1.5e+12, "
        "by more than 1e+06 times; the best cost before was 6.15625: take smaller steps or tighter "
        "bounds."
    )


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


OPTIONS = [
    (
        {"method": "newton"},
        "optimize(): method is 'newton'; it must be one of l-bfgs, projected-gradient, adam.",
    ),
    ({"max_evaluations": 0}, "optimize(): max_evaluations is 0; it must be an integer >= 1."),
    ({"max_evaluations": 2.5}, "optimize(): max_evaluations is 2.5; it must be an integer >= 1."),
    ({"goal": np.nan}, "optimize(): goal is nan; it must be a number, or None."),
    ({"start": "here"}, "optimize(): start is not an array of numbers; give one."),
    ({"rate": -1.0}, "optimize(): rate is -1.0; it must be a finite number > 0."),
    (
        {"clip": 1.0},
        'optimize(): clip is given with method "l-bfgs", whose line search needs the gradient as '
        'it is; omit it, or use method "adam".',
    ),
    (
        {"start": [0.0, 9.0, 0.0]},
        "optimize(): start[1] is 9, outside its bounds -2 to 2; move it inside or widen the "
        "bounds.",
    ),
    ({"start": [0.0, np.nan, 0.0]}, "optimize(): start holds a NaN; give numbers."),
    (
        {"start": [0.0] * 5},
        "optimize(): start has shape (5,); expected (3,), or a shape that broadcasts to it.",
    ),
]


@pytest.mark.parametrize(("options", "sentence"), OPTIONS)
def test_bad_options_have_their_sentence(options: dict[str, object], sentence: str) -> None:
    """Refuse an option without meaning, in one sentence."""
    with pytest.raises(FeatherbackError) as caught:
        optimize(Quadratic(), **options)  # type: ignore[arg-type]
    assert str(caught.value) == sentence


BOUNDS = [
    (
        {"lower": 1.0, "upper": -1.0},
        ParameterError,
        "make_controls(): the bounds cross at [0, 0]: lower is 1 and upper -1; lower must not "
        "exceed upper.",
    ),
    (
        {"lower": np.nan},
        ParameterError,
        "make_controls(): lower holds a NaN; give numbers.",
    ),
    (
        {"lower": 1.0, "upper": 2.0},
        ParameterError,
        "make_controls(): base[0, 0] is 0, outside its bounds 1 to 2; move it inside or widen the "
        "bounds.",
    ),
    (
        {"lower": [0.0, 0.0]},
        ShapeError,
        "make_controls(): lower has shape (2,); expected (4, 1), or a shape that broadcasts to it.",
    ),
    (
        {"free": [1]},
        ParameterError,
        "make_controls(): free is [1]; it must name at least one actuator from 0 to 0.",
    ),
    (
        {"free": ["elbow"]},
        ParameterError,
        "make_controls(): free is ['elbow']; it must name at least one actuator from 0 to 0.",
    ),
    (
        {"hold": 9},
        ParameterError,
        "make_controls(): hold is 9; it must be an integer from 1 to 4.",
    ),
    (
        {"hold": 1.5},
        ParameterError,
        "make_controls(): hold is 1.5; it must be an integer from 1 to 4.",
    ),
    (
        {"active": 0},
        ParameterError,
        "make_controls(): active is 0; it must be an integer from 1 to 4.",
    ),
    (
        {"upper": "high"},
        ParameterError,
        "make_controls(): upper is not an array of numbers; give one.",
    ),
    (
        {"base": "still"},
        ParameterError,
        "make_controls(): base is not an array of numbers; give one.",
    ),
    (
        {"unit": 0.0},
        ParameterError,
        "make_controls(): unit holds 0; it must hold finite numbers above 0.",
    ),
    (
        {"base": np.zeros((4, 3))},
        ShapeError,
        'make_controls(): base has shape (4, 3); expected (steps, 1) for model "pendulum".',
    ),
]


@pytest.mark.parametrize(("options", "kind", "sentence"), BOUNDS)
def test_bad_bounds_have_their_sentence(
    options: dict[str, object], kind: type[Exception], sentence: str
) -> None:
    """Refuse bounds that cross, hold a NaN, exclude the base or do not fit."""
    base = options.pop("base", np.zeros((4, 1)))
    with pytest.raises(kind) as caught:
        make_controls(fb.models.pendulum(), base, **options)  # type: ignore[arg-type]
    assert str(caught.value) == sentence


TARGETS = [
    ("bal", [0, 0, 0], 'final_position(): there is no body "bal"; there are: world, ball.'),
    ("world", [0, 0, 0], 'final_position(): body "world" has no free joint; name a body that moves '
     "freely."),
    ("ball", [0, 0], "final_position(): target is [0, 0]; it must be three finite numbers [m]."),
    (
        "ball",
        [0, 0, np.inf],
        "final_position(): target is [0, 0, inf]; it must be three finite numbers [m].",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("body", "target", "sentence"), TARGETS)
def test_bad_targets_have_their_sentence(body: str, target: list[float], sentence: str) -> None:
    """Refuse a body that is not free and a target that is no point."""
    with pytest.raises(ParameterError) as caught:
        final_position(fb.models.ball(), body, target)
    assert str(caught.value) == sentence


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


def test_a_site_that_is_not_there_is_named() -> None:
    """Name the sites there are, and refuse a target that is no point."""
    sim = fb.Simulator(fb.models.pendulum())
    with pytest.raises(ParameterError) as caught:
        site_position(sim, "hand", [0, 0, 0])
    assert str(caught.value) == 'site_position(): there is no site "hand"; there are: tip.'
    with pytest.raises(ParameterError) as caught:
        site_position(sim, "tip", [0, 0, np.nan])
    assert str(caught.value) == (
        "site_position(): target is [0, 0, nan]; it must be three finite numbers [m]."
    )


@pytest.mark.parametrize("hold", [1, 7])
def test_an_outcome_has_its_controls(hold: int) -> None:
    """Return the controls of the unknowns found, which give the rollout of the cost."""
    problem = swing(hold=hold)
    outcome = optimize(problem, max_evaluations=5)
    roll = problem.rollout(outcome.x)
    assert outcome.u.shape == (STEPS, 1)
    assert np.array_equal(outcome.u, roll.u)
    plain = optimize(Quadratic())
    with pytest.raises(ParameterError, match=r"Outcome\.u.*Shooting"):
        _ = plain.u


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


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Say how to get scipy where it is not installed."""
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(FeatherbackError) as caught:
        optimize(Quadratic())
    assert str(caught.value) == (
        "optimize(): scipy is not installed; it is needed here: pip install 'featherback[opt]'."
    )


def test_clip_norm_shortens_only_what_is_long() -> None:
    """Keep short gradients, shorten long ones to the norm, refuse a norm of zero."""
    long, short = np.array([3.0, 4.0]), np.array([0.3, 0.4])
    assert np.array_equal(clip_norm(short, 1.0), short)
    assert np.array_equal(clip_norm(long, None), long)
    assert np.allclose(clip_norm(long, 1.0), [0.6, 0.8], rtol=1e-15)
    with pytest.raises(ParameterError) as caught:
        clip_norm(long, 0.0)
    assert str(caught.value) == "clip_norm(): max_norm is 0.0; it must be > 0."


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
    """Stay where nothing can move, and say why where the method knows."""
    outcome = optimize(swing(limit=0.0), method=method, max_evaluations=5)  # type: ignore[arg-type]
    assert not outcome.x.any()
    assert outcome.cost == outcome.costs[0]
    if method == "l-bfgs":
        assert outcome.reason == (
            "l-bfgs: stopped at the cost 0.125 after 1 gradient evaluations, because the bounds "
            "fix every unknown."
        )


def test_a_sum_of_nothing_and_an_odd_bundle_are_refused() -> None:
    """Refuse a cost without parts, a target of words, and a point of another size."""
    problem = swing()
    empty = replace(problem, cost=Sum([]))
    with pytest.raises(ParameterError) as caught:
        optimize(empty)
    assert str(caught.value) == "Sum(): there are no parts; give at least one cost."
    ball = fb.models.ball()
    with pytest.raises(ParameterError) as caught:
        final_position(ball, ball.body_names[1], "there")
    assert str(caught.value) == "final_position(): target is not an array of numbers; give one."
    with pytest.raises(ShapeError) as shaped:
        bundle(problem, np.zeros(2), sigma=0.1, samples=4, rng=np.random.default_rng(0))
    assert str(shaped.value) == (
        "bundle(): x has shape (2,); expected (60,), or a shape that broadcasts to it."
    )


BUNDLES = [
    ({"sigma": 0.0}, "bundle(): sigma is 0.0; it must be a finite number > 0."),
    ({"samples": 5}, "bundle(): samples is 5; it must be an even integer >= 4."),
    ({"order": "second"}, "bundle(): order is 'second'; it must be one of first, zeroth, mixed."),
]


@pytest.mark.parametrize(("options", "sentence"), BUNDLES)
def test_bad_bundles_have_their_sentence(options: dict[str, object], sentence: str) -> None:
    """Refuse options without meaning."""
    whole = {"sigma": 0.1, "samples": 8, "rng": np.random.default_rng(0), **options}
    with pytest.raises(ParameterError) as caught:
        bundle(Quadratic(), np.zeros(3), **whole)  # type: ignore[arg-type]
    assert str(caught.value) == sentence
