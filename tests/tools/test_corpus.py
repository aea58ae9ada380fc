"""Tests of tools/corpus.py that need no download."""

from __future__ import annotations

import json
import zipfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import pytest

import featherback as fb
from tools import corpus, corpus_cache, corpus_steps, corpus_table

ENTRY = corpus_cache.Entry("gymnasium", "1.4.0", "mjcf", False, "a/b/ant.xml")


def test_list_has_all_packages() -> None:
    """Read the list: 382 robots of 21 packages, each path once; what has a free root is URDF."""
    entries = corpus.read_list("")
    assert len(entries) == len({entry.path for entry in entries}) == 382
    assert len({(entry.package, entry.version) for entry in entries}) == 21
    assert {entry.format for entry in entries if entry.free_root} == {"urdf"}


def test_parts_are_the_whole() -> None:
    """Split the list into parts that have every robot once."""
    entries = corpus.read_list("")
    parts = [corpus.part(entries, f"{i}/5") for i in range(1, 6)]
    assert sorted(e.path for part in parts for e in part) == sorted(e.path for e in entries)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_finished_rows_are_read_again(tmp_path: Path) -> None:
    """Read rows that a file keeps as they were written."""
    run = corpus_steps.Run("hard", "home", steps=7, where=[(3, 1e-3)], speed=2.0)
    row = corpus_table.Row(ENTRY, strict="", drop="", runs=[run], refused={"mujoco": "no noslip"})
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(asdict(row)) + "\n")
    again = corpus.finished(file)["gymnasium", "a/b/ant.xml"]
    again.runs[0].where = [(3, 1e-3)]
    assert again == row
    assert corpus.finished(tmp_path / "none.jsonl") == corpus.finished(None) == {}


def test_worker_lines_become_a_row() -> None:
    """Read the outcome of each stage; what was not reached gets the reason the process ended."""
    row = corpus_table.Row(ENTRY)
    lines = [
        json.dumps({"stage": "error", "sentence": "no tendons"}),
        json.dumps({"stage": "drop", "sentence": "", "dropped": ["x"], "nv": 3}),
    ]
    corpus.read_worker(row, "noise\n" + "\n".join(lines), "the process ended with code -11")
    assert (row.strict, row.drop, row.dropped, row.nv) == ("no tendons", "", ["x"], 3)
    assert row.compared == "the process ended with code -11"
    assert corpus_table.outcome(row) == "dropped"


def test_crash_is_a_refused_row() -> None:
    """Count a process that died before its first line as refused."""
    row = corpus_table.Row(ENTRY)
    corpus.read_worker(row, "", "the process ended with code -11")
    assert corpus_table.outcome(row) == "refused"
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
    """Accept errors below the limits and a share of at least 95 %."""
    row = corpus_table.Row(ENTRY, strict=drop, drop=drop, errors=errors)
    assert corpus_table.accepted([row]) is expected


@pytest.mark.parametrize(
    ("flag", "expected"), [("UNCONVERGED", False), ("NONFINITE", False), ("NO_GRADIENT", True)]
)
def test_steps_that_are_not_solved_fail(flag: str, expected: bool) -> None:
    """Refuse a robot with an unconverged step, and count it in the summary."""
    run = corpus_steps.Run("hard", "default", steps=10)
    run.flagged[flag] = 1
    row = corpus_table.Row(ENTRY, strict="", drop="", runs=[run])
    assert corpus_table.accepted([row]) is expected
    line = corpus_table.stepped([row.runs], "hard")
    assert line.startswith("hard: 1 robots, 1 starts, 10 steps, ")
    assert f"1 {flag}" in line
    assert f"{int(not expected)} robots not solved" in line


@pytest.mark.parametrize(
    ("speed", "warnings", "expected"), [(5.9, 0, True), (6.1, 0, False), (6.1, 1, True)]
)
def test_joints_that_are_too_fast_fail(speed: float, warnings: int, expected: bool) -> None:
    """Refuse joints three times as fast as MuJoCo's, and steps it can take and we cannot."""
    run = corpus_steps.Run("hard", "default", steps=10, speed=speed, peer_speed=2.0)
    run.peer_warnings = warnings
    run.flagged["UNCONVERGED"] = warnings
    row = corpus_table.Row(ENTRY, strict="", drop="", runs=[run])
    assert corpus_table.accepted([row]) is expected
    assert ("TOO FAST" in str(run)) is not expected


@pytest.mark.parametrize(
    ("change", "faultless"),
    [({}, True), ({"over": True}, False), ({"wrong": "draw 1, q"}, False), ({"speed": 9.0}, False)],
)
def test_robots_without_a_fault_are_counted(change: dict[str, Any], faultless: bool) -> None:
    """Count robots that load strictly and take all steps, under each law by itself."""
    run = corpus_steps.Run("hard", "default", steps=10, peer_speed=1.0)
    row = corpus_table.Row(ENTRY, strict="", drop="", runs=[replace(run, **change)])
    assert corpus_table.faultless(row, "hard") is faultless
    assert not corpus_table.faultless(row, "mujoco")
    assert not corpus_table.faultless(replace(row, strict="no tendons"), "hard")
    told = [line for line in corpus_table.summary([row]) if "without a fault" in line]
    assert told[0].startswith(f"hard: {int(faultless)} of 1 robots")


def test_refusals_are_told_by_reason() -> None:
    """Count the robots of each reason, that of a contact law apart, and name them."""
    sentence = "x.xml:1: <a>: no (see docs/support.md#transmission)\n b (see docs/support.md#flex)"
    rows = [
        corpus_table.Row(ENTRY, strict=sentence, drop=""),
        corpus_table.Row(ENTRY, strict="it broke", drop="it broke"),
        corpus_table.Row(ENTRY, strict="", drop="", refused={"mujoco": sentence[:40]}),
    ]
    told = list(corpus_table.reasons(rows))
    assert "refused for transmission: 1 (gymnasium: ant.xml)" in told
    assert "refused for flex: 1 (gymnasium: ant.xml)" in told
    assert "refused for it broke: 1 (gymnasium: ant.xml)" in told
    assert any(line.startswith("refused for mujoco ") for line in told)


def test_packages_that_cannot_be_had_are_not_counted() -> None:
    """Take the share of robots that load of those whose files are there."""
    gone = corpus_table.Row(ENTRY, strict="no network", drop="no network", missing=True)
    there = corpus_table.Row(ENTRY, strict="", drop="")
    assert corpus_table.outcome(gone) == "missing"
    assert corpus_table.accepted([gone, there])
    line = list(corpus_table.summary([gone, there]))[-1]
    assert line.startswith("1 of 2 robots can be had; 1 load strictly (100.0%)")


def test_gradients_that_are_wrong_fail() -> None:
    """Refuse a robot with a gradient that differences do not confirm."""
    run = corpus_steps.Run("mujoco", "default", steps=10, lines=3, gradient=0.1, wrong="draw 1, q")
    row = corpus_table.Row(ENTRY, strict="", drop="", runs=[run])
    assert not corpus_table.accepted([row])
    assert "1 starts wrong" in corpus_table.stepped([row.runs], "mujoco")
    assert "WRONG: draw 1, q" in str(run)


def test_steps_of_a_worker_become_runs() -> None:
    """Keep the steps of the poses that were finished, and say why there are no more."""
    row = corpus_table.Row(ENTRY)
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
    corpus_table.write_report(tmp_path / "table.csv", [(("p", "ball.xml", 6, 1), runs)])
    head, *lines = (tmp_path / "table.csv").read_text().splitlines()
    assert len(lines) == 2
    assert lines[1].split(",")[: head.split(",").index("over")] == [
        *"p,ball.xml,6,1".split(","),
        *f"{law},up,50".split(","),
    ]


SHAPES = """<mujoco><worldbody><body pos="0 0 {z}"><freejoint/>
<geom type="{kind}" size="{size}" euler="{euler}"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize(
    ("kind", "size", "euler", "low"),
    [
        ("sphere", "0.1", "0 0 0", 0.9),
        ("capsule", "0.1 0.2", "0 0 0", 0.7),
        ("capsule", "0.1 0.2", "90 0 0", 0.9),
        ("cylinder", "0.1 0.2", "90 0 0", 0.9),
        ("box", "0.1 0.1 0.2", "0 45 0", 1.0 - 0.3 * 0.5**0.5),
        ("ellipsoid", "0.1 0.2 0.3", "90 0 0", 0.8),
    ],
)
def test_floors_lie_below_the_lowest_geom(kind: str, size: str, euler: str, low: float) -> None:
    """Put the floor a little below the lowest point of a robot that has none."""
    model = fb.load(SHAPES.format(kind=kind, size=size, euler=euler, z=1.0))
    height = corpus_steps.floor_height(model)
    assert height == pytest.approx(low - corpus_steps.FALL, abs=1e-12)
    assert corpus_steps.floor_height(fb.load(BALL)) is None


def test_controls_keep_to_their_limits() -> None:
    """Draw controls over their ranges, each held for some steps, the same for the same seed."""
    text = fb.load(
        """<mujoco><worldbody><body><joint name="a"/><geom size="0.1"/></body></worldbody>
        <actuator><motor joint="a" ctrlrange="2 5"/><motor joint="a"/></actuator></mujoco>"""
    )
    u = corpus_steps.controls(text.mujoco, 995, 0)
    assert u.shape == (995, 2)
    assert (u == corpus_steps.controls(text.mujoco, 995, 0)).all()
    assert 2.0 <= u[:, 0].min() < 2.2 < 4.8 < u[:, 0].max() <= 5.0
    assert -1.0 <= u[:, 1].min() < -0.9 < 0.9 < u[:, 1].max() <= 1.0
    assert (u[:10] == u[0]).all()


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
    assert corpus_cache.locate(tmp_path, "a/b/ant.xml") == target / "ant.xml"


def test_wheels_unpack(tmp_path: Path) -> None:
    """Unpack a wheel into its folder, but for the program in it."""
    wheel = tmp_path / "x-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("a/ant.xml", "<mujoco/>")
        archive.writestr("a/big.cpython-311.so", "")
        archive.writestr("a/code.py", "")
    corpus_cache.unpack(wheel, tmp_path / "out")
    assert (tmp_path / "out" / "a" / "ant.xml").read_text() == "<mujoco/>"
    assert [path.name for path in (tmp_path / "out" / "a").iterdir()] == ["ant.xml"]


def test_missing_download_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Name the package and return 2 when one is out of reach."""

    def fail(package: str, version: str, cache: Path) -> Path:
        raise RuntimeError(f"{package}=={version} cannot be downloaded (no network)")

    monkeypatch.setattr(corpus_cache, "fetch", fail)
    monkeypatch.setattr(
        "sys.argv", ["corpus.py", "--cache", str(tmp_path), "--only", "envs/mujoco/as"]
    )
    assert corpus.main() == 2
    assert capsys.readouterr().out.endswith(
        "corpus: gymnasium==1.4.0 cannot be downloaded (no network); connect to a package index, "
        "or point --cache at a filled folder.\n"
    )
