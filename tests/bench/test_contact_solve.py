"""The list of hard contact scenes: what is counted, where batches start, and that it runs."""

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
BALL = """<mujoco><worldbody><geom type="plane" size="1 1 1"/><body pos="0 0 0.05">
<freejoint/><geom size="0.1"/><geom type="box" size="0.1 0.1 0.1"/></body></worldbody></mujoco>"""


@pytest.fixture(scope="module")
def modules() -> Iterator[Any]:
    """Import the program and its scenes, and forget files of bench/ afterwards."""
    before, path = set(sys.modules), list(sys.path)
    sys.path.insert(0, str(BENCH))
    try:
        yield [importlib.import_module(name) for name in ("contact_solve", "contact_scenes")]
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - before:
            if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(BENCH):
                del sys.modules[name]


def test_program_prints_and_saves_the_figures(tmp_path: Path) -> None:
    """Print a line with both engines, one world and a batch, and save the same as JSON."""
    out = tmp_path / "solve.json"
    done = subprocess.run(
        (sys.executable, str(BENCH / "contact_solve.py"), "--only", "wedge", "--out", str(out)),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    head, rule, line, last = done.stdout.splitlines()
    assert head.count("|") == rule.count("|") == line.count("|")
    assert last.startswith("solved: 5400 of 5400 steps, 100.000000 %; scenes with others: 0 of 1;")
    (row,) = json.loads(out.read_text())["rows"]
    assert (row["steps"], row["worlds"], row["flagged"], row["batch_flagged"]) == (600, 8, 0, 0)
    assert 0 < row["residual"] < 1e-6
    assert min(row[name] for name in ("here", "peer", "batch", "batch_peer")) > 0


def test_steps_that_are_not_solved_are_counted(modules: Any) -> None:
    """Count steps with too many contacts, in one world and in every world of a batch."""
    solve, scenes = modules
    scene = scenes.Scene("ball", BALL, 7, noise=0.0, worlds=3, contacts=1)
    model = scene.load()
    sim = scene.simulator(model)
    assert solve.one_world(scene, model, sim, 60.0).flagged == 7
    found = solve.batch(scene, model, sim)
    assert (found["worlds_flagged"], found["batch_flagged"]) == (3, 21)
    row = solve.Row("ball", 7, 7, 7, 1e-3, 1.0, 2.0, 3.0, **found)
    assert solve.total([row]).startswith("solved: 0 of 28 steps, 0.000000 %; scenes with others: 1")
    assert "| 7 | 0 % |" in solve.line(row)
    rare = solve.Row("rare", 10**6, 10**6, 1, 1e-3, 1.0, 2.0, 3.0)
    assert "| 1000000 | 99.999 % |" in solve.line(rare)
    assert solve.total([rare]).startswith("solved: 999999 of 1000000 steps, 99.999900 %")


def test_worlds_that_mujoco_loses_have_no_ratio(modules: Any) -> None:
    """Compare no times where MuJoCo reset a world or gave it up: it took other steps."""
    solve, scenes = modules
    model = scenes.Scene("ball", BALL, 20).load()
    # velocities that it takes for a failure
    q, v = np.tile(model.q0, (3, 1)), np.full((3, model.nv), 1e11)
    theirs, lost = solve.mujoco_batch(model, q, v, np.zeros((3, 20, 0)))
    assert lost == 3
    figures = {"worlds": 3, "batch_steps": 20, "batch": 1.0, "batch_peer": theirs}
    row = solve.Row("spin", 20, 20, 0, 0.0, 1.0, 2.0, 99.0, 1, **figures, batch_peer_lost=lost)
    assert "| reset 1 times | none |" in solve.line(row)
    assert "| lost 3 worlds | none |" in solve.line(row)
    assert "0 in one world, 0 in a batch; MuJoCo lost worlds in 1 scenes" in solve.total([row])


def test_a_scene_that_is_too_slow_says_how_far_it_came(modules: Any) -> None:
    """Stop at the bound on time, count the steps that were taken, and name both numbers."""
    solve, scenes = modules
    scene = scenes.Scene("ball", BALL, 10**6, noise=0.0)
    model = scene.load()
    row = solve.one_world(scene, model, scene.simulator(model), 0.05)
    assert 0 < row.steps < row.asked == 10**6
    assert row.flagged == 0
    assert f"| {row.steps} of 1000000 | 100 % |" in solve.line(row)
    assert solve.total([row]).startswith(f"solved: {row.steps} of {row.steps} steps")


def test_batches_start_in_any_pose_above_the_ground(modules: Any) -> None:
    """Draw joints over their ranges, and raise the base until nothing is in the ground."""
    solve, scenes = modules
    leg = (
        '<body pos="0 0 -0.1"><joint range="-60 60"/><geom type="capsule" size="0.02 0.2"/></body>'
    )
    model = fb.load(BALL.replace("</body>", leg + "</body>"), name="leg")
    scene, rng = scenes.Scene("leg", "", 1, far=0.5), np.random.default_rng(3)
    poses = np.array([solve.any_pose(scene, model, model.q0, rng) for _ in range(50)])
    assert np.abs(poses[:, 7]).max() <= np.pi / 3
    assert poses[:, 7].std() > 0.4
    data = mujoco.MjData(model.mujoco)
    for q in poses:
        data.qpos[:] = q
        mujoco.mj_forward(model.mujoco, data)
        ground = [c.dist for c in data.contact if 0 in (c.geom1, c.geom2)]
        assert min(ground, default=0.0) > -1e-9


def test_long_scenes_are_the_named_ones(modules: Any) -> None:
    """Have 256 worlds of Gymnasium's robots, piles, heaps, stacks and feet in the full list."""
    pytest.importorskip("gymnasium")
    _, scenes = modules
    long = [*scenes.gymnasium_robots(256, True), *(s for s in scenes.made() if s.full)]
    assert all(scene.full for scene in long)
    named = {scene.name: (scene.steps, scene.worlds) for scene in long}
    for robot in ("hopper", "walker2d_v5", "humanoid", "humanoidstandup"):
        assert named[f"{robot}, 256 worlds"] == (1000, 256)
    for word in ("stack of 20", "64 feet", "pile of 100", "chains of 50 links"):
        assert any(word in name for name in named)
