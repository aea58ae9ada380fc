"""First derivatives of one step: along directions, and as matrices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from featherback._typing import Params, Real
from featherback.sim.bridge import Bridge
from featherback.sim.cotangents import require_cotangent
from featherback.sim.rollout import Gradient, gradient_of
from featherback.sim.run import take_step
from featherback.sim.state import read_point
from featherback.sim.status import Status, overflow_error, world_error

# q, v, act and u as the caller gave them
State = Mapping[str, Any]


def step_jvp(
    bridge: Bridge, state: State, along: Mapping[str, Any], params: Params | None, dparams: Any
) -> tuple[Real, ...]:
    """Return the derivatives of the next q and v, and act, along dq, dv, dact and du."""
    where = "jvp()"
    point, dots = read_point(where, bridge, state, params, along)
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
    point, bars = read_point(where, bridge, state, params, cotangents)
    names = ("q_bar", "v_bar", "act_bar")
    x_cot = bridge.layout.join((point.worlds,), *(bars.get(k) for k in names))[:, None]
    finite = np.isfinite(point.x).all(axis=1)
    if not finite.all():
        status = np.where(finite, 0, int(Status.NONFINITE)).astype(np.uint32)
        raise world_error(where, status, np.zeros(len(status), np.int32))
    found = bridge.replay(point.trajectory()).vjp(where, lambda first, x: x_cot)
    return gradient_of(bridge.layout, found, found.u[:, 0], point.one)


def linearize_step(bridge: Bridge, state: State, params: Params | None) -> tuple[Real, Real]:
    """Return the Jacobians A and B of one step; see `Simulator.linearize`."""
    where = "linearize()"
    if params is None and all(x is None or type(x) is np.ndarray for x in state.values()):
        # one world whose arrays fit takes a short way; what goes wrong there is told below
        out: Any = bridge.linearize_one(state["q"], state["v"], state["act"], state["u"])
        if out is not None and not out[2]:
            return out[0], out[1]
    point, _ = read_point(where, bridge, state, params)
    layout = bridge.layout
    n = 2 * layout.nv + layout.na
    A = np.empty((point.worlds, n, n), layout.dtype)
    B = np.empty((point.worlds, n, layout.nu), layout.dtype)
    found = bridge.linearize(point, A, B)
    worlds = np.flatnonzero(found.status & np.uint32(Status.NONFINITE))
    if len(worlds):
        _, states = take_step(bridge, point)
        worlds = worlds[(states.status[worlds] & np.uint32(Status.NONFINITE)) == 0]
        if len(worlds):
            raise overflow_error(where, "Jacobian", worlds, "it overflowed; take a smaller dt", 0)
    found.require_ok(where)
    return A[point.one], B[point.one]
