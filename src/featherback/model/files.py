"""Files that a model names: where they are looked for, where they may lie, and its includes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from featherback.errors import ModelError
from featherback.model import xmltree
from featherback.model.xmltree import Element, clip

MAX_INCLUDES = 1000
"""Largest number of included files."""
MAX_RISE = 4
"""How many folders above the model's own a file it names may lie."""


def is_confined(path: Path, folder: Path, rise: int = MAX_RISE) -> bool:
    """Return whether a file lies where a model in `folder` may read, links followed."""
    try:
        real, root = Path(os.path.realpath(path)), Path(os.path.realpath(folder))
    except (OSError, ValueError):
        return False
    for _ in range(rise):
        if len(root.parent.parts) >= 2:
            root = root.parent
    return real.is_relative_to(root)


@dataclass(frozen=True)
class Folders:
    """The folders from which a model may read files.

    Attributes:
        own: folder of the model; it and some folders above it may be read.
        more: folders that the user names; they and all inside them may be read.
    """

    own: Path
    more: tuple[Path, ...] = ()

    def may_read(self, path: Path, rise: int = MAX_RISE) -> bool:
        """Return whether a file lies in one of the folders, links followed."""
        return is_confined(path, self.own, rise) or any(
            is_confined(path, folder, 0) for folder in self.more
        )

    def find(
        self, element: Element, name: str, bases: Iterable[Path], subfolder: str = ""
    ) -> Path | None:
        """Return the absolute path of a file that an element names, or None.

        Args:
            element: the element.
            name: the file's name as written.
            bases: folders in which it is looked for first.
            subfolder: folder inside of those that the user named.

        Raises:
            ModelError: if the name is none, or leads out of the folders.
        """
        if "\0" in name or len(name) > 1000:
            raise ModelError(f"{element.where}: this is not a file name; name a file.")
        paths = [Path(os.path.normpath(base / name)) for base in bases]
        for path in paths:
            if os.path.isfile(path):
                if not self.may_read(path):
                    raise self._outside(element, name)
                return path
        for folder in self.more:
            for path in (folder / subfolder / name, folder / name):
                if os.path.isfile(path) and self.may_read(path):
                    return Path(os.path.normpath(path))
        if not self.may_read(paths[0]):
            raise self._outside(element, name)
        return None

    @staticmethod
    def _outside(element: Element, name: str) -> ModelError:
        """Return the error of a file that lies elsewhere."""
        return ModelError(
            f'{element.where}: "{clip(name)}" lies outside the folders this model may read; keep '
            f"it at most {MAX_RISE} folders above the model, or name its folder in asset_folders."
        )


def expand_includes(root: Element, folders: Folders) -> None:
    """Replace every <include> by the content of its file, as MuJoCo does, in place."""
    seen: set[Path] = set()
    pending = [element for element in root.walk() if element.tag == "include"]
    while pending:
        element = pending.pop(0)
        path = _include_path(element, folders)
        if path in seen:
            raise ModelError(
                f"{element.where}: {clip(path.name)} is included twice; a file may be included "
                "once."
            )
        seen.add(path)
        if len(seen) > MAX_INCLUDES:
            raise ModelError(f"{element.where}: more than {MAX_INCLUDES} files are included.")
        shown = os.path.relpath(path, folders.own).replace(os.sep, "/")
        inner = xmltree.parse(xmltree.read_bytes(path, shown), shown)
        _splice(element, inner)
        for child in inner.children:
            for new in child.walk():
                new.folder = path.parent
                if new.tag == "include":
                    pending.append(new)
    _check_size(root)


def _check_size(root: Element) -> None:
    """Raise ModelError for a tree that its includes made too deep or too large."""
    stack, count = [(root, 1)], 0
    while stack:
        element, depth = stack.pop()
        count += 1
        if depth > xmltree.MAX_DEPTH:
            raise ModelError(
                f"{element.where}: elements are nested more than {xmltree.MAX_DEPTH} deep."
            )
        if count > xmltree.MAX_ELEMENTS:
            raise ModelError(
                f"{root.file}:1: the model has more than {xmltree.MAX_ELEMENTS} elements with its "
                "includes; split it or simplify it."
            )
        stack.extend((child, depth + 1) for child in element.children)


def _include_path(element: Element, folders: Folders) -> Path:
    """Return the file an <include> names: beside the main file, or beside the including one."""
    name = element.get("file")
    if not name:
        raise ModelError(f'{element.where}: <include> needs file="..."; name the file.')
    path = folders.find(element, name, [folders.own, element.folder or folders.own])
    if path is None:
        raise ModelError(f'{element.where}: there is no file "{clip(name)}"; check the path.')
    return path


def _splice(element: Element, inner: Element) -> None:
    """Replace an <include> by the children of the included root."""
    parent = element.parent
    if parent is None:
        raise ModelError(f"{element.where}: <include> cannot be the root of a model.")
    index = parent.children.index(element)
    parent.children[index : index + 1] = inner.children
    for child in inner.children:
        child.parent = parent
