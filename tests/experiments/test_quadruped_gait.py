"""The gait experiment: its reference, its gradients, and a quick run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from featherback.experiments import Context, Recording
from featherback.experiments.named import quadruped_gait
from featherback.experiments.runner import run

torch = pytest.importorskip("torch")

from featherback.experiments.neural import sine_gaits  # noqa: E402
from featherback.experiments.neural.gait import (  # noqa: E402
    SECONDS,
    ClockGait,
    Walker,
    sine_gait,
)


@pytest.fixture(scope="module")
def walker() -> Walker:
    """Return the robot."""
    return Walker()


def test_the_table_holds_the_whole_grid() -> None:
    """Ship 500 gaits, those of the grid, with the best where the experiment reads it."""
    table = sine_gaits.read()
    assert table.shape == (500, 4)
    assert np.array_equal(table[:, :3], sine_gaits.grid())
    assert sine_gaits.reference()[3] == table[:, 3].max()


def test_the_table_can_be_walked_again() -> None:
    """Come to the shipped speeds for gaits whose motion does not depend on the last digits."""
    rows = sine_gaits.read()[[0, 20, 100]]
    assert np.allclose(sine_gaits.speeds(rows[:, :3]), rows[:, 3], atol=1e-3)


def test_a_sine_gait_is_what_its_numbers_say(walker: Walker) -> None:
    """Swing hips and knees with one amplitude, diagonal legs together, knees ahead by the phase."""
    u = sine_gait(walker, 0.3, 0.5, 2.0) - walker.stand
    time = 0.004 * np.arange(len(u))
    hip = 0.3 * np.sin(4.0 * np.pi * time)
    knee = 0.3 * np.sin(4.0 * np.pi * time + 0.5)
    assert len(u) * 0.004 == pytest.approx(SECONDS)
    for leg, sign in enumerate((1.0, -1.0, -1.0, 1.0)):
        assert np.allclose(u[:, 2 * leg], sign * hip, atol=1e-12)
        assert np.allclose(u[:, 2 * leg + 1], sign * knee, atol=1e-12)


def test_the_network_starts_as_a_sine_gait(walker: Walker) -> None:
    """Give the servo targets of the trot with the first weights, whatever the seed."""
    print("seed 7")
    gait = ClockGait(walker, 5.5)
    weights = gait.start(np.random.default_rng(7), 0.2, 0.4)
    assert weights.shape == (gait.size,) == (17_944,)
    u = gait.controls(torch.from_numpy(weights)).numpy()
    assert np.allclose(u, sine_gait(walker, 0.2, 0.4, 5.5), atol=1e-12)


def test_gradients_agree_with_differences(walker: Walker) -> None:
    """Agree with differences of the speed over half a second from standing."""
    import featherback.torch as fbt

    print("seed 8")
    rng = np.random.default_rng(8)
    gait = ClockGait(walker, 5.5)
    start = gait.start(rng, 0.1, 0.0)
    q, v = torch.from_numpy(walker.q), torch.from_numpy(walker.v)

    def way(weights: Any) -> Any:
        return fbt.rollout(walker.sim, q, v, gait.controls(weights)[:40]).q[-1, 0]

    weights = torch.from_numpy(start).requires_grad_()
    (gradient,) = torch.autograd.grad(way(weights), weights)
    step = np.zeros(gait.size)
    step[-16:] = 1e-7 * rng.standard_normal(16)
    ends = [float(way(torch.from_numpy(start + sign * step))) for sign in (1.0, -1.0)]
    assert ends[0] - ends[1] == pytest.approx(2.0 * float(gradient.numpy() @ step), rel=1e-3)


def test_a_run_goes_on_as_if_never_stopped(
    tmp_path: Path, walker: Walker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Come to the same weights in two parts as in one."""
    gait = ClockGait(walker, quadruped_gait.CLOCK)
    monkeypatch.setattr(quadruped_gait, "QUICK", 4)
    whole = quadruped_gait.train(Context("g", 1, True, tmp_path / "a", show=False), gait)
    monkeypatch.setattr(quadruped_gait, "QUICK", 2)
    first = Context("g", 1, True, tmp_path / "b", show=False)
    quadruped_gait.train(first, gait)
    first.save()
    monkeypatch.setattr(quadruped_gait, "QUICK", 4)
    second = Context("g", 1, True, tmp_path / "b", resume=True, show=False)
    weights, trace = quadruped_gait.train(second, gait)
    assert np.array_equal(weights, whole[0])
    assert trace.loss == whole[1].loss


def test_a_quick_run_makes_the_gait_faster(tmp_path: Path) -> None:
    """Run faster than at the start after thirty evaluations, and write all files."""
    pytest.importorskip("matplotlib")
    content = run("quadruped-gait", quick=True, out=tmp_path, show=False)
    assert content["finished"]
    figures = content["figures"]
    assert figures["evaluations"] == 30
    assert figures["speed [m/s]"] > 1.1 * figures["speed at the start [m/s]"] > 0.5
    assert [claim["holds"] for claim in content["claims"]] == [None, True]
    for file in content["files"].values():
        assert (tmp_path / file).stat().st_size > 1000
    motion = Recording.load(tmp_path / content["files"]["recording"])
    way = motion.q[-1, 0] - motion.q[0, 0]
    assert way / SECONDS == pytest.approx(figures["speed [m/s]"], rel=1e-12)
