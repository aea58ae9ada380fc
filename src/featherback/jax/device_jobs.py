"""Rollouts and their gradients on the GPU on which JAX computes: kernels on XLA's own buffers.

What is zero before a kernel runs, and what it changes, is made by XLA and handed on in place. Only
the last call of a gradient waits: it reads one number that says whether something is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.buffer_callback import buffer_callback

from featherback._typing import Real
from featherback.errors import ParameterError, WorldError
from featherback.jax.device import DeviceEngines, OnDevice
from featherback.sim.bridge import StateLayout, Status, WorldStatus
from featherback.sim.cuda_path import DeviceBars, DevicePath, run_rollout, run_vjp

# parts of a state, in their order
STATE = ("q", "v", "act", "warm")
_NONFINITE = int(Status.NONFINITE)

GREW = (
    "vjp(): a gradient holds a NaN or infinity; give finite numbers, which the gradient left on "
    "the way back: take fewer steps, or smaller cotangents."
)


class Findings(NamedTuple):
    """What XLA finds beside a gradient, for `_require`.

    Attributes:
        wrong: int32, whether any of the others says so.
        cotangents: int32[nx], which numbers of the first bad cotangent of a state are not finite.
        states: int32[2, worlds], status and step of states that are not finite.
        marks: int32[2, worlds], what the adjoint says of its worlds.
        gradient: int32, whether the gradient is finite.
    """

    wrong: Any
    cotangents: Any
    states: Any
    marks: Any
    gradient: Any


def in_place(run: Callable[..., None], changed: Sequence[Any], read: Sequence[Any]) -> Any:
    """Call `run(context, out, ...)` on buffers; `out` begins as `changed`, and is returned."""
    results = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in changed]
    same = {i: i for i in range(len(changed))}
    return buffer_callback(run, results, input_output_aliases=same)(*changed, *read)


def _marks(worlds: int) -> tuple[jax.Array, jax.Array]:
    """Return status and step of worlds in which nothing went wrong."""
    return jnp.zeros((worlds,), jnp.uint32), jnp.full((worlds,), -1, jnp.int32)


def _path(on: OnDevice, states: Any, u: Any, theta: Any, places: tuple[int, ...]) -> DevicePath:
    """Return where a rollout lies; states are (worlds, rows, nx) or one row that moves."""
    worlds, nx = states.shape[0], states.shape[-1]
    rows = states.shape[1] if len(states.shape) == 3 else 1
    steps, nu = (u.shape[1] if len(u.shape) == 3 else 1), u.shape[-1]
    x_at, u_at, theta_at = (on.at[i] for i in places)
    where = (x_at, rows * nx, nx if rows > 1 else 0)
    return DevicePath(worlds, steps, where, (u_at, steps * nu, nu), theta_at, len(theta.shape) == 2)


def rollout(x: Any, u: Any, theta: Any, *, engines: Any, results: Any, single: bool) -> Any:
    """Return all states, or the next one of a single step, status and its step."""
    steps = 0 if single else results[0].shape[1] - 1
    states = x if single else jnp.pad(x[:, None], ((0, 0), (0, steps), (0, 0)))
    run = partial(_rollout, engines.gpu, "step()" if single else "rollout()")
    return in_place(run, (states, *_marks(x.shape[0])), (u, theta))


def _rollout(gpu: DeviceEngines, name: str, context: Any, out: Any, *given: Any) -> None:
    """Start the kernels of a rollout."""
    states, status, step = out
    u, theta = given[3:]
    with gpu.opened(context, (states, status, step, u, theta)) as on:
        if on.at[4]:
            gpu.check_values(name, on.fetch(4, theta))
        path = _path(on, states, u, theta, (0, 3, 4))
        run_rollout(on.engine, path, (on.at[1], on.at[2]))


def vjp(
    x: Any, u: Any, theta: Any, x_bar: Any, *, engines: Any, results: Any, single: bool, rows: int
) -> Any:
    """Return cotangents of the first state, of u and of rows of parameters."""
    gpu: DeviceEngines = engines.gpu
    if single:
        x, u, x_bar = x[:, None], u[:, None], x_bar[:, None]
    worlds, steps, real = x.shape[0], u.shape[1], x.dtype
    ntheta, wide = gpu.sizes
    first = jnp.zeros((worlds, x.shape[2]), real) if steps else x_bar[:, 0]
    wide = wide if rows else 0
    zeros = (first, jnp.zeros(u.shape, real), jnp.zeros((worlds, wide), real), *_marks(worlds))
    found = in_place(partial(_vjp, gpu), zeros, (x, u, theta, x_bar))
    x0_bar, u_bar, each, *marks = found
    sums = jnp.zeros((0, ntheta), real)
    if rows:
        sums = each[:, :ntheta].reshape(rows, worlds // rows, ntheta).sum(1)
    bars = (x0_bar, u_bar, sums)
    # a single step does not keep the state behind it
    after = _nonfinite(x0_bar[:, None], marks) if single else jnp.stack(_signed(marks))
    findings = _findings(x_bar, _nonfinite(x, _marks(worlds)), after, bars)
    x0_bar, u_bar, sums = in_place(partial(_require, gpu), bars, findings)
    return [x0_bar, u_bar[:, 0] if single else u_bar, sums]


def _vjp(gpu: DeviceEngines, context: Any, out: Any, *given: Any) -> None:
    """Start the kernels of an adjoint."""
    x, u, theta, x_bar = given[5:]
    with gpu.opened(context, (*out, x, u, theta, x_bar)) as on:
        x0_bar, u_bar, theta_bar, status, step = on.at[:5]
        bars = DeviceBars(x0_bar, u_bar, on.at[8], x_bar.shape[1], theta_bar)
        path = _path(on, x, u, theta, (5, 6, 7))
        run_vjp(on.engine, path, bars, (x.shape[2], u.shape[2]), (status, step))


# what is wrong with a gradient


def _signed(marks: Sequence[Any]) -> tuple[Any, Any]:
    """Return status and step in one number type."""
    return marks[0].astype(jnp.int32), marks[1]


def _nonfinite(x: Any, marks: Sequence[Any]) -> Any:
    """Return marks, with the first state of each world that is not finite in its place."""
    bad = ~jnp.isfinite(x).all(axis=2)
    status, step = _signed(marks)
    first = jnp.maximum(jnp.argmax(bad, axis=1).astype(jnp.int32) - 1, 0)
    some = bad.any(axis=1)
    return jnp.stack([jnp.where(some, _NONFINITE, status), jnp.where(some, first, step)])


def _findings(x_bar: Any, states: Any, marks: Any, bars: Sequence[Any]) -> Findings:
    """Return what is wrong; all cotangents of states are (worlds, rows, nx)."""
    flat = x_bar.reshape(-1, x_bar.shape[2])
    bad = ~jnp.isfinite(flat)
    cotangents = jnp.zeros(bad.shape[1:], bool)
    if flat.size:
        cotangents = bad[jnp.argmax(bad.any(axis=1))]
    gradient = jnp.logical_and(*(jnp.isfinite(x).all() for x in bars[:2]))
    gradient = jnp.logical_and(gradient, jnp.isfinite(bars[2]).all())
    wrong = cotangents.any() | (states[0] != 0).any() | (marks[0] != 0).any() | ~gradient
    found = (wrong, cotangents, states, marks, gradient)
    return Findings(*(x.astype(jnp.int32) for x in found))


def _require(gpu: DeviceEngines, context: Any, out: Any, *given: Any) -> None:
    """Refuse a gradient that does not exist, in the order in which the processor looks."""
    findings = Findings(*given[len(out) :])
    with gpu.opened(context, findings) as on:
        if not on.fetch(0, findings.wrong):
            return
        found = Findings(*(on.fetch(i, x) for i, x in enumerate(findings)))
    where, layout = "vjp()", gpu.bridge.layout
    _refuse_parts(f"{where}: ", "_bar", layout, found.cotangents)
    for status, step in (found.states, found.marks):
        WorldStatus(status.astype(np.uint32), step).require_ok(where)
    raise WorldError(GREW)


def refuse_nonfinite(before: str, after: str, layout: StateLayout, x: Real) -> None:
    """Refuse directions in states, or cotangents of them, that are not finite."""
    bad = ~np.isfinite(x).reshape(-1, layout.nx)
    if bad.any():
        _refuse_parts(before, after, layout, bad[np.argmax(bad.any(axis=1))])


def _refuse_parts(before: str, after: str, layout: StateLayout, bad: Any) -> None:
    """Refuse a state of which numbers are bad, named by the part that the first one belongs to."""
    if not bad.any():
        return
    ends = np.cumsum([layout.lengths[name] for name in STATE])
    part = STATE[int(np.searchsorted(ends, np.argmax(bad), side="right"))]
    zero = ", and zero where the loss does not depend on the state" if after else ""
    raise ParameterError(
        f"{before}{part}{after} holds a NaN or infinity; give finite numbers{zero}."
    )
