"""What is not supported, found in the compiled model, where defaults and classes are resolved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from featherback._core import equality_types, transmission_types
from featherback._typing import Bools
from featherback.model import settings
from featherback.model.compiler import Locator
from featherback.model.pairs import Pairs
from featherback.model.report import Findings

if TYPE_CHECKING:
    import mujoco


@dataclass(frozen=True)
class FieldRule:
    """A field of MjModel that must be zero.

    Attributes:
        field: name of the field, first axis over elements of the kind (or over dofs).
        kind: what the field belongs to.
        what: what is not supported.
        anchor: heading of docs/support.md.
        left: what is left out on request.
    """

    field: str
    kind: str
    what: str
    anchor: str
    left: str


FIELD_RULES = (
    FieldRule(
        "jnt_springyield", "joint", "a plastic spring (springyield)", "joint-terms", "springyield"
    ),
    FieldRule(
        "jnt_stiffnesspoly",
        "joint",
        "a stiffness with more than one number (a polynomial spring)",
        "joint-terms",
        "every number of stiffness but the first",
    ),
    FieldRule(
        "dof_dampingpoly",
        "joint",
        "a damping with more than one number (polynomial damping)",
        "joint-terms",
        "every number of damping but the first",
    ),
    FieldRule("geom_adhesion", "geom", "adhesion", "geom-terms", "adhesion"),
    FieldRule(
        "geom_surfacevel", "geom", "a moving surface (surfacevel)", "geom-terms", "surfacevel"
    ),
    FieldRule("pair_adhesion", "pair", "adhesion", "geom-terms", "adhesion"),
    FieldRule(
        "actuator_dampingpoly",
        "actuator",
        "a damping with more than one number (polynomial damping)",
        "actuator-terms",
        "damping",
    ),
    FieldRule("actuator_delay", "actuator", "a delay", "actuator-terms", "delay"),
)

# mjtTrn without its prefix -> how the transmission is called
_TRANSMISSIONS = {
    "JOINTINPARENT": "jointinparent (on a ball or free joint)",
    "BODY": "body (adhesion)",
    "SO3": "orientation",
}


def check_fields(model: mujoco.MjModel, locator: Locator, findings: Findings) -> None:
    """Find fields that must be zero and are not, and set them to zero."""
    for rule in FIELD_RULES:
        values = getattr(model, rule.field, None)
        if values is None:
            continue
        axes = tuple(range(1, values.ndim))
        active = np.flatnonzero(np.any(values != 0, axis=axes))
        numbers = active if not rule.field.startswith("dof_") else model.dof_jntid[active]
        for number in dict.fromkeys(numbers.tolist()):
            findings.add_unsupported(
                locator.at(rule.kind, number),
                f"{rule.what} is not supported",
                rule.anchor,
                drop=f"{rule.left} is left out.",
            )
        values[:] = 0


def fold_actuator_terms(model: mujoco.MjModel, locator: Locator, findings: Findings) -> None:
    """Add gear² times armature and damping of actuators to their joints, as MuJoCo does.

    Those of actuators on anything else than a joint are refused.
    """
    import mujoco

    joints = (int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT))
    for name in ("armature", "damping"):
        values = getattr(model, f"actuator_{name}", None)
        if values is None:
            continue
        for number in np.flatnonzero(values).tolist():
            if int(model.actuator_trntype[number]) not in joints:
                findings.add_unsupported(
                    locator.at("actuator", number),
                    f"{name} on an actuator that does not act on a joint is not supported",
                    "actuator-terms",
                    drop=f"{name} is left out.",
                )
                continue
            dofs = model.dof_jntid == model.actuator_trnid[number, 0]
            target = getattr(model, f"dof_{name}")
            target[dofs] += model.actuator_gear[number, 0] ** 2 * values[number]
        values[:] = 0


def check_gaps(model: mujoco.MjModel, locator: Locator, findings: Findings) -> None:
    """Find negative gaps, by which MuJoCo looks for contacts nearer than their margin."""
    for kind in ("geom", "pair"):
        gaps = getattr(model, f"{kind}_gap")
        for number in np.flatnonzero(gaps < 0).tolist():
            findings.add_unsupported(
                locator.at(kind, number),
                f"gap is {gaps[number]:.6g} m, less than zero",
                "mujoco-law",
                drop="a negative gap is taken as zero.",
                law="mujoco",
            )


def check_options(model: mujoco.MjModel, where: str, findings: Findings) -> None:
    """Find the contact override, and what MuJoCo's contact law is without here."""
    import mujoco

    option = model.opt
    override = int(mujoco.mjtEnableBit.mjENBL_OVERRIDE)
    if option.enableflags & override:
        _check_override(model, where, findings)
        option.enableflags &= ~override
    _check_law(model, where, findings)


def _check_override(model: mujoco.MjModel, where: str, findings: Findings) -> None:
    """Write the contact override into the arrays, or refuse one that geoms cannot have."""
    slide1, slide2, _, roll1, roll2 = model.opt.o_friction.tolist()
    if slide1 == slide2 and roll1 == roll2:
        settings.apply_override(model)
        return
    findings.add_unsupported(
        where,
        f"o_friction differs in two directions ({slide1:.6g} and {slide2:.6g}, {roll1:.6g} and "
        f"{roll2:.6g}), which is not supported",
        "flags",
        drop="the contact override is left out: each geom keeps its own settings.",
    )


# flag -> what it asks for
_LAW_FLAGS = {
    "DIAGEXACT": "the exact diagonal of constraints (flag diagexact)",
    "IPC": "contacts by a barrier (flag ipc)",
    "SLEEP": "sleeping bodies (flag sleep)",
    "SPECULATIVE": "speculative contacts (flag speculative)",
}


def _check_law(model: mujoco.MjModel, where: str, findings: Findings) -> None:
    """Find what changes MuJoCo's contact law and is not part of it here."""
    import mujoco

    number = int(model.opt.noslip_iterations)
    if number > 0:
        findings.add_unsupported(
            where,
            f"noslip_iterations is {number}",
            "mujoco-law",
            drop="noslip_iterations is left out.",
            law="mujoco",
        )
    for name, what in _LAW_FLAGS.items():
        bit = getattr(mujoco.mjtEnableBit, f"mjENBL_{name}", None)
        if bit is not None and model.opt.enableflags & int(bit):
            findings.add_unsupported(
                where,
                f"the file switches on {what}",
                "mujoco-law",
                drop=f"the flag {name.lower()} is left out.",
                law="mujoco",
            )


def drop_law(model: mujoco.MjModel) -> None:
    """Switch off in the compiled model what MuJoCo's contact law is without here."""
    import mujoco

    model.opt.noslip_iterations = 0
    for gaps in (model.geom_gap, model.pair_gap):
        np.maximum(gaps, 0, out=gaps)
    for name in _LAW_FLAGS:
        model.opt.enableflags &= ~int(getattr(mujoco.mjtEnableBit, f"mjENBL_{name}", 0))


def acting_actuators(
    model: mujoco.MjModel,
    dead: set[int],
    locator: Locator,
    findings: Findings,
) -> Bools:
    """Return which actuators act, bool[nu]; the others lose their gain and bias.

    What does not act: laws that are not supported (`dead`) and transmissions that are not known; in
    its parent's frame a hinge or slide is driven as in its own.
    """
    import mujoco

    known = [mujoco.mjtTrn(row.number) for row in transmission_types()]
    scalar = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))

    keep = np.ones(model.nu, bool)
    for number in range(model.nu):
        kind = mujoco.mjtTrn(model.actuator_trntype[number])
        plain = kind in known or (
            kind == mujoco.mjtTrn.mjTRN_JOINTINPARENT
            and int(model.jnt_type[model.actuator_trnid[number, 0]]) in scalar
        )
        if number in dead:
            keep[number] = False
        elif 0 <= model.actuator_group[number] <= 30 and (
            model.opt.disableactuator >> int(model.actuator_group[number]) & 1
        ):
            findings.note(
                "ignored",
                locator.at("actuator", number),
                "its group is switched off by actuatorgroupdisable; its control is ignored.",
            )
            keep[number] = False
        elif kind == mujoco.mjtTrn.mjTRN_BODY:
            keep[number] = _check_adhesion(model, number, locator, findings)
        elif not plain:
            word = _TRANSMISSIONS.get(kind.name.removeprefix("mjTRN_"), "this")
            findings.add_unsupported(
                locator.at("actuator", number),
                f"an actuator with {word} transmission is not supported",
                "transmission",
                drop=f"the actuator with {word} transmission has no effect; its control is "
                "ignored.",
            )
            keep[number] = False
    model.actuator_gainprm[~keep] = 0.0
    model.actuator_biasprm[~keep] = 0.0
    return keep


def _check_adhesion(
    model: mujoco.MjModel, number: int, locator: Locator, findings: Findings
) -> bool:
    """Return whether an actuator on the contacts of a body acts; under the hard law none does."""
    where = locator.at("actuator", number)
    word = _TRANSMISSIONS["BODY"]
    left = f"the actuator with {word} transmission has no effect; its control is ignored."
    affine = (model.actuator_gainprm[number, 2], model.actuator_biasprm[number, 2])
    causes = {
        "a law that knows its speed": any(affine),
        "a joint with actuatorfrcrange": np.any(model.jnt_actfrclimited),
        "a gap": np.any(model.geom_gap > 0) or np.any(model.pair_gap > 0),
    }
    for cause, found in causes.items():
        if found:
            findings.add_unsupported(
                where,
                f"an actuator with {word} transmission and {cause} are not supported together",
                "transmission",
                drop=left,
            )
            return False
    findings.add_unsupported(
        where, f"an actuator with {word} transmission", "transmission", drop=left, law="hard"
    )
    return True


def acting_equalities(model: mujoco.MjModel, locator: Locator, findings: Findings) -> Bools:
    """Return which equality constraints act, bool[neq]; those of types that are known."""
    import mujoco

    known = [mujoco.mjtEq(row.number) for row in equality_types() if row.number >= 0]
    keep = np.ones(model.neq, bool)
    for number in range(model.neq):
        kind = mujoco.mjtEq(model.eq_type[number])
        if kind not in known:
            word = kind.name.removeprefix("mjEQ_").lower()
            findings.add_unsupported(
                locator.at("equality", number),
                f"equality constraints of type {word} are not supported",
                "equality",
                drop="the constraint is left out.",
            )
            keep[number] = False
        elif not model.eq_active0[number]:
            findings.note(
                "ignored",
                locator.at("equality", number),
                "the constraint is not active and stays so.",
            )
            keep[number] = False
    model.eq_active0[~keep] = 0
    return keep


def check_frictions(
    model: mujoco.MjModel, found: Pairs, locator: Locator, findings: Findings
) -> None:
    """Find frictions of explicit pairs that differ in two directions; the hard law has no such."""
    for number in found.explicit[found.explicit >= 0].tolist():
        for word, at, condim in (("sliding", 0, 3), ("rolling", 3, 6)):
            first, second = model.pair_friction[number, at : at + 2]
            if first == second or model.pair_dim[number] < condim:
                continue
            findings.add_unsupported(
                locator.at("pair", number),
                f"the two {word} frictions are {first:.6g} and {second:.6g}",
                "condim",
                kind="approximated",
                drop=f"{word} friction is {first:.6g} in both directions.",
                law="hard",
            )
