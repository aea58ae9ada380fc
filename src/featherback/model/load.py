"""The way in: a file or a string becomes a checked, compiled model."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from featherback._checks import check_integer
from featherback._checks import shown as brief
from featherback._typing import Bools
from featherback.errors import ModelError, ParameterError
from featherback.model import (
    mjcf,
    pairs,
    settings,
    tendons,
    unsupported,
    urdf,
    value_checks,
    xmltree,
)
from featherback.model.compiler import Locator, compile_spec, quiet, read_spec
from featherback.model.files import Folders, expand_includes
from featherback.model.hull_limit import FEWEST, compile_limited
from featherback.model.model import Model, Parsed
from featherback.model.report import Findings, dropped_message, unsupported_message
from featherback.model.specedit import add_floor, edit_spec
from featherback.model.value_checks import MAX_NUMBER
from featherback.model.xmltree import STRING, Element

if TYPE_CHECKING:
    import mujoco

Format = Literal["mjcf", "urdf"]


@dataclass(frozen=True)
class Source:
    """A model as text, and where it came from.

    Attributes:
        data: the content.
        shown: its name in messages.
        folder: folder from which it names other files.
        filename: its path, or None for a string.
    """

    data: bytes | str
    shown: str
    folder: Path
    filename: str | None


def load(
    source: str | os.PathLike[str],
    *,
    on_unsupported: Literal["error", "drop"] = "error",
    format: Format | None = None,
    free_root: bool = False,
    motors: bool = False,
    name: str | None = None,
    asset_folders: Sequence[str | os.PathLike[str]] = (),
    hull_vertices: int | None = None,
    floor: float | None = None,
) -> Model:
    """Load a robot from MJCF or URDF.

    Args:
        source: a path, or the XML itself (then it starts with "<").
        on_unsupported: "error" raises for a model with anything this library does not support;
            what one contact law does not have is refused by a Simulator with that law. "drop" goes
            on without it and lists it in `Model.report()`.
        format: "mjcf" or "urdf"; None looks at the root element.
        free_root: let the root link of a URDF move freely instead of fixing it in the world.
        motors: give every joint of a URDF a motor with gear 1, limited by the joint's effort.
        name: name of the model; by default the file's own.
        asset_folders: further folders in which the files that the model names may lie, and are
            looked for. Others than these, the model's own and a few above it are never read.
        hull_vertices: most vertices that the convex hull of a mesh may have, at least 4; None
            keeps all. `Model.report()` tells how far each smaller hull is from the whole one.
        floor: height [m] of a level plane that is added to the model, the geom "floor". It touches
            every geom that touches anything; None adds none.

    Returns:
        The model.

    Raises:
        ModelError: if the file cannot be read, makes no physical sense or is not supported.
        ParameterError: if an argument has a value that is not known.
    """
    from featherback.model.structure import build_structure

    parsed = parse(
        source,
        on_unsupported=on_unsupported,
        format=format,
        free_root=free_root,
        motors=motors,
        name=name,
        asset_folders=asset_folders,
        hull_vertices=hull_vertices,
        floor=floor,
    )
    return Model(parsed, build_structure(parsed))


def parse(
    source: str | os.PathLike[str],
    *,
    on_unsupported: Literal["error", "drop"] = "error",
    format: Format | None = None,
    free_root: bool = False,
    motors: bool = False,
    name: str | None = None,
    asset_folders: Sequence[str | os.PathLike[str]] = (),
    hull_vertices: int | None = None,
    floor: float | None = None,
) -> Parsed:
    """Read, check and compile a model without building the engine's structure.

    Arguments, result and exceptions are those of `load`, except that it returns `Parsed`.
    """
    _check_choice("on_unsupported", on_unsupported, ("error", "drop"))
    _check_choice("format", format, (None, "mjcf", "urdf"))
    if hull_vertices is not None:
        check_integer("load()", "hull_vertices", hull_vertices, minimum=FEWEST)
    _check_floor(floor)
    more = _folders(asset_folders)
    text = _read(source)
    folders = Folders(text.folder, more)
    mended: list[str] = []
    root = xmltree.parse(text.data, text.shown, mended)
    kind = _format(root, format)
    if kind == "mjcf" and (free_root or motors):
        option = "free_root" if free_root else "motors"
        raise ParameterError(
            f"load(): {option}=True concerns URDF, and {text.shown} is MJCF; add a <freejoint/> "
            "or actuators to the file."
        )
    findings = Findings()
    for message in mended:
        findings.note("repaired", f"{text.shown}:1", message)
    readable = False
    try:
        if kind == "mjcf":
            spec, locator = _read_mjcf(root, text, folders, findings)
        else:
            options = urdf.UrdfOptions(free_root=free_root, motors=motors)
            spec, locator = urdf.read(root, folders, options, findings)
        readable = True
        if floor is not None:
            add_floor(spec, floor)
        parsed = finish(spec, locator, findings, hull_vertices)
    except ModelError as error:
        # what is not supported is the likelier cause of a failure behind it
        fatal = findings.fatal(on_unsupported)
        if fatal:
            raise ModelError(unsupported_message(fatal, text.shown)) from None
        raise ModelError(str(error) + (dropped_message(findings) if readable else "")) from None
    notices, refused = findings.settle(on_unsupported, text.shown)
    if on_unsupported == "drop":
        unsupported.drop_law(parsed.mujoco)
    named = replace(parsed, name=name or parsed.name, filename=text.filename)
    return replace(named, notices=notices, refused=refused)


def _check_choice(argument: str, value: object, allowed: tuple[object, ...]) -> None:
    """Raise ParameterError for an option that is not among those allowed."""
    if value not in allowed:
        listed = ", ".join(repr(choice) for choice in allowed)
        raise ParameterError(f"load(): {argument} is {value!r}; it must be one of {listed}.")


def _check_floor(floor: object) -> None:
    """Raise ParameterError for a height that is no number."""
    real = isinstance(floor, int | float | np.integer | np.floating)
    if floor is None or (real and not isinstance(floor, bool) and abs(floor) <= MAX_NUMBER):
        return
    raise ParameterError(
        f"load(): floor is {brief(floor)}; it must be None or a height in metres, at most "
        f"{MAX_NUMBER:g} from zero."
    )


def _folders(given: Sequence[str | os.PathLike[str]]) -> tuple[Path, ...]:
    """Return the folders that the user named, absolute; raise ParameterError if one is none."""
    where = "load(): asset_folders"
    if isinstance(given, str | os.PathLike) or not isinstance(given, Iterable):
        raise ParameterError(f"{where} is {given!r}; pass a list of folders.")
    folders: list[Path] = []
    for folder in given:
        if not isinstance(folder, str | os.PathLike) or not os.path.isdir(folder):
            shown = xmltree.clip(str(folder), 200)
            raise ParameterError(f'{where} holds "{shown}", which is not a folder; correct it.')
        folders.append(Path(os.path.abspath(os.fsdecode(folder))))
    return tuple(folders)


def _read(source: str | os.PathLike[str]) -> Source:
    """Return the text of a path, or of a string that is XML."""
    if not isinstance(source, str | os.PathLike):
        kind = type(source).__name__
        raise ParameterError(f"load(): source is of type {kind}; pass a path or XML.")
    given = os.fsdecode(source)
    if isinstance(source, str) and given.lstrip("\ufeff \t\r\n").startswith("<"):
        return Source(given.lstrip("\ufeff"), STRING, Path.cwd(), None)
    if not given.strip():
        raise ParameterError("load(): source is empty; pass a path or XML.")
    path = Path(given)
    if os.path.isdir(path):
        shown = xmltree.clip(given, 200)
        raise ModelError(f"{shown}: this is a folder; pass the model file in it.")
    data = xmltree.read_bytes(path, xmltree.clip(given, 200))
    return Source(data, path.name, Path(os.path.abspath(path)).parent, given)


def _format(root: Element, given: Format | None) -> Format:
    """Return the format of a model, from its root element."""
    found: dict[str, Format] = {"mujoco": "mjcf", "robot": "urdf"}
    kind = found.get(root.tag)
    if kind is None or (given is not None and given != kind):
        wanted = {"mjcf": "<mujoco>", "urdf": "<robot>"}.get(given or "", "<mujoco> or <robot>")
        raise ModelError(
            f"{root.file}:{root.line}: the root element is <{xmltree.clip(root.tag)}>; it must be "
            f"{wanted}."
        )
    return kind


def _read_mjcf(
    root: Element, text: Source, folders: Folders, findings: Findings
) -> tuple[mujoco.MjSpec, Locator]:
    """Check an MJCF tree and pass it to MuJoCo's reader."""
    expand_includes(root, folders)
    mjcf.drop_empty(root, findings)
    value_checks.check_mjcf(root)
    mjcf.prepare(root, folders, findings)
    locator = Locator(text.shown)
    option = root.find("option")
    if option is not None:
        locator.named["option", ""] = option
    with quiet(findings, text.shown):
        spec = read_spec(root, locator)
    if not spec.modelname or spec.modelname == "MuJoCo Model":
        spec.modelname = root.get("model") or Path(text.shown.strip("<>")).stem
    return spec, locator


def finish(
    spec: mujoco.MjSpec, locator: Locator, findings: Findings, hull_vertices: int | None = None
) -> Parsed:
    """Compile a spec, find what is not supported and the pairs that may touch."""
    with quiet(findings, locator.shown):
        gone = edit_spec(spec, locator, findings)
        if hull_vertices is None:
            model = compile_spec(spec, locator)
        else:
            model = compile_limited(spec, hull_vertices, locator, findings)
        dead = {int(actuator.id) for actuator in gone}
    value_checks.check_compiled(model, locator.shown)
    if model.nv == 0:
        raise ModelError(
            f"{locator.shown}: nothing in the model can move; add a joint to the file, or pass "
            "free_root=True if it is URDF."
        )
    settings.apply_flags(model)
    settings.site_equalities_to_bodies(model)
    unsupported.check_fields(model, locator, findings)
    unsupported.fold_actuator_terms(model, locator, findings)
    unsupported.check_gaps(model, locator, findings)
    unsupported.check_options(model, locator.option, findings)
    keep_tendon = tendons.acting_tendons(model, locator, findings)
    keep_actuator = unsupported.acting_actuators(model, dead, locator, findings)
    keep_equality = unsupported.acting_equalities(model, locator, findings)
    found = pairs.candidate_pairs(model, locator.shown)
    unsupported.check_frictions(model, found, locator, findings)
    parsed = Parsed(
        mujoco=model,
        pairs=found.frozen(),
        keep_equality=_locked(keep_equality),
        keep_actuator=_locked(keep_actuator),
        keep_tendon=_locked(keep_tendon),
        notices=(),
        name=spec.modelname,
        filename=None,
    )
    tendons.check_branches(parsed, locator, findings)
    return parsed


def _locked(mask: Bools) -> Bools:
    """Return the mask, read-only."""
    mask.flags.writeable = False
    return mask
