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

from featherback import envs
from featherback.envs.tasks.pendulum import NLinkPendulum
from featherback.errors import OptimizationError
from featherback.experiments import run
from featherback.experiments.context import Context
from featherback.experiments.named import pendulum_policy
from featherback.experiments.neural.stock_ant import StockAnt
from featherback.experiments.neural.swing import follow, miss_of, shoot


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["ant-samples", "ant-transfer", "env-speed", "pendulum-policy", "shac-locomotion"]
)
def test_quick_runs_end_and_judge_nothing(name: str, tmp_path: Path) -> None:
    """Write figures of all policies; a quick run leaves claims open."""
    content = run(name, quick=True, out=tmp_path, show=False)
    assert content["finished"]
    assert all(claim["holds"] is None for claim in content["claims"])
    rewards = [x for key, x in content["figures"].items() if "re" in key.partition(": ")[2]]
    assert rewards and all(x is None or np.isfinite(x) for x in rewards)
    if content["baseline"] is not None:
        assert content["ours"]["loss"] and content["baseline"]["loss"]


def test_a_learner_that_stops_is_a_row_without_a_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Go on with the next learner, tell why, and let no claim hold."""

    def stop(*_: object, **__: object) -> None:
        raise OptimizationError("the gradient is infinite")

    monkeypatch.setattr("featherback.learn.train", stop)
    context = Context("pendulum-policy", 0, False, tmp_path, show=False)
    figures = pendulum_policy.learn_all(context, "seed", 3)
    assert len(figures) == 6 and set(figures.values()) == {None}
    assert all("the gradient is infinite" in note for note in context.notes)
    near = {"fair, 3 links, feedback: relative reward": 1.0}
    fair, seed = pendulum_policy.claims({**near, **figures}, False)
    assert fair.holds is True and seed.holds is False and seed.value is None


def test_shooting_with_feedback_holds_the_pendulum_from_starts_with_noise() -> None:
    """Bring two links up, and hold them at the end from starts with a noise of 0.05."""
    task = NLinkPendulum(links=2)
    path = shoot(task, 0, iterations=100)
    env = envs.make("NLinkPendulum", 8, links=2, reset_noise_scale=0.05, autoreset_mode="same_step")
    found = follow(path, env, seed=3)[-20:].mean()
    print(found)
    assert found > 0.95


def test_gradient_of_shooting_agrees_with_differences() -> None:
    """Agree with central differences of the cost."""
    rng = np.random.default_rng(1)
    q = rng.normal(size=(3, 4))
    miss, slope = miss_of(q)
    step = 1e-6
    for j in range(4):
        shift = step * np.eye(4)[j]
        change = (miss_of(q + shift)[0] - miss_of(q - shift)[0]) / (2.0 * step)
        np.testing.assert_allclose(slope[:, j], change, atol=1e-9)
    assert np.all(miss >= 0.0)
