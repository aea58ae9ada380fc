"""Tests of `featherback bench`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import featherback as fb
from featherback.cli.bench import checkout
from featherback.cli.main import main

ROOT = Path(__file__).resolve().parents[2]


def test_checkout_is_found_by_its_project_file(tmp_path: Path) -> None:
    """Find a folder with the measurements and our project file, and pass over another's."""
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "full.py").write_text("")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "other"\n')
    assert checkout([tmp_path, ROOT]) == ROOT


def test_without_a_checkout_it_says_what_to_do(tmp_path: Path) -> None:
    """Say that the measurements are not installed, and where to run the command."""
    with pytest.raises(fb.FeatherbackError) as error:
        checkout([tmp_path])
    assert str(error.value) == (
        "bench: the measurements are not part of the installed package, and neither its folder nor "
        "the current one is a source checkout of featherback; run this command inside a checkout."
    )


def test_quick_figures_do_not_go_into_docs(capsys: pytest.CaptureFixture[str]) -> None:
    """Refuse --quick with --docs in one sentence."""
    with pytest.raises(SystemExit) as caught:
        main(["bench", "--quick", "--docs"])
    assert caught.value.code == 1
    assert capsys.readouterr().err == (
        "featherback: bench: --quick and --docs are both given; figures for docs/ need a full "
        "run, so pass one of them.\n"
    )


def test_a_file_in_the_way_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Refuse a folder that cannot be made, in one sentence of each command."""
    out = tmp_path / "file"
    out.write_text("in the way")
    with pytest.raises(SystemExit) as caught:
        main(["bench", "--only", "count", "--out", str(out)])
    assert caught.value.code == 1
    assert capsys.readouterr().err == (
        f"featherback: bench: {out} cannot be made (File exists); name another folder with --out.\n"
    )
    command = (sys.executable, str(ROOT / "bench" / "full.py"), "--out", str(out))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        f"full.py: error: {out} cannot be made (File exists); name another with --out"
    )


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    """Show the options and two commands that work."""
    with pytest.raises(SystemExit) as caught:
        main(["bench", "--help"])
    assert caught.value.code == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "`featherback bench --quick --only budgets --only count`" in printed
    assert "{budgets,tables,scaling,stages,count}" in printed
