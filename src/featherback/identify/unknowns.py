"""What is identified: unknowns that stand for entries of parameters."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from featherback._core import parameter_table
from featherback._typing import Array
from featherback.errors import ParameterError
from featherback.model import Model
from featherback.sim import Simulator
from featherback.sim.bridge import refuse_unknown

Which = str | int | Sequence[str | int] | None

# least value of each parameter that has a meaning
LEAST = {p.name: p.least for p in parameter_table()}


class Unknowns(Protocol):
    """One or several unknowns that are identified together."""

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for each unknown."""
        ...

    @property
    def start(self) -> Array:
        """float64[n], initial values."""
        ...

    @property
    def lower(self) -> Array:
        """float64[n], lower bounds."""
        ...

    @property
    def upper(self) -> Array:
        """float64[n], upper bounds."""
        ...

    @property
    def size(self) -> Array:
        """float64[n], typical scale of each unknown; all > 0."""
        ...

    def put(self, x: Array, params: dict[str, Array]) -> None:
        """Write the parameters that x stands for into `params`, arrays of the caller's own."""
        ...

    def tangents(self, x: Array) -> list[dict[str, Array]]:
        """Return the derivative of the parameters with respect to each unknown, by name."""
        ...


@dataclass(frozen=True, eq=False)
class Unknown:
    """One number x; every entry it stands for is slope times x.

    Attributes:
        label: its name in reports.
        slopes: by parameter, in the parameter's shape; zero for entries it does not change.
        initial: initial value.
        minimum: lower bound.
        maximum: upper bound.
        scale: typical scale.
    """

    label: str
    slopes: Mapping[str, Array]
    initial: float
    minimum: float
    maximum: float
    scale: float

    @property
    def labels(self) -> tuple[str, ...]:
        """Its one name."""
        return (self.label,)

    @property
    def start(self) -> Array:
        """Initial value."""
        return np.array([self.initial])

    @property
    def lower(self) -> Array:
        """Lower bound."""
        return np.array([self.minimum])

    @property
    def upper(self) -> Array:
        """Upper bound."""
        return np.array([self.maximum])

    @property
    def size(self) -> Array:
        """Typical scale."""
        return np.array([self.scale])

    def put(self, x: Array, params: dict[str, Array]) -> None:
        """Write slope times x into the entries."""
        for name, slope in self.slopes.items():
            params[name][slope != 0.0] = (slope * x[0])[slope != 0.0]

    def tangents(self, x: Array) -> list[dict[str, Array]]:
        """Return the slopes."""
        return [dict(self.slopes)]


def unknown(
    sim: Simulator,
    name: str,
    which: Which = None,
    *,
    column: int | None = None,
    start: float | None = None,
    bounds: tuple[float, float] | None = None,
) -> Unknown:
    """Return one unknown number: an entry of a parameter, or several that share a value.

    Args:
        sim: the simulator; its value is the start where none is given.
        name: of the parameter, such as "dof_damping".
        which: names or numbers of the bodies, joints, geoms or actuators; all of them when None.
        column: for a parameter with several numbers for each, such as "geom_friction".
        start: initial value; the simulator's mean value, clipped to the bounds, if None.
        bounds: minimum and maximum; None for 0 to infinity where a negative value has no meaning,
            else no bounds.

    Raises:
        ParameterError: for an unknown parameter or name, a missing column, bad bounds, or a start
            outside them.
    """
    where = "unknown()"
    slope = np.zeros(_shape(where, sim, name))
    chosen = rows_of(where, sim.model, name, which)
    if slope.ndim == 1:
        if column is not None:
            raise ParameterError(
                f'{where}: column is {column}, and "{name}" has one number for each; omit it.'
            )
        slope[chosen] = 1.0
    else:
        if column is None or not 0 <= column < slope.shape[1]:
            raise ParameterError(
                f'{where}: column is {column}; "{name}" has the columns 0 to {slope.shape[1] - 1}: '
                "name one."
            )
        slope[chosen, column] = 1.0
    label = name + _label(which) + ("" if column is None else f"[{column}]")
    mean = float(np.mean(sim.params[name][slope != 0.0]))
    return _bounded(where, label, {name: slope}, start, mean, bounds)


def scale_factor(
    sim: Simulator,
    names: Sequence[str],
    which: Which = None,
    *,
    label: str | None = None,
    start: float | None = None,
    bounds: tuple[float, float] = (1e-3, 1e3),
) -> Unknown:
    """Return one unknown factor that multiplies the simulator's values.

    With the names "body_mass" and "body_inertia" it is the density of a body: all its values stay
    those of a body that could exist.

    Args:
        sim: the simulator whose values are multiplied.
        names: of the parameters.
        which: names or numbers of the bodies, joints, geoms or actuators; all of them when None.
        label: its name in reports; made from the others when None.
        start: initial value; 1, clipped to the bounds, when None.
        bounds: minimum and maximum of the factor.

    Raises:
        ParameterError: for an unknown parameter or name, bad bounds, a start outside them, or
            values that are all zero.
    """
    where = "scale_factor()"
    slopes: dict[str, Array] = {}
    for name in names:
        values = np.zeros(_shape(where, sim, name))
        chosen = rows_of(where, sim.model, name, which)
        values[chosen] = sim.params[name][chosen]
        slopes[name] = values
    if not slopes or not any(np.any(slope) for slope in slopes.values()):
        raise ParameterError(
            f"{where}: the values of {', '.join(names) or 'no parameter'} are zero, so a factor "
            "has no effect; name others."
        )
    shown = label or f"factor of {' and '.join(names)}{_label(which)}"
    return _bounded(where, shown, slopes, start, 1.0, bounds)


def _bounded(
    where: str,
    label: str,
    slopes: Mapping[str, Array],
    start: float | None,
    default: float,
    bounds: tuple[float, float] | None,
) -> Unknown:
    """Return an unknown whose bounds and initial value are checked."""
    floor = max(LEAST[name] for name in slopes)
    low, high = (floor, np.inf) if bounds is None else (float(bounds[0]), float(bounds[1]))
    if not low < high:
        raise ParameterError(
            f"{where}: {label} has the bounds {low:g} to {high:g}; the lower must be below the "
            "upper."
        )
    if low < floor:
        raise ParameterError(
            f"{where}: {label} has the lower bound {low:g}, and a value below 0 has no meaning; "
            "raise it to 0."
        )
    value = float(np.clip(default, low, high)) if start is None else float(start)
    if not np.isfinite(value) or not low <= value <= high:
        raise ParameterError(
            f"{where}: {label} starts at {value:g}, outside its bounds {low:g} to {high:g}; move "
            "it inside or widen the bounds."
        )
    width = high - low
    scale = abs(default) or abs(value) or (width if np.isfinite(width) else 1.0)
    return Unknown(label, slopes, value, low, high, scale)


def _shape(where: str, sim: Simulator, name: str) -> tuple[int, ...]:
    """Return the shape of a parameter; raise ParameterError if there is none of that name."""
    refuse_unknown(where, str(name), list(sim.params))
    return sim.params[name].shape


def rows_of(where: str, model: Model, name: str, which: Which) -> list[int]:
    """Return the rows of a parameter that `which` names."""
    count = len(model.params[name])
    if which is None:
        return list(range(count))
    asked = [which] if isinstance(which, (str, int)) else list(which)
    rows: list[int] = []
    for one in asked:
        if isinstance(one, str):
            rows += _named_rows(where, model, name, one)
        elif 0 <= one < count:
            rows.append(int(one))
        else:
            raise ParameterError(
                f'{where}: "{name}" has no row {one}; it has {count}, numbered from 0.'
            )
    return rows


def _named_rows(where: str, model: Model, name: str, one: str) -> list[int]:
    """Return the rows of a parameter that belong to a body, joint, geom or actuator."""
    kind = name.partition("_")[0]
    names = {
        "body": model.body_names,
        "jnt": model.joint_names,
        "dof": model.joint_names,
        "geom": model.geom_names,
        "actuator": model.actuator_names,
    }.get(kind)
    if names is None:
        raise ParameterError(f'{where}: the rows of "{name}" have no names; give their numbers.')
    if not one or one not in names:
        near = difflib.get_close_matches(one, [n for n in names if n], 3, 0.0)
        hint = f"; did you mean {', '.join(near)}?" if near else "; give a number."
        raise ParameterError(f'{where}: "{name}" has no row "{one}"{hint}')
    number = names.index(one)
    if kind != "dof":
        return [number]
    tables = model.mujoco
    return [i for i in range(model.nv) if int(tables.dof_jntid[i]) == number]


def _label(which: Which) -> str:
    """Return how a choice of rows is written in a label."""
    if which is None:
        return ""
    asked = [which] if isinstance(which, (str, int)) else list(which)
    return f"[{', '.join(map(str, asked))}]"
