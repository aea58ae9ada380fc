"""Grammar-aware mutation of MJCF and URDF text, deterministic by seed and index."""

from __future__ import annotations

import copy
import random
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass

from tools.fuzz.seeds import Seed

NUMBER = re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")

# trees deeper than this are not changed further, so that they can still be written
DEEP = 100

EXTREMES = (
    *("nan", "inf", "-inf", "NaN", "1e308", "-1e308", "1e-308", "5e-324", "1e400", "-1", "0", "-0"),
    *("1e10", "1e-10", "2147483647", "2147483648", "-2147483648", "4294967296", "1e19", "0x10"),
    *("", " ", "1,5", "one", "1e", "--1", "1 2", "true", "\u0661", "1" * 400),
)

TAGS = (
    *("body", "geom", "joint", "freejoint", "site", "inertial", "frame", "replicate", "composite"),
    *(
        "flexcomp",
        "attach",
        "include",
        "camera",
        "light",
        "plugin",
        "worldbody",
        "default",
        "asset",
    ),
    *("mesh", "hfield", "texture", "model", "contact", "pair", "exclude", "equality", "connect"),
    *("weld", "tendon", "fixed", "spatial", "actuator", "motor", "position", "velocity", "muscle"),
    *("adhesion", "cylinder", "damper", "intvelocity", "general", "sensor", "keyframe", "key"),
    *("extension", "custom", "size", "option", "flag", "compiler", "link", "robot", "collision"),
    *("visual", "geometry", "box", "sphere", "capsule", "limit", "dynamics", "mimic", "mujoco"),
    *("safety_controller", "transmission", "gazebo", "wheels", "skin", "deformable", "flex"),
)

ATTRIBUTES = (
    *(
        "name",
        "class",
        "childclass",
        "type",
        "pos",
        "quat",
        "euler",
        "axisangle",
        "xyaxes",
        "zaxis",
    ),
    *("size", "fromto", "mass", "density", "mesh", "fitscale", "range", "limited", "damping"),
    *("stiffness", "armature", "frictionloss", "springref", "ref", "margin", "gap", "condim"),
    *("contype", "conaffinity", "friction", "solref", "solimp", "priority", "group", "mocap"),
    *("gravcomp", "fluidshape", "gear", "ctrlrange", "forcerange", "actlimited", "dyntype"),
    *("gaintype", "biastype", "gainprm", "biasprm", "kp", "kv", "inheritrange", "delay", "user"),
    *("timestep", "gravity", "integrator", "cone", "wind", "viscosity", "file", "scale", "vertex"),
    *("face", "maxhullvert", "inertia", "anchor", "polycoef", "active", "torquescale", "count"),
    *("xyz", "rpy", "link", "joint", "lower", "upper", "effort", "value", "ixx", "filename"),
)

WORDS = (
    *("free", "ball", "hinge", "slide", "fixed", "revolute", "continuous", "prismatic", "floating"),
    *("planar", "plane", "hfield", "sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh"),
    *("sdf", "affine", "muscle", "integrator", "filter", "filterexact", "user", "implicit", "RK4"),
    *("degree", "radian", "auto", "true", "false", "world", "main", "../../../../etc/passwd"),
    *("/dev/zero", "/proc/self/mem", "package://x/cube.obj", "model://x", "file:///etc/hosts"),
    *("cube.obj", "", ".", "a\u0000b", "\u202e", "x" * 5000, "%s%n%d", "<&>", "base", "root"),
)


@dataclass(frozen=True)
class Mutant:
    """One file to load and how to load it."""

    index: int
    seed_name: str
    format: str
    data: bytes
    files: dict[str, bytes]
    steps: tuple[str, ...]
    on_unsupported: str
    as_path: bool
    free_root: bool
    motors: bool


def elements(root: ET.Element) -> list[ET.Element]:
    """Return all elements below the root, and the root if there are none."""
    return list(root.iter())[1:] or [root]


def parent_of(root: ET.Element, element: ET.Element) -> ET.Element:
    """Return the parent of an element."""
    return next((p for p in root.iter() if element in list(p)), root)


def pick_attribute(root: ET.Element, rng: random.Random) -> tuple[ET.Element, str] | None:
    """Return a random element with attributes and the name of one of them."""
    choices = [e for e in root.iter() if e.attrib]
    if not choices:
        return None
    element = rng.choice(choices)
    return element, rng.choice(sorted(element.attrib))


def pick_numeric(root: ET.Element, rng: random.Random) -> tuple[ET.Element, str] | None:
    """Return a random attribute whose value starts with a number."""
    choices = [
        (e, k)
        for e in root.iter()
        for k, value in e.attrib.items()
        if value.split() and NUMBER.match(value.split()[0])
    ]
    return rng.choice(choices) if choices else None


def attribute_delete(root: ET.Element, rng: random.Random) -> None:
    """Delete one attribute."""
    if chosen := pick_attribute(root, rng):
        del chosen[0].attrib[chosen[1]]


def attribute_extreme(root: ET.Element, rng: random.Random) -> None:
    """Replace one number of an attribute by an extreme one."""
    if chosen := pick_numeric(root, rng):
        parts = chosen[0].attrib[chosen[1]].split()
        parts[rng.randrange(len(parts))] = rng.choice(EXTREMES)
        chosen[0].attrib[chosen[1]] = " ".join(parts)


def attribute_scale(root: ET.Element, rng: random.Random) -> None:
    """Multiply or negate one number of an attribute."""
    if chosen := pick_numeric(root, rng):
        parts = chosen[0].attrib[chosen[1]].split()
        at = rng.randrange(len(parts))
        if NUMBER.match(parts[at]):
            factor = rng.choice((-1.0, 0.0, 1e-6, 1e6, 1e-30, 1e30, 0.5, 3.0))
            parts[at] = repr(float(parts[at]) * factor)
        chosen[0].attrib[chosen[1]] = " ".join(parts)


def attribute_list(root: ET.Element, rng: random.Random) -> None:
    """Change how many numbers an attribute has: none, one less, one more, very many."""
    if chosen := pick_numeric(root, rng):
        parts = chosen[0].attrib[chosen[1]].split()
        kind = rng.randrange(4)
        changed = ([], parts[:-1], [*parts, "1"], parts * rng.choice((50, 5000)))[kind]
        chosen[0].attrib[chosen[1]] = " ".join(changed)


def attribute_word(root: ET.Element, rng: random.Random) -> None:
    """Set an attribute to a word: another type, a path, a long or an odd string."""
    if chosen := pick_attribute(root, rng):
        chosen[0].attrib[chosen[1]] = rng.choice(WORDS)


def attribute_add(root: ET.Element, rng: random.Random) -> None:
    """Add a known or an unknown attribute."""
    key = rng.choice((*ATTRIBUTES, "unknown", "xmlns", "a:b"))
    rng.choice(elements(root)).attrib[key] = rng.choice((*EXTREMES, *WORDS, "0 0 1", "1 0 0 0"))


def attribute_swap(root: ET.Element, rng: random.Random) -> None:
    """Give one attribute the value of another."""
    one, two = pick_attribute(root, rng), pick_attribute(root, rng)
    if one and two:
        one[0].attrib[one[1]] = two[0].attrib[two[1]]


def name_clash(root: ET.Element, rng: random.Random) -> None:
    """Give an element the name of another one."""
    named = [e for e in root.iter() if "name" in e.attrib]
    if len(named) > 1:
        one, two = rng.sample(named, 2)
        one.attrib["name"] = two.attrib["name"]


def element_delete(root: ET.Element, rng: random.Random) -> None:
    """Delete an element with everything inside it."""
    element = rng.choice(elements(root))
    if element is not root:
        parent_of(root, element).remove(element)


def element_duplicate(root: ET.Element, rng: random.Random) -> None:
    """Repeat an element next to itself, sometimes many times."""
    element = rng.choice(elements(root))
    if element is not root:
        for _ in range(rng.choice((1, 1, 1, 30))):
            parent_of(root, element).append(copy.deepcopy(element))


def element_move(root: ET.Element, rng: random.Random) -> None:
    """Put a copy of an element inside another one."""
    element, target = rng.choice(elements(root)), rng.choice(list(root.iter()))
    if element is not root:
        target.insert(rng.randrange(len(target) + 1), copy.deepcopy(element))


def element_shuffle(root: ET.Element, rng: random.Random) -> None:
    """Shuffle the children of an element."""
    element = rng.choice(list(root.iter()))
    inner = list(element)
    rng.shuffle(inner)
    element[:] = inner


def element_retag(root: ET.Element, rng: random.Random) -> None:
    """Change the tag of an element."""
    rng.choice(list(root.iter())).tag = rng.choice((*TAGS, "unknown"))


def element_add(root: ET.Element, rng: random.Random) -> None:
    """Add an element that the format knows, or none knows, with an attribute or two."""
    target = rng.choice(list(root.iter()))
    child = ET.SubElement(target, rng.choice((*TAGS, "unknown")))
    for _ in range(rng.randrange(3)):
        child.attrib[rng.choice(ATTRIBUTES)] = rng.choice((*EXTREMES, *WORDS, "1 1 1"))


def element_nest(root: ET.Element, rng: random.Random) -> None:
    """Nest an element deeply inside copies of its own tag."""
    element = rng.choice(elements(root))
    inner = copy.deepcopy(element)
    for _ in range(rng.choice((2, 20, 200))):
        outer = ET.Element(element.tag, {k: v for k, v in element.attrib.items() if k != "name"})
        outer.append(inner)
        inner = outer
    parent_of(root, element).append(inner)


TREE: tuple[Callable[[ET.Element, random.Random], None], ...] = (
    *(attribute_delete, attribute_extreme, attribute_extreme, attribute_extreme, attribute_scale),
    *(attribute_list, attribute_word, attribute_add, attribute_swap, name_clash, element_delete),
    *(element_duplicate, element_move, element_shuffle, element_retag, element_add, element_nest),
)


def text_truncate(data: bytes, rng: random.Random) -> bytes:
    """Cut the file off."""
    return data[: rng.randrange(len(data) + 1)]


def text_flip(data: bytes, rng: random.Random) -> bytes:
    """Change one to five bytes."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 5)):
        if changed:
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def text_duplicate_attribute(data: bytes, rng: random.Random) -> bytes:
    """Write an attribute twice in one element."""
    found = list(re.finditer(rb' [\w:]+="[^"]*"', data))
    if not found:
        return data
    match = rng.choice(found)
    return data[: match.end()] + match.group(0) + data[match.end() :]


def text_insert(data: bytes, rng: random.Random) -> bytes:
    """Insert markup that parsers treat specially."""
    markup = rng.choice(
        (
            b'<!DOCTYPE a [<!ENTITY b "cccc"><!ENTITY d "&b;&b;&b;&b;">]>',
            b'<!DOCTYPE a SYSTEM "file:///etc/passwd">',
            *(b"&d;", b"&#0;", b"&#xFFFFFF;", b"&lt;", b"<![CDATA[<x>]]>", b"<!-- <geom/> -->"),
            *(b"<?xml version='1.0' encoding='utf-16'?>", b"\x00", b"\xef\xbb\xbf", b"]]>", b"<"),
            *(b'<include file="other.xml"/>', b'<include file="model.xml"/>', b"\xff\xfe", b"text"),
        )
    )
    at = rng.choice((0, rng.randrange(len(data) + 1), data.find(b">") + 1))
    return data[:at] + markup + data[at:]


def text_cut(data: bytes, rng: random.Random) -> bytes:
    """Remove a stretch from the middle."""
    at = rng.randrange(len(data) + 1)
    return data[:at] + data[at + rng.randint(1, 40) :]


def text_nest(data: bytes, rng: random.Random) -> bytes:
    """Insert very deep nesting after some element's start or end."""
    tag = rng.choice((b"body", b"default", b"frame", b"link", b"unknown"))
    depth = rng.choice((600, 20_000))
    at = rng.choice([match.end() for match in re.finditer(rb">", data)] or [0])
    return data[:at] + (b"<" + tag + b">") * depth + (b"</" + tag + b">") * depth + data[at:]


TEXT: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(text_truncate, text_flip, text_duplicate_attribute, text_insert, text_cut, text_nest),
)


def depth_of(root: ET.Element) -> int:
    """Return how deep the elements are nested."""
    depth, level = 0, [root]
    while level:
        depth, level = depth + 1, [child for element in level for child in element]
    return depth


def mutate(seeds: list[Seed], seed: int, index: int) -> Mutant:
    """Return mutant ``index`` of a run; the same numbers give the same bytes."""
    rng = random.Random(f"{seed}:{index}")
    start = rng.choice(seeds)
    root = ET.fromstring(start.text)
    steps = []
    text_only = rng.random() < 0.1
    for _ in range(0 if text_only else rng.choice((1, 1, 1, 2, 2, 3, 5))):
        change = rng.choice(TREE)
        change(root, rng)
        steps.append(change.__name__)
        if depth_of(root) > DEEP:
            break
    data = ET.tostring(root, encoding="utf-8")
    if text_only or rng.random() < 0.12:
        spoil = rng.choice(TEXT)
        data = spoil(data, rng)
        steps.append(spoil.__name__)
    files = dict(start.files)
    for name in files:
        if rng.random() < 0.5:
            spoil = rng.choice(TEXT)
            files[name] = spoil(files[name], rng)
            steps.append(f"{name}:{spoil.__name__}")
    return Mutant(
        index=index,
        seed_name=start.name,
        format=start.format,
        data=data,
        files=files,
        steps=tuple(steps),
        on_unsupported=rng.choice(("error", "drop")),
        as_path=bool(files) or rng.random() < 0.2,
        free_root=start.format == "urdf" and rng.random() < 0.5,
        motors=start.format == "urdf" and rng.random() < 0.5,
    )
