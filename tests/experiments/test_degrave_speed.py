"""The speed of neural controllers: its robots, their gradient, and a quick run."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from featherback.experiments.runner import run

torch = pytest.importorskip("torch")

from featherback.experiments.neural.sensing import (  # noqa: E402
    NETWORKS,
    SENSORS,
    SensingRobots,
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


def test_a_quick_run_has_every_row(tmp_path: Path) -> None:
    """Measure four rows, with and without gradient, and judge no claim."""
    os.environ.setdefault("MPLBACKEND", "agg")
    result = run("degrave-speed", quick=True, out=tmp_path, show=False)
    rows = [name for name in result["figures"] if name.endswith("with gradient [s]")]
    assert len([name for name in rows if "theirs" not in name]) == 4
    assert all(claim["holds"] is None for claim in result["claims"])
    assert (tmp_path / "degrave-speed.json").exists()
