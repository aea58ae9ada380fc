"""Files that would bring MuJoCo's reader or the file system down are refused before they can."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import featherback as fb
from tests.model.helpers import message, mjcf, notes, read, urdf

ADVICE = '; change it, or pass on_unsupported="drop" to go on without it.'
LONG = "a" * 400
SHOWN = "a" * 77 + "..."
GEOM = '<string>:5: <geom> in <body name="b">: '
NO_PERCENT = "the name of a class may not hold a percent sign, so rename it."


@pytest.mark.parametrize(
    ("before", "body", "expected"),
    [
        ("", '<geom size="1" class="%n%s"/>', f'{GEOM}class is "%n%s"; {NO_PERCENT}'),
        (
            "",
            '<body name="c" childclass="50%"/>',
            f'<string>:5: <body name="c">: childclass is "50%"; {NO_PERCENT}',
        ),
        (
            '<default><default class="a%sb"/></default>',
            "",
            f'<string>:2: <default>: class is "a%sb"; {NO_PERCENT}',
        ),
        (
            '<asset><mesh name="m" class="%n"/></asset>',
            "",
            f'<string>:2: <mesh name="m">: class is "%n"; {NO_PERCENT}',
        ),
    ],
)
def test_percent_sign_in_a_class(before: str, body: str, expected: str) -> None:
    """Refuse what MuJoCo would take for a format of printf, which ends the process."""
    assert message(mjcf(body, before=before)) == expected


def test_percent_sign_elsewhere_is_a_letter() -> None:
    """Accept a percent sign in any other name."""
    assert read(mjcf('<geom name="%n%s" size="1"/>')).mujoco.geom(1).name == "%n%s"


@pytest.mark.parametrize(
    ("before", "place", "what", "left"),
    [
        (
            '<asset><mesh name="m"><plugin/></mesh></asset>',
            '<plugin> in <mesh name="m">',
            "engine plugins are not supported (see docs/support.md#plugin)",
            "<mesh>",
        ),
        (
            "<asset><mesh><plugin/></mesh></asset>",
            "<plugin>",
            "engine plugins are not supported (see docs/support.md#plugin)",
            "<mesh>",
        ),
        (
            "<default><mesh><plugin/></mesh></default>",
            "<plugin>",
            "engine plugins are not supported (see docs/support.md#plugin)",
            "<mesh>",
        ),
        (
            "<asset><model/></asset>",
            "<model>",
            "models attached from other files are not supported (see docs/support.md#attach)",
            "<model>",
        ),
        (
            '<asset><model name="x" file="x.xml"/></asset>',
            '<model name="x">',
            "models attached from other files are not supported (see docs/support.md#attach)",
            "<model>",
        ),
    ],
)
def test_plugins_and_attached_models_never_reach_mujoco(
    before: str, place: str, what: str, left: str
) -> None:
    """Refuse elements whose lack of attributes crashes MuJoCo's reader, and leave them out."""
    text = mjcf(before=before)
    assert message(text) == f"<string>:2: {place}: {what}{ADVICE}"
    parsed = read(text, on_unsupported="drop")
    assert notes(parsed, "dropped") == [f"<string>:2: {place}: {left} is left out."]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (mjcf('<geom size=""/>'), f"{GEOM}size is empty; give it a value or remove it."),
        (mjcf('<geom size="1" user=" "/>'), f"{GEOM}user is empty; give it a value or remove it."),
        (
            mjcf(before='<asset><mesh name="m" vertex=""/></asset>'),
            '<string>:2: <mesh name="m">: vertex is empty; give it a value or remove it.',
        ),
        (
            mjcf(after='<keyframe><key qpos=""/></keyframe>'),
            "<string>:8: <key>: qpos is empty; give it a value or remove it.",
        ),
        (
            mjcf(after='<custom><numeric name="a" data=""/></custom>'),
            '<string>:8: <numeric name="a">: data is empty; give it a value or remove it.',
        ),
        (
            mjcf(after='<custom><numeric name="a" data="1" size=""/></custom>'),
            '<string>:8: <numeric name="a">: size is empty; give it a value or remove it.',
        ),
    ],
)
def test_empty_attributes(text: str, expected: str) -> None:
    """Refuse an attribute that should hold numbers and holds nothing."""
    assert message(text) == expected


def test_urdf_inertia_beyond_any_physical_range() -> None:
    """Refuse an inertia whose principal moments cannot be computed."""
    link = (
        '<inertial><mass value="1"/><inertia ixx="1e308" ixy="1e308" iyy="1" izz="1"/></inertial>'
    )
    assert message(urdf(link=link)) == (
        '<string>:3: <inertia> in <link name="tip">: ixx is 1e+308; at most 1e+15 is allowed.'
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            LONG,
            "a" * 197 + "...: the file cannot be read (File name too long).",
        ),
        (
            mjcf(before=f'<include file="{LONG}"/>'),
            f'<string>:2: <include>: there is no file "{SHOWN}"; check the path.',
        ),
        (
            mjcf(before=f'<asset><mesh name="m" file="{LONG}"/></asset>'),
            f'<string>:2: <mesh name="m">: there is no file "{SHOWN}" (see docs/support.md#files)'
            f"{ADVICE}",
        ),
        (
            mjcf(before=f'<compiler meshdir="{LONG}"/><asset><mesh file="m.stl"/></asset>'),
            '<string>:2: <mesh>: there is no file "m.stl" (see docs/support.md#files)' + ADVICE,
        ),
        (
            urdf(
                link=f'<collision><geometry><mesh filename="{LONG}.stl"/></geometry></collision>',
                kind="fixed",
                base="",
            ),
            f'<string>:3: <mesh> in <link name="tip">: there is no mesh file "{SHOWN}" '
            f"(see docs/support.md#urdf-meshes){ADVICE}",
        ),
    ],
)
def test_file_names_too_long_for_the_system(text: str, expected: str) -> None:
    """Say that there is no such file where the system cannot even ask."""
    assert message(text) == expected


def test_loading_leaves_no_log_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """List MuJoCo's warning of a singular inertia, which it would write into MUJOCO_LOG.TXT."""
    monkeypatch.chdir(tmp_path)
    model = fb.load(mjcf('<joint name="same"/>'))
    assert [str(notice) for notice in model.notices] == [
        '<string>: MuJoCo warns: "Inertia matrix is too close to singular, or the effective-metric '
        'solve failed to converge, at DOF 0. Check model. Time = 0.0000".'
    ]
    fb.Simulator(model).rollout(model.q0, model.v0, steps=2)
    assert os.listdir(tmp_path) == []
    assert capfd.readouterr() == ("", "")
