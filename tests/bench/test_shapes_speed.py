"""Programs about shapes and many geoms print, save and put their tables into a page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"


def run(program: str, *arguments: str) -> str:
    """Return what a program prints."""
    done = subprocess.run(
        (sys.executable, str(BENCH / program), *arguments),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_shapes_against_mujoco(tmp_path: Path) -> None:
    """Give every time of a scene under both laws, and the ratios to MuJoCo."""
    out = tmp_path / "shapes.json"
    short = ("--rounds", "1", "--patience", "0", "--seconds", "0.01", "--worlds", "8")
    printed = run("shapes_speed.py", "--only", "stack", "--out", str(out), *short)
    (row,) = json.loads(out.read_text())["rows"]
    figures = ("step", "gradient", "batch", "batch gradient")
    named = {f"{law} {figure}" for law in ("hard", "mujoco") for figure in figures}
    assert named | {"file", "equal", "batch", "differences"} == set(row["times"])
    assert all(value > 0 for value in row["times"].values())
    assert printed.count("| stack of 10 boxes |") == 4
    again = run("shapes_speed.py", "--saved", "--out", str(out))
    assert again in printed


def test_many_geoms(tmp_path: Path) -> None:
    """Give times, memory and contacts of every scene and law; nothing is left out."""
    out = tmp_path / "geoms.json"
    run("broad_phase.py", "--most", "10", "--rounds", "1", "--out", str(out))
    rows = json.loads(out.read_text())["rows"]
    assert [row["scene"] for row in rows] == ["balls", "dominoes", "rubble", "stones"]
    for row in rows:
        for law in ("hard", "mujoco"):
            assert row[law]["step"] > 0
            assert row[law]["contacts"] > 0
            assert not row[law]["overflow"]
