"""The speed of neural controllers: its robots, their gradient, and a quick run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from featherback.experiments.runner import run

torch = pytest.importorskip("torch")

from featherback.experiments.neural import sensing  # noqa: E402
from featherback.experiments.neural.sensing import (  # noqa: E402
    NETWORKS,
    SENSORS,
    SensingRobots,
    Timing,
    make_network,
)


def test_networks_have_the_sizes_of_the_table() -> None:
    """Have 1.3 thousand and 1.15 million weights, within five per cent and one."""
    sizes = [sum(w.numel() for w in make_network(x, 0).parameters()) for x in NETWORKS.values()]
    assert sizes[0] == pytest.approx(1296, rel=0.05)
    assert sizes[1] == pytest.approx(1_147_904, rel=0.01)


def test_sensors_tell_rotation_and_clock() -> None:
    """Give joints, a rotation matrix, twist and clock, 81 numbers in all."""
    robots = SensingRobots(2, make_network((4,), 0), np.random.default_rng(3))
    q = torch.zeros(2, 15)
    q[:, 3] = q[:, 6] = 0.5**0.5
    q[:, 7:] = 0.3
    seen = robots.sense(q, torch.ones(2, 14), 0)
    assert seen.shape == (2, SENSORS) == (2, 81)
    turned = torch.tensor([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    assert torch.allclose(seen[0, 16:25].reshape(3, 3), turned, atol=1e-6)
    assert torch.equal(seen[1, 31:56], torch.zeros(25))
    assert torch.equal(seen[1, 56:], torch.ones(25))


def test_the_gradient_is_that_of_the_distance() -> None:
    """Agree with differences of the distance in the weights of the last layer's offsets."""
    network = make_network((8,), 1)
    robots = SensingRobots(3, network, np.random.default_rng(4))
    weight = network[-2].bias
    (bar,) = torch.autograd.grad(robots.distance(20), [weight])
    step, found = 1e-2, []
    for sign in (1.0, -1.0):
        with torch.no_grad():
            weight[0] += sign * step
            found.append(float(robots.distance(20)))
            weight[0] -= sign * step
    assert (found[0] - found[1]) / (2 * step) == pytest.approx(float(bar[0]), rel=2e-2)


def test_a_quick_run_has_every_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure four rows with and without gradient, judge no claim, say why there is no GPU."""
    monkeypatch.setattr(sensing, "missing_gpu", lambda: "there is none.")
    os.environ.setdefault("MPLBACKEND", "agg")
    result = run("degrave-speed", quick=True, out=tmp_path, show=False)
    rows = [name for name in result["figures"] if name.endswith("with gradient [s]")]
    assert len([name for name in rows if "theirs" not in name]) == 4
    assert "No GPU was measured: there is none." in result["notes"]
    assert len(result["claims"]) == 2
    assert all(claim["holds"] is None for claim in result["claims"])
    assert (tmp_path / "degrave-speed.json").exists()


class Measured:
    """Robots that tell times without moving; a large network has no gradient on a GPU."""

    def __init__(self, robots: int, network: Any, rng: Any, device: str) -> None:
        """Note what is measured."""
        large = sum(w.numel() for w in network.parameters()) > 10**6
        self.lost = device == "cuda" and large and robots > 128

    def measure(self, steps: int) -> Timing:
        """Return times."""
        lost = Timing(1.0, missing="it has no gradient.")
        return lost if self.lost else Timing(1.0, 3.0, 0.5, 10.0)


def test_rows_of_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure ten rows where there is a GPU, and say which has no gradient."""
    monkeypatch.setattr(sensing, "missing_gpu", lambda: "")
    monkeypatch.setattr(sensing, "SensingRobots", Measured)
    os.environ.setdefault("MPLBACKEND", "agg")
    result = run("degrave-speed", out=tmp_path, show=False)
    figures, last = result["figures"], "65536 robots, 1.15 M weights, GPU: "
    assert len([x for x in figures if x.endswith("distance [m]")]) == 10
    assert figures[f"{last}without gradient [s]"] == 1.0
    assert figures[f"{last}with gradient [s]"] is None
    assert [note for note in result["notes"] if note.startswith(last)] == [
        f"{last}it has no gradient."
    ]
    assert [claim["holds"] for claim in result["claims"]] == [True, True, False, True]
    assert len(result["ours"]["loss"]) == 4
    rows = [x for x in figures if x.startswith("128 robots, 1.3 k weights, GPU: theirs")]
    assert [figures[x] for x in rows] == [17.8]
