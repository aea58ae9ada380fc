"""Tests of tools/check/adjoints.py."""

from pathlib import Path

import pytest

from tools.check import adjoints

HEADER = """\
template <class T>
T foo(T x) { return twice(x); }
template <class T>
T foo(T x, T y) { return x * y; }
// only the adjoint needs this one
template <class T>
T part(T x) { return x; }
template <class T>
void lines_adjoint(T x) { part(x); }
template <class T>
void foo_adjoint(T x, T& x_bar) { lines_adjoint(x); }
"""
LATE = """\
inline int bar(int x) { return x; }
inline int other(int x) { return bar(x); }
inline void bar_adjoint(int x) { twice_adjoint(x); }
inline void twice_adjoint(int x) {}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a project with two headers and no exceptions."""
    for name, text in {
        "core/model/foo.hpp": HEADER,
        "engine/jobs/late.hpp": LATE,
        "core/number/twice.hpp": "inline int twice(int x) { return x + x; }\n",
        "docs/exceptions.md": "## Adjoints\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_names_adjoints_away_from_their_forward(root: Path) -> None:
    """Accept overloads and parts between; refuse a forward between, or in another file."""
    late = "engine/jobs/late.hpp"
    assert adjoints.check_tree(root) == [
        f"{late}::bar_adjoint(): its forward begins 2 lines earlier, and other() stands between, "
        "which is no part of an adjoint; put it next to its forward, or add "
        f"`{late}::bar_adjoint` to docs/exceptions.md.",
        f"{late}::twice_adjoint(): its forward is in core/number/twice.hpp; put it next to its "
        f"forward, or add `{late}::twice_adjoint` to docs/exceptions.md.",
    ]


def test_reads_exceptions(root: Path) -> None:
    """Accept what the list names, and refuse a line that nothing needs."""
    keys = ["engine/jobs/late.hpp::bar_adjoint", "engine/jobs/late.hpp::twice_adjoint"]
    lines = [f"- `{key}`: reason" for key in [*keys, "core/model/foo.hpp::foo_adjoint"]]
    (root / "docs" / "exceptions.md").write_text("\n".join(["## Adjoints", *lines]))
    assert adjoints.check_tree(root) == [
        "docs/exceptions.md: `core/model/foo.hpp::foo_adjoint` needs no exception; remove it."
    ]
