"""The exceptions and the names at fault of what learners refuse."""

from __future__ import annotations

import pytest

from tests.golden.sentences import Case, check
from tests.learn.refusals import CASES


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_class_and_names(case: Case) -> None:
    """Raise the exception, and name where and what is at fault."""
    check(case)
