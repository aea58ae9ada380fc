"""The interior solver and its smooth law on random models, and on scenes with a known answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import featherback as fb
from featherback.errors import WorldError
from tests.property.gradients import Comparison, Tally, Vector, parameters
from tests.property.modes import STATES
from tests.property.test_random_gradients import activation, draw, law
from tests.property.test_random_linearize import lift

SMOOTHINGS = (1e-3, 1e-2, 1e-1)
BOX = """<mujoco><option timestep="0.002"/><worldbody>
<geom type="plane" size="0 0 1" friction="0.5 0 0"/>
<body pos="0 0 0.1001"><freejoint/>
<geom type="box" size="0.1 0.1 0.1" mass="2" friction="0.5 0 0"/></body>
</worldbody></mujoco>"""


def smoothing_of(seed: int) -> float:
    """Return the smoothing of a seed."""
    return SMOOTHINGS[seed % len(SMOOTHINGS)]


def test_exact_law_is_that_of_newton() -> None:
    """Give the velocities of the default solver, where the contact problem has one solution."""
    apart = []
    for seed in range(150):
        model, q, v, rng = draw(seed)
        u = rng.normal(size=(1, model.nu))
        rolls = [
            fb.Simulator(model, solver=solver, friction=law(seed)).rollout(q, v, u)
            for solver in ("newton", "interior")
        ]
        a, b = (roll.v[1] for roll in rolls)
        if np.abs(a - b).max() > 1e-8 * max(1.0, np.abs(a).max()):
            apart.append(seed)
        assert np.all(np.isfinite(b))
    print(f"seeds 0 to 149: apart {apart}")
    # Coulomb's law has several solutions where friction presses on its own normal
    assert len(apart) <= 3


@pytest.mark.parametrize("chunk", range(3))
def test_forward_and_columns_pair_with_reverse(chunk: int) -> None:
    """Agree in jvp, linearize and vjp to 1e-9, in states and all parameters."""
    worst = {"jvp": 0.0, "linearize": 0.0}
    touched = missing = 0
    for seed in range(chunk, 150, 3):
        model, q, v, rng = draw(seed)
        sim = fb.Simulator(model, smoothing=smoothing_of(seed // 3), friction=law(seed))
        u = rng.normal(size=(1, model.nu))
        params = parameters(model)
        roll = sim.rollout(q, v, u, params=params)
        missing += not roll.ok
        if not roll.ok:
            continue
        touched += int(sim.contacts(q, v, u[0]).count)
        bars = [rng.normal(size=x.shape) for x in (roll.q, roll.v)]
        bars[0][0], bars[1][0] = 0.0, 0.0
        found = roll.vjp(*bars)
        t, dv, du = rng.normal(size=model.nv), rng.normal(size=model.nv), rng.normal(size=u.shape)
        dq = lift(model, q, t)
        steps = {n: 1e-2 * rng.normal(size=a.shape) for n, a in params.items()}
        moved = roll.jvp(dq, dv, du, dparams=steps)
        forward = [b * m for b, m in zip(bars, moved, strict=False)]
        states = [found.q * dq, found.v * dv, found.u * du]
        backward = [*states, *(found.params[n] * steps[n] for n in steps)]
        A, B = sim.linearize(q, v, u[0])
        column = A @ np.r_[t, dv] + B @ du[0]
        place = lift(model, roll.q[1], column[: model.nv])
        columns = [bars[0][1] * place, bars[1][1] * column[model.nv :]]
        for name, one, other in (("jvp", forward, backward), ("linearize", columns, states)):
            size = sum(np.abs(x).sum() for x in (*one, *other))
            error = abs(sum(x.sum() for x in one) - sum(x.sum() for x in other)) / size
            worst[name] = max(worst[name], float(error))
            assert error <= 1e-9, f"seed {seed}: {name} is {error:.1e} apart"
    print(f"seeds {chunk} to 149 by 3: worst {worst}, {touched} contacts, {missing} unconverged")
    assert touched > 20
    assert missing <= 1


def check_gradients(seed: int, steps: int, tally: Tally, params: bool = False) -> None:
    """Compare one model's gradient with differences."""
    model, q, v, rng = draw(seed, activated=True)
    inputs = {"q": q, "v": v, "u": rng.normal(size=(steps, model.nu)), **activation(model, seed)}
    if params:
        given = parameters(model)
        given["geom_friction"] *= rng.uniform(0.8, 1.2, given["geom_friction"].shape)
        given["actuator_biasprm"][:, 2] -= rng.uniform(0.01, 0.1, model.nu)
        inputs |= given
    sim = fb.Simulator(model, smoothing=smoothing_of(seed), friction=law(seed))
    case = Comparison(sim, inputs, rng, f"seed {seed}")
    tally.count["models unconverged"] += not case.roll.ok
    if not case.roll.ok:
        return
    for name in inputs if params else STATES:
        if inputs[name].size:
            lines = case.random_directions(name, 2) if params else case.entries(name)
            case.compare(name, lines, tally)
    tally.count["models"] += 1


def test_gradients_against_differences() -> None:
    """Agree to 1e-6 of the largest entry in every entry of q, v and u."""
    tally = Tally()
    for seed in range(1000, 1040):
        check_gradients(seed, 1, tally)
    print(f"seeds 1000 to 1039: {tally}")
    assert not tally.failures, "\n".join(tally.failures)
    assert tally.count["crossed lines"] <= 0.03 * tally.count["lines"]
    assert tally.count["models"] >= 39


def test_parameters_against_differences() -> None:
    """Agree to 1e-6 of the largest entry in every parameter, along random lines."""
    tally = Tally()
    for seed in range(2000, 2012):
        check_gradients(seed, 1, tally, params=True)
    print(f"seeds 2000 to 2011: {tally}")
    assert not tally.failures, "\n".join(tally.failures)
    assert {"geom_friction", "dof_frictionloss", "body_mass", "dt"} <= tally.acted
    assert tally.count["models"] >= 11


def test_hessian_products_against_differences_of_gradients() -> None:
    """Agree to 1e-6 along random directions of q, v and u, over two steps with contact."""
    worst, touched = 0.0, 0
    for seed in range(3000, 3040):
        model, q, v, rng = draw(seed)
        sim = fb.Simulator(model, smoothing=smoothing_of(seed), friction=law(seed))
        u = rng.normal(size=(2, model.nu))
        roll = sim.rollout(q, v, u)
        if not roll.ok:
            continue
        touched += int(sim.contacts(q, v, u[0]).count)
        bars = [rng.normal(size=x.shape) for x in (roll.q, roll.v)]
        d = [lift(model, q, rng.normal(size=model.nv)), rng.normal(size=model.nv)]
        d.append(rng.normal(size=u.shape))
        product = roll.hessian_vector_product(*bars, direction=(d[0], d[1], d[2]))

        def gradient(
            step: float,
            sim: fb.Simulator = sim,
            at: tuple[Vector, ...] = (q, v, u),
            d: list[Vector] = d,
            bars: list[Vector] = bars,
        ) -> Vector:
            point = [x + step * dx for x, dx in zip(at, d, strict=True)]
            found = sim.rollout(*point).vjp(*bars)
            return np.r_[found.q, found.v, found.u.reshape(-1)]

        exact = np.r_[product.q, product.v, product.u.reshape(-1)]
        size = max(np.abs(exact).max(), np.abs(gradient(0.0)).max())
        errors = []
        for h in (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8):
            try:
                near, far = gradient(h) - gradient(-h), gradient(2 * h) - gradient(-2 * h)
            except WorldError:
                # a neighbour that is not solved
                continue
            errors.append(np.abs((8 * near - far) / (12 * h) - exact).max() / size)
        worst = max(worst, min(errors))
        assert min(errors) <= 1e-6, f"seed {seed}: {min(errors):.1e}"
    print(f"seeds 3000 to 3039: worst {worst:.1e}, {touched} contacts")
    assert touched > 20


def test_smoothing_to_zero_is_the_exact_law() -> None:
    """Tend to the exact velocities at second order where every row is held or free."""
    model = fb.load(BOX)
    v = np.array([0.6, 0.2, -0.1, 0.0, 0.0, 0.0])
    exact = fb.Simulator(model).rollout(model.q0, v, steps=1).v[1]
    error = []
    for s in (8e-4, 4e-4, 2e-4, 1e-4):
        roll = fb.Simulator(model, smoothing=s).rollout(model.q0, v, steps=1)
        assert roll.ok
        error.append(np.abs(roll.v[1] - exact).max())
    order = np.log2(np.array(error[:-1]) / error[1:])
    print(f"errors {error}, orders {order}")
    assert np.all((order > 1.8) & (order < 2.2))
    assert error[-1] < 1e-3


def test_smoothing_to_zero_on_random_models() -> None:
    """Come nearer to the exact law with every smaller smoothing, in the median and at the end."""
    errors = []
    for seed in range(4000, 4060):
        model, q, v, rng = draw(seed)
        u = rng.normal(size=(1, model.nu))
        sims = [fb.Simulator(model, smoothing=s, solver="interior") for s in (1e-2, 1e-3, 1e-4, 0)]
        found = [sim.rollout(q, v, u).v[1] for sim in sims]
        errors.append([np.abs(x - found[-1]).max() for x in found[:-1]])
    median = np.median(errors, axis=0)
    print(f"seeds 4000 to 4059: medians {median}")
    assert np.all(median[1:] < 0.2 * median[:-1])
    assert median[-1] < 1e-4


def test_a_box_rests_above_the_floor() -> None:
    """Rest where every corner's gap and load have the product of the law."""
    model, s, h = fb.load(BOX), 0.02, 0.002
    sim = fb.Simulator(model, smoothing=s)
    roll = sim.rollout(model.q0, np.zeros(model.nv), steps=3000)
    assert roll.ok
    assert np.abs(roll.v[-1]).max() < 1e-9
    # lam_n (phi / h) = s^2 / W with lam_n = m g h / 4
    weight = float(sim.params["body_invweight0"][1, 0])
    gap = h * s**2 / weight / (2 * 9.81 * h / 4)
    assert 1e-5 < gap < 1e-3
    assert roll.q[-1, 2] - 0.1 == pytest.approx(gap, rel=1e-5)


def sliding_speed(smoothing: float, push: Vector) -> Any:
    """Return d v / d push of a resting box that is pushed along the floor, for many pushes."""
    model = fb.load(BOX)
    sim = fb.Simulator(model, smoothing=smoothing)
    start = sim.rollout(model.q0, np.zeros(model.nv), steps=500)
    worlds = len(push)
    force = np.zeros((worlds, *sim.params["xfrc_applied"].shape))
    force[:, 1, 0] = push
    q, v = (np.broadcast_to(x[-1], (worlds, x.shape[1])) for x in (start.q, start.v))
    roll = sim.rollout(q, v, steps=1, params={"xfrc_applied": force})
    bar = np.zeros(roll.v.shape)
    bar[:, 1, 0] = 1.0
    return roll.vjp(np.zeros(roll.q.shape), bar).params["xfrc_applied"][:, 1, 0]


def test_no_kink_between_sticking_and_sliding() -> None:
    """Have a derivative that moves in small steps where that of the exact law jumps."""
    push = np.linspace(0.0, 2 * 2 * 9.81 * 0.5, 401)
    exact, smooth = (sliding_speed(s, push) for s in (0.0, 1e-3))
    # sticking: nothing; sliding: h / m
    free = 0.002 / 2
    assert np.abs(np.diff(exact)).max() > 0.99 * free
    assert np.abs(np.diff(smooth)).max() < 0.02 * free
    assert smooth[0] < 0.1 * free
    assert smooth[-1] > 0.95 * free
    assert np.all(np.diff(smooth) > -1e-9)


def test_a_batch_has_the_bits_of_its_worlds() -> None:
    """Give a world the bits it has alone, forward and reverse, whatever its neighbours."""
    model, q, v, rng = draw(7)
    sim: Any = fb.Simulator(model, smoothing=1e-2)
    many = 9
    qs = np.array([q] * many)
    vs = v + 0.3 * rng.normal(size=(many, model.nv))
    roll = sim.rollout(qs, vs, steps=5)
    bars = [rng.normal(size=x.shape) for x in (roll.q, roll.v)]
    found = roll.vjp(*bars)
    for k in range(many):
        one = sim.rollout(qs[k], vs[k], steps=5)
        np.testing.assert_array_equal(one.v, roll.v[k])
        alone = one.vjp(bars[0][k], bars[1][k])
        np.testing.assert_array_equal(alone.q, found.q[k])
        np.testing.assert_array_equal(alone.v, found.v[k])


def test_dry_friction_against_a_limit() -> None:
    """Give the little that dry friction moves a body by which leaves the limit of its joint."""
    text = """<mujoco><option timestep="0.002" gravity="0 0 0"/><worldbody><body>
    <joint type="slide" axis="1 0 0" limited="true" range="0 1" frictionloss="1"/>
    <geom size="0.1" mass="3"/></body></worldbody></mujoco>"""
    weight, mass, h = 1e-3, 3.0, 0.002
    params = {"dof_invweight0": np.array([weight])}
    sim = fb.Simulator(fb.load(text), solver="interior", params=params)
    loss = {"dof_frictionloss": np.ones(1)}
    for speed in (-1.0, 0.0):
        after = sim.step([-2e-7], [speed])[1]
        assert after[0] == pytest.approx(1e-4, rel=1e-4)
        found = sim.vjp([-2e-7], [speed], q_bar=[0.0], v_bar=[1.0], params=loss)
        # m dv = dlam - h dloss of a limit whose compliance R is a share of the weight, dv = -R dlam
        R = 1e-6 * weight
        slope = found.params["dof_frictionloss"][0]
        assert slope == pytest.approx(-h * R / (1 + mass * R), rel=1e-12, abs=0)
