"""Single shooting: minimise the cost of a rollout by L-BFGS, projected gradient or Adam."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from featherback.control.outcome import (
    Objective,
    Outcome,
    Report,
    Stop,
    Watch,
    check_start,
    optional,
)
from featherback.control.smoothing import clip_norm
from featherback.errors import ParameterError
from featherback.sim.inputs import is_whole

Array = NDArray[np.float64]
Method = Literal["l-bfgs", "projected-gradient", "adam"]
METHODS = ("l-bfgs", "projected-gradient", "adam")
MEMORY = 10  # past costs that a projected step may not exceed
RESTARTS = 5  # of L-BFGS after its line search gave up
SUFFICIENT = 1e-4  # share of the predicted decrease that a step must give


def optimise(
    objective: Objective,
    *,
    method: Method = "l-bfgs",
    start: ArrayLike | None = None,
    most: int = 100,
    goal: float | None = None,
    rate: float | None = None,
    clip: float | None = None,
    report: Report | None = None,
) -> Outcome:
    """Minimise an objective within its bounds.

    Args:
        objective: a `Shooting` problem, or anything with its methods.
        method: "l-bfgs" (scipy's L-BFGS-B), "projected-gradient" (spectral steps, projected on
            the bounds) or "adam" (torch's, projected on the bounds after each step).
        start: real[size] or its unflattened shape; zero, moved into the bounds, when None.
        most: most gradient evaluations, line searches counted.
        goal: cost at which to stop; None to go on until nothing is gained.
        rate: length of the first step for "l-bfgs" and "projected-gradient", in units of x: the
            largest change of one unknown, when None a tenth of the narrowest bounds; for "adam"
            the learning rate, 1e-2 when None.
        clip: largest norm of a gradient, longer ones are shortened; for "adam" only.
        report: called after each iteration with its number, the best cost and the evaluations
            it took; the start is iteration 0.

    Returns:
        The best unknowns, the costs and the reason for stopping.

    Raises:
        OptimisationError: where cost or gradient leaves the finite numbers, or the cost diverges.
        ParameterError: for an unknown method, bad bounds, or a start outside them.
        FeatherbackError: where the package that holds the method is not installed.
    """
    where = "optimise()"
    _check_options(where, method, most, rate, clip)
    if goal is not None and np.isnan(goal):
        raise ParameterError(f"{where}: goal is {goal}; it must be a number, or None.")
    x = check_start(where, objective, start)
    watch = Watch(method, objective, most, goal, report, searches=method != "adam")
    try:
        if method == "l-bfgs":
            reason = _lbfgs(watch, x, first_step(objective, rate))
        elif method == "projected-gradient":
            reason = _projected(watch, x, first_step(objective, rate))
        else:
            reason = _adam(watch, x, 1e-2 if rate is None else rate, clip)
    except Stop:
        reason = f"the {most} evaluations allowed are spent"
    return watch.outcome(reason)


def _check_options(
    where: str, method: str, most: int, rate: float | None, clip: float | None
) -> None:
    """Refuse options that have no meaning."""
    if method not in METHODS:
        raise ParameterError(
            f"{where}: method is {method!r}; it must be one of {', '.join(METHODS)}."
        )
    if not is_whole(most) or most < 1:
        raise ParameterError(f"{where}: most is {most!r}; it must be a whole number >= 1.")
    if rate is not None and not (np.isfinite(rate) and rate > 0.0):
        raise ParameterError(f"{where}: rate is {rate}; it must be a finite number above 0.")
    if clip is not None and method != "adam":
        raise ParameterError(
            f'{where}: clip is given with method "{method}", whose line search needs the gradient '
            'as it is; leave it out, or use method "adam".'
        )


def first_step(objective: Objective, rate: float | None) -> float:
    """Return the largest change of one unknown in the first step."""
    if rate is not None:
        return rate
    width = objective.upper - objective.lower
    known = width[np.isfinite(width) & (width > 0.0)]
    return 0.1 * float(known.min()) if len(known) else 1.0


def _lbfgs(watch: Watch, x: Array, step: float) -> str:
    """Run scipy's L-BFGS-B, again from the best point where a jump of the cost made it give up."""
    scipy = optional("optimise()", "scipy.optimize", "opt")
    reason, gave_up = "", True
    for _ in range(RESTARTS):
        if not gave_up:
            break
        before = watch.best
        reason, gave_up = _lbfgs_once(scipy.minimize, watch, x, step)
        gave_up = gave_up and watch.best < before
        x, step = watch.best_x, 0.1 * step
    return reason


def _lbfgs_once(minimize: Any, watch: Watch, x: Array, step: float) -> tuple[str, bool]:
    """Run it once, in units in which its first step has the wanted length.

    Returns:
        Why it stopped, and whether its line search gave up.
    """
    lower, upper = watch.objective.lower, watch.objective.upper
    cost, gradient = watch.gradient(x)
    slope = float(np.abs(gradient).max())
    if slope == 0.0:
        return "the gradient is zero at the start", False
    if np.array_equal(lower, upper):
        return "the bounds leave no unknown to move", False
    # its first trial moves by one along the unit gradient; unknowns are scaled so that the
    # largest of them moves by `step`
    unit = step * float(np.linalg.norm(gradient)) / slope

    def scaled(y: Array) -> tuple[float, Array]:
        point = np.clip(x + unit * y, lower, upper)
        if np.array_equal(point, x):
            return cost, gradient * unit
        value, slope_here = watch.gradient(point)
        return value, slope_here * unit

    def callback(_: Array) -> None:
        watch.end()

    done = minimize(
        scaled,
        np.zeros_like(x),
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip((lower - x) / unit, (upper - x) / unit, strict=True)),
        callback=callback,
        options={"maxfun": watch.most + 1, "maxiter": watch.most, "ftol": 0.0, "gtol": 0.0},
    )
    return f"scipy says {str(done.message).strip().rstrip('.')!r}", int(done.status) == 2


def _projected(watch: Watch, x: Array, step: float) -> str:
    """Run spectral projected gradient: Barzilai-Borwein steps, a non-monotone line search."""
    lower, upper = watch.objective.lower, watch.objective.upper
    cost, gradient = watch.gradient(x)
    slope = float(np.abs(gradient).max())
    length = step / slope if slope > 0.0 else 1.0
    past = [cost]
    while True:
        direction = np.clip(x - length * gradient, lower, upper) - x
        descent = float(gradient @ direction)
        if descent > -1e-16 * max(abs(cost), 1e-300) or not np.any(direction):
            return "the projected gradient is zero"
        share = 1.0
        while True:
            trial = np.clip(x + share * direction, lower, upper)
            trial_cost, trial_gradient = watch.attempt(trial)
            if trial_cost <= max(past[-MEMORY:]) + SUFFICIENT * share * descent:
                break
            # the minimum of the parabola through what is known, kept within a tenth and a half
            curve = trial_cost - cost - share * descent
            parabola = np.isfinite(curve) and curve > 0.0
            best = -0.5 * share**2 * descent / curve if parabola else 0.1 * share
            share = float(np.clip(best, 0.1 * share, 0.5 * share))
            if share < 1e-12:
                return "no step along the projected gradient lowers the cost"
        moved, turned = trial - x, trial_gradient - gradient
        bend = float(moved @ turned)
        length = float(moved @ moved) / bend if bend > 0.0 else 10.0 * length
        x, cost, gradient = trial, trial_cost, trial_gradient
        past.append(cost)
        watch.end()


def _adam(watch: Watch, x: Array, rate: float, clip: float | None) -> str:
    """Run torch's Adam, projected on the bounds after each step."""
    torch = optional("optimise()", "torch", "torch")
    lower, upper = watch.objective.lower, watch.objective.upper
    unknowns = torch.tensor(x, dtype=torch.float64)
    method = torch.optim.Adam([unknowns], lr=rate)
    while True:
        _, gradient = watch.gradient(unknowns.numpy().copy())
        if len(watch.costs) > 1 or watch.spent > 1:
            watch.end()
        if not np.any(gradient):
            return "the gradient is zero"
        unknowns.grad = torch.from_numpy(clip_norm(gradient, clip))
        method.step()
        unknowns.copy_(torch.from_numpy(np.clip(unknowns.numpy(), lower, upper)))
