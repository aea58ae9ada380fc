"""Every refusal of a Simulator: its class, and the names at fault in its sentence."""

from __future__ import annotations

import numpy as np
import pytest

import featherback as fb
from tests.golden.sentences import Case, check, refused
from tests.sim.refusal import V, sim
from tests.sim.refusals import CASES


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_class_and_names(case: Case) -> None:
    """Refuse with the class and the names of the case; the sentence starts with the call."""
    text = check(case)
    assert case.error is not None and issubclass(case.error, fb.FeatherbackError)
    where = case.name.partition(",")[0].removeprefix("Rollout.")
    if where not in ("output", "output_vjp"):
        assert text.startswith(f"{where}(): ")


def test_ragged_lists_are_refused_with_the_reason() -> None:
    """Refuse a list that is no array, with NumPy's own reason and one full stop."""
    text = refused(lambda: sim().step([[1.0, 2.0], [3.0]], V), fb.ShapeError, "step()", "q")
    with pytest.raises(ValueError) as reason:
        np.asarray([[1.0, 2.0], [3.0]])
    assert str(reason.value).rstrip(".") in text
    assert text.endswith(".") and not text.endswith("..")
