"""MJCF before MuJoCo sees it: files it names, elements without support or without meaning here."""

from __future__ import annotations

from pathlib import Path

from featherback.errors import ModelError
from featherback.model import schema
from featherback.model.files import Folders
from featherback.model.report import Findings
from featherback.model.value_checks import numbers
from featherback.model.xmltree import Element, clip

MAX_FILE_BYTES = 512 * 1024 * 1024
"""Largest mesh or texture file."""

# attribute of <size> -> largest value; larger ones only exhaust memory
_SIZE_LIMITS = {"nkey": 10_000, "nuserdata": 1_000_000, "njmax": 1_000_000, "nconmax": 1_000_000}

# element key -> (what is not supported, heading in docs/support.md)
_PLUGIN = ("engine plugins are not supported", "plugin")
_ATTACH = ("models attached from other files are not supported", "attach")
_FLEX = ("deformable bodies are not supported", "flex")
_FLEX_EQUALITY = ("equality constraints on deformable bodies are not supported", "flex")
_UNSUPPORTED_ELEMENTS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("extension", "asset/mesh/plugin", "body/plugin"), _PLUGIN),
    **dict.fromkeys(("body/geom/plugin", "actuator/plugin"), _PLUGIN),
    **dict.fromkeys(("asset/model", "body/attach"), _ATTACH),
    **dict.fromkeys(("body/flexcomp", "deformable/flex"), _FLEX),
    **dict.fromkeys(("equality/flex", "equality/flexvert", "equality/flexstrain"), _FLEX_EQUALITY),
    "body/composite": ("composite bodies are not supported", "composite"),
    "equality/distance": ("equality constraints of type distance are not supported", "equality"),
}

# attributes whose empty value has a meaning, or hides nothing
_EMPTY = frozenset(
    [("compiler", folder) for folder in ("meshdir", "texturedir", "assetdir")]
    + [("replicate", "prefix"), ("attach", "prefix"), ("text", "data"), ("default", "class")]
)

_FILE_ATTRIBUTES = "file fileright fileleft fileup filedown filefront fileback".split()


def prepare(root: Element, folders: Folders, findings: Findings) -> None:
    """Check an MJCF tree, includes expanded, and make it fit for MuJoCo, in place."""
    note_meanings(root, findings)
    _modernise(root, findings)
    _check_sizes(root)
    _remove_unsupported(root, findings)
    _resolve_files(root, folders, findings)


def note_meanings(root: Element, findings: Findings) -> None:
    """List what has no meaning here or under one contact law only, once per attribute."""
    ignored: dict[tuple[str, str], list[Element]] = {}
    soft: dict[tuple[str, str], list[Element]] = {}
    visual: dict[str, Element] = {}
    for element, key in schema.keyed(root):
        meaning = schema.subtree_meaning(key)
        if meaning == "visual":
            visual.setdefault(f"<{element.tag}>", element)
        elif meaning == "no meaning":
            section = key.partition("/")[0]
            if element.tag != section or element.attributes:
                ignored.setdefault((section, ""), []).append(element)
        elif meaning is None:
            for attribute in element.attributes:
                meaning = schema.attribute_meaning(key, attribute)
                if meaning == "visual":
                    visual.setdefault(attribute, element)
                elif meaning == "no meaning":
                    ignored.setdefault((element.tag, attribute), []).append(element)
                elif meaning == "mujoco":
                    soft.setdefault((element.tag, attribute), []).append(element)
    for (tag, attribute), elements in ignored.items():
        _note_ignored(tag, attribute, elements, findings)
    for (tag, attribute), elements in soft.items():
        what = f'{attribute} of <{tag}> acts under contact="mujoco" only{_times(elements)}'
        rule = schema.hard_rule(attribute)
        findings.note("law", elements[0].where, f'{what}: contact="hard" {rule}.')
    if visual:
        names = ", ".join(sorted(visual))
        findings.note("ignored", root.file, f"visual only: {names}.")


def _note_ignored(tag: str, attribute: str, elements: list[Element], findings: Findings) -> None:
    """Note once that an attribute, or a section, has no meaning."""
    what = f"{attribute} of <{tag}>" if attribute else f"<{tag}>"
    reason = schema.REASONS.get(attribute or tag)
    because = f": {reason}" if reason else ""
    told = f"{what} has no meaning here{_times(elements)}{because}."
    findings.note("ignored", elements[0].where, told)


def _times(elements: list[Element]) -> str:
    """Return how often something occurs, where it does more than once."""
    return "" if len(elements) == 1 else f" ({len(elements)} times)"


def _modernise(root: Element, findings: Findings) -> None:
    """Write what older versions of MuJoCo read as its present one reads it."""
    for compiler in root.findall("compiler"):
        for attribute in ("convexhull", "exactmeshinertia"):
            compiler.attributes.pop(attribute, None)
    for option in root.findall("option"):
        for attribute in ("apirate", "mpr_iterations", "mpr_tolerance"):
            option.attributes.pop(attribute, None)
        if option.get("collision") == "all":
            del option.attributes["collision"]
        for flag in option.findall("flag"):
            flag.attributes.pop("sensornoise", None)
            passive = flag.attributes.pop("passive", None)
            if passive is not None:
                flag.attributes.update(spring=passive, damper=passive)
                told = "passive is an old name; spring and damper are set to its value."
                findings.note("repaired", flag.where, told)
    for default in root.findall("default"):
        name = default.get("class") or "main"
        if name != "main":
            told = (
                f'the class "{clip(name)}" stands at the top, where "main" is; it is put inside it.'
            )
            findings.note("repaired", default.where, told)
            outer = Element("default", {}, default.file, default.line, root, [default])
            root.children[root.children.index(default)] = outer
            default.parent = outer


def _check_sizes(root: Element) -> None:
    """Raise ModelError for sizes that would only exhaust memory."""
    for element in root.walk():
        limits: dict[str, int] = {}
        if element.tag == "size" and element.parent is root:
            users = (name for name in element.attributes if name.startswith("nuser_"))
            limits = {**_SIZE_LIMITS, **dict.fromkeys(users, 1000)}
        elif element.tag in ("texture", "hfield"):
            limits = dict.fromkeys(("width", "height", "nrow", "ncol"), 16384)
        for attribute, limit in limits.items():
            values = numbers(element, attribute)
            if values and values[0] > limit:
                raise ModelError(
                    f"{element.where}: {attribute} is {values[0]:.12g}; at most {limit} is allowed."
                )


def _remove_unsupported(root: Element, findings: Findings) -> None:
    """Take elements that are not supported and cannot be compiled out of the tree."""
    for element, key in list(schema.keyed(root)):
        if key not in _UNSUPPORTED_ELEMENTS or _is_detached(element, root):
            continue
        what, anchor = _UNSUPPORTED_ELEMENTS[key]
        victim = element
        # a shape made by a plugin has no other shape to fall back on
        if key in ("body/geom/plugin", "asset/mesh/plugin") and element.parent is not None:
            victim = element.parent
        users = " with the geoms that use it" if victim.tag == "mesh" else ""
        drop = f"<{victim.tag}> is left out{users}."
        findings.add_unsupported(element.where, what, anchor, drop=drop)
        _remove(victim, findings)
    for element in [e for e in root.findall("sensor") for e in e.findall("plugin")]:
        element.remove()


def _remove(element: Element, findings: Findings) -> None:
    """Take an element out of the tree; a mesh or height field is noted by its name."""
    if element.tag in ("mesh", "hfield"):
        noted = findings.meshes if element.tag == "mesh" else findings.fields
        noted.add(element.get("name") or Path(element.get("file") or "").stem)
    element.remove()


def _is_detached(element: Element, root: Element) -> bool:
    """Return whether an element was taken out of the tree together with an outer one."""
    top = element
    while top.parent is not None:
        top = top.parent
    return top is not root


def drop_empty(root: Element, findings: Findings) -> None:
    """Take out attributes without a value, which count as absent.

    An empty name is none anyway, and an empty folder of assets is the folder of the model.
    """
    empty: dict[tuple[str, str], list[Element]] = {}
    for element in root.walk():
        for attribute, text in element.attributes.items():
            kept = attribute == "name" or (element.tag, attribute) in _EMPTY
            if not text.strip() and not kept:
                empty.setdefault((element.tag, attribute), []).append(element)
    for (_, attribute), elements in empty.items():
        told = f"{clip(attribute)} is empty and counts as absent{_times(elements)}."
        findings.note("repaired", elements[0].where, told)
        for element in elements:
            del element.attributes[attribute]


def _asset_folders(root: Element) -> dict[str, str]:
    """Return the folder of each kind of asset as the compiler's settings name it, and take it out.

    A later setting replaces an earlier one; within one element meshdir comes after assetdir.
    """
    settings = {"meshdir": "", "texturedir": "", "strippath": "false"}
    for compiler in root.findall("compiler"):
        shared = compiler.attributes.pop("assetdir", None)
        if shared is not None:
            settings.update(meshdir=shared, texturedir=shared)
        for attribute in settings:
            settings[attribute] = compiler.attributes.pop(attribute, settings[attribute])
    return settings


def _resolve_files(root: Element, folders: Folders, findings: Findings) -> None:
    """Write the files of assets as absolute paths, confined to the folders of the model."""
    settings = _asset_folders(root)
    kinds = dict.fromkeys(("mesh", "skin", "hfield", "texture"), settings["meshdir"])
    kinds["texture"] = settings["texturedir"]
    strip = settings["strippath"] == "true"
    for element in list(root.walk()):
        if element.tag not in kinds or element.parent is None:
            continue
        for attribute in _FILE_ATTRIBUTES:
            name = element.get(attribute)
            if not name:
                continue
            path = _asset_path(element, name, kinds[element.tag], folders, strip)
            if path is None:
                _add_missing_file(element, name, findings)
                _leave_out_asset(element, findings)
                break
            element.attributes[attribute] = str(path)


def _asset_path(
    element: Element, name: str, subfolder: str, folders: Folders, strip: bool
) -> Path | None:
    """Return the absolute path of the file of an asset, or None.

    MuJoCo looks in the folder of assets beside the model, then beside the included file.
    """
    bases = [folders.own / subfolder]
    if strip:
        name = name.replace("\\", "/").rsplit("/", 1)[-1]
    elif element.folder is not None:
        bases.append(element.folder)
    path = folders.find(element, name, bases, subfolder)
    if path is not None and path.stat().st_size > MAX_FILE_BYTES:
        raise ModelError(
            f'{element.where}: "{clip(name)}" has more than {MAX_FILE_BYTES} bytes; reduce it.'
        )
    return path


def _add_missing_file(element: Element, name: str, findings: Findings) -> None:
    """Add an asset whose file is not there; what only draws is replaced or left out."""
    after = {
        "mesh": "the mesh and the geoms that use it are left out.",
        "hfield": "the height field and the geoms that use it are left out.",
        "texture": "a plain grey stands for the texture.",
        "skin": "the skin is left out.",
    }
    told = f'there is no file "{clip(name)}"'
    if element.tag in ("texture", "skin"):
        findings.note("repaired", element.where, f"{told}; {after[element.tag]}")
        return
    findings.add_unsupported(element.where, told, "files", drop=f"{told}; {after[element.tag]}")


def _leave_out_asset(element: Element, findings: Findings) -> None:
    """Take an asset without its file out of the tree; a plain texture stands for a texture."""
    if element.tag != "texture":
        _remove(element, findings)
        return
    for attribute in _FILE_ATTRIBUTES:
        given = element.attributes.pop(attribute, None)
        if given and "name" not in element.attributes:
            element.attributes["name"] = Path(given).stem
    element.attributes.update(builtin="flat", width="8", height="8", rgb1="0.5 0.5 0.5")
