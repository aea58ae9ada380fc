"""Derivatives of a map F as primitives: each is linear in some arguments and has its transpose.

At a point x with its tape:
    tangent    dx -> J dx                                       J = F'(x)
    cotangent  y_bar -> J' y_bar
    second     dx, y_bar_dot -> H dx + J' y_bar_dot             H = d(J' y_bar)/dx, symmetric
    bend       dx, dz -> F''(x) dx dz                           only its transpose is computed
The transposes are tangent <-> cotangent; second -> (second, tangent), since H is symmetric; and
bend, in either argument, -> second.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad

from featherback.jax.rules import ShapeRule, Shapes, batch_worlds, compose, make_primitive

NO_SECOND = (
    "featherback.jax: second derivatives of outputs are not available; take first derivatives, or "
    "difference them."
)
NO_THIRD = (
    "featherback.jax: third derivatives are not available; take second derivatives, or difference "
    "them."
)
NO_BEND = (
    "featherback.jax: forward mode over forward mode is not available; put forward mode over "
    "reverse mode, as jax.hessian and jax.jvp of jax.grad do."
)

# the point has four arrays, with the tape there are six; results have two bars at most
POINT, FIXED = 4, 6


class Map(NamedTuple):
    """The primitives of a map.

    Attributes:
        forward: the map.
        tangent: directions in the point to those in the first results.
        cotangent: cotangents of these results to those of the point; the parameters' are summed
            over the worlds to `rows` rows.
        second: the tangent of `cotangent`; None where there is none.
        bend: the part of the tangent of `tangent` that bends; None where there is none.
        results: shapes of the first results.
        bars: shapes of the point's cotangents.
    """

    forward: Primitive
    tangent: Primitive
    cotangent: Primitive
    second: Primitive | None
    bend: Primitive | None
    results: ShapeRule
    bars: ShapeRule


def make_map(name: str, results: ShapeRule, bars: ShapeRule, *, second: bool) -> Map:
    """Return the primitives of a map with their rules; their calls are still to be given."""
    ends = ("", "_tangent", "_cotangent", "_second", "_bend")
    forward, tangent, cotangent, again, bend = (make_primitive(name + end) for end in ends)
    both = (again, bend) if second else (None, None)
    f = Map(forward, tangent, cotangent, *both, results, bars)
    batch_worlds(forward, (3,))
    batch_worlds(tangent, (3, 9))
    batch_worlds(cotangent, (3,))
    _register_first(f)
    if second:
        batch_worlds(again, (3, 11))
        batch_worlds(bend, (3, 9, 13))
        _register_second(f, again, bend)
    return f


def directions(primals: Any, tangents: Any) -> list[jax.Array]:
    """Return directions in a point; that in the parameters is empty where there is none."""
    dots = [_zero_or(t, x) for t, x in zip(tangents[:3], primals[:3], strict=True)]
    none = isinstance(tangents[3], ad.Zero)
    return [*dots, jnp.zeros((0,), primals[3].dtype) if none else tangents[3]]


def _still(tangents: Any) -> bool:
    """Say whether there is no tangent."""
    return all(isinstance(t, ad.Zero) for t in tangents)


def _zero_or(tangent: Any, like: Any) -> jax.Array:
    """Return a tangent, zeros where there is none."""
    return jnp.zeros(like.shape, like.dtype) if isinstance(tangent, ad.Zero) else tangent


def _zeros_or(tangents: Any, primals: Any) -> list[jax.Array]:
    return [_zero_or(t, x) for t, x in zip(tangents, primals, strict=True)]


def _filled(cts: Any, shapes: Shapes) -> list[Any]:
    """Return cotangents, zeros where there are none."""
    return [
        jnp.zeros(shape, dtype) if isinstance(ct, ad.Zero) else ct
        for ct, (shape, dtype) in zip(cts, shapes, strict=True)
    ]


def _added(first: list[Any] | None, other: list[Any]) -> list[Any]:
    if first is None:
        return other
    return [a + b for a, b in zip(first, other, strict=True)]


def _wanted(out: list[Any], linear: Any) -> list[Any]:
    """Keep the cotangents of what is linear."""
    return [x if ad.is_undefined_primal(y) else None for x, y in zip(out, linear, strict=True)]


def _shape_of(x: Any) -> tuple[int, ...]:
    """Return the shape of a direction in the parameters, empty where it is not asked for."""
    return x.aval.shape if ad.is_undefined_primal(x) else (0,)


def _rows_of(shape: tuple[int, ...]) -> int:
    """Return the rows to which a cotangent of parameters of this shape is summed."""
    return shape[0] if len(shape) == 2 else int(shape != (0,))


def _as_direction(cts: Any, f: Map, fixed: Any, rows: int, static: Any) -> list[Any]:
    """Return cotangents of the bars of a point as a direction in it."""
    dots = _filled(cts, f.bars(*fixed, rows=rows, **static))
    worlds = fixed[0].shape[0]
    if rows == 0:
        dots[3] = jnp.zeros((0,), fixed[0].dtype)
    elif rows != worlds:
        dots[3] = jnp.repeat(dots[3], worlds // rows, axis=0)
    return dots


def _register_first(f: Map) -> None:
    """Give the tangent and the cotangent their derivatives."""

    def tangent_jvp(primals: Any, tangents: Any, **static: Any) -> Any:
        fixed, moved = primals[:FIXED], tangents[:POINT]
        out, dots = f.tangent.bind(*primals, **static), None
        if not _still(tangents[FIXED:]):
            linear = _zeros_or(tangents[FIXED:], primals[FIXED:])
            dots = f.tangent.bind(*fixed, *linear, **static)
        if not _still(moved):
            if f.bend is None:
                raise NotImplementedError(NO_SECOND)
            along = directions(primals, moved)
            dots = _added(dots, f.bend.bind(*primals, *along, **static))
        # the tape moves with the point
        assert dots is not None
        return out, dots

    def cotangent_jvp(primals: Any, tangents: Any, **static: Any) -> Any:
        out = f.cotangent.bind(*primals, **static)
        linear = _zeros_or(tangents[FIXED:], primals[FIXED:])
        if _still(tangents[:POINT]):
            return out, f.cotangent.bind(*primals[:FIXED], *linear, **static)
        if f.second is None:
            raise NotImplementedError(NO_SECOND)
        along = directions(primals, tangents)
        return out, f.second.bind(*primals, *along, *linear, **static)

    def tangent_transpose(cts: Any, *args: Any, **static: Any) -> Any:
        fixed, linear = args[:FIXED], args[FIXED:]
        bars = _filled(cts, f.results(*fixed, **static))
        shape = _shape_of(linear[3])
        out = f.cotangent.bind(*fixed, *bars, rows=_rows_of(shape), **static)
        out[3] = out[3].reshape(shape)
        return [None] * FIXED + _wanted(out, linear)

    def cotangent_transpose(cts: Any, *args: Any, rows: int, **static: Any) -> Any:
        fixed, linear = args[:FIXED], args[FIXED:]
        dots = _as_direction(cts, f, fixed, rows, static)
        return [None] * FIXED + _wanted(f.tangent.bind(*fixed, *dots, **static), linear)

    ad.primitive_jvps[f.tangent] = tangent_jvp
    ad.primitive_jvps[f.cotangent] = cotangent_jvp
    ad.primitive_transposes[f.tangent] = tangent_transpose
    ad.primitive_transposes[f.cotangent] = cotangent_transpose


def _register_second(f: Map, second: Primitive, bend: Primitive) -> None:
    """Give the second derivatives theirs."""

    def run_bend(*args: Any, **static: Any) -> Any:
        raise NotImplementedError(NO_BEND)

    def second_jvp(primals: Any, tangents: Any, **static: Any) -> Any:
        if not _still(tangents[:POINT]):
            raise NotImplementedError(NO_THIRD)
        at = FIXED + 2
        linear = _zeros_or(tangents[at:], primals[at:])
        dots = second.bind(*primals[:at], *linear, **static)
        if not _still(tangents[FIXED:at]):
            bars = _zeros_or(tangents[FIXED:at], primals[FIXED:at])
            none = [jnp.zeros_like(x) for x in bars]
            more = second.bind(*primals[:FIXED], *bars, *primals[at : at + 4], *none, **static)
            dots = _added(dots, more)
        return second.bind(*primals, **static), dots

    def second_transpose(cts: Any, *args: Any, rows: int, **static: Any) -> Any:
        fixed, bars, linear = args[:FIXED], args[FIXED : FIXED + 2], args[FIXED + 2 :]
        dots = _as_direction(cts, f, fixed, rows, static)
        if any(map(ad.is_undefined_primal, bars)):
            out = bend.bind(*fixed, *linear[:4], *dots, **static)
            return [None] * FIXED + _wanted(out, bars) + [None] * 6
        shape = _shape_of(linear[3])
        none = [jnp.zeros_like(x) for x in bars]
        out = second.bind(*fixed, *bars, *dots, *none, rows=_rows_of(shape), **static)
        out[3] = out[3].reshape(shape)
        out += f.tangent.bind(*fixed, *dots, **static)
        return [None] * (FIXED + 2) + _wanted(out, linear)

    def bend_jvp(primals: Any, tangents: Any, **static: Any) -> Any:
        if not _still(tangents[:POINT]):
            raise NotImplementedError(NO_THIRD)
        dots = None
        for part in (slice(FIXED, FIXED + 4), slice(FIXED + 4, FIXED + 8)):
            if not _still(tangents[part]):
                args = list(primals)
                args[part] = _zeros_or(tangents[part], primals[part])
                dots = _added(dots, bend.bind(*args, **static))
        return bend.bind(*primals, **static), dots

    def bend_transpose(cts: Any, *args: Any, **static: Any) -> Any:
        fixed, first, other = args[:FIXED], args[FIXED : FIXED + 4], args[FIXED + 4 :]
        swapped = any(map(ad.is_undefined_primal, first))
        known, linear = (other, first) if swapped else (first, other)
        bars = _filled(cts, f.results(*fixed, **static))
        none = [jnp.zeros_like(x) for x in bars]
        shape = _shape_of(linear[3])
        out = second.bind(*fixed, *bars, *known, *none, rows=_rows_of(shape), **static)
        out[3] = out[3].reshape(shape)
        found = _wanted(out, linear)
        return [None] * FIXED + (found + [None] * 4 if swapped else [None] * 4 + found)

    compose(bend, run_bend, f.results)
    ad.primitive_jvps[second] = second_jvp
    ad.primitive_jvps[bend] = bend_jvp
    ad.primitive_transposes[second] = second_transpose
    ad.primitive_transposes[bend] = bend_transpose
