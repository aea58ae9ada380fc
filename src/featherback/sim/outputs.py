"""What a model tells besides its motion: poses and dynamics, and the gradients of these.

All outputs stand in one table, `OUTPUTS`, made from the core's; `evaluate` and `evaluate_vjp` read
it. An output that is added to the core is one of it by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from featherback._core import OutputRow, output_table
from featherback._typing import Params, Real
from featherback.errors import ParameterError, ShapeError
from featherback.model import Model
from featherback.sim.bridge import Bridge
from featherback.sim.cotangents import require_cotangent
from featherback.sim.inputs import as_real, named_arrays, require_finite, unpack_theta
from featherback.sim.state import read_rows
from featherback.sim.status import overflow_error

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
    """

    q: Real
    params: dict[str, Real]
    v: Real | None = None
    a: Real | None = None
    tau: Real | None = None


@dataclass(frozen=True)
class Output:
    """One output of a state, as callers see it.

    Attributes:
        row: what the core computes; it names the inputs and the shape.
        bars: names of the cotangents, one for each array that is returned.
        taken: whose poses are returned, "body" or "site"; None where all of the row is.
    """

    row: OutputRow
    bars: tuple[str, ...]
    taken: str | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of what it reads, q first."""
        return tuple(self.row.inputs)


# cotangents are named after what they are of
BARS = {
    "mass_matrix": "M_bar",
    "bias": "c_bar",
    "forward_dynamics": "a_bar",
    "inverse_dynamics": "tau_bar",
    "center_of_mass": "x_bar",
}
_ROWS = {row.name: row for row in output_table()}
_POSES = _ROWS.pop("poses")
OUTPUTS = {
    **{name: Output(row, (BARS.get(name, "y_bar"),)) for name, row in _ROWS.items()},
    "body_poses": Output(_POSES, ("p_bar", "R_bar"), "body"),
    "site_poses": Output(_POSES, ("p_bar", "R_bar"), "site"),
    "site_positions": Output(_POSES, ("x_bar",), "site"),
}
# numbers of a pose: a position, then a rotation matrix
PARTS: dict[str, tuple[slice, tuple[int, ...]]] = {
    "p_bar": (slice(0, 3), (3,)),
    "x_bar": (slice(0, 3), (3,)),
    "R_bar": (slice(3, 12), (3, 3)),
}


def find_output(where: str, name: Any) -> Output:
    """Return a row of the table; refuse what is none."""
    if name not in OUTPUTS:
        raise ParameterError(
            f"{where}: there is no output {name!r}; it must be one of {', '.join(OUTPUTS)}."
        )
    return OUTPUTS[name]


def evaluate(
    where: str, bridge: Bridge, name: str, inputs: tuple[ArrayLike, ...], params: Params | None
) -> tuple[Real, ...]:
    """Return the arrays of one output.

    Args:
        where: the call, for messages.
        bridge: of the simulator.
        name: of the output.
        inputs: what it reads, in the order of the table.
        params: parameters that the caller gave.
    """
    output = find_output(where, name)
    _check_count(where, output.inputs, inputs)
    named, batched = read_rows(where, bridge.layout, dict(zip(output.inputs, inputs, strict=True)))
    worlds = len(named["q"])
    theta, _ = bridge.read_params(where, params, worlds if batched else None)
    _check_mass(where, bridge, output, params)
    y = np.empty((worlds, *bridge.output_shape(output.row)), bridge.layout.dtype)
    bridge.output(output.row.name, named, theta, y)
    y = y if batched else y[0]
    if output.taken is None:
        return (y,)
    taken = y[..., _rows(bridge.model, output.taken), :]
    parts = (PARTS[bar] for bar in output.bars)
    return tuple(
        taken[..., columns].reshape(*taken.shape[:-1], *shape).copy() for columns, shape in parts
    )


def evaluate_vjp(
    where: str, bridge: Bridge, name: str, arrays: tuple[Any, ...], params: Params | None
) -> OutputGradient:
    """Return the gradient of a loss on one output.

    Args:
        where: the call, for messages.
        bridge: of the simulator.
        name: of the output.
        arrays: what it reads, then a cotangent for each array of it, in the order of the table.
        params: parameters that the caller gave.
    """
    output = find_output(where, name)
    _check_count(where, (*output.inputs, *output.bars), arrays)
    count = len(output.inputs)
    inputs = dict(zip(output.inputs, arrays[:count], strict=True))
    named, batched = read_rows(where, bridge.layout, inputs)
    worlds = len(named["q"])
    theta, given = bridge.read_params(where, params, worlds if batched else None)
    _check_mass(where, bridge, output, params)
    cotangents = dict(zip(output.bars, arrays[count:], strict=True))
    require_cotangent(where, cotangents.values(), " or ".join(cotangents))
    y_bar = _read_cotangents(where, bridge, output, cotangents, (worlds, batched))
    bars = {key: np.zeros_like(a) for key, a in named.items()}
    theta_bar = bridge.theta_bar(worlds) if given else None
    bridge.output_vjp(output.row.name, named, theta, y_bar, bars, theta_bar)
    own = None if theta_bar is None else theta_bar[:, : bridge.theta_size]
    for array in (*bars.values(), own):
        bad = np.zeros(0, bool) if array is None else ~np.isfinite(array).all(axis=1)
        if bad.any():
            raise overflow_error(where, "gradient", np.flatnonzero(bad), LOOK)
    shown = {key: a if batched else a[0] for key, a in bars.items()}
    found = {} if theta_bar is None else unpack_theta(theta_bar, bridge.params, given)
    return OutputGradient(params=found, **shown)


def _read_cotangents(
    where: str,
    bridge: Bridge,
    output: Output,
    given: dict[str, Any],
    lead: tuple[int, bool],
) -> Real:
    """Check cotangents of an output; return them as the core lays it out, with a world axis."""
    worlds, batched = lead
    shape = bridge.output_shape(output.row)
    y_bar = np.zeros((worlds, *shape), bridge.layout.dtype)
    rows = None if output.taken is None else _rows(bridge.model, output.taken)
    for name, value in given.items():
        # a pose has two cotangents, of which one may be missing
        if value is None and len(given) > 1:
            continue
        view, wanted = y_bar, shape
        if rows is not None:
            columns, last = PARTS[name]
            view = y_bar[:, rows, columns]
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


def _rows(model: Model, taken: str) -> slice:
    """Return which poses are taken: bodies come first, then sites."""
    return slice(0, model.nbody) if taken == "body" else slice(model.nbody, None)


def _check_mass(where: str, bridge: Bridge, output: Output, params: Params | None) -> None:
    """Refuse a centre of mass where a world has no mass."""
    if output.row.name != "center_of_mass":
        return
    base = bridge.params["body_mass"]
    mass = np.asarray(named_arrays(where, params).get("body_mass", base), np.float64)
    if np.any(mass[..., 1:].sum(axis=-1) == 0):
        raise ParameterError(
            f"{where}: no body has a mass, so there is no centre of mass; give one a mass > 0."
        )
