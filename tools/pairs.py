"""Print which pairs of shapes are checked, and how, from the results of the tests themselves.

python -m tools.pairs

Runs the tests of values and of gradients that go over all pairs and counts, for each pair, those
that passed. A cell holds "value / gradient"; a pair with a failed test, or without one of either
sort, is named and the exit code is 1.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter

import pytest

from featherback._core import pair_table, shape_types

VALUES = [
    "tests/core/test_collision.py",
    "tests/core/test_convex.py",
    "tests/core/test_collision_features.py",
    "tests/core/test_hfield.py",
]
GRADIENTS = [
    "tests/core/test_collision_adjoint.py",
    "tests/core/test_hfield_adjoint.py",
    "tests/property/test_every_kind.py",
    "tests/property/test_convex_derivatives.py",
]


class Results:
    """Counts tests by pair and sort, from what pytest reports.

    Attributes:
        passed: number of tests that passed, by (pair, sort).
        failed: the same of those that did not.
    """

    def __init__(self, pairs: list[str]) -> None:
        """Start from nothing."""
        self._pairs = set(pairs)
        self.passed: Counter[tuple[str, str]] = Counter()
        self.failed: Counter[tuple[str, str]] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count one test where its id names a pair."""
        if report.when != "call" and report.passed:
            return
        file, _, rest = report.nodeid.partition("::")
        words = rest.partition("[")[2].rstrip("]")
        sort = "value" if file in VALUES else "gradient"
        for pair in self._pairs & {*named(words)}:
            (self.passed if report.passed else self.failed)[pair, sort] += 1


def named(words: str) -> list[str]:
    """Return the neighbours among the words of a test's id that may name a pair."""
    parts = words.split("-")
    return [f"{one}-{two}" for one, two in itertools.pairwise(parts)]


def table(pairs: list[str], shapes: list[str], results: Results) -> list[str]:
    """Return the lines of the table, second shapes along the top."""
    lines = ["| |" + "".join(f" {two} |" for two in shapes[1:]), "|---" * len(shapes) + "|"]
    for one in shapes:
        cells = []
        for two in shapes[1:]:
            pair = f"{one}-{two}"
            counts = (results.passed[pair, sort] for sort in ("value", "gradient"))
            cells.append(" / ".join(map(str, counts)) if pair in pairs else "")
        if any(cells):
            lines.append(f"| {one} |" + "".join(f" {cell} |" for cell in cells))
    return lines


def main() -> int:
    """Run the tests and print the table; return 1 if a cell is empty or failed."""
    pairs, shapes = [name for name, *_ in pair_table()], [name for name, _ in shape_types()]
    results = Results(pairs)
    arguments = ["-q", "--no-header", "-p", "no:cacheprovider", *VALUES, *GRADIENTS, *sys.argv[1:]]
    pytest.main(arguments, plugins=[results])
    print("\nTests that passed of each pair, value / gradient:\n")
    print("\n".join(table(pairs, shapes, results)))
    wrong = [
        f"{pair} ({sort}: {results.passed[pair, sort]} passed, {results.failed[pair, sort]} failed)"
        for pair in pairs
        for sort in ("value", "gradient")
        if results.failed[pair, sort] or not results.passed[pair, sort]
    ]
    print("\nPairs that are not checked: " + (", ".join(wrong) or "none") + ".")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
