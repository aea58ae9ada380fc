"""Finds experiments by name in `featherback.experiments.named`."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from dataclasses import dataclass
from typing import Protocol, cast

from featherback.errors import ParameterError
from featherback.experiments import named
from featherback.experiments.context import Context
from featherback.experiments.result import Result


class Experiment(Protocol):
    """What a module of an experiment offers."""

    SUMMARY: str

    def run(self, context: Context) -> Result:
        """Run it, keep its traces in the context, and return the result."""
        ...


@dataclass(frozen=True)
class Named:
    """An experiment and its name."""

    name: str
    module: Experiment


def names() -> list[str]:
    """Return the names of all experiments, sorted; none of them is imported."""
    found = (info.name for info in pkgutil.iter_modules(named.__path__))
    return sorted(name.replace("_", "-") for name in found if not name.startswith("_"))


def find(name: str) -> Named:
    """Import an experiment."""
    known = names()
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f'did you mean "{near[0]}"?' if near else f"there are: {', '.join(known)}."
        raise ParameterError(f'run: there is no experiment "{name}"; {hint}')
    module = importlib.import_module(f"{named.__name__}.{name.replace('-', '_')}")
    return Named(name, cast(Experiment, module))
