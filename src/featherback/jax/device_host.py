"""What has no kernel that JAX starts: forward mode, second derivatives and outputs.

Their arrays go through the memory of the processor, which computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

import numpy as np
from jax.experimental.buffer_callback import buffer_callback

from featherback._typing import Real
from featherback.errors import ParameterError, WorldError
from featherback.jax.device import WHERE, DeviceEngines
from featherback.jax.device_jobs import refuse_nonfinite
from featherback.sim.bridge import Bars, Replay, Schedule, Trajectory, require_finite_gradient

# a job on NumPy's arrays: the engines, the arrays of the call and what it is told besides
Job = Callable[..., Sequence[Real]]

_SECOND = "hessian_vector_product()"


def _on_host(job: Job) -> Callable[..., Any]:
    """Make a job a call that JAX makes."""

    @wraps(job)
    def call(*arrays: Any, engines: Any, results: Any, **static: Any) -> Any:
        run = partial(_run, engines.gpu, partial(job, engines.gpu, **static))
        return buffer_callback(run, list(results))(*arrays)

    return call


def _run(gpu: DeviceEngines, job: Job, context: Any, out: Any, *given: Any) -> None:
    """Copy the arrays of a call to the processor, and its results back."""
    with gpu.opened(context, (*out, *given)) as on:
        arrays = [on.fetch(len(out) + i, x) for i, x in enumerate(given)]
        for place, array in enumerate(job(*arrays)):
            on.send(place, array)


def _given(x: Real) -> Real | None:
    """Return an array, None for an empty one, which nobody gave."""
    return x if x.size else None


def _replay(gpu: DeviceEngines, x: Real, u: Real, theta: Real, single: bool) -> Replay:
    """Return a rollout that the processor differentiates, from its states."""
    bridge = gpu.bridge
    if single:
        u = u[:, None]
        x, _ = bridge.states(x, u, 1, _given(theta))
    plan = Schedule.all(x.shape[1] - 1)
    return bridge.replay(Trajectory(bridge.layout, x, u, plan, _given(theta)))


def _tangents(where: str, replay: Replay, dots: Sequence[Real], single: bool) -> tuple[Any, ...]:
    """Return tangents of all states, and the directions in controls and parameters."""
    dx, du, dtheta = dots
    refuse_nonfinite(f"{where}: d", "", replay.bridge.layout, dx)
    for name, x in (("du", du), ("dparams", dtheta)):
        if not np.isfinite(x).all():
            raise ParameterError(f"{where}: {name} holds a NaN or infinity; give finite numbers.")
    du = du[:, None] if single else du
    return replay.jvp(where, dx, du, _given(dtheta)), du, _given(dtheta)


@_on_host
def jvp(
    gpu: DeviceEngines, x: Real, u: Real, theta: Real, *dots: Real, single: bool
) -> Sequence[Real]:
    """Return tangents of all states, or of the next one."""
    x_dot, *_ = _tangents("jvp()", _replay(gpu, x, u, theta, single), dots, single)
    return (x_dot[:, -1] if single else x_dot,)


@_on_host
def hvp(
    gpu: DeviceEngines, x: Real, u: Real, theta: Real, *rest: Real, single: bool, rows: int
) -> Sequence[Real]:
    """Return the tangent of `vjp` along a direction in the point and in the cotangents."""
    x_bar, *dots, x_bar_dot = rest
    replay = _replay(gpu, x, u, theta, single)
    path, bridge = replay.path, gpu.bridge
    refuse_nonfinite(f"{_SECOND}: ", "_bar", bridge.layout, x_bar)
    along = _tangents(_SECOND, replay, dots, single)
    bars = Bars.zeros(path), Bars.zeros(path)
    each = (bridge.theta_bar(path.worlds), bridge.theta_bar(path.worlds)) if rows else (None, None)
    cots = (x_bar[:, None], x_bar_dot[:, None]) if single else (x_bar, x_bar_dot)
    if path.worlds and path.steps:
        bridge.hvp(path, along, cots, bars, each).require_ok(_SECOND)
    else:
        bars[1].x[...] = cots[1][:, 0]
    require_finite_gradient(_SECOND, bars[1])
    u_dot = bars[1].u[:, 0] if single else bars[1].u
    return bars[1].x, u_dot, _sums(gpu, each[1], rows)


def _sums(gpu: DeviceEngines, each: Real | None, rows: int) -> Real:
    """Return the parameters' gradients of all worlds, summed to so many rows."""
    n = gpu.bridge.theta_size
    if each is None:
        return np.zeros((0, n), gpu.bridge.layout.dtype)
    return each[:, :n].reshape(rows, len(each) // rows, n).sum(1)


def _inputs(q: Real, v: Real, third: Real) -> dict[str, Real]:
    """Return what an output reads, by name."""
    named = {"q": q, "v": v, "third": third}
    return {name: x for name, x in named.items() if name == "q" or x.size}


@_on_host
def output(
    gpu: DeviceEngines, q: Real, v: Real, third: Real, theta: Real, *, output: str
) -> Sequence[Real]:
    """Return an output of each world."""
    shape = gpu.bridge.model.structure.output_shape(output)
    y = np.zeros((len(q), int(np.prod(shape))), q.dtype)
    if theta.size:
        gpu.check_values(WHERE, theta)
    gpu.bridge.output(output, _inputs(q, v, third), _given(theta), y)
    return (y,)


@_on_host
def output_vjp(
    gpu: DeviceEngines, q: Real, v: Real, third: Real, *rest: Real, output: str, rows: int
) -> Sequence[Real]:
    """Return the cotangents of what an output reads, and of rows of parameters."""
    theta, y_bar = rest
    if not np.isfinite(y_bar).all():
        raise ParameterError(
            f"{WHERE}: the cotangent of an output holds a NaN or infinity; give finite numbers, "
            "and zero where the loss does not depend on the output."
        )
    given = _inputs(q, v, third)
    bars = {name: np.zeros_like(x) for name, x in given.items()}
    each = gpu.bridge.theta_bar(len(q)) if rows else None
    gpu.bridge.output_vjp(output, given, _given(theta), y_bar, bars, each)
    for x in (*bars.values(), *(() if each is None else (each[:, : gpu.bridge.theta_size],))):
        bad = np.flatnonzero(~np.isfinite(x).all(axis=1))
        if len(bad):
            raise WorldError(
                f"{WHERE}: the gradient of world {bad[0]} is not finite; look for a NaN, an "
                "infinity or a quaternion of length zero in its inputs."
            )
    empty = [np.zeros_like(x) for x in (v, third)]
    return bars["q"], bars.get("v", empty[0]), bars.get("third", empty[1]), _sums(gpu, each, rows)
