"""What is not supported and must go before compilation: shapes and actuator laws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from featherback._core import activation_types, bias_types, gain_types
from featherback.model import dangling
from featherback.model.compiler import Locator
from featherback.model.report import Findings
from featherback.model.xmltree import clip

if TYPE_CHECKING:
    import mujoco

FLOOR = "floor"
"""Name of a floor that is added, where no other geom has it."""
EVERY_BIT = 2**31 - 1
"""Bits of contype and conaffinity that meet those of every geom."""

# parts of an actuator's law -> those that this library has, by MuJoCo's names
LAWS = {
    name: {row.name for row in types()}
    for name, types in (
        ("dyntype", activation_types),
        ("gaintype", gain_types),
        ("biastype", bias_types),
    )
}


def edit_spec(spec: mujoco.MjSpec, locator: Locator, findings: Findings) -> list[Any]:
    """Take what cannot be compiled out of the spec; return actuators that have no effect."""
    _remove_shapes(spec, locator, findings)
    shortened = dangling.something_left_out(findings)
    if shortened:
        dangling.leave_out(spec, locator, findings)
    dead = _disable_actuators(spec, locator, findings)
    if shortened or dead:
        dangling.fit_keyframes(spec, locator, findings)
    return dead


def add_floor(spec: mujoco.MjSpec, height: float) -> None:
    """Add a level plane that touches every geom that touches anything."""
    import mujoco

    floor = spec.worldbody.add_geom(
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        pos=[0.0, 0.0, float(height)],
        quat=[1.0, 0.0, 0.0, 0.0],
        size=[0.0, 0.0, 1.0],
        # what a default class may give every geom
        fromto=[np.nan] * 6,
        meshname="",
        hfieldname="",
        contype=EVERY_BIT,
        conaffinity=EVERY_BIT,
    )
    if all(geom.name != FLOOR for geom in spec.geoms):
        floor.name = FLOOR


def _remove_shapes(spec: mujoco.MjSpec, locator: Locator, findings: Findings) -> None:
    """Take out signed distance fields."""
    import mujoco

    for geom in list(spec.geoms):
        if geom.type != mujoco.mjtGeom.mjGEOM_SDF:
            continue
        findings.add_unsupported(
            locator.where("geom", geom),
            "signed distance fields are not supported",
            "sdf",
            drop="the geom is left out.",
        )
        spec.delete(geom)


def _disable_actuators(spec: mujoco.MjSpec, locator: Locator, findings: Findings) -> list[Any]:
    """Make actuators whose law is not supported motors without force, and return them."""
    dead: list[Any] = []
    kept: list[bool] = []
    for actuator in spec.actuators:
        law = _unknown_law(actuator)
        kept += [not law] * dangling.activations(actuator)
        if not law:
            continue
        findings.add_unsupported(
            locator.where("actuator", actuator),
            f"an actuator with {law} is not supported",
            "actuator-laws",
            drop=f"the actuator with {law} has no effect; its control is ignored.",
        )
        _make_motor(actuator)
        dead.append(actuator)
    if not all(kept):
        _keep_activations(spec, np.array(kept, bool))
    return dead


def _keep_activations(spec: mujoco.MjSpec, kept: NDArray[np.bool_]) -> None:
    """Take the activations of refused actuators out of the keyframes, or all where none fit."""
    for key in spec.keys:
        act = np.array(key.act)
        key.act = act[kept] if len(act) == len(kept) else np.empty(0)


def _unknown_law(actuator: Any) -> str:
    """Name the parts of an actuator's law that this library does not have."""
    parts: list[str] = []
    for name, laws in LAWS.items():
        value = getattr(actuator, name).name.partition("_")[2].lower()
        if value not in laws:
            parts.append(f'{name}="{clip(value)}"')
    return ", ".join(parts)


def _make_motor(actuator: Any) -> None:
    """Make an actuator a motor without force, so that its control keeps its column in u."""
    import mujoco

    actuator.set_to_motor()
    actuator.gainprm[0] = 0.0
    if actuator.trntype == mujoco.mjtTrn.mjTRN_SO3:
        actuator.trntype = mujoco.mjtTrn.mjTRN_SITE
    # its control acts at once
    actuator.dyntype = mujoco.mjtDyn.mjDYN_NONE
    actuator.actdim = -1
    actuator.actlimited = int(mujoco.mjtLimited.mjLIMITED_FALSE)
    actuator.actrange[:] = 0.0
    actuator.actearly = False
