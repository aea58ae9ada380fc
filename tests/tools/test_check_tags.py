"""Tests of tools/check_tags.py."""

from pathlib import Path

import check_tags
import pytest


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Return empty folders for headers and pages."""
    core, pages = tmp_path / "core", tmp_path / "pages"
    core.mkdir()
    pages.mkdir()
    return core, pages


def test_accepts_partners(folders: tuple[Path, Path]) -> None:
    """Accept tags with partners, in both notations, and a family that shares a page."""
    core, pages = folders
    (core / "dynamics.hpp").write_text("// (D.1)  f = I a\nint x = f(D.5);\n")
    (core / "dynamics_chain.hpp").write_text("// (D.2a) and (D.1)\n")
    (pages / "dynamics.md").write_text("(D.1) f = I a\n$$ x \\tag{D.2a} $$\nby (D.1), and (Q.9)\n")
    assert check_tags.check_folders(core, pages) == []


def test_refuses_tags_without_partner(folders: tuple[Path, Path]) -> None:
    """Refuse a citation without equation, an equation without citation, and a number used twice."""
    core, pages = folders
    (core / "solver.hpp").write_text("\n// (S.1)\n")
    (pages / "solver.md").write_text("**(S.2)** b\n\n(S.2) again\n")
    assert check_tags.check_folders(core, pages) == [
        f"{core}/solver.hpp:2: cites (S.1), which {pages}/solver.md does not number; "
        "add the equation there.",
        f"{pages}/solver.md: numbers (S.2), which no header cites; cite or remove it.",
        f"{pages}/solver.md: numbers (S.2) 2 times; number it once.",
    ]
