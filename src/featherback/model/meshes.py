"""Mesh files of a URDF: where they lie, and their conversion to what MuJoCo reads."""

from __future__ import annotations

import importlib
import os
import re
import struct
from dataclasses import dataclass, field
from pathlib import Path

from featherback.errors import ModelError
from featherback.model.files import Folders
from featherback.model.xmltree import clip, read_bytes

PACKAGE_RISE = 8
"""How many folders above a URDF its packages are looked for."""

MAX_MESH_BYTES = 512 * 1024 * 1024
"""Largest mesh file."""

MAX_ASCII_FACES = 200_000
"""Most triangles in an STL file written as text; MuJoCo's own limit for STL."""

NATIVE = ("stl", "obj", "msh")
"""Formats that MuJoCo reads."""

CONVERTED = ("dae", "glb", "gltf", "ply", "off", "3mf")
"""Formats that trimesh converts, if it is installed."""

_SCHEME = re.compile(r"^(package|model|file)://")


class MeshProblem(Exception):
    """A mesh cannot be used; the message is a clause without a full stop."""


@dataclass
class MeshStore:
    """Collects the mesh files of a model under names of their own.

    Attributes:
        folders: folders from which the URDF may read.
        assets: name -> content, as MuJoCo's reader takes them.
        names: path -> name.
    """

    folders: Folders
    assets: dict[str, bytes] = field(default_factory=dict)
    names: dict[Path, str] = field(default_factory=dict)

    def add(self, filename: str) -> str:
        """Find a mesh, convert it if need be, and return its name among the assets."""
        path = resolve(filename, self.folders)
        if path is None:
            raise MeshProblem(f'there is no mesh file "{clip(filename)}"')
        if path not in self.names:
            data, extension = _content(path)
            stem = re.sub(r"[^A-Za-z0-9_.-]", "_", path.stem)[:100] or "mesh"
            name = f"{stem}.{extension}"
            while name in self.assets:
                name = f"{stem}_{len(self.assets)}.{extension}"
            self.assets[name] = data
            self.names[path] = name
        return self.names[path]


def resolve(filename: str, folders: Folders) -> Path | None:
    """Return the file a URDF names, or None.

    `package://name/rest`, `model://name/rest` and relative names are looked for in the folder of
    the URDF, in the folders above it and in those that the user named, with and without their first
    component.
    """
    if "\0" in filename or len(filename) > 1000:
        return None
    name = _SCHEME.sub("", filename.strip()).replace("\\", "/")
    if not name or "://" in name:
        return None
    tails = [name]
    if "/" in name.strip("/") and not os.path.isabs(name):
        tails.append(name.split("/", 1)[1])
    above = [folders.own, *folders.own.parents][: PACKAGE_RISE + 1]
    for folder in (*above, *folders.more):
        for tail in tails:
            path = Path(os.path.normpath(folder / tail))
            if folders.may_read(path, PACKAGE_RISE) and os.path.isfile(path):
                return path
    return None


def _content(path: Path) -> tuple[bytes, str]:
    """Return a mesh as bytes in a format that MuJoCo reads, and the format."""
    extension = path.suffix.lower().lstrip(".")
    if extension in CONVERTED:
        return _by_trimesh(path, extension), "stl"
    if extension not in NATIVE:
        raise MeshProblem(
            f'mesh file "{clip(path.name)}" has the format "{clip(extension)}", but STL, OBJ and '
            "MSH are read"
        )
    try:
        data = read_bytes(path, clip(path.name), MAX_MESH_BYTES)
    except ModelError as error:
        raise MeshProblem(str(error).rstrip(".")) from None
    if extension == "stl" and is_ascii_stl(data):
        data = ascii_to_binary_stl(data, path.name)
    return data, extension


def is_ascii_stl(data: bytes) -> bool:
    """Return whether an STL file is written as text."""
    if not data.lstrip()[:5].lower() == b"solid":
        return False
    if len(data) >= 84:
        (count,) = struct.unpack_from("<I", data, 80)
        if len(data) == 84 + 50 * count:
            return False
    return b"facet" in data[:4096].lower() or b"vertex" in data


def ascii_to_binary_stl(data: bytes, name: str) -> bytes:
    """Return an STL file written as text in its binary form."""
    number = rb"[-+0-9.eE]+"
    found = re.findall(
        rb"vertex\s+(" + number + rb")\s+(" + number + rb")\s+(" + number + rb")", data
    )
    if not found or len(found) % 3 or len(found) // 3 > MAX_ASCII_FACES:
        raise MeshProblem(f'mesh file "{clip(name)}" holds no readable triangles')
    try:
        points = [tuple(float(x) for x in row) for row in found]
        faces = b"".join(
            struct.pack("<12fH", 0, 0, 0, *points[i], *points[i + 1], *points[i + 2], 0)
            for i in range(0, len(points), 3)
        )
    except (ValueError, OverflowError, struct.error):
        raise MeshProblem(f'mesh file "{clip(name)}" holds no readable triangles') from None
    return b"\0" * 80 + struct.pack("<I", len(points) // 3) + faces


def _by_trimesh(path: Path, extension: str) -> bytes:
    """Return a mesh converted to binary STL by trimesh."""
    try:
        trimesh = importlib.import_module("trimesh")
    except ImportError:
        raise MeshProblem(
            f'mesh file "{clip(path.name)}" is {extension.upper()}, which needs the package '
            "trimesh (and pycollada for DAE); install it or convert the file to STL or OBJ"
        ) from None
    try:
        content = trimesh.load(path, force="mesh").export(file_type="stl")
    except Exception as error:
        reason = f"{type(error).__name__}: {clip(str(error), 120)}".rstrip(".")
        raise MeshProblem(
            f'mesh file "{clip(path.name)}" cannot be converted by trimesh ({reason})'
        ) from None
    return bytes(content)
