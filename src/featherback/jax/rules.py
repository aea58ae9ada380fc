"""Rules that the primitives share: their call on the CPU, and batches.

A map takes a point: four arrays, the last flat parameters. Its derivatives take the point, a tape
of two arrays that the map computed from it, and what they are linear in. All arrays have a leading
axis of worlds. Parameters are one row for all worlds, a row for each, or empty for the simulator's
own; inputs that a map does not have are empty. A batch of calls is one call with more worlds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from featherback.jax.crew import Engines

VARYING = (
    "featherback.jax: its functions do not follow the varying axes that shard_map checks; pass "
    "check_vma=False to jax.shard_map."
)

Shapes = list[tuple[tuple[int, ...], Any]]
# shapes and types of the results, from the arguments and the static options
ShapeRule = Callable[..., Shapes]
# arguments of a handler, from those of a primitive and the static options
Select = Callable[..., Sequence[Any]]


def make_primitive(name: str) -> Primitive:
    """Return a new primitive with several results."""
    primitive = Primitive(f"featherback_{name}")
    primitive.multiple_results = True
    return primitive


def call_target(primitive: Primitive, target: str, shapes: ShapeRule, select: Select) -> None:
    """Make a primitive a call of a handler on the CPU; refuse other platforms."""

    def call(*args: Any, engines: Engines, **static: Any) -> Sequence[jax.Array]:
        out = shapes(*args, engines=engines, **static)
        results = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in out]
        attributes = {"key": np.int64(engines.key), **static}
        attributes.pop("rows", None)
        run = jax.ffi.ffi_call(f"featherback_{target}", results)
        return run(*select(*args, **static), **attributes)

    def refuse(context: Any, *args: Any, **static: Any) -> Any:
        platforms = context.platforms or context.module_context.platforms
        raise NotImplementedError(
            f"featherback.jax: the computation is placed on {', '.join(platforms)}; the simulator "
            'runs on the CPU: move its inputs there with jax.device_put(x, jax.devices("cpu")[0]) '
            'or set jax.config.update("jax_platforms", "cpu").'
        )

    compose(primitive, call, shapes)
    mlir.register_lowering(primitive, refuse)
    mlir.register_lowering(primitive, mlir.lower_fun(call, multiple_results=True), platform="cpu")


def compose(primitive: Primitive, run: Callable[..., Any], shapes: ShapeRule) -> None:
    """Make a primitive what a function of JAX does."""

    def abstract(*args: Any, **static: Any) -> list[Any]:
        if any(_varying_axes(x) for x in args):
            raise NotImplementedError(VARYING)
        return [ShapedArray(shape, dtype) for shape, dtype in shapes(*args, **static)]

    primitive.def_impl(run)
    primitive.def_abstract_eval(abstract)
    mlir.register_lowering(primitive, mlir.lower_fun(run, multiple_results=True))


def _varying_axes(aval: Any) -> Any:
    """Return the mesh axes along which shard_map says that an array varies."""
    return aval.vma if hasattr(aval, "vma") else aval.manual_axis_type.varying


def _merge(x: Any, axis: int | None, batch: int) -> jax.Array:
    """Return (batch x worlds, ...) from one of (worlds, ...) with a batch axis, or without."""
    moved = jnp.broadcast_to(x, (batch, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
    return moved.reshape(batch * moved.shape[1], *moved.shape[2:])


def _merge_theta(x: Any, axis: int | None, batch: int, worlds: int) -> jax.Array:
    """Return parameters for all worlds of a batch; one row for all stays one row."""
    rank = x.ndim - (axis is not None)
    if x.size == 0 or (axis is None and rank == 1):
        return jnp.zeros((0,), x.dtype) if x.size == 0 else x
    if rank == 2 or axis is None:
        return _merge(x, axis, batch)
    return jnp.repeat(jnp.moveaxis(x, axis, 0), worlds, axis=0)


def batch_worlds(primitive: Primitive, thetas: tuple[int, ...]) -> None:
    """Make a batch of calls one call with more worlds; `thetas` are arguments like parameters."""

    def rule(args: Any, dims: Any, **static: Any) -> Any:
        batch = next(x.shape[d] for x, d in zip(args, dims, strict=True) if d is not None)
        worlds = args[0].shape[0 if dims[0] is None or dims[0] > 0 else 1]
        merged = [
            _merge_theta(x, d, batch, worlds) if i in thetas else _merge(x, d, batch)
            for i, (x, d) in enumerate(zip(args, dims, strict=True))
        ]
        leads = [worlds] * 4
        if "rows" in static:
            leads[3] = static["rows"]
            static = {**static, "rows": batch * leads[3]}
        out = primitive.bind(*merged, **static)
        # what a map does not have stays an empty row of numbers; flags are there for each world
        mapped = [x.ndim > 1 or not jnp.issubdtype(x.dtype, jnp.floating) for x in out]
        split = [
            x.reshape(batch, n, *x.shape[1:]) if keep else x
            for x, n, keep in zip(out, leads, mapped, strict=False)
        ]
        return split, [0 if keep else None for keep in mapped]

    batching.primitive_batchers[primitive] = rule
