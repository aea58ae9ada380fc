"""The experiments that bring a ball to a target, in their quick form."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import featherback as fb
from featherback.cli.main import main
from featherback.control import optimize
from featherback.experiments import Recording
from featherback.experiments.named import golf, throw
from featherback.experiments.target_task import length

pytest.importorskip("scipy")
pytest.importorskip("cma")
pytest.importorskip("matplotlib")
pytest.importorskip("PIL")


@pytest.mark.parametrize("name", ["throw", "golf"])
def test_quick_runs_bring_the_ball_to_the_target(name: str, tmp_path: Path) -> None:
    """Write result, plot, recording and film; the ball rests within 1 cm of its target."""
    main(["run", name, "--quick", "--out", str(tmp_path)])
    content = json.loads((tmp_path / f"{name}.json").read_text())
    assert content["finished"]
    assert content["quick"]
    for file in content["files"].values():
        assert (tmp_path / file).stat().st_size > 1000
    motion = Recording.load(tmp_path / content["files"]["recording"])
    ball = motion.q[-1, -7:-4]
    assert np.linalg.norm(ball - motion.target[0]) < 0.01
    assert np.linalg.norm(motion.v[-1, -6:-3]) < 0.01
    verdicts = {claim["claim"].split(":")[0]: claim["holds"] for claim in content["claims"]}
    assert list(verdicts.values()).count(None) == 3
    assert all(holds for holds in verdicts.values() if holds is not None)
    assert content["ours"]["evaluations"] <= (20 if name == "throw" else 50)
    # the recording is the motion that its controls give
    model = fb.load(motion.xml)
    assert motion.q.shape == (motion.steps + 1, model.nq)
    assert np.array_equal(motion.q[0], model.keyframe("hold" if name == "throw" else "raised")[0])


def test_a_signal_stops_a_run_that_can_be_resumed(tmp_path: Path) -> None:
    """Leave with status 130 after SIGINT, with what there is; then finish with --resume."""
    command = [sys.executable, "-m", "featherback", "run", "throw", "--quick", "--out"]
    command.append(str(tmp_path))
    state = tmp_path / "throw-state.npz"
    # a process started in the background may ignore interrupts
    heard = ["env", "--default-signal=INT", *command]
    stopped = subprocess.Popen(heard, stderr=subprocess.PIPE, text=True)
    while not state.exists() and stopped.poll() is None:
        time.sleep(0.01)
    stopped.send_signal(signal.SIGINT)
    _, said = stopped.communicate()
    assert stopped.returncode == 130, said
    assert said.endswith(
        f"featherback: run throw: interrupted; what there is was saved in {tmp_path}: go on with "
        "the same command and --resume.\n"
    )
    assert json.loads((tmp_path / "throw.json").read_text())["finished"] is False
    assert subprocess.run([*command, "--resume"], capture_output=True, check=False).returncode == 0
    assert json.loads((tmp_path / "throw.json").read_text())["finished"] is True


def test_the_arm_holds_the_ball_under_gravity_compensation() -> None:
    """Hold arm and ball still for half a second with the controls that the unknowns start from."""
    problem, _ = throw.make_task(0)
    base = problem.controls.base[:1]
    roll = problem.sim.rollout(problem.q, problem.v, np.repeat(base, 100, axis=0))
    assert roll.ok
    assert np.abs(roll.q[-1] - problem.q).max() < 1e-6


def test_the_throw_keeps_torque_and_joint_limits() -> None:
    """Keep every torque within its limit and every joint within its range, to a hundredth."""
    problem, final = throw.make_task(4)
    outcome = optimize(problem, max_evaluations=20)
    roll = problem.rollout(outcome.x)
    model = problem.sim.model
    limits = np.array(model.mujoco.actuator_ctrlrange)
    assert np.all(roll.u >= limits[:, 0] - 1e-12)
    assert np.all(roll.u <= limits[:, 1] + 1e-12)
    ends = np.array(model.mujoco.jnt_range)[:9]
    assert np.all(roll.q[:, :9] > ends[:, 0] - 0.01)
    assert np.all(roll.q[:, :9] < ends[:, 1] + 0.01)
    assert float(final.distance(roll.q)) < 0.01


def test_the_initial_swing_touches_the_ball() -> None:
    """Drive the ball off its tee with a club that falls by its own weight."""
    problem, _ = golf.make_task(0)
    roll = problem.rollout(np.zeros(problem.size))
    assert roll.ok
    assert roll.q[-1, 2] - roll.q[0, 2] > 1.0
    # the ball rests on its tee before, and on the floor afterwards
    assert np.abs(roll.q[200, 2:5] - roll.q[0, 2:5]).max() < 1e-6
    assert abs(roll.q[-1, 4] - 0.02135) < 1e-6


@pytest.mark.parametrize("task", [throw, golf])
def test_gradients_agree_with_differences(task: object) -> None:
    """Agree with central differences along random directions, away from jumps."""
    print("seed 2")
    problem, _ = task.make_task(2)  # type: ignore[attr-defined]
    rng = np.random.default_rng(2)
    cost, gradient = problem.gradient(np.zeros(problem.size))
    assert length(cost) > 0.5
    for _ in range(3):
        direction = rng.standard_normal(problem.size)
        step = 1e-6 * direction / np.linalg.norm(direction)
        slope = problem.value(step) - problem.value(-step)
        assert slope == pytest.approx(2.0 * float(gradient @ step), rel=1e-3, abs=1e-10)
