"""The ball that rests 10 m away, and the search by exact derivatives alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from featherback.cli.main import main
from featherback.experiments import Context, Recording, run
from featherback.experiments.least_squares import run_least_squares, steps
from featherback.experiments.named import ball_rest
from tests.experiments.problems import Stairs

pytest.importorskip("cma")
pytest.importorskip("matplotlib")
pytest.importorskip("PIL")


def context(folder: Path, seed: int = 0) -> Context:
    """Return a quick run without bars."""
    return Context("ball-rest", seed, True, folder, show=False)


def rest_place(speed: float, upwards: float) -> float:
    """Return in closed form where a ball rests whose spin runs out together with its speed.

    It flies 2 u / g at its speed; a hit takes mu (1 + e) u from it and leaves e u upwards; a hit
    below the least speed of a bounce leaves nothing upwards, and the ball slides v^2 / (2 mu g).
    """
    gravity, place = 9.81, 0.0
    while speed > 0.0 and upwards > 0.0:
        place += speed * 2.0 * upwards / gravity
        bounces = upwards > 0.05
        speed -= (1.0 + ball_rest.RESTITUTION * bounces) * upwards
        upwards *= ball_rest.RESTITUTION * bounces
    return place + max(speed, 0.0) ** 2 / (2.0 * gravity)


def test_a_quick_run_brings_the_ball_to_rest(tmp_path: Path) -> None:
    """Write result, plot, recording and film; the ball bounces and rests within its centimetre."""
    main(["run", "ball-rest", "--quick", "--out", str(tmp_path)])
    content = json.loads((tmp_path / "ball-rest.json").read_text())
    assert content["finished"]
    assert {"plot", "recording"} <= set(content["files"]) <= {"film", "plot", "recording"}
    # without GL there is a note instead of a film
    missing = any("was not made" in note for note in content["notes"])
    assert ("film" in content["files"]) != missing
    for file in content["files"].values():
        assert (tmp_path / file).stat().st_size > 1000
    verdicts = [claim["holds"] for claim in content["claims"]]
    assert verdicts == [True] * 4 + [None] * 2
    assert len(content["ours"]["loss"]) <= 10
    # every simulation counts: derivatives and trials
    spent = content["ours"]["evaluations_per_iteration"]
    assert spent[0] == 1
    assert set(spent[1:]) == {6 + 7}
    assert len(content["baseline"]["loss"]) == 31
    motion = Recording.load(tmp_path / content["files"]["recording"])
    assert np.linalg.norm(motion.q[-1, :2] - ball_rest.TARGET) < 0.01
    assert np.linalg.norm(motion.v[-1, :3]) < 0.01
    assert np.linalg.norm(motion.v[-1, 3:]) * ball_rest.RADIUS < 0.01
    assert motion.q[:, 2].max() > 0.8
    # a resumed run walks over the saved iterations to the same numbers
    again = run("ball-rest", quick=True, out=tmp_path, resume=True, show=False)
    for which in ("ours", "baseline"):
        assert again[which] == content[which]


@pytest.mark.parametrize("seed", range(1, 5))
def test_other_starts_end_there_too(seed: int, tmp_path: Path) -> None:
    """Come within 1 cm and 1 cm/s from other starts in far fewer than 88 iterations."""
    print("seed", seed)
    here = context(tmp_path, seed)
    start = ball_rest.first_throw(here)
    task = ball_rest.make_task()
    found, trace = run_least_squares(here, task, start, max_iterations=10, tolerance=ball_rest.NEAR)
    assert found.reached
    assert found.reason == (
        f"the error is {trace.loss[-1]:.3g} after {trace.iterations} iterations, within 0.01."
    )
    assert np.linalg.norm(task.errors(found.x[None])) == pytest.approx(trace.loss[-1], rel=1e-9)


def test_the_jacobian_includes_the_moments_of_hits() -> None:
    """Agree with narrow differences and with those over 0.1 m/s, which move every hit."""
    print("seed 5")
    x = np.array(ball_rest.FIRST) + np.random.default_rng(5).normal(size=6)
    task = ball_rest.make_task()
    exact = task.jacobian(x)
    for width, share in ((1e-6, 1e-5), (0.1, 1e-2)):
        apart = width * np.eye(6)
        ends = task.errors(np.concatenate([x + apart, x - apart]))
        slope = (ends[:6] - ends[6:]).T / (2 * width)
        error = np.linalg.norm(slope - exact, axis=0) / np.linalg.norm(exact, axis=0)
        print(f"differences over {width:g} m/s: {error}")
        assert np.all(error <= share)


@pytest.mark.parametrize("upwards", [1.0, 3.0, 8.0])
def test_the_ball_rests_where_the_closed_form_says(upwards: float) -> None:
    """Come closer to the closed form with smaller steps, at first order."""
    speed = 7.0
    # the spin that runs out with the speed of a solid ball: m v r + 2/5 m r^2 w = 0
    x = np.array([[speed, 0.0, upwards, 0.0, -2.5 * speed, 0.0]])
    misses: list[float] = []
    for step in (1e-3, 1.25e-4):
        roll = ball_rest.make_task(step).rollout(x)
        assert roll.ok
        misses.append(abs(float(roll.q[0, -1, 0]) - rest_place(speed, upwards)))
    assert misses[0] < 0.15
    assert misses[1] < 0.02


def test_a_target_out_of_reach_is_said(tmp_path: Path) -> None:
    """Stop with a sentence where no throw within the bounds reaches the target."""
    task = replace(ball_rest.make_task(), target=(1000.0, 0.0))
    here = context(tmp_path)
    start = ball_rest.first_throw(here)
    found, trace = run_least_squares(here, task, start, max_iterations=20, tolerance=ball_rest.NEAR)
    assert not found.reached
    assert np.all(np.abs(found.x) <= ball_rest.MAX_SPEED)
    error = f"the error is {trace.loss[-1]:.3g}"
    end = f"{error} after {trace.iterations} iterations, above 0.01, because "
    assert found.reason in (
        f"{end}max_iterations (20) was reached.",
        f"{end}none of the steps that were tried is better.",
    )


def test_a_search_that_cannot_go_on_says_so(tmp_path: Path) -> None:
    """Stop with a sentence where a derivative of zero hides what an unknown does."""
    start = np.array([1.0, 1.0])
    found, trace = run_least_squares(
        context(tmp_path), Stairs(), start, max_iterations=20, tolerance=0.02
    )
    assert not found.reached
    assert trace.evaluations == [1, *[2 + 7] * trace.iterations]
    assert found.reason == (
        f"the error is {trace.loss[-1]:.3g} after {trace.iterations} iterations, above 0.02, "
        "because none of the steps that were tried is better."
    )


def test_a_model_that_moves_nothing_gives_no_step() -> None:
    """Return one step of zero where every column is zero."""
    assert np.array_equal(steps(np.zeros((3, 2)), np.ones(3)), np.zeros((1, 2)))
