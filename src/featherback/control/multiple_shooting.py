"""Multiple shooting: a long horizon cut into segments whose states are unknowns too.

The segments are worlds of one batch. The end of each must meet the start of the next: the gaps
(defects) are closed by an augmented Lagrangian, whose inner problems are solved by `optimize`. A
segment is short, so its gradient does not grow as that of the whole horizon does.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from featherback._checks import check_integer, is_integer
from featherback._typing import Array
from featherback.control.controls import real_array
from featherback.control.optimize import optimize
from featherback.control.shooting import Shooting
from featherback.errors import OptimizationError, ParameterError, ShapeError

NEGLIGIBLE = 1e-12  # of the first cost: a change below it is none
GROWTH = 5.0  # of the penalty, where the gaps do not shrink fast enough
RATE = 0.01  # first step of a round, in units of the unknowns
SHRINK = 0.25  # a gap that shrinks less than this in a round makes the penalty grow


@dataclass(frozen=True, eq=False)
class Segments:
    """Where a multiple shooting ended.

    Attributes:
        x: float64[size], the unknowns of the controls.
        q: float64[steps + 1, nq], the segments' trajectories, one after the other.
        v: float64[steps + 1, nv].
        u: float64[steps, nu], the controls.
        cost: cost of these trajectories.
        rollout_cost: cost of one rollout of the controls from the start; where the motion is
            unstable it differs, since the gaps that are left grow: follow q and v by feedback.
        gap: largest gap between segments that is left, in units of q and v.
        rounds: number of outer iterations.
        evaluations: gradient evaluations; one covers all segments.
        act: float64[steps + 1, na], activations of actuators.
    """

    x: Array
    q: Array
    v: Array
    u: Array
    cost: float
    rollout_cost: float
    gap: float
    rounds: int
    evaluations: int
    act: Array


@dataclass(eq=False)
class _Lagrangian:
    """Cost of segments plus multipliers and penalty of the gaps, as a function of one vector.

    The vector holds the controls' unknowns, then q, v and act at the start of each later one.
    """

    problem: Shooting
    segments: int
    penalty: float
    multipliers: Array
    gaps: Array = field(default_factory=lambda: np.zeros(0))
    joined: tuple[Array, Array, Array] | None = None
    act: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def node(self) -> int:
        """Size of one state (q, v, act)."""
        return sum(_sizes(self.problem))

    @property
    def size(self) -> int:
        """Number of unknowns."""
        return self.problem.size + (self.segments - 1) * self.node

    @property
    def lower(self) -> Array:
        """Lower bounds of z; states are free."""
        free = np.full((self.segments - 1) * self.node, -np.inf)
        return np.concatenate([self.problem.lower, free])

    @property
    def upper(self) -> Array:
        """Upper bounds of z; states are free."""
        free = np.full((self.segments - 1) * self.node, np.inf)
        return np.concatenate([self.problem.upper, free])

    def value(self, x: Array) -> float:
        """Return the value at z."""
        return self.gradient(x)[0]

    def gradient(self, x: Array) -> tuple[float, Array]:
        """Return the value and its gradient at z."""
        problem, n = self.problem, self.segments
        u = problem.controls.expand(x[None, : problem.size])
        nodes = x[problem.size :].reshape(n - 1, self.node)
        q0, v0, act0 = _parts(problem, np.concatenate([[_start(problem)], nodes]))
        length = u.shape[1] // n
        roll = problem.sim.rollout(q0, v0, u.reshape(n, length, -1), act=act0)
        problem.count.rollouts += 1
        q, v, act = (np.array(part, np.float64) for part in (roll.q, roll.v, roll.act))
        self.joined, self.act = (_join(q), _join(v), u), _join(act)[0]
        value = problem.cost(*self.joined)
        # gaps: where a segment ends, less where the next one starts
        ends = np.concatenate([q[:-1, -1], v[:-1, -1], act[:-1, -1]], axis=1)
        self.gaps = ends - nodes
        pull = self.multipliers + self.penalty * self.gaps
        total = float(value.cost[0]) + float(
            np.sum(self.gaps * (self.multipliers + 0.5 * self.penalty * self.gaps))
        )
        bars = _cut(value.q_bar, q), _cut(value.v_bar, v), np.zeros_like(act)
        for bar, part in zip(bars, _parts(problem, pull), strict=True):
            bar[:-1, -1] += part
        problem.count.gradients += 1
        gradient = roll.vjp(*bars)
        u_bar = np.asarray(gradient.u, np.float64).reshape(1, n * length, -1)
        if value.u_bar is not None:
            u_bar = u_bar + value.u_bar
        starts = np.concatenate([gradient.q, gradient.v, gradient.act], axis=1)[1:]
        controls = problem.controls.gather(u_bar).ravel()
        return total, np.concatenate([controls, (starts.astype(np.float64) - pull).ravel()])


def multiple_shooting(
    problem: Shooting,
    segments: int,
    *,
    start: ArrayLike | None = None,
    states: tuple[ArrayLike, ...] | None = None,
    penalty: float = 1.0,
    max_rounds: int = 20,
    max_evaluations: int = 50,
    tolerance: float = 1e-6,
    cost_tolerance: float = 1e-3,
) -> Segments:
    """Minimize the cost of a long rollout with free states between its segments.

    Args:
        problem: the rollout and its cost.
        segments: number of segments, which must divide the number of steps.
        start: initial guess of the controls' unknowns; zero when None.
        states: initial guess of the later segments' initial states, q and v, and act where the
            model has activations, real[segments - 1, n]; those of the guess's rollout when None.
        penalty: initial weight of the squared gaps.
        max_rounds: maximum number of outer iterations.
        max_evaluations: maximum number of gradient evaluations in one round; one covers all
            segments.
        tolerance: largest gap at which it stops, in units of q and v.
        cost_tolerance: relative change of the cost in one round at which it stops.

    Returns:
        The controls, the trajectories of the segments, and the gap that is left.

    Raises:
        OptimizationError: where the gaps do not close, or a segment becomes non-finite.
        ParameterError: for a number of segments that does not divide the steps, or a bad guess.
    """
    where, steps = "multiple_shooting()", len(problem.controls.base)
    check_integer(where, "max_rounds", max_rounds)
    _check_options(where, steps, segments, penalty)
    given = np.zeros(problem.size) if start is None else np.ravel(start)
    x = real_array(where, "start", given, (problem.size,)).clip(problem.lower, problem.upper)
    nodes = _nodes(where, problem, x, segments, states)
    inner = _Lagrangian(problem, segments, penalty, np.zeros_like(nodes))
    z, evaluations = np.concatenate([x, nodes.ravel()]), 0
    before = last = first = np.inf
    for number in range(1, max_rounds + 1):
        outcome = optimize(inner, start=z, max_evaluations=max_evaluations, rate=RATE)
        z, evaluations = outcome.x, evaluations + outcome.total_evaluations + 1
        value = inner.gradient(z)[0]
        first = abs(outcome.costs[0]) if number == 1 else first
        gap, change, last = float(np.abs(inner.gaps).max()), abs(value - last), value
        if gap <= tolerance and change <= max(cost_tolerance * abs(value), NEGLIGIBLE * first):
            return _segments(inner, z[: problem.size], gap, number, evaluations)
        inner.multipliers = inner.multipliers + inner.penalty * inner.gaps
        if gap > SHRINK * before:
            inner.penalty *= GROWTH
        before = gap
    raise OptimizationError(
        f"{where}: after {max_rounds} rounds a gap of {before:.3g} is left between segments "
        f"(tolerance {tolerance:g}), or the cost {last:.6g} still decreases; increase max_rounds "
        "or max_evaluations, or give a better initial guess."
    )


def _check_options(where: str, steps: int, segments: int, penalty: float) -> None:
    """Raise ParameterError for options out of range."""
    if not is_integer(segments) or segments < 2 or steps % segments:
        raise ParameterError(
            f"{where}: segments is {segments!r}; it must be an integer >= 2 that divides the "
            f"{steps} steps."
        )
    if not (np.isfinite(penalty) and penalty > 0.0):
        raise ParameterError(f"{where}: penalty is {penalty}; it must be a finite number > 0.")


def _segments(inner: _Lagrangian, x: Array, gap: float, rounds: int, evaluations: int) -> Segments:
    """Return the result of segments that meet."""
    assert inner.joined is not None
    q, v, u = inner.joined
    return Segments(
        x=x,
        q=q[0],
        v=v[0],
        u=u[0],
        cost=float(inner.problem.cost(q, v, u).cost[0]),
        rollout_cost=inner.problem.value(x),
        gap=gap,
        rounds=rounds,
        evaluations=evaluations,
        act=inner.act,
    )


def _nodes(
    where: str,
    problem: Shooting,
    x: Array,
    segments: int,
    states: tuple[ArrayLike, ...] | None,
) -> Array:
    """Return the guess of the later segments' initial states, float64[segments - 1, node]."""
    if states is None:
        roll = problem.rollout(x)
        rows = np.arange(1, segments) * (len(problem.controls.base) // segments)
        parts = roll.q[rows], roll.v[rows], roll.act[rows]
        guess = np.concatenate(parts, axis=1).astype(np.float64)
        if not np.all(np.isfinite(guess)):
            raise OptimizationError(
                f"{where}: the rollout of the initial guess becomes non-finite; pass states=."
            )
        return guess
    sizes = _sizes(problem)[: 3 if problem.sim.model.na else 2]
    if len(states) != len(sizes):
        raise ShapeError(
            f"{where}: states has {len(states)} arrays; expected {len(sizes)}: q, v"
            f'{", act" if problem.sim.model.na else ""} for model "{problem.sim.model.name}".'
        )
    given = [
        real_array(where, f"states[{i}]", part, (segments - 1, size))
        for i, (part, size) in enumerate(zip(states, sizes, strict=True))
    ]
    return np.concatenate(given, axis=1)


def _sizes(problem: Shooting) -> tuple[int, int, int]:
    """Return the lengths of q, v and act."""
    return len(problem.q), len(problem.v), problem.sim.model.na


def _parts(problem: Shooting, states: Array) -> list[Array]:
    """Return q, v and act of states [..., node]."""
    nq, nv, _ = _sizes(problem)
    return np.split(states, [nq, nq + nv], axis=-1)


def _start(problem: Shooting) -> Array:
    """Return the initial state of the first segment, float64[node]."""
    given = 0.0 if problem.act is None else problem.act
    act = real_array("multiple_shooting()", "act", given, (problem.sim.model.na,))
    return np.concatenate([problem.q, problem.v, act])


def _join(parts: Array) -> Array:
    """Return [segments, length + 1, n] as one trajectory [1, segments * length + 1, n]."""
    segments, length, n = parts.shape
    joined = parts[:, :-1].reshape(segments * (length - 1), n)
    return np.concatenate([joined, parts[-1, -1:]])[None]


def _cut(bar: Array | None, like: Array) -> Array:
    """Return the cotangent of a joined trajectory as that of its segments."""
    cut = np.zeros_like(like)
    if bar is not None:
        cut[:, :-1] = bar[0, :-1].reshape(cut[:, :-1].shape)
        cut[-1, -1] = bar[0, -1]
    return cut
