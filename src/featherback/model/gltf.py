"""glTF 2.0 (.gltf, .glb): the triangles of its scene.

The y axis counts as up in this format, and the scene is not turned to make it z: the meshes of
links have the axes of the links.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import struct
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from featherback._typing import Array
from featherback.model.triangles import (
    Corners,
    MeshProblem,
    Triangles,
    fans,
    joined,
    strip,
    surface,
)
from featherback.model.xmltree import clip

MAX_INSTANCES = 10_000
"""Most nodes of a scene, each instance counted."""

# number of a type in the format -> NumPy's type
_TYPES = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}

# extensions without which the triangles can be read
_HARMLESS = ("KHR_materials", "KHR_texture", "KHR_lights", "KHR_mesh_quantization", "EXT_texture")

Reader = Callable[[str], bytes]
"""Returns the content of a file that the mesh names."""


def read_gltf(data: bytes, beside: Reader) -> Triangles:
    """Return the triangles of a glTF file, its axes as they are.

    Args:
        data: content of the file, JSON or binary.
        beside: reads a file that it names.

    Raises:
        MeshProblem: if the file cannot be read.
    """
    text, chunk = _chunks(data) if data[:4] == b"glTF" else (data, b"")
    try:
        tree = json.loads(text)
        if not isinstance(tree, dict):
            raise MeshProblem("it is no glTF")
        return _Scene(cast(dict[str, Any], tree), chunk, beside).triangles()
    except RecursionError:
        raise MeshProblem("it is nested too deeply") from None
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        kind = type(error).__name__
        raise MeshProblem(f"it is no valid glTF ({kind}: {clip(str(error), 60)})") from None


def _chunks(data: bytes) -> tuple[bytes, bytes]:
    """Return the JSON and the binary chunk of a GLB file."""
    if len(data) < 20 or struct.unpack_from("<I", data, 4)[0] != 2:
        raise MeshProblem("it is glTF of another version than 2")
    parts: dict[bytes, bytes] = {}
    at = 12
    while at + 8 <= len(data):
        (length,) = struct.unpack_from("<I", data, at)
        parts.setdefault(data[at + 4 : at + 8], data[at + 8 : at + 8 + length])
        at += 8 + length
    return parts.get(b"JSON", b""), parts.get(b"BIN\0", b"")


class _Scene:
    """A file as a tree, and its buffers."""

    def __init__(self, tree: dict[str, Any], chunk: bytes, beside: Reader) -> None:
        self.tree = tree
        self.chunk = chunk
        self.beside = beside
        self.buffers: dict[int, bytes] = {}
        self.meshes: dict[int, Triangles] = {}
        for name in tree.get("extensionsRequired", []):
            if not str(name).startswith(_HARMLESS):
                raise MeshProblem(f'it needs the extension "{clip(str(name))}", which is not read')

    def triangles(self) -> Triangles:
        """Return all meshes of the scene where they are; all there are if it has no nodes."""
        nodes = self.tree.get("nodes", [])
        scenes = self.tree.get("scenes", [])
        if not nodes:
            return joined([self.mesh(i) for i in range(len(self.tree.get("meshes", [])))])
        if scenes:
            roots = scenes[self.tree.get("scene", 0)].get("nodes", [])
        else:
            inner = {child for node in nodes for child in node.get("children", [])}
            roots = [i for i in range(len(nodes)) if i not in inner]
        parts: list[Triangles] = []
        stack = [(int(i), np.eye(4)) for i in reversed(roots)]
        count = 0
        while stack:
            number, outer = stack.pop()
            count += 1
            if count > MAX_INSTANCES:
                raise MeshProblem(f"its scene has more than {MAX_INSTANCES} nodes")
            node = nodes[number]
            matrix = outer @ _matrix(node)
            if "mesh" in node:
                parts.append(self.mesh(int(node["mesh"])).moved(matrix))
            stack.extend((int(i), matrix) for i in reversed(node.get("children", [])))
        return joined(parts)

    def mesh(self, number: int) -> Triangles:
        """Return the triangles of a mesh."""
        if number not in self.meshes:
            parts = self.tree["meshes"][number]["primitives"]
            self.meshes[number] = joined([self.primitive(p) for p in parts])
        return self.meshes[number]

    def primitive(self, primitive: dict[str, Any]) -> Triangles:
        """Return the triangles of a primitive; none of points and lines."""
        for name in primitive.get("extensions", {}):
            if "compression" in name:
                raise MeshProblem(f'it is compressed by "{clip(name)}", which is not read')
        points = self.accessor(primitive["attributes"]["POSITION"])
        if "indices" in primitive:
            corners = self.accessor(primitive["indices"]).astype(np.int64)[:, 0]
        else:
            corners = np.arange(len(points))
        return surface(points, _cut(int(primitive.get("mode", 4)), corners))

    def accessor(self, number: int) -> NDArray[Any]:
        """Return [count, width], the numbers behind an accessor."""
        access = self.tree["accessors"][number]
        if "sparse" in access:
            raise MeshProblem("it has sparse accessors, which are not read")
        kind = np.dtype(_TYPES[access["componentType"]])
        width = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4}[access["type"]]
        count = int(access["count"])
        if "bufferView" not in access:
            raise MeshProblem("it has accessors without numbers")
        view = self.tree["bufferViews"][access["bufferView"]]
        data = self.buffer(int(view["buffer"]))
        first = int(view.get("byteOffset", 0)) + int(access.get("byteOffset", 0))
        stride = int(view.get("byteStride", kind.itemsize * width))
        need = first + stride * (count - 1) + kind.itemsize * width
        if first < 0 or count < 1 or stride < kind.itemsize or need > len(data):
            raise MeshProblem("a list of numbers does not lie inside of its buffer")
        found = np.ndarray((count, width), kind, data, first, (stride, kind.itemsize))
        if access.get("normalized") and kind.kind in "iu":
            return np.maximum(found / np.iinfo(kind).max, -1.0)
        return found

    def buffer(self, number: int) -> bytes:
        """Return the content of a buffer."""
        if number not in self.buffers:
            address = self.tree["buffers"][number].get("uri")
            if address is None:
                self.buffers[number] = self.chunk
            elif address.startswith("data:"):
                try:
                    content = base64.b64decode(address.partition(",")[2], validate=True)
                except binascii.Error:
                    raise MeshProblem("a buffer inside of it is no base64") from None
                self.buffers[number] = content
            else:
                self.buffers[number] = self.beside(str(address))
        return self.buffers[number]


def _cut(mode: int, corners: Corners) -> Corners:
    """Return the triangles of a primitive."""
    if mode == 4:
        return corners[: len(corners) // 3 * 3].reshape(-1, 3)
    if mode == 5 and len(corners) > 2:
        return strip(corners)
    if mode == 6:
        return fans(np.array([len(corners)]), corners)
    return np.zeros((0, 3), np.int64)


def _matrix(node: dict[str, Any]) -> Array:
    """Return the transformation of a node."""
    if "matrix" in node:
        # by columns
        return np.array(node["matrix"], np.float64).reshape(4, 4).T
    matrix = np.eye(4)
    x, y, z, w = np.array(node.get("rotation", (0, 0, 0, 1)), np.float64)
    norm = math.sqrt(x * x + y * y + z * z + w * w)
    if norm > 0:
        x, y, z, w = x / norm, y / norm, z / norm, w / norm
    turn = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )
    matrix[:3, :3] = turn * np.array(node.get("scale", (1, 1, 1)), np.float64)
    matrix[:3, 3] = np.array(node.get("translation", (0, 0, 0)), np.float64)
    return matrix
