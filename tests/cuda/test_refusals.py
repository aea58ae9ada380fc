"""What is refused of devices: class and names at fault."""

import pytest

from tests.cuda.refusals import CASES
from tests.golden.sentences import Case, check


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_class_and_names(case: Case) -> None:
    """Raise the exception, and name where and what is at fault."""
    check(case)
