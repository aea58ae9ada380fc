"""iLQR with control limits on the exact Jacobians of the step.

The dynamics are linearized along the trajectory, the cost expanded to second order (Gauss-Newton,
without second derivatives of the dynamics). Each step's control change solves a quadratic problem
within the limits, by scipy's bounded least squares where a limit acts, and the feedback gains are
those of the controls that are free. References: Tassa, Mansard, Todorov, *Control-limited
differential dynamic programming*, 2014.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from featherback._checks import check_integer
from featherback._optional import import_optional
from featherback._typing import Array
from featherback.control.controls import check_bounds, control_range, real_array, real_numbers
from featherback.control.quadratic_cost import Expansion, StageCost
from featherback.errors import OptimizationError, WorldError
from featherback.model.manifold import difference
from featherback.sim import Simulator, Status

Report = Callable[[int, float], None]  # iteration, cost

STEP_SIZES = 0.5 ** np.arange(10.0)  # line search: tried as worlds of one batch
MIN_DAMPING, MAX_DAMPING = 1e-9, 1e9  # regularization of the backward pass
GROWTH = 10.0
ACCEPTED = 1e-4  # fraction of the predicted decrease that a step must give


@dataclass(frozen=True, eq=False)
class Policy:
    """A trajectory with the feedback that keeps a robot on it: u = u_t + gains_t (x - x_t).

    Attributes:
        q: float64[steps + 1, nq].
        v: float64[steps + 1, nv].
        u: float64[steps, nu].
        gains: float64[steps, nu, 2 nv]; x is (tangent of q, v).
        costs: cost after each iteration; the first is that of the initial guess.
        reason: why it stopped, in a sentence.
        converged: whether it stopped because the cost no longer decreases.
    """

    q: Array
    v: Array
    u: Array
    gains: Array
    costs: list[float]
    reason: str
    converged: bool

    @property
    def cost(self) -> float:
        """Cost of the trajectory."""
        return self.costs[-1]


@dataclass(frozen=True, eq=False)
class TrajectoryProblem:
    """What iLQR solves: simulator, initial state, cost, and control limits float64[2, nu]."""

    sim: Simulator
    q: Array
    v: Array
    cost: StageCost
    limits: Array


def ilqr(
    sim: Simulator,
    q: ArrayLike,
    v: ArrayLike,
    u: ArrayLike,
    cost: StageCost,
    *,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    max_iterations: int = 100,
    tolerance: float = 1e-7,
    report: Report | None = None,
) -> Policy:
    """Find controls from one state that minimize a sum over steps, within limits.

    Args:
        sim: the simulator.
        q: real[nq], initial configuration.
        v: real[nv], initial velocity.
        u: real[steps, nu], initial guess; it is clipped to the limits.
        cost: such as what `tracking` returns.
        lower: lower limits of u, real[nu]; the model's control range when None.
        upper: upper limits of u; the model's control range when None.
        max_iterations: maximum number of iterations.
        tolerance: relative decrease of the cost below which it stops.
        report: called with the number and the cost of each iteration.

    Returns:
        The trajectory with its feedback gains.

    Raises:
        OptimizationError: where the trajectory of the guess becomes non-finite, or a step has no
            derivative.
        ParameterError: for bad limits.
        ShapeError: for arrays of a wrong shape.
    """
    where = "ilqr()"
    model = sim.model
    check_integer(where, "max_iterations", max_iterations)
    ends = control_range(model)
    limits = np.stack(
        [
            real_array(where, "lower", ends[0] if lower is None else lower, (model.nu,)),
            real_array(where, "upper", ends[1] if upper is None else upper, (model.nu,)),
        ]
    )
    check_bounds(where, limits[0], limits[1])
    given = real_numbers(where, "u", u)
    guess = real_array(where, "u", given, (*given.shape[:-1], model.nu))
    state = real_array(where, "q", q, (model.nq,)), real_array(where, "v", v, (model.nv,))
    problem = TrajectoryProblem(sim, *state, cost, limits)
    return _solve(problem, np.clip(guess, *limits), max_iterations, tolerance, report)


def _solve(
    problem: TrajectoryProblem,
    u: Array,
    max_iterations: int,
    tolerance: float,
    report: Report | None,
) -> Policy:
    """Iterate: linearize, sweep backwards, search forwards."""
    q, v, value = _initial_trajectory(problem, u)
    costs, damping = [value], 1e-6
    gains = np.zeros((len(u), problem.sim.model.nu, 2 * problem.sim.model.nv))
    reason, converged = f"max_iterations ({max_iterations}) was reached", False
    for iteration in range(1, max_iterations + 1):
        try:
            A, B = (np.asarray(J, np.float64) for J in problem.sim.linearize(q[:-1], v[:-1], u))
        except WorldError as error:
            raise OptimizationError(
                f"ilqr: iteration {iteration}: the trajectory has a step without a derivative: "
                f"{str(error).splitlines()[-1].rstrip('.')}; the cost before was {costs[-1]:.6g}."
            ) from None
        expansion = problem.cost.expand(q, v, u)
        accepted = None
        while accepted is None and damping <= MAX_DAMPING:
            update = _backward(A, B, expansion, u, problem.limits, damping)
            if update is not None:
                gains = update[1]
                accepted = _forward(problem, (q, v, u), update, costs[-1])
            damping *= GROWTH if accepted is None else 1.0 / GROWTH
        damping = max(damping, MIN_DAMPING)
        if accepted is None:
            reason, converged = "no step lowers the cost", True
            break
        q, v, u, value = accepted
        costs.append(value)
        if report is not None:
            report(iteration, value)
        if costs[-2] - value <= tolerance * abs(costs[-2]):
            reason, converged = "the cost no longer decreases", True
            break
    head = f"ilqr: stopped at the cost {costs[-1]:.6g} after {len(costs) - 1} iterations, because "
    return Policy(q, v, u, gains, costs, f"{head}{reason}.", converged)


def _initial_trajectory(problem: TrajectoryProblem, u: Array) -> tuple[Array, Array, float]:
    """Return the trajectory of the initial guess and its cost."""
    roll = problem.sim.rollout(problem.q, problem.v, u)
    if int(roll.status) & Status.NONFINITE:
        raise OptimizationError(
            f"ilqr: the rollout of the initial guess becomes non-finite at step "
            f"{int(roll.status_step)}; give another guess or a smaller time step."
        )
    q, v = np.array(roll.q, np.float64), np.array(roll.v, np.float64)
    return q, v, float(problem.cost.total(q[None], v[None], u[None])[0])


def _backward(
    A: Array, B: Array, cost: Expansion, u: Array, limits: Array, damping: float
) -> tuple[Array, Array, float, float] | None:
    """Return control changes, gains, and linear and quadratic part of the predicted change of cost.

    None where a quadratic problem is not convex, so that more damping is needed.
    """
    steps, nu = u.shape
    change, gains = np.zeros((steps, nu)), np.zeros((steps, nu, A.shape[1]))
    Vx, Vxx = cost.x[-1], cost.xx[-1]
    linear = quadratic = 0.0
    for t in range(steps - 1, -1, -1):
        Qx = cost.x[t] + A[t].T @ Vx
        Qu = cost.u[t] + B[t].T @ Vx
        Qxx = cost.xx[t] + A[t].T @ Vxx @ A[t]
        Qux = cost.ux[t] + B[t].T @ Vxx @ A[t]
        Quu = cost.uu[t] + B[t].T @ Vxx @ B[t]
        solution = _solve_bounded(Quu + damping * np.eye(nu), Qu, Qux, limits - u[t])
        if solution is None:
            return None
        k, K = solution
        linear += float(k @ Qu)
        quadratic += 0.5 * float(k @ Quu @ k)
        Vx = Qx + K.T @ Quu @ k + K.T @ Qu + Qux.T @ k
        Vxx = Qxx + K.T @ Quu @ K + K.T @ Qux + Qux.T @ K
        Vxx = 0.5 * (Vxx + Vxx.T)
        change[t], gains[t] = k, K
    return change, gains, linear, quadratic


def _solve_bounded(H: Array, g: Array, cross: Array, bounds: Array) -> tuple[Array, Array] | None:
    """Minimize 1/2 k'Hk + g'k within bounds; return k and gains, None where H is indefinite."""
    try:
        L = np.linalg.cholesky(H)
    except np.linalg.LinAlgError:
        return None
    both: Array = -np.linalg.solve(H, np.column_stack([g, cross])).astype(np.float64)
    k, gains = both[:, 0], both[:, 1:]
    if np.all((bounds[0] <= k) & (k <= bounds[1])):
        return k, gains
    scipy: Any = import_optional("ilqr()", "scipy.optimize", "opt")
    # scipy refuses bounds of zero width, as where a limit is reached exactly
    wide = np.minimum(bounds[0], 0.0) - 1e-12, np.maximum(bounds[1], 0.0) + 1e-12
    result = scipy.lsq_linear(L.T, -np.linalg.solve(L, g), bounds=wide, method="bvls")
    free = result.active_mask == 0
    gains = np.zeros_like(cross)
    if np.any(free):
        gains[free] = -np.linalg.solve(H[np.ix_(free, free)], cross[free])
    return np.clip(result.x, *bounds), gains


def _forward(
    problem: TrajectoryProblem,
    nominal: tuple[Array, Array, Array],
    update: tuple[Array, Array, float, float],
    before: float,
) -> tuple[Array, Array, Array, float] | None:
    """Try all step sizes at once; return the best trajectory, None if none lowers the cost."""
    q, v, u = nominal
    change, gains, linear, quadratic = update
    worlds, steps = len(STEP_SIZES), len(u)
    qs = np.repeat(q[None], worlds, axis=0)
    vs = np.repeat(v[None], worlds, axis=0)
    us = np.repeat(u[None], worlds, axis=0)
    model = problem.sim.model
    with np.errstate(all="ignore"):
        for t in range(steps):
            error = np.concatenate([difference(model, q[t], qs[:, t]), vs[:, t] - v[t]], axis=-1)
            step = STEP_SIZES[:, None] * change[t] + error @ gains[t].T
            us[:, t] = np.clip(np.nan_to_num(u[t] + step), *problem.limits)
            qs[:, t + 1], vs[:, t + 1] = _advance(problem.sim, qs[:, t], vs[:, t], us[:, t])
        costs = problem.cost.total(qs, vs, us)
    predicted = -(STEP_SIZES * linear + STEP_SIZES**2 * quadratic)
    good = np.isfinite(costs) & (before - costs > ACCEPTED * np.maximum(predicted, 0.0))
    good &= costs < before
    if not np.any(good):
        return None
    best = int(np.argmin(np.where(good, costs, np.inf)))
    return qs[best], vs[best], us[best], float(costs[best])


def _advance(sim: Simulator, q: Array, v: Array, u: Array) -> tuple[Array, Array]:
    """Advance worlds by one step; one that is not finite any more stays so."""
    q1, v1 = np.full_like(q, np.nan), np.full_like(v, np.nan)
    on = np.isfinite(q).all(axis=-1) & np.isfinite(v).all(axis=-1)
    q1[on], v1[on] = sim.step(q[on], v[on], u[on])
    return q1, v1
