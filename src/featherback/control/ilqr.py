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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from featherback._checks import check_integer
from featherback._optional import import_optional
from featherback._typing import Array
from featherback.control.controls import check_bounds, control_range, real_array, real_numbers
from featherback.control.quadratic_cost import Expansion, StageCost
from featherback.errors import OptimizationError, ShapeError, WorldError
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
        gains: float64[steps, nu, 2 nv + na]; x is (tangent of q, v, act).
        costs: cost after each iteration; the first is that of the initial guess.
        reason: why it stopped, in a sentence.
        converged: whether it stopped because the cost no longer decreases.
        act: float64[steps + 1, na], activations of actuators.
    """

    q: Array
    v: Array
    u: Array
    gains: Array
    costs: list[float]
    reason: str
    converged: bool
    act: Array

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
    act: Array
    cost: StageCost
    limits: Array


class _Path(NamedTuple):
    """One trajectory, or those of a batch: q, v, act with a row for each state, and u."""

    q: Array
    v: Array
    act: Array
    u: Array

    @property
    def arguments(self) -> tuple[Array, ...]:
        """What a cost is called with: q, v, u, and act where there is any."""
        return (self.q, self.v, self.u, self.act)[: 4 if self.act.shape[-1] else 3]


def ilqr(
    sim: Simulator,
    q: ArrayLike,
    v: ArrayLike,
    u: ArrayLike,
    cost: StageCost,
    *,
    act: ArrayLike | None = None,
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
        act: real[na], initial activation of actuators; zero when None.
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
        ShapeError: for arrays of a wrong shape, and a cost whose derivatives have one.
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
    state = (
        real_array(where, "q", q, (model.nq,)),
        real_array(where, "v", v, (model.nv,)),
        real_array(where, "act", 0.0 if act is None else act, (model.na,)),
    )
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
    path, value = _initial_trajectory(problem, u)
    costs, damping = [value], 1e-6
    model = problem.sim.model
    gains = np.zeros((len(u), model.nu, 2 * model.nv + model.na))
    reason, converged = f"max_iterations ({max_iterations}) was reached", False
    for iteration in range(1, max_iterations + 1):
        try:
            A, B = _linearize(problem.sim, path)
        except WorldError as error:
            raise OptimizationError(
                f"ilqr: iteration {iteration}: the trajectory has a step without a derivative: "
                f"{str(error).splitlines()[-1].rstrip('.')}; the cost before was {costs[-1]:.6g}."
            ) from None
        expansion = _expand(problem, path)
        accepted = None
        while accepted is None and damping <= MAX_DAMPING:
            update = _backward(A, B, expansion, path.u, problem.limits, damping)
            if update is not None:
                gains = update[1]
                accepted = _forward(problem, path, update, costs[-1])
            damping *= GROWTH if accepted is None else 1.0 / GROWTH
        damping = max(damping, MIN_DAMPING)
        if accepted is None:
            reason, converged = "no step lowers the cost", True
            break
        path, value = accepted
        costs.append(value)
        if report is not None:
            report(iteration, value)
        if costs[-2] - value <= tolerance * abs(costs[-2]):
            reason, converged = "the cost no longer decreases", True
            break
    head = f"ilqr: stopped at the cost {costs[-1]:.6g} after {len(costs) - 1} iterations, because "
    reason = f"{head}{reason}."
    return Policy(path.q, path.v, path.u, gains, costs, reason, converged, path.act)


def _linearize(sim: Simulator, path: _Path) -> tuple[Array, Array]:
    """Return the Jacobians of all steps of a trajectory."""
    A, B = sim.linearize(path.q[:-1], path.v[:-1], path.u, act=path.act[:-1])
    return np.asarray(A, np.float64), np.asarray(B, np.float64)


def _expand(problem: TrajectoryProblem, path: _Path) -> Expansion:
    """Return the expansion of the cost; refuse one of another size than the state."""
    expansion = problem.cost.expand(*path.arguments)
    model = problem.sim.model
    expected = (len(path.q), 2 * model.nv + model.na)
    if expansion.x.shape != expected:
        raise ShapeError(
            f"ilqr(): the cost's expand() gives x of shape {expansion.x.shape}; expected "
            f'{expected}, steps + 1 and 2 nv + na of model "{model.name}".'
        )
    return expansion


def _initial_trajectory(problem: TrajectoryProblem, u: Array) -> tuple[_Path, float]:
    """Return the trajectory of the initial guess and its cost."""
    roll = problem.sim.rollout(problem.q, problem.v, u, act=problem.act)
    if int(roll.status) & Status.NONFINITE:
        raise OptimizationError(
            f"ilqr: the rollout of the initial guess becomes non-finite at step "
            f"{int(roll.status_step)}; give another guess or a smaller time step."
        )
    path = _Path(*(np.array(part, np.float64) for part in (roll.q, roll.v, roll.act, u)))
    batch = _Path(*(part[None] for part in path))
    return path, float(problem.cost.total(*batch.arguments)[0])


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
    nominal: _Path,
    update: tuple[Array, Array, float, float],
    before: float,
) -> tuple[_Path, float] | None:
    """Try all step sizes at once; return the best trajectory, None if none lowers the cost."""
    change, gains, linear, quadratic = update
    q, v, act, u = nominal
    tried = _Path(*(np.repeat(part[None], len(STEP_SIZES), axis=0) for part in nominal))
    qs, vs, acts, us = tried
    model = problem.sim.model
    with np.errstate(all="ignore"):
        for t in range(len(u)):
            errors = difference(model, q[t], qs[:, t]), vs[:, t] - v[t], acts[:, t] - act[t]
            step = STEP_SIZES[:, None] * change[t] + np.concatenate(errors, axis=-1) @ gains[t].T
            us[:, t] = np.clip(np.nan_to_num(u[t] + step), *problem.limits)
            _advance(problem.sim, tried, t)
        costs = problem.cost.total(*tried.arguments)
    predicted = -(STEP_SIZES * linear + STEP_SIZES**2 * quadratic)
    good = np.isfinite(costs) & (before - costs > ACCEPTED * np.maximum(predicted, 0.0))
    good &= costs < before
    if not np.any(good):
        return None
    best = int(np.argmin(np.where(good, costs, np.inf)))
    return _Path(*(part[best] for part in tried)), float(costs[best])


def _advance(sim: Simulator, path: _Path, t: int) -> None:
    """Fill in the states after step t; a world that is not finite any more stays so."""
    q, v, act, u = (part[:, t] for part in path)
    on = np.isfinite(np.concatenate([q, v, act], axis=-1)).all(axis=-1)
    found = sim.step(q[on], v[on], u[on], act=act[on])
    for part, after in zip((path.q, path.v, path.act), found, strict=False):
        part[:, t + 1] = np.nan
        part[on, t + 1] = after
