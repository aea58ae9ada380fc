"""docs/learning.md is true: its code runs, and it names every learner."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from featherback.cli.learn import ABOUT

pytest.importorskip("torch")
pytest.importorskip("gymnasium")

PAGE = (Path(__file__).parents[2] / "docs" / "learning.md").read_text(encoding="utf-8")


def test_code_of_the_page_runs(tmp_path: Path) -> None:
    """Run the blocks of Python one after the other."""
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "8192 (4,)\n"


def test_the_page_names_every_learner() -> None:
    """Have a row for each learner of the command line."""
    named = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.M))
    assert {kind.learner for kind in ABOUT} <= named
