"""URDF: tidied, checked and passed to MuJoCo's reader."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from featherback._typing import Array
from featherback.errors import ModelError
from featherback.model import urdf_inertia
from featherback.model.compiler import Locator, quiet, read_spec
from featherback.model.files import Folders
from featherback.model.meshes import MeshProblem, MeshStore
from featherback.model.report import Findings
from featherback.model.value_checks import check_values, check_vector, numbers, reject, shown
from featherback.model.xmltree import Element, clip

if TYPE_CHECKING:
    import mujoco

MOVING = ("revolute", "continuous", "prismatic", "planar", "floating", "spherical")
"""Joint types that are not fixed."""

SCALAR = ("revolute", "continuous", "prismatic")
"""Joint types with one degree of freedom."""

WORLD = "world"
"""Name of the link that MuJoCo takes as the world."""

SHAPES = {"box": ("size",), "sphere": ("radius",), "cylinder": ("radius", "length")}
SHAPES["capsule"] = SHAPES["cylinder"]

# tag -> attributes with a meaning; everything else in a URDF is listed as ignored
SUPPORTED: dict[str, frozenset[str]] = {
    "robot": frozenset({"name"}),
    "link": frozenset({"name"}),
    "inertial": frozenset(),
    "mass": frozenset({"value"}),
    "inertia": frozenset("ixx ixy ixz iyy iyz izz".split()),
    "origin": frozenset({"xyz", "rpy"}),
    "collision": frozenset({"name"}),
    "geometry": frozenset(),
    "box": frozenset({"size"}),
    "sphere": frozenset({"radius"}),
    "cylinder": frozenset({"radius", "length"}),
    "capsule": frozenset({"radius", "length"}),
    "mesh": frozenset({"filename", "scale"}),
    "joint": frozenset({"name", "type"}),
    "parent": frozenset({"link"}),
    "child": frozenset({"link"}),
    "axis": frozenset({"xyz"}),
    "limit": frozenset({"lower", "upper", "effort"}),
    "dynamics": frozenset({"damping", "friction"}),
    "mimic": frozenset({"joint", "multiplier", "offset"}),
}

_COMMAS = re.compile(r"\s*,\s+|\s+,")

# elements that draw and do nothing else
VISUAL = frozenset({"visual", "material", "color", "texture"})


@dataclass(frozen=True)
class UrdfOptions:
    """What the user may ask for when a URDF is read."""

    free_root: bool = False
    motors: bool = False


@dataclass
class Tree:
    """Links and joints of a URDF by name.

    Attributes:
        links: link name -> element.
        joints: joint name -> element.
        parent: child link -> joint element that carries it.
    """

    links: dict[str, Element] = field(default_factory=dict)
    joints: dict[str, Element] = field(default_factory=dict)
    parent: dict[str, Element] = field(default_factory=dict)


def read(
    root: Element, folders: Folders, options: UrdfOptions, findings: Findings
) -> tuple[mujoco.MjSpec, Locator]:
    """Check a URDF tree, tidy it in place and pass it to MuJoCo's reader."""
    _check_not_xacro(root)
    _note_meanings(root, findings)
    _prune(root)
    for element in root.walk():
        _drop_empty(element, findings)
        _drop_commas(element, findings)
        check_values(element)
    _add_world(root, findings)
    tree = _tree(root)
    for joint in tree.joints.values():
        _check_joint(joint, tree, findings)
    store = MeshStore(folders)
    locator = Locator(root.file)
    _release(root, tree)
    _free_names(tree, findings)
    for link in tree.links.values():
        _tidy_link(link, store, locator, findings)
    urdf_inertia.repair(tree.links, tree.parent, options.free_root, findings)
    for name, link in tree.links.items():
        locator.named["body", name] = link
    for name, joint in tree.joints.items():
        locator.named["joint", name] = joint
    _add_compiler(root)
    with quiet(findings, root.file):
        spec = read_spec(root, locator, assets=store.assets)
    locator.owners = []
    _finish(spec, tree, options, root)
    return spec, locator


def _check_not_xacro(root: Element) -> None:
    """Raise ModelError for a file that still has to be expanded."""
    for element in root.walk():
        values = element.attributes.values()
        if element.tag.startswith("xacro:") or any("${" in v or "$(" in v for v in values):
            reject(element, "this is a xacro file, not URDF; run xacro on it and load the result.")


def _note_meanings(root: Element, findings: Findings) -> None:
    """List elements and attributes without meaning, once each."""
    ignored: dict[str, list[Element]] = {}
    visual: set[str] = set()
    stack = [root]
    while stack:
        element = stack.pop()
        if element.tag in VISUAL:
            visual.add(f"<{element.tag}>")
            continue
        if element.tag not in SUPPORTED and _is_geometry(element):
            continue
        if element.tag not in SUPPORTED:
            ignored.setdefault(f"<{clip(element.tag)}>", []).append(element)
            continue
        for attribute in element.attributes:
            if attribute not in SUPPORTED[element.tag] and not attribute.startswith("xmlns"):
                label = f"{clip(attribute)} of <{element.tag}>"
                ignored.setdefault(label, []).append(element)
        stack.extend(reversed(element.children))
    for label, elements in ignored.items():
        count = "" if len(elements) == 1 else f" ({len(elements)} times)"
        findings.note("ignored", elements[0].where, f"{label} has no meaning here{count}.")
    if visual:
        findings.note("ignored", root.file, f"visual only: {', '.join(sorted(visual))}.")


def _drop_empty(element: Element, findings: Findings) -> None:
    """Leave out attributes without a value."""
    for attribute in [a for a, text in element.attributes.items() if not text.strip()]:
        findings.note("repaired", element.where, f"{clip(attribute)} is empty and left out.")
        del element.attributes[attribute]


def _drop_commas(element: Element, findings: Findings) -> None:
    """Write numbers that commas and blanks part with blanks alone."""
    for attribute in ("xyz", "rpy", "size", "scale"):
        text = element.get(attribute) or ""
        plain = _COMMAS.sub(" ", text)
        if plain != text:
            element.attributes[attribute] = plain
            told = f'{attribute} is "{clip(text)}"; its commas count as blanks.'
            findings.note("repaired", element.where, told)


def _add_world(root: Element, findings: Findings) -> None:
    """Add the link of the world where joints name it as their parent and no link has its name."""
    if any(link.get("name") == WORLD for link in root.findall("link")):
        return
    for joint in root.findall("joint"):
        parent = joint.find("parent")
        if parent is not None and parent.get("link") == WORLD:
            told = f'its parent link "{WORLD}" is not there; it is added, without mass.'
            findings.note("repaired", joint.where, told)
            root.add("link", name=WORLD)
            return


def _is_geometry(element: Element) -> bool:
    return element.parent is not None and element.parent.tag == "geometry"


def _prune(root: Element) -> None:
    """Take out of the tree what MuJoCo need not see, except unknown shapes."""
    for element in list(root.walk()):
        known = element.tag in SUPPORTED or _is_geometry(element)
        if not known and element.parent is not None:
            element.remove()


def _tree(root: Element) -> Tree:
    """Return links and joints by name; raise ModelError if they are not a tree."""
    tree = Tree()
    for link in root.findall("link"):
        _claim(link, tree.links)
    for joint in root.findall("joint"):
        _claim(joint, tree.joints)
    if not tree.links:
        reject(root, "the robot has no links; a URDF needs at least one.")
    for joint in tree.joints.values():
        child = _end(joint, "child", tree)
        _end(joint, "parent", tree)
        other = tree.parent.setdefault(child, joint)
        if other is not joint:
            reject(
                joint,
                f'link "{clip(child)}" is already the child of the joint at line {other.line}; '
                "a link has one parent.",
            )
    _check_cycles(tree)
    return tree


def _claim(element: Element, taken: dict[str, Element]) -> None:
    """Enter a link or joint by its name."""
    name = element.get("name")
    if not name:
        reject(element, "it has no name; give it one.")
    other = taken.setdefault(name, element)
    if other is not element:
        reject(element, f"the name is taken already at {other.file}:{other.line}; rename one.")


def _end(joint: Element, tag: str, tree: Tree) -> str:
    """Return the link at one end of a joint."""
    element = joint.find(tag)
    name = element.get("link") if element is not None else None
    if not name:
        reject(joint, f'it has no <{tag} link="..."/>; name the {tag} link.')
    if name not in tree.links:
        reject(joint, f'its {tag} link "{clip(name)}" does not exist; correct the name.')
    return name


def _check_cycles(tree: Tree) -> None:
    """Raise ModelError for links that are their own ancestors."""
    done: set[str] = set()
    for start in tree.links:
        path: dict[str, None] = {}
        name = start
        while name in tree.parent and name not in done:
            if name in path:
                loop = list(path)[list(path).index(name) :]
                names = " -> ".join(clip(link) for link in [*reversed(loop), loop[-1]][:10])
                reject(
                    tree.parent[name],
                    f"the links form a cycle ({names}); a robot must be a tree, so close loops "
                    "with an equality constraint in MJCF.",
                )
            path[name] = None
            parent = tree.parent[name].find("parent")
            assert parent is not None
            name = str(parent.get("link"))
        done.update(path)


def _single(element: Element, tag: str, findings: Findings) -> Element | None:
    """Return the first child of a tag, and take out further ones."""
    found = element.findall(tag)
    for extra in found[1:]:
        findings.note("repaired", extra.where, f"a second <{tag}> is left out.")
        extra.remove()
    return found[0] if found else None


def _check_joint(joint: Element, tree: Tree, findings: Findings) -> None:
    """Check the numbers of a joint, and repair what is merely sloppy."""
    kind = joint.get("type")
    if kind not in (*MOVING, "fixed"):
        listed = ", ".join(("fixed", *MOVING))
        reject(joint, f'type is "{clip(str(kind))}"; it must be one of {listed}.')
    _check_origin(_single(joint, "origin", findings))
    axis = _single(joint, "axis", findings)
    if axis is not None and kind in ("revolute", "continuous", "prismatic", "planar"):
        _check_count(axis, "xyz", 3)
        check_vector(axis, "xyz", "a joint axis needs a direction")
    _check_limit(joint, _single(joint, "limit", findings), findings)
    dynamics = _single(joint, "dynamics", findings)
    units = ("N·s/m", "N") if kind == "prismatic" else ("N·m·s/rad", "N·m")
    if dynamics is not None:
        _check_non_negative(dynamics, "damping", units[0])
        _check_non_negative(dynamics, "friction", units[1])
    mimic = _single(joint, "mimic", findings)
    if mimic is not None:
        _check_mimic(joint, mimic, tree, findings)


def _check_origin(origin: Element | None) -> None:
    if origin is not None:
        _check_count(origin, "xyz", 3)
        _check_count(origin, "rpy", 3)


def _check_count(element: Element, attribute: str, count: int) -> None:
    """Raise ModelError for an attribute that does not hold this count of numbers."""
    if attribute not in element.attributes:
        return
    values = numbers(element, attribute)
    if values is None:
        text = clip(str(element.get(attribute)))
        wanted = "a number" if count == 1 else f"{count} numbers"
        reject(element, f'{attribute} is "{text}"; it must be {wanted}.')
    if len(values) != count:
        reject(element, f"{attribute} holds {len(values)} numbers; it must hold {count}.")


def _check_non_negative(element: Element, attribute: str, unit: str) -> None:
    _check_count(element, attribute, 1)
    values = numbers(element, attribute)
    if values and values[0] < 0:
        reject(element, f"{attribute} is {shown(values[0])} {unit}; it must be >= 0.")


def _check_limit(joint: Element, limit: Element | None, findings: Findings) -> None:
    """Check the limit of a joint."""
    kind = joint.get("type")
    if limit is None:
        if kind in ("revolute", "prismatic"):
            findings.note("repaired", joint.where, "it has no <limit>; it moves without limit.")
        return
    for attribute in ("lower", "upper"):
        _check_count(limit, attribute, 1)
    _check_non_negative(limit, "effort", "N" if kind == "prismatic" else "N·m")
    lower = (numbers(limit, "lower") or [0.0])[0]
    upper = (numbers(limit, "upper") or [0.0])[0]
    if kind not in ("revolute", "prismatic"):
        several = kind in ("planar", "floating", "spherical")
        if several and lower < upper:
            told = f"lower and upper have no meaning for a {kind} joint; it moves without limit."
            findings.note("ignored", limit.where, told)
        if several and (numbers(limit, "effort") or [0.0])[0] > 0:
            told = f"effort has no meaning for a {kind} joint; its force is not limited."
            findings.note("ignored", limit.where, told)
        for attribute in ("lower", "upper", *(("effort",) if several else ())):
            limit.attributes.pop(attribute, None)
    elif lower >= upper:
        _free_limit(joint, limit, lower, upper, findings)


def _free_limit(
    joint: Element, limit: Element, lower: float, upper: float, findings: Findings
) -> None:
    """Let a joint move without limit, since its ends leave it no way."""
    what = "lower equals upper"
    if lower > upper:
        what = f"lower is {shown(lower)} and upper is {shown(upper)}"
    findings.note("repaired", limit.where, f"{what}; the joint moves without limit.")
    for attribute in ("lower", "upper"):
        limit.attributes.pop(attribute, None)
    if joint.get("type") == "revolute":
        joint.attributes["type"] = "continuous"


def _check_mimic(joint: Element, mimic: Element, tree: Tree, findings: Findings) -> None:
    """Check that a joint follows one that can be followed."""
    leader = mimic.get("joint") or ""
    if leader not in tree.joints:
        leader = _prefixed(leader, joint, tree)
        if leader:
            told = f'there is no joint "{clip(mimic.get("joint") or "")}"; it follows'
            findings.note("repaired", mimic.where, f'{told} "{clip(leader)}".')
            mimic.attributes["joint"] = leader
    if leader not in tree.joints:
        leader = mimic.get("joint") or ""
        what = f'the joint "{clip(leader)}" that it follows does not exist'
        findings.add_unsupported(mimic.where, what, "urdf", drop=f"{what}; it moves on its own.")
        mimic.remove()
        return
    if leader == joint.get("name"):
        reject(mimic, "the joint follows itself; name another one.")
    for attribute in ("multiplier", "offset"):
        _check_count(mimic, attribute, 1)
    if joint.get("type") not in SCALAR or tree.joints[leader].get("type") not in SCALAR:
        findings.note(
            "ignored", mimic.where, "only revolute, continuous and prismatic joints can follow."
        )
        mimic.remove()


def _prefixed(leader: str, joint: Element, tree: Tree) -> str:
    """Return the one joint whose name is that of the leader with a prefix or less one, or "".

    Tools that give all joints of a robot a prefix forget the names in <mimic>. Of several such
    joints the one counts whose prefix the follower has too.
    """
    found = [
        name
        for name in tree.joints
        if leader
        and name != joint.get("name")
        and (name.endswith(leader) or leader.endswith(name))
        and tree.joints[name].get("type") in SCALAR
    ]
    own = str(joint.get("name"))
    same = [name for name in found if own.startswith(name.removesuffix(leader))]
    for names in (found, same):
        if len(names) == 1:
            return names[0]
    return ""


def _release(root: Element, tree: Tree) -> None:
    """Let links that float above a fixed link float above the world, from the same pose.

    MuJoCo joins fixed links with the world before it looks; here they stay bodies of their own.
    """
    former: set[str] = set()
    for joint in tree.joints.values():
        end = joint.find("parent")
        if joint.get("type") != "floating" or end is None or end.get("link") == WORLD:
            continue
        chain, name = [joint], str(end.get("link"))
        while name in tree.parent and tree.parent[name].get("type") == "fixed":
            chain.append(tree.parent[name])
            name = _end(chain[-1], "parent", tree)
        if name in tree.parent or WORLD in tree.parent:
            continue
        if len(chain) > 1:
            _set_origin(joint, chain)
        if WORLD not in tree.links:
            tree.links[WORLD] = root.add("link", name=WORLD)
        former.add(str(end.get("link")))
        end.attributes["link"] = WORLD
    used = {_end(joint, tag, tree) for joint in tree.joints.values() for tag in ("parent", "child")}
    for name in former - used:
        # a mere name of the world
        if not tree.links[name].children:
            tree.links.pop(name).remove()


def _set_origin(joint: Element, chain: list[Element]) -> None:
    """Write the product of the poses of a chain of joints, the last one first, into a joint."""
    position, turn = np.zeros(3), np.eye(3)
    for link in chain:
        origin = link.find("origin")
        if origin is not None:
            outer = rotation(numbers(origin, "rpy") or [0.0, 0.0, 0.0])
            position = np.array(numbers(origin, "xyz") or [0.0, 0.0, 0.0]) + outer @ position
            turn = outer @ turn
    origin = joint.find("origin") or joint.add("origin")
    origin.attributes["xyz"] = " ".join(repr(float(x)) for x in position)
    origin.attributes["rpy"] = " ".join(repr(x) for x in angles(turn))


def rotation(rpy: list[float]) -> Array:
    """Return the rotation of URDF's angles: about the fixed x axis, then y, then z."""
    (cr, cp, cy), (sr, sp, sy) = np.cos(rpy), np.sin(rpy)
    about_x = np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    about_y = np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
    about_z = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
    return about_z @ about_y @ about_x


def angles(turn: Array) -> list[float]:
    """Return angles of URDF whose rotation this is."""
    level = math.hypot(turn[0, 0], turn[1, 0])
    pitch = math.atan2(-turn[2, 0], level)
    if level > 1e-9:
        return [math.atan2(turn[2, 1], turn[2, 2]), pitch, math.atan2(turn[1, 0], turn[0, 0])]
    # looking straight up or down, roll and yaw turn about one axis
    return [math.atan2(-turn[1, 2], turn[1, 1]), pitch, 0.0]


def _free_names(tree: Tree, findings: Findings) -> None:
    """Leave out the name of a collision shape that another one has."""
    taken: set[str] = set()
    for link in tree.links.values():
        for collision in link.findall("collision"):
            name = collision.get("name")
            if name in taken:
                findings.note(
                    "repaired", collision.where, "the name is taken; the shape stays without one."
                )
                del collision.attributes["name"]
            elif name:
                taken.add(name)


def _tidy_link(link: Element, store: MeshStore, locator: Locator, findings: Findings) -> None:
    """Check the collision shapes of a link, and repair what is merely sloppy."""
    for collision in link.findall("collision"):
        _check_origin(_single(collision, "origin", findings))
        geometry = _single(collision, "geometry", findings)
        if geometry is None or not geometry.children:
            findings.note("repaired", collision.where, "the empty <collision> is left out.")
            collision.remove()
            continue
        shape = geometry.children[0]
        for extra in geometry.children[1:]:
            findings.note("repaired", extra.where, f"a second shape <{extra.tag}> is left out.")
        geometry.children = [shape]
        _tidy_shape(collision, shape, store, locator, findings)


def _tidy_shape(
    collision: Element, shape: Element, store: MeshStore, locator: Locator, findings: Findings
) -> None:
    """Check one collision shape, and take it out if it is not supported."""
    if shape.tag in SHAPES:
        for attribute in SHAPES[shape.tag]:
            _check_size(shape, attribute, 3 if attribute == "size" else 1)
        return
    if shape.tag != "mesh":
        problem = f"the collision shape <{clip(shape.tag)}> is not supported"
    else:
        _check_count(shape, "scale", 3)
        try:
            name = store.add(shape.get("filename") or "")
            store.tell(shape.where, findings)
            shape.attributes["filename"] = name
            locator.named.setdefault(("mesh", name.rsplit(".", 1)[0]), shape)
            return
        except MeshProblem as error:
            problem = str(error)
    findings.add_unsupported(
        shape.where,
        problem,
        "urdf-meshes",
        drop=f"{problem}; the collision shape is left out.",
    )
    collision.remove()


def _check_size(shape: Element, attribute: str, count: int) -> None:
    """Raise ModelError for a size that is missing or not above zero."""
    if attribute not in shape.attributes:
        reject(shape, f"it has no {attribute}; give it in metres.")
    _check_count(shape, attribute, count)
    for value in numbers(shape, attribute) or []:
        if value <= 0:
            reject(shape, f"{attribute} is {shown(value)} m; it must be > 0.")


def _add_compiler(root: Element) -> None:
    """Add the settings with which MuJoCo reads a URDF."""
    root.add("mujoco").add(
        "compiler",
        strippath="false",
        discardvisual="true",
        fusestatic="false",
        balanceinertia="false",
        inertiagrouprange="0 5",
    )


def _finish(spec: mujoco.MjSpec, tree: Tree, options: UrdfOptions, root: Element) -> None:
    """Add what the user asked for: a free root, motors."""
    import mujoco

    for mesh in spec.meshes:
        mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_CONVEX
    if not spec.modelname or spec.modelname == "MuJoCo Model":
        spec.modelname = root.get("name") or Path(root.file.strip("<>")).stem
    if options.free_root:
        free = [body for body in spec.worldbody.bodies if len(body.joints) == 0]
        if not free:
            raise ModelError(
                f"{root.where}: free_root=True needs a root link that is fixed in the world, but "
                "the first link moves already; load it with free_root=False."
            )
        for body in free:
            body.add_freejoint()
    if options.motors:
        followers = {n for n, j in tree.joints.items() if j.find("mimic") is not None}
        for joint in list(spec.joints):
            if joint.name not in followers:
                _add_motor(spec, joint)


def _add_motor(spec: mujoco.MjSpec, joint: Any) -> None:
    """Add a motor with gear 1 on a joint with one degree of freedom."""
    import mujoco

    if joint.type not in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE):
        return
    motor = spec.add_actuator(name=joint.name, target=joint.name)
    motor.trntype = mujoco.mjtTrn.mjTRN_JOINT
    motor.gear[:] = 0.0
    motor.gear[0] = 1.0
    low, high = joint.actfrcrange
    if math.isfinite(low) and low < high:
        motor.forcerange[:] = low, high
        motor.forcelimited = int(mujoco.mjtLimited.mjLIMITED_TRUE)
