"""Tests of `featherback bench`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from featherback.cli.bench import checkout
from featherback.cli.main import main

ROOT = Path(__file__).resolve().parents[2]


def test_checkout_is_found_by_its_project_file(tmp_path: Path) -> None:
    """Find a folder with the measurements and our project file, and pass over another's."""
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "full.py").write_text("")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "other"\n')
    assert checkout([tmp_path, ROOT]) == ROOT


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    """Refuse a folder that cannot be made in the script itself too."""
    out = tmp_path / "file"
    out.write_text("in the way")
    command = (sys.executable, str(ROOT / "bench" / "full.py"), "--out", str(out))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert f"{out} cannot be made" in done.stderr.splitlines()[-1]


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    """Show the options and two commands that work."""
    with pytest.raises(SystemExit) as caught:
        main(["bench", "--help"])
    assert caught.value.code == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "`featherback bench --quick --only budgets --only count`" in printed
    assert "{budgets,tables,scaling,stages,count}" in printed
