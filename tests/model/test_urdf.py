"""URDF: what is read, repaired, refused and listed."""

from __future__ import annotations

import struct
from pathlib import Path

import mujoco
import numpy as np
import pytest

from featherback.model import meshes
from featherback.model.files import Folders
from featherback.model.urdf_inertia import balanced
from tests.golden.sentences import Case, check
from tests.model.helpers import INERTIAL, message, notes, read, urdf
from tests.model.urdf_cases import LIMIT, REPAIRS, follower, shape


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
    (notice,) = notes(parsed, "ignored")
    assert notice.startswith('<string>:5: <limit> in <joint name="j">: velocity')


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


@pytest.mark.parametrize("case", REPAIRS, ids=lambda case: case.name)
def test_sloppy_files_are_repaired_with_a_notice(case: Case) -> None:
    """Load a sloppy file and report the repair at its line."""
    for line in check(case).splitlines():
        assert line.startswith("<string>:")


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


def test_what_has_no_meaning_is_listed() -> None:
    """List velocity limits, transmissions, Bullet's contact tags, extensions and visuals once."""
    text = urdf(
        link=INERTIAL + "<visual/><contact><lateral_friction value='1'/></contact>",
        more='<transmission name="t"/><gazebo/><gazebo/><mujoco/><material name="m"/>',
    )
    wheres = [notice.rpartition(": ")[0] for notice in notes(read(text), "ignored")]
    assert wheres == [
        '<string>:3: <contact> in <link name="tip">',
        '<string>:5: <limit> in <joint name="j">',
        '<string>:7: <transmission name="t">',
        "<string>:7: <gazebo>",
        "<string>:7: <mujoco>",
        "<string>: visual only",
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
    assert meshes.resolve("passwd", Folders(Path("/etc"))) == Path("/etc/passwd")
    (tmp_path / "passwd.stl").symlink_to("/etc/passwd")
    assert meshes.resolve("passwd.stl", Folders(tmp_path)) is None
    assert meshes.resolve("../" * 20 + "etc/passwd", Folders(tmp_path)) is None
    assert meshes.resolve("\0", Folders(tmp_path)) is None


@pytest.mark.parametrize("scheme", ["package:///", "package://", "model:///"])
def test_packages_without_a_host(tmp_path: Path, scheme: str) -> None:
    """Take a third slash after the scheme for none."""
    (tmp_path / "robot" / "meshes").mkdir(parents=True)
    (tmp_path / "robot" / "meshes" / "t.stl").write_bytes(binary_stl())
    file = tmp_path / "robot" / "robot.urdf"
    file.write_text(urdf(link=shape(f'<mesh filename="{scheme}robot/meshes/t.stl"/>'), joint=LIMIT))
    assert read(file).mujoco.nmesh == 1


def test_a_mesh_in_another_folder_is_found_by_its_name(tmp_path: Path) -> None:
    """Take the only file of that name below the URDF with a notice; of two, none."""
    file = tmp_path / "robot.urdf"
    file.write_text(urdf(link=shape('<mesh filename="meshes/t.stl"/>'), joint=LIMIT))
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "t.stl").write_bytes(binary_stl())
    parsed = read(file)
    assert parsed.mujoco.nmesh == 1
    (note,) = notes(parsed, "repaired")
    assert '"meshes/t.stl"' in note and '"assets/t.stl"' in note
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "t.stl").write_bytes(binary_stl())
    assert '"meshes/t.stl"' in message(file)


def test_a_mesh_in_another_folder_of_its_package_is_found_by_its_name(tmp_path: Path) -> None:
    """Look for the only file of that name in the package which the URDF is part of."""
    (tmp_path / "robot" / "meshes").mkdir(parents=True)
    (tmp_path / "robot" / "urdf").mkdir()
    (tmp_path / "robot" / "meshes" / "t.stl").write_bytes(binary_stl())
    file = tmp_path / "robot" / "urdf" / "robot.urdf"
    named = '<mesh filename="package://{}/meshes/stl/t.stl"/>'
    file.write_text(urdf(link=shape(named.format("robot")), joint=LIMIT))
    (note,) = notes(read(file), "repaired")
    assert '"../meshes/t.stl"' in note
    file.write_text(urdf(link=shape(named.format("other")), joint=LIMIT))
    assert '"package://other/meshes/stl/t.stl"' in message(file)


@pytest.mark.parametrize(
    ("leader", "joints", "found"),
    [
        ("finger", ["left_finger"], "left_finger"),
        ("left_finger", ["finger"], "finger"),
        ("finger", ["left_finger", "right_finger"], "left_finger"),
        ("finger", ["a_finger", "b_finger"], None),
    ],
)
def test_mimic_of_prefixed_names(leader: str, joints: list[str], found: str | None) -> None:
    """Let a joint follow the one whose name differs by a prefix, or by the prefix it has itself."""
    more = "".join(
        f'<link name="l{k}">{INERTIAL}</link><joint name="{name}" type="continuous">'
        f'<parent link="tip"/><child link="l{k}"/></joint>'
        for k, name in enumerate(joints)
    )
    more += (
        f'<link name="x">{INERTIAL}</link><joint name="left_thumb" type="continuous">'
        f'<parent link="tip"/><child link="x"/><mimic joint="{leader}"/></joint>'
    )
    text = urdf(joint=LIMIT, more=more)
    if found is None:
        assert f'"{leader}"' in message(text)
        return
    model = read(text).mujoco
    assert model.eq_obj1id[0] == model.joint("left_thumb").id
    assert model.eq_obj2id[0] == model.joint(found).id
