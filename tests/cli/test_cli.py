"""Tests of the command line."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import featherback as fb
from featherback.cli import demo, doctor
from featherback.cli.main import main
from featherback.experiments import Recording


def test_doctor_prints_versions_and_isa(capsys: pytest.CaptureFixture[str]) -> None:
    """Print our version, the instruction set and every package, installed or not."""
    main(["doctor"])
    printed = capsys.readouterr().out
    rows = dict(doctor.doctor_rows())
    assert rows["featherback"] == fb.__version__
    assert rows["instruction set"].split()[0] == fb.isa()
    assert rows["numpy"] == np.__version__
    assert rows["cores"] == f"{doctor.usable_cores()} usable of {os.cpu_count()}"
    for what in rows:
        assert what in printed


def test_missing_package_is_no_error() -> None:
    """Return None for a package that is not installed."""
    assert doctor.package_version("a-package-that-does-not-exist") is None


def test_demo_stands_and_films(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Stand on four feet that carry the weight, print it, and write recording and film."""
    main(["demo", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    assert "4 points carry force" in printed
    assert "steps/s" in printed
    assert Recording.load(tmp_path / "laikago.npz").steps == 1000
    film = tmp_path / "laikago.gif"
    assert film.exists() or "laikago.gif was not made, because" in printed
    assert f"film: {film}" in printed or not film.exists()


def test_drop_carries_the_weight() -> None:
    """Come to rest with contact forces that sum to the weight within 0.1 %."""
    drop = demo.drop_laikago(fb.models.laikago())
    assert drop.contacts == 4
    assert abs(drop.force - drop.weight) < 1e-3 * drop.weight
    assert drop.height[0] - drop.height[1] > 0.9 * demo.DROP


def test_our_errors_become_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Print the sentence of an error of ours to stderr and leave with status 1."""

    def fail(out: Path) -> None:
        raise fb.FeatherbackError(f"demo: {out} is not a folder; name one.")

    monkeypatch.setattr(demo, "run_demo", fail)
    with pytest.raises(SystemExit) as caught:
        main(["demo", "--out", "x"])
    assert caught.value.code == 1
    assert capsys.readouterr().err == "featherback: demo: x is not a folder; name one.\n"


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Print name and version, and leave without an error."""
    main(["--version"])
    assert capsys.readouterr().out == f"featherback {fb.__version__}\n"


@pytest.mark.parametrize("module", ["tyro", "rich.console"])
def test_ctrl_c_during_imports_leaves_no_traceback(module: str) -> None:
    """Leave with status 130 and one line where Ctrl-C comes while a package is imported."""
    code = f"""
import sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
from featherback.cli.main import main
main(["doctor"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "featherback: interrupted.\n"


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """List both commands in --help."""
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    printed = capsys.readouterr().out
    assert "demo" in printed
    assert "doctor" in printed
