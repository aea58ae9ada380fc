"""The maps as primitives: a rollout of many steps or of one, and outputs of a state.

A rollout's point is (q, v, u, theta): q is (worlds, nq), u is (worlds, steps, nu), and its states
are (worlds, steps + 1, n), which are its tape. A single step has no axis of steps and no tape. An
output's point is (q, v, x, theta), where x is a force or an acceleration; v or x is empty where the
output does not read it, and there is no tape.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.interpreters import ad

from featherback.jax.crew import Engines
from featherback.jax.derivatives import directions, make_map
from featherback.jax.rules import Shapes, call_target, compose


def rollout_shapes(q: Any, v: Any, u: Any, theta: Any, *, engines: Engines, single: bool) -> Shapes:
    """Return shapes of states, status and its step."""
    worlds = (q.shape[0],)
    states = state_shapes(q, v, u, theta, engines=engines, single=single)
    return [*states, (worlds, np.uint32), (worlds, np.int32)]


def state_shapes(q: Any, v: Any, u: Any, *rest: Any, engines: Engines, single: bool) -> Shapes:
    """Return shapes of the states of a rollout, or of their tangents."""
    lead = (q.shape[0],) if single else (q.shape[0], u.shape[1] + 1)
    return [((*lead, n), engines.dtype) for n in (engines.nq, engines.nv)]


def start_shapes(
    q: Any, v: Any, u: Any, *rest: Any, engines: Engines, single: bool, rows: int
) -> Shapes:
    """Return shapes of the cotangents of the first q and v, of u and of rows of parameters."""
    shapes = (q.shape, v.shape, u.shape, (rows, engines.ntheta))
    return [(shape, engines.dtype) for shape in shapes]


def _rollout_jvp(primals: Any, tangents: Any, **static: Any) -> Any:
    """Roll out, and map the directions along the states."""
    out = rollout_map.forward.bind(*primals, **static)
    none = jnp.zeros((0,), primals[0].dtype)
    tape = (none, none) if static["single"] else out[:2]
    dots = rollout_map.tangent.bind(*primals, *tape, *directions(primals, tangents), **static)
    flags = [ad.Zero(ShapedArray(x.shape, jax.dtypes.float0)) for x in out[2:]]
    return out, [*dots, *flags]


def _whole(*args: Any, **static: Any) -> Any:
    """Give the handler the point."""
    return args


def _along(*args: Any, single: bool, **static: Any) -> Any:
    """Give the handler all states in place of the first ones."""
    q, v, u, theta, q_all, v_all, *rest = args
    states = (q, v) if single else (q_all, v_all)
    return (*states, u, theta, *rest)


rollout_map = make_map("rollout", state_shapes, start_shapes, second=True)
call_target(rollout_map.forward, "rollout", rollout_shapes, _whole)
call_target(rollout_map.tangent, "jvp", state_shapes, _along)
call_target(rollout_map.cotangent, "vjp", start_shapes, _along)
assert rollout_map.second is not None
call_target(rollout_map.second, "hvp", start_shapes, _along)
ad.primitive_jvps[rollout_map.forward] = _rollout_jvp


def output_shapes(q: Any, *rest: Any, engines: Engines, output: str) -> Shapes:
    """Return the shape of an output, one row for each world."""
    return [((q.shape[0], engines.outputs[output]), engines.dtype)]


def point_shapes(
    q: Any, v: Any, x: Any, *rest: Any, engines: Engines, output: str, rows: int
) -> Shapes:
    """Return shapes of the cotangents of q, v, x and of rows of parameters."""
    shapes = (q.shape, v.shape, x.shape, (rows, engines.ntheta))
    return [(shape, engines.dtype) for shape in shapes]


def _output_jvp(primals: Any, tangents: Any, **static: Any) -> Any:
    """Evaluate, and map the directions."""
    out = output_map.forward.bind(*primals, **static)
    none = jnp.zeros((0,), primals[0].dtype)
    along = directions(primals, tangents)
    return out, output_map.tangent.bind(*primals, none, none, *along, **static)


def _output_tangent(*args: Any, **static: Any) -> list[jax.Array]:
    """Map directions by the rows of the Jacobian, each from the adjoint of one number."""
    point, tape, dots = args[:4], args[4:6], args[6:]
    ((worlds, n), dtype) = output_shapes(point[0], **static)[0]
    repeated = [x if x.size == 0 else jnp.repeat(x, n, axis=0) for x in point[:3]]
    theta = jnp.repeat(point[3], n, axis=0) if point[3].ndim == 2 else point[3]
    units = jnp.tile(jnp.eye(n, dtype=dtype), (worlds, 1))
    rows = worlds * n if dots[3].size else 0
    jacobian = output_map.cotangent.bind(*repeated, theta, *tape, units, rows=rows, **static)
    total = jnp.zeros((worlds, n), dtype)
    for part, dot in zip(jacobian, dots, strict=True):
        if dot.size:
            along = jnp.broadcast_to(dot, (worlds, dot.shape[-1]))
            rows_of_part = part.reshape(worlds, n, part.shape[-1])
            total = total + jnp.einsum("wni,wi->wn", rows_of_part, along)
    return [total]


def _untaped(*args: Any, **static: Any) -> Any:
    """Give the handler no tape."""
    return (*args[:4], *args[6:])


output_map = make_map("output", output_shapes, point_shapes, second=False)
call_target(output_map.forward, "output", output_shapes, _whole)
compose(output_map.tangent, _output_tangent, output_shapes)
call_target(output_map.cotangent, "output_vjp", point_shapes, _untaped)
ad.primitive_jvps[output_map.forward] = _output_jvp
