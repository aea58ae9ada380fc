"""Files that cannot be read, may not be read, or hold what is not MJCF; notices of whole models."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from featherback.errors import ModelError, ParameterError
from featherback.model import xmltree
from featherback.model.load import parse
from featherback.model.model import Model
from tests.golden.sentences import Case, raises, returns
from tests.model.helpers import mjcf, notes, read, urdf

LONG = "a" * 400
FAR = "../../../../../../../../../../../etc/passwd"
GEOM = '<string>:5: <geom> in <body name="b">'
MESH = '<asset><mesh name="m" file="{}"/></asset>'
TENDON = '<tendon><fixed name="t"><joint joint="j" coef="1"/></fixed></tendon>'


def _source(name: str, source: Any, *names: str, **options: Any) -> Case:
    """Return the case of a source that cannot be read."""
    return raises(f"file: {name}", ModelError, partial(parse, source, **options), *names)


def _argument(name: str, *names: str, source: Any = None, **options: Any) -> Case:
    """Return the case of an argument that is not known or does not fit the format."""
    text = mjcf() if source is None else source
    call = partial(parse, text, **options)
    return raises(f"load: {name}", ParameterError, call, "load()", *names)


def _beside(name: str, before: str, *names: str, **options: Any) -> Case:
    """Return the case of a file robot.xml that names another one."""

    def call(folder: Path) -> None:
        path = folder / "robot.xml"
        path.write_text(mjcf(before=before))
        (folder / "link.xml").symlink_to("/etc/passwd")
        parse(path, **options)

    return raises(f"file: {name}", ModelError, call, "robot.xml:2", *names)


def _include(name: str, file: str, *names: str) -> Case:
    """Return the case of an <include>."""
    return _beside(f"include, {name}", f'<include file="{file}"/>', "<include>", *names)


def _limited(name: str, text: str, limit: str, value: int, *names: str) -> Case:
    """Return the case of a file beyond a limit that is lowered for it."""

    def call() -> None:
        with mock.patch.object(xmltree, limit, value):
            parse(text)

    return raises(f"file: {name}", ModelError, call, *names)


def _notices(name: str, text: str, *names: str, kind: str = "ignored") -> Case:
    """Return the case of what loading a model reports."""
    return returns(f"{kind}: {name}", lambda: notes(read(text), kind), *names)


SOURCES = [
    _source("MJCF as URDF", mjcf(), "<string>:1", "<mujoco>", "<robot>", format="urdf"),
    _source("URDF as MJCF", urdf(), "<string>:1", "<robot>", "<mujoco>", format="mjcf"),
    _source("another root", "<sdf/>", "<string>:1", "<sdf>"),
    _source("no such file", "nowhere.xml", "nowhere.xml"),
    _source("a name with a zero", "no\0where.xml", "no?where.xml"),
    _source("a folder", ".", ".:", "folder"),
    _source("XML that is not well-formed", "<mujoco>\n<a>\n</mujoco>", "<string>:3"),
    _source("nothing moves", "<mujoco/>", "<string>"),
    _source("an unknown element", mjcf("<foo/>"), '<string>:5: <foo> in <body name="b">'),
    _source("an unknown attribute", mjcf('<geom foo="1" size="1"/>'), GEOM, "'foo'"),
    _source("a word as size", mjcf('<geom size="wide"/>'), GEOM, "'size'"),
    _source(
        "a flat mesh",
        mjcf(before='<asset><mesh name="m" vertex="0 0 0 1 0 0 0 1 0"/></asset>'),
        '<string>:2: <mesh name="m">',
        "vertices",
    ),
    _source("a document type", '<!DOCTYPE m [<!ENTITY a "b">]>\n<mujoco model="&a;"/>', "DOCTYPE"),
    _source("deep nesting", f"<mujoco>{'<a>' * 2600}{'</a>' * 2600}</mujoco>", "2500"),
    _limited("many bytes", f"<mujoco>{' ' * 100}</mujoco>", "MAX_BYTES", 100, "117", "100"),
    _limited("many elements", "<mujoco><a/><a/></mujoco>", "MAX_ELEMENTS", 2, "2 elements"),
    raises(
        "file: an unknown encoding",
        ModelError,
        lambda: xmltree.parse(b'<?xml version="1.0" encoding="nonsense"?><mujoco/>', "a.xml"),
        "a.xml:1",
        "encoding",
    ),
    _source("nkey", mjcf(before='<size nkey="1000000"/>'), "<size>", "nkey is 1000000"),
    _source("nuser", mjcf(before='<size nuser_body="1e9"/>'), "<size>", "nuser_body"),
    _source(
        "a huge texture",
        mjcf(before='<asset><texture name="t" builtin="flat" width="1000000" height="9"/></asset>'),
        '<texture name="t">',
        "width is 1000000",
    ),
    _source("a path too long", LONG, "a" * 197 + "..."),
    _source("an include too long", mjcf(before=f'<include file="{LONG}"/>'), "<include>", "aaa..."),
    _source("a mesh too long", mjcf(before=MESH.format(LONG)), '<mesh name="m">', "aaa..."),
    _source(
        "a folder too long",
        mjcf(before=f'<compiler meshdir="{LONG}"/><asset><mesh file="m.stl"/></asset>'),
        "<string>:2: <mesh>",
        '"m.stl"',
    ),
]

ARGUMENTS = [
    _argument("on_unsupported", "on_unsupported", "'ignore'", on_unsupported="ignore"),
    _argument("format", "format", "'sdf'", format="sdf"),
    _argument("a free root in MJCF", "free_root=True", free_root=True),
    _argument("motors in MJCF", "motors=True", motors=True),
    _argument("one folder of assets", "asset_folders", "'meshes'", asset_folders="meshes"),
    _argument("no folder of assets", "asset_folders", '"nowhere"', asset_folders=["nowhere"]),
    _argument("a floor without a height", "floor", "True", "metres", floor=True),
    _argument("a floor at no height", "floor", "nan", "metres", floor=float("nan")),
    _argument("a number as source", "source", "int", source=3),
    _argument("an empty source", "source", source=""),
]

BESIDE = [
    _include("missing", "nope.xml", '"nope.xml"'),
    _include("far above", FAR, f'"{FAR}"', "4 folders", "asset_folders"),
    _include("absolute", "/etc/passwd", '"/etc/passwd"'),
    _include("a link out of reach", "link.xml", '"link.xml"'),
    _include("without a name", "", 'file="..."'),
    _include("twice", "robot.xml", "robot.xml is included twice"),
    _beside("an asset out of reach", MESH.format("/etc/passwd"), '"/etc/passwd"'),
    _beside(
        "an asset out of reach, whatever is dropped",
        MESH.format("/etc/passwd"),
        '"/etc/passwd"',
        on_unsupported="drop",
    ),
]

HOSTILE = [
    _source("percent sign in a class", mjcf('<geom size="1" class="%n%s"/>'), GEOM, '"%n%s"'),
    _source(
        "percent sign in a childclass",
        mjcf('<body name="c" childclass="50%"/>'),
        '<string>:5: <body name="c">',
        'childclass is "50%"',
    ),
    _source(
        "percent sign in a default class",
        mjcf(before='<default><default class="a%sb"/></default>'),
        "<string>:2: <default>",
        '"a%sb"',
    ),
    _source(
        "percent sign in an asset's class",
        mjcf(before='<asset><mesh name="m" class="%n"/></asset>'),
        '<string>:2: <mesh name="m">',
        '"%n"',
    ),
    _source("an empty size", mjcf('<geom size=""/>'), GEOM, "size"),
    _notices("an empty user", mjcf('<geom size="1" user=" "/>'), GEOM, "user", kind="repaired"),
    _source(
        "an empty vertex",
        mjcf(before='<asset><mesh name="m" vertex=""/></asset>'),
        '<mesh name="m">',
    ),
    _notices(
        "an empty qpos",
        mjcf(after='<keyframe><key qpos=""/></keyframe>'),
        "<key>",
        "qpos",
        kind="repaired",
    ),
    _source(
        "empty data",
        mjcf(after='<custom><numeric name="a" data=""/></custom>'),
        '<numeric name="a">',
    ),
    _notices(
        "empty attributes",
        mjcf('<geom size="1" pos=""/><geom size="1" pos=""/>'),
        GEOM,
        "pos",
        "2 times",
        kind="repaired",
    ),
]

USERS = "".join(f'<general name="u{i}" joint="j" gaintype="user"/>' for i in range(12))
MANY = mjcf(
    after=f'<actuator>{USERS}<general name="m" body="b" biastype="affine" biasprm="0 0 1"/>'
    "</actuator>"
)

MIXED = mjcf(
    '<geom size="1" solref="1 1"/>',
    world='<geom name="w" type="plane" size="1 1 1"/>',
    after='<contact><pair name="p" geom1="w" geom2="g" friction="0.5 0.2"/></contact>'
    '<actuator><general name="m" body="b" biastype="affine" biasprm="0 0 1"/></actuator>',
)

NOTICES = [
    _source("many things at once", MANY, "13 things", "3 more", '<general name="m">'),
    _notices("an idle tendon", mjcf(after=TENDON), '<fixed name="t">'),
    _notices(
        "an inactive equality",
        mjcf(
            after='<equality><connect name="e" body1="b" anchor="0 0 0" active="false"/></equality>'
        ),
        '<connect name="e">',
    ),
    _notices(
        "an actuator group",
        mjcf(
            before='<option actuatorgroupdisable="1"/>',
            after='<actuator><motor name="m" joint="j" group="1"/></actuator>',
        ),
        '<motor name="m">',
    ),
    _notices(
        "settings",
        mjcf(
            '<geom size="1" solref="0.1 1"/><geom size="1" solref="0.1 1" rgba="1 0 0 1"/>',
            before='<option integrator="RK4"/><visual><map fogend="1"/></visual>',
            after='<sensor><jointpos joint="j"/></sensor>',
        ),
        "<sensor>",
        "rgba",
    ),
    _notices(
        "settings of one law",
        mjcf(
            '<geom size="1" solref="0.1 1"/><geom size="1" solref="0.1 1" gap="0.1"/>',
            before='<option integrator="RK4" cone="elliptic"><flag eulerdamp="disable"/></option>',
            world='<geom name="w" type="plane" size="1 1 1" condim="4"/>',
            after='<contact><pair geom1="w" geom2="g" friction="0.5 0.2"/></contact>',
        ),
        "integrator",
        "cone",
        "eulerdamp",
        "solref",
        "sliding",
        kind="law",
    ),
    _notices("a deprecated setting", mjcf(before='<compiler settotalmass="2"/>'), "settotalmass"),
    returns(
        "report: a plain model",
        lambda: Model(read(mjcf()), None).report(),  # type: ignore[arg-type]
        'model "test"',
    ),
    returns(
        "report: a mixed model",
        lambda: Model(read(MIXED, on_unsupported="drop"), None).report(),  # type: ignore[arg-type]
        '<general name="m">',
        '<pair name="p">',
        "solref",
    ),
]

CASES = [*SOURCES, *ARGUMENTS, *BESIDE, *HOSTILE, *NOTICES]
