"""The derivatives of MuJoCo's contact law on random models with every kind of row and setting."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import featherback as fb
from featherback.sim.differences import slopes, stencil
from tests.property.gradients import Vector, parameters
from tests.property.random_models import Rng
from tests.property.soft import draw_soft, soft_options
from tests.property.test_random_linearize import lift

OFFSETS = stencil()
# by how much the inputs of a step move along a line, in their units; parameters by shares
SCALES = {"q": 0.02, "v": 0.2, "u": 0.2}
# parameters whose zeros move too
ZEROS = {"xfrc_applied": 0.1, "geom_margin": 1e-3, "jnt_margin": 1e-3, "gravity": 0.1}


def one_step(seed: int) -> tuple[fb.Simulator, fb.Rollout, list[Vector], Rng]:
    """Return one step of a random model, and cotangents of its end."""
    model, q, v, rng = draw_soft(seed)
    sim = fb.Simulator(model, **soft_options(seed))
    given = parameters(model, "mujoco")
    roll = sim.rollout(q, v, rng.normal(size=(1, model.nu)), params=given)
    bars = [rng.normal(size=x.shape) for x in (roll.q, roll.v)]
    bars[0][0] = bars[1][0] = 0
    return sim, roll, bars, rng


@pytest.mark.parametrize("chunk", range(3))
def test_forward_and_columns_pair_with_reverse(chunk: int) -> None:
    """Agree in jvp, linearize and vjp to 1e-10, in states, controls and all parameters."""
    worst, touched = {"jvp": 0.0, "linearize": 0.0}, 0
    for seed in range(50 * chunk, 50 * chunk + 50):
        sim, roll, bars, rng = one_step(seed)
        model = sim.model
        assert roll.ok, seed
        touched += int(sim.contacts(roll.q[0], roll.v[0], roll.u[0]).count) > 0
        found = roll.vjp(*bars)
        t, dv, du = (rng.normal(size=n) for n in (model.nv, model.nv, model.nu))
        dq = lift(model, roll.q[0], t)
        steps = {n: 1e-2 * rng.normal(size=a.shape) for n, a in found.params.items()}
        moved = roll.jvp(dq, dv, du[None], dparams=steps)
        state = [found.q * dq, found.v * dv, found.u * du]
        reverse = {
            "jvp": [*state, *(found.params[n] * steps[n] for n in steps)],
            "linearize": state,
        }
        A, B = sim.linearize(roll.q[0], roll.v[0], roll.u[0])
        column = A @ np.r_[t, dv] + B @ du
        place = lift(model, roll.q[1], column[: model.nv])
        forward = {
            "jvp": [bar * x for bar, x in zip(bars, moved, strict=False)],
            "linearize": [bars[0][1] * place, bars[1][1] * column[model.nv :]],
        }
        for name, one in forward.items():
            other = reverse[name]
            size = sum(np.abs(x).sum() for x in (*one, *other))
            gap = abs(sum(x.sum() for x in one) - sum(x.sum() for x in other)) / size
            worst[name] = max(worst[name], float(gap))
    print(worst, touched)
    assert max(worst.values()) < 1e-10 and touched >= 25


def direction(name: str, value: Vector, model: fb.Model, rng: Rng) -> Vector:
    """Return how an input moves along a line."""
    if name == "q":
        return SCALES["q"] * lift(model, value, rng.normal(size=model.nv))
    if name in SCALES:
        return SCALES[name] * rng.normal(size=value.shape)
    share = 0.1 * value * rng.uniform(-1, 1, value.shape)
    return share + ZEROS.get(name, 0.0) * rng.uniform(-1, 1, value.shape)


def check_lines(seed: int, tally: Counter[str]) -> float:
    """Compare the slope of a loss along a line in each input with differences; return the worst."""
    sim, roll, bars, rng = one_step(seed)
    found = roll.vjp(*bars)
    inputs = {"q": roll.q[0], "v": roll.v[0], "u": roll.u, **parameters(sim.model, "mujoco")}
    gradients = {"q": found.q, "v": found.v, "u": found.u, **found.params}
    values: list[Vector] = []
    exact: list[float] = []
    names = [name for name, value in inputs.items() if value.size]
    for name in names:
        line = direction(name, inputs[name], sim.model, rng)
        offsets = OFFSETS.reshape(-1, *(1,) * line.ndim)
        moved = {**inputs, name: inputs[name] + offsets * line}
        start = [
            np.broadcast_to(moved[n], (len(OFFSETS), *inputs[n].shape)) for n in ("q", "v", "u")
        ]
        params = {n: moved[n] for n in inputs if n not in SCALES}
        ends = sim.rollout(*start, params=params)
        values.append((ends.q[:, 1] @ bars[0][1]) + (ends.v[:, 1] @ bars[1][1]))
        exact.append(float(np.sum(gradients[name] * line)))
    lines = slopes(np.array(values))
    largest = max(lines.largest(), 1e-12)
    error = np.abs(lines.value - np.array(exact)) / largest
    # a line that ends at a kink, or that rounding hides, says nothing
    sure = lines.doubt < 1e-7 * largest
    for name, known, gap in zip(names, sure, error, strict=True):
        tally[name] += bool(known and abs(exact[names.index(name)]) > 1e-9 * largest)
        assert not known or gap < 1e-7, (seed, name, gap)
    tally["sure"] += int(sure.sum())
    tally["all"] += len(sure)
    return float(error[sure].max(initial=0))


@pytest.mark.parametrize("chunk", range(2))
def test_gradients_are_those_of_differences(chunk: int) -> None:
    """Agree to 1e-7 of the largest slope with differences, in every input that acts."""
    tally: Counter[str] = Counter()
    worst = max(check_lines(seed, tally) for seed in range(1000 + 30 * chunk, 1030 + 30 * chunk))
    print(worst, dict(tally))
    assert tally["sure"] > 0.95 * tally["all"]
    settings = "geom_solref geom_solimp geom_margin geom_friction pair_solref pair_solimp "
    settings += "pair_friction pair_friction_rest jnt_solref jnt_solimp"
    assert min(tally[name] for name in ("q", "v", "u", "body_mass", *settings.split())) > 0


def test_worlds_of_a_batch_have_the_bits_of_one_world() -> None:
    """Step and differentiate worlds of a batch as each by itself, in threads too."""
    for seed in range(40, 46):
        model, q, v, rng = draw_soft(seed)
        worlds = 11
        q = np.repeat(q[None], worlds, axis=0)
        v = v + 0.3 * rng.normal(size=(worlds, model.nv))
        u = rng.normal(size=(worlds, 4, model.nu))
        bars = rng.normal(size=(worlds, model.nq)), rng.normal(size=(worlds, model.nv))
        for dtype in ("float64", "float32"):
            sim = fb.Simulator(model, dtype=dtype, threads=2, **soft_options(seed))
            roll = sim.rollout(*(x.astype(dtype) for x in (q, v, u)))
            found = roll.vjp(*(x.astype(dtype) for x in bars))
            for k in (0, 3, worlds - 1):
                one = sim.rollout(*(x[k].astype(dtype) for x in (q, v, u)))
                own = one.vjp(*(x[k].astype(dtype) for x in bars))
                assert np.array_equal(one.v, roll.v[k]) and np.array_equal(one.q, roll.q[k])
                assert np.array_equal(own.v, found.v[k]) and np.array_equal(own.u, found.u[k])


def test_float32_follows_float64() -> None:
    """Find the step of float64 in float32, to its digits, on models of every kind."""
    apart: list[float] = []
    for seed in range(300, 360):
        model, q, v, rng = draw_soft(seed)
        options, u = soft_options(seed), rng.normal(size=model.nu)
        ends = []
        for dtype in ("float64", "float32"):
            sim = fb.Simulator(model, dtype=dtype, **options)
            *_, speed, status = sim.step(q, v, u, return_status=True)[-2:]
            assert status == 0, seed
            ends.append(speed)
        change = max(float(np.abs(ends[0] - v).max()), float(np.abs(v).max()))
        apart.append(float(np.abs(ends[0] - ends[1]).max()) / change)
    print(np.median(apart), max(apart))
    assert np.median(apart) < 1e-5 and max(apart) < 1e-2


def test_jacobians_of_worlds_with_parameters_of_their_own() -> None:
    """Linearize every world of a batch at its own parameters, as each by itself."""
    model, q, v, rng = draw_soft(1)
    sim = fb.Simulator(model, **soft_options(1))
    worlds = 5
    v = v + 0.3 * rng.normal(size=(worlds, model.nv))
    q = np.repeat(q[None], worlds, axis=0)
    mass = np.array(model.params["body_mass"]) * rng.uniform(0.5, 2, (worlds, 1))
    A, B = sim.linearize(q, v, params={"body_mass": mass})
    for k in range(worlds):
        one = sim.linearize(q[k], v[k], params={"body_mass": mass[k]})
        np.testing.assert_array_equal(A[k], one[0])
        np.testing.assert_array_equal(B[k], one[1])
    assert np.abs(A[1:] - A[0]).max() > 1e-6


def test_a_turn_at_the_end_of_its_series() -> None:
    """Pair rates of rotation with dual numbers where the series of their law is at its longest.

    A stage of the integrator that turns by a little less than 0.1 takes the series; a strong motor
    turns the velocity away from it, so that every term of the series acts.
    """
    print("seed 0")
    rng = np.random.default_rng(0)
    motors = "".join(f'<motor joint="j" gear="{axis}"/>' for axis in ("1 0 0", "0 1 0", "0 0 1"))
    model = fb.load(
        '<mujoco><option timestep="1" gravity="0 0 0"/><worldbody><body>'
        '<joint name="j" type="ball"/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
        f'<geom size="0.1" mass="0"/></body></worldbody><actuator>{motors}</actuator></mujoco>'
    )
    sim = fb.Simulator(model, contact="mujoco", integrator="rk4")
    for _ in range(5):
        # half a step at v is the turn of the second stage
        v, u = rng.normal(size=(2, 3))
        v *= 2 * 0.0999 / np.linalg.norm(v)
        u -= v * (u @ v) / (v @ v)
        u *= 6 / np.linalg.norm(u)
        forward = [sim.jvp(model.q0, v, u, dv=along)[0] for along in np.eye(3)]
        reverse = [sim.vjp(model.q0, v, u, bar, np.zeros(3)).v for bar in np.eye(4)]
        exact = np.transpose(forward)
        assert np.abs(exact - reverse).max() <= 1e-14 * np.abs(exact).max()
