"""Options of tasks and of resets that are none are refused with a sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="gymnasium is not installed; install featherback[rl]")

from featherback import envs
from featherback.errors import FeatherbackError


@pytest.mark.parametrize(
    ("task", "options", "words"),
    [
        ("Humanoid", {"speed": "xx"}, ("speed is 'xx'", "'difference', 'end'")),
        ("NLinkPendulum", {"reward": "x"}, ("reward is 'x'", "'height', 'progress'")),
        ("NLinkPendulum", {"links": -2}, ("links is -2", ">= 1")),
        ("NLinkPendulum", {"links": 2.5}, ("links is 2.5", "an integer")),
        ("Ant", {"frame_skip": 0}, ("frame_skip is 0", ">= 1")),
        ("Ant", {"frame_skip": 1.5}, ("frame_skip is 1.5", ">= 1")),
        ("Ant", {"healthy_z_range": 3}, ("healthy_z_range is 3", "the lower one first")),
        ("Ant", {"healthy_z_range": (2, 1)}, ("healthy_z_range", "the lower one first")),
        ("Ant", {"ctrl_cost_weight": float("nan")}, ("ctrl_cost_weight is nan", "finite")),
        ("Ant", {"reset_noise_scale": "1"}, ("reset_noise_scale is '1'", "finite")),
    ],
)
def test_options_of_tasks(task: str, options: dict[str, Any], words: tuple[str, ...]) -> None:
    """Name the option, what it is and what it may be."""
    with pytest.raises(FeatherbackError) as caught:
        envs.make(task, worlds=2, **options)
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"Q": np.zeros((2, 15))}, ("no option 'Q'", '"q"')),
        ({"start": 1}, ("no option 'start'", "reset_mask")),
        ({"q": np.zeros((2, 14))}, ("q has shape (2, 14)", "(2, 15)")),
        ({"v": np.full((2, 14), np.nan)}, ("v has a NaN",)),
    ],
)
def test_options_of_resets(options: dict[str, Any], words: tuple[str, ...]) -> None:
    """Refuse what a reset does not have, and states that are none."""
    env = envs.make("Ant", worlds=2)
    with pytest.raises(FeatherbackError) as caught:
        env.reset(seed=0, options=options)
    assert all(word in str(caught.value) for word in words)


def test_actions_that_are_no_numbers() -> None:
    """Say what is wrong with actions."""
    env = envs.make("Ant", worlds=2)
    env.reset(seed=0)
    with pytest.raises(FeatherbackError, match="actions"):
        env.step("abc")


def test_every_task_has_options_of_its_kinds() -> None:
    """Accept the defaults of all tasks, and a row of states for all worlds."""
    for name in envs.TASKS:
        env = envs.make(name, worlds=2)
        q = env.sim.model.q0
        obs, _ = env.reset(seed=0, options={"q": q, "v": np.zeros(env.sim.model.nv)})
        np.testing.assert_array_equal(obs[0], obs[1])
