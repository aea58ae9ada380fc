"""What names something that was left out is left out too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from featherback.model.compiler import Locator
from featherback.model.joints import JOINTS
from featherback.model.report import Findings
from featherback.model.xmltree import clip

if TYPE_CHECKING:
    import mujoco

# headings of docs/support.md under which makers of any elements are left out, or shapes alone
_MAKERS = frozenset("plugin attach flex composite".split())
_REMOVING = _MAKERS | frozenset("sdf files".split())
# kinds of elements that go with a shape
_SHAPES = frozenset("mesh hfield skin geom site".split())

# kind of element -> the list of a spec that holds them
_LISTS = {
    **{
        kind: f"{kind}s"
        for kind in (
            "joint geom site camera light material texture skin hfield pair exclude tendon "
            "actuator sensor numeric text tuple key"
        ).split()
    },
    **{"body": "bodies", "mesh": "meshes", "flex": "flexes", "equality": "equalities"},
}

Name = tuple[str, str]
"""A kind of element and a name."""


def something_left_out(findings: Findings) -> bool:
    """Return whether elements that have names, or would make some, were left out."""
    return any(feature.anchor in _REMOVING for feature in findings.unsupported)


def leave_out(spec: mujoco.MjSpec, locator: Locator, findings: Findings) -> None:
    """Take out of a spec what names elements that were left out, with a notice each.

    A name that is not there and cannot have been left out is the file's own mistake, and stays.
    """
    any_kind = any(feature.anchor in _MAKERS for feature in findings.unsupported)
    gone: set[Name] = set()
    for item in [*spec.geoms, *spec.sites]:
        if item.meshname and item.meshname in findings.meshes:
            spec.delete(item)
    for geom in list(spec.geoms):
        if geom.hfieldname and geom.hfieldname in findings.fields:
            spec.delete(geom)
    # what comes later may name what comes earlier
    for kind, names in _NAMES.items():
        known = {space: {e.name for e in getattr(spec, items)} for space, items in _LISTS.items()}
        known["xbody"] = known["body"]
        for item in list(getattr(spec, _LISTS[kind])):
            named = [(space, name) for space, name in names(item, locator) if name]
            lost = [n for n in named if n[0] in known and n[1] not in known[n[0]]]
            lost = [n for n in lost if any_kind or n[0] in _SHAPES or n in gone]
            if not lost:
                continue
            (space, name), where = lost[0], locator.where(kind, item)
            told = f'it names the {space} "{clip(name)}", which was left out, and goes with it.'
            findings.note("dropped", where, told)
            gone.add((kind, item.name))
            spec.delete(item)


def _object(kind: Any, name: str) -> Name:
    """Return a name whose kind is one of MuJoCo's object types."""
    return kind.name.removeprefix("mjOBJ_").lower(), name


def _of_target(item: Any, _: Locator) -> Iterator[Name]:
    yield "body", item.targetbody


def _of_tendon(tendon: Any, locator: Locator) -> Iterator[Name]:
    """Yield the joints, sites and geoms of a tendon that are not there, and its side sites."""
    for wrap in tendon.path:
        element = locator.element("wrap", wrap)
        if element is None or element.tag == "pulley":
            continue
        if wrap.target is None:
            yield element.tag, element.get(element.tag) or ""
        yield "site", element.get("sidesite") or ""


def _of_equality(item: Any, _: Locator) -> Iterator[Name]:
    # constraints of joints and tendons have no type of objects
    kind = item.type.name.removeprefix("mjEQ_").lower()
    if kind not in ("joint", "tendon"):
        kind = _object(item.objtype, "")[0]
    yield from ((kind, item.name1), (kind, item.name2))


def _of_pair(item: Any, _: Locator) -> Iterator[Name]:
    yield from (("geom", item.geomname1), ("geom", item.geomname2))


def _of_exclude(item: Any, _: Locator) -> Iterator[Name]:
    yield from (("body", item.bodyname1), ("body", item.bodyname2))


def _of_actuator(item: Any, _: Locator) -> Iterator[Name]:
    kind = item.trntype.name.removeprefix("mjTRN_").lower()
    spaces = {"jointinparent": "joint", "slidercrank": "site", "so3": "site"}
    yield str(spaces.get(kind, kind)), item.target
    yield from (("site", item.refsite), ("site", item.slidersite))


def _of_sensor(item: Any, _: Locator) -> Iterator[Name]:
    yield from (_object(item.objtype, item.objname), _object(item.reftype, item.refname))


def _of_tuple(item: Any, _: Locator) -> Iterator[Name]:
    import mujoco

    for kind, name in zip(item.objtype, item.objname, strict=True):
        yield _object(mujoco.mjtObj(kind), name)


def _of_skin(item: Any, _: Locator) -> Iterator[Name]:
    yield from (("body", name) for name in item.bodyname)


# kind -> the names that an element of it holds, in an order in which nothing names what follows
_NAMES: dict[str, Callable[[Any, Locator], Iterator[Name]]] = {
    "camera": _of_target,
    "light": _of_target,
    "tendon": _of_tendon,
    "pair": _of_pair,
    "exclude": _of_exclude,
    "equality": _of_equality,
    "actuator": _of_actuator,
    "sensor": _of_sensor,
    "skin": _of_skin,
    "tuple": _of_tuple,
}


def activations(actuator: Any) -> int:
    """Return how many numbers of activation an actuator has."""
    import mujoco

    if actuator.actdim >= 0:
        return int(actuator.actdim)
    return int(actuator.dyntype != mujoco.mjtDyn.mjDYN_NONE)


def fit_keyframes(spec: mujoco.MjSpec, locator: Locator, findings: Findings) -> None:
    """Leave out keyframes, or parts of them, whose length is that of the whole model."""
    joints = [JOINTS[int(joint.type)] for joint in spec.joints]
    mocap = sum(bool(body.mocap) for body in spec.bodies)
    lengths = {
        "qpos": sum(joint.nq for joint in joints),
        "qvel": sum(joint.nv for joint in joints),
        "act": sum(activations(actuator) for actuator in spec.actuators),
        "ctrl": len(spec.actuators),
        "mpos": 3 * mocap,
        "mquat": 4 * mocap,
    }
    keys = list(spec.keys)
    # MuJoCo keeps no lines of keyframes, but their order
    places = [element.where for element in locator.owners if element.tag == "key"]
    if len(places) != len(keys):
        places = [locator.where("key", key) for key in keys]
    for key, where in zip(keys, places, strict=True):
        wrong = [name for name, n in lengths.items() if len(getattr(key, name)) not in (0, n)]
        if "qpos" in wrong:
            told = "qpos holds numbers of joints that were left out, and the keyframe goes with"
            findings.note("dropped", where, f"{told} them.")
            spec.delete(key)
            continue
        for name in wrong:
            told = f"{name} holds numbers of what was left out, and goes with it."
            findings.note("dropped", where, told)
            setattr(key, name, [])
