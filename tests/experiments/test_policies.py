"""The experiments that learn policies: their ends, and MuJoCo's own ant."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import gymnasium
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from featherback.experiments import run
from featherback.experiments.neural.stock_ant import StockAnt


def test_stock_ant_is_gymnasiums() -> None:
    """Give the observations and rewards of Gymnasium's Ant-v5, to the bit."""
    # its renderer imports imageio, which writes pictures only
    sys.modules.setdefault("imageio", types.ModuleType("imageio"))
    theirs = gymnasium.make(
        "Ant-v5", include_cfrc_ext_in_observation=False, contact_cost_weight=0.0
    ).unwrapped
    ours = StockAnt(2)
    seen, _ = ours.reset(seed=6)
    first, _ = theirs.reset(seed=7)
    assert np.array_equal(seen[1], first)
    rng = np.random.default_rng(0)
    for _ in range(60):
        actions = rng.uniform(-1.0, 1.0, (2, 8))
        seen, reward, ended, _, _ = ours.step(actions)
        after, wanted, terminated, _, _ = theirs.step(actions[1])
        assert np.array_equal(seen[1], after)
        assert abs(reward[1] - wanted) < 1e-9
        assert bool(ended[1]) == terminated
        if terminated:
            break


@pytest.mark.parametrize("name", ["ant-transfer", "pendulum-policy"])
def test_quick_runs_end_and_judge_nothing(name: str, tmp_path: Path) -> None:
    """Write figures of all policies; a quick run leaves claims open."""
    content = run(name, quick=True, out=tmp_path, show=False)
    assert content["finished"]
    assert all(claim["holds"] is None for claim in content["claims"])
    rewards = [x for key, x in content["figures"].items() if "re" in key.partition(": ")[2]]
    assert rewards and all(x is None or np.isfinite(x) for x in rewards)
    assert content["ours"]["loss"] and content["baseline"]["loss"]
