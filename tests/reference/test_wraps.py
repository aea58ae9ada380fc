"""Tendons around spheres and cylinders against MuJoCo: placements, random models, whole steps."""

from __future__ import annotations

from collections import Counter
from functools import cache

import mujoco
import numpy as np
import pytest

import featherback as fb
from tests.core.ops_models import Case
from tests.core.references import actuation, tendon_moments
from tests.property.random_models import Vector, text, unit
from tests.property.soft import exact_mujoco, soft_options
from tests.property.wraps import draw_wraps

# two points that slides carry, a geom between them, and a spring whose force is its length
POINTS = """
<mujoco><option gravity="0 0 0" timestep="1"/>
<default><geom contype="0" conaffinity="0"/><joint type="slide"/></default>
<worldbody>
  <geom name="g" type="{kind}" size="0.5 1" mass="1"/><site name="side"/>
  <body><joint axis="1 0 0"/><joint axis="0 1 0"/><joint axis="0 0 1"/>
    <geom size="0.1" mass="1"/><site name="a"/></body>
  <body><joint axis="1 0 0"/><joint axis="0 1 0"/><joint axis="0 0 1"/>
    <geom size="0.1" mass="1"/><site name="b"/></body>
</worldbody>
<tendon><spatial stiffness="1" springlength="0">
  <site site="a"/><geom geom="g" {side}/><site site="b"/></spatial></tendon></mujoco>
"""
KINDS = ("sphere", "cylinder")
SIDES = ("none", "outside", "inside")


@cache
def points(kind: str, sided: bool) -> fb.Simulator:
    """Return a simulator of two points and a geom."""
    side = 'sidesite="side"' if sided else ""
    return fb.Simulator(fb.load(POINTS.format(kind=kind, side=side)))


def placements(rng: np.random.Generator, side: str, n: int) -> dict[str, Vector]:
    """Draw points, radii, rotations and side sites."""
    size = rng.uniform(0.05, 1, n)
    far = {"none": 0 * size, "outside": rng.uniform(1.01, 4, n), "inside": rng.uniform(0, 0.99, n)}
    ways = np.array([unit(rng, 3) for _ in range(n)])
    return {
        "q": rng.normal(size=(n, 6)),
        "size": size,
        "quat": np.array([unit(rng, 4) for _ in range(n)]),
        "side": ways * (far[side] * size)[:, None],
    }


def ours(kind: str, sided: bool, at: dict[str, Vector]) -> tuple[Vector, Vector]:
    """Return lengths and the directions of the path at its ends, from the force of the spring."""
    sim = points(kind, sided)
    params = {name: np.repeat(sim.model.params[name][None], len(at["q"]), 0) for name in CHANGED}
    params["geom_size"][:, 0, 0] = at["size"]
    params["geom_quat"][:, 0] = at["quat"]
    params["site_pos"][:, 0] = at["side"]
    v = sim.rollout(at["q"], np.zeros((len(at["q"]), 6)), steps=1, params=params).v[:, -1]
    length = np.linalg.norm(v[:, :3], axis=1)
    return length, -v / np.maximum(length, 1e-300)[:, None]


CHANGED = ("geom_size", "geom_quat", "site_pos")


def mujocos(kind: str, sided: bool, at: dict[str, Vector]) -> tuple[Vector, Vector, Vector]:
    """Return MuJoCo's lengths and moments, and whether the path goes round the geom."""
    m = points(kind, sided).model.mujoco.__copy__()
    data = mujoco.MjData(m)
    length, moment, wraps = [], [], []
    for k in range(len(at["q"])):
        m.geom_size[0, 0], m.geom_quat[0], m.site_pos[0] = (
            at[x][k] for x in ("size", "quat", "side")
        )
        # fields that MuJoCo holds for geoms and sites in the frames of their bodies
        m.geom_sameframe[0] = m.site_sameframe[0] = 0
        data.qpos[:] = at["q"][k]
        mujoco.mj_forward(m, data)
        length.append(data.ten_length[0])
        moment.append(tendon_moments(m, data)[0])
        wraps.append(data.ten_wrapnum[0] > 2)
    return np.array(length), np.array(moment), np.array(wraps)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", SIDES)
def test_every_placement_is_mujocos(kind: str, side: str) -> None:
    """Give MuJoCo's length and moment on 1000 placements; from the inside it stops at 1e-6."""
    seed = 10 * KINDS.index(kind) + SIDES.index(side)
    at = placements(np.random.default_rng(seed), side, 1000)
    length, moment = ours(kind, side != "none", at)
    wanted, wanted_moment, wraps = mujocos(kind, side != "none", at)
    print(seed, wraps.mean(), np.abs(length - wanted).max(), np.abs(moment - wanted_moment).max())
    assert 0.05 < wraps.mean() < 0.95
    assert np.abs(length - wanted).max() < (1e-12 if side == "inside" else 1e-13)
    assert np.abs(moment - wanted_moment).max() < (1e-5 if side == "inside" else 1e-12)


def by_the_circle(ends: Vector, radius: float, angle: Vector) -> Vector:
    """Return lengths from the first end by a point of the circle to the second, unrolled."""
    spot = radius * np.array([np.cos(angle), np.sin(angle)])
    level = sum(np.hypot(*(spot - p[:2, None])) for p in ends)
    return np.hypot(level, ends[1, 2] - ends[0, 2])


@pytest.mark.parametrize("kind", KINDS)
def test_from_the_inside_the_path_is_the_shortest(kind: str) -> None:
    """Find no point of the circle by which it is shorter, and on a sphere its direction."""
    at = placements(np.random.default_rng(7), "inside", 400)
    length, moment = ours(kind, True, at)
    wraps = mujocos(kind, True, at)[2]
    assert wraps.sum() > 50
    for k in np.flatnonzero(wraps):
        a, b = at["q"][k].reshape(2, 3)
        frame = np.zeros(9)
        mujoco.mju_quat2Mat(frame, at["quat"][k])
        axes = frame.reshape(3, 3)
        if kind == "sphere":
            across = np.cross(np.cross(a, b), a)
            axes = np.array([a / np.linalg.norm(a), across / np.linalg.norm(across), 0 * a]).T
        ends, radius = np.array([axes.T @ a, axes.T @ b]), float(at["size"][k])
        grid = np.linspace(0, 2 * np.pi, 4001)
        best = grid[np.argmin(by_the_circle(ends, radius, grid))]
        for width in 10.0 ** -np.arange(3.0, 8.0):
            near = best + np.linspace(-2, 2, 81) * width
            best = near[np.argmin(by_the_circle(ends, radius, near))]
        assert abs(length[k] - by_the_circle(ends, radius, np.array([best]))[0]) < 1e-12
        if kind == "sphere":
            # lengths do not see a point of touch below the root of their rounding
            leave = radius * (axes @ [np.cos(best), np.sin(best), 0]) - a
            assert np.abs(leave / np.linalg.norm(leave) + moment[k, :3]).max() < 1e-6


DEGENERATE = {
    "sites coincide": ([1, 1, 1, 1, 1, 1], 0.5, None),
    "both within": ([0.1, 0.2, 0, -0.1, 0.1, 0.2], 0.5, None),
    "one within": ([1, 0.2, 0, -0.1, 0.1, 0.2], 0.5, None),
    "one at the centre": ([0, 0, 0, 1, 0, 0], 0.5, None),
    "one on the surface": ([0.5, 0, 0, -0.5, 0.1, 0], 0.5, None),
    "both on the surface": ([0.5, 0, 0, 0, 0.5, 0], 0.5, None),
    "one point of the surface": ([0.5, 0, 0, 0.5, 0, 0], 0.5, None),
    "opposite": ([1, 0, 0, -1, 0, 0], 0.5, None),
    "opposite, askew": ([1, 1, 1, -2, -2, -2], 0.5, None),
    "opposite, by the side": ([1, 0, 0, -1, 0, 0], 0.5, [0, 1, 0]),
    "on one ray, side behind": ([1, 0, 0, 2, 0, 0], 0.5, [-1, 0, 0]),
    "on one ray, from the inside": ([1, 0, 0, 2, 0, 0], 0.5, [0.1, 0, 0]),
    "coincide, from the inside": ([1, 1, 1, 1, 1, 1], 0.5, [0.1, 0, 0]),
    "no radius": ([1, 0, 0, -1, 0.1, 0], 0.0, None),
    "no radius, side at the centre": ([1, 0, 0, -1, 0.1, 0], 0.0, [0, 0, 0]),
    "side across the plane": ([1, 0.3, 0, 0.3, 1, 0], 0.5, [0, 0, 3]),
    "close to the surface, from the inside": ([0.6, 0, 0, 0.6, 1e-9, 0], 0.5999999, [0, 0, 0]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_placements_are_finite(kind: str, name: str) -> None:
    """Give MuJoCo's length, and finite derivatives, where directions or planes are not defined."""
    q, size, side = DEGENERATE[name]
    at = {"q": np.array([q], float), "size": np.array([size]), "quat": np.array([[1.0, 0, 0, 0]])}
    at["side"] = np.array([side if side is not None else [0.0, 0, 0]], float)
    sim, sided = points(kind, side is not None), side is not None
    wanted = mujocos(kind, sided, at)[0]
    assert ours(kind, sided, at)[0] == pytest.approx(wanted, abs=1e-12)
    params = {name: np.array(sim.model.params[name]) for name in CHANGED}
    params["geom_size"][0, 0], params["site_pos"][0] = size, at["side"][0]
    roll = sim.rollout(at["q"][0], np.zeros(6), steps=2, params=params)
    found = roll.vjp(np.ones(6), np.ones(6))
    assert all(np.isfinite(a).all() for a in (found.q, found.v, *found.params.values()))


@pytest.mark.parametrize("seed", range(30))
def test_forces_are_mujocos(seed: int) -> None:
    """Give the passive and actuator forces of random models to 1e-12."""
    model, q, v, rng = draw_wraps(seed, sides=("none", "outside"))
    try:
        fb.Simulator(model)
    except fb.ModelError as error:
        pytest.skip(f"the reference reads parameters of the hard law: {error}")
    x = np.r_[q, v, rng.normal(size=model.nu)]
    case = Case(lambda: model, contact="mujoco")
    wanted = actuation(model, x)
    size = max(float(np.abs(wanted).max()), 1.0)
    assert np.abs(case.ops.forward("actuation", x) - wanted).max() <= 1e-12 * size


def one_step(seed: int, sides: tuple[str, ...], tally: Counter[str]) -> float:
    """Return the error of the accelerations of a step under MuJoCo's law."""
    model, q, v, rng = draw_wraps(seed, sides=sides)
    options = soft_options(seed)
    reference, u = exact_mujoco(model, options), rng.normal(size=model.nu)
    data = mujoco.MjData(reference)
    data.qpos[:], data.qvel[:], data.ctrl[:] = q, v, u
    mujoco.mj_forward(reference, data)
    smooth = float(np.abs(data.qacc_smooth).max())
    kinds = mujoco.mjtConstraint
    tally.update(kinds(int(t)).name.removeprefix("mjCNSTR_").lower() for t in data.efc_type)
    tally.update([options["integrator"]])
    count = int(data.ten_wrapadr[-1] + data.ten_wrapnum[-1]) if reference.ntendon else 0
    tally["round"] += int((data.wrap_obj.reshape(-1)[:count] >= 0).sum()) // 2
    mujoco.mj_step(reference, data)
    sim = fb.Simulator(model, **options)
    *_, found, status = sim.step(q, v, u, return_status=True)
    assert status == 0, seed
    a, b = (found - v) / sim.dt, (data.qvel - v) / sim.dt
    return float(np.abs(a - b).max()) / max(float(np.abs(b).max()), smooth, 1.0)


@pytest.mark.parametrize(
    ("sides", "tolerance"), [(("none", "outside"), 1e-9), (("inside",), 1e-5)], ids=["out", "in"]
)
def test_one_step_is_mujocos(sides: tuple[str, ...], tolerance: float) -> None:
    """Agree with limits, dry friction and couplings, by every integrator."""
    tally: Counter[str] = Counter()
    errors = [(one_step(seed, sides, tally), seed) for seed in range(80)]
    print(sorted(errors)[-3:], dict(tally))
    assert max(errors)[0] < tolerance
    assert min(tally[k] for k in ("limit_tendon", "friction_tendon", "round", "rk4")) > 8


MUSCLE = """
<mujoco><compiler angle="radian"/><option timestep="0.002"/>
<default><geom contype="0" conaffinity="0"/></default>
<worldbody>
  <site name="a" pos="-0.2 0 0.05"/>
  <geom name="elbow" type="cylinder" size="0.03 0.1" zaxis="0 1 0"/>
  <site name="side" pos="0.01 0 {side}"/>
  <body><joint name="j" axis="0 1 0" damping="0.1"/>
    <geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0" mass="1"/>
    <site name="b" pos="0.15 0.01 0.02"/></body>
</worldbody>
<tendon><spatial name="t" width="0.01">
  <site site="a"/><geom geom="elbow" sidesite="side"/><site site="b"/></spatial></tendon>
<actuator><muscle name="m" tendon="t" force="50" lengthrange="0.2 0.4"/></actuator>
</mujoco>
"""


@pytest.mark.parametrize("side", [0.1, -0.1])
def test_a_muscle_over_a_joint_moves_as_mujocos(side: float) -> None:
    """Follow MuJoCo for 200 steps of random excitation, to 1e-9, as the path comes and goes."""
    model = fb.load(MUSCLE.format(side=text(side)))
    reference = model.mujoco
    data, rng = mujoco.MjData(reference), np.random.default_rng(3)
    sim = fb.Simulator(model, contact="mujoco")
    u = rng.uniform(0, 1, (200, 1))
    q0, v0 = np.array([0.4]), np.array([3.0])
    roll = sim.rollout(q0, v0, u)
    data.qpos[:], data.qvel[:] = q0, v0
    found, wraps = [], set[bool]()
    for k in range(200):
        data.ctrl[:] = u[k]
        mujoco.mj_step(reference, data)
        found.append(data.qpos.copy())
        wraps.add(bool(data.ten_wrapnum[0] > 2))
    assert True in wraps
    assert np.abs(roll.q[1:] - np.array(found)).max() < 1e-9
