"""Pairs by rule: the search for near ones finds the contacts of the whole list, bit for bit."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

import featherback as fb
from featherback.model import pairs

Law = Literal["hard", "mujoco"]
Array = NDArray[np.float64]
SHAPES = {
    "sphere": ".06",
    "capsule": ".04 .06",
    "ellipsoid": ".05 .06 .07",
    "cylinder": ".05 .06",
    "box": ".05 .06 .04",
}
FIELD = "0 .2 .1 0 .3 .1 .2 .4 .1"


def scattered(rng: np.random.Generator, count: int) -> str:
    """Return bodies of mixed shapes, masks, priorities and margins over planes, a field and boxes.

    Some have several geoms, some hang on others; there are excludes and explicit pairs.
    """

    def numbers(values: Any) -> str:
        return " ".join(f"{x:.4f}" for x in np.ravel(values))

    geoms: list[str] = []

    def geom() -> str:
        kind = str(rng.choice(list(SHAPES)))
        geoms.append(f"g{len(geoms)}")
        contype = rng.choice([1, 1, 1, 2, 0])
        return (
            f'<geom name="{geoms[-1]}" type="{kind}" size="{SHAPES[kind]}" mass="1" '
            f'pos="{numbers(rng.uniform(-0.05, 0.05, 3))}" contype="{contype}" '
            f'conaffinity="{rng.choice([1, 1, 3, 0])}" priority="{rng.choice([0, 0, 1])}" '
            f'condim="{rng.choice([1, 3, 3, 4, 6])}" friction="{rng.uniform(0.2, 1):.3f}" '
            f'margin="{rng.choice([0, 0, 0.01]):g}"/>'
        )

    bodies = ""
    for k in range(count):
        at = numbers([*rng.uniform(-0.5, 0.5, 2), rng.uniform(0.05, 0.6)])
        inner = f'<body pos="0 0 .12"><joint axis="1 0 0"/>{geom()}</body>' if k % 4 == 0 else ""
        bodies += (
            f'<body name="b{k}" pos="{at}" quat="{numbers(rng.normal(size=4))}"><freejoint/>'
            f"{''.join(geom() for _ in range(rng.integers(1, 3)))}{inner}</body>"
        )
    contact = '<exclude body1="b0" body2="b1"/>'
    for _ in range(4):
        a, b = sorted(rng.choice(len(geoms), 2, replace=False))
        contact += f'<pair geom1="g{a}" geom2="g{b}" margin="0.02" condim="3"/>'
    return (
        '<mujoco><option timestep="0.002"/>'
        f'<asset><hfield name="f" nrow="3" ncol="3" size="1 1 .1 .1" elevation="{FIELD}"/></asset>'
        '<worldbody><geom type="plane" size="0 0 1" pos="0 0 -.02"/>'
        '<geom type="plane" size="0 0 1" pos=".7 0 0" zaxis="-1 0 0"/>'
        '<geom type="hfield" hfield="f" pos="0 0 -.1"/>'
        f'<geom type="box" size=".3 .3 .05"/>{bodies}</worldbody>'
        f"<contact>{contact}</contact></mujoco>"
    )


def both(monkeypatch: pytest.MonkeyPatch, text: str) -> tuple[fb.Model, fb.Model]:
    """Return a model with all of its pairs listed, and one with pairs by rule."""
    models: list[fb.Model] = []
    for listed in (10**9, 0):
        monkeypatch.setattr(pairs, "LISTED", listed)
        models.append(fb.load(text))
    listed, ruled = models
    assert listed.parsed.pairs.ruled is None
    assert ruled.parsed.pairs.ruled is not None
    assert ruled.parsed.pairs.count == len(listed.parsed.pairs)
    return listed, ruled


def states(model: fb.Model, rng: np.random.Generator, worlds: int) -> tuple[Array, Array]:
    """Return states of some worlds around the first one, moving fast enough to hit."""
    return np.repeat(model.q0[None], worlds, axis=0), rng.normal(size=(worlds, model.nv))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("law", ["hard", "mujoco"])
@pytest.mark.parametrize("seed", range(3))
def test_contacts_and_steps_are_those_of_the_list(
    monkeypatch: pytest.MonkeyPatch, seed: int, law: Law, dtype: Any
) -> None:
    """Find the same contacts in the same order and take the same steps, alone and in any batch."""
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    models = both(monkeypatch, scattered(rng, 14))
    q, v = states(models[0], rng, 11)
    q, v = q.astype(dtype), v.astype(dtype)
    sims = [fb.Simulator(m, contact=law, dtype=dtype, max_contacts=300) for m in models]
    assert sims[0].options.max_contacts == sims[1].options.max_contacts
    rolls = [sim.rollout(q, v, steps=25) for sim in sims]
    for name in ("q", "v", "status"):
        np.testing.assert_array_equal(getattr(rolls[0], name), getattr(rolls[1], name))
    late = np.asarray(rolls[0].q[:, -1]), np.asarray(rolls[0].v[:, -1])
    found = [sim.contacts(*late) for sim in sims]
    assert found[0].count.sum() > 20
    for name in ("count", "geom1", "geom2", "gap", "point", "normal", "force", "torque"):
        np.testing.assert_array_equal(getattr(found[0], name), getattr(found[1], name))
    alone = sims[1].rollout(q[4], v[4], steps=25)
    np.testing.assert_array_equal(alone.q, rolls[1].q[4])
    few = sims[1].rollout(q[3:6], v[3:6], steps=25)
    np.testing.assert_array_equal(few.v, rolls[1].v[3:6])


@pytest.mark.parametrize("law", ["hard", "mujoco"])
def test_gradients_are_those_of_the_list(monkeypatch: pytest.MonkeyPatch, law: Law) -> None:
    """Give the same gradient with respect to state and parameters, friction of geoms included."""
    print("seed 1")
    rng = np.random.default_rng(1)
    models = both(monkeypatch, scattered(rng, 14))
    q, v = states(models[0], rng, 3)
    geoms = models[0].ngeom
    names = ("geom_friction", "geom_size", "pair_friction_rest", "body_mass")
    given = {name: np.array(models[0].params[name]) for name in names}
    if law == "hard":
        given["geom_restitution"] = rng.choice([0.0, 0.3, 0.5], geoms)
        given["contact_compliance"] = rng.choice([0.0, 1e-5], geoms)
    else:
        given |= {name: np.array(models[0].params[name]) for name in ("geom_margin", "geom_solref")}
    bars = rng.normal(size=(3, 31, models[0].nq)), rng.normal(size=(3, 31, models[0].nv))
    found = []
    for model in models:
        sim = fb.Simulator(model, contact=law, max_contacts=300)
        found.append(sim.rollout(q, v, steps=30, params=given).vjp(*bars))
    np.testing.assert_allclose(found[0].q, found[1].q, rtol=1e-12, atol=1e-12)
    assert np.abs(found[1].params["geom_friction"][..., 0]).max() > 0
    for name, bar in found[0].params.items():
        scale = max(np.abs(bar).max(initial=0.0), 1e-12)
        error = np.abs(found[1].params[name] - bar).max(initial=0.0) / scale
        assert error < 1e-9, f"{name}: {error}"


@pytest.mark.parametrize("law", ["hard", "mujoco"])
def test_gradients_by_differences(monkeypatch: pytest.MonkeyPatch, law: Law) -> None:
    """Agree with differences."""
    monkeypatch.setattr(pairs, "LISTED", 0)
    text = (
        '<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="0 0 1"/>'
        '<body pos="0 0 .0999"><freejoint/><geom size=".1" mass="1" friction=".5"/></body>'
        '<body pos=".05 .02 .285"><freejoint/><geom type="capsule" size=".09 .1" mass="1" '
        'euler="90 0 0"/></body></worldbody></mujoco>'
    )
    sim = fb.Simulator(fb.load(text), contact=law)
    assert sim.model.parsed.pairs.ruled is not None
    assert fb.check_gradients(sim, seed=0).ok


@pytest.mark.parametrize("law", ["hard", "mujoco"])
def test_more_meetings_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch, law: Law) -> None:
    """Look for near pairs in parts where every geom is near every other."""
    print("seed 2")
    rng = np.random.default_rng(2)
    bodies = "".join(
        f'<body pos="{x:.4f} {y:.4f} {z:.4f}"><freejoint/><geom size=".5" mass="1"/></body>'
        for x, y, z in rng.uniform(-0.2, 0.2, (60, 3)) + np.array([0, 0, 2])
    )
    text = f'<mujoco><worldbody><geom type="plane" size="0 0 1"/>{bodies}</worldbody></mujoco>'
    models = both(monkeypatch, text)
    found = [
        fb.Simulator(m, contact=law, max_contacts=2000).contacts(m.q0[None], m.v0[None])
        for m in models
    ]
    assert int(found[0].count[0]) == 60 * 59 // 2
    np.testing.assert_array_equal(found[0].geom1, found[1].geom1)
    np.testing.assert_array_equal(found[0].geom2, found[1].geom2)
    np.testing.assert_array_equal(found[0].gap, found[1].gap)


def test_a_lost_world_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the bits of worlds beside one whose state is not finite, and of its other bodies."""
    print("seed 3")
    rng = np.random.default_rng(3)
    _, model = both(monkeypatch, scattered(rng, 12))
    q, v = states(model, rng, 8)
    sim = fb.Simulator(model, max_contacts=300)
    fine = sim.rollout(q, v, steps=10)
    v[5] = np.nan
    roll = sim.rollout(q, v, steps=10)
    others = np.arange(8) != 5
    np.testing.assert_array_equal(roll.q[others], fine.q[others])
    assert int(roll.status[5]) & int(fb.sim.Status.NONFINITE)


def dominoes(count: int) -> fb.Model:
    """Return a row of upright boxes of which the first leans."""
    bodies = "".join(
        f'<body pos="{0.06 * i:g} 0 .1" euler="0 {0 if i else 12} 0"><freejoint/>'
        '<geom type="box" size=".01 .04 .1"/></body>'
        for i in range(count)
    )
    return fb.load(
        '<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="0 0 1"/>'
        f"{bodies}</worldbody></mujoco>"
    )


@pytest.mark.parametrize("law", ["hard", "mujoco"])
def test_a_row_of_dominoes_stays_on_the_floor(law: Law) -> None:
    """Have room by default for the contacts of a hundred boxes that fall over each other."""
    model = dominoes(100)
    sim = fb.Simulator(model, contact=law)
    roll = sim.rollout(model.q0, model.v0, steps=150)
    assert not int(roll.status) & int(fb.sim.Status.CONTACT_OVERFLOW)
    assert np.asarray(roll.q[-1]).reshape(-1, 7)[:, 2].min() > 0.0


def test_room_for_contacts_follows_the_scene() -> None:
    """Keep a hundred contacts at most for few bodies, sixteen a body for many."""
    assert fb.models.laikago().structure.sizes["max_contacts"] <= 100
    assert dominoes(6).structure.sizes["max_contacts"] == 100
    assert dominoes(50).structure.sizes["max_contacts"] == 800


def test_parameters_do_not_grow_with_the_pairs() -> None:
    """Hold no number for a pair that goes by rule."""
    model = dominoes(60)
    assert model.parsed.pairs.count == 60 * 61 // 2
    assert len(model.parsed.pairs) == 0
    assert len(model.params["pair_friction"]) == 0


@pytest.mark.parametrize("seed", range(20))
def test_bits_are_the_list(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Allow the same pairs by rule as there are in the list, with its condims and frictions."""
    print(f"seed {seed}")
    listed, ruled = both(monkeypatch, scattered(np.random.default_rng(seed), 12))
    one, two = listed.parsed.pairs, ruled.parsed.pairs
    assert two.ruled is not None
    bits = np.unpackbits(two.ruled.allowed.view(np.uint8), axis=1, bitorder="little")
    bits = bits[:, : listed.ngeom].astype(bool)
    np.testing.assert_array_equal(bits, bits.T)
    wanted = np.zeros_like(bits)
    wanted[one.geom1, one.geom2] = wanted[one.geom2, one.geom1] = True
    np.testing.assert_array_equal(bits, wanted)
    explicit = one.explicit >= 0
    np.testing.assert_array_equal(two.geom1, one.geom1[explicit])
    np.testing.assert_array_equal(two.explicit, one.explicit[explicit])
    assert listed.structure.touches == ruled.structure.touches
    number = len(two) + one.geom1.astype(np.int64) * listed.ngeom + one.geom2
    first, second = ruled.structure.pair_geoms(number.astype(np.int32))
    np.testing.assert_array_equal(first, one.geom1)
    np.testing.assert_array_equal(second, one.geom2)
