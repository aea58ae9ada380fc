"""Small models, one for each kind of thing that can act on a gradient, all of it in force."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

import featherback as fb
from featherback._core import pair_table

Vector = NDArray[np.float64]

SIZES = {
    "plane": "0 0 1",
    "sphere": "0.1",
    "capsule": "0.07 0.12",
    "ellipsoid": "0.1 0.14 0.08",
    "cylinder": "0.09 0.12",
    "box": "0.1 0.13 0.08",
}
# eight corners of a skewed block
MESH = (
    '<asset><mesh name="rock" vertex="-.1 -.1 -.08 .12 -.1 -.08 -.1 .11 -.08 .1 .1 -.09 '
    '-.1 -.09 .08 .1 -.1 .1 -.11 .1 .08 .1 .1 .08"/></asset>'
)


# bumps of a few millimetres on cells of 25 cm
FIELD = (
    '<asset><hfield name="ground" nrow="5" ncol="6" size=".6 .5 .02 .1" elevation="'
    ".1 .5 .3 .2 .6 .4 .7 .2 .9 .4 .1 .3 .2 .6 .3 .8 .5 .1 .9 .3 .5 .2 .7 .4 0 .6 .4 1 .3 .5"
    '"/></asset>'
)


def supported_pairs() -> list[str]:
    """Return the names of all pairs of shapes that have a collision routine."""
    return [name for name, *_ in pair_table()]


def _geom(kind: str, friction: float) -> str:
    """Return one geom, its friction distinct from that of any other."""
    assets = {"mesh": 'mesh="rock"', "hfield": 'hfield="ground"'}
    shape = assets[kind] if kind in assets else f'size="{SIZES[kind]}"'
    # capsules lie, so that they can touch at both ends
    shape += ' quat="1 0 1 0"' if kind == "capsule" else ""
    return f'<geom type="{kind}" {shape} mass="1" friction="{friction} 0 0"/>'


def pair_model(pair: str, friction: float) -> fb.Model:
    """Return two shapes, the second one free; the first one free too unless it is ground."""
    first, second = pair.split("-")
    lower = _geom(first, 0.9 * friction)
    if first in ("plane", "hfield"):
        lower = lower.replace(' mass="1"', "")
    else:
        lower = f"<body><freejoint/>{lower}</body>"
    upper = f"<body><freejoint/>{_geom(second, friction)}</body>"
    asset = (MESH if second == "mesh" else "") + (FIELD if first == "hfield" else "")
    return fb.load(
        f'<mujoco model="{pair}"><option timestep="0.002"/>{asset}<worldbody>{lower}{upper}'
        "</worldbody></mujoco>"
    )


def touching(model: fb.Model, sim: fb.Simulator, tilt: float) -> tuple[Vector, Vector]:
    """Return a state in which the second shape overlaps the first by 0.2 mm, hits it and slides."""
    q, v = np.array(model.q0), np.zeros(model.nv)
    turn = np.array([1.0, 0.3 * tilt, -0.2 * tilt, 0.15])
    q[-4:] = turn / np.linalg.norm(turn)
    q[-7:-5] = [0.03, -0.02]
    low, high = 0.0, 1.0
    # sink it from above until it touches
    for _ in range(60):
        q[-5] = 0.5 * (low + high)
        found = sim.contacts(q, v)
        depth = -float(found.gap[: int(found.count)].min(initial=np.inf))
        low, high = (q[-5], high) if depth > 2e-4 else (low, q[-5])
    v[-6:] = [0.4, -0.3, -1.2, 0.3, 0.2, -0.5]
    return q, v


JOINT = (
    '<mujoco model="{kind}"><compiler angle="radian"/><option timestep="0.002"/><worldbody>'
    '<geom type="plane" size="0 0 1" pos="0 0 -5"/><body pos="0.1 0.2 1" quat="1 0.2 0.1 0.3">'
    '<joint name="j" type="{kind}" {terms}/>'
    '<inertial pos="0.05 0.02 -0.1" mass="1.3" fullinertia="0.02 0.03 0.025 0.002 -0.001 0.003"/>'
    '<geom size="0.1" contype="0" conaffinity="0"/></body></worldbody>'
    '<actuator><general joint="j" gear="{gear}" gaintype="affine" gainprm="3 0.2 -0.3" '
    'biastype="affine" biasprm="0.1 -2 -0.4"/>'
    '<position joint="j" gear="{gear}" kp="5" kv="0.3" ctrlrange="-0.2 0.3"/>'
    '<motor joint="j" gear="{gear}" forcerange="-0.2 0.15"/></actuator></mujoco>'
)
TERMS = 'damping="0.2" armature="0.03" stiffness="4"'
# a free joint has neither limit nor dry friction; a ball has no springref in a file
JOINTS = {
    "free": JOINT.format(kind="free", terms=TERMS, gear="1 0.5 0.2 0.3 0.2 0.1"),
    "ball": JOINT.format(
        kind="ball",
        terms=f'{TERMS} frictionloss="0.02" range="0 0.5" pos="0.02 0.01 0.05"',
        gear="1 0.3 0.2",
    ),
    "hinge": JOINT.format(
        kind="hinge",
        terms=f'{TERMS} frictionloss="0.02" range="-0.5 0.4" axis="0.2 1 0.3" '
        'pos="0.02 0.01 0.05" springref="0.1" actuatorfrcrange="-0.5 0.4"',
        gear="1.3",
    ),
    "slide": JOINT.format(
        kind="slide",
        terms=f'{TERMS} frictionloss="0.02" range="-0.5 0.4" axis="0.2 1 0.3" '
        'springref="0.1" actuatorfrcrange="-0.5 0.4"',
        gear="1.3",
    ),
}
# a hinge with an actuator of each activation, one of them early and one at its limit
ACTIVATIONS = {
    "integrator": 'dyntype="integrator" actlimited="true" actrange="-0.5 0.4"',
    "filter": 'dyntype="filter" dynprm="0.03" actearly="true"',
    "filterexact": 'dyntype="filterexact" dynprm="0.02"',
}


def activated_model() -> fb.Model:
    """Return a hinge that is driven through every type of activation."""
    rows = "".join(
        f'<general joint="j" gear="1.3" {law} gaintype="affine" gainprm="3 0.2 -0.3" '
        'biastype="affine" biasprm="0.1 -2 -0.4" ctrlrange="-0.8 0.9"/>'
        for law in ACTIVATIONS.values()
    )
    return fb.load(
        re.sub("<actuator>.*</actuator>", f"<actuator>{rows}</actuator>", JOINTS["hinge"])
    )


def with_activations(text: str, rng: np.random.Generator) -> str:
    """Return a random model of which most general actuators and servos have an activation."""

    def drawn(found: re.Match[str]) -> str:
        if rng.random() < 0.3:
            return found.group(0)
        seconds = f"{10.0 ** rng.uniform(-2.5, -0.5):.6f}"
        if found.group(1) == "position":
            return f'<position timeconst="{seconds}"'
        kind = rng.choice(list(ACTIVATIONS))
        limit = ' actlimited="true" actrange="-0.7 0.6"' if rng.random() < 0.5 else ""
        early = ' actearly="true"' if rng.random() < 0.5 else ""
        return f'<general dyntype="{kind}" dynprm="{seconds}"{limit}{early}'

    return re.sub(r"<(general|position)(?= )", drawn, text)


EVERYWHERE = frozenset(
    "q v u dt gravity body_mass xfrc_applied jnt_stiffness qpos_spring dof_damping dof_armature "
    "actuator_gainprm actuator_biasprm actuator_gear actuator_ctrlrange "
    "actuator_forcerange".split()
)
TURNS = {"body_ipos", "body_iquat", "body_inertia", "body_inertia_products"}
HELD = {"body_quat", "jnt_range", "dof_frictionloss"}
AXIS = {"jnt_axis", "jnt_actfrcrange"}
# what acts on a body of one joint
ACTING: dict[str, frozenset[str]] = {
    "free": EVERYWHERE | TURNS,
    "ball": EVERYWHERE | TURNS | HELD | {"jnt_pos"},
    "hinge": EVERYWHERE | TURNS | HELD | AXIS | {"jnt_pos", "qpos0"},
    "slide": EVERYWHERE | HELD | AXIS,
}

BODIES = (
    '<mujoco model="{kind}"><compiler angle="radian"/><option timestep="0.002"/><worldbody>'
    '<body name="a" pos="0 0 1"><joint name="p" axis="1 0.2 0"/>'
    '<geom type="box" size="0.1 0.05 0.02" pos="0 0.2 0" contype="0" conaffinity="0"/></body>'
    '<body name="b" pos="0 0.6 1.0007"><freejoint/><site name="s" pos="0.01 0 0"/>'
    '<geom type="box" size="0.05 0.1 0.03" contype="0" conaffinity="0"/></body>'
    '<body name="d" pos="1 0 1"><joint name="r" axis="0 1 0.1"/>'
    '<geom size="0.1" pos="0.2 0 0" contype="0" conaffinity="0"/></body></worldbody>'
    "<equality>{row}</equality></mujoco>"
)
EQUALITIES = {
    "connect": '<connect body1="a" body2="b" anchor="0 0.3 0.01"/>',
    "weld": '<weld body1="a" body2="b" relpose="0.0002 0.6 0.0003 1 0.00037 0 0.00023"/>',
    "joint": '<joint joint1="r" joint2="p" polycoef="0.0003 1.2 0.3 0.1 0"/>',
}


def equality_model(kind: str) -> fb.Model:
    """Return bodies held by one equality, a little off."""
    return fb.load(BODIES.format(kind=kind, row=EQUALITIES[kind]))
