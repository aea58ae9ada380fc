"""What is not supported, found in the compiled model, where defaults and classes are resolved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from featherback._core import transmission_types
from featherback._typing import Bools
from featherback.model import pairs as pairing
from featherback.model import settings
from featherback.model.compiler import Locator
from featherback.model.pairs import Pairs
from featherback.model.report import Findings
from featherback.model.xmltree import clip

if TYPE_CHECKING:
    import mujoco

MAX_PAIR_NOTICES = 2000
"""How many unsupported pairs are named one by one; the rest are counted."""


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
    "TENDON": "tendon",
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
    model: mujoco.MjModel, dead: set[int], locator: Locator, findings: Findings
) -> Bools:
    """Return which actuators act, bool[nu]; the others lose their gain and bias.

    What does not act: laws that are not supported (`dead`), and transmissions that are not known;
    in its parent's frame a hinge or slide is driven as in its own.
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
        elif 0 <= model.actuator_group[number] <= 30 and (
            model.opt.disableactuator >> int(model.actuator_group[number]) & 1
        ):
            findings.note(
                "ignored",
                locator.at("actuator", number),
                "its group is switched off by actuatorgroupdisable; its control is ignored.",
            )
            keep[number] = False
    model.actuator_gainprm[~keep] = 0.0
    model.actuator_biasprm[~keep] = 0.0
    return keep


def acting_equalities(model: mujoco.MjModel, locator: Locator, findings: Findings) -> Bools:
    """Return which equality constraints act, bool[neq]; connect, weld and joint are supported."""
    import mujoco

    known = (mujoco.mjtEq.mjEQ_CONNECT, mujoco.mjtEq.mjEQ_WELD, mujoco.mjtEq.mjEQ_JOINT)
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


# field of a tendon -> how its effect is called
_TENDON_EFFECTS = {
    "tendon_stiffness": "stiffness",
    "tendon_stiffnesspoly": "stiffness",
    "tendon_damping": "damping",
    "tendon_dampingpoly": "damping",
    "tendon_limited": "a limit",
    "tendon_frictionloss": "dry friction",
    "tendon_armature": "armature",
    "tendon_springyield": "a plastic spring",
}


def check_tendons(model: mujoco.MjModel, locator: Locator, findings: Findings) -> None:
    """Find tendons that exert forces of their own, and list those that do nothing."""
    for number in range(model.ntendon):
        effects = [
            word
            for name, word in _TENDON_EFFECTS.items()
            if hasattr(model, name) and np.any(getattr(model, name)[number] != 0)
        ]
        where = locator.at("tendon", number)
        if not effects:
            findings.note("ignored", where, "the tendon exerts no force of its own.")
            continue
        listed = " and ".join(dict.fromkeys(effects))
        findings.add_unsupported(
            where,
            f"tendons are not supported, and this one has {listed}",
            "tendon",
            drop=f"the tendon is left out; it has {listed}.",
        )
    for name in _TENDON_EFFECTS:
        if hasattr(model, name):
            getattr(model, name)[:] = 0


def remove_pairs(
    spec: mujoco.MjSpec, model: mujoco.MjModel, locator: Locator, findings: Findings
) -> set[tuple[int, int]]:
    """Take explicit pairs without a collision routine out of the spec; return their geoms."""
    if model.npair == 0:
        return set()
    found = pairing.candidate_pairs(model)
    bad = found.select((found.explicit >= 0) & ~_have_routine(model, found))
    numbers = set(bad.explicit.tolist())
    for first, second in zip(bad.geom1, bad.geom2, strict=True):
        _add_pair(model, int(first), int(second), locator, findings)
    for pair in [pair for pair in spec.pairs if pair.id in numbers]:
        spec.delete(pair)
    return set(zip(bad.geom1.tolist(), bad.geom2.tolist(), strict=True))


def _have_routine(model: mujoco.MjModel, found: Pairs) -> Bools:
    """Return which pairs have a collision routine."""
    types = model.geom_type
    return pairing.is_supported(types[found.geom1], types[found.geom2])


def supported_pairs(
    model: mujoco.MjModel, told: set[tuple[int, int]], locator: Locator, findings: Findings
) -> Pairs:
    """Return the pairs of shapes that have a collision routine; the others no longer meet.

    The other pairs, except those `told` already, are not supported; condim 4 and 6 and friction
    that differs in two directions are not by the hard contact law.
    """
    found = pairing.candidate_pairs(model)
    good = _have_routine(model, found)
    bad = found.select(~good)
    if len(bad) and not pairing.mask_unsupported(model):
        what = "contype and conaffinity have too few bits to part these shapes in model.mujoco"
        findings.note("dropped", locator.shown, f"{what}, where they still meet.")
    new = [p for p in zip(bad.geom1.tolist(), bad.geom2.tolist(), strict=True) if p not in told]
    for first, second in new[:MAX_PAIR_NOTICES]:
        _add_pair(model, first, second, locator, findings)
    rest = len(new) - MAX_PAIR_NOTICES
    if rest > 0:
        findings.add_unsupported(
            locator.shown,
            f"{rest} more pairs of shapes have no collision routine yet",
            "pairs",
            drop=f"{rest} more pairs of shapes are left out: they pass through each other.",
        )
    kept = found.select(good)
    _check_condim(model, kept, locator, findings)
    _check_anisotropy(model, kept, locator, findings)
    return kept


def geom_label(model: mujoco.MjModel, number: int) -> str:
    """Return how a geom is called in a message: its name, or its number and body."""
    name = model.geom(number).name
    if name:
        return f'"{clip(name)}"'
    body = model.body(int(model.geom_bodyid[number])).name
    return f'geom {number} of body "{clip(body)}"'


def _add_pair(
    model: mujoco.MjModel, first: int, second: int, locator: Locator, findings: Findings
) -> None:
    """Add one pair of geoms, by name, that has no collision routine."""
    names = [
        f"{pairing.type_name(int(model.geom_type[number]))} {geom_label(model, number)}"
        for number in (first, second)
    ]
    findings.add_unsupported(
        locator.at("geom", first),
        f"{names[0]} against {names[1]} has no collision routine yet",
        "pairs",
        drop=f"{names[0]} and {names[1]} pass through each other.",
    )


def _check_condim(model: mujoco.MjModel, kept: Pairs, locator: Locator, findings: Findings) -> None:
    """Find torsional and rolling friction, once per geom or explicit pair."""
    high = kept.select(kept.condim > 3)
    causes: dict[tuple[str, int], int] = {}
    for first, second, condim, explicit in zip(
        high.geom1, high.geom2, high.condim, high.explicit, strict=True
    ):
        if explicit >= 0:
            causes[("pair", int(explicit))] = int(condim)
            continue
        for number in (int(first), int(second)):
            if model.geom_condim[number] == condim:
                causes[("geom", number)] = int(condim)
    for (kind, number), condim in causes.items():
        findings.add_unsupported(
            locator.at(kind, number),
            f"condim is {condim}",
            "condim",
            kind="approximated",
            drop=f"condim {condim} is treated as 3, without torsional and rolling friction.",
            law="hard",
        )


def _check_anisotropy(
    model: mujoco.MjModel, kept: Pairs, locator: Locator, findings: Findings
) -> None:
    """Find explicit pairs whose two sliding frictions differ."""
    for number in kept.explicit[kept.explicit >= 0].tolist():
        first, second = model.pair_friction[number, :2]
        if first != second and model.pair_dim[number] > 1:
            findings.add_unsupported(
                locator.at("pair", number),
                f"the two sliding frictions are {first:.6g} and {second:.6g}",
                "condim",
                kind="approximated",
                drop=f"sliding friction is {first:.6g} in both directions.",
                law="hard",
            )
