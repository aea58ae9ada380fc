"""Minimize an objective within bounds by L-BFGS, projected gradient or Adam."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from featherback._checks import check_integer
from featherback._optional import import_optional
from featherback._typing import Array
from featherback.control.outcome import (
    Evaluator,
    Objective,
    Outcome,
    Report,
    Stop,
    initial_guess,
)
from featherback.control.smoothing import clip_norm
from featherback.errors import ParameterError
from featherback.sim.options import check_choice

Method = Literal["l-bfgs", "projected-gradient", "adam"]
METHODS = ("l-bfgs", "projected-gradient", "adam")
MEMORY = 10  # past costs that a projected step may not exceed
RESTARTS = 5  # of L-BFGS after its line search gave up
SUFFICIENT = 1e-4  # fraction of the predicted decrease that a step must give


def optimize(
    objective: Objective,
    *,
    method: Method = "l-bfgs",
    start: ArrayLike | None = None,
    max_evaluations: int = 100,
    goal: float | None = None,
    rate: float | None = None,
    clip: float | None = None,
    report: Report | None = None,
) -> Outcome:
    """Minimize an objective within its bounds.

    Args:
        objective: a `Shooting` problem, or anything with its methods.
        method: "l-bfgs" (scipy's L-BFGS-B), "projected-gradient" (spectral steps, projected on
            the bounds) or "adam" (torch's, projected on the bounds after each step).
        start: initial guess, real[size] or its unflattened shape; zero, clipped to the bounds,
            when None.
        max_evaluations: maximum number of gradient evaluations, line searches counted.
        goal: cost at which to stop; None to go on until the method ends by itself.
        rate: length of the first step for "l-bfgs" and "projected-gradient", in units of x: the
            largest change of one unknown, when None a tenth of the narrowest bounds; for "adam"
            the learning rate, 1e-2 when None.
        clip: largest norm of a gradient, longer ones are shortened; for "adam" only.
        report: called after each iteration with its number, the best cost and the evaluations
            it took; the initial guess is iteration 0.

    Returns:
        The best unknowns, the costs and the reason for stopping; for a `Shooting` problem
        `Outcome.u` is the controls.

    Raises:
        OptimizationError: where cost or gradient becomes non-finite, or the cost diverges.
        ParameterError: for an unknown method, bad bounds, or a start outside them.
        FeatherbackError: where the package that holds the method is not installed.
    """
    where = "optimize()"
    check_integer(where, "max_evaluations", max_evaluations)
    _check_options(where, method, rate, clip)
    if goal is not None and np.isnan(goal):
        raise ParameterError(f"{where}: goal is {goal}; it must be a number, or None.")
    x = initial_guess(where, objective, start)
    evaluator = Evaluator(
        method, objective, max_evaluations, goal, report, searches=method != "adam"
    )
    try:
        if method == "l-bfgs":
            reason = _lbfgs(evaluator, x, first_step(objective, rate))
        elif method == "projected-gradient":
            reason = _projected(evaluator, x, first_step(objective, rate))
        else:
            reason = _adam(evaluator, x, 1e-2 if rate is None else rate, clip)
    except Stop:
        reason = f"max_evaluations ({max_evaluations}) was reached"
    return evaluator.outcome(reason)


def _check_options(where: str, method: str, rate: float | None, clip: float | None) -> None:
    """Raise ParameterError for options that are unknown or out of range."""
    check_choice(where, "method", method, METHODS)
    if rate is not None and not (np.isfinite(rate) and rate > 0.0):
        raise ParameterError(f"{where}: rate is {rate}; it must be a finite number > 0.")
    if clip is not None and method != "adam":
        raise ParameterError(
            f'{where}: clip is given with method "{method}", whose line search needs the gradient '
            'as it is; omit it, or use method "adam".'
        )


def first_step(objective: Objective, rate: float | None) -> float:
    """Return the largest change of one unknown in the first step."""
    if rate is not None:
        return rate
    width = objective.upper - objective.lower
    known = width[np.isfinite(width) & (width > 0.0)]
    return 0.1 * float(known.min()) if len(known) else 1.0


def _lbfgs(evaluator: Evaluator, x: Array, step: float) -> str:
    """Run scipy's L-BFGS-B, again from the best point where a jump of the cost made it give up."""
    scipy = import_optional("optimize()", "scipy.optimize", "opt")
    reason, gave_up = "", True
    for _ in range(RESTARTS):
        if not gave_up:
            break
        before = evaluator.best
        reason, gave_up = _lbfgs_once(scipy.minimize, evaluator, x, step)
        gave_up = gave_up and evaluator.best < before
        x, step = evaluator.best_x, 0.1 * step
    return reason


def _lbfgs_once(minimize: Any, evaluator: Evaluator, x: Array, step: float) -> tuple[str, bool]:
    """Run it in units in which its first step has the wanted length.

    Returns:
        Why it stopped, and whether its line search gave up.
    """
    lower, upper = evaluator.objective.lower, evaluator.objective.upper
    cost, gradient = evaluator.gradient(x)
    slope = float(np.abs(gradient).max())
    if slope == 0.0:
        return "the gradient is zero at the initial guess", False
    if np.array_equal(lower, upper):
        return "the bounds fix every unknown", False
    # its first trial moves by one along the unit gradient; unknowns are scaled so that the
    # largest of them moves by `step`
    unit = step * float(np.linalg.norm(gradient)) / slope

    def scaled(y: Array) -> tuple[float, Array]:
        point = np.clip(x + unit * y, lower, upper)
        if np.array_equal(point, x):
            return cost, gradient * unit
        value, slope_here = evaluator.gradient(point)
        return value, slope_here * unit

    def callback(_: Array) -> None:
        evaluator.end()

    result = minimize(
        scaled,
        np.zeros_like(x),
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip((lower - x) / unit, (upper - x) / unit, strict=True)),
        callback=callback,
        options={
            "maxfun": evaluator.max_evaluations + 1,
            "maxiter": evaluator.max_evaluations,
            "ftol": 0.0,
            "gtol": 0.0,
        },
    )
    if int(result.status) == 2:
        return "the line search found no step that lowers the cost", True
    return f"scipy reports {str(result.message).strip().rstrip('.')!r}", False


def _projected(evaluator: Evaluator, x: Array, step: float) -> str:
    """Run spectral projected gradient: Barzilai-Borwein steps, a non-monotone line search."""
    lower, upper = evaluator.objective.lower, evaluator.objective.upper
    cost, gradient = evaluator.gradient(x)
    slope = float(np.abs(gradient).max())
    length = step / slope if slope > 0.0 else 1.0
    past = [cost]
    while True:
        direction = np.clip(x - length * gradient, lower, upper) - x
        descent = float(gradient @ direction)
        if descent > -1e-16 * max(abs(cost), 1e-300) or not np.any(direction):
            return "the projected gradient is zero"
        scale = 1.0
        while True:
            trial = np.clip(x + scale * direction, lower, upper)
            trial_cost, trial_gradient = evaluator.attempt(trial)
            if trial_cost <= max(past[-MEMORY:]) + SUFFICIENT * scale * descent:
                break
            # the minimum of the interpolating parabola, kept between a tenth and a half
            curvature = trial_cost - cost - scale * descent
            convex = np.isfinite(curvature) and curvature > 0.0
            best = -0.5 * scale**2 * descent / curvature if convex else 0.1 * scale
            scale = float(np.clip(best, 0.1 * scale, 0.5 * scale))
            if scale < 1e-12:
                return "no step along the projected gradient lowers the cost"
        step_taken, change = trial - x, trial_gradient - gradient
        product = float(step_taken @ change)
        length = float(step_taken @ step_taken) / product if product > 0.0 else 10.0 * length
        x, cost, gradient = trial, trial_cost, trial_gradient
        past.append(cost)
        evaluator.end()


def _adam(evaluator: Evaluator, x: Array, rate: float, clip: float | None) -> str:
    """Run torch's Adam, projected on the bounds after each step."""
    torch = import_optional("optimize()", "torch", "torch")
    lower, upper = evaluator.objective.lower, evaluator.objective.upper
    unknowns = torch.tensor(x, dtype=torch.float64)
    method = torch.optim.Adam([unknowns], lr=rate)
    while True:
        _, gradient = evaluator.gradient(unknowns.numpy().copy())
        if len(evaluator.costs) > 1 or evaluator.spent > 1:
            evaluator.end()
        if not np.any(gradient):
            return "the gradient is zero"
        unknowns.grad = torch.from_numpy(clip_norm(gradient, clip))
        method.step()
        unknowns.copy_(torch.from_numpy(np.clip(unknowns.numpy(), lower, upper)))
