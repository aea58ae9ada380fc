"""Operations, and the rules they share: their call on the CPU, and batches.

An operation is a primitive whose arguments are groups of named arrays: a point, what a map computed
from it, directions, cotangents. All arrays have a leading axis of worlds. Flat parameters, and
directions in them, are called "theta": one row for all worlds, a row for each, or empty for the
simulator's own. Inputs that a map does not have are empty. A batch of calls is one call with more
worlds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from featherback.jax.engine_pool import Engines

VARYING = (
    "featherback.jax: its functions do not follow the varying axes that shard_map checks; pass "
    "check_vma=False to jax.shard_map."
)
THETA = "theta"

Names = tuple[str, ...]
Groups = Sequence[Sequence[Any]]
Shapes = list[tuple[tuple[int, ...], Any]]
# shapes and types of the results, from the arguments and the static options
ShapeRule = Callable[..., Shapes]
# groups of arguments of a handler, from those of an operation and the static options
Select = Callable[..., Groups]


@dataclass(frozen=True, eq=False)
class Operation:
    """A primitive with several results.

    Attributes:
        primitive: what JAX knows.
        groups: names of its arguments.
        results: names of its results. Where they are cotangents of parameters, these are summed
            over the worlds to as many rows as the static option `rows` says.
    """

    primitive: Primitive
    groups: tuple[Names, ...]
    results: Names

    @classmethod
    def new(cls, name: str, groups: tuple[Names, ...], results: Names) -> Operation:
        """Return an operation that has no rules yet but that for batches."""
        primitive = Primitive(f"featherback_{name}")
        primitive.multiple_results = True
        operation = cls(primitive, groups, results)
        _batch_worlds(operation)
        return operation

    def bind(self, *groups: Sequence[Any], **static: Any) -> list[Any]:
        """Apply it to groups of arrays."""
        return self.primitive.bind(*itertools.chain(*groups), **static)

    def split(self, arguments: Sequence[Any]) -> list[list[Any]]:
        """Return the groups of the arguments of the primitive, or of tangents of them."""
        rest = iter(arguments)
        return [list(itertools.islice(rest, len(names))) for names in self.groups]


def call_target(
    operation: Operation,
    target: str,
    shapes: ShapeRule,
    on_device: Callable[..., Any],
    select: Select | None = None,
) -> None:
    """Make an operation a call of a handler on the CPU, or what a simulator on a GPU does there."""

    # outside of jit a call finds what an earlier one compiled
    @partial(jax.jit, static_argnames="static", inline=True)
    def device_call(*arrays: Any, static: tuple[tuple[str, Any], ...]) -> Any:
        return on_device(*arrays, **dict(static))

    def call(*args: Any, engines: Engines, **static: Any) -> Sequence[jax.Array]:
        out = shapes(*args, engines=engines, **static)
        results = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in out]
        attributes = {"key": np.int64(engines.key), **static}
        attributes.pop("rows", None)
        groups = operation.split(args)
        if select is not None:
            groups = select(*groups, **static)
        if engines.gpu is not None:
            for x in args:
                engines.gpu.require_here("featherback.jax", "an input", x)
            told = {"engines": engines, "results": tuple(results), **static}
            return device_call(*itertools.chain(*groups), static=tuple(told.items()))
        run = jax.ffi.ffi_call(f"featherback_{target}", results)
        return run(*itertools.chain(*groups), **attributes)

    def refuse(context: Any, *args: Any, engines: Engines, **static: Any) -> Any:
        platforms = context.platforms or context.module_context.platforms
        if engines.gpu is not None:
            engines.gpu.refuse_platforms(platforms)
        raise NotImplementedError(
            f"featherback.jax: the computation is placed on {', '.join(platforms)}; the simulator "
            'runs on the CPU: move its inputs there with jax.device_put(x, jax.devices("cpu")[0]) '
            'or set jax.config.update("jax_platforms", "cpu").'
        )

    compose(operation, call, shapes)
    lowered = mlir.lower_fun(call, multiple_results=True)

    def lower_on(platform: str) -> Callable[..., Any]:
        def lower(context: Any, *args: Any, engines: Engines, **static: Any) -> Any:
            here = "cpu" if engines.gpu is None else engines.gpu.platform
            run = lowered if here == platform else refuse
            return run(context, *args, engines=engines, **static)

        return lower

    mlir.register_lowering(operation.primitive, refuse)
    for platform in ("cpu", "cuda"):
        mlir.register_lowering(operation.primitive, lower_on(platform), platform=platform)


def compose(operation: Operation, run: Callable[..., Any], shapes: ShapeRule) -> None:
    """Make an operation what a function of JAX does."""

    def abstract(*args: Any, **static: Any) -> list[Any]:
        if any(_varying_axes(x) for x in args):
            raise NotImplementedError(VARYING)
        return [ShapedArray(shape, dtype) for shape, dtype in shapes(*args, **static)]

    primitive = operation.primitive
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


def _batch_worlds(operation: Operation) -> None:
    """Make a batch of calls one call with more worlds."""
    names = list(itertools.chain(*operation.groups))

    def rule(args: Any, dims: Any, **static: Any) -> Any:
        batch = next(x.shape[d] for x, d in zip(args, dims, strict=True) if d is not None)
        worlds = args[0].shape[0 if dims[0] is None or dims[0] > 0 else 1]
        merged = [
            _merge_theta(x, d, batch, worlds) if name == THETA else _merge(x, d, batch)
            for name, x, d in zip(names, args, dims, strict=True)
        ]
        leads = dict.fromkeys(operation.results, worlds)
        if "rows" in static:
            leads[THETA] = static["rows"]
            static = {**static, "rows": batch * static["rows"]}
        out = operation.primitive.bind(*merged, **static)
        # what a map does not have stays an empty row of numbers; flags are there for each world
        mapped = [x.ndim > 1 or not jnp.issubdtype(x.dtype, jnp.floating) for x in out]
        split = [
            x.reshape(batch, leads[name], *x.shape[1:]) if keep else x
            for name, x, keep in zip(operation.results, out, mapped, strict=True)
        ]
        return split, [0 if keep else None for keep in mapped]

    batching.primitive_batchers[operation.primitive] = rule
