"""The call into MuJoCo's compiler, and the way from its messages back to the user's file."""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from featherback.errors import ModelError
from featherback.model.report import Findings
from featherback.model.value_checks import reject
from featherback.model.xmltree import Element, clip, write

if TYPE_CHECKING:
    import mujoco

CUT_DEPTH = 400
"""Bodies nested deeper than this are passed to MuJoCo in a text of their own."""

_LOCK = threading.Lock()

# kind -> list of a spec
_KINDS = {
    **{kind: f"{kind}s" for kind in "joint geom site actuator tendon pair".split()},
    **{"body": "bodies", "equality": "equalities"},
}

# part of a message of MuJoCo's -> our message
_MESSAGES = (
    (
        "mass and inertia of moving bodies",
        "the body moves but has no mass or no inertia; give it an <inertial>, or a geom with mass.",
    ),
    (
        "inertia must satisfy A + B >= C",
        "no body has this inertia, because the largest principal moment may not exceed the sum of "
        'the other two; correct it, or set balanceinertia="true" in <compiler>.',
    ),
    ("unrecognized element", "this element is not part of MJCF; remove it or correct its name."),
    (
        "free joint can only be used on top level",
        "a free joint may only stand on a body whose parent is the world; move the body there.",
    ),
)


@dataclass
class Locator:
    """Finds the location in the user's file of what MuJoCo compiled.

    Attributes:
        shown: name of the main file.
        owners: element of each line of the text that MuJoCo read (MJCF).
        named: (kind, name) -> element (URDF, where MuJoCo keeps no lines).
        tables: kind -> compiled number -> where; filled by `index`.
    """

    shown: str
    owners: list[Element] = field(default_factory=list)
    named: dict[tuple[str, str], Element] = field(default_factory=dict)
    tables: dict[str, dict[int, str]] = field(default_factory=dict)

    def line(self, number: int) -> Element | None:
        """Return the element that was on a line of MuJoCo's text."""
        return self.owners[number - 1] if 0 < number <= len(self.owners) else None

    def element(self, kind: str, item: Any) -> Element | None:
        """Return the element of something in a spec, or None."""
        match = re.search(r"line (\d+)", item.info or "")
        if match and self.owners:
            return self.line(int(match.group(1)))
        found = self.named.get((kind, item.name))
        if found is None and kind == "geom" and item.parent is not None:
            found = self.named.get(("body", item.parent.name))
        return found

    def where(self, kind: str, item: Any) -> str:
        """Return file, line and element of something in a spec."""
        element = self.element(kind, item)
        if element is not None:
            return element.where
        label = f'<{kind} name="{clip(item.name)}">' if item.name else f"<{kind}>"
        return f"{self.shown}: {label}"

    @property
    def option(self) -> str:
        """File, line and element of the options."""
        element = self.named.get(("option", ""))
        return element.where if element is not None else f"{self.shown}: <option>"

    def index(self, spec: mujoco.MjSpec) -> None:
        """Note where each compiled element came from."""
        for kind, items in _KINDS.items():
            self.tables[kind] = {i.id: self.where(kind, i) for i in getattr(spec, items)}

    def at(self, kind: str, number: int) -> str:
        """Return file, line and element of something in a compiled model."""
        return self.tables.get(kind, {}).get(int(number), f"{self.shown}: <{kind}> {number}")


@contextmanager
def muted() -> Generator[list[str]]:
    """Keep MuJoCo from printing its warnings and writing them to a file; yield them as a list."""
    import mujoco

    messages: list[str] = []
    with _LOCK:
        before = mujoco.get_mju_user_warning()
        mujoco.set_mju_user_warning(messages.append)
        try:
            yield messages
        finally:
            mujoco.set_mju_user_warning(before)


@contextmanager
def quiet(findings: Findings, shown: str) -> Generator[None]:
    """Turn what MuJoCo would print or log into notices."""
    with muted() as messages, warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        yield
    messages.extend(str(warning.message) for warning in raised)
    for text in dict.fromkeys(messages):
        # long chains are put together from parts, which are never saved
        if "empty prefix" in text:
            continue
        findings.note("ignored", shown, f'MuJoCo warns: "{_clean(text)}".')


def read_spec(root: Element, locator: Locator, **options: Any) -> mujoco.MjSpec:
    """Pass a checked tree to MuJoCo's reader; bodies nested too deeply for it are cut off."""
    import mujoco

    cuts = _cut_deep(root)
    text, locator.owners = write(root)
    try:
        spec = mujoco.MjSpec.from_string(text, **options)
        for parent, body in cuts:
            _attach(spec, root, parent, body, locator)
    except Exception as error:
        raise translated(error, locator) from None
    return spec


def compile_spec(spec: mujoco.MjSpec, locator: Locator) -> mujoco.MjModel:
    """Compile, and note where everything came from."""
    try:
        model = spec.compile()
    except Exception as error:
        raise translated(error, locator) from None
    locator.index(spec)
    return model


def translated(error: Exception, locator: Locator) -> ModelError:
    """Return MuJoCo's error as a ModelError at the user's line."""
    text = str(error)
    element = _element_named(text, locator)
    where = element.where if element is not None else locator.shown
    for pattern, message in _MESSAGES:
        if pattern in text:
            return ModelError(f"{where}: {message}")
    return ModelError(f'{where}: MuJoCo reports "{_clean(text)}"; correct the file.')


def _element_named(text: str, locator: Locator) -> Element | None:
    """Return the element a message of MuJoCo's is about."""
    match = re.search(r"(?:line|Line number=) ?(\d+)", text)
    if match and locator.owners:
        element = locator.line(int(match.group(1)))
        if element is not None:
            return element
    match = re.search(r"Element name '([^']*)'", text)
    if match:
        for kind in ("body", "joint", "mesh"):
            found = locator.named.get((kind, match.group(1)))
            if found is not None:
                return found
    return None


def _clean(text: str) -> str:
    """Return the first line of a message of MuJoCo's without its prefixes and full stop."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    first = re.sub(r"^(XML Error|Error|XML parse error \d+|WARNING)[:,]?\s*", "", first.strip())
    first = re.sub(r"^Error:\s*", "", first)
    return clip(first.strip().rstrip(".").replace('"', "'"), 200) or "unknown error"


def _cut_deep(root: Element) -> list[tuple[Element, Element]]:
    """Take bodies nested CUT_DEPTH deep out of the tree; return their parents and them."""
    cuts: list[tuple[Element, Element]] = []
    stack: list[tuple[Element, int]] = [(root, 0)]
    while stack:
        element, depth = stack.pop()
        if depth >= CUT_DEPTH and element.tag == "body" and element.parent is not None:
            parent = element.parent
            if parent.tag == "body":
                _inherit_class(element)
                element.remove()
                cuts.append((parent, element))
                depth = 0
        stack.extend((child, depth + 1) for child in element.children)
    return cuts


def _inherit_class(body: Element) -> None:
    """Write the default class that a body has from its ancestors on the body itself."""
    around: Element | None = body
    while around is not None:
        name = around.get("childclass")
        if name is not None:
            body.attributes["childclass"] = name
            return
        around = around.parent


def _attach(
    spec: mujoco.MjSpec, root: Element, parent: Element, body: Element, locator: Locator
) -> None:
    """Read a body that was cut off as a model of its own and put it back under its parent."""
    import mujoco

    alone = Element(root.tag, dict(root.attributes), root.file, root.line)
    settings = root.findall("compiler") + root.findall("default")
    world = Element("worldbody", {}, root.file, root.line, alone, [body])
    alone.children = [*settings, world]
    text, owners = write(alone)
    # blank lines in front keep the numbering of lines common to all texts
    child = mujoco.MjSpec.from_string("\n" * len(locator.owners) + text)
    start = len(locator.owners)
    locator.owners = locator.owners + owners
    name = f"line {start + 1 + owners.index(body)}"
    target = next(b for b in child.bodies if b.info == name)
    host = f"line {locator.owners.index(parent) + 1}"
    holder = next((b for b in spec.bodies if b.info == host), None)
    if holder is None:
        reject(body, "is nested too deeply for MuJoCo's reader; build the model with fewer levels.")
    holder.add_frame().attach_body(target, "", "")
