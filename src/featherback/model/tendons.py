"""Tendons: which of them act, what of them is not supported, and the engine's tables of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from featherback._core import wrap_types
from featherback._typing import Bools, Ints
from featherback.model.compiler import Locator
from featherback.model.report import Findings

if TYPE_CHECKING:
    import mujoco

    from featherback.model.model import Parsed

# field of a tendon -> how its effect is called
_EFFECTS = {
    "tendon_stiffness": "stiffness",
    "tendon_stiffnesspoly": "stiffness",
    "tendon_damping": "damping",
    "tendon_dampingpoly": "damping",
    "tendon_limited": "a limit",
    "tendon_frictionloss": "dry friction",
    "tendon_armature": "armature",
    "tendon_springyield": "a plastic spring",
}
# field of a tendon that must be zero -> what is not supported, what is left out on request
_REFUSED = {
    "tendon_stiffnesspoly": (
        "a stiffness with more than one number (a polynomial spring)",
        "every number of stiffness but the first",
    ),
    "tendon_dampingpoly": (
        "a damping with more than one number (polynomial damping)",
        "every number of damping but the first",
    ),
    "tendon_springyield": ("a plastic spring (springyield)", "springyield"),
    "tendon_actfrclimited": (
        "a limit of all actuators on a tendon (actuatorfrcrange)",
        "actuatorfrcrange",
    ),
}
WRAPS = {row.name: row.number for row in wrap_types()}
"""What the path of a tendon may be made of, with MuJoCo's numbers."""
# what a tendon goes round
_ROUND = (WRAPS["sphere"], WRAPS["cylinder"])
# rows of the hard contact law act on two branches of a tree at most
MAX_BRANCHES = 2


def acting_tendons(model: mujoco.MjModel, locator: Locator, findings: Findings) -> Bools:
    """Return which tendons are there, bool[ntendon]: all, or none where none does anything.

    Those that do nothing, and that nothing acts on, are listed.
    """
    used, idle = _named(model), 0
    for number in range(model.ntendon):
        where = locator.at("tendon", number)
        effects = [
            name
            for name in _EFFECTS
            if hasattr(model, name) and np.any(getattr(model, name)[number] != 0)
        ]
        if effects or number in used:
            _check_fields(model, number, where, findings)
        else:
            findings.note("ignored", where, "the tendon exerts no force of its own.")
            idle += 1
    keep = np.full(model.ntendon, idle < model.ntendon)
    for name in _REFUSED:
        if hasattr(model, name):
            getattr(model, name)[:] = 0
    return keep


def _named(model: mujoco.MjModel) -> set[int]:
    """Return the tendons on which actuators or equality constraints act."""
    import mujoco

    on_tendon = model.actuator_trntype == int(mujoco.mjtTrn.mjTRN_TENDON)
    used = set(model.actuator_trnid[on_tendon, 0].tolist())
    for number in np.flatnonzero(model.eq_type == int(mujoco.mjtEq.mjEQ_TENDON)):
        used |= {int(model.eq_obj1id[number]), int(model.eq_obj2id[number])}
    return used


def _check_fields(model: mujoco.MjModel, number: int, where: str, findings: Findings) -> None:
    """Find fields of a tendon that must be zero and are not."""
    for name, (what, left) in _REFUSED.items():
        if hasattr(model, name) and np.any(getattr(model, name)[number] != 0):
            findings.add_unsupported(
                where, f"{what} is not supported", "tendon", drop=f"{left} is left out."
            )


def check_branches(parsed: Parsed, locator: Locator, findings: Findings) -> None:
    """Find what the hard contact law cannot hold: rows on more than two branches of a tree."""
    import mujoco

    m = parsed.mujoco
    servo = (m.actuator_biasprm[:, 2] != 0) | (m.actuator_gainprm[:, 2] != 0)
    servo &= (m.actuator_trntype == int(mujoco.mjtTrn.mjTRN_TENDON)) & parsed.keep_actuator
    damped = set(m.actuator_trnid[servo, 0].tolist())
    for number in np.flatnonzero(parsed.keep_tendon).tolist():
        effects = [
            word
            for name, word in _EFFECTS.items()
            if name not in ("tendon_stiffness", *_REFUSED) and getattr(m, name)[number] != 0
        ]
        if number in damped:
            effects.append("a servo that damps")
        count = len(branches(m, tendon_dofs(m, number)))
        if effects and count > MAX_BRANCHES:
            findings.add_unsupported(
                locator.at("tendon", number),
                f"a tendon over {count} branches has {' and '.join(effects)}",
                "tendon",
                kind="approximated",
                drop="its damping is explicit, and its armature, limits and dry friction are "
                "left out.",
                law="hard",
            )
    for number in _couplings(parsed):
        count = len(branches(m, _coupled_dofs(m, number)))
        if count > MAX_BRANCHES:
            findings.add_unsupported(
                locator.at("equality", number),
                f"tendons over {count} branches are coupled",
                "tendon",
                drop="the constraint is left out.",
                law="hard",
            )


def _couplings(parsed: Parsed) -> list[int]:
    """Return the equality constraints between tendons that act."""
    import mujoco

    kind = parsed.mujoco.eq_type == int(mujoco.mjtEq.mjEQ_TENDON)
    return np.flatnonzero(kind & parsed.keep_equality).tolist()


def tendon_dofs(m: mujoco.MjModel, number: int) -> list[int]:
    """Return the dofs that move a tendon, descending.

    They are its joints', or all that move its sites and what it goes round.
    """
    first = int(m.tendon_adr[number])
    dofs: set[int] = set()
    for i in range(first, first + int(m.tendon_num[number])):
        thing = int(m.wrap_objid[i])
        if m.wrap_type[i] == WRAPS["joint"]:
            dofs.add(int(m.jnt_dofadr[thing]))
        elif m.wrap_type[i] == WRAPS["site"]:
            dofs |= set(body_dofs(m, int(m.site_bodyid[thing])))
        elif m.wrap_type[i] in _ROUND:
            dofs |= set(body_dofs(m, int(m.geom_bodyid[thing])))
    return sorted(dofs, reverse=True)


def body_dofs(m: mujoco.MjModel, body: int) -> list[int]:
    """Return the dofs that move a body, descending."""
    while body > 0 and m.body_dofnum[body] == 0:
        body = int(m.body_parentid[body])
    dof = int(m.body_dofadr[body] + m.body_dofnum[body]) - 1 if body > 0 else -1
    out: list[int] = []
    while dof >= 0:
        out.append(dof)
        dof = int(m.dof_parentid[dof])
    return out


def _coupled_dofs(m: mujoco.MjModel, number: int) -> list[int]:
    """Return the dofs of the one or two tendons of an equality constraint."""
    pair = (int(m.eq_obj1id[number]), int(m.eq_obj2id[number]))
    return sorted({dof for t in pair if t >= 0 for dof in tendon_dofs(m, t)}, reverse=True)


def branches(m: mujoco.MjModel, dofs: Iterable[int]) -> list[int]:
    """Return those of some dofs, descending, that are on the way to the root of no other."""
    ends: list[int] = []
    passed: set[int] = set()
    for dof in dofs:
        if dof in passed:
            continue
        ends.append(dof)
        while dof >= 0:
            passed.add(dof)
            dof = int(m.dof_parentid[dof])
    return ends


def add_tendons(parsed: Parsed, tables: dict[str, Ints]) -> dict[str, int]:
    """Name the joints of each tendon that acts and what acts on it; return the sizes.

    All are zero where no tendon acts, so that nobody asks for their lengths.
    """
    import mujoco

    m, keep = parsed.mujoco, parsed.keep_tendon
    dofs = [tendon_dofs(m, t) if keep[t] else [] for t in range(m.ntendon)]
    count = np.array([len(each) for each in dofs], np.int32)
    start = np.concatenate([[0], np.cumsum(count)]).astype(np.int32)
    at = np.zeros(m.nwrap, np.int32)
    for t in np.flatnonzero(keep).tolist():
        for i in range(m.tendon_adr[t], m.tendon_adr[t] + m.tendon_num[t]):
            if m.wrap_type[i] == WRAPS["joint"]:
                at[i] = start[t] + dofs[t].index(int(m.jnt_dofadr[m.wrap_objid[i]]))
    # MuJoCo keeps the number of a side site among the parameters, -1 for none
    side = np.where(np.isin(m.wrap_type, _ROUND), m.wrap_prm, -1)
    holds = np.array([len(branches(m, each)) in (1, MAX_BRANCHES) for each in dofs], bool)
    rows = np.ones(m.neq, np.int32)
    for e in _couplings(parsed):
        rows[e] = len(branches(m, _coupled_dofs(m, e))) <= MAX_BRANCHES
    on_tendon = (m.actuator_trntype == int(mujoco.mjtTrn.mjTRN_TENDON)) & parsed.keep_actuator
    number = np.where(on_tendon, m.actuator_trnid[:, 0] if m.nu else 0, -1)
    tables.update(act_tendon=number.astype(np.int32), eq_rows=rows)
    of_tendons = {
        "tendon_adr": m.tendon_adr,
        "tendon_num": np.where(keep, m.tendon_num, 0),
        "tendon_limited": m.tendon_limited.astype(bool) & keep,
        "tendon_dry": (m.tendon_frictionloss > 0) & keep,
        "tendon_rows": holds,
        "tendon_heavy": (m.tendon_armature > 0) & keep,
        "tendon_dofadr": start[:-1],
        "tendon_dofnum": count,
        "tendon_dof": np.array([dof for each in dofs for dof in each]),
        "wrap_type": m.wrap_type,
        "wrap_at": at,
        "wrap_obj": m.wrap_objid,
        "wrap_side": side,
    }
    last = None if keep.any() else 0
    tables.update({name: array[:last].astype(np.int32) for name, array in of_tendons.items()})
    names = {"ntendon": "tendon_adr", "nwrap": "wrap_at", "ntendof": "tendon_dof"}
    return {size: len(tables[name]) for size, name in names.items()}
