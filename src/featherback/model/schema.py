"""What becomes of every element and attribute of MJCF, as tables.

Meanings: "supported"; "checked" (some values are supported, the others refused by name when the
compiled model holds them); "refused" (refused by name unless it has no effect); "mujoco" (acts
under contact="mujoco" only, listed in the report); "no meaning" (our step has its own rule, listed
in the report); "visual" (drawing only, listed in one line).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from featherback.model.xmltree import Element

Meaning = Literal["supported", "checked", "refused", "mujoco", "no meaning", "visual"]

ACTUATORS = (
    "general motor position velocity intvelocity orientation pid damper cylinder muscle adhesion "
    "dcmotor plugin"
).split()
"""Tags inside <actuator>."""

FRAMES = ("body", "worldbody", "frame", "replicate")
"""Tags that nest inside each other in the kinematic tree."""

STRING_ATTRIBUTES = frozenset(
    (
        "name class childclass model file prefix material mesh hfield texture joint jointinparent "
        "joint1 joint2 body body1 body2 geom geom1 geom2 site site1 site2 tendon tendon1 tendon2 "
        "slidersite cranksite refsite sidesite actuator sensor camera target plugin instance key "
        "value objname refname objtype reftype content_type subtree1 subtree2 meshdir texturedir "
        "assetdir fileright fileleft fileup filedown filefront fileback flex node frame data "
        "source suffix layer role link filename"
    ).split()
)
"""Attributes that hold names or text, in which "nan" is a name and not a number."""


def is_text(tag: str, attribute: str) -> bool:
    """Return whether an attribute holds a name or text."""
    return attribute in STRING_ATTRIBUTES and (tag, attribute) != ("numeric", "data")


def _row(supported: str = "", **others: str) -> dict[str, Meaning]:
    """Return attribute -> meaning from space-separated names."""
    row: dict[str, Meaning] = dict.fromkeys(supported.split(), "supported")
    names: dict[str, Meaning] = {
        "checked": "checked",
        "refused": "refused",
        "mujoco": "mujoco",
        "ignored": "no meaning",
        "visual": "visual",
    }
    for key, text in others.items():
        row.update(dict.fromkeys(text.split(), names[key]))
    return row


SUBTREES: dict[str, Meaning] = _row(
    checked="tendon/fixed tendon/spatial default/tendon",
    refused="extension asset/model asset/mesh/plugin body/attach body/plugin body/geom/plugin "
    "body/flexcomp body/composite deformable/flex equality/flex equality/flexvert "
    "equality/flexstrain equality/distance actuator/orientation actuator/pid "
    "actuator/dcmotor actuator/plugin",
    ignored="size sensor custom",
    visual="visual statistic asset/skin asset/texture asset/material body/camera body/light "
    "deformable/skin",
)
"""Elements whose attributes and children all have the same meaning."""

_ORIENTATION = "quat axisangle euler xyaxes zaxis"
_TRANSMISSION = {
    "checked": "jointinparent body delay armature damping",
    "ignored": "lengthrange nsample interp user",
}
_ACTUATOR = (
    "name class group joint tendon site refsite slidersite cranksite cranklength gear ctrllimited "
    "ctrlrange forcelimited forcerange"
)
_EQUALITY = "name class active"

ATTRIBUTES: dict[str, dict[str, Meaning]] = {
    "mujoco": _row("model"),
    "include": _row("file"),
    "compiler": _row(
        "alignfree angle assetdir autolimits balanceinertia boundinertia boundmass conflict "
        "coordinate discardvisual eulerseq fitaabb fusestatic inertiafromgeom inertiagrouprange "
        "meshdir settotalmass strippath texturedir usethread",
        ignored="passthrough savecanonical savecompiled saveinertial convexhull exactmeshinertia",
    ),
    "compiler/lengthrange": _row(
        ignored="accel interval inttotal maxforce mode timeconst timestep tolrange useexisting "
        "uselimit"
    ),
    "option": _row(
        "gravity timestep actuatorgroupdisable density viscosity wind",
        checked="noslip_iterations o_friction",
        mujoco="cone impratio integrator o_margin o_solimp o_solref",
        ignored="ccd_iterations ccd_tolerance iterations jacobian ls_iterations ls_tolerance "
        "magnetic noslip_tolerance sdf_initpoints sdf_iterations sleep_tolerance solver tolerance "
        "apirate mpr_iterations mpr_tolerance collision",
    ),
    "option/flag": _row(
        "constraint equality frictionloss limit contact spring damper passive gravity clampctrl "
        "actuation filterparent override",
        checked="diagexact ipc sleep speculative",
        mujoco="eulerdamp refsafe",
        ignored="autoreset energy fwdinv invdiscrete island midphase multiccd nativeccd sensor "
        "sensornoise warmstart",
    ),
    "default": _row("class"),
    "asset/mesh": _row(
        "builtin class content_type face file inertia maxhullvert name params refpos refquat "
        "scale vertex",
        visual="material normal smoothnormal texcoord",
    ),
    "asset/hfield": _row("content_type elevation file name ncol nrow size"),
    "body/body": _row(
        f"name childclass pos mocap fuse gravcomp {_ORIENTATION}",
        ignored="simple sleep user",
    ),
    "body/frame": _row(f"name childclass pos {_ORIENTATION}"),
    "body/replicate": _row(f"childclass count euler sep offset pos {_ORIENTATION}"),
    "body/inertial": _row(f"mass pos diaginertia fullinertia {_ORIENTATION}"),
    "body/joint": _row(
        "name class type pos axis range limited ref springref springdamper armature frictionloss "
        "actuatorfrclimited actuatorfrcrange actuatorgravcomp",
        checked="damping stiffness",
        refused="springyield",
        mujoco="margin solimpfriction solimplimit solreffriction solreflimit",
        ignored="user",
        visual="group",
    ),
    "body/freejoint": _row("name align", visual="group"),
    "body/geom": _row(
        "name class pos size fromto mass density mesh hfield fitscale shellinertia contype "
        f"conaffinity condim friction priority fluidcoef fluidshape {_ORIENTATION}",
        checked="type",
        refused="adhesion surfacevel",
        mujoco="margin solimp solmix solref",
        ignored="gap user",
        visual="castshadow group material rgba",
    ),
    "body/site": _row(
        f"name class pos fromto {_ORIENTATION}",
        ignored="user",
        visual="group material mesh rgba size type",
    ),
    "contact/pair": _row(
        "name class geom1 geom2 condim",
        checked="friction",
        refused="adhesion",
        mujoco="margin solimp solref solreffriction",
        ignored="gap",
    ),
    "contact/exclude": _row("name body1 body2"),
    "default/equality": _row("active", mujoco="solimp solref"),
    "equality/connect": _row(f"{_EQUALITY} anchor body1 body2 site1 site2", mujoco="solimp solref"),
    "equality/weld": _row(
        f"{_EQUALITY} anchor body1 body2 site1 site2 relpose", mujoco="solimp solref torquescale"
    ),
    "equality/joint": _row(f"{_EQUALITY} joint1 joint2 polycoef", mujoco="solimp solref"),
    "equality/tendon": _row(f"{_EQUALITY} tendon1 tendon2 polycoef", mujoco="solimp solref"),
    "actuator/general": _row(
        f"{_ACTUATOR} gainprm biasprm inheritrange actearly actlimited actrange dynprm actdim "
        "lengthrange",
        **{
            **_TRANSMISSION,
            "ignored": "nsample interp user",
            "checked": _TRANSMISSION["checked"]
            + " dyntype gaintype biastype input ffrange velrange",
        },
    ),
    "actuator/motor": _row(_ACTUATOR, **_TRANSMISSION),
    "actuator/position": _row(
        f"{_ACTUATOR} kp kv dampratio inheritrange timeconst", **_TRANSMISSION
    ),
    "actuator/velocity": _row(f"{_ACTUATOR} kv", **_TRANSMISSION),
    "actuator/damper": _row(f"{_ACTUATOR} kv", **_TRANSMISSION),
    "actuator/intvelocity": _row(
        f"{_ACTUATOR} kp kv dampratio inheritrange actlimited actrange", **_TRANSMISSION
    ),
    "actuator/muscle": _row(
        f"{_ACTUATOR} timeconst tausmooth range force scale lmin lmax vmax fpmax fvmax lengthrange "
        "actlimited actrange actearly actdim dynprm",
        **{**_TRANSMISSION, "ignored": "nsample interp user"},
    ),
    "actuator/adhesion": _row(
        "name class group ctrllimited ctrlrange forcelimited forcerange gain",
        checked="body delay",
        ignored="nsample interp user",
    ),
    "actuator/cylinder": _row(f"{_ACTUATOR} area bias diameter timeconst", **_TRANSMISSION),
    "keyframe/key": _row("name qpos qvel act", ignored="ctrl mpos mquat plastic time"),
}
"""Element -> attribute -> meaning; keys are made by `element_key`."""

_OWN_SOLVER = "the solver has its own options"

REASONS: dict[str, str] = {
    **dict.fromkeys(
        "iterations tolerance ls_iterations ls_tolerance noslip_tolerance solver jacobian "
        "warmstart island ccd_iterations ccd_tolerance".split(),
        _OWN_SOLVER,
    ),
    "gap": "it has no effect on forces",
    "magnetic": "there are no sensors",
    "autoreset": "no world is ever reset by itself",
    "sensor": "there are no sensors",
    **dict.fromkeys(("sleep", "sleep_tolerance"), "bodies never sleep"),
    **dict.fromkeys(("ctrl", "mpos", "mquat", "time"), "a keyframe holds q, v and act"),
}
"""Attribute (or section) -> why it has no meaning, for the report."""

_OWN_CONTACT_MODEL = "has its own contact model"
HARD_RULES: dict[str, str] = {
    "integrator": "has its own integrator",
    "eulerdamp": "is always implicit in damping",
}
"""Attribute that acts under contact="mujoco" only -> what contact="hard" does instead."""


def hard_rule(attribute: str) -> str:
    """Return what contact="hard" does instead of an attribute that it does not read."""
    return HARD_RULES.get(attribute, _OWN_CONTACT_MODEL)


SECTIONS = frozenset("asset contact tendon equality actuator keyframe worldbody deformable".split())
"""Elements that hold other elements and have no attributes of their own."""


def element_key(path: tuple[str, ...]) -> str:
    """Return the key "body/geom" of a path of tags ("worldbody", "body", "geom") below the root.

    Elements of <default> have the key of what they set.
    """
    if not path:
        return "mujoco"
    tags = list(path)
    if tags[0] == "default":
        return _default_key(tags)
    if tags[0] == "worldbody":
        inner = tags[1:]
        while len(inner) > 1 and inner[0] in FRAMES:
            inner.pop(0)
        return "/".join(["body", *inner]) if inner else "worldbody"
    return "/".join(tags)


def _default_key(tags: list[str]) -> str:
    """Return the key of <default> or of an element inside it."""
    while tags and tags[0] == "default":
        tags.pop(0)
    if not tags:
        return "default"
    if tags[0] in ACTUATORS:
        return "/".join(["actuator", *tags])
    if tags[0] in ("mesh", "texture", "material"):
        return "/".join(["asset", *tags])
    if tags[0] == "pair":
        return "contact/pair"
    if tags[0] in ("equality", "tendon"):
        return f"default/{tags[0]}"
    return "/".join(["body", *tags])


def keyed(root: Element) -> Iterator[tuple[Element, str]]:
    """Yield every element of a tree with its key, in document order."""
    stack: list[tuple[Element, tuple[str, ...]]] = [(root, ())]
    while stack:
        element, path = stack.pop()
        yield element, element_key(path)
        # bodies nest in bodies and classes in classes without end, so their paths are cut short
        if path[:1] == ("worldbody",) and path[-1] in FRAMES:
            path = ("worldbody",)
        elif path and set(path) == {"default"}:
            path = ("default",)
        if len(path) < 8:
            stack.extend((child, (*path, child.tag)) for child in reversed(element.children))


def subtree_meaning(key: str) -> Meaning | None:
    """Return the meaning of the subtree an element belongs to, or None."""
    parts = key.split("/")
    for length in range(1, len(parts) + 1):
        meaning = SUBTREES.get("/".join(parts[:length]))
        if meaning is not None:
            return meaning
    return None


def element_meaning(key: str) -> Meaning | None:
    """Return the meaning of an element, or None if the tables do not know it."""
    meaning = subtree_meaning(key)
    if meaning is not None:
        return meaning
    return "supported" if key in ATTRIBUTES or key in SECTIONS else None


def attribute_meaning(key: str, attribute: str) -> Meaning | None:
    """Return the meaning of an attribute, or None if the tables do not know it."""
    return subtree_meaning(key) or ATTRIBUTES.get(key, {}).get(attribute)
