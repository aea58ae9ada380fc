"""What a model tells besides its motion: poses and dynamics, and the gradients of these.

All outputs stand in one table, `OUTPUTS`, made from the core's; `evaluate` and `evaluate_vjp` read
it. An output that is added to the core is one of it by itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from featherback._core import output_table
from featherback._typing import Params, Real
from featherback.errors import ParameterError, ShapeError
from featherback.model import Model
from featherback.sim.cotangents import require_cotangent
from featherback.sim.inputs import (
    as_real,
    named_arrays,
    refuse_without_gradient,
    require_finite,
    rows,
    unpack_theta,
)
from featherback.sim.state import StateLayout, read_rows
from featherback.sim.status import overflow_error

if TYPE_CHECKING:
    from featherback.sim.bridge import Bridge

ZERO = "give finite numbers, and zero where the loss does not depend on the output"
LOOK = (
    "it overflowed, or an input holds a NaN, an infinity or a quaternion of length zero; look at "
    "its inputs"
)


@dataclass(frozen=True, eq=False)
class OutputGradient:
    """Gradient of a loss on an output. World axes are those of the output.

    Attributes:
        q: real[(worlds,) nq], with respect to the configuration, ambient: it includes the
            normalisation of quaternions, so plain finite differences in q agree with it.
        params: by name, for the parameters that were given, in the shape they had: summed over the
            worlds where all shared them. A parameter that the output does not read has a zero.
        v: real[(worlds,) nv], with respect to the velocity; None where the output has none.
        a: real[(worlds,) nv], with respect to the acceleration; None but for inverse dynamics.
        tau: real[(worlds,) nv], with respect to the force; None but for forward dynamics.
        u: real[(worlds,) nu], with respect to the controls; None but for contact forces.
        act: real[(worlds,) na], with respect to the activations; None but for contact forces.
    """

    q: Real
    params: dict[str, Real]
    v: Real | None = None
    a: Real | None = None
    tau: Real | None = None
    u: Real | None = None
    act: Real | None = None


@dataclass(frozen=True)
class Output:
    """One output of a state, as callers see it.

    Attributes:
        job: what the core computes.
        inputs: names of what it reads.
        bars: names of the cotangents, one for each array that is returned.
        rows: for poses, the size of the model before the rows that are taken, and that of them.
    """

    job: str
    inputs: tuple[str, ...]
    bars: tuple[str, ...]
    rows: tuple[str, str] | None = None


OUTPUTS = {
    row.name: Output(row.name, tuple(row.inputs), (f"{row.result}_bar",))
    for row in output_table()
    if row.name != "poses"
} | {
    "body_poses": Output("poses", ("q",), ("p_bar", "R_bar"), ("", "nbody")),
    "site_poses": Output("poses", ("q",), ("p_bar", "R_bar"), ("nbody", "nsite")),
    "site_positions": Output("poses", ("q",), ("x_bar",), ("nbody", "nsite")),
}
# those that solve for the contacts of a step: they read activations and controls
OF_A_STEP = tuple(row.name for row in output_table() if "drive" in row.inputs)
# numbers of a pose: a position, then a rotation matrix
PARTS: dict[str, tuple[slice, tuple[int, ...]]] = {
    "p_bar": (slice(0, 3), (3,)),
    "x_bar": (slice(0, 3), (3,)),
    "R_bar": (slice(3, 12), (3, 3)),
}


def check_output(where: str, name: Any) -> None:
    """Refuse what is no output."""
    if not isinstance(name, str) or name not in OUTPUTS:
        raise ParameterError(
            f"{where}: there is no output {name!r}; it must be one of {', '.join(OUTPUTS)}."
        )


def output_shape(model: Model, name: str) -> tuple[int, ...]:
    """Return the shape of an output for one world; the arrays of a pose are one row."""
    output = OUTPUTS[name]
    if output.rows is None:
        return model.structure.output_shape(output.job)
    taken = _rows(model, output.rows)
    return taken.stop - taken.start, sum(math.prod(PARTS[bar][1]) for bar in output.bars)


def evaluate(
    where: str,
    bridge: Bridge,
    name: str,
    inputs: tuple[ArrayLike, ...],
    params: Params | None,
    *,
    finite: bool = False,
) -> tuple[Real, ...]:
    """Return the arrays of one output, from what it reads in the order of the table.

    With `finite`, inputs must be finite, and quaternions must have a length.
    """
    output = OUTPUTS[name]
    _check_count(where, output.inputs, inputs)
    given = dict(zip(output.inputs, inputs, strict=True))
    named, batched = read_rows(where, bridge.layout, given, finite=finite)
    worlds = len(named["q"])
    theta, _ = bridge.read_params(where, params, worlds if batched else None)
    _check_mass(where, bridge, output, params)
    check_law(where, bridge, output.job)
    y = np.empty((worlds, *bridge.model.structure.output_shape(output.job)), bridge.layout.dtype)
    bridge.output(output.job, named, theta, y)
    y = y if batched else y[0]
    if output.rows is None:
        return (y,)
    taken = y[..., _rows(bridge.model, output.rows), :]
    parts = (PARTS[bar] for bar in output.bars)
    return tuple(
        taken[..., columns].reshape(*taken.shape[:-1], *shape).copy() for columns, shape in parts
    )


def evaluate_vjp(
    where: str, bridge: Bridge, name: str, arrays: tuple[Any, ...], params: Params | None
) -> OutputGradient:
    """Return the gradient of a loss on one output, from its inputs and then its cotangents."""
    output = OUTPUTS[name]
    _check_count(where, (*output.inputs, *output.bars), arrays)
    count = len(output.inputs)
    inputs = dict(zip(output.inputs, arrays[:count], strict=True))
    named, batched = read_rows(where, bridge.layout, inputs)
    worlds = len(named["q"])
    theta, given = bridge.read_params(where, params, worlds if batched else None)
    _check_mass(where, bridge, output, params)
    check_law(where, bridge, output.job)
    if output.job in OF_A_STEP:
        refuse_without_gradient(where, named_arrays(where, params))
    cotangents = dict(zip(output.bars, arrays[count:], strict=True))
    require_cotangent(where, cotangents.values(), " or ".join(cotangents))
    y_bar = _read_cotangents(where, bridge, output, cotangents, (worlds, batched))
    bars = {key: np.zeros_like(a) for key, a in named.items()}
    theta_bar = bridge.theta_bar(worlds) if given else None
    bridge.output_vjp(output.job, named, theta, y_bar, bars, theta_bar)
    own = None if theta_bar is None else theta_bar[:, : bridge.theta_size]
    for array in (*bars.values(), own):
        bad = np.zeros(0, bool) if array is None else ~np.isfinite(array).all(axis=1)
        if bad.any():
            raise overflow_error(where, "gradient", np.flatnonzero(bad), LOOK)
    drive = bars.pop("drive", None)
    if drive is not None:
        na = bridge.layout.na
        bars |= {"act": drive[:, :na], "u": drive[:, na:]} if na else {"u": drive}
    shown = {key: a if batched else a[0] for key, a in bars.items()}
    found = {} if theta_bar is None else unpack_theta(theta_bar, bridge.params, given)
    return OutputGradient(params=found, **shown)


def join_drive(where: str, layout: StateLayout, u: Any, act: Any, *, finite: bool = False) -> Any:
    """Return activations and controls side by side, as outputs of a step read them.

    With `finite`, both must be finite.
    """
    if not layout.na:
        if act is not None:
            raise ShapeError(
                f'{where}: act is given, but model "{layout.model}" has no activations; leave it '
                "out."
            )
        if u is None:
            return u
    parts = [
        np.zeros(n, layout.dtype) if x is None else as_real(where, name, x, layout.dtype)
        for name, x, n in (("act", act, layout.na), ("u", u, layout.nu))
    ]
    for name, x, n in zip(("act", "u"), parts, (layout.na, layout.nu), strict=True):
        rows(where, name, x, n, layout.model)
        if finite:
            require_finite(where, name, x)
    if not layout.na:
        return parts[1]
    lead = np.broadcast_shapes(*(x.shape[:-1] for x in parts))
    return np.concatenate([np.broadcast_to(x, (*lead, x.shape[-1])) for x in parts], -1)


def check_law(where: str, bridge: Bridge, job: str) -> None:
    """Refuse forces of contacts under a law that has no gradient of them."""
    if job in OF_A_STEP and bridge.options.contact != "mujoco":
        raise ParameterError(
            f"{where}: forces of contacts as an output, with gradients, are there under "
            'contact="mujoco" only; build the Simulator with it, or take sim.contacts(), which '
            "reports them without a gradient."
        )


def _read_cotangents(
    where: str,
    bridge: Bridge,
    output: Output,
    given: dict[str, Any],
    lead: tuple[int, bool],
) -> Real:
    """Check cotangents of an output; return them as the core lays it out, with a world axis."""
    worlds, batched = lead
    shape = bridge.model.structure.output_shape(output.job)
    y_bar = np.zeros((worlds, *shape), bridge.layout.dtype)
    taken = None if output.rows is None else _rows(bridge.model, output.rows)
    for name, value in given.items():
        # a pose has two cotangents, of which one may be missing
        if value is None and len(given) > 1:
            continue
        view, wanted = y_bar, shape
        if taken is not None:
            columns, last = PARTS[name]
            view = y_bar[:, taken, columns]
            wanted = (view.shape[1], *last)
        bar = as_real(where, name, value, bridge.layout.dtype)
        expected = (worlds, *wanted) if batched else wanted
        if bar.shape != expected:
            raise ShapeError(
                f"{where}: {name} has shape {bar.shape}; expected {expected}, that of the output."
            )
        require_finite(where, name, bar, ZERO)
        view[...] = bar.reshape(view.shape)
    return y_bar


def _check_count(where: str, names: tuple[str, ...], given: tuple[Any, ...]) -> None:
    """Refuse more or fewer arrays than an output takes."""
    if len(given) != len(names):
        raise ShapeError(
            f"{where}: {len(given)} arrays are given; expected {len(names)}: {', '.join(names)}."
        )


def _rows(model: Model, rows: tuple[str, str]) -> slice:
    """Return which poses are taken."""
    first = model.nbody if rows[0] else 0
    return slice(first, first + getattr(model, rows[1]))


def _check_mass(where: str, bridge: Bridge, output: Output, params: Params | None) -> None:
    """Refuse a centre of mass where a world has no mass."""
    if output.job != "center_of_mass":
        return
    base = bridge.params["body_mass"]
    mass = np.asarray(named_arrays(where, params).get("body_mass", base), np.float64)
    if np.any(mass[..., 1:].sum(axis=-1) == 0):
        raise ParameterError(
            f"{where}: no body has a mass, so there is no centre of mass; give one a mass > 0."
        )
