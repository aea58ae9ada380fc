"""Inertias of a URDF: repaired where a real body cannot have them, with a notice each."""

from __future__ import annotations

import math

import numpy as np

from featherback._typing import Array, Real
from featherback.model.report import Findings
from featherback.model.value_checks import MAX_NUMBER, TRIANGLE_TOLERANCE, numbers, reject, shown
from featherback.model.xmltree import Element

TINY_MASS = 1e-6
"""Mass [kg] of a moving link that has none."""
TINY_INERTIA = 1e-9
"""Inertia [kg·m²] about every axis of a moving link that has none."""
WATER = 1000.0
"""Density [kg/m³] from which a missing inertia is guessed; MuJoCo's default too."""
SMALLEST = 1e-12
"""Masses [kg] and inertias [kg·m²] below this count as zero."""

_ENTRIES = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")


def repair(
    links: dict[str, Element],
    parent: dict[str, Element],
    free_root: bool,
    findings: Findings,
) -> None:
    """Give every link an inertia that a real body can have, with a notice for each repair.

    Args:
        links: link name -> element; changed in place.
        parent: child link -> joint element.
        free_root: whether the root link moves.
        findings: receives the notices.
    """
    for link in links.values():
        _repair_link(link, findings)
    clusters: dict[str, list[str]] = {}
    for name in links:
        clusters.setdefault(_carrier(name, parent, free_root), []).append(name)
    for carrier, members in clusters.items():
        moves = carrier in parent or (free_root and carrier != "world")
        heavy = any(_mass(links[name]) > SMALLEST for name in members)
        if moves and not heavy:
            _give_mass(links[carrier], findings)
            members = [name for name in members if name != carrier]
        # a link without <inertial> weighs nothing, whatever its shapes
        for name in members:
            if links[name].find("inertial") is None:
                _write(links[name], 0.0, np.zeros((3, 3)))


def _carrier(name: str, parent: dict[str, Element], free_root: bool) -> str:
    """Return the link that carries this one rigidly and has a moving joint or none."""
    while name in parent and parent[name].get("type") == "fixed":
        element = parent[name].find("parent")
        assert element is not None
        # a free root takes what is fixed in the world from it
        if free_root and element.get("link") == "world":
            return name
        name = str(element.get("link"))
    return name


def _mass(link: Element) -> float:
    """Return the mass of a link [kg]."""
    inertial = link.find("inertial")
    mass = inertial.find("mass") if inertial is not None else None
    return (numbers(mass, "value") or [0.0])[0] if mass is not None else 0.0


def _give_mass(link: Element, findings: Findings) -> None:
    """Give a moving link without mass the mass of its shapes, or a tiny one."""
    inertial = link.find("inertial")
    if inertial is not None:
        inertial.remove()
    if link.find("collision") is not None:
        findings.note(
            "repaired",
            link.where,
            f"the link moves but has no mass; its collision shapes get {shown(WATER)} kg/m³.",
        )
        return
    findings.note(
        "repaired",
        link.where,
        f"the link moves but has no mass; it gets {shown(TINY_MASS)} kg and "
        f"{shown(TINY_INERTIA)} kg·m².",
    )
    _write(link, TINY_MASS, TINY_INERTIA * np.eye(3))


def _write(link: Element, mass: float, inertia: Array) -> None:
    """Write an <inertial> into a link, keeping its origin if it has one."""
    inertial = link.find("inertial") or link.add("inertial")
    for tag in ("mass", "inertia"):
        old = inertial.find(tag)
        if old is not None:
            old.remove()
    inertial.add("mass", value=repr(float(mass)))
    pairs = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
    values = {k: repr(float(inertia[ij])) for k, ij in zip(_ENTRIES, pairs, strict=True)}
    inertial.add("inertia", **values)


def _repair_link(link: Element, findings: Findings) -> None:
    """Repair the <inertial> of one link."""
    for extra in link.findall("inertial")[1:]:
        findings.note("repaired", extra.where, "a second <inertial> is left out.")
        extra.remove()
    inertial = link.find("inertial")
    if inertial is None:
        return
    given = inertial.find("mass")
    mass = _number(given, "value") if given is not None else None
    if given is None or mass is None:
        findings.note("repaired", inertial.where, "<inertial> without a mass is left out.")
        inertial.remove()
        return
    if mass < 0:
        reject(given, f"value is {shown(mass)} kg; it must be >= 0.")
    inertia = _matrix(inertial.find("inertia"))
    if inertia is None or (mass > SMALLEST and np.linalg.eigvalsh(inertia)[2] <= 0):
        guess = sphere_inertia(mass)
        findings.note(
            "repaired",
            inertial.where,
            f"it has no inertia; it gets {guess:.4g} kg·m² about every axis, that of a ball of "
            f"{shown(WATER)} kg/m³.",
        )
        _write(link, mass, guess * np.eye(3))
        return
    fixed = balanced(inertia)
    if fixed is not inertia:
        before, after = (np.linalg.eigvalsh(m) for m in (inertia, fixed))
        findings.note(
            "repaired",
            inertial.where,
            f"no body has the principal moments {_moments(before)} kg·m²; they become "
            f"{_moments(after)} kg·m².",
        )
    _write(link, mass, fixed)


def _moments(values: Real) -> str:
    return " ".join(f"{float(value):.4g}" for value in values)


def _number(element: Element, attribute: str) -> float | None:
    """Return the one number of an attribute; None if it is absent."""
    if not (element.get(attribute) or "").strip():
        return None
    values = numbers(element, attribute)
    if values is None or len(values) != 1:
        reject(element, f"{attribute} must be one number.")
    if abs(values[0]) > MAX_NUMBER:
        reject(
            element, f"{attribute} is {shown(values[0])}; at most {shown(MAX_NUMBER)} is allowed."
        )
    return values[0]


def _matrix(element: Element | None) -> Array | None:
    """Return the matrix of an <inertia>; missing entries are zero."""
    if element is None:
        return None
    xx, yy, zz, xy, xz, yz = ((_number(element, key) or 0.0) for key in _ENTRIES)
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def sphere_inertia(mass: float) -> float:
    """Return the inertia [kg·m²] of a ball of water's density with this mass [kg]."""
    radius = (3.0 * mass / (4.0 * math.pi * WATER)) ** (1.0 / 3.0)
    return max(0.4 * mass * radius**2, SMALLEST)


def balanced(inertia: Array) -> Array:
    """Return the inertia [3, 3] itself if a body can have it, else one close to it that a body can.

    Negative principal moments are set to zero. Then the second moments of mass
    `E = tr(I)/2 - I`, which are not negative for any body, are treated likewise, and
    `I = tr(E) - E`.
    """
    moments, directions = np.linalg.eigh(inertia)
    slack = TRIANGLE_TOLERANCE * abs(moments[2])
    if moments[0] >= 0 and moments[0] + moments[1] >= moments[2] + slack:
        return inertia
    inertia = (directions * np.clip(moments, 0.0, None)) @ directions.T
    second = 0.5 * np.trace(inertia) * np.eye(3) - inertia
    values, axes = np.linalg.eigh(second)
    # a little above zero, so that rounding does not break the inequality again
    floor = 1e-9 * max(float(values[2]), 0.0)
    kept = (axes * np.clip(values, floor, None)) @ axes.T
    fixed = np.trace(kept) * np.eye(3) - kept
    smallest = np.linalg.eigvalsh(fixed)[0]
    if smallest < SMALLEST:
        fixed = fixed + (SMALLEST - smallest) * np.eye(3)
    return 0.5 * (fixed + fixed.T)
