"""Numerical options of a Simulator, and the checks of what its constructor is given."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from featherback.errors import ParameterError
from featherback.model import Model
from featherback.sim.inputs import is_whole, shown

DTYPES = ("float64", "float32")
FRICTIONS = ("cone", "box")
SOLVERS = ("newton", "pgs")
# in the core's order
GRADIENTS = ("auto", "implicit", "unrolled")
REGULARIZATION = {"float64": 1e-6, "float32": 1e-4}
TOLERANCE = {"float64": 1e-10, "float32": 1e-4}
MAX_REAL = float(np.finfo(np.float64).max)
MAX_SWEEPS, MAX_CONTACTS, MAX_THREADS = 1_000_000, 10_000, 256


@dataclass(frozen=True)
class Options:
    """Numerical options of a Simulator; `sim.options` prints them with their values.

    Attributes:
        margin: contact and limit rows are built below this gap [m or rad].
        v_recover: largest speed of recovery from penetration [m/s].
        v_rest: approach speed below which restitution is zero [m/s].
        tolerance: residual of the contact solve, relative to the largest row velocity.
        max_sweeps: cap on Gauss-Seidel sweeps in one step.
        max_contacts: contacts one world can hold.
        friction: "cone" (true cone) or "box" (each tangent by itself).
        solver: "newton" (sweeps, then Newton steps on the active set) or "pgs" (sweeps only).
        gradient: "auto" (implicit where the solve finished, unrolled elsewhere), "implicit" (the
            solution is differentiated) or "unrolled" (the sweeps are).
        regularization: default compliance, as a share of the bodies' inverse weights.
    """

    margin: float
    v_recover: float
    v_rest: float
    tolerance: float
    max_sweeps: int
    max_contacts: int
    friction: str
    solver: str
    gradient: str
    regularization: float

    def core(self) -> dict[str, float | int]:
        """Return the options in the core's terms."""
        values: dict[str, float | int] = {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.name not in ("friction", "solver", "gradient", "max_contacts")
        }
        values["box_friction"] = int(self.friction == "box")
        values["newton"] = int(self.solver == "newton")
        values["gradient"] = GRADIENTS.index(self.gradient)
        return values

    def capacities(self) -> dict[str, int]:
        """Return the sizes of an engine that are options."""
        return {"max_contacts": self.max_contacts, "max_sweeps": self.max_sweeps}


def read_options(where: str, model: Model, dtype: str, given: dict[str, Any]) -> Options:
    """Check the options of a Simulator; None stands for the default.

    Args:
        where: the call, for messages.
        model: the model.
        dtype: name of the number type.
        given: options by name.
    """
    check_choice(where, "friction", given["friction"], FRICTIONS)
    check_choice(where, "solver", given["solver"], SOLVERS)
    _check_gradient(where, given["gradient"], given["solver"])
    tolerance, contacts = given["tolerance"], given["max_contacts"]
    return Options(
        margin=check_positive(where, "margin", given["margin"], zero=True),
        v_recover=check_positive(where, "v_recover", given["v_recover"]),
        v_rest=check_positive(where, "v_rest", given["v_rest"], zero=True),
        tolerance=check_positive(
            where, "tolerance", TOLERANCE[dtype] if tolerance is None else tolerance
        ),
        max_sweeps=check_integer(where, "max_sweeps", given["max_sweeps"], 1, MAX_SWEEPS),
        max_contacts=check_integer(
            where,
            "max_contacts",
            model.structure.sizes["max_contacts"] if contacts is None else contacts,
            0,
            MAX_CONTACTS,
        ),
        friction=given["friction"],
        solver=given["solver"],
        gradient=given["gradient"],
        regularization=REGULARIZATION[dtype],
    )


def read_dtype(where: str, value: Any) -> np.dtype[Any]:
    """Return float64 or float32 from its name, or from a dtype of NumPy, torch or JAX."""
    name = value
    if type(value).__module__ == "torch":
        name = str(value).removeprefix("torch.")
    elif not isinstance(value, str):
        try:
            name = np.dtype(value).name
        except TypeError:
            name = None
    if value is None or name not in DTYPES:
        raise ParameterError(
            f"{where}: dtype is {shown(value)}; it must be one of {', '.join(DTYPES)}."
        )
    return np.dtype(name)


def check_model(where: str, model: Any) -> None:
    """Refuse what is not a Model."""
    if not isinstance(model, Model):
        raise ParameterError(
            f"{where}: model is of type {type(model).__name__}; pass what featherback.load or "
            'featherback.models returns, such as featherback.load("robot.xml").'
        )


def _check_gradient(where: str, gradient: str, solver: str) -> None:
    """Refuse a mode of differentiation that does not go with the solver."""
    check_choice(where, "gradient", gradient, GRADIENTS)
    if gradient == "unrolled" and solver != "pgs":
        raise ParameterError(
            f'{where}: gradient is "unrolled" and solver is "{solver}"; only sweeps can be '
            'reversed, so pass solver="pgs" with it, or gradient="auto".'
        )


def check_choice(where: str, name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Refuse a word that is none of those allowed."""
    if value not in allowed:
        raise ParameterError(
            f"{where}: {name} is {value!r}; it must be one of {', '.join(allowed)}."
        )


def check_positive(where: str, name: str, value: Any, zero: bool = False) -> float:
    """Return a finite number > 0, or >= 0 where `zero` is allowed."""
    number = isinstance(value, (int, float, np.integer, np.floating))
    if not number or isinstance(value, bool) or not -MAX_REAL <= value <= MAX_REAL:
        raise ParameterError(f"{where}: {name} is {shown(value)}; it must be a finite number.")
    if value < 0 or (value == 0 and not zero):
        raise ParameterError(f"{where}: {name} is {value!r}; it must be {'>=' if zero else '>'} 0.")
    return float(value)


def check_integer(where: str, name: str, value: Any, minimum: int, maximum: int) -> int:
    """Return an integer within bounds."""
    if not is_whole(value) or not minimum <= value <= maximum:
        raise ParameterError(
            f"{where}: {name} is {shown(value)}; it must be a whole number from {minimum} to "
            f"{maximum}."
        )
    return int(value)
