"""Files, names and values that MuJoCo takes and a loader easily trips over."""

from __future__ import annotations

import os
import re
from pathlib import Path

import mujoco
import numpy as np
import pytest

import featherback as fb
from featherback.model.load import parse
from tests.model.helpers import INERTIAL, message, mjcf, notes, read, urdf

OBJECT = "v 0 0 0\nv {0} 0 0\nv 0 {0} 0\nv 0 0 {0}\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
GEOM = '<geom type="mesh" mesh="m" contype="0" conaffinity="0"/>'
ASSET = '<mujoco><asset><mesh name="m" file="{}"/></asset></mujoco>'


def write(path: Path, text: str) -> Path:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def width(model: mujoco.MjModel) -> float:
    """Return the width of the vertices of the meshes of a model."""
    return float(np.ptp(model.mesh_vert))


# ------------------------------------------------------------------ files of included files


@pytest.mark.parametrize("compiler", ["", '<compiler meshdir="parts"/>'])
@pytest.mark.parametrize(
    "places",
    [
        ["sub/m.obj"],
        ["m.obj", "sub/m.obj"],
        ["parts/m.obj", "sub/m.obj"],
        ["sub/parts/m.obj"],
        ["m.obj"],
    ],
    ids=" ".join,
)
def test_files_of_an_included_file_are_those_of_mujoco(
    tmp_path: Path, places: list[str], compiler: str
) -> None:
    """Look beside the model, then beside the included file, and find what MuJoCo finds."""
    include = '<include file="sub/part.xml"/>'
    path = write(tmp_path / "robot.xml", mjcf(GEOM, before=compiler + include))
    write(tmp_path / "sub" / "part.xml", ASSET.format("m.obj"))
    for size, place in enumerate(places, 1):
        write(tmp_path / place, OBJECT.format(size))
    try:
        expected = width(mujoco.MjModel.from_xml_path(str(path)))
    except ValueError:
        assert '"m.obj"' in message(path)
    else:
        parsed = read(path)
        assert width(parsed.mujoco) == expected
        assert not notes(parsed, "dropped")


def test_files_of_nested_includes(tmp_path: Path) -> None:
    """Look beside the file that names the mesh, however deep its include lies."""
    path = write(tmp_path / "robot.xml", mjcf(GEOM, before='<include file="sub/part.xml"/>'))
    write(tmp_path / "sub" / "part.xml", '<mujoco><include file="deep/mesh.xml"/></mujoco>')
    write(tmp_path / "sub" / "deep" / "mesh.xml", ASSET.format("m.obj"))
    write(tmp_path / "sub" / "deep" / "m.obj", OBJECT.format(1))
    assert read(path).mujoco.nmesh == mujoco.MjModel.from_xml_path(str(path)).nmesh == 1


@pytest.mark.parametrize(
    "compiler",
    [
        '<compiler assetdir="a"/>',
        '<compiler assetdir="a" meshdir=""/>',
        '<compiler assetdir="a" meshdir="b"/>',
        '<compiler meshdir="a"/><compiler assetdir="b"/>',
        '<compiler assetdir="a"/><compiler meshdir="b"/>',
    ],
)
def test_folders_of_assets_are_those_of_mujoco(tmp_path: Path, compiler: str) -> None:
    """Take the folder that MuJoCo takes where assetdir and meshdir are both given."""
    for size, folder in enumerate(("", "a", "b"), 1):
        write(tmp_path / folder / "m.obj", OBJECT.format(size))
    before = f'{compiler}<asset><mesh name="m" file="m.obj"/></asset>'
    path = write(tmp_path / "robot.xml", mjcf(GEOM, before=before))
    assert width(read(path).mujoco) == width(mujoco.MjModel.from_xml_path(str(path)))


# ------------------------------------------------------------------------- other folders


def test_assets_in_other_folders_on_request(tmp_path: Path) -> None:
    """Read meshes and includes that lie far away or behind a link only where told to."""
    store = tmp_path / "store"
    write(store / "meshes" / "m.obj", OBJECT.format(1))
    write(store / "part.xml", '<mujoco><option timestep="0.5"/></mujoco>')
    home = tmp_path / "a" / "b" / "c" / "d" / "e"
    far = "../../../../../store"
    named = f'<include file="{far}/part.xml"/>' + ASSET[8:-9].format(f"{far}/meshes/m.obj")
    path = write(home / "robot.xml", mjcf(GEOM, before=named))
    for options in ({}, {"on_unsupported": "drop"}, {"asset_folders": [store / "meshes"]}):
        said = message(path, **options)
        assert "outside the folders" in said and "asset_folders" in said
    parsed = read(path, asset_folders=[str(store)])
    assert (parsed.mujoco.nmesh, parsed.mujoco.opt.timestep) == (1, 0.5)
    (home / "linked").symlink_to(store / "meshes")
    path.write_text(mjcf(GEOM, before=ASSET[8:-9].format("linked/m.obj")))
    assert "outside the folders" in message(path)
    assert read(path, asset_folders=[store]).mujoco.nmesh == 1


def test_assets_are_looked_for_in_other_folders(tmp_path: Path) -> None:
    """Find the files of a text or a URDF in the folders given, after the model's own."""
    write(tmp_path / "robot" / "meshes" / "m.obj", OBJECT.format(1))
    text = mjcf(GEOM, before='<compiler meshdir="meshes"/>' + ASSET[8:-9].format("m.obj"))
    for folder in (tmp_path / "robot", tmp_path / "robot" / "meshes"):
        assert read(text, asset_folders=[folder]).mujoco.nmesh == 1
    mesh = '<geometry><mesh filename="package://robot/meshes/m.obj"/></geometry>'
    text = urdf(link=f"{INERTIAL}<collision>{mesh}</collision>")
    assert '"package://robot/meshes/m.obj"' in message(text)
    for folder in (tmp_path, tmp_path / "robot"):
        assert read(text, asset_folders=[folder]).mujoco.nmesh == 1


# ---------------------------------------------------------------------- empty attributes


def test_empty_attributes_count_as_absent() -> None:
    """Read an empty attribute as MuJoCo does: the default of its class holds."""
    default = '<default><geom friction="0.3" rgba="1 0 0 1" mass="3" pos="0 0 1"/></default>'
    text = mjcf(
        '<geom size="0.2" friction="" rgba="" mass="" pos=" " euler=""/>'
        '<body pos=""><joint axis="" range="" damping=""/><geom size="0.1" margin=""/></body>',
        before=f'<compiler meshdir=""/><option timestep="" gravity=""/>{default}',
        after='<actuator><motor joint="j" gear="" ctrlrange=""/></actuator>'
        '<keyframe><key name="" qpos=""/></keyframe>',
    )
    parsed, theirs = read(text), mujoco.MjModel.from_xml_string(text)
    for name in "geom_friction geom_rgba geom_pos body_mass body_pos jnt_axis jnt_range".split():
        assert np.array_equal(getattr(parsed.mujoco, name), getattr(theirs, name)), name
    assert np.array_equal(parsed.mujoco.actuator_gear, theirs.actuator_gear)
    assert np.array_equal(parsed.mujoco.key_qpos, theirs.key_qpos)
    repaired = notes(parsed, "repaired")
    assert any(n.startswith('<string>:5: <geom> in <body name="b">: friction') for n in repaired)


@pytest.mark.parametrize(
    "text",
    [
        mjcf('<geom size="0.2" class=""/>'),
        mjcf('<body childclass=""><joint/><geom size="0.1"/></body>'),
        mjcf('<frame childclass=""><geom size="0.1"/></frame>'),
        mjcf('<geom size="0.2" material=""/>'),
        mjcf('<site class="" material=""/>'),
        mjcf(after='<actuator><motor class="" joint="j" tendon=""/></actuator>'),
        mjcf(after='<equality><joint joint1="j" joint2=""/></equality>'),
        mjcf('<camera target=""/>'),
    ],
)
def test_empty_names_count_as_absent(text: str) -> None:
    """Read an empty class or reference as if it were not there, with a notice."""
    (first, *_) = notes(parsed := read(text), "repaired")
    assert "counts as absent" in first
    bare = re.sub(r' \w+=""', "", text)
    theirs = mujoco.MjModel.from_xml_string(bare)
    for size in "nbody njnt ngeom nsite nu neq ncam".split():
        assert getattr(parsed.mujoco, size) == getattr(theirs, size)
    assert np.array_equal(parsed.mujoco.geom_size, theirs.geom_size)


# ----------------------------------------------------------------- floating joints of URDF


def floating(more: str = "", parent: str = "base", base: str = "") -> str:
    """Return a URDF whose trunk floats above a link."""
    return (
        f'<robot name="r"><link name="base">{base}</link><link name="trunk">{INERTIAL}</link>'
        f'<joint name="f" type="floating"><parent link="{parent}"/><child link="trunk"/>'
        f'<origin xyz="0.1 0.2 0.3" rpy="0.3 0.2 0.1"/></joint>{more}</robot>'
    )


MOUNT = (
    '<link name="mount"/><joint name="m" type="fixed"><parent link="base"/><child link="mount"/>'
    '<origin xyz="1 2 3" rpy="0.5 -0.4 0.7"/></joint>'
)
SHAPE = '<collision><geometry><box size="1 1 1"/></geometry></collision>'


@pytest.mark.parametrize(
    "text",
    [
        floating(),
        floating(base=INERTIAL + SHAPE),
        floating(MOUNT, "mount"),
        floating(MOUNT, "mount").replace('"base"', '"world"'),
        floating().replace('"base"', '"world"'),
    ],
    ids=["root", "heavy root", "mount", "mount on the world", "world"],
)
def test_a_floating_joint_under_any_root(text: str) -> None:
    """Let a link float that hangs on a root or on what is fixed to it, posed as in MuJoCo."""
    parsed, theirs = read(text), mujoco.MjModel.from_xml_string(text)
    assert parsed.mujoco.nv == theirs.nv == 6
    assert parsed.mujoco.jnt_type.tolist() == [int(mujoco.mjtJoint.mjJNT_FREE)]
    assert parsed.mujoco.joint(0).name == "f"
    assert parsed.mujoco.qpos0 == pytest.approx(theirs.qpos0, abs=1e-12)
    assert fb.load(text, motors=True).nu == 0


def test_a_free_root_above_which_a_link_floats() -> None:
    """Free a root that is a body of its own, and refuse to free one that is a mere name."""
    assert read(floating(base=INERTIAL + SHAPE), free_root=True).mujoco.nv == 12
    assert "free_root=True" in message(floating(), free_root=True)


def test_a_floating_joint_on_a_moving_link_is_refused() -> None:
    """Refuse what MuJoCo refuses: a link that floats on one that moves."""
    arm = floating(MOUNT.replace('"fixed"', '"continuous"'), "mount")
    assert "free joint" in message(arm.replace('<link name="mount"/>', MASSIVE))


MASSIVE = f'<link name="mount">{INERTIAL}</link>'


def test_a_free_root_fixed_in_the_world_gets_a_mass() -> None:
    """Give mass to a link without any that free_root takes from the world."""
    massless = '<inertial><mass value="0"/><inertia ixx="0.1" iyy="0.1" izz="0.1"/></inertial>'
    text = (
        '<robot name="r"><link name="world"/><joint name="f" type="fixed"><parent link="world"/>'
        f'<child link="table"/></joint><link name="table">{massless}{SHAPE}</link></robot>'
    )
    parsed = read(text, free_root=True)
    assert parsed.mujoco.nv == 6
    assert parsed.mujoco.body_mass[1] == pytest.approx(1000)
    assert "table" in notes(parsed, "repaired")[0]


def test_spherical_joints_are_balls() -> None:
    """Read a spherical joint as MuJoCo does, with its damping and dry friction."""
    text = urdf(kind="spherical", joint='<dynamics damping="2" friction="3"/>')
    ours, theirs = read(text).mujoco, mujoco.MjModel.from_xml_string(text)
    assert ours.jnt_type.tolist() == theirs.jnt_type.tolist() == [int(mujoco.mjtJoint.mjJNT_BALL)]
    assert np.array_equal(ours.dof_damping, theirs.dof_damping)
    assert np.array_equal(ours.dof_frictionloss, theirs.dof_frictionloss)
    velocity, limit, effort = notes(read(urdf(kind="spherical")), "ignored")
    assert "velocity" in velocity and "without limit" in limit and "not limited" in effort


# ---------------------------------------------------------- what is dropped in model.mujoco


def test_directions_of_friction_are_dropped_in_mujoco_for_the_law_without_them() -> None:
    """Keep frictions that differ in two directions for the law that has them, and no others."""
    text = mjcf(
        world='<geom name="w" type="plane" size="1 1 1" condim="6"/>',
        after='<contact><pair geom1="w" geom2="g" condim="6" friction="0.5 0.2 0.1 0.02 0.03"/>'
        "</contact>",
    )
    model = fb.load(text, on_unsupported="drop")
    soft, hard = model.mujoco_for("mujoco"), model.mujoco_for("hard")
    assert soft is model.mujoco
    assert soft.pair_friction[0].tolist() == [0.5, 0.2, 0.1, 0.02, 0.03]
    assert hard.pair_friction[0].tolist() == [0.5, 0.5, 0.1, 0.02, 0.02]
    for model in (soft, hard):
        assert (model.geom_condim.max(), model.pair_dim.tolist()) == (6, [6])


# --------------------------------------------------------------------------- dangling names

NAMED = (
    '<contact><exclude body1="b" body2="{b}"/><pair geom1="g" geom2="{g}"/></contact>'
    '<tendon><fixed name="t"><joint joint="{j}" coef="1"/></fixed>'
    '<spatial name="u"><site site="s"/><site site="{s}"/></spatial>'
    '<spatial name="w"><site site="s"/><geom geom="{g}"/><site site="o"/></spatial></tendon>'
    '<equality><weld body1="b" body2="{b}"/><joint joint1="j" joint2="{j}"/>'
    '<tendon tendon1="t"/></equality>'
    '<actuator><motor name="a" joint="{j}"/><motor name="k" joint="j"/>'
    '<motor tendon="u"/><motor site="s" refsite="{s}"/></actuator>'
    '<sensor><jointpos joint="{j}"/><jointpos joint="j"/><framepos objtype="body" objname="{b}"/>'
    '<framepos objtype="site" objname="s" reftype="body" refname="{b}"/><actuatorpos actuator="a"/>'
    "</sensor>"
    '<custom><tuple name="p"><element objtype="body" objname="{b}"/></tuple></custom>'
    '<keyframe><key name="home" qpos="0 0" ctrl="0 0 0 0"/></keyframe>'
)


def test_what_names_something_dropped_is_dropped_with_it(tmp_path: Path) -> None:
    """Go on without everything that names parts of an attached model, with a notice each."""
    inner = (
        '<mujoco><worldbody><body name="b"><joint name="j"/><geom name="g" size="0.1"/>'
        '<site name="s" pos="1 0 0"/></body></worldbody></mujoco>'
    )
    write(tmp_path / "inner.xml", inner)
    names = {key: f"x_{key}" for key in "bgjs"}
    text = mjcf(
        '<site name="s"/><camera mode="targetbody" target="x_b"/>',
        before='<asset><model name="inner" file="inner.xml"/></asset>',
        world='<site name="o" pos="0 0 1"/><attach model="inner" body="b" prefix="x_"/>',
        after=NAMED.format(**names),
    )
    path = write(tmp_path / "robot.xml", text)
    assert mujoco.MjModel.from_xml_path(str(path)).nu == 4
    assert "attached" in message(path)
    parsed = read(path, on_unsupported="drop")
    model = parsed.mujoco
    assert (model.nq, model.nu, model.nkey, model.nsensor) == (1, 1, 0, 1)
    assert (model.neq, model.ntendon, model.npair, model.nexclude) == (0, 0, 0, 0)
    assert model.actuator(0).name == "k"
    dropped = "\n".join(notes(parsed, "dropped"))
    for part in ("<exclude>", "<pair>", '<fixed name="t">', '<spatial name="u">', "<weld>"):
        assert part in dropped
    for part in ("<jointpos>", '<motor name="a">', "<camera>", '<tuple name="p">'):
        assert part in dropped
    assert 'robot.xml:8: <key name="home">: qpos' in dropped
    assert 'it names the body "x_b"' in dropped


def test_a_wrong_name_is_still_an_error() -> None:
    """Refuse a name that never existed where nothing that has names was dropped."""
    text = mjcf(
        before='<option o_friction="1 0.5 0.1 0.01 0.01"><flag override="enable"/></option>',
        after='<contact><exclude body1="b" body2="nobody"/></contact>',
    )
    assert "nobody" in message(text, on_unsupported="drop")
    text = mjcf('<geom type="mesh" mesh="none"/>', before='<asset><mesh file="m.stl"/></asset>')
    assert "mesh 'none' not found" in message(text, on_unsupported="drop")


@pytest.mark.parametrize(
    "removed",
    [
        '<composite prefix="x_" type="cable" curve="s" count="5 1 1" size="1" offset="0 0 1">'
        '<joint kind="main"/><geom type="capsule" size="0.01"/></composite>',
        '<flexcomp name="x" type="grid" count="3 1 1" spacing="1 1 1" radius="0.1" dim="1">'
        '<pin id="0"/></flexcomp>',
    ],
    ids=["composite", "flexcomp"],
)
def test_bodies_that_a_dropped_element_would_make(removed: str) -> None:
    """Leave out what names the bodies of a composite or a flex, and keep the rest."""
    composite = "composite" in removed
    name = "x_B_first" if composite else "x_1"
    text = mjcf(
        world=removed,
        after=f'<contact><exclude body1="b" body2="{name}"/></contact>'
        f'<equality><connect body1="b" body2="{name}" anchor="0 0 0"/></equality>'
        f'<sensor><framepos objtype="body" objname="{name}"/></sensor>',
    )
    # MuJoCo 4 has no composites
    assert composite or mujoco.MjModel.from_xml_string(text).nexclude == 1
    parsed = read(text, on_unsupported="drop")
    model = parsed.mujoco
    assert (model.nexclude, model.neq, model.nsensor, model.nv) == (0, 0, 0, 1)
    assert len(notes(parsed, "dropped")) == 4


def test_meshes_of_a_class_go_with_their_geoms(tmp_path: Path) -> None:
    """Leave out geoms whose missing mesh is named by their class, and what names those geoms."""
    text = mjcf(
        '<geom name="h" class="c"/><site name="s"/>',
        before='<default><default class="c"><geom type="mesh" mesh="m"/></default></default>'
        '<asset><mesh name="m" file="m.stl"/></asset>',
        world='<geom name="w" type="plane" size="1 1 1"/>',
        after='<contact><pair geom1="w" geom2="h"/></contact>',
    )
    parsed = read(write(tmp_path / "robot.xml", text), on_unsupported="drop")
    assert (parsed.mujoco.ngeom, parsed.mujoco.npair) == (2, 0)
    assert len(notes(parsed, "dropped")) == 2


def test_a_failure_after_something_was_dropped_says_so(tmp_path: Path) -> None:
    """Name what was left out where the rest cannot be simulated."""
    text = (
        '<mujoco>\n<asset><mesh name="m" file="m.stl"/></asset><worldbody><body name="b"><joint/>'
        '<geom type="mesh" mesh="m"/></body></worldbody></mujoco>'
    )
    said = message(write(tmp_path / "robot.xml", text), on_unsupported="drop")
    assert "no mass" in said and '"m.stl"' in said
    assert parse(write(tmp_path / "robot.xml", mjcf())).notices == ()
    assert os.listdir(tmp_path) == ["robot.xml"]


@pytest.mark.parametrize("made", ["joint", "tendon"])
def test_a_typo_stays_a_typo_where_a_mesh_was_left_out(made: str) -> None:
    """A missing mesh takes along what names its geoms, and nothing else."""
    text = f"""<mujoco><asset><mesh name="m" file="nowhere.obj"/></asset><worldbody>
    <body><joint name="h"/><geom size="0.1"/><geom type="mesh" mesh="m"/></body></worldbody>
    <actuator><motor {made}="typo"/></actuator></mujoco>"""
    with pytest.raises(fb.ModelError, match="typo"):
        fb.load(text, on_unsupported="drop")
    assert fb.load(text.replace(f'{made}="typo"', 'joint="h"'), on_unsupported="drop").nu == 1


@pytest.mark.parametrize("kind", ["planar", "floating", "spherical"])
def test_limits_of_joints_with_several_dofs_are_told(kind: str) -> None:
    """Limits and efforts of such a joint act nowhere, and the report says so."""
    body = """<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>
    </inertial>"""
    model = fb.load(
        f"""<robot name="r"><link name="a">{body}</link><link name="b">{body}</link>
        <joint name="j" type="{kind}"><parent link="a"/><child link="b"/>
        <limit lower="-1" upper="1" effort="5" velocity="1"/></joint></robot>"""
    )
    said = " ".join(notice.message for notice in model.notices)
    assert f"lower and upper have no meaning for a {kind} joint" in said
    assert f"effort has no meaning for a {kind} joint" in said
    assert not model.mujoco.jnt_limited.any() and not model.mujoco.jnt_actfrcrange.any()


# ------------------------------------------------------------------------- older versions


CLASS = '<geom size="0.3"/><default class="b"/>'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('<option apirate="100" mpr_iterations="50" collision="all"/>', ""),
        ('<compiler convexhull="true" exactmeshinertia="true"/>', ""),
        ('<option><flag sensornoise="enable"/></option>', ""),
        (
            '<option><flag passive="disable"/></option>',
            '<option><flag spring="disable" damper="disable"/></option>',
        ),
        (
            f'<default class="a">{CLASS}</default>',
            f'<default><default class="a">{CLASS}</default></default>',
        ),
    ],
)
def test_files_of_older_versions(old: str, new: str) -> None:
    """Read what older versions of MuJoCo wrote as what the present one calls it, and say so."""
    inner = '<geom class="b"/>' if "default" in old else ""
    parsed = read(mjcf(inner, before=old))
    theirs = mujoco.MjModel.from_xml_string(mjcf(inner, before=new))
    assert parsed.mujoco.opt.disableflags == theirs.opt.disableflags
    assert np.array_equal(parsed.mujoco.geom_size, theirs.geom_size)
    assert len(parsed.notices) > 0


def test_pairs_alone_stay_refused() -> None:
    """Refuse an old option whose meaning the present MuJoCo has not."""
    assert "collision" in message(mjcf(before='<option collision="predefined"/>'))


def test_numbers_with_commas_are_those_without() -> None:
    """Place a joint where its numbers say, commas left out."""
    text = urdf(joint='<origin xyz="0.5, -2, 3"/><limit lower="-1" upper="1"/>')
    assert read(text).mujoco.body_pos[2].tolist() == [0.5, -2, 3]
