"""Where a model comes from: paths, strings, includes, assets, and files that mean harm."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest

from featherback.errors import ModelError, ParameterError
from featherback.model import xmltree
from featherback.model.load import parse
from tests.model.helpers import INERTIAL, message, mjcf, notes, read, urdf

ADVICE = '; change it, or pass on_unsupported="drop" to go on without it.'
GEOM = '<geom type="mesh" mesh="m" contype="0" conaffinity="0"/>'


def test_path_string_and_names(tmp_path: Path) -> None:
    """Load from a path as str or PathLike and from text; the name is the file's own or given."""
    file = tmp_path / "robot.xml"
    file.write_text(mjcf())
    assert parse(file).name == parse(str(file)).name == "test"
    assert parse(file).filename == str(file)
    assert parse(mjcf()).filename is None
    assert parse(file, name="mine").name == "mine"
    file.write_text(mjcf().replace(' model="test"', ""))
    assert parse(file).name == "robot"
    assert parse("\ufeff \n" + mjcf()).name == "test"


@pytest.mark.parametrize(
    ("source", "options", "expected"),
    [
        (
            mjcf(),
            {"format": "urdf"},
            "<string>:1: the root element is <mujoco>; it must be <robot>.",
        ),
        (
            urdf(),
            {"format": "mjcf"},
            "<string>:1: the root element is <robot>; it must be <mujoco>.",
        ),
        (
            "<sdf/>",
            {},
            "<string>:1: the root element is <sdf>; it must be <mujoco> or <robot>.",
        ),
        ("nowhere.xml", {}, "nowhere.xml: there is no such file; check the path."),
        ("no\0where.xml", {}, "no?where.xml: there is no such file; check the path."),
        (".", {}, ".: this is a folder; pass the model file in it."),
        (
            "<mujoco>\n<a>\n</mujoco>",
            {},
            "<string>:3: this is not well-formed XML (mismatched tag); correct the file at this "
            "line.",
        ),
        (
            "<mujoco/>",
            {},
            "<string>: nothing in the model can move; add a joint to the file, or pass "
            "free_root=True if it is URDF.",
        ),
        (
            mjcf("<foo/>"),
            {},
            '<string>:5: <foo> in <body name="b">: this element is not part of MJCF; remove it or '
            "correct its name.",
        ),
        (
            mjcf('<geom foo="1" size="1"/>'),
            {},
            '<string>:5: <geom> in <body name="b">: MuJoCo reports "Schema violation: unrecognized '
            "attribute: 'foo'\"; correct the file.",
        ),
        (
            mjcf('<geom size="wide"/>'),
            {},
            '<string>:5: <geom> in <body name="b">: MuJoCo reports "bad format in attribute '
            "'size'\"; correct the file.",
        ),
        (
            mjcf(before='<asset><mesh name="m" vertex="0 0 0 1 0 0 0 1 0"/></asset>'),
            {},
            '<string>:2: <mesh name="m">: MuJoCo reports "at least 4 vertices required"; correct '
            "the file.",
        ),
    ],
)
def test_what_cannot_be_read(source: str, options: dict[str, str], expected: str) -> None:
    """Say what is wrong with a file, at its line."""
    assert message(source, **options) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"on_unsupported": "ignore"},
            "load(): on_unsupported is 'ignore'; it must be one of 'error', 'drop'.",
        ),
        ({"format": "sdf"}, "load(): format is 'sdf'; it must be one of None, 'mjcf', 'urdf'."),
        (
            {"free_root": True},
            "load(): free_root=True concerns URDF, and <string> is MJCF; add a <freejoint/> or "
            "actuators to the file.",
        ),
        (
            {"motors": True},
            "load(): motors=True concerns URDF, and <string> is MJCF; add a <freejoint/> or "
            "actuators to the file.",
        ),
    ],
)
def test_arguments(options: dict[str, object], expected: str) -> None:
    """Refuse arguments that are not known or do not fit the format."""
    with pytest.raises(ParameterError) as caught:
        parse(mjcf(), **options)  # type: ignore[arg-type]
    assert str(caught.value) == expected


def test_source_must_be_a_path_or_text() -> None:
    """Refuse a source that is neither."""
    with pytest.raises(ParameterError) as caught:
        parse(3)  # type: ignore[arg-type]
    assert str(caught.value) == "load(): source is of type int; pass a path or XML."
    with pytest.raises(ParameterError) as caught:
        parse("")
    assert str(caught.value) == "load(): source is empty; pass a path or XML."


def test_includes_are_followed_and_keep_their_lines(tmp_path: Path) -> None:
    """Follow includes beside the main file and above it, and report lines of the inner file."""
    (tmp_path / "models").mkdir()
    (tmp_path / "parts").mkdir()
    (tmp_path / "models" / "robot.xml").write_text(mjcf(before='<include file="../parts/a.xml"/>'))
    (tmp_path / "parts" / "a.xml").write_text(
        '<mujocoinclude>\n<include file="b.xml"/>\n</mujocoinclude>'
    )
    part = tmp_path / "parts" / "b.xml"
    part.write_text('<x>\n<option timestep="0.5"/></x>')
    assert read(tmp_path / "models" / "robot.xml").mujoco.opt.timestep == 0.5
    part.write_text('<x>\n<option\ntimestep="-1"/></x>')
    assert message(tmp_path / "models" / "robot.xml") == (
        "../parts/b.xml:2: <option>: timestep is -1 s; it must be > 0."
    )
    part.write_text('<x>\n<option timestep="x"/></x>')
    assert message(tmp_path / "models" / "robot.xml") == (
        "../parts/b.xml:2: <option>: MuJoCo reports \"bad format in attribute 'timestep'\"; "
        "correct the file."
    )


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("nope.xml", 'there is no file "nope.xml"; check the path.'),
        (
            "../../../../../../../../../../../etc/passwd",
            '"../../../../../../../../../../../etc/passwd" lies outside the folders this model may '
            "read; keep it at most 4 folders above the model.",
        ),
        (
            "/etc/passwd",
            '"/etc/passwd" lies outside the folders this model may read; keep it at most 4 folders '
            "above the model.",
        ),
        ("", '<include> needs file="..."; name the file.'),
        ("robot.xml", "robot.xml is included twice; a file may be included once."),
    ],
)
def test_includes_are_confined(tmp_path: Path, file: str, expected: str) -> None:
    """Refuse an include that is missing, out of reach, or endless."""
    path = tmp_path / "robot.xml"
    path.write_text(mjcf(before=f'<include file="{file}"/>'))
    assert message(path) == f"robot.xml:2: <include>: {expected}"


def test_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    """Refuse an include that is a link to a file out of reach."""
    (tmp_path / "part.xml").symlink_to("/etc/passwd")
    path = tmp_path / "robot.xml"
    path.write_text(mjcf(before='<include file="part.xml"/>'))
    assert message(path) == (
        'robot.xml:2: <include>: "part.xml" lies outside the folders this model may read; keep it '
        "at most 4 folders above the model."
    )


def test_assets_are_confined_and_missing_ones_refused(tmp_path: Path) -> None:
    """Refuse a mesh out of reach always, and a missing mesh unless asked to go on without it."""
    path = tmp_path / "robot.xml"
    path.write_text(mjcf(GEOM, before='<asset><mesh name="m" file="/etc/passwd"/></asset>'))
    assert message(path, on_unsupported="drop") == (
        'robot.xml:2: <mesh name="m">: "/etc/passwd" lies outside the folders this model may read; '
        "keep it at most 4 folders above the model."
    )
    before = '<compiler meshdir="parts"/><asset><mesh file="m.stl"/><texture file="t.png"/></asset>'
    path.write_text(mjcf(GEOM, before=before))
    lines = message(path).splitlines()
    assert lines[1:] == [
        '  robot.xml:2: <mesh>: there is no file "m.stl" (see docs/support.md#files)',
        '  robot.xml:2: <texture>: there is no file "t.png" (see docs/support.md#files)',
    ]
    parsed = read(path, on_unsupported="drop")
    assert notes(parsed, "dropped") == [
        'robot.xml:2: <mesh>: there is no file "m.stl"; the mesh and the geoms that use it are '
        "left out.",
        'robot.xml:2: <texture>: there is no file "t.png"; a plain grey stands for the texture.',
    ]
    assert (parsed.mujoco.ngeom, parsed.mujoco.ntex) == (1, 1)


def test_meshes_are_found_through_meshdir(tmp_path: Path) -> None:
    """Find a mesh in meshdir, with and without strippath."""
    (tmp_path / "parts").mkdir()
    vertices = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
    (tmp_path / "parts" / "m.obj").write_text(vertices)
    path = tmp_path / "robot.xml"
    for compiler, file in (("", "m.obj"), ('strippath="true"', "elsewhere/m.obj")):
        before = f'<compiler meshdir="parts" {compiler}/><asset><mesh file="{file}"/></asset>'
        path.write_text(mjcf(GEOM, before=before))
        assert read(path).mujoco.mesh_vertnum.tolist() == [4]


def test_entities_are_refused() -> None:
    """Refuse a document type and entities before they are expanded."""
    text = '<!DOCTYPE m [<!ENTITY a "b">]>\n<mujoco model="&a;"/>'
    assert message(text) == (
        "<string>:1: <!DOCTYPE> and entity declarations are not allowed; remove them."
    )


def test_size_depth_and_count_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse a file that is too large, too deep or has too many elements."""
    deep = "<a>" * 2600 + "</a>" * 2600
    assert message(f"<mujoco>{deep}</mujoco>") == (
        "<string>:1: elements are nested more than 2500 deep; simplify the model."
    )
    monkeypatch.setattr(xmltree, "MAX_BYTES", 100)
    assert message("<mujoco>" + " " * 100 + "</mujoco>") == (
        "<string>:1: the file has 117 bytes; at most 100 are read, so move large arrays into mesh "
        "files."
    )
    monkeypatch.setattr(xmltree, "MAX_ELEMENTS", 2)
    assert message("<mujoco><a/><a/></mujoco>") == (
        "<string>:1: the file has more than 2 elements; split the model or simplify it."
    )


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ('<size nkey="1000000"/>', "<size>: nkey is 1000000; at most 10000 is allowed."),
        ('<size nuser_body="1e9"/>', "<size>: nuser_body is 1000000000; at most 1000 is allowed."),
        (
            '<asset><texture name="t" builtin="flat" width="1000000" height="9"/></asset>',
            '<texture name="t">: width is 1000000; at most 16384 is allowed.',
        ),
    ],
)
def test_sizes_that_exhaust_memory(before: str, expected: str) -> None:
    """Refuse sizes that would only exhaust memory."""
    assert message(mjcf(before=before)) == f"<string>:2: {expected}"


def test_unreadable_encoding() -> None:
    """Refuse a text encoding that is not known."""
    text = b'<?xml version="1.0" encoding="nonsense"?><mujoco/>'
    with pytest.raises(ModelError) as caught:
        xmltree.parse(text, "a.xml")
    assert str(caught.value) == (
        "a.xml:1: the text encoding of this file cannot be read; save it as UTF-8."
    )


def test_long_chains_exceed_the_nesting_of_mujocos_reader() -> None:
    """Load 1000 nested bodies, with classes from their ancestors and lines in messages."""
    link = '<body name="b{0}" pos="0 0 1"{1}><joint name="j{0}"/><geom size="0.1" contype="0"/>\n'
    links = "".join(link.format(i, ' childclass="c"' if i == 0 else "") for i in range(1000))
    default = '<default><default class="c"><joint damping="3"/></default></default>'
    text = f"<mujoco>\n{default}<worldbody>{links}{{}}{'</body>' * 1000}</worldbody></mujoco>"
    parsed = read(text.format(""))
    assert parsed.mujoco.nv == 1000
    assert (parsed.mujoco.body_parentid[1:] == range(1000)).all()
    assert (parsed.mujoco.dof_damping == 3).all()
    assert [parsed.mujoco.joint(i).name for i in (0, 999)] == ["j0", "j999"]
    assert parsed.notices == ()
    assert message(text.format('<geom size="0"/>')) == (
        '<string>:1002: <geom> in <body name="b999">: MuJoCo reports "size 0 must be positive in '
        'geom"; correct the file.'
    )


def test_nothing_is_printed_or_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Turn what MuJoCo would print or log into notices."""
    monkeypatch.chdir(tmp_path)
    box = '<geometry><box size="1 1 1"/></geometry></collision>'
    parsed = read(urdf(link=f'{INERTIAL}<collision name="c">{box}<collision name="c">{box}'))
    assert notes(parsed, "repaired") == [
        '<string>:3: <collision name="c">: the name is taken; the shape stays without one.'
    ]
    parsed = read(mjcf(before='<compiler settotalmass="2"/>'))
    assert notes(parsed, "ignored") == [
        "<string>: MuJoCo warns: \"compiler attribute 'settotalmass' is deprecated and will be "
        "removed in a future release: scale the masses and densities in the model, or call "
        'mj_setTotalmass and mj_setConst on the compiled model".'
    ]
    assert capfd.readouterr() == ("", "")
    assert os.listdir(tmp_path) == []


def test_mujoco_is_imported_only_to_load() -> None:
    """Import the layer of models without MuJoCo."""
    code = "import sys, featherback.model; assert 'mujoco' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_supported_models_compile_to_the_same_arrays_as_in_mujoco() -> None:
    """Compare every array of the compiled model with MuJoCo's own reading of the text."""
    text = mjcf(
        '<frame euler="10 20 30"><geom class="c" pos="1 0 0"/></frame>'
        '<replicate count="3" offset="0.5 0 0"><site name="s" pos="0 0 1"/></replicate>'
        '<body childclass="c"><joint type="ball" range="0 90"/><geom fromto="0 0 0 0 0 1"/></body>',
        before='<compiler eulerseq="zyx"/><default><default class="c"><geom type="capsule" '
        'size="0.1 0.2" friction="0.3"/><joint damping="2"/></default></default>',
        world='<geom type="plane" size="0 0 1"/>',
        after='<actuator><position joint="j" kp="3" dampratio="1" ctrlrange="-1 1"/></actuator>'
        '<contact><exclude body1="b" body2="world"/></contact>'
        '<keyframe><key name="home" qpos="0.5 1 0 0 0"/></keyframe>',
    )
    ours, theirs = read(text).mujoco, mujoco.MjModel.from_xml_string(text)
    compared = 0
    for name in dir(theirs):
        expected = getattr(theirs, name)
        if isinstance(expected, np.ndarray):
            np.testing.assert_array_equal(getattr(ours, name), expected, name)
            compared += 1
    assert compared > 300
