"""Tests of tools/check/tags.py."""

from pathlib import Path

import pytest

from tools.check import tags

PROOF = "// What it is.  Proof:\n// docs/derivations/dynamics.md.\n#pragma once\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a project with folders for headers and pages."""
    for name in ("core/dynamics", "core/solver", tags.PAGES):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def test_accepts_partners(root: Path) -> None:
    """Accept tags with partners, in both notations, and headers that share a page."""
    (root / "core/dynamics/dynamics.hpp").write_text(f"{PROOF}// (D.1)  f = I a\nint x = f(D.5);\n")
    (root / "core/solver/chain.hpp").write_text(f"{PROOF}// (D.2a) and (D.1)\n")
    (root / "core/solver/plain.hpp").write_text("// no page, no tags\n")
    (root / tags.PAGES / "dynamics.md").write_text(
        "The proof of `core/dynamics/dynamics.hpp` and `core/solver/*.hpp`.\n"
        "(D.1) f = I a\n$$ x \\tag{D.2a} $$\nby (D.1), and (Q.9)\n"
    )
    assert tags.check_tree(root) == []


def test_refuses_tags_without_partner(root: Path) -> None:
    """Refuse a citation without equation, an equation without citation, and a number used twice."""
    (root / "core/solver/pgs.hpp").write_text(f"{PROOF}// (S.1)\n")
    (root / tags.PAGES / "dynamics.md").write_text("**(S.2)** b\n\n(S.2) again\n")
    page = "docs/derivations/dynamics.md"
    assert tags.check_tree(root) == [
        f"core/solver/pgs.hpp:4: cites (S.1), which {page} does not number; "
        "add the equation there.",
        f"{page}: numbers (S.2), which no header cites; cite or remove it.",
        f"{page}: numbers (S.2) 2 times; number it once.",
    ]


def test_refuses_names_that_lead_nowhere(root: Path) -> None:
    """Refuse tags without a page, a page that is missing, and a page of a missing header."""
    (root / "core/solver/a.hpp").write_text("// no page\n#pragma once\n// (S.1)\n")
    (root / "core/solver/b.hpp").write_text("// Proof: docs/derivations/none.md.\n")
    (root / tags.PAGES / "solver.md").write_text("The proof of `core/solver.hpp`.\n")
    assert tags.check_tree(root) == [
        "core/solver/a.hpp: cites (S.1), but its head names no page; "
        "add Proof: docs/derivations/<page>.md.",
        "core/solver/b.hpp: its head names docs/derivations/none.md, which is not there; "
        "correct the name.",
        "docs/derivations/solver.md: names core/solver.hpp, which is not there; correct the name.",
    ]
