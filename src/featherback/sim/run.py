"""Steps and rollouts from checked inputs, and first derivatives of one step."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from featherback._typing import Ints, Params, Real
from featherback.sim.bridge import Bridge
from featherback.sim.checkpoints import Schedule
from featherback.sim.cotangents import require_cotangent
from featherback.sim.replay import Replay
from featherback.sim.rollout import Gradient, Rollout, gradient_of
from featherback.sim.state import Point, Trajectory, read_point
from featherback.sim.status import Status, WorldStatus, overflow_error

Report = Callable[[int], None]
# q, v, act and u as the caller gave them
State = Mapping[str, Any]


@contextmanager
def progress_bar(steps: int) -> Generator[Callable[[int], None], None, None]:
    """Show a bar of `steps` steps on standard error; yields a function to tell the steps done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("rollout"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} steps"),
    )
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("rollout", total=steps)
        yield lambda done: bar.update(task, completed=done)


def roll_out(
    bridge: Bridge, point: Point, u: Real | None, schedule: Schedule, report: Report | None = None
) -> Rollout:
    """Roll out from a point under u, real[(worlds,) steps, nu]; report is told the steps done."""
    kept, worlds, dtype = schedule.kept, point.worlds, bridge.layout.dtype
    x = np.empty((worlds, len(kept), bridge.layout.nx), dtype)
    x[:, 0] = point.x
    found = WorldStatus.ok(worlds)
    residual, sweeps, factorisations = np.zeros((3, worlds), dtype)
    advance = partial(
        bridge.rollout,
        u=u,
        theta=point.theta,
        found=found,
        residual=residual,
        sweeps=sweeps,
        factorisations=factorisations,
    )
    if schedule.keeps_all:
        advance(x, steps=schedule.steps, progress=report)
    else:
        _run_pieces(advance, x, kept, found.step, report)
    one = point.one
    path = Trajectory(
        layout=bridge.layout,
        x=x,
        u=u,
        schedule=schedule,
        theta=point.theta,
        given=point.given,
        batched=point.batched,
    )
    return Rollout(
        kept=kept,
        status=np.asarray(found.status[one]),
        status_step=np.asarray(found.step[one]),
        residual=np.asarray(residual[one]),
        sweeps=np.asarray(sweeps[one]),
        factorisations=np.asarray(factorisations[one]),
        dt=_step_size(bridge, point),
        replay=Replay(bridge, path),
    )


def _run_pieces(
    advance: Callable[..., Any],
    x: Real,
    kept: NDArray[np.int64],
    status_step: Ints,
    report: Report | None,
) -> None:
    """Roll out from one kept state to the next, with one state that moves."""
    moving = x[:, :1].copy()
    for i, (first, last) in enumerate(itertools.pairwise(map(int, kept))):
        fresh = status_step < 0
        advance(moving, steps=last - first, u_first=first)
        if report is not None:
            report(last)
        x[:, i + 1] = moving[:, 0]
        # a piece counts its steps from its own start
        status_step[fresh & (status_step >= 0)] += first


def _step_size(bridge: Bridge, point: Point) -> float | Real:
    """Return the step of a rollout, the first parameter; one for each world that has its own."""
    if point.theta is None or not point.theta.size:
        return float(bridge.params["dt"][0])
    own = len(point.given.get("dt", ())) == 2
    return point.theta[:, 0].copy() if own else float(point.theta.flat[0])


def take_step(bridge: Bridge, point: Point) -> tuple[Real, WorldStatus]:
    """Return the next states, real[worlds, nx], and what went wrong."""
    x = np.empty((point.worlds, 2, bridge.layout.nx), bridge.layout.dtype)
    x[:, 0] = point.x
    found = WorldStatus.ok(point.worlds)
    u = None if point.u is None else point.u[:, None]
    bridge.rollout(x, u, point.theta, found, steps=1)
    return x[:, 1], found


def step_jvp(
    bridge: Bridge, state: State, along: Mapping[str, Any], params: Params | None, dparams: Any
) -> tuple[Real, ...]:
    """Return the derivatives of the next q and v, and act, along dq, dv, dact and du."""
    where = "jvp()"
    point, dots = read_point(where, bridge, state, params, along, finite=True)
    dtheta = bridge.read_direction(where, dparams, point.worlds if point.batched else None)
    start = bridge.layout.join((point.worlds,), *(dots.get(k) for k in ("dq", "dv", "dact")))
    du = dots.get("du")
    du = None if du is None or not bridge.layout.nu else du[:, None]
    x_dot = bridge.replay(point.trajectory()).jvp(where, start, du, dtheta)
    return tuple(part.copy() for part in bridge.layout.parts(x_dot[:, 1][point.one]))


def step_vjp(
    bridge: Bridge, state: State, cotangents: Mapping[str, Any], params: Params | None
) -> Gradient:
    """Return the gradient of a loss on the next state, from q_bar, v_bar and act_bar."""
    where = "vjp()"
    require_cotangent(where, cotangents.values(), "q_bar, v_bar or act_bar")
    point, bars = read_point(where, bridge, state, params, cotangents, finite=True)
    names = ("q_bar", "v_bar", "act_bar")
    x_cot = bridge.layout.join((point.worlds,), *(bars.get(k) for k in names))[:, None]
    found = bridge.replay(point.trajectory()).vjp(where, lambda first, x: x_cot)
    return gradient_of(bridge.layout, found, found.u[:, 0], point.one)


def linearize_step(bridge: Bridge, state: State, params: Params | None) -> tuple[Real, Real]:
    """Return the Jacobians A and B of one step; see `Simulator.linearize`."""
    where = "linearize()"
    point, _ = read_point(where, bridge, state, params, finite=True)
    layout = bridge.layout
    n = 2 * layout.nv + layout.na
    A = np.empty((point.worlds, n, n), layout.dtype)
    B = np.empty((point.worlds, n, layout.nu), layout.dtype)
    found = bridge.linearize(point, A, B)
    if found.status.any():
        _, states = take_step(bridge, point)
        only = found.status & ~states.status & np.uint32(Status.NONFINITE)
        if only.any():
            worlds, hint = np.flatnonzero(only), "it overflowed; take a smaller dt"
            raise overflow_error(where, "Jacobian", worlds, hint, 0)
        found.require_ok(where)
    return A[point.one], B[point.one]
