"""What the tests of model import share."""

from __future__ import annotations

from typing import Any

import pytest

from featherback.errors import ModelError
from featherback.model.load import parse
from featherback.model.model import Parsed


def mjcf(body: str = "", *, world: str = "", before: str = "", after: str = "") -> str:
    """Return an MJCF model with one body on a hinge; `body` goes inside it, on line 5."""
    return (
        f'<mujoco model="test">\n{before}\n<worldbody>{world}\n'
        f'<body name="b"><joint name="j"/><geom name="g" size="0.1"/>\n{body}\n</body>\n'
        f"</worldbody>\n{after}\n</mujoco>"
    )


def read(text: str, **options: Any) -> Parsed:
    """Read a model from a string."""
    return parse(text, **options)


def message(source: Any, **options: Any) -> str:
    """Return the message with which a model is refused."""
    with pytest.raises(ModelError) as caught:
        parse(source, **options)
    return str(caught.value)


def notes(parsed: Parsed, kind: str) -> list[str]:
    """Return the notices of one kind as text."""
    return [str(notice) for notice in parsed.notices if notice.kind == kind]


INERTIAL = (
    '<inertial><mass value="1"/>'
    '<inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>'
)


def urdf(
    *,
    link: str = INERTIAL,
    joint: str = '<limit lower="-1" upper="1" effort="3" velocity="2"/>',
    kind: str = "revolute",
    more: str = "",
    base: str = INERTIAL,
) -> str:
    """Return a URDF with two links: `link` is line 3, `joint` line 5, `more` line 7."""
    return (
        f'<robot name="arm">\n<link name="base">{base}</link>\n<link name="tip">{link}</link>\n'
        f'<joint name="j" type="{kind}"><parent link="base"/><child link="tip"/>\n{joint}\n'
        f"</joint>\n{more}\n</robot>"
    )
