"""Which numbers are optimized, and how they become the controls of a rollout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from featherback._checks import check_integer, is_integer
from featherback._typing import Array
from featherback.errors import ParameterError, ShapeError
from featherback.model import Model


def real_numbers(where: str, name: str, value: ArrayLike) -> Array:
    """Return `value` as float64."""
    try:
        return np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise ParameterError(f"{where}: {name} is not an array of numbers; give one.") from None


def real_array(where: str, name: str, value: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Return `value` as float64 without NaN, broadcast to `shape`."""
    array = real_numbers(where, name, value)
    try:
        full = np.broadcast_to(array, shape)
    except ValueError:
        raise ShapeError(
            f"{where}: {name} has shape {array.shape}; expected {shape}, or a shape that "
            "broadcasts to it."
        ) from None
    if np.isnan(full).any():
        raise ParameterError(f"{where}: {name} holds a NaN; give numbers.")
    return np.array(full)


@dataclass(frozen=True, eq=False)
class Controls:
    """Controls u = base + unit x, where x acts on some actuators and holds for some steps.

    Attributes:
        base: float64[steps, nu], controls where x is zero, such as gravity compensation.
        free: int[nfree], the actuators that x acts on; the others follow `base`.
        hold: number of steps for which one row of x holds.
        active: number of steps, from the first, on which x acts; `base` alone afterwards.
        unit: float64[nfree], what one unit of x means for each actuator.
        lower: float64[knots, nfree], lower bounds of x.
        upper: float64[knots, nfree], upper bounds of x.
    """

    base: Array
    free: NDArray[np.intp]
    hold: int
    active: int
    unit: Array
    lower: Array
    upper: Array

    @property
    def knots(self) -> int:
        """Number of rows of x."""
        return -(-self.active // self.hold)

    @property
    def size(self) -> int:
        """Number of unknowns."""
        return self.knots * len(self.free)

    @property
    def shape(self) -> tuple[int, int]:
        """(knots, nfree), the shape of x."""
        return self.knots, len(self.free)

    def expand(self, x: Array) -> Array:
        """Return the controls that x stands for.

        Args:
            x: float64[size] for one world, such as `Outcome.x`; for a batch float64[worlds, size]
                or [worlds, knots, nfree].

        Returns:
            u float64[steps, nu], or [worlds, steps, nu] for a batch.

        Raises:
            ShapeError: if x has another shape.
        """
        given = np.asarray(x)
        flat = given.ndim in (1, 2) and given.shape[-1] == self.size
        if not flat and not (given.ndim == 3 and given.shape[1:] == self.shape):
            knots, nfree = self.shape
            raise ShapeError(
                f"Controls.expand(): x has shape {given.shape}; expected ({self.size},), (worlds, "
                f"{self.size}) or (worlds, {knots}, {nfree})."
            )
        rows = given.reshape(-1, *self.shape)
        u = np.repeat(self.base[None], len(rows), axis=0)
        held = np.repeat(rows * self.unit, self.hold, axis=1)[:, : self.active]
        u[:, : self.active, self.free] += held
        return u[0] if given.ndim == 1 else u

    def gather(self, u_bar: Array) -> Array:
        """Return the cotangent of x, float64[worlds, knots, nfree], for that of u."""
        part = u_bar[:, : self.active, self.free]
        starts = np.arange(0, self.active, self.hold)
        return np.add.reduceat(part, starts, axis=1) * self.unit


def make_controls(
    model: Model,
    base: ArrayLike,
    *,
    free: Sequence[int] | None = None,
    hold: int = 1,
    active: int | None = None,
    unit: ArrayLike = 1.0,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
) -> Controls:
    """Describe the unknowns of a trajectory optimization.

    Args:
        model: the model whose actuators are driven.
        base: real[steps, nu], controls where the unknowns are zero.
        free: actuators that the unknowns act on; all when None.
        hold: steps for which one row of unknowns holds.
        active: steps on which the unknowns act, from the first; all when None.
        unit: what one unit of an unknown means, for all free actuators or real[nfree], such as
            their force limits; above 0.
        lower: lower bounds of u, real[nu] or [steps, nu]; the model's control range when None.
        upper: upper bounds of u; the model's control range when None.

    Returns:
        The unknowns with their bounds, in terms of offsets from `base`.

    Raises:
        ShapeError: where an array does not fit the model.
        ParameterError: where bounds cross, hold a NaN, or exclude `base`.
    """
    where = "make_controls()"
    array = _base(where, model, base)
    steps = len(array)
    which = _actuators(where, model, free)
    acting = steps if active is None else active
    for name, value in (("hold", hold), ("active", acting)):
        check_integer(where, name, value, maximum=steps)
    units = _units(where, unit, len(which))
    ends = control_range(model)
    low = real_array(where, "lower", ends[0] if lower is None else lower, array.shape)
    high = real_array(where, "upper", ends[1] if upper is None else upper, array.shape)
    check_bounds(where, low, high)
    _check_base_within(where, array, low, high, which)
    # one row of x must keep all its steps within the bounds
    starts = np.arange(0, acting, hold)
    below, above = (low - array)[:acting][:, which], (high - array)[:acting][:, which]
    return Controls(
        base=array,
        free=which,
        hold=hold,
        active=acting,
        unit=units,
        lower=np.maximum.reduceat(below, starts, axis=0) / units,
        upper=np.minimum.reduceat(above, starts, axis=0) / units,
    )


def _base(where: str, model: Model, base: ArrayLike) -> Array:
    """Return the controls that the unknowns are added to, float64[steps, nu]."""
    array = real_numbers(where, "base", base)
    if array.ndim != 2 or array.shape[1] != model.nu or not len(array):
        raise ShapeError(
            f"{where}: base has shape {array.shape}; expected (steps, {model.nu}) "
            f'for model "{model.name}".'
        )
    return real_array(where, "base", array, array.shape)


def _actuators(where: str, model: Model, free: Sequence[int] | None) -> NDArray[np.intp]:
    """Return the numbers of the actuators that the unknowns act on."""
    asked = list(range(model.nu)) if free is None else list(free)
    if not asked or not all(is_integer(i) and 0 <= i < model.nu for i in asked):
        raise ParameterError(
            f"{where}: free is {free!r}; it must name at least one actuator from 0 to "
            f"{model.nu - 1}."
        )
    return np.array(asked, np.intp)


def _units(where: str, unit: ArrayLike, count: int) -> Array:
    """Return what one unit of each unknown means, float64[nfree]."""
    units = real_array(where, "unit", unit, (count,))
    if not np.all(np.isfinite(units) & (units > 0.0)):
        raise ParameterError(
            f"{where}: unit holds {units.min():g}; it must hold finite numbers above 0."
        )
    return units


def control_range(model: Model) -> tuple[Array, Array]:
    """Return the model's control limits, infinite where it has none."""
    limited = np.array(model.mujoco.actuator_ctrllimited, bool)
    ends = np.array(model.mujoco.actuator_ctrlrange, np.float64).reshape(-1, 2)
    return np.where(limited, ends[:, 0], -np.inf), np.where(limited, ends[:, 1], np.inf)


def check_bounds(where: str, lower: Array, upper: Array) -> None:
    """Raise ParameterError where a lower bound lies above the upper one."""
    if np.any(lower > upper):
        at = tuple(int(i) for i in np.argwhere(lower > upper)[0])
        raise ParameterError(
            f"{where}: the bounds cross at {list(at)}: lower is {lower[at]:g} and upper "
            f"{upper[at]:g}; lower must not exceed upper."
        )


def _check_base_within(
    where: str, base: Array, lower: Array, upper: Array, free: NDArray[np.intp]
) -> None:
    """Raise ParameterError where a base that is optimized lies outside the bounds."""
    outside = ((base < lower) | (base > upper))[:, free]
    if np.any(outside):
        step, column = (int(i) for i in np.argwhere(outside)[0])
        which = int(free[column])
        raise ParameterError(
            f"{where}: base[{step}, {which}] is {base[step, which]:g}, outside its bounds "
            f"{lower[step, which]:g} to {upper[step, which]:g}; move it inside or widen the bounds."
        )
