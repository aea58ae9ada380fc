"""Values without physical meaning in MJCF."""

from __future__ import annotations

from typing import Any

from featherback.errors import ModelError, ParameterError
from featherback.model.load import parse
from featherback.model.model import Model
from tests.golden.sentences import Case, raises
from tests.model.helpers import mjcf, read

JOINT = '<string>:5: <joint> in <body name="b">'
GEOM = '<string>:5: <geom> in <body name="b">'
INERTIAL = '<string>:5: <inertial> in <body name="b">'
KEYS = '<keyframe><key name="home" qpos="0.5" qvel="2"/><key qpos="1"/></keyframe>'


def _value(name: str, text: str, *names: str) -> Case:
    """Return the case of a model with a value without meaning."""
    return raises(f"value: {name}", ModelError, lambda: parse(text), *names)


def _keyframe(name: str, which: Any, *names: str, keys: str = KEYS) -> Case:
    """Return the case of a keyframe that is not there."""

    def call() -> None:
        Model(read(mjcf(after=keys)), None).keyframe(which)  # type: ignore[arg-type]

    return raises(f"keyframe: {name}", ParameterError, call, 'keyframe(): model "test"', *names)


def _inertial(mass: str, inertia: str) -> str:
    """Return a model with an <inertial>."""
    return mjcf(f'<inertial pos="0 0 0" mass="{mass}" {inertia}/>')


BODY = [
    _value(
        "damping of a hinge",
        mjcf('<joint name="k" damping="-0.5"/>'),
        '<string>:5: <joint name="k">',
        "damping is -0.5 N·m·s/rad",
    ),
    _value(
        "damping of a slide",
        mjcf('<joint type="slide" damping="-1"/>'),
        JOINT,
        "damping is -1 N·s/m",
    ),
    _value("stiffness", mjcf('<joint stiffness="-1"/>'), JOINT, "stiffness is -1 N·m/rad"),
    _value("armature", mjcf('<joint armature="-1"/>'), JOINT, "armature is -1 kg·m²"),
    _value("frictionloss", mjcf('<joint frictionloss="-1"/>'), JOINT, "frictionloss is -1 N·m"),
    _value("axis", mjcf('<joint axis="0 0 0"/>'), JOINT, "axis"),
    _value("range", mjcf('<joint range="1 -1"/>'), JOINT, "range is 1 -1"),
    _value("mass of a geom", mjcf('<geom size="1" mass="-1"/>'), GEOM, "mass is -1 kg"),
    _value("density", mjcf('<geom size="1" density="-1"/>'), GEOM, "density is -1 kg/m³"),
    _value("size", mjcf('<geom size="-1"/>'), GEOM, "size is -1 m"),
    _value("friction", mjcf('<geom size="1" friction="-1"/>'), GEOM, "friction is -1"),
    _value("NaN", mjcf('<geom size="nan"/>'), GEOM, "size", "nan"),
    _value("an overflow", mjcf('<geom size="1" pos="0 0 1e999"/>'), GEOM, "pos", "1e999"),
    _value("an infinity", mjcf('<geom size="1" pos="0 -inf 0"/>'), GEOM, "pos", "-inf"),
    _value("mass", _inertial("-2", 'diaginertia="1 1 1"'), INERTIAL, "mass is -2 kg"),
    _value("moment", _inertial("1", 'diaginertia="1 1 -3"'), INERTIAL, "diaginertia is -3"),
    _value("triangle", _inertial("1", 'diaginertia="1 1 3"'), INERTIAL, "diaginertia", "1 1 3"),
    _value(
        "full inertia",
        _inertial("1", 'fullinertia="1 1 1 2 0 0"'),
        INERTIAL,
        "fullinertia",
        "-1 1 3",
    ),
    _value("quat", mjcf('<body name="c" quat="0 0 0 0"/>'), '<string>:5: <body name="c">', "quat"),
    _value(
        "a name twice",
        mjcf('<joint name="j"/>'),
        '<string>:5: <joint name="j">',
        "<string>:4",
    ),
    _value(
        "a body without mass", mjcf('<body name="c"><joint/></body>'), '<string>:5: <body name="c">'
    ),
    _value(
        "a free joint below the top",
        mjcf('<body name="c"><freejoint/><geom size="1"/></body>'),
        '<string>:5: <body name="c">',
        "free joint",
    ),
    _value(
        "replicate",
        mjcf(
            '<replicate count="200"><replicate count="100"><geom size="1"/></replicate></replicate>'
        ),
        '<string>:5: <replicate> in <body name="b">',
        "20000",
    ),
    _value(
        "an enormous mass",
        mjcf(
            '<body name="c"><joint/><inertial pos="0 0 0" mass="1e300" diaginertia="1 1 1"/></body>'
        ),
        "<string>: body_mass",
    ),
]

AROUND = [
    _value(
        "ctrlrange",
        mjcf(after='<actuator><motor name="m" joint="j" ctrlrange="1 0"/></actuator>'),
        '<string>:8: <motor name="m">',
        "ctrlrange is 1 0",
    ),
    _value(
        "forcerange",
        mjcf(after='<actuator><motor name="m" joint="j" forcerange="1 0"/></actuator>'),
        '<string>:8: <motor name="m">',
        "forcerange is 1 0",
    ),
    _value(
        "friction of a pair",
        mjcf(after='<contact><pair name="p" geom1="g" geom2="g" friction="-1"/></contact>'),
        '<string>:8: <pair name="p">',
        "friction is -1",
    ),
    _value(
        "an actuator's name twice",
        mjcf(after='<actuator><motor name="m" joint="j"/><motor name="m" joint="j"/></actuator>'),
        '<string>:8: <motor name="m">',
        "<string>:8",
    ),
    _value(
        "timestep", mjcf(before='<option timestep="0"/>'), "<string>:2: <option>", "timestep is 0 s"
    ),
    _value(
        "viscosity",
        mjcf(before='<option viscosity="-1"/>'),
        "<string>:2: <option>",
        "viscosity is -1 Pa·s",
    ),
    _value(
        "a default",
        mjcf(before='<default><joint damping="-1"/></default>'),
        "<string>:2: <joint>",
        "damping is -1",
    ),
]

KEYFRAMES = [
    _keyframe("none at all", "home", "no keyframes", keys=""),
    _keyframe("a name that is near", "hme", '"hme"', '"home"'),
    _keyframe("an empty name", "", '""', '"home", 1'),
    _keyframe("a number too large", 2, "2"),
    _keyframe("a fraction", 0.5, "0.5"),
]

LAWS = [
    raises(
        "mujoco_for: an unknown law",
        ParameterError,
        lambda: Model(read(mjcf()), None).mujoco_for("soft"),  # type: ignore[arg-type]
        "mujoco_for()",
        "'soft'",
    )
]

CASES = [*BODY, *AROUND, *KEYFRAMES, *LAWS]
