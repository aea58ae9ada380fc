"""Where a model comes from: paths, strings, includes, assets, and files that mean harm."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest

from featherback.model.load import parse
from tests.model.helpers import INERTIAL, message, mjcf, notes, read, urdf

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
    where = "../parts/b.xml:2: <option>: "
    assert message(tmp_path / "models" / "robot.xml").startswith(f"{where}timestep is -1 s")
    part.write_text('<x>\n<option timestep="x"/></x>')
    text = message(tmp_path / "models" / "robot.xml")
    assert text.startswith(where) and "'timestep'" in text


def test_missing_assets_are_left_out_on_request(tmp_path: Path) -> None:
    """Name every missing file, and go on without them if asked to."""
    path = tmp_path / "robot.xml"
    before = '<compiler meshdir="parts"/><asset><mesh file="m.stl"/><texture file="t.png"/></asset>'
    path.write_text(mjcf(GEOM, before=before))
    assert message(path).startswith('robot.xml:2: <mesh>: there is no file "m.stl"')
    parsed = read(path, on_unsupported="drop")
    (mesh,) = notes(parsed, "dropped")
    assert mesh.startswith("robot.xml:2: <mesh>: ") and '"m.stl"' in mesh
    assert (parsed.mujoco.ngeom, parsed.mujoco.ntex) == (1, 1)


def test_missing_files_that_only_draw_are_replaced(tmp_path: Path) -> None:
    """Load a model whose texture is not there, with a plain one and a notice."""
    path = tmp_path / "robot.xml"
    path.write_text(mjcf(before='<asset><texture type="2d" file="t.png"/></asset>'))
    parsed = read(path)
    (texture,) = notes(parsed, "repaired")
    assert texture.startswith("robot.xml:2: <texture>: ") and '"t.png"' in texture
    assert parsed.mujoco.ntex == 1


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
    where = '<string>:1002: <geom> in <body name="b999">: '
    assert message(text.format('<geom size="0"/>')).startswith(where)


def test_nothing_is_printed_or_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Turn what MuJoCo would print or log into notices."""
    monkeypatch.chdir(tmp_path)
    box = '<geometry><box size="1 1 1"/></geometry></collision>'
    parsed = read(urdf(link=f'{INERTIAL}<collision name="c">{box}<collision name="c">{box}'))
    (notice,) = notes(parsed, "repaired")
    assert notice.startswith('<string>:3: <collision name="c">: ')
    (notice,) = notes(read(mjcf(before='<compiler settotalmass="2"/>')), "ignored")
    assert notice.startswith("<string>: ") and "settotalmass" in notice
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
