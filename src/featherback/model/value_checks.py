"""Values without physical meaning, found before MuJoCo compiles the model, with a message each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from featherback.errors import ModelError
from featherback.model import schema
from featherback.model.xmltree import Element, clip

if TYPE_CHECKING:
    import mujoco

TRIANGLE_TOLERANCE = 1e-12
"""Relative slack of the triangle inequality, for rounding only."""

MAX_COPIES = 10_000
"""Largest number of copies that nested <replicate> elements may make."""

# quantity -> unit for a hinge (also ball and free) and for a slide
_JOINT_UNITS = {
    "damping": ("N·m·s/rad", "N·s/m"),
    "stiffness": ("N·m/rad", "N/m"),
    "armature": ("kg·m²", "kg"),
    "frictionloss": ("N·m", "N"),
}

# element key -> attribute -> unit; the numbers must be >= 0
_NON_NEGATIVE: dict[str, dict[str, str]] = {
    "body/geom": {"mass": "kg", "density": "kg/m³", "friction": "", "size": "m"},
    "body/site": {"size": "m"},
    "body/inertial": {"mass": "kg", "diaginertia": "kg·m²"},
    "contact/pair": {"friction": ""},
    "option": {"density": "kg/m³", "viscosity": "Pa·s"},
    "compiler": {"boundmass": "kg", "boundinertia": "kg·m²"},
}

# element key -> attributes whose lower end must not exceed the upper
_ORDERED: dict[str, tuple[str, ...]] = {
    "body/joint": ("range", "actuatorfrcrange"),
    **dict.fromkeys(("tendon/fixed", "tendon/spatial"), ("range",)),
    **{f"actuator/{tag}": ("ctrlrange", "forcerange", "actrange") for tag in schema.ACTUATORS},
}


def numbers(element: Element, attribute: str) -> list[float] | None:
    """Return the numbers of an attribute; None if it is absent or not all numbers."""
    text = element.get(attribute)
    if text is None or "_" in text:
        return None
    try:
        return [float(token) for token in text.split()]
    except ValueError:
        return None


def shown(value: float) -> str:
    """Return a number as it appears in a message."""
    return f"{value:.12g}"


def reject(element: Element, message: str) -> NoReturn:
    """Raise ModelError at an element."""
    raise ModelError(f"{element.where}: {message}")


def check_values(element: Element) -> None:
    """Raise ModelError for NaN and infinities where numbers or words are expected."""
    for attribute, text in element.attributes.items():
        if schema.is_text(element.tag, attribute):
            continue
        for token in text.split():
            try:
                value = float(token)
            except ValueError:
                break
            if not math.isfinite(value):
                reject(
                    element,
                    f"{clip(attribute)} holds {clip(token)}, which is not a finite number; "
                    "write a finite one.",
                )


def check_non_negative(element: Element, attribute: str, unit: str) -> None:
    """Raise ModelError for an attribute with a number below zero."""
    for value in numbers(element, attribute) or []:
        if value < 0:
            reject(element, f"{attribute} is {_with_unit(value, unit)}; it must be >= 0.")


def check_ordered(element: Element, attribute: str) -> None:
    """Raise ModelError for a range whose lower end exceeds its upper end."""
    values = numbers(element, attribute)
    if values is not None and len(values) == 2 and values[0] > values[1]:
        reject(
            element,
            f"{attribute} is {shown(values[0])} {shown(values[1])}; the first number is the lower "
            "end and must not exceed the second.",
        )


def check_vector(element: Element, attribute: str, what: str) -> None:
    """Raise ModelError for a direction or quaternion of length zero."""
    values = numbers(element, attribute)
    if values and math.sqrt(sum(v * v for v in values)) < 1e-10:
        reject(element, f"{attribute} is zero; {what}.")


def check_inertia(element: Element, inertia: np.ndarray, attribute: str) -> None:
    """Raise ModelError for an inertia matrix [kg·m²] that no distribution of mass has."""
    scale = float(np.abs(inertia).max()) or 1.0
    moments = np.linalg.eigvalsh(inertia / scale)
    text = " ".join(shown(float(m) * scale) for m in moments)
    if moments[0] < -TRIANGLE_TOLERANCE * abs(moments[2]):
        reject(
            element,
            f"{attribute} has principal moments {text} kg·m²; none may be negative.",
        )
    if moments[0] + moments[1] < moments[2] * (1 - TRIANGLE_TOLERANCE):
        reject(
            element,
            f"{attribute} has principal moments {text} kg·m²; no body has these, because the "
            "largest may not exceed the sum of the other two.",
        )


def _with_unit(value: float, unit: str) -> str:
    return f"{shown(value)} {unit}".rstrip()


def check_mjcf(root: Element) -> None:
    """Raise ModelError at the first value of an MJCF tree without meaning."""
    balance = any(e.get("balanceinertia") == "true" for e in root.findall("compiler"))
    taken: dict[tuple[str, str], Element] = {}
    for element, key in schema.keyed(root):
        check_values(element)
        for attribute, unit in _NON_NEGATIVE.get(key, {}).items():
            check_non_negative(element, attribute, unit)
        if _limited(element):
            for attribute in _ORDERED.get(key, ()):
                check_ordered(element, attribute)
        check_vector(element, "quat", "a rotation needs a quaternion of non-zero length")
        if key == "body/joint":
            _check_joint(element)
        elif key == "body/inertial" and not balance:
            _check_inertial(element)
        elif key == "option":
            _check_timestep(element)
        elif key == "body/replicate":
            _check_replicate(element)
        _check_name(element, key, taken)
        _check_class(element)


def _limited(element: Element) -> bool:
    """Return whether the ranges of an element can have an effect."""
    return not any(
        element.get(name) == "false" for name in ("limited", "ctrllimited", "forcelimited")
    )


def _check_joint(element: Element) -> None:
    """Check the numbers of a <joint>."""
    slide = element.get("type") == "slide"
    for attribute, units in _JOINT_UNITS.items():
        values = numbers(element, attribute)
        if values and values[0] < 0:
            text = _with_unit(values[0], units[int(slide)])
            reject(element, f"{attribute} is {text}; it must be >= 0.")
    check_vector(element, "axis", "a joint axis needs a direction")


def _check_inertial(element: Element) -> None:
    """Check that the inertia of an <inertial> can exist."""
    diagonal = numbers(element, "diaginertia")
    if diagonal is not None and len(diagonal) == 3:
        check_inertia(element, np.diag(diagonal), "diaginertia")
    full = numbers(element, "fullinertia")
    if full is not None and len(full) == 6:
        xx, yy, zz, xy, xz, yz = full
        matrix = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        check_inertia(element, matrix, "fullinertia")


def _check_timestep(element: Element) -> None:
    values = numbers(element, "timestep")
    if values and values[0] <= 0:
        reject(element, f"timestep is {shown(values[0])} s; it must be > 0.")


def _check_replicate(element: Element) -> None:
    """Raise ModelError for nested <replicate> elements that would make a huge model."""
    copies = 1.0
    around: Element | None = element
    while around is not None:
        if around.tag == "replicate":
            copies *= max(1.0, (numbers(around, "count") or [1.0])[0])
        around = around.parent
    if copies > MAX_COPIES:
        reject(element, f"makes {shown(copies)} copies; at most {MAX_COPIES} are allowed.")


def _check_name(element: Element, key: str, taken: dict[tuple[str, str], Element]) -> None:
    """Raise ModelError for a name that another element of the same kind has."""
    name = element.get("name")
    section, _, tag = key.partition("/")
    if not name:
        return
    if section == "body" and tag in ("body", "joint", "freejoint", "geom", "site"):
        space = tag.removeprefix("free")
    elif section in ("actuator", "equality", "tendon", "keyframe") and "/" not in tag:
        space = section
    else:
        return
    other = taken.setdefault((space, name), element)
    if other is not element:
        reject(element, f"the name is taken already at {other.file}:{other.line}; rename one.")


def _check_class(element: Element) -> None:
    """Raise ModelError for a percent sign in a class name, which MuJoCo's reader would act upon."""
    for attribute in ("class", "childclass"):
        name = element.get(attribute) or ""
        if "%" in name:
            reject(
                element,
                f'{attribute} is "{clip(name)}"; the name of a class may not hold a percent sign, '
                "so rename it.",
            )


_FINITE_FIELDS = (
    "qpos0 qpos_spring body_pos body_quat body_ipos body_iquat body_mass body_inertia jnt_pos "
    "jnt_axis jnt_stiffness jnt_range dof_armature dof_damping dof_frictionloss geom_size geom_pos "
    "geom_quat geom_friction site_pos site_quat actuator_gear actuator_gainprm actuator_biasprm "
    "actuator_ctrlrange actuator_forcerange actuator_dynprm actuator_actrange eq_data key_qpos "
    "key_qvel key_act mesh_vert body_gravcomp geom_fluid actuator_cranklength"
).split()


MAX_NUMBER = 1e15
"""Largest mass, inertia, length or stiffness, in SI units."""

_BOUNDED_FIELDS = (
    "qpos0 body_pos body_ipos body_mass body_inertia jnt_pos jnt_stiffness dof_armature "
    "dof_damping geom_pos key_qpos key_qvel mesh_vert"
).split()


def check_compiled(model: mujoco.MjModel, shown_name: str) -> None:
    """Raise ModelError for a compiled model in which a number overflowed or became NaN."""
    for name in _FINITE_FIELDS:
        values = getattr(model, name)
        bounded = name not in _BOUNDED_FIELDS or np.all(np.abs(values) <= MAX_NUMBER)
        if np.isfinite(values).all() and not bounded:
            raise ModelError(
                f"{shown_name}: {name} holds a number above {shown(MAX_NUMBER)} after compilation; "
                "bring the numbers of the file into a physical range."
            )
        if not np.isfinite(values).all():
            raise ModelError(
                f"{shown_name}: {name} is not finite after compilation; some number in the file "
                "is too large or too small, so bring it into a physical range."
            )
