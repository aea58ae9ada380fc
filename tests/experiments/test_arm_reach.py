"""The arm that reaches for points: its set of points, its gradients, and a quick run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from featherback.experiments import Recording
from featherback.experiments.named import arm_reach
from featherback.experiments.runner import run

torch = pytest.importorskip("torch")

from featherback.experiments.neural.reach import NETWORK, Population, Reach  # noqa: E402


@pytest.fixture(scope="module")
def reach() -> Reach:
    """Return the task."""
    return Reach()


def test_points_fill_the_reachable_set_evenly(reach: Reach) -> None:
    """Draw points within the arm's length that are as dense near the base as far from it."""
    print("seed 3")
    points = reach.targets((3, 0), 20_000).numpy()
    radius = np.linalg.norm(points, axis=1)
    assert radius.max() <= 1.0 + 1e-12
    # straight up, all directions near the vertical are reached at any of these distances
    inside = points[(points[:, 2] > 0.0) & (np.hypot(points[:, 0], points[:, 1]) < 0.3)]
    near = np.count_nonzero((inside[:, 2] > 0.6) & (inside[:, 2] < 0.7))
    far = np.count_nonzero((inside[:, 2] > 0.8) & (inside[:, 2] < 0.9))
    assert near > 50
    assert 0.6 < near / far < 1.6
    assert np.array_equal(points, reach.targets((3, 0), 20_000).numpy())


def test_the_network_has_17_thousand_weights_and_starts_still(reach: Reach) -> None:
    """Keep the arm upright with the first weights, whose last layer is zero."""
    print("seed 0")
    assert NETWORK.size == 16_992
    weights = NETWORK.start(np.random.default_rng(0))
    targets = reach.targets((0, 0), 5)
    motion = reach.move(torch.from_numpy(weights), targets)
    assert float(motion.q.abs().max()) < 1e-9
    up = np.array([0.0, 0.0, 1.0])
    expected = np.linalg.norm(targets.numpy() - up, axis=1)
    assert np.allclose(reach.errors(weights, targets), expected, atol=1e-9)


def test_gradients_agree_with_differences(reach: Reach) -> None:
    """Agree with central differences of the loss along random directions of the weights."""
    print("seed 4")
    rng = np.random.default_rng(4)
    start = NETWORK.start(rng) + 0.02 * rng.standard_normal(NETWORK.size)
    targets = reach.targets((4, 0), 4)
    weights = torch.from_numpy(start).requires_grad_()
    (gradient,) = torch.autograd.grad(reach.loss(weights, targets), weights)
    for _ in range(3):
        step = rng.standard_normal(NETWORK.size)
        step *= 1e-5 / np.linalg.norm(step)
        ends = [float(reach.loss(torch.from_numpy(start + s * step), targets)) for s in (1, -1)]
        assert ends[0] - ends[1] == pytest.approx(2.0 * float(gradient.numpy() @ step), rel=1e-4)


def test_a_population_has_the_losses_of_its_networks(reach: Reach) -> None:
    """Return for several networks at once what each has alone."""
    print("seed 5")
    rng = np.random.default_rng(5)
    targets = reach.targets((5, 0), 6)
    networks = 0.05 * rng.standard_normal((3, NETWORK.size))
    alone = [float(reach.loss(torch.from_numpy(w), targets)) for w in networks]
    assert np.allclose(Population(reach, targets).values(networks), alone, rtol=1e-12)


def test_a_run_goes_on_as_if_never_stopped(
    tmp_path: Path, reach: Reach, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Come to the same weights in two parts as in one."""
    from featherback.experiments import Context

    monkeypatch.setattr(arm_reach, "EVERY", 2)
    monkeypatch.setattr(arm_reach, "QUICK", 4)
    whole = arm_reach.train(Context("arm-reach", 1, True, tmp_path / "a", show=False), reach)
    first = Context("arm-reach", 1, True, tmp_path / "b", show=False)
    monkeypatch.setattr(arm_reach, "QUICK", 2)
    arm_reach.train(first, reach)
    first.save()
    monkeypatch.setattr(arm_reach, "QUICK", 4)
    second = Context("arm-reach", 1, True, tmp_path / "b", resume=True, show=False)
    weights, _, trace = arm_reach.train(second, reach)
    assert np.array_equal(weights, whole[0])
    assert trace.loss == whole[2].loss
    assert trace.evaluations == [0, 2, 2]


def test_a_quick_run_reaches_the_points(tmp_path: Path) -> None:
    """Bring the tip within 5 cm of points never trained on, on average, and write all files."""
    pytest.importorskip("cma")
    pytest.importorskip("matplotlib")
    content = run("arm-reach", quick=True, out=tmp_path, show=False)
    assert content["finished"]
    claims = content["claims"]
    assert claims[0]["holds"] is True
    assert claims[0]["value"] < 0.05
    assert [claim["holds"] for claim in claims[1:]] == [None, None]
    assert content["ours"]["evaluations"] == 400
    assert content["figures"]["CMA-ES mean error [m]"] > 0.3
    for file in content["files"].values():
        assert (tmp_path / file).stat().st_size > 1000
    motion = Recording.load(tmp_path / content["files"]["recording"])
    assert motion.q.shape == (201, 4)
    assert json.loads((tmp_path / "arm-reach.json").read_text())["claims"] == claims
