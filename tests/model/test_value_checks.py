"""Values that look wrong and have a meaning are accepted; those without are in value_cases.py."""

from __future__ import annotations

import pytest

from tests.model.helpers import mjcf, read


def test_names_that_look_like_numbers_are_names() -> None:
    """Accept a joint called nan."""
    assert read(mjcf('<joint name="nan"/>')).mujoco.njnt == 2


def test_range_without_effect_may_be_reversed() -> None:
    """Accept a reversed range on a joint that is not limited."""
    assert read(mjcf('<joint limited="false" range="1 -1"/>')).mujoco.njnt == 2


def test_balanceinertia_is_honoured() -> None:
    """Leave an impossible inertia to MuJoCo when the file asks it to balance."""
    body = '<inertial pos="0 0 0" mass="1" diaginertia="1 1 3"/>'
    text = mjcf(body, before='<compiler balanceinertia="true"/>')
    assert read(text).mujoco.body_inertia[1].tolist() == pytest.approx([5 / 3] * 3)
