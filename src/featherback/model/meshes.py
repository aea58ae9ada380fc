"""Mesh files of a URDF: where they lie, and their conversion to what MuJoCo reads."""

from __future__ import annotations

import os
import re
import struct
from dataclasses import dataclass, field
from pathlib import Path

from featherback.errors import ModelError
from featherback.model.collada import read_collada
from featherback.model.files import Folders
from featherback.model.gltf import read_gltf
from featherback.model.polygons import read_3mf, read_off, read_ply
from featherback.model.report import Findings, Kind
from featherback.model.triangles import MeshProblem, Triangles
from featherback.model.xmltree import clip, read_bytes

PACKAGE_RISE = 8
"""How many folders above a URDF its packages are looked for."""

MAX_MESH_BYTES = 512 * 1024 * 1024
"""Largest mesh file."""

MAX_ASCII_FACES = 200_000
"""Most triangles in an STL file written as text; MuJoCo's own limit for STL."""

MAX_SEARCHED = 20_000
"""Most files below a URDF among which one is looked for by its name alone."""

NATIVE = ("stl", "obj", "msh")
"""Formats that MuJoCo reads."""

CONVERTED = ("dae", "glb", "gltf", "ply", "off", "3mf")
"""Formats that are read here and passed on as MSH."""

# what is told about glTF
_AS_IS = "its y axis, which counts as up in glTF, is that of the link; nothing is turned"

_SCHEME = re.compile(r"^(package|model|file)://")


@dataclass
class MeshStore:
    """Collects the mesh files of a model under names of their own.

    Attributes:
        folders: folders from which the URDF may read.
        assets: name -> content, as MuJoCo's reader takes them.
        names: path -> name.
        notes: kind and message of what is to be told about the files.
        below: folder -> name -> the files of that name below it, once they were looked for.
    """

    folders: Folders
    assets: dict[str, bytes] = field(default_factory=dict)
    names: dict[Path, str] = field(default_factory=dict)
    notes: list[tuple[Kind, str]] = field(default_factory=list[tuple[Kind, str]])
    below: dict[Path, dict[str, list[Path]]] = field(default_factory=dict)

    def add(self, filename: str) -> str:
        """Find a mesh, convert it if need be, and return its name among the assets."""
        path = resolve(filename, self.folders) or self._by_name(filename)
        if path is None:
            raise MeshProblem(f'there is no mesh file "{clip(filename)}"')
        if path not in self.names:
            data, extension = self._content(path)
            stem = re.sub(r"[^A-Za-z0-9_.-]", "_", path.stem)[:100] or "mesh"
            name = f"{stem}.{extension}"
            while name in self.assets:
                name = f"{stem}_{len(self.assets)}.{extension}"
            self.assets[name] = data
            self.names[path] = name
        return self.names[path]

    def _by_name(self, filename: str) -> Path | None:
        """Return the only file of that name below the URDF, or in the package it names, or None."""
        name = filename.strip().replace("\\", "/").rsplit("/", 1)[-1]
        if not name or "\0" in name or len(name) > 255:
            return None
        for folder in (self.folders.own, _package(filename, self.folders)):
            if folder is None:
                continue
            if folder not in self.below:
                self.below[folder] = _files_below(folder)
            found = self.below[folder].get(name, [])
            if len(found) == 1 and self.folders.may_read(found[0], PACKAGE_RISE):
                place = os.path.relpath(found[0], self.folders.own).replace(os.sep, "/")
                told = f'there is no mesh file "{clip(filename)}"; "{clip(place)}" is taken for it.'
                self.notes.append(("repaired", told))
                return found[0]
        return None

    def tell(self, where: str, findings: Findings) -> None:
        """Note what is to be told about the files added since the last call."""
        for kind, message in self.notes:
            findings.note(kind, where, message)
        self.notes.clear()

    def _content(self, path: Path) -> tuple[bytes, str]:
        """Return a mesh as bytes in a format that MuJoCo reads, and the format."""
        extension = path.suffix.lower().lstrip(".")
        if extension not in (*NATIVE, *CONVERTED):
            raise MeshProblem(
                f'mesh file "{clip(path.name)}" has the format "{clip(extension)}", but '
                f"{', '.join(x.upper() for x in (*NATIVE, *CONVERTED))} are read"
            )
        data = _bytes(path)
        if extension in CONVERTED:
            try:
                found, note = self._triangles(data, path, extension)
                content = found.packed()
            except MeshProblem as problem:
                raise MeshProblem(f'mesh file "{clip(path.name)}": {problem}') from None
            if note:
                self.notes.append(("ignored", f'mesh file "{clip(path.name)}": {note}.'))
            return content, "msh"
        if extension == "stl" and is_ascii_stl(data):
            data = ascii_to_binary_stl(data, path.name)
        return data, extension

    def _triangles(self, data: bytes, path: Path, extension: str) -> tuple[Triangles, str]:
        """Return the triangles of a mesh that MuJoCo cannot read, and what is to be told."""
        if extension == "dae":
            return read_collada(data, clip(path.name))
        if extension in ("glb", "gltf"):
            return read_gltf(data, lambda name: self._beside(path, name)), _AS_IS
        if extension == "ply":
            return read_ply(data), ""
        if extension == "off":
            return read_off(data), ""
        return read_3mf(data, clip(path.name)), ""

    def _beside(self, path: Path, name: str) -> bytes:
        """Return the content of a file that a mesh names, within the folders of the model."""
        other = Path(os.path.normpath(path.parent / name)) if "\0" not in name else path.parent
        if not self.folders.may_read(other, PACKAGE_RISE) or not os.path.isfile(other):
            raise MeshProblem(f'it names the file "{clip(name)}", which is not there')
        return _bytes(other)


def _package(filename: str, folders: Folders) -> Path | None:
    """Return the folder of the package that a name begins with, above the URDF, or None."""
    scheme = _SCHEME.match(filename.strip())
    if scheme is None or scheme.group(1) == "file":
        return None
    package = _SCHEME.sub("", filename.strip()).replace("\\", "/").strip("/").split("/")[0]
    above = [folders.own, *folders.own.parents][: PACKAGE_RISE + 1]
    found = next((folder for folder in above if folder.name == package), None)
    return found if found is not None and folders.may_read(found, PACKAGE_RISE) else None


def _files_below(folder: Path) -> dict[str, list[Path]]:
    """Return name -> paths of the files in a folder and those inside it, up to MAX_SEARCHED."""
    found: dict[str, list[Path]] = {}
    count = 0
    for place, _, names in os.walk(folder):
        for name in names:
            found.setdefault(name, []).append(Path(place) / name)
        count += len(names) + 1
        if count > MAX_SEARCHED:
            return {}
    return found


def resolve(filename: str, folders: Folders) -> Path | None:
    """Return the file a URDF names, or None.

    `package://name/rest`, `model://name/rest` and relative names are looked for in the folder of
    the URDF, in the folders above it and in those that the user named, with and without their first
    component.
    """
    if "\0" in filename or len(filename) > 1000:
        return None
    scheme = _SCHEME.match(filename.strip())
    name = _SCHEME.sub("", filename.strip()).replace("\\", "/")
    if scheme is not None and scheme.group(1) != "file":
        # three slashes name no package
        name = name.lstrip("/")
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


def _bytes(path: Path) -> bytes:
    """Return the content of a mesh file."""
    try:
        return read_bytes(path, clip(path.name), MAX_MESH_BYTES)
    except ModelError as error:
        raise MeshProblem(str(error).rstrip(".")) from None


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
