"""Bodies on height fields under both contact laws: flat ground, bumps, a robot, batches."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

import featherback as fb

Law = Literal["hard", "mujoco"]
laws = pytest.mark.parametrize("law", ["hard", "mujoco"])
ROWS, COLUMNS = 21, 25
SIZE = "1.2 1 0.1 0.2"
PLANE = '<geom name="ground" type="plane" size="0 0 1" pos="0 0 0.05"/>'
FIELD = '<geom name="ground" type="hfield" hfield="f"/>'


def elevation(bumps: float, seed: int = 0) -> str:
    """Return the heights of a field: half its largest one, and random bumps of a share of it."""
    print(f"seed {seed}")
    h = 0.5 + bumps * np.random.default_rng(seed).uniform(-0.5, 0.5, (ROWS, COLUMNS))
    # the lowest and the highest point fix the scale
    h[0, 0], h[-1, -1] = 0.0, 1.0
    return " ".join(map(str, h.ravel()))


def scene(bodies: str, bumps: float = 0.0, ground: str = FIELD) -> fb.Model:
    """Return bodies over ground of 10 cm cells, 5 cm high."""
    return fb.load(
        '<mujoco><option timestep="0.002"/><asset>'
        f'<hfield name="f" nrow="{ROWS}" ncol="{COLUMNS}" size="{SIZE}" '
        f'elevation="{elevation(bumps)}"/></asset><worldbody>{ground}{bodies}</worldbody></mujoco>'
    )


def body(geom: str, pos: str, turn: str = "1 0 0 0") -> str:
    """Return a free body of one geom of 1 kg."""
    return f'<body pos="{pos}" quat="{turn}"><freejoint/><geom {geom} mass="1"/></body>'


BALL = body('size="0.06"', "-0.31 0.02 0.11")
SHAPES = {
    "ball": 'size="0.06"',
    "capsule": 'type="capsule" size="0.05 0.1"',
    "ellipsoid": 'type="ellipsoid" size="0.1 0.08 0.05"',
    "cylinder": 'type="cylinder" size="0.08 0.06"',
    "box": 'type="box" size="0.15 0.12 0.05"',
}


@laws
def test_ball_rolls_as_on_a_plane(law: Law) -> None:
    """Follow the path on a plane over six cells, without a step at their borders."""
    rolls = []
    for ground in (FIELD, PLANE):
        model = scene(BALL, ground=ground)
        v = np.zeros(6)
        v[:2], v[4] = [0.8, 0.13], 0.8 / 0.06
        roll = fb.Simulator(model, contact=law).rollout(model.q0, v, np.zeros((400, 0)))
        assert roll.ok
        rolls.append(roll)
    field, plane = rolls
    assert abs(float(field.q[-1, 0]) - float(model.q0[0])) > 0.55
    assert np.abs(field.q - plane.q).max() < 1e-6
    assert np.abs(field.v - plane.v).max() < 1e-5


@laws
def test_box_rests_on_flat_ground_as_on_a_plane(law: Law) -> None:
    """Stand on flat ground as on a plane."""
    box = body(SHAPES["box"], "0.013 0.021 0.1", "0.9 0 0 0.3")
    found = []
    for ground in (FIELD, PLANE):
        model = scene(box, ground=ground)
        roll = fb.Simulator(model, contact=law).rollout(model.q0, model.v0, np.zeros((300, 0)))
        assert roll.ok
        found.append(np.asarray(roll.q[-1]))
    assert np.abs(found[0] - found[1]).max() < 1e-5


@laws
@pytest.mark.parametrize("name", SHAPES)
def test_comes_to_rest_on_bumps(name: str, law: Law) -> None:
    """Fall on bumps and stay on top of them; a box comes to rest."""
    model = scene(body(SHAPES[name], "0.03 0.02 0.25", "0.9 0.2 0.1 0.3"), bumps=0.5)
    sim = fb.Simulator(model, contact=law)
    roll = sim.rollout(model.q0, model.v0, np.zeros((2000, 0)))
    assert roll.ok, roll.describe_status()
    gaps = []
    for k in range(0, 2000, 40):
        found = sim.contacts(roll.q[k], roll.v[k])
        gaps.append(float(found.gap[: int(found.count)].min(initial=1.0)))
    print(name, law, min(gaps), np.abs(roll.v[-1]).max())
    # a soft contact gives way to the hit
    assert min(gaps) > (-1e-3 if law == "hard" else -2e-2)
    assert 0.0 < float(roll.q[-1, 2]) < 0.25
    # round shapes roll on without loss
    assert np.abs(roll.v[-200:, :3]).max() < 0.5
    assert name != "box" or np.abs(roll.v[-200:]).max() < (1e-5 if law == "hard" else 1e-2)


@laws
def test_worlds_of_a_batch_are_those_alone(law: Law) -> None:
    """Give the bits of each world alone, whatever worlds run beside it."""
    model = scene(body(SHAPES["box"], "0.03 0.02 0.2", "0.9 0.2 0.1 0.3") + BALL, bumps=0.5)
    rng = np.random.default_rng(3)
    q = np.tile(model.q0, (9, 1))
    q[:, :2] += rng.uniform(-0.2, 0.2, (9, 2))
    v = 0.3 * rng.normal(size=(9, model.nv))
    sim = fb.Simulator(model, contact=law)
    many = sim.rollout(q, v, steps=150)
    for k in (0, 4, 8):
        alone = sim.rollout(q[k], v[k], steps=150)
        assert np.array_equal(many.q[k], alone.q)
        assert np.array_equal(many.v[k], alone.v)
    bars = rng.normal(size=(9, model.nq)), rng.normal(size=(9, model.nv))
    last = [np.zeros((9, 151, n)) for n in (model.nq, model.nv)]
    last[0][:, -1], last[1][:, -1] = bars
    if law == "mujoco":
        grad = many.vjp(*last)
        alone = sim.rollout(q[4], v[4], steps=150).vjp(last[0][4], last[1][4])
        assert np.array_equal(grad.q[4], alone.q)


@laws
@pytest.mark.parametrize("name", SHAPES)
def test_gradients_agree_with_differences(name: str, law: Law) -> None:
    """Agree with differences over some steps on bumps, in state, sizes, place and field."""
    model = scene(body(SHAPES[name], "0.03 0.02 0.2", "0.9 0.2 0.1 0.3"), bumps=0.5)
    options: dict[str, Any] = {"contact": law}
    if law == "hard":
        options["tolerance"] = 1e-12
    sim = fb.Simulator(model, **options)
    start = sim.rollout(model.q0, model.v0, steps=400)
    low = next(k for k in range(400) if int(sim.contacts(start.q[k], start.v[k]).count) > 0)
    q, v, rng = start.q[low + 1], start.v[low + 1], np.random.default_rng(5)
    names = ("hfield_size", "geom_pos", "geom_size", "geom_quat")
    params = {k: np.array(sim.params[k]) for k in names}
    roll = sim.rollout(q, v, steps=4, params=params)
    q_bar, v_bar = np.zeros_like(roll.q), np.zeros_like(roll.v)
    v_bar[-1] = rng.normal(size=6)
    grad = roll.vjp(q_bar, v_bar)

    def value(along: float, name: str, d: np.ndarray) -> float:
        changed = {k: x + along * d if k == name else x for k, x in params.items()}
        moved = v + along * d if name == "v" else v
        return float(v_bar[-1] @ sim.rollout(q, moved, steps=4, params=changed).v[-1])

    compared = 0
    for key in ("v", *names):
        d = rng.normal(size=np.shape(v if key == "v" else params[key]))
        d[np.abs(params[key]) < 1e-9 if key == "geom_size" else np.zeros(d.shape, bool)] = 0
        found = float(np.vdot(grad.v if key == "v" else grad.params[key], d))
        steps = (1e-6, 5e-7)
        coarse, fine = ((value(s, key, d) - value(-s, key, d)) / (2 * s) for s in steps)
        scale = 1 + abs(fine)
        # a change of contacts shows as two differences that disagree
        if abs(coarse - fine) < 1e-4 * scale:
            compared += 1
            assert abs(found - fine) < 1e-3 * scale, (key, found, fine)
    assert compared >= 3
    assert np.abs(grad.params["hfield_size"]).max() > 0


@laws
def test_laikago_stands_on_bumps(law: Law) -> None:
    """Fall on uneven ground and stand there after two seconds."""
    plain = fb.models.laikago_xml()
    asset = (
        f'<asset><hfield name="f" nrow="{ROWS}" ncol="{COLUMNS}" size="{SIZE}" '
        f'elevation="{elevation(0.4)}"/></asset><worldbody>'
    )
    plane = 'type="plane" size="0 0 0.5"'
    assert plane in plain
    ground = plain.replace(plane, 'type="hfield" hfield="f" pos="0 0 -0.05"')
    model = fb.load(ground.replace("<worldbody>", asset))
    q, v = model.keyframe("stand")
    q = q.copy()
    q[2] += 0.03
    sim = fb.Simulator(model, contact=law)
    roll = sim.rollout(q, v, model.mujoco.key_ctrl[0], steps=1000)
    assert roll.ok, roll.describe_status()
    contacts = sim.contacts(roll.q[-1], roll.v[-1], model.mujoco.key_ctrl[0])
    assert int(contacts.count) >= 3
    assert 0.35 < float(roll.q[-1, 2]) < 0.5
    assert abs(float(roll.q[-1, 3])) > 0.98
    assert np.abs(roll.v[-1]).max() < 0.05


@pytest.mark.parametrize("law", ["hard", "mujoco"])
@pytest.mark.parametrize("shape", ['size="0.03"', 'type="capsule" size="0.02 0.03"'])
def test_centres_on_lines_of_the_grid_are_held(law: str, shape: str) -> None:
    """Push out shapes whose core lies below the ground on a line, a corner or a diagonal."""
    flat = " ".join(["0"] * 25)
    model = fb.load(
        f"""<mujoco><asset><hfield name="t" nrow="5" ncol="5" size="1 1 0.1 0.3"
        elevation="{flat}"/></asset><worldbody><geom type="hfield" hfield="t"/>
        <body><freejoint/><geom {shape}/></body></worldbody></mujoco>"""
    )
    sim = fb.Simulator(model, contact=law)
    places = [(0, 0.1), (0.5, 0.1), (0.1, 0), (0, 0), (0.1, 0.1), (0.1, 0.4), (0.13, 0.21)]
    for depth in (0.031, 0.035, 0.06):
        q = np.tile(model.q0, (len(places), 1))
        q[:, :2] = places
        q[:, 2] = (0.05 if "capsule" in shape else 0.03) - depth
        found = sim.contacts(q, np.zeros((len(places), 6)))
        assert np.all(found.count > 0), (depth, found.count)
        # all lie the same
        np.testing.assert_allclose(found.gap[:, 0], -depth, rtol=0, atol=1e-6)
        roll = sim.rollout(q, np.zeros((len(places), 6)), steps=300)
        assert roll.ok and np.all(roll.q[:, -1, 2] > -0.01)
