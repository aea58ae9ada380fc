"""Rollouts of checked arrays."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from featherback._typing import Ints, Real
from featherback.sim.bridge import Bridge
from featherback.sim.checkpoints import Schedule
from featherback.sim.replay import Replay
from featherback.sim.rollout import Rollout
from featherback.sim.state import Point, Trajectory
from featherback.sim.status import WorldStatus

Report = Callable[[int], None]


def roll_out(
    bridge: Bridge, point: Point, u: Real | None, schedule: Schedule, report: Report | None = None
) -> Rollout:
    """Roll out from a point under u, real[(worlds,) steps, nu]; report is told the steps done."""
    kept, worlds, dtype = schedule.kept, point.worlds, bridge.layout.dtype
    x = np.empty((worlds, len(kept), bridge.layout.nx), dtype)
    x[:, 0] = point.x
    found = WorldStatus.ok(worlds)
    residual, sweeps = np.zeros(worlds, dtype), np.zeros(worlds, dtype)
    advance = partial(
        bridge.rollout, u=u, theta=point.theta, found=found, residual=residual, sweeps=sweeps
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
