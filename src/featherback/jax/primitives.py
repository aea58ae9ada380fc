"""A rollout of many steps, or of one, as primitives.

Its point is (q, v, u, theta): q is (worlds, nq), u is (worlds, steps, nu), and its states are
(worlds, steps + 1, n), which are its tape. A single step has no axis of steps and no tape.
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
from featherback.jax.rules import Shapes, call_target


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
