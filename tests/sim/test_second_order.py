"""Forward mode over rollouts, Hessian-vector products, one-step vjp, gradient modes, diagnosis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import featherback as fb
from featherback.sim import Gradient, Rollout

Real = NDArray[np.float64]

WORLDS, STEPS = 3, 12
MODES: dict[str, dict[str, Any]] = {
    "newton": {},
    "box": {"friction": "box"},
    "implicit": {"gradient": "implicit"},
    # a fixed number of sweeps: one that depends on the inputs is no smooth function of them
    "unrolled": {"solver": "pgs", "gradient": "unrolled", "max_sweeps": 60, "tolerance": 1e-30},
    "unfinished": {"solver": "pgs", "max_sweeps": 8},
}


class Scene:
    """A Laikago on the ground with random controls, cotangents and a direction."""

    def __init__(self, seed: int, **options: Any) -> None:
        """Draw everything from the seed."""
        print(f"seed {seed}")
        rng = np.random.default_rng(seed)
        model = fb.models.laikago()
        self.sim = fb.Simulator(model, **options)
        # stand first, so that the contacts stay as they are along the direction
        rest = fb.Simulator(model).rollout(model.q0, model.v0, steps=400)
        q, v = (np.repeat(a[None, -1], WORLDS, axis=0) for a in (rest.q, rest.v))
        v = v + 0.01 * rng.normal(size=v.shape)
        self.inputs = [q, v, rng.normal(size=(WORLDS, STEPS, model.nu))]
        self.mass = model.params["body_mass"]
        self.directions = [rng.normal(size=a.shape) for a in self.inputs]
        self.dmass = self.mass * rng.normal(size=self.mass.shape)
        self.q_bar = rng.normal(size=(WORLDS, STEPS + 1, model.nq))
        self.v_bar = rng.normal(size=(WORLDS, STEPS + 1, model.nv))

    def roll(self, along: float = 0.0) -> Rollout:
        """Roll out from the inputs moved along the direction."""
        moved = [a + along * d for a, d in zip(self.inputs, self.directions, strict=True)]
        return self.sim.rollout(*moved, params={"body_mass": self.mass + along * self.dmass})

    def gradient(self, along: float = 0.0) -> Gradient:
        """Return the gradient there."""
        return self.roll(along).vjp(self.q_bar, self.v_bar)


def largest(error: Real, like: Real) -> float:
    """Return the largest error relative to the largest entry, world by world."""
    axes = tuple(range(1, error.ndim))
    return float((np.abs(error).max(axis=axes) / np.abs(like).max(axis=axes)).max())


@pytest.mark.parametrize("mode", MODES)
def test_forward_mode_pairs_with_reverse_mode(mode: str) -> None:
    """Give the same number by forward and by reverse mode over a whole rollout."""
    scene = Scene(21, **MODES[mode])
    roll, grad = scene.roll(), scene.gradient()
    q_dot, v_dot = roll.jvp(*scene.directions, dparams={"body_mass": scene.dmass})
    forward = np.vdot(q_dot, scene.q_bar) + np.vdot(v_dot, scene.v_bar)
    parts = zip((grad.q, grad.v, grad.u), scene.directions, strict=True)
    terms = [np.vdot(g, d) for g, d in parts]
    terms.append(np.vdot(grad.params["body_mass"], scene.dmass))
    error = abs(forward - sum(terms)) / sum(map(abs, terms))
    print(f"{mode}: pairing error {error:.1e}")
    assert error < (1e-7 if mode == "unfinished" else 1e-9)


@pytest.mark.parametrize("mode", MODES)
def test_hessian_vector_product_against_differences(mode: str) -> None:
    """Equal differences of the gradient, extrapolated, in every input and parameter."""
    scene = Scene(22, **MODES[mode])
    names = ("q", "v", "u")
    product = scene.roll().hessian_vector_product(
        scene.q_bar,
        scene.v_bar,
        direction=(scene.directions[0], scene.directions[1], scene.directions[2]),
        dparams={"body_mass": scene.dmass},
    )
    slopes: list[dict[str, Real]] = []
    for h in (4e-8, 2e-8):
        up, down = scene.gradient(h), scene.gradient(-h)
        slope = {n: (getattr(up, n) - getattr(down, n)) / (2 * h) for n in names}
        mass = (up.params["body_mass"] - down.params["body_mass"]) / (2 * h)
        slopes.append({**slope, "body_mass": mass[None]})
    values = {n: getattr(product, n) for n in names}
    values["body_mass"] = product.params["body_mass"][None]
    for name, value in values.items():
        expected = (4 * slopes[1][name] - slopes[0][name]) / 3
        error = largest(expected - value, value)
        print(f"{mode}: {name} {error:.1e}")
        assert error < 1e-5, name


def test_hessian_is_symmetric() -> None:
    """Give d1 . H d2 = d2 . H d1 over a rollout in contact."""
    scene = Scene(23)
    roll = scene.roll()
    rng = np.random.default_rng(24)
    other = [rng.normal(size=a.shape) for a in scene.inputs]
    products = [
        roll.hessian_vector_product(scene.q_bar, scene.v_bar, direction=(d[0], d[1], d[2]))
        for d in (scene.directions, other)
    ]
    pairs = [
        [np.vdot(x, y) for x, y in zip((p.q, p.v, p.u), d, strict=True)]
        for p, d in zip(products, (other, scene.directions), strict=True)
    ]
    error = abs(sum(pairs[0]) - sum(pairs[1])) / sum(map(abs, pairs[0] + pairs[1]))
    print(f"symmetric to {error:.1e}")
    assert error < 1e-9


def test_hessian_of_a_quadratic_loss() -> None:
    """Include the curvature of the loss that q_bar_dot and v_bar_dot carry."""
    scene = Scene(25)
    dq, dv, du = scene.directions

    def gradient(along: float) -> Gradient:
        roll = scene.roll(along)
        return roll.vjp(roll.q[:, -1], roll.v[:, -1])

    roll = scene.roll()
    q_dot, v_dot = roll.jvp(dq, dv, du, dparams={"body_mass": scene.dmass})
    product = roll.hessian_vector_product(
        roll.q[:, -1],
        roll.v[:, -1],
        direction=(dq, dv, du),
        dparams={"body_mass": scene.dmass},
        q_bar_dot=q_dot[:, -1],
        v_bar_dot=v_dot[:, -1],
    )
    slopes = [(gradient(h).u - gradient(-h).u) / (2 * h) for h in (4e-8, 2e-8)]
    error = largest((4 * slopes[1] - slopes[0]) / 3 - product.u, product.u)
    print(f"u {error:.1e}")
    assert error < 1e-5


def test_one_step_vjp_is_that_of_a_rollout() -> None:
    """Equal the vjp of a rollout of one step, bit for bit, batched and not."""
    scene = Scene(26)
    (q, v, u), sim = scene.inputs, scene.sim
    params = {"body_mass": scene.mass}
    q_bar, v_bar = scene.q_bar[:, 0], scene.v_bar[:, 0]
    one = sim.vjp(q, v, u[:, 0], q_bar, v_bar, params=params)
    other = sim.rollout(q, v, u[:, :1], params=params).vjp(q_bar, v_bar)
    assert np.array_equal(one.q, other.q)
    assert np.array_equal(one.v, other.v)
    assert np.array_equal(one.u, other.u[:, 0])
    assert np.array_equal(one.params["body_mass"], other.params["body_mass"])
    single = sim.vjp(q[1], v[1], u[1, 0], q_bar[1], v_bar[1])
    assert np.array_equal(single.q, one.q[1])
    assert single.u.shape == (sim.model.nu,)


def test_one_step_vjp_refuses_what_is_not_finite() -> None:
    """Name the world that leaves the finite numbers."""
    scene = Scene(27)
    q, v, u = scene.inputs
    v[2, 3] = 1e200
    with pytest.raises(fb.WorldError) as error:
        scene.sim.vjp(q, v, u[:, 0], scene.q_bar[:, 0])
    assert error.value.world.tolist() == [2]


def test_modes_are_counted() -> None:
    """Count the steps whose solve was reversed sweep by sweep."""
    assert np.all(Scene(28).gradient().unrolled == 0)
    assert np.all(Scene(28, **MODES["unrolled"]).gradient().unrolled == STEPS)
    unfinished = Scene(28, **MODES["unfinished"]).gradient().unrolled
    print(f"{unfinished} of {STEPS} steps unrolled")
    assert np.all((unfinished > 0) & (unfinished < STEPS))
    implicit = Scene(28, solver="pgs", max_sweeps=8, gradient="implicit").gradient()
    assert np.all(implicit.unrolled == 0)


def slider(limits: str) -> fb.Simulator:
    """Return a mass on a slide, driven by a motor with limits."""
    model = fb.load(
        "<mujoco><worldbody><body><joint name='j' type='slide'/><geom size='.1' mass='1'/></body>"
        f"</worldbody><actuator><motor joint='j' {limits}/></actuator></mujoco>"
    )
    return fb.Simulator(model)


def touching(dt: float, **options: float) -> fb.Simulator:
    """Return a ball that touches the floor, without weight."""
    model = fb.load(
        f"<mujoco><option gravity='0 0 0' timestep='{dt}'/><worldbody>"
        "<geom type='plane' size='1 1 1'/><body pos='0 0 .125'><freejoint/>"
        "<geom size='.125' mass='1'/></body></worldbody></mujoco>"
    )
    return fb.Simulator(model, **options)


def test_ties_are_counted() -> None:
    """Count a control at its limit, and a touch without a push."""
    sim = slider("ctrllimited='true' ctrlrange='-1 1'")
    u = np.array([[0.5], [1.0], [2.0], [-1.0]])
    assert int(sim.rollout([0.0], [0.0], u).vjp([1.0]).ties) == 2
    sim = touching(0.002)
    grad = sim.rollout(sim.model.q0, sim.model.v0, steps=1).vjp(v_bar=np.eye(6)[2])
    print(f"ties {grad.ties}, dv/dv {grad.v}")
    assert int(grad.ties) == 1
    assert np.all(np.isfinite(grad.q))


def test_ties_of_forces_are_counted() -> None:
    """Count a force at an end of its range; an overlap is no border, however deep."""
    sim = slider("forcelimited='true' forcerange='-2 1'")
    for u, ties in ((0.5, 0), (1.0, 1), (2.0, 0), (-2.0, 1), (-3.0, 0)):
        assert sim.rollout([0.0], [0.0], [[u]]).vjp([1.0]).ties == ties
    sim = touching(2**-9, v_recover=0.5)
    for depth in (2**-10, 2**-9, 2**-11, -(2**-10)):
        q = sim.model.q0 - depth * np.eye(7)[2]
        assert sim.rollout(q, sim.model.v0, steps=1).vjp(v_bar=np.eye(6)[2]).ties == 0


def test_ties_of_actuators_on_tendons_are_counted() -> None:
    """Count controls and forces at their limits whatever the actuator acts on."""
    head = (
        "<mujoco><worldbody><body><joint name='x' type='slide' axis='1 0 0'/>"
        "<geom size='0.1' mass='1'/><site name='s'/></body></worldbody>"
        "<tendon><fixed name='t'><joint joint='x' coef='1'/></fixed></tendon><actuator>"
    )
    for target in ("joint='x'", "tendon='t'", "site='s' gear='1 0 0 0 0 0'"):
        text = f"<motor {target} ctrlrange='-1 1' forcerange='-1 1'/></actuator></mujoco>"
        sim = fb.Simulator(fb.load(head + text))
        for u, ties in ((0.5, 0), (1.0, 2), (2.0, 1)):
            assert sim.rollout([0.0], [0.0], [[u]]).vjp([1.0]).ties == ties, target


@pytest.mark.parametrize("law", ["hard", "mujoco"])
def test_muscles_between_their_time_constants_are_ties(law: str) -> None:
    """Take the time constant of activation where the control is the activation, and count it."""
    text = (
        "<mujoco><worldbody><body><joint name='x'/><geom size='0.1' mass='1'/></body></worldbody>"
        "<actuator><general joint='x' dyntype='muscle' dynprm='.01 .04 0' ctrlrange='0 1'/>"
        "</actuator></mujoco>"
    )
    sim = fb.Simulator(fb.load(text), contact=law)
    for at, ties in ((0.0, 2), (0.5, 1), (1.0, 2)):
        roll = sim.rollout([0.0], [0.0], [[at]], act=[at])
        found = roll.vjp(act_bar=[1.0])
        assert int(found.ties) == ties
        # the slope to the inside, and in the middle that of activation
        inside = -1e-6 if at == 1.0 else 1e-6
        moved = sim.rollout([0.0], [0.0], [[at + inside]], act=[at])
        slope = (moved.act[-1, 0] - roll.act[-1, 0]) / inside
        assert found.u[0, 0] == pytest.approx(slope, rel=1e-6)
    assert sim.rollout([0.0], [0.0], [[0.3]], act=[0.5]).vjp(act_bar=[1.0]).ties == 0


def test_diagnosis_follows_the_gradient() -> None:
    """Tell the length of the gradient at every state, contacts and events."""
    scene = Scene(29)
    roll = scene.roll()
    found = roll.diagnose(scene.q_bar[:, -1], scene.v_bar[:, -1])
    assert found.norm.shape == (WORLDS, STEPS)
    # free directions of the gradient at the start, quaternion in the tangent space
    grad = roll.vjp(scene.q_bar[:, -1], scene.v_bar[:, -1])
    assert np.all(found.norm[:, 0] >= np.linalg.norm(grad.v, axis=1))
    for w, step in ((0, 3), (2, 7)):
        contacts = scene.sim.contacts(roll.q[w, step], roll.v[w, step], roll.u[w, step])
        pushing = np.linalg.norm(contacts.force[: int(contacts.count)], axis=1) > 0
        assert int(found.contacts[w, step]) == int(pushing.sum())
    changes = found.contacts[:, 1:] != found.contacts[:, :-1]
    assert np.array_equal(found.events[:, 1:], changes)
    assert str(found).count("world") == WORLDS
    assert "growth" in str(found)


@pytest.mark.parametrize("mode", ["newton", "unfinished"])
def test_diagnosis_is_that_of_each_step(mode: str) -> None:
    """Note of every step and world what the gradient from there on, and of that step alone, say."""
    scene = Scene(31, **MODES[mode])
    roll = scene.roll()
    params = {"body_mass": scene.mass}
    found = roll.diagnose(scene.q_bar[:, -1], scene.v_bar[:, -1])
    for w, k in ((0, 0), (1, 0), (1, 5), (2, STEPS - 1)):
        q, v, u = roll.q[w, k], roll.v[w, k], roll.u[w, k:]
        on = scene.sim.rollout(q, v, u, params=params)
        grad = on.vjp(scene.q_bar[w, -1], scene.v_bar[w, -1])
        # angular velocities turn the quaternion in the body's frame: dq = q (0, w) / 2
        x, y, z = q[4:7]
        turn = 0.5 * np.array([[-x, -y, -z], [q[3], -z, y], [z, q[3], -x], [-y, x, q[3]]])
        free = np.concatenate([grad.q[:3], turn.T @ grad.q[3:7], grad.q[7:], grad.v])
        assert found.norm[w, k] == pytest.approx(np.linalg.norm(free), rel=1e-12)
        one = scene.sim.rollout(q, v, u[:1], params=params)
        assert found.residual[w, k] == one.residual
        assert found.unrolled[w, k] == one.vjp(grad.q).unrolled
    assert found.unrolled.any() == (mode == "unfinished")


def test_diagnosis_counts_ties_and_activations() -> None:
    """Note ties at the step they stand in, and activations in the length of the gradient."""
    model = fb.load(
        "<mujoco><worldbody><body><joint name='j' type='slide'/><geom size='.1' mass='1'/></body>"
        "</worldbody><actuator><motor joint='j' ctrllimited='true' ctrlrange='-1 1'/>"
        "<general joint='j' dyntype='integrator' gainprm='3'/></actuator></mujoco>"
    )
    sim = fb.Simulator(model)
    u = np.array([[[0.5, 0.1], [1.0, 0.2], [0.0, 0.3]], [[-1.0, 0.1], [0.0, 0.2], [0.0, 0.3]]])
    roll = sim.rollout(np.zeros((2, 1)), np.zeros((2, 1)), u, act=np.ones((2, 1)))
    found = roll.diagnose(np.ones((2, 1)), act_bar=np.full((2, 1), 2.0))
    assert found.ties.tolist() == [[0, 1, 0], [1, 0, 0]]
    grad = roll.vjp(np.ones((2, 1)), act_bar=np.full((2, 1), 2.0))
    both = np.sqrt(grad.q**2 + grad.v**2 + grad.act**2)[:, 0]
    np.testing.assert_allclose(found.norm[:, 0], both, rtol=1e-14)


def test_diagnosis_counts_hits_within_a_step() -> None:
    """Count the contact of a hit, and what touches at its moment, in worlds that are hit alone."""
    model = fb.load(
        "<mujoco><option gravity='0 0 0' timestep='0.002'/><worldbody>"
        "<geom type='plane' size='2 2 1'/><body pos='0 0 .125'><freejoint/>"
        "<geom size='.125' mass='1'/></body><body pos='1 0 .125'><freejoint/>"
        "<geom size='.125' mass='1'/></body></worldbody></mujoco>"
    )
    sim = fb.Simulator(model, params={"geom_restitution": np.full(model.ngeom, 0.5)})
    q, v = np.repeat(model.q0[None], 3, axis=0), np.zeros((3, model.nv))
    # one ball hits the floor, leaves it, hits it; the other touches it in the first two worlds
    q[:, 2] += 0.001
    v[:, 2] = -1.0, 1.0, -1.0
    q[2, 9] += 0.5
    roll = sim.rollout(q, v, steps=2)
    # the compliance of rows takes 1e-6 of an impulse
    np.testing.assert_allclose(roll.v[:, -1, 2], [0.5, 1.0, 0.5], rtol=0, atol=2e-6)
    v_bar = np.tile(np.eye(model.nv)[2], (3, 1))
    found = roll.diagnose(v_bar=v_bar)
    assert found.contacts.tolist() == [[1, 0], [0, 0], [1, 0]]
    # the touch is a tie of the step, and of its hit once more
    assert found.ties.tolist() == [[2, 1], [1, 1], [0, 0]]
    assert roll.vjp(v_bar=v_bar).ties.tolist() == [3, 2, 0]


def test_growth_rate_of_an_unstable_motion() -> None:
    """Measure the rate sqrt(g / L) at which a pendulum on its head departs."""
    model = fb.load(
        "<mujoco><option timestep='0.001'/><worldbody><body><joint axis='0 1 0'/>"
        "<geom type='sphere' pos='0 0 1' size='.001' mass='1'/></body></worldbody></mujoco>"
    )
    roll = fb.Simulator(model).rollout(model.q0, model.v0, steps=4000)
    growth = float(roll.diagnose([1.0]).growth)
    print(f"growth {growth:.4f} per second")
    assert growth == pytest.approx(np.sqrt(9.81), rel=0.02)


def test_no_steps_and_no_worlds() -> None:
    """Return cotangents and their tangents themselves without a step, nothing without a world."""
    sim = fb.Simulator(fb.models.pendulum(2))
    for checkpoint in ("step", 3):
        still = sim.rollout(np.zeros(2), np.zeros(2), steps=0, checkpoint=checkpoint)
        assert still.vjp(np.ones(2)).q.tolist() == [1.0, 1.0]
        none = sim.rollout(np.zeros((0, 2)), np.zeros((0, 2)), steps=3, checkpoint=checkpoint)
        assert none.vjp(np.zeros((0, 2))).u.shape == (0, 3, 2)
    still = sim.rollout(np.zeros(2), np.zeros(2), steps=0)
    assert still.hessian_vector_product(q_bar_dot=np.ones(2)).q.tolist() == [1.0, 1.0]
    assert str(still.diagnose(np.ones(2))) == "world 0: no steps"
