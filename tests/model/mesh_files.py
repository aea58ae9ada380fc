"""One surface, a tent with a square floor, in every format of mesh files."""

from __future__ import annotations

import base64
import io
import json
import struct
import zipfile
from typing import Any

import numpy as np

POINTS = np.array([[0, 0, 0], [2, 0, 0], [2, 1, 0], [0, 1, 0], [0.5, 0.25, 3]], float)
"""Corners of the tent."""
SQUARE = [0, 3, 2, 1]
SIDES = [[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]]
CORNERS = np.array([[0, 3, 2], [0, 2, 1], *SIDES])
"""Its triangles, the square cut from its first corner."""

TURN = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])
"""A quarter turn about z."""
STRETCH = np.array([1.0, 2.0, 0.5])
SHIFT = np.array([0.25, -0.5, 1.0])


def moved(points: np.ndarray) -> np.ndarray:
    """Return points that are stretched, turned and then shifted."""
    return (points * STRETCH) @ TURN.T + SHIFT


def spread(text: Any) -> str:
    """Return numbers as text."""
    return " ".join(str(x) for x in np.asarray(text).reshape(-1).tolist())


# how COLLADA lists the polygons; every corner has a normal too, which is skipped
def _with_normals(corners: Any) -> str:
    return spread([[k, 0] for k in np.asarray(corners).reshape(-1)])


FLAT = [k for polygon in [SQUARE, *SIDES] for k in polygon]
POLYGONS = {
    "triangles": f"<p>{_with_normals(CORNERS)}</p>",
    "polylist": f"<vcount>4 3 3 3 3</vcount><p>{_with_normals(FLAT)}</p>",
    "polygons": "".join(f"<p>{_with_normals(p)}</p>" for p in [SQUARE, *SIDES]),
    "trifans": "".join(f"<p>{_with_normals(p)}</p>" for p in [SQUARE, [4, 0, 1, 2, 3, 0]]),
    "tristrips": "".join(f"<p>{_with_normals(p)}</p>" for p in [[3, 2, 0, 1], *SIDES]),
}
PLACED = (
    f"<translate>{spread(SHIFT)}</translate><rotate>0 0 1 90</rotate>"
    f"<scale>{spread(STRETCH)}</scale>"
)
MATRIX = np.eye(4)
MATRIX[:3, :3], MATRIX[:3, 3] = TURN * STRETCH, SHIFT


def collada(
    polygons: str = "triangles",
    place: str = "",
    *,
    asset: str = '<unit meter="1"/><up_axis>Z_UP</up_axis>',
    scene: str | None = None,
    library: str = "",
) -> bytes:
    """Return the tent as COLLADA; `scene` replaces the nodes of its scene."""
    if scene is None:
        scene = f'<node>{place}<instance_geometry url="#tent"/></node>'
    source = '<technique_common><accessor source="#a" count="5" stride="3"/></technique_common>'
    return f"""<?xml version="1.0"?>
<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
<asset>{asset}</asset>
<library_geometries><geometry id="tent"><mesh>
<source id="where"><float_array id="a" count="15">{spread(POINTS)}</float_array>{source}</source>
<source id="up"><float_array id="n" count="3">0 0 1</float_array></source>
<vertices id="v"><input semantic="POSITION" source="#where"/></vertices>
<{polygons}><input semantic="VERTEX" source="#v" offset="0"/>
<input semantic="NORMAL" source="#up" offset="1"/>{POLYGONS[polygons]}</{polygons}>
</mesh></geometry></library_geometries>{library}
<library_visual_scenes><visual_scene id="s"><node type="JOINT"/>{scene}</visual_scene>
</library_visual_scenes><scene><instance_visual_scene url="#s"/></scene></COLLADA>
""".encode()


def gltf(
    node: dict[str, Any] | None = None, *, kind: str = "<u2", mode: int = 4, **more: Any
) -> tuple[dict[str, Any], bytes]:
    """Return the tent as the tree of glTF and its buffer."""
    corners: Any = CORNERS
    if mode == 5:
        corners = [3, 2, 0, 1]
    elif mode == 6:
        corners = [4, 0, 1, 2, 3, 0]
    numbers = {"<u1": 5121, "<u2": 5123, "<u4": 5125}
    points, order = POINTS.astype("<f4").tobytes(), np.array(corners, kind).tobytes()
    buffer = points + order
    tree = {
        "asset": {"version": "2.0"},
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0, **(node or {})}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1, "mode": mode}]}],
        "accessors": [
            {"bufferView": 0, "componentType": 5126, "count": 5, "type": "VEC3"},
            {
                "bufferView": 1,
                "componentType": numbers[kind],
                "count": np.size(corners),
                "type": "SCALAR",
            },
        ],
        "bufferViews": [
            {"buffer": 0, "byteOffset": 0, "byteLength": len(points)},
            {"buffer": 0, "byteOffset": len(points), "byteLength": len(order)},
        ],
        "buffers": [{"byteLength": len(buffer)}],
        **more,
    }
    return tree, buffer


def glb(tree: dict[str, Any], buffer: bytes) -> bytes:
    """Return glTF in its binary form."""
    text = json.dumps(tree).encode()
    text += b" " * (-len(text) % 4)
    buffer += b"\0" * (-len(buffer) % 4)
    body = struct.pack("<I4s", len(text), b"JSON") + text
    body += struct.pack("<I4s", len(buffer), b"BIN\0") + buffer
    return b"glTF" + struct.pack("<II", 2, 12 + len(body)) + body


def inlined(tree: dict[str, Any], buffer: bytes) -> bytes:
    """Return glTF as text that holds its buffer."""
    address = "data:application/octet-stream;base64," + base64.b64encode(buffer).decode()
    return json.dumps({**tree, "buffers": [{"byteLength": len(buffer), "uri": address}]}).encode()


def ply(form: str = "ascii", polygons: list[list[int]] | None = None) -> bytes:
    """Return the tent as PLY, with a colour for every point and a flag for every face."""
    polygons = [SQUARE, *SIDES] if polygons is None else polygons
    head = (
        f"ply\nformat {form} 1.0\ncomment a tent\nelement vertex 5\nproperty float x\n"
        "property float y\nproperty double z\nproperty uchar red\n"
        f"element face {len(polygons)}\nproperty list uchar int vertex_indices\n"
        "property uchar flag\nend_header\n"
    ).encode()
    if form == "ascii":
        rows = [f"{spread(p)} 255" for p in POINTS]
        rows += [f"{len(p)} {spread(p)} 7" for p in polygons]
        return head + "\n".join(rows).encode() + b"\n"
    order = "<" if "little" in form else ">"
    body = b"".join(struct.pack(order + "ffdB", *p, 255) for p in POINTS)
    body += b"".join(struct.pack(f"{order}B{len(p)}iB", len(p), *p, 7) for p in polygons)
    return head + body


def off() -> bytes:
    """Return the tent as OFF."""
    rows = ["OFF # a tent", "5 5 0", *(spread(p) for p in POINTS)]
    rows += [f"{len(p)} {spread(p)} 255 0 0" for p in [SQUARE, *SIDES]]
    return "\n".join(rows).encode()


def three_mf(unit: str = "meter", place: str = "") -> bytes:
    """Return the tent as 3MF, as a component of another object."""
    points = "".join(f'<vertex x="{x}" y="{y}" z="{z}"/>' for x, y, z in POINTS)
    corners = "".join(f'<triangle v1="{a}" v2="{b}" v3="{c}"/>' for a, b, c in CORNERS)
    text = (
        f'<model unit="{unit}" xmlns="http://schemas.microsoft.com/3dmanufacturing/core/2015/02">'
        f'<resources><object id="1"><mesh><vertices>{points}</vertices><triangles>{corners}'
        f'</triangles></mesh></object><object id="2"><components><component objectid="1" {place}/>'
        '</components></object></resources><build><item objectid="2"/></build></model>'
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("3D/3dmodel.model", text)
    return file.getvalue()
