"""Activation on the surface: where act stands in calls and results, and its derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import featherback as fb

ARM = """<mujoco model="arm"><option timestep="0.004"/>
<worldbody>
<body><joint name="a" axis="0 1 0" damping="0.1"/>
<geom type="capsule" fromto="0 0 0 0 0 -.5" size=".04"/>
<body pos="0 0 -.5"><joint name="b" axis="0 1 0" damping="0.1"/>
<geom type="capsule" fromto="0 0 0 0 0 -.4" size=".03"/></body></body></worldbody>
<actuator>
<general joint="a" dyntype="filter" dynprm="0.05" gainprm="3"/>
<motor joint="b" gear="0.5"/>
<general joint="b" dyntype="integrator" gainprm="2" biastype="affine" biasprm="0 -2 -0.2"/>
</actuator></mujoco>"""
STEPS = 12


@pytest.fixture(scope="module")
def sim() -> fb.Simulator:
    """Return a simulator of an arm with two activations."""
    return fb.Simulator(fb.load(ARM))


def start(sim: fb.Simulator, worlds: int) -> dict[str, np.ndarray]:
    """Return random states and controls."""
    print("seed 4")
    rng = np.random.default_rng(4)
    m = sim.model
    lengths = {"q": (m.nq,), "v": (m.nv,), "act": (m.na,), "u": (STEPS, m.nu)}
    return {name: 0.3 * rng.normal(size=(worlds, *n)) for name, n in lengths.items()}


def test_steps_make_a_rollout(sim: fb.Simulator) -> None:
    """Return act third from step, for one world and for many, and the same bits as a rollout."""
    given = start(sim, 3)
    roll = sim.rollout(**given)
    assert sim.model.na == 2
    assert roll.act.shape == (3, STEPS + 1, 2)
    assert np.array_equal(roll.act[:, 0], given["act"])
    state = tuple(given[name] for name in ("q", "v", "act"))
    one = tuple(a[1] for a in state)
    for t in range(STEPS):
        u = given["u"][:, t]
        *state, status = sim.step(*state[:2], u, act=state[2], return_status=True)
        one = sim.step(*one[:2], u[1], act=one[2])
        assert len(state) == len(one) == 3 and not status.any()
        for batch, single, name in zip(state, one, ("q", "v", "act"), strict=True):
            assert np.array_equal(batch, getattr(roll, name)[:, t + 1])
            assert np.array_equal(single, batch[1])
    some = sim.rollout(**given, checkpoint=5)
    assert np.array_equal(some.act, roll.act[:, some.kept])


def test_missing_activation_is_zero(sim: fb.Simulator) -> None:
    """Take no activation for zero, in every call."""
    given = start(sim, 1)
    q, v, u = given["q"][0], given["v"][0], given["u"][0, 0]
    zero = np.zeros(2)
    for call in (sim.step, sim.linearize):
        for one, two in zip(call(q, v, u), call(q, v, u, act=zero), strict=True):
            assert np.array_equal(one, two)
    assert np.array_equal(
        sim.rollout(q, v, u, steps=3).act, sim.rollout(q, v, u, steps=3, act=zero).act
    )
    with pytest.raises(fb.ShapeError, match=r"act has shape \(3,\); expected \(2,\)"):
        sim.step(q, v, u, act=np.zeros(3))
    with pytest.raises(fb.ParameterError, match=r"act\[1\] is nan"):
        sim.step(q, v, u, act=np.array([0.0, np.nan]))


def test_no_activation_has_no_width() -> None:
    """Return arrays of width zero, and two of a step, where a model has no activation."""
    model = fb.models.cartpole()
    sim = fb.Simulator(model)
    roll = sim.rollout(model.q0, model.v0, steps=2)
    assert roll.act.shape == (3, 0)
    assert roll.vjp(np.ones(2)).act.shape == (0,)
    assert len(sim.step(model.q0, model.v0, act=np.zeros(0))) == len(roll.jvp(np.ones(2))) == 2


def test_gradients_pass_the_check(sim: fb.Simulator) -> None:
    """Agree with differences, along act too."""
    report = fb.check_gradients(sim, act=[0.2, -0.1], q=[0.3, -0.2], params=["body_mass"])
    print(report)
    assert report.ok
    assert set(report.errors) == {"q", "v", "act", "u", "body_mass"}


@pytest.mark.parametrize("checkpoint", ["step", 5])
def test_modes_of_differentiation_agree(sim: fb.Simulator, checkpoint: str | int) -> None:
    """Pair jvp, vjp, linearize and Hessian products of all parts of the state."""
    given = start(sim, 2)
    roll = sim.rollout(**given)
    rng = np.random.default_rng(5)
    dots = {name: rng.normal(size=a.shape) for name, a in given.items()}
    names = ("q", "v", "act")
    bars = [rng.normal(size=getattr(roll, name).shape) for name in names]
    tangents = roll.jvp(dots["q"], dots["v"], dots["u"], dact=dots["act"])
    assert [x.shape for x in tangents] == [getattr(roll, name).shape for name in names]
    forward = sum(float((x * bar).sum()) for x, bar in zip(tangents, bars, strict=True))

    def cut(first: int, q: np.ndarray, v: np.ndarray, act: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(bar[:, first : first + q.shape[1]] for bar in bars)

    found = sim.rollout(**given, checkpoint=checkpoint).vjp(cotangents=cut)
    backward = sum(float((getattr(found, name) * dots[name]).sum()) for name in given)
    assert forward == pytest.approx(backward, rel=1e-10)
    whole = roll.vjp(*bars)
    assert all(np.array_equal(getattr(whole, k), getattr(found, k)) for k in given)
    direction = (dots["q"], dots["v"], dots["u"])
    product = roll.hessian_vector_product(*bars, direction=direction, dact=dots["act"])
    e = 1e-6
    plus, minus = (
        sim.rollout(**{k: a + s * e * dots[k] for k, a in given.items()}).vjp(*bars)
        for s in (1, -1)
    )
    for name in given:
        slope = (getattr(plus, name) - getattr(minus, name)) / (2 * e)
        assert np.abs(getattr(product, name) - slope).max() <= 1e-7 * (1 + np.abs(slope).max())


def test_one_step_with_activation(sim: fb.Simulator) -> None:
    """Lay A out as (dq, v, act), and pair it with the derivatives of one step."""
    given = {name: a[0] for name, a in start(sim, 1).items()}
    given["u"] = given["u"][0]
    A, B = sim.linearize(**given)
    assert A.shape == (6, 6) and B.shape == (6, 3)
    rng = np.random.default_rng(6)
    dq, dv, dact, du = (rng.normal(size=n) for n in (2, 2, 2, 3))
    x_dot = np.concatenate(sim.jvp(**given, dq=dq, dv=dv, dact=dact, du=du))
    expected = A @ np.concatenate([dq, dv, dact]) + B @ du
    assert np.abs(x_dot - expected).max() <= 1e-12 * np.abs(expected).max()
    bar = rng.normal(size=6)
    found = sim.vjp(**given, q_bar=bar[:2], v_bar=bar[2:4], act_bar=bar[4:])
    assert np.concatenate([found.q, found.v, found.act]) == pytest.approx(bar @ A, rel=1e-10)
    assert found.u == pytest.approx(bar @ B, rel=1e-10)
    assert sim.contacts(**given).count == 0


@pytest.mark.parametrize(("dtype", "dt"), [("float64", 1e295), ("float32", 1e25)])
def test_jacobian_of_activation_that_overflows_raises(dtype: str, dt: float) -> None:
    """Refuse a Jacobian whose row of act is not finite, though its state and other rows are.

    dt over the time constant overflows; the range of act hides it from the state, and the actuator
    without a gain from the motion.
    """
    model = fb.load("""<mujoco><option gravity="0 0 0"/><worldbody>
<body><joint name="a" type="slide"/><geom size=".1"/></body></worldbody><actuator><general joint="a"
dyntype="filter" gainprm="0" actlimited="true" actrange="-1 1"/></actuator></mujoco>""")
    z, worlds = np.zeros((3, 1), dtype), np.full((3, 1, 1), 1e-15)
    sim = fb.Simulator(model, dt=dt, dtype=dtype, params={"actuator_dynprm": worlds[0]})
    q, v, act = sim.step(z, z, z + 1, act=z)
    assert not q.any() and not v.any() and np.array_equal(act, z + 1)
    with pytest.raises(fb.WorldError, match="the Jacobian of world 0 is not finite"):
        sim.linearize(z[0], z[0], z[0] + 1, act=z[0])
    # worlds with a time constant as long as the step have a Jacobian
    worlds[::2] = dt
    with pytest.raises(fb.WorldError) as caught:
        sim.linearize(z, z, z + 1, act=z, params={"actuator_dynprm": worlds})
    assert caught.value.world.tolist() == [1]
