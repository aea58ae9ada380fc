"""Physical nonsense is refused, each with its own sentence."""

from __future__ import annotations

import pytest

from tests.model.helpers import message, mjcf, read

JOINT = '<string>:5: <joint> in <body name="b">: '
GEOM = '<string>:5: <geom> in <body name="b">: '
INERTIAL = '<string>:5: <inertial> in <body name="b">: '

NONSENSE = {
    '<joint name="k" damping="-0.5"/>': '<string>:5: <joint name="k">: damping is -0.5 N·m·s/rad; '
    "it must be >= 0.",
    '<joint type="slide" damping="-1"/>': JOINT + "damping is -1 N·s/m; it must be >= 0.",
    '<joint stiffness="-1"/>': JOINT + "stiffness is -1 N·m/rad; it must be >= 0.",
    '<joint armature="-1"/>': JOINT + "armature is -1 kg·m²; it must be >= 0.",
    '<joint frictionloss="-1"/>': JOINT + "frictionloss is -1 N·m; it must be >= 0.",
    '<joint axis="0 0 0"/>': JOINT + "axis is zero; a joint axis needs a direction.",
    '<joint range="1 -1"/>': JOINT
    + "range is 1 -1; the first number is the lower end and must not exceed the second.",
    '<geom size="1" mass="-1"/>': GEOM + "mass is -1 kg; it must be >= 0.",
    '<geom size="1" density="-1"/>': GEOM + "density is -1 kg/m³; it must be >= 0.",
    '<geom size="-1"/>': GEOM + "size is -1 m; it must be >= 0.",
    '<geom size="1" friction="-1"/>': GEOM + "friction is -1; it must be >= 0.",
    '<geom size="nan"/>': GEOM
    + "size holds nan, which is not a finite number; write a finite one.",
    '<geom size="1" pos=" "/>': GEOM + "pos is empty; give it a value or remove it.",
    '<geom size="1" pos="0 0 1e999"/>': GEOM
    + "pos holds 1e999, which is not a finite number; write a finite one.",
    '<geom size="1" pos="0 -inf 0"/>': GEOM
    + "pos holds -inf, which is not a finite number; write a finite one.",
    '<inertial pos="0 0 0" mass="-2" diaginertia="1 1 1"/>': INERTIAL
    + "mass is -2 kg; it must be >= 0.",
    '<inertial pos="0 0 0" mass="1" diaginertia="1 1 -3"/>': INERTIAL
    + "diaginertia is -3 kg·m²; it must be >= 0.",
    '<inertial pos="0 0 0" mass="1" diaginertia="1 1 3"/>': INERTIAL
    + "diaginertia has principal moments 1 1 3 kg·m²; no body has these, because the largest may "
    "not exceed the sum of the other two.",
    '<inertial pos="0 0 0" mass="1" fullinertia="1 1 1 2 0 0"/>': INERTIAL
    + "fullinertia has principal moments -1 1 3 kg·m²; none may be negative.",
    '<body name="c" quat="0 0 0 0"/>': '<string>:5: <body name="c">: quat is zero; a rotation '
    "needs a quaternion of non-zero length.",
    '<joint name="j"/>': '<string>:5: <joint name="j">: the name is taken already at <string>:4; '
    "rename one.",
    '<body name="c"><joint/></body>': '<string>:5: <body name="c">: the body moves but has no mass '
    "or no inertia; give it an <inertial>, or a geom with mass.",
    '<body name="c"><freejoint/><geom size="1"/></body>': '<string>:5: <body name="c">: a free '
    "joint may only stand on a body whose parent is the world; move the body there.",
    '<replicate count="200"><replicate count="100"><geom size="1"/></replicate></replicate>': (
        '<string>:5: <replicate> in <body name="b">: makes 20000 copies; at most 10000 are allowed.'
    ),
}


@pytest.mark.parametrize("body", NONSENSE)
def test_nonsense_in_a_body(body: str) -> None:
    """Refuse nonsense with file, line, element, units and what is allowed."""
    assert message(mjcf(body)) == NONSENSE[body]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (
            '<actuator><motor name="m" joint="j" ctrlrange="1 0"/></actuator>',
            '<string>:8: <motor name="m">: ctrlrange is 1 0; the first number is the lower end and '
            "must not exceed the second.",
        ),
        (
            '<actuator><motor name="m" joint="j" forcerange="1 0"/></actuator>',
            '<string>:8: <motor name="m">: forcerange is 1 0; the first number is the lower end '
            "and must not exceed the second.",
        ),
        (
            '<contact><pair name="p" geom1="g" geom2="g" friction="-1"/></contact>',
            '<string>:8: <pair name="p">: friction is -1; it must be >= 0.',
        ),
        (
            '<actuator><motor name="m" joint="j"/><motor name="m" joint="j"/></actuator>',
            '<string>:8: <motor name="m">: the name is taken already at <string>:8; rename one.',
        ),
    ],
)
def test_nonsense_after_the_bodies(after: str, expected: str) -> None:
    """Refuse nonsense in actuators and contacts."""
    assert message(mjcf(after=after)) == expected


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ('<option timestep="0"/>', "<string>:2: <option>: timestep is 0 s; it must be > 0."),
        (
            '<option viscosity="-1"/>',
            "<string>:2: <option>: viscosity is -1 Pa·s; it must be >= 0.",
        ),
        (
            '<default><joint damping="-1"/></default>',
            "<string>:2: <joint>: damping is -1 N·m·s/rad; it must be >= 0.",
        ),
    ],
)
def test_nonsense_in_options_and_defaults(before: str, expected: str) -> None:
    """Refuse nonsense in options and in default classes."""
    assert message(mjcf(before=before)) == expected


def test_numbers_beyond_any_physical_range() -> None:
    """Refuse a model whose numbers would overflow in a step."""
    heavy = '<body name="c"><joint/><inertial pos="0 0 0" mass="1e300" diaginertia="1 1 1"/></body>'
    assert message(mjcf(heavy)) == (
        "<string>: body_mass holds a number above 1e+15 after compilation; bring the numbers of "
        "the file into a physical range."
    )


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
