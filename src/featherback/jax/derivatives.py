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

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.interpreters import ad

from featherback.jax.rules import THETA, Names, Operation, ShapeRule, Shapes, compose

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


class Form(NamedTuple):
    """What the arrays of a map are called.

    Attributes:
        point: its arguments; the last are flat parameters, called "theta".
        tape: what its derivatives need besides the point.
        results: its results that have derivatives.
        flags: those that have none.
    """

    point: Names
    tape: Names
    results: Names
    flags: Names = ()


class Map(NamedTuple):
    """The operations of a map.

    Attributes:
        form: names of its arrays.
        forward: the map.
        tangent: directions in the point to those in the results.
        cotangent: cotangents of the results to those of the point; the parameters' are summed over
            the worlds to `rows` rows.
        second: the tangent of `cotangent`; None where there is none.
        bend: the part of the tangent of `tangent` that bends; None where there is none.
        results: shapes of the results.
        bars: shapes of the point's cotangents.
    """

    form: Form
    forward: Operation
    tangent: Operation
    cotangent: Operation
    second: Operation | None
    bend: Operation | None
    results: ShapeRule
    bars: ShapeRule


def make_map(name: str, form: Form, results: ShapeRule, bars: ShapeRule, *, second: bool) -> Map:
    """Return the operations of a map with their rules; their calls are still to be given."""
    point, tape, out, flags = form
    forward = Operation.new(name, (point,), (*out, *flags))
    tangent = Operation.new(f"{name}_tangent", (point, tape, point), out)
    cotangent = Operation.new(f"{name}_cotangent", (point, tape, out), point)
    f = Map(form, forward, tangent, cotangent, None, None, results, bars)
    if second:
        again = Operation.new(f"{name}_second", (point, tape, out, point, out), point)
        bend = Operation.new(f"{name}_bend", (point, tape, point, point), out)
        f = f._replace(second=again, bend=bend)
        _register_second(f, again, bend)
    _register_first(f)
    return f


def directions(f: Map, point: Sequence[Any], dots: Sequence[Any]) -> list[jax.Array]:
    """Return directions in a point; that in the parameters is empty where there is none."""
    return [
        _empty(x) if name == THETA and isinstance(dot, ad.Zero) else _zero_or(dot, x)
        for name, x, dot in zip(f.form.point, point, dots, strict=True)
    ]


def _still(tangents: Sequence[Any]) -> bool:
    """Say whether there is no tangent."""
    return all(isinstance(t, ad.Zero) for t in tangents)


def _empty(like: Any) -> jax.Array:
    return jnp.zeros((0,), like.dtype)


def _zero_or(tangent: Any, like: Any) -> jax.Array:
    """Return a tangent, zeros where there is none."""
    return jnp.zeros(like.shape, like.dtype) if isinstance(tangent, ad.Zero) else tangent


def _zeros_or(tangents: Sequence[Any], primals: Sequence[Any]) -> list[jax.Array]:
    return [_zero_or(t, x) for t, x in zip(tangents, primals, strict=True)]


def _zeros(like: Sequence[Any]) -> list[jax.Array]:
    return [jnp.zeros_like(x) for x in like]


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


def _linear(arrays: Sequence[Any]) -> bool:
    """Say whether a transpose is taken with respect to any of these arguments."""
    return any(map(ad.is_undefined_primal, arrays))


def _wanted(out: Sequence[Any], linear: Sequence[Any]) -> list[Any]:
    """Keep the cotangents of what is linear."""
    return [x if ad.is_undefined_primal(y) else None for x, y in zip(out, linear, strict=True)]


def _none(*groups: Sequence[Any]) -> list[None]:
    """Return the cotangents of arguments that are not linear."""
    return [None for group in groups for _ in group]


def _pull(f: Operation, groups: Sequence[Any], linear: Sequence[Any], static: Any) -> list[Any]:
    """Return the cotangents of directions in a point that are linear, from an operation.

    The parameters' cotangent is summed to as many rows as the direction in them has; it is empty
    where it is not asked for.
    """
    *_, theta = linear
    shape = theta.aval.shape if ad.is_undefined_primal(theta) else (0,)
    rows = shape[0] if len(shape) == 2 else int(shape != (0,))
    *bars, theta_bar = f.bind(*groups, rows=rows, **static)
    return _wanted([*bars, theta_bar.reshape(shape)], linear)


def _as_direction(cts: Any, f: Map, point: Sequence[Any], rows: int, static: Any) -> list[Any]:
    """Return cotangents of the bars of a point as a direction in it."""
    *dots, theta = _filled(cts, f.bars(*point, rows=rows, **static))
    worlds = point[0].shape[0]
    if rows == 0:
        theta = _empty(theta)
    elif rows != worlds:
        theta = jnp.repeat(theta, worlds // rows, axis=0)
    return [*dots, theta]


def _register_first(f: Map) -> None:
    """Give the tangent and the cotangent their derivatives."""

    def tangent_jvp(primals: Any, tangents: Any, **static: Any) -> Any:
        point, tape, dots = f.tangent.split(primals)
        moved, _, turned = f.tangent.split(tangents)
        change = None
        if not _still(turned):
            change = f.tangent.bind(point, tape, _zeros_or(turned, dots), **static)
        if not _still(moved):
            if f.bend is None:
                raise NotImplementedError(NO_SECOND)
            along = directions(f, point, moved)
            change = _added(change, f.bend.bind(point, tape, dots, along, **static))
        # the tape moves with the point
        assert change is not None
        return f.tangent.bind(point, tape, dots, **static), change

    def cotangent_jvp(primals: Any, tangents: Any, **static: Any) -> Any:
        point, tape, bars = f.cotangent.split(primals)
        moved, _, turned = f.cotangent.split(tangents)
        out, bars_dot = f.cotangent.bind(point, tape, bars, **static), _zeros_or(turned, bars)
        if _still(moved):
            return out, f.cotangent.bind(point, tape, bars_dot, **static)
        if f.second is None:
            raise NotImplementedError(NO_SECOND)
        along = directions(f, point, moved)
        return out, f.second.bind(point, tape, bars, along, bars_dot, **static)

    def tangent_transpose(cts: Any, *args: Any, **static: Any) -> Any:
        point, tape, dots = f.tangent.split(args)
        bars = _filled(cts, f.results(*point, **static))
        return _none(point, tape) + _pull(f.cotangent, (point, tape, bars), dots, static)

    def cotangent_transpose(cts: Any, *args: Any, rows: int, **static: Any) -> Any:
        point, tape, bars = f.cotangent.split(args)
        dots = _as_direction(cts, f, point, rows, static)
        return _none(point, tape) + _wanted(f.tangent.bind(point, tape, dots, **static), bars)

    ad.primitive_jvps[f.tangent.primitive] = tangent_jvp
    ad.primitive_jvps[f.cotangent.primitive] = cotangent_jvp
    ad.primitive_transposes[f.tangent.primitive] = tangent_transpose
    ad.primitive_transposes[f.cotangent.primitive] = cotangent_transpose


def _register_second(f: Map, second: Operation, bend: Operation) -> None:
    """Give the second derivatives theirs."""

    def run_bend(*args: Any, **static: Any) -> Any:
        raise NotImplementedError(NO_BEND)

    def second_jvp(primals: Any, tangents: Any, **static: Any) -> Any:
        point, tape, bars, dots, bars_dot = second.split(primals)
        moved, _, turned, *changes = second.split(tangents)
        if not _still(moved):
            raise NotImplementedError(NO_THIRD)
        linear = [_zeros_or(t, x) for t, x in zip(changes, (dots, bars_dot), strict=True)]
        change = second.bind(point, tape, bars, *linear, **static)
        if not _still(turned):
            other = _zeros_or(turned, bars)
            more = second.bind(point, tape, other, dots, _zeros(bars), **static)
            change = _added(change, more)
        return second.bind(point, tape, bars, dots, bars_dot, **static), change

    def second_transpose(cts: Any, *args: Any, rows: int, **static: Any) -> Any:
        point, tape, bars, dots, bars_dot = second.split(args)
        along = _as_direction(cts, f, point, rows, static)
        if _linear(bars):
            out = bend.bind(point, tape, dots, along, **static)
            return _none(point, tape) + _wanted(out, bars) + _none(dots, bars_dot)
        found = _pull(second, (point, tape, bars, along, _zeros(bars)), dots, static)
        pushed = _wanted(f.tangent.bind(point, tape, along, **static), bars_dot)
        return _none(point, tape, bars) + found + pushed

    def bend_jvp(primals: Any, tangents: Any, **static: Any) -> Any:
        point, tape, first, other = bend.split(primals)
        moved, _, first_dot, other_dot = bend.split(tangents)
        if not _still(moved):
            raise NotImplementedError(NO_THIRD)
        change = None
        if not _still(first_dot):
            change = bend.bind(point, tape, _zeros_or(first_dot, first), other, **static)
        if not _still(other_dot):
            more = bend.bind(point, tape, first, _zeros_or(other_dot, other), **static)
            change = _added(change, more)
        return bend.bind(point, tape, first, other, **static), change

    def bend_transpose(cts: Any, *args: Any, **static: Any) -> Any:
        point, tape, first, other = bend.split(args)
        bars = _filled(cts, f.results(*point, **static))
        swapped = _linear(first)
        known, linear = (other, first) if swapped else (first, other)
        found = _pull(second, (point, tape, bars, known, _zeros(bars)), linear, static)
        both = found + _none(other) if swapped else _none(first) + found
        return _none(point, tape) + both

    compose(bend, run_bend, f.results)
    ad.primitive_jvps[second.primitive] = second_jvp
    ad.primitive_jvps[bend.primitive] = bend_jvp
    ad.primitive_transposes[second.primitive] = second_transpose
    ad.primitive_transposes[bend.primitive] = bend_transpose
