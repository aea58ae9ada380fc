"""COLLADA (.dae): the triangles of its scene, in metres.

Units and the transformations of nodes are applied. `up_axis` is not, as in RViz, Gazebo and MoveIt:
the meshes of links have the axes of the links.
"""

from __future__ import annotations

import math

import numpy as np

from featherback._typing import Array
from featherback.errors import ModelError
from featherback.model import xmltree
from featherback.model.triangles import (
    Corners,
    MeshProblem,
    Triangles,
    fans,
    floats,
    integers,
    joined,
    strip,
    surface,
)
from featherback.model.xmltree import Element, clip

MAX_INSTANCES = 10_000
"""Most nodes of a scene, each instance counted."""
MAX_NUMBERS = 300_000_000
"""Most characters of one list of numbers."""

_MOVES = ("matrix", "translate", "rotate", "scale", "skew", "lookat")


def read_collada(data: bytes, shown: str) -> tuple[Triangles, str]:
    """Return the triangles of a COLLADA file, and what its user should know, or "".

    Raises:
        MeshProblem: if the file cannot be read.
    """
    try:
        root = xmltree.parse(data, shown, text_limit=MAX_NUMBERS)
    except ModelError as error:
        raise MeshProblem(str(error).rstrip(".")) from None
    if root.tag != "COLLADA":
        raise MeshProblem(f"its root element is <{clip(root.tag)}> and not <COLLADA>")
    scene = _Scene(root)
    parts = scene.parts()
    scale = np.diag([*[_unit(root)] * 3, 1.0])
    up = _inner(root, "asset", "up_axis")
    axis = up.text.strip() if up is not None else "Z_UP"
    note = f'up_axis "{clip(axis)}" has no effect; its axes are those of the link'
    note = "" if axis == "Z_UP" else note
    return joined(parts).moved(scale), note


def _inner(element: Element | None, *tags: str) -> Element | None:
    """Return what lies along a path of tags, or None."""
    for tag in tags:
        element = element.find(tag) if element is not None else None
    return element


def _unit(root: Element) -> float:
    """Return the unit of a file in metres."""
    unit = _inner(root, "asset", "unit")
    given = unit.get("meter") if unit is not None else None
    try:
        metres = float(given or 1.0)
    except ValueError:
        metres = math.nan
    if not 0 < metres < math.inf:
        raise MeshProblem(f'its unit is "{clip(str(given))}" metres, which is no length')
    return metres


class _Scene:
    """The elements of a file by their ids, and its geometries once read."""

    def __init__(self, root: Element) -> None:
        self.root = root
        self.ids = {e.attributes["id"]: e for e in root.walk() if "id" in e.attributes}
        self.read: dict[int, Triangles] = {}

    def at(self, url: str | None, tag: str) -> Element:
        """Return the element that a reference names."""
        found = self.ids.get((url or "").removeprefix("#"))
        if found is None or found.tag != tag:
            raise MeshProblem(f'it names a <{tag}> "{clip(url or "")}" that is not there')
        return found

    def parts(self) -> list[Triangles]:
        """Return all geometries of the scene where they are; all there are if it has no scene."""
        start = _inner(self.root, "scene", "instance_visual_scene")
        library = self.root.find("library_visual_scenes")
        if start is not None:
            top = self.at(start.get("url"), "visual_scene")
        elif library is not None and library.children:
            top = library.children[0]
        else:
            return [self.geometry(e) for e in self.root.walk() if e.tag == "geometry"]
        parts: list[Triangles] = []
        stack = [(node, np.eye(4)) for node in reversed(top.findall("node"))]
        count = 0
        while stack:
            node, outer = stack.pop()
            count += 1
            if count > MAX_INSTANCES:
                raise MeshProblem(f"its scene has more than {MAX_INSTANCES} nodes")
            inner = outer @ _matrix(node)
            for child in reversed(node.children):
                if child.tag == "node":
                    stack.append((child, inner))
                elif child.tag == "instance_node":
                    stack.append((self.at(child.get("url"), "node"), inner))
                elif child.tag == "instance_geometry":
                    found = self.geometry(self.at(child.get("url"), "geometry"))
                    parts.append(found.moved(inner))
                elif child.tag == "instance_controller":
                    parts.append(self.skinned(child).moved(inner))
        return parts

    def skinned(self, instance: Element) -> Triangles:
        """Return the geometry of a skin in the pose in which it was bound."""
        skin = self.at(instance.get("url"), "controller").find("skin")
        if skin is None:
            raise MeshProblem("it holds a <controller> that is no skin")
        bind = skin.find("bind_shape_matrix")
        found = self.geometry(self.at(skin.get("source"), "geometry"))
        return found if bind is None else found.moved(_square(bind))

    def geometry(self, element: Element) -> Triangles:
        """Return the triangles of one geometry."""
        if id(element) not in self.read:
            mesh = element.find("mesh")
            parts = [] if mesh is None else [self.primitive(e) for e in mesh.children]
            self.read[id(element)] = joined([part for part in parts if part is not None])
        return self.read[id(element)]

    def primitive(self, element: Element) -> Triangles | None:
        """Return the triangles of one list of polygons; None of what has no surface."""
        cut = _CUTS.get(element.tag)
        if cut is None:
            return None
        inputs = element.findall("input")
        offsets = [int(_number(i, "offset", 0)) for i in inputs]
        stride = max([0, *offsets]) + 1
        for given, offset in zip(inputs, offsets, strict=True):
            if given.get("semantic") == "VERTEX":
                vertices = self.at(given.get("source"), "vertices")
                lists = [integers(p.text)[offset::stride] for p in element.walk() if p.tag == "p"]
                return surface(self.positions(vertices), cut(element, lists))
        return None

    def positions(self, vertices: Element) -> Array:
        """Return float64[n, 3], the positions of some vertices."""
        for given in vertices.findall("input"):
            if given.get("semantic") == "POSITION":
                source = self.at(given.get("source"), "source")
                access = _inner(source, "technique_common", "accessor")
                array = source.find("float_array")
                if array is None:
                    break
                values = floats(array.text)
                stride = int(_number(access, "stride", 3))
                first = int(_number(access, "offset", 0))
                if stride < 3 or first < 0:
                    break
                count = max(len(values) - first, 0) // stride
                rows = values[first : first + count * stride].reshape(count, stride)
                return rows[:, :3]
        raise MeshProblem("it holds a geometry without positions")


def _number(element: Element | None, attribute: str, default: float) -> float:
    """Return an attribute as a number."""
    text = element.get(attribute) if element is not None else None
    try:
        return float(text) if text else default
    except ValueError:
        raise MeshProblem(f'{attribute} is "{clip(str(text))}", which is no number') from None


def _of_triangles(_: Element, lists: list[Corners]) -> Corners:
    flat = np.concatenate([np.zeros(0, np.int64), *lists])
    return flat[: len(flat) // 3 * 3].reshape(-1, 3)


def _of_polylist(element: Element, lists: list[Corners]) -> Corners:
    counts = element.find("vcount")
    flat = np.concatenate([np.zeros(0, np.int64), *lists])
    return fans(integers(counts.text if counts is not None else ""), flat)


def _of_polygons(_: Element, lists: list[Corners]) -> Corners:
    flat = np.concatenate([np.zeros(0, np.int64), *lists])
    return fans(np.array([len(part) for part in lists], np.int64), flat)


def _of_strips(_: Element, lists: list[Corners]) -> Corners:
    parts = [strip(part) for part in lists if len(part) > 2]
    return np.concatenate([np.zeros((0, 3), np.int64), *parts])


# lists of polygons -> how they are cut into triangles
_CUTS = {
    "triangles": _of_triangles,
    "polylist": _of_polylist,
    "polygons": _of_polygons,
    "trifans": _of_polygons,
    "tristrips": _of_strips,
}


def _square(element: Element) -> Array:
    """Return the 16 numbers of an element as a matrix."""
    values = floats(element.text)
    if len(values) != 16:
        raise MeshProblem(f"a <{element.tag}> holds {len(values)} numbers instead of 16")
    return values.reshape(4, 4)


def _matrix(node: Element) -> Array:
    """Return the product of the transformations of a node, in their order."""
    result = np.eye(4)
    for element in node.children:
        if element.tag not in _MOVES:
            continue
        move, values = np.eye(4), floats(element.text)
        if element.tag == "matrix":
            move = _square(element)
        elif element.tag == "translate" and len(values) == 3:
            move[:3, 3] = values
        elif element.tag == "scale" and len(values) == 3:
            move[:3, :3] = np.diag(values)
        elif element.tag == "rotate" and len(values) == 4:
            move[:3, :3] = turn(values[:3], math.radians(values[3]))
        else:
            raise MeshProblem(f"a node is moved by <{element.tag}>, which is not read here")
        result = result @ move
    return result


def turn(axis: Array, angle: float) -> Array:
    """Return the rotation about an axis of any length."""
    length = float(np.linalg.norm(axis))
    if length == 0:
        return np.eye(3)
    x, y, z = axis / length
    across = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + math.sin(angle) * across + (1 - math.cos(angle)) * across @ across
