"""Gradients are finite where conditions tie: resting, grazing, zero slip, at limits, coincident.

States are drawn from values at which some branch of the step sits exactly on its edge, mixed with a
few ordinary ones. A finite state must have a finite gradient, in every input and parameter.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any, Literal

import numpy as np
import pytest

import featherback as fb
from featherback.errors import WorldError
from featherback.sim.inputs import NO_GRADIENT
from tests.property.random_models import Rng, Vector

# steps of `make nightly`; a tenth of them is part of `make test`
STEPS = int(os.environ.get("FEATHERBACK_EDGE_STEPS", "1000000"))
HORIZON = 4
WORLDS = 512
DT = 0.002
MARGIN, V_REST, V_RECOVER = 0.005, 0.05, 0.5

SHAPES = {
    "sphere": 'type="sphere" size="0.1"',
    "capsule": 'type="capsule" size="0.1 0.1"',
    "box": 'type="box" size="0.1 0.1 0.1"',
    "cylinder": 'type="cylinder" size="0.1 0.1"',
    "ellipsoid": 'type="ellipsoid" size="0.1 0.1 0.2"',
    "mesh": 'type="mesh" mesh="cube"',
}
CUBE = " ".join(f"{x} {y} {z}" for x in (-0.1, 0.1) for y in (-0.1, 0.1) for z in (-0.1, 0.1))
# pairs that meet each other and the floor
PAIRS = [(a, b) for a in ("sphere", "capsule", "box") for b in ("sphere", "capsule", "box")]
PAIRS += [("cylinder", b) for b in SHAPES] + [("ellipsoid", b) for b in SHAPES]
PAIRS += [("mesh", b) for b in ("sphere", "capsule", "box", "mesh")]

# lengths at which the shapes above touch, overlap, coincide or reach the margin
LENGTHS = np.array(
    [0.0, 0.1, 0.2, 0.3, 0.1 + MARGIN, 0.2 + MARGIN, 1e-300, 1e-12, 0.2 - 1e-12, 0.1 * 2**0.5]
)
SPEEDS = np.array([0.0, 1e-300, 1e-12, V_REST, V_RECOVER, 9.81 * DT, 0.1 / DT * 1e-3, 1.0])
HALF = 0.5**0.5
TURNS = np.array(
    [
        [1, 0, 0, 0],
        [0, 1, 0, 0],
        [0, 0, 1, 0],
        [0, 0, 0, 1],
        [0, HALF, HALF, 0],
        [HALF, HALF, 0, 0],
        [HALF, 0, HALF, 0],
        [HALF, 0, 0, HALF],
        [np.cos(np.pi / 8), np.sin(np.pi / 8), 0, 0],
        [1, 1e-12, 0, 0],
        [1, 1e-300, 0, 0],
        [-1, 0, 0, 0],
        [1e-12, 1, 0, 0],
        [3, 0, 0, 0],
    ]
)

JOINTS = """<mujoco model="joints"><compiler angle="radian"/><option timestep="0.002"/><worldbody>
<geom type="plane" size="0 0 1" friction="0.5"/>
<body pos="0 0 0.3"><joint type="ball" range="0 0.5" limited="true" stiffness="1"/>
<geom size="0.05" pos="0.1 0 0"/>
<body pos="0.2 0 0"><joint axis="0 1 0" range="-0.5 0.5" limited="true" frictionloss="0.1"/>
<geom type="capsule" size="0.05 0.1" pos="0.1 0 0"/>
<body pos="0.2 0 0"><joint type="slide" axis="0 0 1" range="-0.1 0.1" limited="true"
 stiffness="10"/><geom type="box" size="0.05 0.05 0.05" pos="0.1 0 0"/></body></body></body>
<body pos="1 0 0.1"><joint axis="1 0 0" range="-1e-3 1e-3" limited="true" frictionloss="1"/>
<geom size="0.1"/></body></worldbody>
<actuator><position joint="turn" kp="1" ctrlrange="-0.5 0.5" forcerange="-0.5 0.5"/></actuator>
</mujoco>""".replace('<joint axis="0 1 0" range', '<joint name="turn" axis="0 1 0" range')


def pair_model(a: str, b: str) -> fb.Model:
    """Return two free bodies over a floor."""
    bodies = "".join(
        f'<body><freejoint/><geom {SHAPES[kind]} friction="0.5 0 0" mass="1"/></body>'
        for kind in (a, b)
    )
    return fb.load(
        f'<mujoco><option timestep="0.002"/><asset><mesh name="cube" vertex="{CUBE}"/></asset>'
        "<worldbody>"
        f'<geom type="plane" size="0 0 1" friction="0.5 0 0"/>{bodies}</worldbody></mujoco>'
    )


def free_states(model: fb.Model, rng: Rng, worlds: int) -> tuple[Vector, Vector]:
    """Return edge states of free bodies: the first near the floor, the others near the first."""
    n = model.nq // 7
    q, v = np.zeros((worlds, n, 7)), np.zeros((worlds, n, 6))
    sign = rng.choice([-1.0, 1.0], (worlds, n, 3))
    offset = sign * rng.choice(LENGTHS, (worlds, n, 3)) * (rng.random((worlds, n, 3)) < 0.5)
    q[..., :3] = np.cumsum(offset, axis=1)
    q[:, 0, 2] = rng.choice(LENGTHS, worlds)
    q[..., 3:] = TURNS[rng.integers(len(TURNS), size=(worlds, n))]
    usual = rng.random((worlds, n)) < 0.1
    q[usual, 3:] = rng.normal(size=(int(usual.sum()), 4))
    v[:] = rng.choice([-1.0, 1.0], v.shape) * rng.choice(SPEEDS, v.shape)
    v[rng.random(worlds) < 0.3] = 0.0
    return q.reshape(worlds, -1), v.reshape(worlds, -1)


def joint_states(model: fb.Model, rng: Rng, worlds: int) -> tuple[Vector, Vector]:
    """Return states with joints exactly at, just off and beyond their limits."""
    limits = {1: [0.5, -0.5, 0.0], 2: [0.1, -0.1, 0.0], 3: [1e-3, -1e-3]}
    angle = rng.choice([0.0, 1e-12, 0.25, 0.5, np.pi, 2 * np.pi - 1e-9], worlds)
    q = np.zeros((worlds, model.nq))
    q[:, 0], q[:, 1] = np.cos(angle / 2), np.sin(angle / 2)
    for joint, values in limits.items():
        off = rng.choice([0.0, 1e-12, -1e-12, MARGIN, -MARGIN, 1e-3], worlds)
        q[:, 3 + joint] = rng.choice(values, worlds) + off
    v = rng.choice([-1.0, 1.0], (worlds, model.nv)) * rng.choice(SPEEDS, (worlds, model.nv))
    return q, v


def stack() -> fb.Model:
    """Return three equal boxes and a ball above each other, exactly touching."""
    boxes = "".join(
        f'<body pos="0 0 {z}"><freejoint/><geom type="box" size="0.1 0.1 0.1" mass="1"/></body>'
        for z in (0.1, 0.30000000000000004, 0.5)
    )
    ball = '<body pos="0 0 0.7"><freejoint/><geom size="0.1" mass="1"/></body>'
    return fb.load(
        '<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="0 0 1"/>'
        f"{boxes}{ball}</worldbody></mujoco>"
    )


def near_rest(model: fb.Model, rng: Rng, worlds: int) -> tuple[Vector, Vector]:
    """Return the model's first pose, exactly or with single entries off by edge values."""
    pose = model.keyframe(0)[0] if model.keyframe_names else model.q0
    q, v = np.tile(pose, (worlds, 1)), np.zeros((worlds, model.nv))
    for x, values in ((q, [1e-300, 1e-12, -1e-12, MARGIN, -MARGIN]), (v, [*SPEEDS, *-SPEEDS])):
        moved = rng.random(x.shape) < 0.1
        x[moved] += rng.choice(values, int(moved.sum()))
    v[rng.random(worlds) < 0.3] = 0.0
    return q, v


CASES: dict[str, Any] = {
    **{f"{a}-{b}": (lambda a=a, b=b: pair_model(a, b), free_states) for a, b in PAIRS},
    "joints": (lambda: fb.load(JOINTS), joint_states),
    "stack": (stack, near_rest),
    "laikago": (fb.models.laikago, near_rest),
}


def check(case: str, sim: fb.Simulator, rng: Rng, count: Counter[str]) -> None:
    """Run one batch forwards and backwards; count what is not finite and what raised."""
    model = sim.model
    q, v = (x.astype(sim.dtype) for x in CASES[case][1](model, rng, WORLDS))
    u = rng.choice([0.0, 0.5, -0.5, 1.0], (WORLDS, HORIZON, model.nu))
    params = {n: np.array(a) for n, a in sim.params.items() if n not in NO_GRADIENT and a.size}
    roll = sim.rollout(q, v, u, steps=HORIZON, params=params)
    for bit in fb.Status:
        count[f"worlds {bit.name}"] += int(((roll.status & bit) != 0).sum())
    keep = (roll.status & np.uint32(fb.Status.NONFINITE)) == 0
    q_bar, v_bar = rng.normal(size=roll.q.shape), rng.normal(size=roll.v.shape)
    try:
        if not keep.all():
            roll = sim.rollout(q[keep], v[keep], u[keep], steps=HORIZON, params=params)
        found = roll.vjp(q_bar[keep], v_bar[keep])
    except WorldError:
        # worlds whose solve did not converge may have no gradient
        keep &= (roll.status & np.uint32(fb.Status.UNCONVERGED)) == 0
        count["worlds without gradient"] += int((~keep).sum())
        roll = sim.rollout(q[keep], v[keep], u[keep], steps=HORIZON, params=params)
        found = roll.vjp(q_bar[keep], v_bar[keep])
    count["steps"] += int(keep.sum()) * HORIZON
    for name, array in {"q": found.q, "v": found.v, "u": found.u, **found.params}.items():
        bad = ~np.isfinite(array)
        count[f"not finite in {name}"] += int(bad.sum())


def run(case: str, steps: int, seed: int, **options: Any) -> None:
    """Run batches of one case until enough steps are made; nothing may be other than finite."""
    rng, count = np.random.default_rng(seed), Counter[str]()
    model = CASES[case][0]()
    params = {"geom_restitution": np.full(model.ngeom, 0.5)} if seed % 2 else None
    sim = fb.Simulator(model, params=params, **options)
    while count["steps"] < steps and count["batches"] * WORLDS * HORIZON < 2 * steps + WORLDS:
        check(case, sim, rng, count)
        count["batches"] += 1
    print(f"seed {seed}, {case}: {dict(+count)}")
    assert not [name for name, n in count.items() if name.startswith("not finite") and n]
    assert not count["worlds NONFINITE"]
    assert count["steps"] >= 0.5 * steps


@pytest.mark.parametrize("friction", ["cone", "box"])
@pytest.mark.parametrize("case", CASES)
def test_edges(case: str, friction: Literal["cone", "box"]) -> None:
    """Have no gradient that is not finite in 1e5 steps from edge states, half of them bouncing."""
    run(case, STEPS // 10 // len(CASES) // 2, int(friction == "box"), friction=friction)


@pytest.mark.parametrize("case", CASES)
def test_edges_in_float32(case: str) -> None:
    """Have no gradient that is not finite in float32 either."""
    run(case, STEPS // 50 // len(CASES), 2, dtype="float32")


@pytest.mark.slow
@pytest.mark.parametrize("friction", ["cone", "box"])
@pytest.mark.parametrize("case", CASES)
def test_many_edges(case: str, friction: Literal["cone", "box"]) -> None:
    """Have no gradient that is not finite in 1e6 steps from edge states."""
    run(case, STEPS // len(CASES) // 2, 10 + int(friction == "box"), friction=friction)
