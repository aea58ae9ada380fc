"""Programs about MuJoCo's law: the setting they choose, contacts that differ, tables in a page."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import featherback as fb

BENCH = Path(__file__).resolve().parents[2] / "bench"
# two boxes that touch with a face each, over a floor on which one of them stands
BOXES = """<mujoco><worldbody><geom type="plane" size="1 1 1"/>
<body pos="0 0 0.099"><freejoint/><geom type="box" size="0.1 0.1 0.1"/></body>
<body pos="0 0 0.298"><freejoint/><geom type="box" size="0.1 0.1 0.1"/></body>
</worldbody></mujoco>"""


@pytest.fixture(scope="module")
def modules() -> Iterator[Any]:
    """Import the programs, and forget files of bench/ afterwards."""
    before, path = set(sys.modules), list(sys.path)
    sys.path.insert(0, str(BENCH))
    names = ("law_peer", "mujoco_law_robots", "mujoco_law_text")
    try:
        yield [importlib.import_module(name) for name in names]
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - before:
            if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(BENCH):
                del sys.modules[name]


def test_program_measures_saves_and_prints(tmp_path: Path) -> None:
    """Print tables with every time, and save the same as JSON."""
    out = tmp_path / "law.json"
    short = ("--rounds", "1", "--patience", "0", "--seconds", "0.01", "--worlds", "8")
    done = subprocess.run(
        (
            sys.executable,
            str(BENCH / "mujoco_law.py"),
            "--only",
            "laikago",
            "--out",
            str(out),
            *short,
        ),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(out.read_text())["rows"]
    assert row["flagged"] == [0, 0, 0] and row["contacts"] == [4.0, 4.0]
    assert row["error"] <= 1e-8
    assert min(row["times"].values()) > 0 and len(row["times"]) == 14
    assert f"| {row['setting']} |" in done.stdout


def test_setting_is_as_near_as_asked(modules: Any) -> None:
    """Choose a setting whose accelerations are near the minimum, on a robot that moves."""
    peer = modules[0]
    model = fb.models.quadruped()
    m = peer.matched(model)
    first = peer.full_state(m, np.array(model.keyframe(0)[0]), np.full(m.nv, 0.1), None)
    u = np.tile(m.key_ctrl[0], (40, 1))
    setting = peer.fastest(m, first, u, 1e-8)
    assert setting.error <= 1e-8
    assert peer.distance(setting.apply(m), first, u, 1) <= 1e-7
    loose = peer.Setting("dense", False, 1.0).apply(m)
    loose.opt.iterations = 1
    assert peer.distance(loose, first, u, 1) > 1e-6


def test_contacts_that_differ_are_named(modules: Any) -> None:
    """Name the pair of shapes whose contacts MuJoCo has elsewhere, and no other."""
    peer, robots = modules[0], modules[1]
    model = fb.load(BOXES)
    m, sim = peer.matched(model), fb.Simulator(model, contact="mujoco")
    state = (np.array(model.q0), np.array(model.v0), None)
    assert robots.other_contacts(m, sim, state, np.zeros(0)) == {}
    m.geom_size[2, 2] += 1e-3
    named = robots.other_contacts(m, sim, state, np.zeros(0))
    assert named and all(name.startswith("box-box: ") for name in named)


def test_differences_of_steps_are_those_of_mujoco(modules: Any) -> None:
    """Give by steps of RK4 what `mjd_transitionFD` gives by Euler, to the order of the step."""
    peer = modules[0]
    model = fb.models.cartpole()
    found = []
    for number in (0, 1):
        m = peer.matched(model)
        m.opt.integrator, m.opt.timestep = number, 1e-4
        first = peer.full_state(m, np.array(model.q0), np.full(m.nv, 0.1), None)
        found.append(np.hstack(peer.differences(m, first, np.full(m.nu, 0.1), 1e-6)))
    assert m.opt.integrator == int(mujoco.mjtIntegrator.mjINT_RK4)
    assert np.abs(found[0] - found[1]).max() < 1e-6


def test_tables_are_put_between_their_marks(modules: Any, tmp_path: Path) -> None:
    """Replace what stands between the marks of one program, and nothing else."""
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- begin: x -->\nold\n<!-- end: x -->\nb\n")
    modules[2].put_between(page, "x", "new")
    assert page.read_text() == "a\n<!-- begin: x -->\n\nnew\n<!-- end: x -->\nb\n"
