"""Repeat an array for all worlds, with a gradient that is summed world after world.

XLA is free to add in any order; the Simulator adds the worlds' gradients in theirs, and so do we on
the processor. On a GPU the order is XLA's, as it is in the adjoints of rollouts there.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

spread_p = Primitive("featherback_spread")
total_p = Primitive("featherback_total")


def spread(x: jax.Array, worlds: int) -> jax.Array:
    """Return `x` repeated along a new leading axis."""
    return spread_p.bind(x, worlds=worlds, axis=0)


def _spread(x: Any, *, worlds: int, axis: int) -> jax.Array:
    return jnp.repeat(jnp.expand_dims(x, axis), worlds, axis)


def _total(x: Any, *, axis: int) -> jax.Array:
    """Sum along an axis in its order."""
    rows = jnp.moveaxis(x, axis, 0)
    zero = jnp.zeros(rows.shape[1:], rows.dtype)
    return jax.lax.scan(lambda sum, row: (sum + row, None), zero, rows)[0]


def _sum(x: Any, *, axis: int) -> jax.Array:
    """Sum along an axis in any order."""
    return jnp.sum(x, axis)


def _spread_transpose(ct: Any, x: Any, *, worlds: int, axis: int) -> list[Any]:
    zero = isinstance(ct, ad.Zero)
    return [ad.Zero(x.aval) if zero else total_p.bind(ct, axis=axis)]


def _total_transpose(ct: Any, x: Any, *, axis: int) -> list[Any]:
    if isinstance(ct, ad.Zero):
        return [ad.Zero(x.aval)]
    return [spread_p.bind(ct, worlds=x.aval.shape[axis], axis=axis)]


def _batch_spread(args: Any, dims: Any, *, worlds: int, axis: int) -> Any:
    x = jnp.moveaxis(args[0], dims[0], 0)
    return spread_p.bind(x, worlds=worlds, axis=axis + 1), 0


def _batch_total(args: Any, dims: Any, *, axis: int) -> Any:
    x = jnp.moveaxis(args[0], dims[0], 0)
    return total_p.bind(x, axis=axis + 1), 0


def _spread_shape(x: Any, *, worlds: int, axis: int) -> Any:
    shape = (*x.shape[:axis], worlds, *x.shape[axis:])
    return ShapedArray(shape, x.dtype)


def _total_shape(x: Any, *, axis: int) -> Any:
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return ShapedArray(shape, x.dtype)


for primitive, run, shape, transpose, batch in (
    (spread_p, _spread, _spread_shape, _spread_transpose, _batch_spread),
    (total_p, _total, _total_shape, _total_transpose, _batch_total),
):
    primitive.def_impl(run)
    primitive.def_abstract_eval(shape)
    mlir.register_lowering(primitive, mlir.lower_fun(run, multiple_results=False))
    ad.deflinear2(primitive, transpose)
    batching.primitive_batchers[primitive] = batch
mlir.register_lowering(total_p, mlir.lower_fun(_sum, multiple_results=False), platform="cuda")
