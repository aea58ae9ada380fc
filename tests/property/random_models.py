"""Random models as MJCF text, and random states for them.

``random_tree`` draws mechanisms without shapes (dynamics, joint terms, actuators, equalities) and
``random_contact_scene`` draws shapes near a floor and near each other. Equal generators give equal
text: every number is drawn from ``rng`` and printed exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Rng = np.random.Generator

GRAVITY = 9.81


@dataclass(frozen=True)
class TreeOptions:
    """What ``random_tree`` may draw.

    Attributes:
        bodies: number of bodies; ``None`` draws 1 to 40, small numbers more often.
        joints: joint types to draw from (``free``, ``ball``, ``hinge``, ``slide``).
        mass_ratio: largest ratio between two body masses.
        terms: springs, damping, armature and dry friction on joints.
        limits: joint ranges.
        actuators: about one actuator per two scalar joints, of every supported kind.
        equality: one to three connect, weld or joint equalities.
    """

    bodies: int | None = None
    joints: tuple[str, ...] = ("free", "ball", "hinge", "slide")
    mass_ratio: float = 1e4
    terms: bool = True
    limits: bool = True
    actuators: bool = True
    equality: bool = False


@dataclass
class _Draft:
    """The parts of a file while it is drawn."""

    children: dict[int, list[int]] = field(default_factory=dict)
    inner: dict[int, str] = field(default_factory=dict)
    scalar_joints: list[str] = field(default_factory=list)


def text(values: float | Sequence[float] | Vector) -> str:
    """Return numbers separated by spaces so that they read back exactly."""
    return " ".join(repr(float(value)) for value in np.atleast_1d(np.asarray(values, np.float64)))


def unit(rng: Rng, n: int) -> Vector:
    """Return a random unit vector of ``n`` numbers."""
    x = rng.standard_normal(n)
    return x / np.linalg.norm(x)


def rotation(quat: Vector) -> Vector:
    """Return the rotation matrix of a unit quaternion (wxyz)."""
    w, x, y, z = quat
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def random_inertial(rng: Rng, mass: float) -> str:
    """Return an ``<inertial>`` whose inertia is that of eight random point masses.

    Point masses make any inertia they give possible (triangle inequality included); the size of
    the cloud grows with the cube root of the mass, as for bodies of one density.
    """
    size = 0.1 * mass ** (1 / 3)
    share = rng.dirichlet(np.full(8, 2.0)) * mass
    points = size * rng.standard_normal((8, 3))
    points -= share @ points / mass
    second = np.einsum("k,ki,kj->ij", share, points, points)
    inertia = np.trace(second) * np.eye(3) - second
    entries = inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
    com = size * rng.uniform(-1.0, 1.0, 3)
    return f'<inertial mass="{text(mass)}" pos="{text(com)}" fullinertia="{text(entries)}"/>'


def _joint_kinds(rng: Rng, options: TreeOptions, top: bool, first: bool) -> list[str]:
    """Return the joint types of one body: none (but for the first), one or several."""
    if top and "free" in options.joints and rng.random() < 0.5:
        return ["free"]
    if not first and rng.random() < 0.1:
        return []
    single = [kind for kind in options.joints if kind != "free"]
    if not single:
        return []
    if rng.random() < 0.75:
        return [str(rng.choice(single))]
    many = [kind for kind in ("slide", "hinge") if kind in single]
    kinds = [str(rng.choice(many)) for _ in range(rng.integers(2, 4))] if many else []
    if "ball" in single and rng.random() < 0.3:
        return [kind for kind in kinds if kind == "slide"] + ["ball"]
    return kinds


def _joint(rng: Rng, options: TreeOptions, kind: str, name: str) -> str:
    """Return one ``<joint>`` with random terms."""
    attributes = {"name": name, "type": kind}
    if kind != "free":
        attributes["pos"] = text(rng.uniform(-0.1, 0.1, 3))
    if kind in ("hinge", "slide"):
        attributes["axis"] = text(unit(rng, 3))
    if options.terms:
        attributes |= _joint_terms(rng, kind)
    if options.limits and kind != "free" and rng.random() < 0.4:
        if kind == "ball":
            attributes["range"] = text([0.0, rng.uniform(0.3, 2.5)])
        else:
            attributes["range"] = text([-rng.uniform(0.2, 2.0), rng.uniform(0.2, 2.0)])
    inner = " ".join(f'{key}="{value}"' for key, value in attributes.items())
    return f"<joint {inner}/>"


def _joint_terms(rng: Rng, kind: str) -> dict[str, str]:
    """Return spring, damping, armature and dry friction, each present half of the time."""
    drawn: dict[str, str] = {}
    if rng.random() < 0.5:
        drawn["damping"] = text(10.0 ** rng.uniform(-3, 1))
    if rng.random() < 0.5:
        drawn["armature"] = text(10.0 ** rng.uniform(-4, -1))
    if kind == "free":
        return drawn
    if rng.random() < 0.4:
        drawn["stiffness"] = text(10.0 ** rng.uniform(-1, 2))
        if kind != "ball":
            drawn["springref"] = text(rng.uniform(-0.5, 0.5))
    if rng.random() < 0.3:
        drawn["frictionloss"] = text(10.0 ** rng.uniform(-3, 0))
    return drawn


def _actuator(rng: Rng, joint: str, index: int) -> str:
    """Return one actuator of a random supported kind on a scalar joint."""
    kind = ("motor", "position", "velocity", "general", "general")[rng.integers(5)]
    attributes = {"name": f"a{index}", "joint": joint, "gear": text(rng.uniform(-3.0, 3.0))}
    if kind == "position":
        attributes["kp"] = text(10.0 ** rng.uniform(0, 2.3))
        if rng.random() < 0.5:
            attributes["kv"] = text(10.0 ** rng.uniform(-1, 1))
    elif kind == "velocity":
        attributes["kv"] = text(10.0 ** rng.uniform(-1, 1))
    elif kind == "general":
        fixed = rng.random() < 0.5
        gain = [rng.uniform(0.5, 20.0)] if fixed else rng.uniform(-2.0, 2.0, 3)
        attributes["gaintype"] = "fixed" if fixed else "affine"
        attributes["gainprm"] = text(gain)
        if rng.random() < 0.7:
            attributes["biastype"] = "affine"
            attributes["biasprm"] = text(
                [rng.uniform(-2, 2), -rng.uniform(0, 50), -rng.uniform(0, 5)]
            )
    if rng.random() < 0.5:
        attributes["ctrlrange"] = text([-rng.uniform(0.2, 1.0), rng.uniform(0.2, 1.0)])
    if rng.random() < 0.5:
        attributes["forcerange"] = text([-rng.uniform(1.0, 20.0), rng.uniform(1.0, 20.0)])
    inner = " ".join(f'{key}="{value}"' for key, value in attributes.items())
    return f"    <{kind} {inner}/>"


def _equality(rng: Rng, bodies: int, joints: list[str], index: int) -> str:
    """Return one equality that holds at the reference pose (joint equalities: near it)."""
    kind = ("connect", "weld", "joint")[rng.integers(3)]
    if kind == "joint" and len(joints) >= 2:
        one, two = (str(name) for name in rng.choice(joints, 2, replace=False))
        poly = [0.0, rng.uniform(-2, 2), rng.uniform(-0.3, 0.3), 0.0, 0.0]
        second = f'joint2="{two}" ' if rng.random() < 0.7 else ""
        return f'    <joint name="e{index}" joint1="{one}" {second}polycoef="{text(poly)}"/>'
    first = int(rng.integers(bodies))
    others = [i for i in range(bodies) if i != first]
    second = f'body2="b{rng.choice(others)}" ' if others and rng.random() < 0.7 else ""
    if kind == "weld":
        return f'    <weld name="e{index}" body1="b{first}" {second}/>'
    anchor = text(rng.uniform(-0.2, 0.2, 3))
    return f'    <connect name="e{index}" body1="b{first}" {second}anchor="{anchor}"/>'


def _nest(draft: _Draft, index: int, indent: int) -> str:
    """Return body ``index`` with everything below it."""
    pad = "  " * indent
    below = "\n".join(_nest(draft, child, indent + 1) for child in draft.children[index])
    return f"{pad}{draft.inner[index]}\n{below}{chr(10) if below else ''}{pad}</body>"


def random_tree(rng: Rng, options: TreeOptions | None = None, **changes: Any) -> str:
    """Return MJCF text of a random mechanism without shapes.

    Args:
        rng: source of every random number.
        options: what may be drawn; the defaults if ``None``.
        **changes: fields of ``TreeOptions`` to set without building one.
    """
    options = TreeOptions(**{**(options.__dict__ if options else {}), **changes})
    bodies = options.bodies or int(np.exp(rng.uniform(0.0, np.log(40.999))))
    half = 0.5 * np.log10(options.mass_ratio)
    draft, roots = _Draft(), []
    for i in range(bodies):
        top = i == 0 or rng.random() < 0.1
        parent = -1 if top else int(rng.integers(max(0, i - 6), i))
        (roots if top else draft.children[parent]).append(i)
        draft.children[i] = []
        kinds = _joint_kinds(rng, options, top, i == 0)
        names = [f"j{i}_{k}" for k in range(len(kinds))]
        draft.scalar_joints += [
            name for name, kind in zip(names, kinds, strict=True) if kind in ("hinge", "slide")
        ]
        place = text(rng.uniform(-0.3, 0.3, 3))
        parts = [
            f'<body name="b{i}" pos="{place}" quat="{text(unit(rng, 4))}">',
            random_inertial(rng, 10.0 ** rng.uniform(-half, half)),
            *(_joint(rng, options, kind, name) for kind, name in zip(kinds, names, strict=True)),
        ]
        if rng.random() < 0.5:
            parts.append(f'<site name="s{i}" pos="{text(rng.uniform(-0.2, 0.2, 3))}"/>')
        draft.inner[i] = " ".join(parts)
    return _tree_file(rng, options, draft, roots)


def _tree_file(rng: Rng, options: TreeOptions, draft: _Draft, roots: list[int]) -> str:
    """Return the whole file around the drawn bodies."""
    joints = draft.scalar_joints
    sections = ["  <worldbody>", *(_nest(draft, root, 2) for root in roots), "  </worldbody>"]
    if options.equality and len(draft.inner) > 1:
        rows = [_equality(rng, len(draft.inner), joints, k) for k in range(rng.integers(1, 4))]
        sections += ["  <equality>", *rows, "  </equality>"]
    if options.actuators and joints:
        driven = [joint for joint in joints if rng.random() < 0.5] or joints[:1]
        rows = [_actuator(rng, joint, k) for k, joint in enumerate(driven)]
        sections += ["  <actuator>", *rows, "  </actuator>"]
    gravity = GRAVITY * unit(rng, 3) if rng.random() < 0.5 else np.array([0.0, 0.0, -GRAVITY])
    return _file("random_tree", gravity, sections)


def _file(name: str, gravity: Vector, sections: list[str]) -> str:
    """Return a whole MJCF file in radians."""
    body = "\n".join(sections)
    return (
        f'<mujoco model="{name}">\n'
        f'  <compiler angle="radian" autolimits="true"/>\n'
        f'  <option timestep="0.002" gravity="{text(gravity)}"/>\n'
        f"{body}\n</mujoco>\n"
    )


@dataclass(frozen=True)
class SceneOptions:
    """What ``random_contact_scene`` may draw.

    Attributes:
        piles: number of piles or robots, side by side; ``None`` draws 1 to 4.
        shapes: shapes to draw from (``sphere``, ``capsule``, ``box``).
        gap: range of the vertical gap between one body and the next or the floor [m].
        slope: largest angle between gravity and the floor's normal [rad].
        friction: range of the sliding friction of a shape.
        robots: share of piles that are small legged robots instead.
        frictionless: share of shapes with condim 1.
    """

    piles: int | None = None
    shapes: tuple[str, ...] = ("sphere", "capsule", "box")
    gap: tuple[float, float] = (0.0, 0.02)
    slope: float = 0.5
    friction: tuple[float, float] = (0.0, 1.5)
    robots: float = 0.3
    frictionless: float = 0.1


def _shape(rng: Rng, kind: str) -> tuple[str, Vector, float]:
    """Return the size text, half extents of an inner box and the radius swept around that box."""
    r = rng.uniform(0.03, 0.12)
    if kind == "sphere":
        return text(r), np.zeros(3), r
    if kind == "capsule":
        half = rng.uniform(0.03, 0.2)
        return text([r, half]), np.array([0.0, 0.0, half]), r
    half_edges = rng.uniform(0.03, 0.15, 3)
    return text(half_edges), half_edges, 0.0


def _contact_attributes(rng: Rng, options: SceneOptions) -> str:
    """Return friction and condim of one shape."""
    condim = 1 if rng.random() < options.frictionless else 3
    return f'friction="{text([rng.uniform(*options.friction), 0.005, 0.0001])}" condim="{condim}"'


def _pile(rng: Rng, options: SceneOptions, index: int) -> str:
    """Return one to three free bodies above each other, apart by the chosen gaps."""
    rows, top, x = [], 0.0, 0.8 * index
    for k in range(int(rng.integers(1, 4))):
        kind = str(rng.choice(options.shapes))
        size, box, radius = _shape(rng, kind)
        flat = kind == "box" and rng.random() < 0.5
        quat = np.array([1.0, 0.0, 0.0, 0.0]) if flat else unit(rng, 4)
        reach = float(np.abs(rotation(quat)[2]) @ box + radius)
        z = top + rng.uniform(*options.gap) + reach
        top = z + reach
        place = [x + rng.uniform(-0.02, 0.02), rng.uniform(-0.02, 0.02), z]
        mass = 10.0 ** rng.uniform(-1, 1)
        rows.append(
            f'    <body name="p{index}_{k}" pos="{text(place)}" quat="{text(quat)}">'
            f'<freejoint name="p{index}_{k}"/>'
            f'<geom name="p{index}_{k}" type="{kind}" size="{size}" mass="{text(mass)}" '
            f"{_contact_attributes(rng, options)}/></body>"
        )
    return "\n".join(rows)


def _robot(rng: Rng, options: SceneOptions, index: int) -> str:
    """Return a free trunk on one to four legs with spheres as feet; shapes collide if not kin."""
    leg, foot, x = rng.uniform(0.15, 0.3), rng.uniform(0.02, 0.04), 0.8 * index
    z = leg + foot + rng.uniform(*options.gap)
    name = f"r{index}"
    rows = [
        f'    <body name="{name}" pos="{text([x, 0.0, z])}"><freejoint name="{name}"/>'
        f'<geom name="{name}" type="box" size="0.15 0.1 0.04" pos="0 0 0.08" '
        f'mass="{text(rng.uniform(2, 6))}" {_contact_attributes(rng, options)}/>'
    ]
    corners = [(0.12, 0.09), (-0.12, -0.09), (0.12, -0.09), (-0.12, 0.09)]
    for k in range(int(rng.integers(1, 5))):
        axis = [0.0, 1.0, 0.0] if rng.random() < 0.7 else [1.0, 0.0, 0.0]
        rows.append(
            f'      <body name="{name}_{k}" pos="{text([*corners[k], 0.0])}">'
            f'<joint name="{name}_{k}" axis="{text(axis)}" damping="{text(rng.uniform(0, 1))}" '
            f'armature="0.005" range="-1.2 1.2"/>'
            f'<geom type="capsule" size="0.015" fromto="0 0 0 0 0 {text(-leg)}" mass="0.3" '
            f'contype="0" conaffinity="0"/><geom name="{name}_{k}" type="sphere" '
            f'size="{text(foot)}" pos="0 0 {text(-leg)}" mass="0.1" '
            f"{_contact_attributes(rng, options)}/></body>"
        )
    return "\n".join(rows) + "\n    </body>"


def random_contact_scene(rng: Rng, options: SceneOptions | None = None, **changes: Any) -> str:
    """Return MJCF text of random bodies near a floor at z = 0 and near each other.

    At the reference pose no two shapes overlap if ``gap`` starts at 0 or more.

    Args:
        rng: source of every random number.
        options: what may be drawn; the defaults if ``None``.
        **changes: fields of ``SceneOptions`` to set without building one.
    """
    options = SceneOptions(**{**(options.__dict__ if options else {}), **changes})
    piles = options.piles or int(rng.integers(1, 5))
    rows = [
        _robot(rng, options, i) if rng.random() < options.robots else _pile(rng, options, i)
        for i in range(piles)
    ]
    floor = (
        f'    <geom name="floor" type="plane" size="0 0 1" {_contact_attributes(rng, options)}/>'
    )
    slope, heading = rng.uniform(0.0, options.slope), rng.uniform(0.0, 2 * np.pi)
    gravity = GRAVITY * np.array(
        [np.sin(slope) * np.cos(heading), np.sin(slope) * np.sin(heading), -np.cos(slope)]
    )
    return _file("random_scene", gravity, ["  <worldbody>", floor, *rows, "  </worldbody>"])


def random_state(model: Any, rng: Rng, *, spread: float | None = None) -> tuple[Vector, Vector]:
    """Return a random ``q`` (nq) and ``v`` (nv) for a compiled or a loaded model.

    Args:
        model: a MuJoCo ``MjModel``, or anything with one as attribute ``mujoco``.
        rng: source of every random number.
        spread: ``None`` draws wide: angles within +-pi or the joint's range, lengths within +-1 m
            or the range, any orientation, unit velocities. A number keeps ``q`` within that
            distance of the reference pose along each degree of freedom and scales ``v`` by it.
    """
    compiled = getattr(model, "mujoco", model)
    q = np.array(compiled.qpos0, np.float64)
    for j in range(compiled.njnt):
        kind, adr = int(compiled.jnt_type[j]), int(compiled.jnt_qposadr[j])
        if kind == 0:
            q[adr : adr + 3] += (1.0 if spread is None else spread) * rng.uniform(-1, 1, 3)
        if kind in (0, 1):
            at = adr + 3 if kind == 0 else adr
            q[at : at + 4] = _random_quat(rng, q[at : at + 4], spread)
        if kind in (2, 3):
            q[adr] = _random_scalar(compiled, rng, j, q[adr], spread)
    v = (1.0 if spread is None else spread) * rng.standard_normal(compiled.nv)
    return q, v


def _random_quat(rng: Rng, reference: Vector, spread: float | None) -> Vector:
    """Return any unit quaternion, or one within ``spread`` radians per axis of ``reference``."""
    if spread is None:
        return unit(rng, 4)
    near = reference + 0.5 * spread * rng.uniform(-1, 1, 4)
    return near / np.linalg.norm(near)


def _random_scalar(
    compiled: Any, rng: Rng, joint: int, reference: float, spread: float | None
) -> float:
    """Return a coordinate of a hinge or slide inside its range."""
    wide = np.pi if int(compiled.jnt_type[joint]) == 3 else 1.0
    low, high = (-wide, wide) if spread is None else (reference - spread, reference + spread)
    if compiled.jnt_limited[joint]:
        low, high = (float(x) for x in np.clip((low, high), *compiled.jnt_range[joint]))
    return float(rng.uniform(low, high))
