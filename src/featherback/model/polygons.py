"""PLY, OFF and 3MF: the triangles of their polygons."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from featherback._typing import Array
from featherback.errors import ModelError
from featherback.model import xmltree
from featherback.model.triangles import (
    MeshProblem,
    Triangles,
    fans,
    floats,
    joined,
    surface,
)
from featherback.model.xmltree import Element, clip

MAX_PARTS = 10_000
"""Most parts of a 3MF file, each instance counted."""

# names of PLY's types -> NumPy's, without the order of bytes
_PLY_TYPES = {
    **dict.fromkeys(("char", "int8"), "i1"),
    **dict.fromkeys(("uchar", "uint8"), "u1"),
    **dict.fromkeys(("short", "int16"), "i2"),
    **dict.fromkeys(("ushort", "uint16"), "u2"),
    **dict.fromkeys(("int", "int32"), "i4"),
    **dict.fromkeys(("uint", "uint32"), "u4"),
    **dict.fromkeys(("float", "float32"), "f4"),
    **dict.fromkeys(("double", "float64"), "f8"),
}
_PLY_FORMATS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}

# units of 3MF in metres
_UNITS = {
    "micron": 1e-6,
    "millimeter": 1e-3,
    "centimeter": 1e-2,
    "inch": 0.0254,
    "foot": 0.3048,
    "meter": 1.0,
}


@dataclass
class _Part:
    """An element of a PLY file: name, count, and properties (name, type, type of the length)."""

    name: str
    count: int
    properties: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])


def read_ply(data: bytes) -> Triangles:
    """Return the triangles of a PLY file, text or binary.

    Raises:
        MeshProblem: if the file cannot be read.
    """
    head, found, body = data.partition(b"end_header")
    if not head.startswith(b"ply") or not found:
        raise MeshProblem("it is no PLY")
    order, parts = _ply_header(head.decode("ascii", "replace"))
    body = body[2:] if body[:2] == b"\r\n" else body[1:]
    try:
        columns = _ply_text(body, parts) if order == "" else _ply_binary(body, order, parts)
    except (ValueError, IndexError, TypeError, OverflowError):
        raise MeshProblem("it ends early, or holds something else than numbers") from None
    vertex, face = columns.get("vertex", {}), columns.get("face", {})
    if not all(axis in vertex for axis in "xyz"):
        raise MeshProblem("its vertices have no x, y and z")
    points = np.stack([np.asarray(vertex[axis], np.float64) for axis in "xyz"], axis=1)
    polygons = face.get("vertex_indices", face.get("vertex_index"))
    if not isinstance(polygons, tuple):
        raise MeshProblem("it has no faces")
    return surface(points, fans(*polygons))


def _ply_header(text: str) -> tuple[str, list[_Part]]:
    """Return the order of bytes ("" for text) and the elements of a PLY file."""
    order: str | None = None
    parts: list[_Part] = []
    try:
        for words in (line.split() for line in text.splitlines()):
            if words[:1] == ["format"]:
                order = _PLY_FORMATS[words[1]]
            elif words[:1] == ["element"]:
                parts.append(_Part(words[1], int(words[2])))
            elif words[:2] == ["property", "list"]:
                kinds = _PLY_TYPES[words[3]], _PLY_TYPES[words[2]]
                parts[-1].properties.append((words[4], *kinds))
            elif words[:1] == ["property"]:
                parts[-1].properties.append((words[2], _PLY_TYPES[words[1]], ""))
    except (KeyError, IndexError, ValueError):
        order = None
    if order is None or any(part.count < 0 for part in parts):
        raise MeshProblem("its header is no PLY header")
    return order, parts


Columns = dict[str, dict[str, Any]]
"""Element -> property -> numbers, or (lengths, numbers) of a list."""


def _ply_text(body: bytes, parts: list[_Part]) -> Columns:
    """Return the columns of a PLY file that is text."""
    values = floats(body.decode("ascii", "replace"))
    columns: Columns = {}
    at = 0
    for part in parts:
        own: dict[str, Any] = {}
        width = len(part.properties)
        if all(not length for _, _, length in part.properties):
            table = values[at : at + part.count * width].reshape(part.count, width)
            at += part.count * width
            own = {name: table[:, k] for k, (name, _, _) in enumerate(part.properties)}
        else:
            rows: dict[str, list[Any]] = {name: [] for name, _, _ in part.properties}
            for _ in range(part.count):
                for name, _, length in part.properties:
                    n = int(values[at]) if length else 1
                    at += 1 if length else 0
                    if n < 0 or at + n > len(values):
                        raise ValueError
                    rows[name].append(values[at : at + n])
                    at += n
            own = _columns(part, rows)
        columns[part.name] = own
    return columns


def _columns(part: _Part, rows: dict[str, list[Any]]) -> dict[str, Any]:
    """Return the columns of an element from its rows."""
    own: dict[str, Any] = {}
    for name, _, length in part.properties:
        flat = np.concatenate([np.zeros(0), *rows[name]])
        own[name] = (np.array([len(row) for row in rows[name]], int), flat) if length else flat
    return own


def _ply_binary(body: bytes, order: str, parts: list[_Part]) -> Columns:
    """Return the columns of a PLY file that is binary."""
    columns: Columns = {}
    at = 0
    for part in parts:
        own, at = _ply_table(body, at, order, part)
        columns[part.name] = own
    return columns


def _ply_table(body: bytes, at: int, order: str, part: _Part) -> tuple[dict[str, Any], int]:
    """Return the columns of one element and where the next one begins."""
    # a table whose lists are all as long as those of its first row is read at once
    lengths: dict[str, int] = {}
    fields: list[tuple[Any, ...]] = []
    offset = at
    for name, kind, length in part.properties:
        if length and part.count:
            n = int(np.frombuffer(body, order + length, 1, offset)[0])
            lengths[name] = n
            fields += [(f"#{name}", order + length), (name, order + kind, (n,))]
            offset += np.dtype(length).itemsize + n * np.dtype(kind).itemsize
        else:
            fields.append((name, order + kind))
            offset += np.dtype(kind).itemsize
    row = np.dtype(fields)
    if at + part.count * row.itemsize <= len(body):
        table = np.frombuffer(body, row, part.count, at)
        if all(np.all(table[f"#{name}"] == n) for name, n in lengths.items()):
            own: dict[str, Any] = {}
            for name, _, length in part.properties:
                n = lengths.get(name, 0)
                counts = np.full(part.count, n)
                own[name] = (counts, table[name].reshape(-1)) if length else table[name]
            return own, at + part.count * row.itemsize
    return _ply_rows(body, at, order, part)


def _ply_rows(body: bytes, at: int, order: str, part: _Part) -> tuple[dict[str, Any], int]:
    """Return the columns of one element row by row, and where the next one begins."""
    rows: dict[str, list[Any]] = {name: [] for name, _, _ in part.properties}
    for _ in range(part.count):
        for name, kind, length in part.properties:
            n = 1
            if length:
                n = int(np.frombuffer(body, order + length, 1, at)[0])
                at += np.dtype(length).itemsize
            rows[name].append(np.frombuffer(body, order + kind, n, at))
            at += n * np.dtype(kind).itemsize
    return _columns(part, rows), at


def read_off(data: bytes) -> Triangles:
    """Return the triangles of an OFF file in text.

    Raises:
        MeshProblem: if the file cannot be read.
    """
    lines = [line.split("#")[0] for line in data.decode("utf-8", "replace").splitlines()]
    words = " ".join(lines).split()
    if not words or not words[0].upper().startswith("OFF"):
        raise MeshProblem("it is no OFF file of points and polygons")
    # the counts may stand on the line of the word
    rows = [line for line in lines if line.strip()]
    rows[0] = rows[0].strip()[3:]
    rows = [row for row in rows if row.strip()]
    try:
        vertices, faces = (int(word) for word in rows[0].split()[:2])
        points = floats(" ".join(rows[1 : 1 + vertices])).reshape(vertices, -1)[:, :3]
        polygons = [row.split() for row in rows[1 + vertices : 1 + vertices + faces]]
        counts = np.array([int(row[0]) for row in polygons], int)
        corners = [[int(w) for w in row[1 : 1 + int(row[0])]] for row in polygons]
    except (ValueError, IndexError):
        raise MeshProblem("it ends early, or holds something else than numbers") from None
    return surface(points, fans(counts, np.array([k for row in corners for k in row], int)))


def read_3mf(data: bytes, shown: str) -> Triangles:
    """Return the triangles of a 3MF file, in metres.

    Raises:
        MeshProblem: if the file cannot be read.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [n for n in archive.namelist() if n.lower().endswith(".model")]
            if not names or archive.getinfo(names[0]).file_size > xmltree.MAX_BYTES:
                raise MeshProblem("it holds no model, or one that is too large")
            text = archive.read(names[0])
        root = xmltree.parse(text, shown, most=xmltree.MAX_ELEMENTS * 10)
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError, EOFError):
        raise MeshProblem("it is no 3MF archive") from None
    except ModelError as error:
        raise MeshProblem(str(error).rstrip(".")) from None
    unit = root.get("unit") or "millimeter"
    if unit not in _UNITS:
        raise MeshProblem(f'its unit is "{clip(unit)}", which is none of the format')
    try:
        found = joined(_built(root))
    except (ValueError, KeyError):
        raise MeshProblem("it ends early, or holds something else than numbers") from None
    return found.moved(np.diag([*[_UNITS[unit]] * 3, 1.0]))


def _built(root: Element) -> list[Triangles]:
    """Return the parts that a 3MF file builds, where they are."""
    objects = {e.attributes["id"]: e for e in root.walk() if e.tag == "object"}
    items = [e for e in root.walk() if e.tag == "item"]
    parts: list[Triangles] = []
    stack = [(item, np.eye(4)) for item in reversed(items)]
    count = 0
    while stack:
        item, outer = stack.pop()
        count += 1
        if count > MAX_PARTS:
            raise MeshProblem(f"it has more than {MAX_PARTS} parts")
        here = objects[item.attributes["objectid"]]
        matrix = outer @ _placed(item)
        mesh, inner = here.find("mesh"), here.find("components")
        if mesh is not None:
            parts.append(_mesh(mesh).moved(matrix))
        if inner is not None:
            stack.extend((e, matrix) for e in reversed(inner.findall("component")))
    return parts


def _placed(item: Element) -> Array:
    """Return the transformation of an item; the format writes it by columns."""
    matrix = np.eye(4)
    text = item.get("transform")
    if text:
        matrix[:3] = floats(text).reshape(4, 3).T
    return matrix


def _mesh(mesh: Element) -> Triangles:
    """Return the triangles of a mesh."""
    vertices, triangles = mesh.find("vertices"), mesh.find("triangles")
    points = [[float(e.attributes[a]) for a in "xyz"] for e in _of(vertices)]
    corners = [[int(e.attributes[a]) for a in ("v1", "v2", "v3")] for e in _of(triangles)]
    flat: NDArray[Any] = np.array(corners, np.int64).reshape(-1, 3)
    return surface(np.array(points, np.float64), flat)


def _of(element: Element | None) -> list[Element]:
    """Return the children of an element that may not be there."""
    return [] if element is None else element.children
