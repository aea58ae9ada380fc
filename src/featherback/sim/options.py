"""Numerical options of a Simulator: names, defaults and allowed values are those of the core."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from featherback._checks import check_integer, shown
from featherback._core import OptionRow, Options, option_table
from featherback.errors import ParameterError
from featherback.model import Model
from featherback.sim.laws import OPTIONS, refuse_model, refuse_other_options

T = TypeVar("T")

DTYPES = ("float64", "float32")
MAX_REAL = float(np.finfo(np.float64).max)
MAX_THREADS = 256
CHOSEN = {row.name: row for row in option_table() if row.kind != "fixed"}
"""The options that a caller may choose, by name."""


def read_options(where: str, model: Model, dtype: str, given: Mapping[str, Any]) -> Options:
    """Check the options of a Simulator and that their law has the model; None is the default.

    Args:
        where: the call, for messages.
        model: the model, whose pairs say how many contacts a world can hold.
        dtype: name of the dtype, on which some defaults depend.
        given: options by name.
    """
    for name in given:
        if name not in CHOSEN:
            near = difflib.get_close_matches(str(name), CHOSEN, n=3)
            hint = f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(CHOSEN)}."
            raise ParameterError(f'{where}: unknown option "{name}"; {hint}')
    law = given.get("contact")
    law = _checked(where, CHOSEN["contact"], "hard" if law is None else law)
    refuse_other_options(where, law, given)
    refuse_model(model, law)
    values: dict[str, Any] = {}
    for row in option_table():
        value = given.get(row.name)
        if value is not None:
            values[row.name] = _checked(where, row, value)
        elif row.name == "max_contacts":
            values[row.name] = model.structure.sizes["max_contacts"]
        elif row.name in model.structure.law and law == "mujoco":
            values[row.name] = _of_the_file(where, row, model.structure.law[row.name])
        else:
            values[row.name] = row.default_float32 if dtype == "float32" else row.default
    if values["smoothing"] > 0:
        if given.get("solver") not in (None, "interior"):
            raise ParameterError(
                f"{where}: smoothing is {values['smoothing']!r} and solver is "
                f'"{values["solver"]}"; only the interior solver has a smooth law, so leave solver '
                'out or pass solver="interior", or pass smoothing=0.'
            )
        values["solver"] = "interior"
    if law == "hard" and values["solver"] == "pgs":
        _refuse_rims(where, model)
    if values["gradient"] == "unrolled" and values["solver"] != "pgs":
        raise ParameterError(
            f'{where}: gradient is "unrolled" and solver is "{values["solver"]}"; only sweeps can '
            'be reversed, so pass solver="pgs" with it, or gradient="auto".'
        )
    return Options(**values)


def _refuse_rims(where: str, model: Model) -> None:
    """Refuse sweeps alone for a model whose contacts rub against turning or rolling."""
    condim = model.parsed.pairs.most_condim
    if condim > 3:
        raise ParameterError(
            f'{where}: solver is "pgs" and the model has contacts of condim {condim}; sweeps alone '
            'have condim 1 and 3, so pass solver="newton" or "interior".'
        )


def _of_the_file(where: str, row: OptionRow, value: Any) -> Any:
    """Return the setting of the file, or refuse one that the law does not have."""
    if row.kind == "choice" and value not in row.choices:
        raise ParameterError(
            f'{where}: the file asks for {row.name} "{value}", which contact="mujoco" does not '
            f"have; pass {row.name}= with one of {', '.join(row.choices)}."
        )
    return max(value, np.finfo(np.float64).tiny) if row.kind == "real" else value


def described(row: OptionRow) -> str:
    """Return what an option is, with its default; those of MuJoCo's law have that of the file."""
    if row.name in OPTIONS["mujoco"]:
        return f"{row.doc}."
    own = row.default_float32 if row.default_float32 != row.default else None
    shown = f"{row.default!r}" + ("" if own is None else f", in float32 {own!r}")
    return f"{row.doc}; default {shown}."


def _shown_default(row: OptionRow) -> Any:
    """Return the default of an option, None for one that depends on the number type or the file."""
    varies = row.default != row.default_float32 or row.name in OPTIONS["mujoco"]
    return None if varies else row.default


def shown_options(cls: type[T]) -> type[T]:
    """Show the options of the table in the signature and the documentation of a class."""
    signature = inspect.signature(cls)
    own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    keyword = inspect.Parameter.KEYWORD_ONLY
    options = [
        inspect.Parameter(name, keyword, default=_shown_default(row))
        for name, row in CHOSEN.items()
    ]
    setattr(cls, "__signature__", signature.replace(parameters=[*own, *options]))  # noqa: B010
    lines = [f"        {name}: {described(row)}" for name, row in CHOSEN.items()]
    if cls.__doc__ is not None:
        cls.__doc__ = "\n".join([cls.__doc__.rstrip(), *lines, "    "])
    return cls


def _checked(where: str, row: OptionRow, value: Any) -> Any:
    """Return the value of an option, or refuse it."""
    if row.kind == "choice":
        check_choice(where, row.name, value, tuple(row.choices))
        return value
    if row.kind == "whole":
        # a switch may be a word of Python's
        if isinstance(value, bool) and row.most == 1:
            return int(value)
        return check_integer(where, row.name, value, minimum=int(row.least), maximum=int(row.most))
    number = check_positive(where, row.name, value, zero=not row.open)
    if 0 < number < row.least:
        raise ParameterError(
            f"{where}: {row.name} is {value!r}; it must be 0 or at least {row.least:g}; pass 0 to "
            "leave it out, or a larger number."
        )
    if number > row.most:
        raise ParameterError(f"{where}: {row.name} is {value!r}; it must be at most {row.most:g}.")
    return number


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


def check_choice(where: str, name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Refuse a word that is none of those allowed."""
    if not isinstance(value, str) or value not in allowed:
        raise ParameterError(
            f"{where}: {name} is {value!r}; it must be one of {', '.join(allowed)}."
        )


def check_positive(where: str, name: str, value: Any, zero: bool = False) -> float:
    """Return a finite number > 0, or >= 0 where `zero` is allowed."""
    number = isinstance(value, (int, float, np.integer, np.floating))
    # a NumPy number would take the bound to its own precision
    plain = value.item() if isinstance(value, np.generic) else value
    if not number or isinstance(value, bool) or not -MAX_REAL <= plain <= MAX_REAL:
        raise ParameterError(f"{where}: {name} is {shown(value)}; it must be a finite number.")
    if value < 0 or (value == 0 and not zero):
        raise ParameterError(f"{where}: {name} is {value!r}; it must be {'>=' if zero else '>'} 0.")
    return float(value)
