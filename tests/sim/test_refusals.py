"""Every refusal of a Simulator: its class, and the names at fault in its sentence."""

from __future__ import annotations

import pytest

import featherback as fb
from tests.sim.refusals import CASES, Case


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_refusal(case: Case) -> None:
    """Refuse with the class and the names of the case, in a sentence."""
    with pytest.raises(case.error) as caught:
        case.call()
    text = str(caught.value)
    print(text)
    assert isinstance(caught.value, fb.FeatherbackError)
    for name in case.names:
        assert name in text
    where = case.name.partition(",")[0].removeprefix("Rollout.")
    if where not in ("output", "output_vjp"):
        assert text.startswith(f"{where}(): ")
    assert text.endswith((".", "?")) and not text.endswith("..")


def test_names_are_different() -> None:
    """Give each case a name of its own."""
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
