"""URDF that makes no sense, that is repaired, and what of it is not supported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from featherback.errors import ModelError
from featherback.model.load import parse
from tests.golden.sentences import Case, raises, returns
from tests.model.helpers import INERTIAL, notes, read, urdf
from tests.model.mesh_files import collada, glb, gltf, off

LIMIT = '<limit lower="-1" upper="1"/>'
LINK = '<string>:3: <link name="tip">'
JOINT = '<string>:4: <joint name="j">'
IN_LINK = '<string>:3: <{}> in <link name="tip">'
IN_JOINT = '<string>:5: <{}> in <joint name="j">'
SECOND = '<string>:7: <joint name="k">'
BOX = '<collision><geometry><box size="1 1 1"/></geometry></collision>'


ON_WORLD = (
    '<joint name="k" type="fixed"><parent link="world"/><child link="base"/>'
    '<origin xyz="0 0 2"/></joint>'
)


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


def _fixed(ends: str, links: str = "") -> str:
    """Return a fixed joint between other links."""
    return f'{links}<joint name="k" type="fixed">{ends}</joint>'


def _error(name: str, text: str, *names: str, **options: Any) -> Case:
    """Return the case of a URDF that makes no sense."""
    return raises(f"urdf: {name}", ModelError, lambda: parse(text, **options), *names)


def _repair(name: str, text: str, *names: str) -> Case:
    """Return the case of a sloppy file, which is repaired and has no other notice."""

    def call() -> list[str]:
        parsed = read(text)
        assert {notice.kind for notice in parsed.notices} == {"repaired"}
        return notes(parsed, "repaired")

    return returns(f"repaired: {name}", call, *names)


def _unsupported(name: str, text: str, *names: str, kind: str = "dropped") -> list[Case]:
    """Return the cases of what is not supported, and of the one notice that it leaves."""

    def drop() -> str:
        (notice,) = read(text, on_unsupported="drop").notices
        assert notice.kind == kind
        return str(notice)

    return [_error(name, text, *names), returns(f"{kind}: urdf, {name}", drop, *names)]


def _write(folder: Path, file: str, content: bytes, named: str) -> Path:
    """Write a mesh and a URDF that names it."""
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).write_bytes(content)
    path = folder / "robot.urdf"
    path.write_text(urdf(link=shape(f'<mesh filename="{named}"/>'), joint=LIMIT))
    return path


def _mesh(name: str, file: str, content: bytes, *names: str) -> Case:
    """Return the case of a mesh file that cannot be used."""
    where = 'robot.urdf:3: <mesh> in <link name="tip">'
    return raises(
        f"urdf: {name}",
        ModelError,
        lambda folder: parse(_write(folder, file, content, file)),
        where,
        f'"{file}"',
        *names,
    )


def _noted(folder: Path, file: str, content: bytes, kind: str, named: str = "") -> list[str]:
    """Return the notices of a robot with one mesh."""
    return notes(read(_write(folder, file, content, named or file)), kind)


NO_SENSE = [
    _error("mass", urdf(link=inertial(-1, 1, 1, 1)), IN_LINK.format("mass"), "-1 kg"),
    _error("inertia", urdf(link=inertial(1, 1e308, 1, 1)), IN_LINK.format("inertia"), "ixx"),
    _error("axis", urdf(joint='<axis xyz="0 0 0"/>'), IN_JOINT.format("axis"), "xyz"),
    _error("effort", urdf(joint='<limit effort="-1"/>'), IN_JOINT.format("limit"), "-1 N·m"),
    _error("damping", urdf(joint='<dynamics damping="-1"/>'), IN_JOINT.format("dynamics"), "-1"),
    _error(
        "friction of a slide",
        urdf(kind="prismatic", joint='<dynamics friction="-1"/>'),
        IN_JOINT.format("dynamics"),
        "friction is -1 N;",
    ),
    _error(
        "a cycle",
        urdf(more=_fixed('<parent link="tip"/><child link="base"/>')),
        SECOND,
        "tip -> base -> tip",
    ),
    _error(
        "two parents",
        urdf(more=_fixed('<parent link="base"/><child link="tip"/>')),
        SECOND,
        '"tip"',
        "line 4",
    ),
    _error("no parent", urdf(more=_fixed('<child link="x"/>', '<link name="x"/>')), SECOND),
    _error(
        "an unknown parent",
        urdf(more=_fixed('<parent link="q"/><child link="x"/>', '<link name="x"/>')),
        SECOND,
        '"q"',
    ),
    _error("a name twice", urdf(more='<link name="tip"/>'), '<link name="tip">', "<string>:3"),
    _error("no name", urdf(more="<link/>"), "<string>:7: <link>"),
    _error("NaN", urdf(joint='<limit lower="nan"/>'), IN_JOINT.format("limit"), "lower", "nan"),
    _error("no number", urdf(joint='<limit lower="-1.5."/>'), IN_JOINT.format("limit"), '"-1.5."'),
    _error("four angles", urdf(joint='<origin rpy="0 0 0 0"/>'), IN_JOINT.format("origin"), "rpy"),
    _error(
        "decimal commas", urdf(joint='<origin xyz="0,5 0 0"/>'), IN_JOINT.format("origin"), "0,5"
    ),
    _error("joint type", urdf(kind="screw"), JOINT, '"screw"'),
    _error(
        "a floating joint on a moving link",
        urdf(
            joint=LIMIT,
            more=f'<link name="x">{INERTIAL}</link>\n<joint name="k" type="floating">'
            '<parent link="tip"/><child link="x"/></joint>',
        ),
        '<string>:7: <link name="x">',
        "free joint",
    ),
    _error("xacro element", urdf(more="<xacro:arm/>"), "<string>:7: <xacro:arm>", "xacro"),
    _error("xacro value", urdf(joint='<origin xyz="${a} 0 0"/>'), IN_JOINT.format("origin")),
    _error("size", urdf(link=shape('<box size="1 0 1"/>')), IN_LINK.format("box"), "size is 0 m"),
    _error("no radius", urdf(link=shape("<sphere/>")), IN_LINK.format("sphere"), "radius"),
    _error("mimic of itself", urdf(joint='<mimic joint="j"/>'), IN_JOINT.format("mimic")),
    _error("no links", '<robot name="a"/>', '<string>:1: <robot name="a">', "links"),
    _error("nothing moves", urdf(kind="fixed", joint=""), "<string>", "free_root=True"),
    _error(
        "a free root that moves already",
        urdf().replace('"base"', '"world"'),
        '<robot name="arm">',
        "free_root=True",
        free_root=True,
    ),
    _error(
        "inertia that overflows",
        urdf(
            link='<inertial><mass value="1"/>'
            '<inertia ixx="1e308" ixy="1e308" iyy="1" izz="1"/></inertial>'
        ),
        IN_LINK.format("inertia"),
        "ixx",
    ),
]

REPAIRS = [
    _repair(
        "triangle inequality", urdf(link=inertial(1, 1, 1, 3), joint=LIMIT), "1 1 3", "1.5 1.5 3"
    ),
    _repair("a negative moment", urdf(link=inertial(1, -0.5, 1, 1), joint=LIMIT), "-0.5 1 1"),
    _repair("no inertia", urdf(link=inertial(1, 0, 0, 0), joint=LIMIT), "0.001539"),
    _repair(
        "mass alone", urdf(link='<inertial><mass value="1"/></inertial>', joint=LIMIT), "0.001539"
    ),
    _repair(
        "inertia alone",
        urdf(link='<inertial><inertia ixx="1"/></inertial>', joint=LIMIT),
        IN_LINK.format("inertial"),
        LINK,
        "1e-06 kg",
    ),
    _repair("a link without anything", urdf(link="", joint=LIMIT), LINK, "1e-06 kg"),
    _repair("shapes without mass", urdf(link=BOX, joint=LIMIT), LINK, "1000 kg/m³"),
    _repair("two inertials", urdf(link=INERTIAL + INERTIAL, joint=LIMIT), "<inertial>"),
    _repair("an empty collision", urdf(link=INERTIAL + "<collision/>", joint=LIMIT), "<collision>"),
    _repair("two axes", urdf(joint='<axis xyz="0 0 1"/><axis xyz="0 1 0"/>' + LIMIT), "<axis>"),
    _repair("a limit of zero width", urdf(joint='<limit lower="0" upper="0"/>'), "<limit>"),
    _repair(
        "commas",
        urdf(joint='<origin xyz="0.5, 0 , -1"/>' + LIMIT),
        IN_JOINT.format("origin"),
        "0.5, 0 , -1",
    ),
    _repair("no world", urdf(joint=LIMIT, more=ON_WORLD), SECOND, '"world"'),
    _repair("a comment with hyphens", "<!-- a -- b -->" + urdf(joint=LIMIT), "<string>:1"),
    _repair(
        "a reversed limit",
        urdf(joint='<limit lower="1" upper="-1"/>'),
        IN_JOINT.format("limit"),
        "lower is 1 and upper is -1",
    ),
    _repair(
        "a leader whose name has a prefix",
        urdf(joint=LIMIT, more=follower('<mimic joint="left_j"/>')),
        '<string>:7: <mimic> in <joint name="k">',
        'no joint "left_j"',
        'follows "j"',
    ),
    _repair(
        "an empty multiplier",
        urdf(joint=LIMIT, more=follower('<mimic joint="j" multiplier=""/>')),
        '<string>:7: <mimic> in <joint name="k">',
        "multiplier",
    ),
    _repair("no limit", urdf(joint=""), JOINT, "<limit>"),
    _repair(
        "a misplaced declaration",
        "\n<!-- made by hand -->\n<?xml version='1.0'?>" + urdf(joint=LIMIT),
        "<string>:1",
    ),
    _repair(
        "a shape's name twice",
        urdf(link=INERTIAL + 2 * BOX.replace("<collision>", '<collision name="c">'), joint=LIMIT),
        '<collision name="c">',
    ),
]

UNSUPPORTED = [
    *_unsupported(
        "a plane as shape",
        urdf(link=shape('<plane normal="0 0 1"/>'), joint=LIMIT),
        IN_LINK.format("plane"),
    ),
    *_unsupported(
        "a missing mesh",
        urdf(link=shape('<mesh filename="package://a/b.stl"/>'), joint=LIMIT),
        IN_LINK.format("mesh"),
        '"package://a/b.stl"',
    ),
    *_unsupported(
        "a mesh on another host",
        urdf(link=shape('<mesh filename="http://host/b.stl"/>'), joint=LIMIT),
        IN_LINK.format("mesh"),
        '"http://host/b.stl"',
    ),
    *_unsupported(
        "mimic of a joint that is not there",
        urdf(joint=LIMIT + '<mimic joint="nope"/>'),
        IN_JOINT.format("mimic"),
        '"nope"',
    ),
    _error(
        "a mesh's name too long",
        urdf(link=shape(f'<mesh filename="{"a" * 400}.stl"/>'), joint=LIMIT),
        IN_LINK.format("mesh"),
        "aaa...",
    ),
    _mesh("DAE without triangles", "t.dae", b"<COLLADA/>", "no triangles"),
    _mesh("another format", "t.step", b"", '"step"'),
    _mesh("an STL without triangles", "t.stl", b"solid t facet vertex 1 2 3"),
    _mesh("glTF that is none", "t.gltf", b"{}x", "valid glTF"),
    _mesh("PLY that is none", "t.ply", b"solid", "PLY"),
    _mesh("OFF that is none", "t.off", b"solid", "OFF"),
    _mesh("3MF that is none", "t.3mf", b"solid", "3MF"),
    returns(
        "ignored: the axes of a mesh",
        lambda folder: _noted(folder, "t.dae", collada(asset="<up_axis>Y_UP</up_axis>"), "ignored"),
        '"t.dae"',
        '"Y_UP"',
    ),
    returns(
        "ignored: the axes of glTF",
        lambda folder: _noted(folder, "t.glb", glb(*gltf()), "ignored"),
        '"t.glb"',
    ),
    returns(
        "repaired: a mesh in another folder",
        lambda folder: _noted(folder, "deep/t.off", off(), "repaired", "meshes/t.off"),
        '"meshes/t.off"',
        '"deep/t.off"',
    ),
    returns(
        "ignored: urdf",
        lambda: notes(
            read(
                urdf(
                    link=INERTIAL + "<visual/><contact><lateral_friction value='1'/></contact>",
                    more='<transmission name="t"/><gazebo/><gazebo/><mujoco/><material name="m"/>',
                )
            ),
            "ignored",
        ),
        "<contact>",
        "velocity of <limit>",
        "<gazebo>",
        "<material>, <visual>",
    ),
]

CASES = [*NO_SENSE, *REPAIRS, *UNSUPPORTED]
