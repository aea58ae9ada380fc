"""Scenes of bench/scaling.py: a body on many legs, many balls, robots that stand, driven chains."""

from __future__ import annotations

import numpy as np
from scenes import SEED, Scene

import featherback as fb

MOST = 64  # legs of the body, and number of balls
SPACING = 0.1  # between two legs of one side [m]
SUNK = 1e-4  # depth of a foot or ball in the ground at the start, so that both engines see it [m]


def touching_legs(count: int) -> set[tuple[int, int]]:
    """Return (row, side) of `count` of the 64 feet, spread over both sides and the whole length."""
    rows = MOST // 2
    if count < 2:
        return {(rows // 2, 0)} if count else set()
    at = np.linspace(0, rows - 1, count // 2).round().astype(int) if count > 2 else [rows // 2]
    return {(int(row), side) for row in at for side in (0, 1)}


def _model(name: str, bodies: str, actuators: str = "") -> fb.Model:
    """Return bodies over a plane that only what has conaffinity 1 meets."""
    return fb.load(
        f'<mujoco model="{name}"><option timestep="0.001"/><default><geom contype="0" '
        'conaffinity="0" friction="0.6"/></default><worldbody>'
        f'<geom type="plane" size="9 9 1" contype="1"/>{bodies}</worldbody>'
        f"<actuator>{actuators}</actuator></mujoco>",
        name=name,
    )


def legs_scene(contacts: int, steps: int, rigid: bool = False) -> Scene:
    """Return a floating body on 64 legs, of whose feet `contacts` can meet the ground.

    The tree is the same for every number of contacts: 70 degrees of freedom with a servo at the
    hip of each leg, 6 where the legs are rigid.
    """
    touching = touching_legs(contacts)
    legs, servos = "", ""
    for row, side in np.ndindex(MOST // 2, 2):
        hip = "" if rigid else f'<joint name="hip{row}_{side}" axis="0 1 0"/>'
        legs += (
            f'<body pos="{SPACING * (row - MOST / 4 + 0.5):g} {0.2 - 0.4 * side:g} 0">{hip}'
            '<geom type="capsule" size="0.01" fromto="0 0 0 0.08 0 -0.2" mass="0.1"/>'
            '<geom type="sphere" size="0.02" mass="0.02" pos="0.08 0 -0.2" '
            f'conaffinity="{int((row, side) in touching)}"/></body>'
        )
        servos += "" if rigid else f'<position joint="hip{row}_{side}" kp="100" kv="1"/>'
    body = '<geom type="box" size="1.6 0.2 0.03" mass="10"/>'
    model = _model(
        "plate" if rigid else "legs",
        f'<body pos="0 0 {0.22 - SUNK:g}"><freejoint/>{body}{legs}</body>',
        servos,
    )
    rng = np.random.default_rng(SEED)
    u = np.repeat(rng.uniform(-0.02, 0.02, (1, -(-steps // 10), model.nu)), 10, axis=1)
    q, v = model.q0[None].copy(), np.zeros((1, model.nv))
    return Scene(model, q, v, np.zeros((1, 0, model.nu)), np.ascontiguousarray(u[:, :steps]))


def plate_scene(contacts: int, steps: int) -> Scene:
    """Return a rigid body on `contacts` feet: more contacts than its six degrees of freedom."""
    return legs_scene(contacts, steps, rigid=True)


def balls_scene(contacts: int, steps: int) -> Scene:
    """Return 64 balls that do not meet each other; `contacts` roll on the ground, the rest fall."""
    bodies = "".join(
        f'<body pos="{0.3 * (i % 8):g} {0.3 * (i // 8):g} {0.05 - SUNK if i < contacts else 9:g}">'
        '<freejoint/><geom type="sphere" size="0.05" mass="0.5" conaffinity="1"/></body>'
        for i in range(MOST)
    )
    model = _model("balls", bodies)
    v = np.random.default_rng(SEED).uniform(-0.1, 0.1, (1, model.nv))
    v[0, 2::6] = 0.0
    return Scene(model, model.q0[None].copy(), v, np.zeros((1, 0, 0)), np.zeros((1, steps, 0)))


def standing_scene(robots: int, steps: int) -> Scene:
    """Return Laikagos whose servos hold the stand pose, as in the tables of Qiao et al. (2021)."""
    model = fb.models.laikago(robots=robots)
    q, v = (np.array(part) for part in model.keyframe("stand"))
    joints = np.concatenate([19 * robot + np.arange(7, 19) for robot in range(robots)])
    return Scene(
        model, q[None], v[None], np.zeros((1, 0, model.nu)), np.tile(q[joints], (1, steps, 1))
    )


def driven_chain_scene(links: int, steps: int) -> Scene:
    """Return a hanging chain with a motor at every joint."""
    model = fb.models.chain(links, motors=True)
    rng = np.random.default_rng(SEED)
    q, v = rng.uniform(-0.05, 0.05, (1, model.nq)), rng.uniform(-0.1, 0.1, (1, model.nv)) / links
    u = rng.uniform(-0.01, 0.01, (1, steps, model.nu))
    return Scene(model, q, v, np.zeros((1, 0, model.nu)), u)
