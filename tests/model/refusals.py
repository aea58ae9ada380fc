"""Models that raise, what loading them without reports, and the repairs of sloppy files."""

from __future__ import annotations

from functools import partial

import featherback as fb
from featherback.errors import ModelError
from featherback.model import pairs
from featherback.model.load import parse
from tests.golden.sentences import Case, raises, returns
from tests.model import file_cases, urdf_cases, value_cases
from tests.model.helpers import mjcf, notes, read
from tests.model.unsupported import UNSUPPORTED, Unsupported


def _refused(case: Unsupported) -> Case:
    """Return the case of a model that is not supported."""
    anchor = f"docs/support.md#{case.anchor}"
    names = (case.where, case.fault, anchor)
    call = partial(parse, case.text) if case.law is None else partial(_simulator, case)
    return raises(f"unsupported: {case.name}", ModelError, call, *names)


def _simulator(case: Unsupported) -> None:
    """Load a model, which one contact law does not have, and ask for that law."""
    model = fb.load(case.text)
    fb.Simulator(model, contact="mujoco" if case.law == "hard" else "hard")
    fb.Simulator(model, contact=case.law)  # pyright: ignore[reportArgumentType]


def _dropped(case: Unsupported) -> Case:
    """Return the case of the notice that it leaves."""

    def call() -> list[str]:
        return notes(read(case.text, on_unsupported="drop"), case.kind)

    return returns(f"{case.kind}: {case.name}", call, case.where)


def _many_geoms() -> None:
    """Load two geoms where one is the most."""
    most, pairs.MOST_GEOMS = pairs.MOST_GEOMS, 1
    try:
        fb.load(mjcf('<geom size="1"/>'))
    finally:
        pairs.MOST_GEOMS = most


CASES = [
    raises("too many geoms", ModelError, _many_geoms, "2 geoms"),
    *value_cases.CASES,
    *file_cases.CASES,
    *urdf_cases.CASES,
    *map(_refused, UNSUPPORTED),
    *map(_dropped, UNSUPPORTED),
]
