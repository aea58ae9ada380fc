"""Calls of featherback.control that raise, and why optimizations stop."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import featherback as fb
from featherback.control import (
    RecedingHorizon,
    Sum,
    Tracking,
    bundle,
    clip_norm,
    final_position,
    ilqr,
    make_controls,
    multiple_shooting,
    optimize,
    run_closed_loop,
    site_position,
    tracking,
)
from featherback.errors import FeatherbackError, OptimizationError, ParameterError, ShapeError
from tests.control.helpers import Quadratic, push, swing
from tests.golden.sentences import Case, module_as, raises, returns

pytest.importorskip("scipy")


def _optimize(name: str, error: type[Exception], options: dict[str, Any], *names: str) -> Case:
    """Return the case of an option of `optimize`."""
    call = partial(optimize, Quadratic(), **options)
    return raises(f"optimize: {name}", error, call, "optimize()", *names)


def _controls(name: str, error: type[Exception], options: dict[str, Any], *names: str) -> Case:
    """Return the case of an option of `make_controls`."""
    given = {"base": np.zeros((4, 1)), **options}
    call = partial(make_controls, fb.models.pendulum(), **given)
    return raises(f"make_controls: {name}", error, call, "make_controls()", *names)


def _ilqr(**options: Any) -> None:
    """Call iLQR on a pendulum."""
    model = fb.models.pendulum()
    given: dict[str, Any] = {"q": [0], "v": [0], "u": np.zeros((5, 1)), **options}
    ilqr(fb.Simulator(model), cost=tracking(model, [0.0]), **given)


class _Narrow(Tracking):
    """A cost that leaves out the activation."""

    def errors(self, q: Any, v: Any, *act: Any) -> Any:
        """Return the errors of q and v."""
        return super().errors(q, v)


def _narrow() -> None:
    """Call iLQR with a cost whose derivatives leave out the activation."""
    cost = _Narrow(**vars(tracking(fb.models.pendulum(), [0.0])))
    ilqr(push().sim, [0], [0], np.zeros((5, 1)), cost)


def _horizon(guess: Any = None, steps: Any = 5, **options: Any) -> None:
    """Run a receding horizon on a pendulum."""
    model = fb.models.pendulum()
    sim = fb.Simulator(model)
    start = np.zeros((5, 1)) if guess is None else guess
    controller = RecedingHorizon(sim, tracking(model, [0.0]), start)
    run_closed_loop(controller, sim, [0], [0], steps, **options)


def _bundle(**options: Any) -> None:
    """Call `bundle` on a quadratic."""
    given = {"sigma": 0.1, "samples": 8, "rng": np.random.default_rng(0), **options}
    bundle(Quadratic(), np.zeros(3), **given)


def _explode() -> None:
    """Run iLQR from a guess that becomes non-finite."""
    model = fb.models.pendulum(2)
    cost = tracking(model, [0.0, 0.0])
    ilqr(fb.Simulator(model, dt=0.5), [0, 0], [0, 0], np.full((400, 2), 1e6), cost)


def _without_scipy() -> None:
    """Call `optimize` where scipy is not installed."""
    with module_as("scipy.optimize"):
        optimize(Quadratic())


def _uneven() -> None:
    """Give the three weights of a rotation different values."""
    ball, weights = fb.models.ball(), np.ones(12)
    weights[3] = 2.0
    tracking(ball, ball.q0, final=weights)


CONTROLS = [
    _controls("bounds that cross", ParameterError, {"lower": 1.0, "upper": -1.0}, "[0, 0]"),
    _controls("a NaN in a bound", ParameterError, {"lower": np.nan}, "lower", "NaN"),
    _controls("a base outside", ParameterError, {"lower": 1.0, "upper": 2.0}, "base[0, 0]"),
    _controls("a bound of another shape", ShapeError, {"lower": [0.0, 0.0]}, "lower", "(2,)"),
    _controls("no such actuator", ParameterError, {"free": [1]}, "free", "[1]"),
    _controls("an actuator's name", ParameterError, {"free": ["elbow"]}, "free", "elbow"),
    _controls("a long hold", ParameterError, {"hold": 9}, "hold", "9"),
    _controls("a fractional hold", ParameterError, {"hold": 1.5}, "hold", "1.5"),
    _controls("nothing active", ParameterError, {"active": 0}, "active", "0"),
    _controls("a word as a bound", ParameterError, {"upper": "high"}, "upper"),
    _controls("a word as base", ParameterError, {"base": "still"}, "base"),
    _controls("a unit of zero", ParameterError, {"unit": 0.0}, "unit", "0"),
    _controls("a base of another shape", ShapeError, {"base": np.zeros((4, 3))}, "base", "(4, 3)"),
    raises(
        "expand: another shape",
        ShapeError,
        lambda: swing(hold=7).controls.expand(np.zeros(4)),
        "Controls.expand()",
        "(4,)",
    ),
]

OPTIMIZE = [
    _optimize("method", ParameterError, {"method": "newton"}, "method", "newton"),
    _optimize("no evaluations", ParameterError, {"max_evaluations": 0}, "max_evaluations", "0"),
    _optimize("half evaluations", ParameterError, {"max_evaluations": 2.5}, "2.5"),
    _optimize("goal", ParameterError, {"goal": np.nan}, "goal", "nan"),
    _optimize("start, a word", ParameterError, {"start": "here"}, "start"),
    _optimize("start, outside", ParameterError, {"start": [0.0, 9.0, 0.0]}, "start[1]", "9"),
    _optimize("start, NaN", ParameterError, {"start": [0.0, np.nan, 0.0]}, "start", "NaN"),
    _optimize("start, shape", ShapeError, {"start": [0.0] * 5}, "start", "(5,)"),
    _optimize("rate", ParameterError, {"rate": -1.0}, "rate", "-1.0"),
    _optimize("clip", ParameterError, {"clip": 1.0}, "clip", "l-bfgs"),
    raises("optimize: scipy is missing", FeatherbackError, _without_scipy, "optimize()", "scipy"),
    raises(
        "optimize: a NaN as cost",
        OptimizationError,
        lambda: optimize(Quadratic(broken="cost", after=2)),
        "l-bfgs: iteration 1, evaluation 3",
        "nan",
    ),
    raises(
        "optimize: a NaN in the first gradient",
        OptimizationError,
        lambda: optimize(Quadratic(broken="gradient")),
        "l-bfgs: iteration 0, evaluation 1",
        "unknown 1",
    ),
    returns(
        "optimize: the goal is reached",
        lambda: optimize(Quadratic(), goal=10.0).reason,
        "l-bfgs",
        "goal 10",
    ),
    returns(
        "optimize: the maximum is reached above the goal",
        lambda: optimize(Quadratic(), max_evaluations=1, goal=-1.0).reason,
        "max_evaluations (1)",
        "goal -1",
    ),
    returns(
        "optimize: bounds that fix everything",
        lambda: optimize(swing(limit=0.0)).reason,
        "bounds",
    ),
    raises(
        "Outcome.u: another objective",
        ParameterError,
        lambda: optimize(Quadratic()).u,
        "Outcome.u",
        "Shooting",
    ),
]

FEEDBACK = [
    raises("ilqr: limits that cross", ParameterError, lambda: _ilqr(lower=1, upper=0), "ilqr()"),
    raises(
        "ilqr: no iterations", ParameterError, lambda: _ilqr(max_iterations=0), "max_iterations"
    ),
    raises("ilqr: a state of another shape", ShapeError, lambda: _ilqr(q=[0, 0]), "q", "(2,)"),
    raises(
        "ilqr: an activation without actuators that have one",
        ShapeError,
        lambda: _ilqr(act=[0.0, 0.0]),
        "act",
        "(2,)",
    ),
    raises("ilqr: a cost without activation", ShapeError, _narrow, "expand()", "(6, 2)", "(6, 3)"),
    raises("ilqr: a guess that explodes", OptimizationError, _explode, "ilqr", "at step"),
    raises(
        "tracking: no effort",
        ParameterError,
        lambda: tracking(fb.models.pendulum(), [0.0], effort=0.0),
        "tracking()",
        "effort",
    ),
    raises(
        "tracking: a negative weight",
        ParameterError,
        lambda: tracking(fb.models.pendulum(), [0.0], final=-1.0),
        "tracking()",
        "final",
    ),
    raises("tracking: uneven weights", ParameterError, _uneven, "tracking()", "final[3:6]"),
    raises(
        "RecedingHorizon: a guess of another shape",
        ParameterError,
        lambda: _horizon(np.zeros((5, 2))),
        "RecedingHorizon()",
        "(5, 2)",
    ),
    raises("run_closed_loop: no steps", ParameterError, lambda: _horizon(steps=0), "steps", "0"),
    raises("run_closed_loop: every", ParameterError, lambda: _horizon(every=0.5), "every", "0.5"),
    raises(
        "multiple_shooting: segments that do not divide",
        ParameterError,
        lambda: multiple_shooting(swing(steps=120), 7),
        "segments",
        "7",
    ),
    raises(
        "multiple_shooting: states without activation",
        ShapeError,
        lambda: multiple_shooting(push(), 2, states=(np.zeros((1, 1)), np.zeros((1, 1)))),
        "states",
        "act",
    ),
    raises(
        "multiple_shooting: a negative penalty",
        ParameterError,
        lambda: multiple_shooting(swing(steps=120), 6, penalty=-1.0),
        "penalty",
        "-1.0",
    ),
    raises(
        "multiple_shooting: no rounds",
        ParameterError,
        lambda: multiple_shooting(swing(steps=120), 6, max_rounds=0),
        "max_rounds",
        "0",
    ),
]

COSTS = [
    raises(
        "Sum: no parts",
        ParameterError,
        lambda: Sum([])(np.zeros((1, 2, 1)), np.zeros((1, 2, 1)), np.zeros((1, 1, 1))),
        "Sum()",
    ),
    *(
        raises(
            f"final_position: {name}",
            ParameterError,
            lambda body=body, target=target: final_position(fb.models.ball(), body, target),
            "final_position()",
            fault,
        )
        for name, body, target, fault in (
            ("no such body", "bal", [0, 0, 0], '"bal"'),
            ("a fixed body", "world", [0, 0, 0], '"world"'),
            ("two numbers", "ball", [0, 0], "[0, 0]"),
            ("an infinite target", "ball", [0, 0, np.inf], "inf"),
            ("a word", "ball", "there", "target"),
        )
    ),
    *(
        raises(
            f"site_position: {name}",
            ParameterError,
            lambda site=site, target=target: site_position(
                fb.Simulator(fb.models.pendulum()), site, target
            ),
            "site_position()",
            fault,
        )
        for name, site, target, fault in (
            ("no such site", "hand", [0, 0, 0], '"hand"'),
            ("a NaN", "tip", [0, 0, np.nan], "nan"),
        )
    ),
    raises(
        "clip_norm: a norm of zero",
        ParameterError,
        lambda: clip_norm(np.ones(2), 0.0),
        "clip_norm()",
        "max_norm",
    ),
    raises("bundle: sigma", ParameterError, lambda: _bundle(sigma=0.0), "sigma", "0.0"),
    raises("bundle: odd samples", ParameterError, lambda: _bundle(samples=5), "samples", "5"),
    raises("bundle: order", ParameterError, lambda: _bundle(order="second"), "order", "second"),
    raises(
        "bundle: a point of another size",
        ShapeError,
        lambda: bundle(swing(), np.zeros(2), sigma=0.1, samples=4, rng=np.random.default_rng(0)),
        "bundle()",
        "(2,)",
    ),
]

CASES = [*CONTROLS, *OPTIMIZE, *FEEDBACK, *COSTS]
