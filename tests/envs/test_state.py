"""The state of an environment: what it gives back is enough to go on with the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import featherback.envs as envs

RANDOM = {"body_mass": (0.8, 1.2)}


@pytest.mark.parametrize("mode", ["same_step", "next_step"])
@pytest.mark.parametrize("name", ["Hopper", "Ant"])
def test_vector_environment_goes_on_from_a_state(name: str, mode: str) -> None:
    """Give the bits of the environment that the state was taken from, across resets."""
    made = [envs.make(name, 3, autoreset_mode=mode, randomize=RANDOM) for _ in range(2)]
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1.0, 1.0, (40, 3, made[0].single_action_space.shape[0]))
    made[0].reset(seed=1)
    for action in actions[:20]:
        made[0].step(action)
    made[1].set_state(made[0].get_state())
    ended = False
    for action in actions[20:]:
        found, again = (env.step(action) for env in made)
        ended |= bool((found[2] | found[3]).any())
        for one, two in zip(found[:4], again[:4], strict=True):
            assert np.array_equal(one, two)
    assert ended or name == "Ant"


def test_torch_environment_goes_on_from_a_state() -> None:
    """Give the bits of the environment that the state was taken from, across resets."""
    torch: Any = pytest.importorskip("torch")
    import featherback.envs.torch as torch_envs

    made = [torch_envs.make("Hopper", 3, randomize=RANDOM) for _ in range(2)]
    made[0].reset(1)
    actions = torch.as_tensor(np.random.default_rng(0).uniform(-1.0, 1.0, (40, 3, 3)))
    for action in actions[:20]:
        made[0].step(action)
    made[1].set_state(made[0].get_state())
    ended = False
    for action in actions[20:]:
        found, again = (env.step(action) for env in made)
        ended |= bool((found[2] | found[3]).any())
        assert all(torch.equal(one, two) for one, two in zip(found[:4], again[:4], strict=True))
    assert ended
