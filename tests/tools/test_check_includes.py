"""Tests of tools/check_includes.py."""

from pathlib import Path

import check_includes


def write(folder: Path, **headers: str) -> Path:
    """Write headers given as stem=text and return their folder."""
    for stem, text in headers.items():
        (folder / f"{stem}.hpp").write_text(text)
    return folder


def test_accepts_allowed_arrows(tmp_path: Path) -> None:
    """Accept the standard library, intrinsics, direct and indirect arrows, and family members."""
    core = write(
        tmp_path,
        scalar="#include <cmath>\n#include <immintrin.h>\n",
        spatial='#include "scalar.hpp"\n',
        collision='#include "collision_box.hpp"\n#include "scalar.hpp"\n',
        collision_box='#  include "spatial.hpp"\n',
    )
    assert check_includes.check_folder(core) == []


def test_refuses_arrow_against_the_table(tmp_path: Path) -> None:
    """Refuse an arrow that the table does not list, and say what is allowed."""
    core = write(tmp_path, scalar="", spatial="", lane='\n#include "spatial.hpp"\n')
    assert check_includes.check_folder(core) == [
        f'{tmp_path}/lane.hpp:2: #include "spatial.hpp": lane may know scalar; '
        "move the code or edit ARROWS in tools/check_includes.py."
    ]


def test_refuses_foreign_and_missing_headers(tmp_path: Path) -> None:
    """Refuse third-party headers, missing headers and headers without a line in the table."""
    core = write(tmp_path, scalar='#include <Python.h>\n#include "none.hpp"\n', novel="")
    assert check_includes.check_folder(core) == [
        f"{tmp_path}/novel.hpp: has no line in ARROWS of tools/check_includes.py; add one.",
        f"{tmp_path}/scalar.hpp:1: #include <Python.h>: "
        "core may include the C++ standard library and core only; remove it.",
        f'{tmp_path}/scalar.hpp:2: #include "none.hpp": no such header in core/; '
        'name it as "stem.hpp".',
    ]


def test_table_has_no_cycles() -> None:
    """Keep the table itself free of cycles."""
    for stem in check_includes.ARROWS:
        assert stem not in check_includes.reachable(stem)
