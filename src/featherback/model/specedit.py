"""What is not supported and must go before compilation: shapes and actuator laws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from featherback.model.compiler import Locator
from featherback.model.report import Findings
from featherback.model.xmltree import clip

if TYPE_CHECKING:
    import mujoco


def edit_spec(spec: mujoco.MjSpec, locator: Locator, findings: Findings) -> list[Any]:
    """Find what is not supported and cannot be compiled, and take it out of the spec.

    Args:
        spec: MuJoCo's editable model, changed in place.
        locator: finds locations in the user's file.
        findings: receives what is not supported.

    Returns:
        The actuators that stay in the model without effect.
    """
    _remove_shapes(spec, locator, findings)
    return _disable_actuators(spec, locator, findings)


def _remove_shapes(spec: mujoco.MjSpec, locator: Locator, findings: Findings) -> None:
    """Take out height fields and signed distance fields, with what names them."""
    import mujoco

    kinds = {
        mujoco.mjtGeom.mjGEOM_HFIELD: ("height fields are not supported", "hfield"),
        mujoco.mjtGeom.mjGEOM_SDF: ("signed distance fields are not supported", "sdf"),
    }
    removed: set[str] = set()
    for geom in list(spec.geoms):
        if geom.type in kinds:
            what, anchor = kinds[geom.type]
            findings.add_unsupported(
                locator.where("geom", geom), what, anchor, drop="the geom is left out."
            )
            removed.add(geom.name)
            spec.delete(geom)
    for field in list(spec.hfields):
        spec.delete(field)
    if removed:
        for pair in list(spec.pairs):
            if pair.geomname1 in removed or pair.geomname2 in removed:
                spec.delete(pair)
        for sensor in list(spec.sensors):
            spec.delete(sensor)


def _disable_actuators(spec: mujoco.MjSpec, locator: Locator, findings: Findings) -> list[Any]:
    """Make actuators whose law is not supported motors without force, and return them."""
    import mujoco

    gains = (mujoco.mjtGain.mjGAIN_FIXED, mujoco.mjtGain.mjGAIN_AFFINE)
    biases = (mujoco.mjtBias.mjBIAS_NONE, mujoco.mjtBias.mjBIAS_AFFINE)
    simple = (
        mujoco.mjtDyn.mjDYN_INTEGRATOR,
        mujoco.mjtDyn.mjDYN_FILTER,
        mujoco.mjtDyn.mjDYN_FILTEREXACT,
    )
    dead: list[Any] = []
    changed = False
    for actuator in spec.actuators:
        where = locator.where("actuator", actuator)
        law = _law(actuator)
        known = actuator.gaintype in gains and actuator.biastype in biases
        if not known or actuator.dyntype not in (mujoco.mjtDyn.mjDYN_NONE, *simple):
            findings.add_unsupported(
                where,
                f"an actuator with {law} is not supported",
                "actuator-laws",
                drop=f"the actuator with {law} has no effect; its control is ignored.",
            )
            _make_motor(actuator)
            dead.append(actuator)
            changed = True
        elif actuator.dyntype in simple:
            findings.add_unsupported(
                where,
                f"activation dynamics, {law}, are not supported",
                "activation",
                kind="approximated",
                drop="activation dynamics are left out: the control acts at once.",
            )
            _remove_dynamics(actuator)
            changed = True
    if changed:
        for key in spec.keys:
            key.act = np.empty(0)
    return dead


def _law(actuator: Any) -> str:
    """Name the parts of an actuator's law that this library does not have."""
    parts: list[str] = []
    for name in ("dyntype", "gaintype", "biastype"):
        value = getattr(actuator, name).name.partition("_")[2].lower()
        if value not in ("none", "fixed", "affine"):
            parts.append(f'{name}="{clip(value)}"')
    return ", ".join(parts)


def _make_motor(actuator: Any) -> None:
    """Make an actuator a motor without force, so that its control keeps its column in u."""
    import mujoco

    actuator.set_to_motor()
    _remove_dynamics(actuator)
    actuator.gainprm[0] = 0.0
    if actuator.trntype == mujoco.mjtTrn.mjTRN_SO3:
        actuator.trntype = mujoco.mjtTrn.mjTRN_SITE


def _remove_dynamics(actuator: Any) -> None:
    """Make a control act at once."""
    import mujoco

    actuator.dyntype = mujoco.mjtDyn.mjDYN_NONE
    actuator.actdim = -1
    actuator.actlimited = int(mujoco.mjtLimited.mjLIMITED_FALSE)
    actuator.actrange[:] = 0.0
    actuator.actearly = False
