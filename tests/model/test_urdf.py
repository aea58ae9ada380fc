"""URDF: what is read, repaired, refused and listed."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest

from featherback.model import meshes
from featherback.model.urdf_inertia import balanced
from tests.model.helpers import INERTIAL, message, notes, read, urdf

ADVICE = '; change it, or pass on_unsupported="drop" to go on without it.'
VELOCITY = '<string>:5: <limit> in <joint name="j">: velocity of <limit> has no meaning here.'
LIMIT = '<limit lower="-1" upper="1"/>'
LINK = '<string>:3: <link name="tip">'
JOINT = '<string>:4: <joint name="j">'


def inertial(mass: float, xx: float, yy: float, zz: float) -> str:
    """Return an <inertial> with a diagonal inertia."""
    return (
        f'<inertial><mass value="{mass}"/>'
        f'<inertia ixx="{xx}" iyy="{yy}" izz="{zz}" ixy="0" ixz="0" iyz="0"/></inertial>'
    )


def shape(inner: str) -> str:
    """Return an inertial link with one collision shape."""
    return f"{INERTIAL}<collision><geometry>{inner}</geometry></collision>"


def follower(mimic: str) -> str:
    """Return a third link on a slide that follows joint j."""
    return (
        f'<link name="x">{INERTIAL}</link><joint name="k" type="prismatic"><parent link="tip"/>'
        f'<child link="x"/><limit lower="0" upper="1"/>{mimic}</joint>'
    )


def test_fixed_root_limits_and_efforts() -> None:
    """Fix the root in the world, and read limit, effort, damping and dry friction."""
    joint = '<limit lower="-1" upper="2" effort="3"/><dynamics damping="0.5" friction="0.25"/>'
    model = read(urdf(joint=joint)).mujoco
    assert (model.nq, model.nv, model.nu, model.nbody) == (1, 1, 0, 3)
    assert model.jnt_range[0].tolist() == [-1, 2]
    assert model.jnt_actfrcrange[0].tolist() == [-3, 3]
    assert (model.dof_damping[0], model.dof_frictionloss[0]) == (0.5, 0.25)


def test_free_root_on_request() -> None:
    """Let the root link move freely, with its own mass."""
    parsed = read(urdf(), free_root=True)
    assert (parsed.mujoco.nq, parsed.mujoco.nv) == (8, 7)
    assert parsed.mujoco.body_mass[1] == 1.0
    assert notes(parsed, "ignored") == [VELOCITY]


def test_free_root_needs_a_fixed_root() -> None:
    """Refuse a free root where the first body moves already."""
    assert message(urdf().replace('"base"', '"world"'), free_root=True) == (
        '<string>:1: <robot name="arm">: free_root=True needs a root link that is fixed in the '
        "world, but the first link moves already; load it with free_root=False."
    )


def test_motors_on_request() -> None:
    """Give each joint a motor with gear 1 and the effort as force range; followers get none."""
    model = read(urdf(more=follower('<mimic joint="j"/>')), motors=True).mujoco
    assert model.nu == 1
    assert model.actuator(0).name == "j"
    assert model.actuator_gear[0].tolist() == [1, 0, 0, 0, 0, 0]
    assert model.actuator_forcerange[0].tolist() == [-3, 3]
    data = mujoco.MjData(model)
    data.ctrl[0] = 5.0
    mujoco.mj_forward(model, data)
    assert data.qfrc_actuator[0] == 3.0


def test_mimic_becomes_a_joint_equality() -> None:
    """Turn mimic into q_k = offset + multiplier q_j."""
    parsed = read(urdf(more=follower('<mimic joint="j" multiplier="2" offset="0.5"/>')))
    model = parsed.mujoco
    assert model.eq_type.tolist() == [int(mujoco.mjtEq.mjEQ_JOINT)]
    assert model.eq_obj1id[0] == model.joint("k").id
    assert model.eq_obj2id[0] == model.joint("j").id
    assert model.eq_data[0, :5].tolist() == [0.5, 2, 0, 0, 0]
    assert parsed.keep_equality.tolist() == [True]


REPAIRS = {
    urdf(link=inertial(1, 1, 1, 3), joint=LIMIT): [
        '<string>:3: <inertial> in <link name="tip">: no body has the principal moments 1 1 3 '
        "kg·m²; they become 1.5 1.5 3 kg·m²."
    ],
    urdf(link=inertial(1, -0.5, 1, 1), joint=LIMIT): [
        '<string>:3: <inertial> in <link name="tip">: no body has the principal moments -0.5 1 1 '
        "kg·m²; they become 2e-09 1 1 kg·m²."
    ],
    urdf(link=inertial(1, 0, 0, 0), joint=LIMIT): [
        '<string>:3: <inertial> in <link name="tip">: it has no inertia; it gets 0.001539 kg·m² '
        "about every axis, that of a ball of 1000 kg/m³."
    ],
    urdf(link='<inertial><mass value="1"/></inertial>', joint=LIMIT): [
        '<string>:3: <inertial> in <link name="tip">: it has no inertia; it gets 0.001539 kg·m² '
        "about every axis, that of a ball of 1000 kg/m³."
    ],
    urdf(link='<inertial><inertia ixx="1"/></inertial>', joint=LIMIT): [
        '<string>:3: <inertial> in <link name="tip">: <inertial> without a mass is left out.',
        f"{LINK}: the link moves but has no mass; it gets 1e-06 kg and 1e-09 kg·m².",
    ],
    urdf(link="", joint=LIMIT): [
        f"{LINK}: the link moves but has no mass; it gets 1e-06 kg and 1e-09 kg·m²."
    ],
    urdf(link='<collision><geometry><box size="1 1 1"/></geometry></collision>', joint=LIMIT): [
        f"{LINK}: the link moves but has no mass; its collision shapes get 1000 kg/m³."
    ],
    urdf(link=INERTIAL + INERTIAL, joint=LIMIT): [
        '<string>:3: <inertial> in <link name="tip">: a second <inertial> is left out.'
    ],
    urdf(link=INERTIAL + "<collision/>", joint=LIMIT): [
        '<string>:3: <collision> in <link name="tip">: the empty <collision> is left out.'
    ],
    urdf(joint='<axis xyz="0 0 1"/><axis xyz="0 1 0"/>' + LIMIT): [
        '<string>:5: <axis> in <joint name="j">: a second <axis> is left out.'
    ],
    urdf(joint='<limit lower="0" upper="0" effort="0"/>'): [
        '<string>:5: <limit> in <joint name="j">: lower equals upper; the joint moves without '
        "limit."
    ],
    urdf(joint=LIMIT, more=follower('<mimic joint="j" multiplier=""/>')): [
        '<string>:7: <mimic> in <joint name="k">: multiplier is empty and left out.'
    ],
    urdf(joint=""): [f"{JOINT}: it has no <limit>; it moves without limit."],
    "\n<!-- made by hand -->\n<?xml version='1.0'?>" + urdf(joint=LIMIT): [
        "<string>:1: a misplaced XML declaration, or bytes after the end, are left out."
    ],
}


@pytest.mark.parametrize("text", REPAIRS, ids=range(len(REPAIRS)))
def test_sloppy_files_are_repaired_with_a_notice(text: str) -> None:
    """Load a sloppy file, say what was repaired, and nothing else."""
    parsed = read(text)
    assert notes(parsed, "repaired") == REPAIRS[text]
    assert len(parsed.notices) == len(REPAIRS[text])


def test_link_without_inertial_weighs_nothing_if_what_it_is_fixed_to_has_mass() -> None:
    """Give no mass to the shapes of a link without <inertial> that is fixed to a heavy one."""
    box = '<collision><geometry><box size="1 1 1"/></geometry></collision>'
    fixed = f'<link name="x">{box}</link><joint name="k" type="fixed"><parent link="tip"/>'
    parsed = read(urdf(joint=LIMIT, more=fixed + '<child link="x"/></joint>', base=box))
    assert parsed.mujoco.body_mass.tolist() == [0, 0, 1, 0]
    assert parsed.notices == ()


def test_balanced_inertia_can_exist_and_keeps_good_ones() -> None:
    """Balance random symmetric matrices; the result has no impossible moments."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        matrix = rng.normal(size=(3, 3))
        fixed = balanced(matrix + matrix.T)
        moments = np.linalg.eigvalsh(fixed)
        assert moments[0] > 0
        assert moments[0] + moments[1] >= moments[2]
    good = np.diag([1.0, 2.0, 2.5])
    assert balanced(good) is good


ERRORS = {
    urdf(link=inertial(-1, 1, 1, 1)): '<string>:3: <mass> in <link name="tip">: value is -1 kg; it '
    "must be >= 0.",
    urdf(link=inertial(1, 1e308, 1, 1)): '<string>:3: <inertia> in <link name="tip">: ixx is '
    "1e+308; at most 1e+15 is allowed.",
    urdf(joint='<axis xyz="0 0 0"/>'): '<string>:5: <axis> in <joint name="j">: xyz is zero; a '
    "joint axis needs a direction.",
    urdf(joint='<limit effort="-1"/>'): '<string>:5: <limit> in <joint name="j">: effort is -1 '
    "N·m; it must be >= 0.",
    urdf(joint='<dynamics damping="-1"/>'): '<string>:5: <dynamics> in <joint name="j">: damping '
    "is -1 N·m·s/rad; it must be >= 0.",
    urdf(
        kind="prismatic", joint='<dynamics friction="-1"/>'
    ): '<string>:5: <dynamics> in <joint name="j">: friction is -1 N; it must be >= 0.',
    urdf(
        more='<joint name="k" type="fixed"><parent link="tip"/><child link="base"/></joint>'
    ): '<string>:7: <joint name="k">: the links form a cycle (tip -> base -> tip); a robot must be '
    "a tree, so close loops with an equality constraint in MJCF.",
    urdf(
        more='<joint name="k" type="fixed"><parent link="base"/><child link="tip"/></joint>'
    ): '<string>:7: <joint name="k">: link "tip" is already the child of the joint at line 4; a '
    "link has one parent.",
    urdf(
        more='<link name="x"/><joint name="k" type="fixed"><child link="x"/></joint>'
    ): '<string>:7: <joint name="k">: it has no <parent link="..."/>; name the parent link.',
    urdf(
        more='<link name="x"/><joint name="k" type="fixed"><parent link="q"/><child link="x"/>'
        "</joint>"
    ): '<string>:7: <joint name="k">: its parent link "q" does not exist; correct the name.',
    urdf(more='<link name="tip"/>'): '<string>:7: <link name="tip">: the name is taken already at '
    "<string>:3; rename one.",
    urdf(more="<link/>"): "<string>:7: <link>: it has no name; give it one.",
    urdf(joint='<limit lower="nan"/>'): '<string>:5: <limit> in <joint name="j">: lower holds nan, '
    "which is not a finite number; write a finite one.",
    urdf(joint='<limit lower="-1.5."/>'): '<string>:5: <limit> in <joint name="j">: lower is '
    '"-1.5."; it must be a number.',
    urdf(joint='<origin rpy="0 0 0 0"/>'): '<string>:5: <origin> in <joint name="j">: rpy holds 4 '
    "numbers; it must hold 3.",
    urdf(joint='<origin xyz="0, 0, 0"/>'): '<string>:5: <origin> in <joint name="j">: xyz is '
    '"0, 0, 0"; it must be 3 numbers.',
    urdf(kind="spherical"): f'{JOINT}: type is "spherical"; it must be one of fixed, revolute, '
    "continuous, prismatic, planar, floating.",
    urdf(kind="floating"): f"{LINK}: a free joint may only stand on a body whose parent is the "
    "world; move the body there.",
    urdf(more="<xacro:arm/>"): "<string>:7: <xacro:arm>: this is a xacro file, not URDF; run xacro "
    "on it and load the result.",
    urdf(joint='<origin xyz="${a} 0 0"/>'): '<string>:5: <origin> in <joint name="j">: this is a '
    "xacro file, not URDF; run xacro on it and load the result.",
    urdf(link=shape('<box size="1 0 1"/>')): '<string>:3: <box> in <link name="tip">: size is 0 m; '
    "it must be > 0.",
    urdf(link=shape("<sphere/>")): '<string>:3: <sphere> in <link name="tip">: it has no radius; '
    "give it in metres.",
    urdf(joint='<mimic joint="j"/>'): '<string>:5: <mimic> in <joint name="j">: the joint follows '
    "itself; name another one.",
    '<robot name="a"/>': '<string>:1: <robot name="a">: the robot has no links; a URDF needs at '
    "least one.",
    urdf(kind="fixed", joint=""): "<string>: nothing in the model can move; add a joint to the "
    "file, or pass free_root=True if it is URDF.",
}


@pytest.mark.parametrize("text", ERRORS, ids=range(len(ERRORS)))
def test_nonsense_is_refused(text: str) -> None:
    """Refuse what makes no sense, with file, line, element and units."""
    assert message(text) == ERRORS[text]


@pytest.mark.parametrize(
    ("text", "problem", "kind", "notice"),
    [
        (
            urdf(link=shape('<plane normal="0 0 1"/>'), joint=LIMIT),
            '<string>:3: <plane> in <link name="tip">: the collision shape <plane> is not '
            "supported (see docs/support.md#urdf-meshes)",
            "dropped",
            '<string>:3: <plane> in <link name="tip">: the collision shape <plane> is not '
            "supported; the collision shape is left out.",
        ),
        (
            urdf(link=shape('<mesh filename="package://a/b.stl"/>'), joint=LIMIT),
            '<string>:3: <mesh> in <link name="tip">: there is no mesh file "package://a/b.stl" '
            "(see docs/support.md#urdf-meshes)",
            "dropped",
            '<string>:3: <mesh> in <link name="tip">: there is no mesh file "package://a/b.stl"; '
            "the collision shape is left out.",
        ),
        (
            urdf(link=shape('<mesh filename="http://host/b.stl"/>'), joint=LIMIT),
            '<string>:3: <mesh> in <link name="tip">: there is no mesh file "http://host/b.stl" '
            "(see docs/support.md#urdf-meshes)",
            "dropped",
            '<string>:3: <mesh> in <link name="tip">: there is no mesh file "http://host/b.stl"; '
            "the collision shape is left out.",
        ),
        (
            urdf(joint=LIMIT + '<mimic joint="nope"/>'),
            '<string>:5: <mimic> in <joint name="j">: the joint "nope" that it follows does not '
            "exist (see docs/support.md#urdf)",
            "dropped",
            '<string>:5: <mimic> in <joint name="j">: the joint "nope" that it follows does not '
            "exist; it moves on its own.",
        ),
        (
            urdf(joint='<limit lower="1" upper="-1"/>'),
            '<string>:5: <limit> in <joint name="j">: lower is 1 and upper is -1; lower must not '
            "exceed upper (see docs/support.md#urdf)",
            "repaired",
            '<string>:5: <limit> in <joint name="j">: lower is 1 and upper is -1; lower must not '
            "exceed upper: the joint has no limit.",
        ),
    ],
)
def test_refused_and_dropped(text: str, problem: str, kind: str, notice: str) -> None:
    """Refuse what cannot be had, and go on without it on request."""
    assert message(text) == problem + ADVICE
    parsed = read(text, on_unsupported="drop")
    assert notes(parsed, kind) == [notice]
    assert len(parsed.notices) == 1


def test_what_has_no_meaning_is_listed() -> None:
    """List velocity limits, transmissions, Bullet's contact tags, extensions and visuals."""
    text = urdf(
        link=INERTIAL + "<visual/><contact><lateral_friction value='1'/></contact>",
        more='<transmission name="t"/><gazebo/><gazebo/><mujoco/><material name="m"/>',
    )
    assert notes(read(text), "ignored") == [
        '<string>:3: <contact> in <link name="tip">: <contact> has no meaning here.',
        VELOCITY,
        '<string>:7: <transmission name="t">: <transmission> has no meaning here.',
        "<string>:7: <gazebo>: <gazebo> has no meaning here (2 times).",
        "<string>:7: <mujoco>: <mujoco> has no meaning here.",
        "<string>: visual only: <material>, <visual>.",
    ]


def tetrahedron() -> list[tuple[tuple[float, float, float], ...]]:
    """Return the four triangles of a tetrahedron."""
    o, x, y, z = (0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
    return [(o, y, x), (o, x, z), (o, z, y), (x, y, z)]


def ascii_stl() -> bytes:
    """Return the tetrahedron as an STL file in text."""
    text = "solid t\n"
    for face in tetrahedron():
        text += "facet normal 0 0 0\nouter loop\n"
        text += "".join(f"vertex {x} {y} {z:.1e}\n" for x, y, z in face)
        text += "endloop\nendfacet\n"
    return (text + "endsolid t\n").encode()


def binary_stl() -> bytes:
    """Return the tetrahedron as a binary STL file whose header says solid."""
    faces = [struct.pack("<12fH", 0, 0, 0, *a, *b, *c, 0) for a, b, c in tetrahedron()]
    return b"solid t".ljust(80) + struct.pack("<I", 4) + b"".join(faces)


@pytest.mark.parametrize("content", [ascii_stl(), binary_stl()], ids=["ascii", "binary"])
@pytest.mark.parametrize(
    "name",
    [
        "package://robot/meshes/t.stl",
        "model://robot/meshes/t.stl",
        "../meshes/t.stl",
        "meshes/t.stl",
        "file://../meshes/t.stl",
    ],
)
def test_meshes_are_found_by_walking_up(tmp_path: Path, content: bytes, name: str) -> None:
    """Find a mesh of a package beside the folder of the URDF, in either form of STL."""
    (tmp_path / "robot" / "urdf").mkdir(parents=True)
    (tmp_path / "robot" / "meshes").mkdir()
    (tmp_path / "robot" / "meshes" / "t.stl").write_bytes(content)
    file = tmp_path / "robot" / "urdf" / "robot.urdf"
    file.write_text(urdf(link=shape(f'<mesh filename="{name}" scale="2 2 2"/>'), joint=LIMIT))
    parsed = read(file)
    assert parsed.notices == ()
    assert parsed.mujoco.nmesh == 1
    assert np.ptp(parsed.mujoco.mesh_vert, axis=0).max() == pytest.approx(2 * 2**0.5, rel=0.5)


def test_meshes_of_the_same_name_in_two_folders_stay_apart(tmp_path: Path) -> None:
    """Keep two files with one name apart."""
    for folder, size in (("a", 1), ("b", 3)):
        (tmp_path / folder).mkdir()
        text = ascii_stl().replace(b"1.0", f"{size}.0".encode())
        (tmp_path / folder / "t.stl").write_bytes(text)
    meshed = "".join(
        f'<collision><geometry><mesh filename="{f}/t.stl"/></geometry></collision>' for f in "ab"
    )
    file = tmp_path / "robot.urdf"
    file.write_text(urdf(link=INERTIAL + meshed, joint=LIMIT))
    assert read(file).mujoco.nmesh == 2


def test_links_out_of_reach_are_not_followed(tmp_path: Path) -> None:
    """Find no mesh through a link that leads out of the folders above the model."""
    assert meshes.resolve("passwd", Path("/etc")) == Path("/etc/passwd")
    (tmp_path / "passwd.stl").symlink_to("/etc/passwd")
    assert meshes.resolve("passwd.stl", tmp_path) is None
    assert meshes.resolve("../" * 20 + "etc/passwd", tmp_path) is None
    assert meshes.resolve("\0", tmp_path) is None


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        (
            "t.dae",
            b"<COLLADA/>",
            'mesh file "t.dae" is DAE, which needs the package trimesh (and pycollada for DAE); '
            "install it or convert the file to STL or OBJ",
        ),
        (
            "t.step",
            b"",
            'mesh file "t.step" has the format "step", but STL, OBJ and MSH are read',
        ),
        (
            "t.stl",
            b"solid t facet vertex 1 2 3",
            'mesh file "t.stl" holds no readable triangles',
        ),
    ],
)
def test_mesh_formats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, problem: str
) -> None:
    """Say what to do about a mesh that cannot be read."""
    monkeypatch.setitem(sys.modules, "trimesh", None)
    (tmp_path / name).write_bytes(content)
    file = tmp_path / "robot.urdf"
    file.write_text(urdf(link=shape(f'<mesh filename="{name}"/>'), joint=LIMIT))
    where = 'robot.urdf:3: <mesh> in <link name="tip">'
    assert message(file) == f"{where}: {problem} (see docs/support.md#urdf-meshes){ADVICE}"
    assert notes(read(file, on_unsupported="drop"), "dropped") == [
        f"{where}: {problem}; the collision shape is left out."
    ]


def test_other_mesh_formats_go_through_trimesh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Convert DAE by trimesh where it is installed, and say why if it fails."""

    class Converter:
        """Stands for trimesh."""

        @staticmethod
        def load(path: Path, force: str) -> Converter:
            """Return a mesh, or fail on an empty file."""
            assert force == "mesh"
            if not path.read_bytes():
                raise RuntimeError("nothing there.")
            return Converter()

        def export(self, file_type: str) -> bytes:
            """Return the mesh as STL."""
            assert file_type == "stl"
            return binary_stl()

    monkeypatch.setitem(sys.modules, "trimesh", Converter)
    (tmp_path / "good.dae").write_bytes(b"<COLLADA/>")
    (tmp_path / "bad.dae").write_bytes(b"")
    file = tmp_path / "robot.urdf"
    file.write_text(urdf(link=shape('<mesh filename="good.dae"/>'), joint=LIMIT))
    assert read(file).mujoco.nmesh == 1
    file.write_text(urdf(link=shape('<mesh filename="bad.dae"/>'), joint=LIMIT))
    assert message(file) == (
        'robot.urdf:3: <mesh> in <link name="tip">: mesh file "bad.dae" cannot be converted by '
        "trimesh (RuntimeError: nothing there) (see docs/support.md#urdf-meshes)" + ADVICE
    )
