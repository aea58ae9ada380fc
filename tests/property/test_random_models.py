"""The random-model generator must give valid models, the same ones for the same seed."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

import featherback as fb
from tests.property import random_models

SEEDS = range(40)


@pytest.mark.parametrize("equality", [False, True])
def test_trees_load_strictly(equality: bool) -> None:
    """Load random mechanisms with nothing dropped."""
    for seed in SEEDS:
        print(f"seed {seed}")
        text = random_models.random_tree(np.random.default_rng(seed), equality=equality)
        model = fb.load(text)
        assert model.nv == mujoco.MjModel.from_xml_string(text).nv > 0


def test_scenes_load_strictly_and_start_apart() -> None:
    """Load random contact scenes with nothing dropped; no two shapes overlap at the start."""
    for seed in SEEDS:
        print(f"seed {seed}")
        model = fb.load(random_models.random_contact_scene(np.random.default_rng(seed)))
        data = mujoco.MjData(model.mujoco)
        mujoco.mj_forward(model.mujoco, data)
        assert all(contact.dist >= -1e-12 for contact in data.contact[: data.ncon])


def test_same_seed_same_text() -> None:
    """Repeat a model exactly from its seed."""
    print("seed 3")
    for draw in (random_models.random_tree, random_models.random_contact_scene):
        assert draw(np.random.default_rng(3)) == draw(np.random.default_rng(3))


def test_all_joint_types_are_drawn() -> None:
    """Draw free, ball, slide and hinge joints, several on one body, and fixed bodies."""
    kinds: set[int] = set()
    several = fixed = 0
    for seed in SEEDS:
        print(f"seed {seed}")
        text = random_models.random_tree(np.random.default_rng(seed))
        compiled = mujoco.MjModel.from_xml_string(text)
        kinds |= {int(kind) for kind in compiled.jnt_type}
        several += int((compiled.body_jntnum > 1).sum())
        fixed += int((compiled.body_jntnum[1:] == 0).sum())
    assert kinds == {0, 1, 2, 3}
    assert several > 0
    assert fixed > 0


def test_random_state_respects_ranges() -> None:
    """Keep scalar joints inside their ranges and quaternions at unit length."""
    for seed in SEEDS:
        print(f"seed {seed}")
        rng = np.random.default_rng(seed)
        compiled = mujoco.MjModel.from_xml_string(random_models.random_tree(rng))
        q, v = random_models.random_state(compiled, rng)
        assert q.shape == (compiled.nq,)
        assert v.shape == (compiled.nv,)
        for joint in range(compiled.njnt):
            at = int(compiled.jnt_qposadr[joint])
            if compiled.jnt_type[joint] <= 1:
                quat = q[at + 3 : at + 7] if compiled.jnt_type[joint] == 0 else q[at : at + 4]
                assert abs(np.linalg.norm(quat) - 1.0) <= 4 * np.finfo(float).eps
            elif compiled.jnt_limited[joint]:
                low, high = compiled.jnt_range[joint]
                assert low <= q[at] <= high
