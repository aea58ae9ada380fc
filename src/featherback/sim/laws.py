"""Which options and parameters act under which contact law, and what a law does not have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from featherback._core import Options, option_table, parameter_table
from featherback.errors import ModelError, ParameterError
from featherback.model import Model
from featherback.model.report import LAWS, law_message, other_law

# the options and the parameters of one law; all others act under both
OPTIONS = {law: frozenset(o.name for o in option_table() if o.law == law) for law in LAWS}
PARAMETERS = {law: frozenset(p.name for p in parameter_table() if p.law == law) for law in LAWS}


def acting(names: Iterable[str], law: str) -> list[str]:
    """Return those of some parameters that act under a law."""
    return [name for name in names if name not in PARAMETERS[other_law(law)]]


def refuse_other_parameter(where: str, name: str, known: Iterable[str]) -> None:
    """Refuse a parameter that is not among `known` since only the other law has it."""
    for law, names in PARAMETERS.items():
        if name in names and name not in known:
            raise ParameterError(
                f'{where}: "{name}" acts under contact="{law}" only, and this Simulator has '
                f'contact="{other_law(law)}"; leave it out, or make a Simulator with '
                f'contact="{law}".'
            )


def refuse_other_options(where: str, law: str, given: Mapping[str, Any]) -> None:
    """Refuse options that only the other law has."""
    other = other_law(law)
    for name, value in given.items():
        if value is not None and name in OPTIONS[other]:
            raise ParameterError(
                f'{where}: {name} is {value!r} and contact is "{law}"; {name} acts under '
                f'contact="{other}" only, so leave it out, or pass contact="{other}".'
            )


def shown_options(options: Options) -> str:
    """Return the options that act, with their values."""
    other = OPTIONS[other_law(options.contact)]
    names = [row.name for row in option_table() if row.name not in other]
    return ", ".join(f"{name}={getattr(options, name)!r}" for name in names)


def refuse_model(model: Model, law: str) -> None:
    """Refuse a model whose file asks for what a law does not have, unless that was dropped."""
    missing = [feature for feature in model.parsed.refused if feature.law == law]
    if missing:
        raise ModelError(law_message(missing, model.name))
