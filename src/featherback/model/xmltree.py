"""Reading XML: elements that know their file and line, with limits a hostile file cannot pass."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from featherback.errors import ModelError

MAX_BYTES = 64 * 1024 * 1024
"""Largest XML file that is read."""
MAX_DEPTH = 2500
"""Deepest nesting of elements."""
MAX_ELEMENTS = 400_000
"""Largest number of elements in a model, includes counted."""

STRING = "<string>"
"""What stands for the file name of a model that is given as a string."""


_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_DECLARATION = re.compile(rb"<\?xml[^>]*\?>")


@dataclass(eq=False)
class Element:
    """One XML element and where it stands.

    Attributes:
        tag: name of the element.
        attributes: its attributes as written.
        file: name of its file as shown to the user.
        line: line of its start tag, from 1.
        parent: the element around it.
        children: the elements inside it, in order.
        text: the character data inside it.
        folder: folder of the included file it stands in; None in the main file.
    """

    tag: str
    attributes: dict[str, str]
    file: str
    line: int
    parent: Element | None = None
    children: list[Element] = field(default_factory=list)
    text: str = ""
    folder: Path | None = None

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return an attribute, or the default."""
        return self.attributes.get(name, default)

    def walk(self) -> Iterator[Element]:
        """Yield this element and all elements inside it, in document order."""
        stack: list[Element] = [self]
        while stack:
            element = stack.pop()
            yield element
            stack.extend(reversed(element.children))

    def find(self, tag: str) -> Element | None:
        """Return the first child of that tag, or None."""
        return next((child for child in self.children if child.tag == tag), None)

    def findall(self, tag: str) -> list[Element]:
        """Return the children of that tag."""
        return [child for child in self.children if child.tag == tag]

    def remove(self) -> None:
        """Take this element out of its parent."""
        if self.parent is not None:
            self.parent.children.remove(self)
            self.parent = None

    def add(self, tag: str, **attributes: str) -> Element:
        """Add a child at the end and return it; it has this element's file and line."""
        child = Element(tag, dict(attributes), self.file, self.line, self)
        self.children.append(child)
        return child

    @property
    def where(self) -> str:
        """File, line and element, as in `ant.xml:12: <joint name="hip">`."""
        label = _label(self)
        owner = self.parent if "name" not in self.attributes else None
        while owner is not None and owner.parent is not None:
            if "name" in owner.attributes:
                label = f"{label} in {_label(owner)}"
                break
            owner = owner.parent
        return f"{self.file}:{self.line}: {label}"


def _label(element: Element) -> str:
    """Return `<tag name="...">`."""
    name = element.attributes.get("name")
    return f"<{element.tag}>" if name is None else f'<{element.tag} name="{clip(name)}">'


def clip(text: str, limit: int = 80) -> str:
    """Return text fit for a message: printable and short."""
    shown = "".join(c if c.isprintable() else "?" for c in text[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 3] + "..."


class _Reader:
    """Builds the tree of one file from expat's events."""

    def __init__(self, shown: str, text_limit: int, most: int) -> None:
        self.shown = shown
        self.text_limit = text_limit
        self.most = most
        self.root: Element | None = None
        self.stack: list[Element] = []
        self.texts: list[list[str]] = []
        self.lengths: list[int] = []
        self.count = 0
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.EntityDeclHandler = self._doctype

    def read(self, data: bytes) -> Element:
        """Return the root element of a text."""
        try:
            self.parser.Parse(data, True)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise ModelError(
                f"{self.shown}:{error.lineno}: this is not well-formed XML ({reason}); "
                "correct the file at this line."
            ) from None
        except (LookupError, UnicodeError, ValueError) as error:
            if isinstance(error, ModelError):
                raise
            raise ModelError(
                f"{self.shown}:1: the text encoding of this file cannot be read; save it as UTF-8."
            ) from None
        assert self.root is not None
        return self.root

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        line = self.parser.CurrentLineNumber
        parent = self.stack[-1] if self.stack else None
        element = Element(tag, attributes, self.shown, line, parent)
        self.count += 1
        if self.count > self.most:
            raise ModelError(
                f"{self.shown}:{line}: the file has more than {self.most} elements; "
                "split the model or simplify it."
            )
        if len(self.stack) >= MAX_DEPTH:
            raise ModelError(
                f"{self.shown}:{line}: elements are nested more than {MAX_DEPTH} deep; "
                "simplify the model."
            )
        if parent is None:
            self.root = element
        else:
            parent.children.append(element)
        self.stack.append(element)
        self.texts.append([])
        self.lengths.append(0)

    def _end(self, tag: str) -> None:
        self.stack.pop().text = "".join(self.texts.pop())
        self.lengths.pop()

    def _text(self, data: str) -> None:
        if self.stack and self.lengths[-1] < self.text_limit:
            self.texts[-1].append(data)
            self.lengths[-1] += len(data)

    def _doctype(self, *_: object) -> NoReturn:
        line = self.parser.CurrentLineNumber
        raise ModelError(
            f"{self.shown}:{line}: <!DOCTYPE> and entity declarations are not allowed; remove them."
        )


def parse(
    data: bytes | str,
    shown: str,
    mended: list[str] | None = None,
    *,
    text_limit: int = 1000,
    most: int | None = None,
) -> Element:
    """Return the root element of XML, within the limits above.

    Where `mended` is a list, comments, a misplaced declaration and bytes after the end are left out
    of a text that cannot be read with them, and it receives a message. Some `text_limit` characters
    of text are kept of an element, and the file may have `most` elements, by default MAX_ELEMENTS.
    """
    if len(data) > MAX_BYTES:
        raise ModelError(
            f"{shown}:1: the file has {len(data)} bytes; at most {MAX_BYTES} are read, so move "
            "large arrays into mesh files."
        )
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    try:
        return _Reader(shown, text_limit, most or MAX_ELEMENTS).read(raw)
    except ModelError as error:
        if mended is None or "well-formed" not in str(error):
            raise
        # comments may hold two hyphens for most readers; their lines stay
        clean = _COMMENT.sub(lambda found: b"\n" * found.group().count(b"\n"), raw)
        clean = _DECLARATION.sub(b"", clean).rstrip(b"\0\x1a \t\r\n")
        if clean == raw.rstrip(b" \t\r\n"):
            raise
        root = _Reader(shown, text_limit, most or MAX_ELEMENTS).read(clean)
    mended.append(
        "comments, a misplaced XML declaration and bytes after the end are left out; with them it "
        "is not well-formed XML."
    )
    return root


def read_bytes(path: Path, shown: str, limit: int = MAX_BYTES) -> bytes:
    """Return the content of a file."""
    try:
        if not path.is_file():
            raise ModelError(f"{shown}: there is no such file; check the path.")
        size = path.stat().st_size
        if size > limit:
            raise ModelError(
                f"{shown}: the file has {size} bytes; at most {limit} are read, so reduce it."
            )
        return path.read_bytes()
    except (OSError, ValueError) as error:
        if isinstance(error, ModelError):
            raise
        reason = getattr(error, "strerror", None) or "the path is not valid"
        raise ModelError(f"{shown}: the file cannot be read ({reason}).") from None


def write(root: Element) -> tuple[str, list[Element]]:
    """Return the tree as XML with one tag per line, and the element of each line.

    Line k of the text (from 1) belongs to entry k - 1 of the list, so that a line number in a
    message of MuJoCo's leads back to the file the user wrote.
    """
    lines: list[str] = []
    owners: list[Element] = []
    stack: list[tuple[Element, bool]] = [(root, False)]
    while stack:
        element, closing = stack.pop()
        owners.append(element)
        if closing:
            lines.append(f"</{element.tag}>")
            continue
        inside = "".join(f' {k}="{_escape(v)}"' for k, v in element.attributes.items())
        if element.children:
            lines.append(f"<{element.tag}{inside}>")
            stack.append((element, True))
            stack.extend((child, False) for child in reversed(element.children))
        else:
            lines.append(f"<{element.tag}{inside}/>")
    return "\n".join(lines), owners


def _escape(value: str) -> str:
    """Return an attribute value fit for a quoted attribute on one line."""
    value = value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    value = value.replace('"', "&quot;")
    return "".join(" " if c in "\n\r\t" else c for c in value if c >= " " or c in "\n\r\t")
