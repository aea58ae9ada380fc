"""Mesh files of URDF that MuJoCo does not read: what is in them, and where it ends up."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from featherback.model.files import Folders
from featherback.model.meshes import MeshProblem, MeshStore
from featherback.model.triangles import fans
from tests.model import mesh_files as files
from tests.model.helpers import message, notes, read, urdf
from tests.model.urdf_cases import LIMIT, shape

HALF = np.sqrt(0.5)
NODE = {
    "translation": files.SHIFT.tolist(),
    "rotation": [0, 0, HALF, HALF],
    "scale": files.STRETCH.tolist(),
}
PLACED = files.moved(files.POINTS)
FAR = np.array([5.0, 0.0, 0.0])
OUTSIDE = [{"uri": "../" * 10 + "etc/passwd"}]


def store(folder: Path, name: str, content: bytes) -> MeshStore:
    """Return a store that has read one file."""
    (folder / name).write_bytes(content)
    found = MeshStore(Folders(folder))
    found.add(name)
    return found


def triangles(folder: Path, name: str, content: bytes) -> np.ndarray:
    """Return float64[m, 3, 3], the triangles of a mesh file as MuJoCo is given them."""
    ((asset, data),) = store(folder, name, content).assets.items()
    assert asset.endswith(".msh")
    n, _, _, m = struct.unpack_from("<4i", data)
    points = np.frombuffer(data, "<f4", 3 * n, 16).reshape(n, 3).astype(float)
    return points[np.frombuffer(data, "<i4", 3 * m, 16 + 12 * n).reshape(m, 3)]


def ordered(found: np.ndarray) -> np.ndarray:
    """Return triangles that each begin with their least corner, sorted; a turn of each is kept."""
    rows = []
    for triangle in np.round(found, 5) + 0.0:
        corners = [tuple(corner) for corner in triangle.tolist()]
        first = corners.index(min(corners))
        rows.append(corners[first:] + corners[:first])
    return np.array(sorted(rows))


def check(found: np.ndarray, points: np.ndarray = files.POINTS) -> None:
    """Compare triangles with those of the tent whose corners are given."""
    assert ordered(found) == pytest.approx(ordered(points[files.CORNERS]), abs=1e-5)


@pytest.mark.parametrize("polygons", files.POLYGONS)
def test_polygons_of_collada(tmp_path: Path, polygons: str) -> None:
    """Read every kind of list of polygons, seen from outside as in the file."""
    check(triangles(tmp_path, "tent.dae", files.collada(polygons)))


@pytest.mark.parametrize(
    "place",
    [
        files.PLACED,
        f"<matrix>{files.spread(files.MATRIX)}</matrix>",
    ],
    ids=["parts", "matrix"],
)
def test_nodes_of_collada(tmp_path: Path, place: str) -> None:
    """Apply the transformations of nodes, outer ones last."""
    check(triangles(tmp_path, "tent.dae", files.collada(place=place)), PLACED)
    inner = f'<node>{place}<instance_geometry url="#tent"/></node>'
    nested = f"<node><translate>5 0 0</translate>{inner}</node>"
    check(triangles(tmp_path, "tent.dae", files.collada(scene=nested)), PLACED + FAR)
    library = f'<library_nodes><node id="n">{inner}</node></library_nodes>'
    by_name = '<node><translate>5 0 0</translate><instance_node url="#n"/></node>'
    data = files.collada(scene=by_name, library=library)
    check(triangles(tmp_path, "tent.dae", data), PLACED + FAR)


def test_a_skin_of_collada_is_taken_as_it_was_bound(tmp_path: Path) -> None:
    """Take the geometry behind a skin, moved by its matrix."""
    matrix = f"<bind_shape_matrix>{files.spread(files.MATRIX)}</bind_shape_matrix>"
    skin = f'<controller id="c"><skin source="#tent">{matrix}</skin></controller>'
    scene = '<node><instance_controller url="#c"/></node>'
    data = files.collada(scene=scene, library=f"<library_controllers>{skin}</library_controllers>")
    check(triangles(tmp_path, "tent.dae", data), PLACED)


def test_unit_and_axes_of_collada(tmp_path: Path) -> None:
    """Apply the unit; leave the axes, which are those of the link, and say so."""
    inches = '<unit name="inch" meter="0.0254"/><up_axis>Y_UP</up_axis>'
    data = files.collada(place=files.PLACED, asset=inches)
    check(triangles(tmp_path, "tent.dae", data), 0.0254 * PLACED)
    ((_, note),) = store(tmp_path, "tent.dae", data).notes
    assert '"tent.dae"' in note and '"Y_UP"' in note
    check(triangles(tmp_path, "tent.dae", files.collada(asset="")))


def test_several_instances_are_one_mesh(tmp_path: Path) -> None:
    """Join all instances of a geometry."""
    twice = "".join(
        f'<node><translate>{x} 0 0</translate><instance_geometry url="#tent"/></node>'
        for x in (0, 9)
    )
    found = triangles(tmp_path, "tent.dae", files.collada(scene=twice))
    both = np.concatenate([files.POINTS[files.CORNERS], (files.POINTS + 1.8 * FAR)[files.CORNERS]])
    assert ordered(found) == pytest.approx(ordered(both), abs=1e-5)


@pytest.mark.parametrize("form", ["glb", "inlined", "beside"])
@pytest.mark.parametrize("kind", ["<u1", "<u2", "<u4"])
def test_gltf(tmp_path: Path, form: str, kind: str) -> None:
    """Read binary and text, with buffers inside and beside, and the pose of a node."""
    tree, buffer = files.gltf(NODE, kind=kind)
    if form == "glb":
        name, data = "tent.glb", files.glb(tree, buffer)
    elif form == "inlined":
        name, data = "tent.gltf", files.inlined(tree, buffer)
    else:
        (tmp_path / "tent.bin").write_bytes(buffer)
        buffers = [{"byteLength": len(buffer), "uri": "tent.bin"}]
        name, data = "tent.gltf", json.dumps({**tree, "buffers": buffers}).encode()
    check(triangles(tmp_path, name, data), PLACED)
    ((_, note),) = store(tmp_path, name, data).notes
    assert f'"{name}"' in note and "y axis" in note


def test_matrices_and_children_of_gltf(tmp_path: Path) -> None:
    """Apply matrices, which are written by columns, and poses of outer nodes last."""
    nodes = [
        {"translation": [5, 0, 0], "children": [1]},
        {"mesh": 0, "matrix": files.MATRIX.T.reshape(-1).tolist()},
    ]
    tree, buffer = files.gltf()
    data = files.glb({**tree, "nodes": nodes}, buffer)
    check(triangles(tmp_path, "tent.glb", data), PLACED + FAR)


@pytest.mark.parametrize(("mode", "part"), [(5, slice(0, 2)), (6, slice(2, 6))])
def test_strips_and_fans_of_gltf(tmp_path: Path, mode: int, part: slice) -> None:
    """Read the floor as a strip and the sides as a fan."""
    found = triangles(tmp_path, "tent.glb", files.glb(*files.gltf(mode=mode)))
    expected = files.POINTS[files.CORNERS[part]]
    assert ordered(found) == pytest.approx(ordered(expected), abs=1e-5)


@pytest.mark.parametrize("form", ["ascii", "binary_little_endian", "binary_big_endian"])
@pytest.mark.parametrize("polygons", [None, files.CORNERS.tolist()], ids=["mixed", "triangles"])
def test_ply(tmp_path: Path, form: str, polygons: list[list[int]] | None) -> None:
    """Read text and binary, with further properties, lists of one or several lengths."""
    check(triangles(tmp_path, "tent.ply", files.ply(form, polygons)))


def test_off(tmp_path: Path) -> None:
    """Read polygons with colours."""
    check(triangles(tmp_path, "tent.off", files.off()))


@pytest.mark.parametrize(("unit", "metres"), [("meter", 1.0), ("inch", 0.0254)])
def test_3mf(tmp_path: Path, unit: str, metres: float) -> None:
    """Apply the unit and the places of components, which are written by columns."""
    check(triangles(tmp_path, "tent.3mf", files.three_mf(unit)), metres * files.POINTS)
    place = f'transform="{files.spread(files.MATRIX[:3].T)}"'
    check(triangles(tmp_path, "tent.3mf", files.three_mf(unit, place)), metres * PLACED)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tent.dae", files.collada()),
        ("tent.glb", files.glb(*files.gltf())),
        ("tent.ply", files.ply("binary_little_endian")),
        ("tent.off", files.off()),
        ("tent.3mf", files.three_mf()),
    ],
)
def test_a_urdf_holds_the_hull(tmp_path: Path, name: str, content: bytes) -> None:
    """Give a link the mesh of its file, scaled as the URDF says."""
    (tmp_path / name).write_bytes(content)
    path = tmp_path / "robot.urdf"
    path.write_text(urdf(link=shape(f'<mesh filename="{name}" scale="2 1 3"/>'), joint=LIMIT))
    parsed = read(path)
    model, data = parsed.mujoco, mujoco.MjData(parsed.mujoco)
    mujoco.mj_kinematics(model, data)
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, model.geom_quat[0])
    points = model.mesh_vert @ turn.reshape(3, 3).T + model.geom_pos[0]
    expected = files.POINTS * [2, 1, 3]
    found = np.array(sorted(np.round(points, 4).tolist()))
    assert found == pytest.approx(np.array(sorted(expected.tolist())), abs=1e-3)
    assert len(notes(parsed, "ignored")) == (name == "tent.glb")


def _tree(**more: Any) -> bytes:
    """Return glTF with some of its parts replaced."""
    tree, buffer = files.gltf()
    return files.glb({**tree, **more}, buffer)


HOSTILE: dict[str, tuple[str, bytes]] = {
    "no xml": ("t.dae", b"\x00\x01"),
    "another root": ("t.dae", b"<robot/>"),
    "an entity": ("t.dae", b'<!DOCTYPE x [<!ENTITY a "b">]><COLLADA/>'),
    "no triangles": ("t.dae", b"<COLLADA/>"),
    "a unit of zero": ("t.dae", files.collada(asset='<unit meter="0"/>')),
    "a geometry that is not there": (
        "t.dae",
        files.collada(scene='<node><instance_geometry url="#x"/></node>'),
    ),
    "a node inside itself": (
        "t.dae",
        files.collada(scene='<node id="n"><instance_node url="#n"/></node>'),
    ),
    "a corner that is not there": ("t.dae", files.collada().replace(b"<p>0 0 3", b"<p>0 0 9")),
    "a word among numbers": ("t.dae", files.collada().replace(b"<p>0", b"<p>a")),
    "a skewed node": ("t.dae", files.collada(place="<skew>1 2 3 4 5 6 7</skew>")),
    "no json": ("t.gltf", b"{"),
    "a list": ("t.gltf", b"[]"),
    "version 1": ("t.glb", b"glTF" + struct.pack("<II", 1, 20) + b"\0" * 8),
    "a short buffer": ("t.glb", files.glb(files.gltf()[0], b"\0" * 8)),
    "a node in a circle": ("t.glb", _tree(nodes=[{"children": [0]}])),
    "draco": ("t.glb", _tree(extensionsRequired=["KHR_draco_mesh_compression"])),
    "a file elsewhere": (
        "t.gltf",
        json.dumps({**files.gltf()[0], "buffers": OUTSIDE}).encode(),
    ),
    "no ply": ("t.ply", b"plyx"),
    "a ply without faces": ("t.ply", files.ply().replace(b"vertex_indices", b"edges")),
    "a short ply": ("t.ply", files.ply("binary_little_endian")[:-9]),
    "a short text": ("t.ply", files.ply()[:-30]),
    "a long list": ("t.ply", files.ply("binary_little_endian", [[0] * 255])[:-500]),
    "a ply of another type": ("t.ply", files.ply().replace(b"property float x", b"property x x")),
    "not finite": ("t.ply", files.ply().replace(b"\n2.0 0.0 0.0", b"\nnan 0.0 0.0")),
    "no off": ("t.off", b"NOFF"),
    "a short off": ("t.off", files.off()[:30]),
    "no archive": ("t.3mf", b"PK"),
    "a unit that is none": ("t.3mf", files.three_mf("parsec")),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_cannot_be_read_is_refused_by_name(tmp_path: Path, case: str) -> None:
    """Refuse a broken or hostile file with a clause that names it, and nothing else."""
    name, content = HOSTILE[case]
    with pytest.raises(MeshProblem) as caught:
        store(tmp_path, name, content)
    assert str(caught.value).startswith(f'mesh file "{name}": ')
    path = tmp_path / "robot.urdf"
    path.write_text(urdf(link=shape(f'<mesh filename="{name}"/>'), joint=LIMIT))
    assert f'"{name}"' in message(path)
    dropped = read(path, on_unsupported="drop")
    assert dropped.mujoco.nmesh == 0
    assert f'"{name}"' in notes(dropped, "dropped")[0]


def test_random_cuts_of_files_never_crash(tmp_path: Path) -> None:
    """Read truncated and garbled files, or refuse them; nothing else is raised."""
    rng = np.random.default_rng(5)
    print("seed 5")
    whole = {
        "t.dae": files.collada("polylist"),
        "t.glb": files.glb(*files.gltf(NODE)),
        "t.ply": files.ply("binary_big_endian"),
        "t.off": files.off(),
        "t.3mf": files.three_mf(),
    }
    for name, content in whole.items():
        for _ in range(60):
            data = bytearray(content[: rng.integers(1, len(content) + 1)])
            for at in rng.integers(0, len(data), rng.integers(0, 4)):
                data[at] = rng.integers(0, 256)
            try:
                store(tmp_path, name, bytes(data))
            except MeshProblem:
                continue


def test_fans_of_many_polygons() -> None:
    """Cut polygons of any size as a loop over them would."""
    rng = np.random.default_rng(8)
    print("seed 8")
    counts = rng.integers(0, 7, 200)
    corners = rng.integers(0, 50, counts.sum())
    expected, at = [], 0
    for n in counts:
        polygon = corners[at : at + n]
        expected += [[polygon[0], polygon[k], polygon[k + 1]] for k in range(1, n - 1)]
        at += n
    assert fans(counts, corners).tolist() == np.array(expected).tolist()
