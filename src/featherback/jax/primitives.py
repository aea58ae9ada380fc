"""The maps: a rollout of many steps or of one, and outputs of a state.

A rollout's point is (x, u, theta): x is (worlds, nx), a state (q, v, act, warm) of each world, u is
(worlds, steps, nu), and its states (worlds, steps + 1, nx) are its tape. A single step has no axis
of steps, and its tape is empty. An output's point is (q, v, third, theta), where the third input is
a force or an acceleration; v or the third is empty where the output does not read it.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.interpreters import ad

from featherback.jax import device_host, device_jobs
from featherback.jax.derivatives import Form, directions, make_map
from featherback.jax.engine_pool import Engines
from featherback.jax.rules import Groups, Shapes, call_target, compose

ROLLOUT = Form(
    point=("x", "u", "theta"), tape=("x_all",), results=("x_all",), flags=("status", "status_step")
)
OUTPUT = Form(point=("q", "v", "third", "theta"), tape=(), results=("y",))


def rollout_shapes(x: Any, u: Any, theta: Any, *, engines: Engines, single: bool) -> Shapes:
    """Return shapes of states, status and its step."""
    worlds = (x.shape[0],)
    states = state_shapes(x, u, theta, engines=engines, single=single)
    return [*states, (worlds, np.uint32), (worlds, np.int32)]


def state_shapes(x: Any, u: Any, *rest: Any, engines: Engines, single: bool) -> Shapes:
    """Return the shape of the states of a rollout, or of their tangents."""
    lead = (x.shape[0],) if single else (x.shape[0], u.shape[1] + 1)
    return [((*lead, engines.layout.nx), engines.dtype)]


def start_shapes(x: Any, u: Any, *rest: Any, engines: Engines, single: bool, rows: int) -> Shapes:
    """Return shapes of the cotangents of the first state, of u and of rows of parameters."""
    shapes = (x.shape, u.shape, (rows, engines.ntheta))
    return [(shape, engines.dtype) for shape in shapes]


def _rollout_jvp(primals: Any, tangents: Any, **static: Any) -> Any:
    """Roll out, and map the directions along the states."""
    states, *flags = rollout_map.forward.bind(primals, **static)
    tape = [jnp.zeros((0,), states.dtype) if static["single"] else states]
    along = directions(rollout_map, primals, tangents)
    dots = rollout_map.tangent.bind(primals, tape, along, **static)
    none = [ad.Zero(ShapedArray(x.shape, jax.dtypes.float0)) for x in flags]
    return [states, *flags], [*dots, *none]


def _along(point: Any, tape: Any, *linear: Any, single: bool, **static: Any) -> Groups:
    """Give the handler all states in place of the first ones."""
    if single:
        return (point, *linear)
    _, *rest = point
    return (tape, rest, *linear)


rollout_map = make_map("rollout", ROLLOUT, state_shapes, start_shapes, second=True)
call_target(rollout_map.forward, "rollout", rollout_shapes, device_jobs.rollout)
call_target(rollout_map.tangent, "jvp", state_shapes, device_host.jvp, _along)
call_target(rollout_map.cotangent, "vjp", start_shapes, device_jobs.vjp, _along)
assert rollout_map.second is not None
call_target(rollout_map.second, "hvp", start_shapes, device_host.hvp, _along)
ad.primitive_jvps[rollout_map.forward.primitive] = _rollout_jvp


def output_shapes(q: Any, *rest: Any, engines: Engines, output: str) -> Shapes:
    """Return the shape of an output, one row for each world."""
    return [((q.shape[0], engines.outputs[output]), engines.dtype)]


def point_shapes(
    q: Any, v: Any, third: Any, *rest: Any, engines: Engines, output: str, rows: int
) -> Shapes:
    """Return shapes of the cotangents of the inputs and of rows of parameters."""
    shapes = (q.shape, v.shape, third.shape, (rows, engines.ntheta))
    return [(shape, engines.dtype) for shape in shapes]


def _output_jvp(primals: Any, tangents: Any, **static: Any) -> Any:
    """Evaluate, and map the directions."""
    along = directions(output_map, primals, tangents)
    out = output_map.forward.bind(primals, **static)
    return out, output_map.tangent.bind(primals, (), along, **static)


def _output_tangent(*args: Any, **static: Any) -> list[jax.Array]:
    """Map directions by the rows of the Jacobian, each from the adjoint of one number."""
    (*inputs, theta), tape, dots = output_map.tangent.split(args)
    ((worlds, n), dtype) = output_shapes(*inputs, **static)[0]
    repeated = [x if x.size == 0 else jnp.repeat(x, n, axis=0) for x in inputs]
    repeated.append(jnp.repeat(theta, n, axis=0) if theta.ndim == 2 else theta)
    units = [jnp.tile(jnp.eye(n, dtype=dtype), (worlds, 1))]
    *_, dtheta = dots
    rows = worlds * n if dtheta.size else 0
    jacobian = output_map.cotangent.bind(repeated, tape, units, rows=rows, **static)
    total = jnp.zeros((worlds, n), dtype)
    for part, dot in zip(jacobian, dots, strict=True):
        if dot.size:
            along = jnp.broadcast_to(dot, (worlds, dot.shape[-1]))
            rows_of_part = part.reshape(worlds, n, part.shape[-1])
            total = total + jnp.einsum("wni,wi->wn", rows_of_part, along)
    return [total]


output_map = make_map("output", OUTPUT, output_shapes, point_shapes, second=False)
call_target(output_map.forward, "output", output_shapes, device_host.output)
compose(output_map.tangent, _output_tangent, output_shapes)
call_target(output_map.cotangent, "output_vjp", point_shapes, device_host.output_vjp)
ad.primitive_jvps[output_map.forward.primitive] = _output_jvp
