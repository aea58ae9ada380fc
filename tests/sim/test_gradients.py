"""Rollout.vjp against central differences, bit for bit over batches, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import featherback as fb
from featherback.errors import WorldError
from tests.sim.refusal import at_fault

Params = dict[str, np.ndarray]
EPSILONS = (1e-4, 1e-5, 1e-6, 1e-7)

ARM = """<mujoco model="arm"><compiler angle="radian"/><option timestep="0.002"/><worldbody>
<geom type="plane" size="0 0 1" friction="0.3"/>
<body pos="0 0 0.5"><joint name="x" type="slide" axis="1 0 0.1" damping="0.2" frictionloss="0.3"
 stiffness="20" springref="0.1" armature="0.05"/><geom size="0.05" pos="0.02 0 0.01" mass="1"/>
<body pos="0.01 0 -0.02"><joint name="z" type="slide" axis="0 0.1 1" damping="0.1"/>
<geom size="0.04" mass="0.5"/>
<body pos="0.02 0.01 0" quat="0.9 0.1 0.2 0.1"><joint name="turn" axis="0.1 1 0" pos="0 0 0.05"
 range="-0.4 0.1" limited="true" stiffness="2" damping="0.05"/>
<geom type="capsule" size="0.03 0.1" pos="0.05 0 -0.1" mass="0.3" contype="0" conaffinity="0"/>
<geom name="tip" size="0.06" pos="0.1 0 -0.3" friction="0.7" mass="0.2"/>
</body></body></body></worldbody><actuator>
<position joint="x" kp="30" kv="2"/><motor joint="turn" gear="1.5"/></actuator></mujoco>"""

# connect, weld and joint equalities, each a little off
HELD = """<mujoco model="held"><worldbody>
<body name="a" pos="0 0 1"><joint name="p" axis="1 0.2 0"/>
<geom type="box" size="0.1 0.05 0.02" pos="0 0.2 0" contype="0" conaffinity="0"/></body>
<body name="b" pos="0 0.6 1.0007"><freejoint/>
<geom type="box" size="0.05 0.1 0.03" contype="0" conaffinity="0"/></body>
<body name="c" pos="0.5 0 1"><freejoint/>
<geom type="capsule" size="0.03" fromto="0 0 0 0 0.4 0.1" contype="0" conaffinity="0"/></body>
<body name="d" pos="1 0 1"><joint name="r" axis="0 1 0.1"/>
<geom size="0.1" pos="0.2 0 0" contype="0" conaffinity="0"/></body></worldbody><equality>
<weld body1="a" body2="b" relpose="0.0002 0.6 0.0003 1 0.00037 0 0.00023"/>
<connect body1="b" body2="c" anchor="0.3 -0.1 0"/>
<joint joint1="r" joint2="p" polycoef="0.0003 1.2 0.3 0.1 0"/></equality></mujoco>"""

# a spring, a limit and a servo on a ball joint
BALL = """<mujoco model="ball"><compiler angle="radian"/><worldbody><body pos="0 0 1">
<joint name="j" type="ball" stiffness="3" damping="0.02" range="0 0.4" limited="true"/>
<geom type="box" size="0.03 0.1 0.05" pos="0.02 0.1 0"/></body></worldbody>
<actuator><position joint="j" kp="2" kv="0.1" gear="1 0.3 0.2"/></actuator></mujoco>"""

LAIKAGO_PARAMETERS = (
    "body_mass body_ipos body_inertia body_iquat body_pos body_quat jnt_pos jnt_axis dof_damping "
    "dof_armature geom_friction geom_size geom_pos geom_quat actuator_gainprm actuator_biasprm "
    "actuator_gear gravity dt contact_compliance"
).split()
# a compliance has no part in a hit, and the arm's tip bounces
ARM_PARAMETERS = [
    *(name for name in LAIKAGO_PARAMETERS if name != "contact_compliance"),
    "jnt_range",
    "dof_frictionloss",
    "jnt_stiffness",
    "qpos_spring",
    "geom_restitution",
]
PARAMETERS = {
    "laikago": LAIKAGO_PARAMETERS,
    "arm": ARM_PARAMETERS,
    "held": ["eq_data", "body_mass", "body_pos", "body_quat", "qpos0", "dt"],
    "ball": ["jnt_stiffness", "qpos_spring", "jnt_range", "body_inertia", "actuator_gear", "dt"],
}
# parameters that must keep their sign, so that they are changed by a share of themselves
SHARES = {
    "body_mass",
    "body_inertia",
    "dof_damping",
    "dof_armature",
    "dof_frictionloss",
    "jnt_stiffness",
    "geom_friction",
    "geom_size",
    "geom_restitution",
    "contact_compliance",
    "dt",
}


class Case:
    """A rollout with a linear loss on all its states, and its gradient."""

    def __init__(self, model: fb.Model, point: tuple[Any, ...], params: Params) -> None:
        """Roll out from (q, v, u) with the given parameters and run backwards."""
        self.rng = np.random.default_rng(0)
        self.sim = fb.Simulator(model, tolerance=1e-12)
        self.point, self.params = point, params
        self.roll = self.sim.rollout(*point, params=params)
        self.q_bar = self.rng.normal(size=self.roll.q.shape)
        self.v_bar = self.rng.normal(size=self.roll.v.shape)
        self.gradient = self.roll.vjp(self.q_bar, self.v_bar)

    def loss(self, point: tuple[Any, ...], params: Params) -> float:
        """Return the loss of another rollout."""
        roll = self.sim.rollout(*point, params=params)
        return float((roll.q * self.q_bar).sum() + (roll.v * self.v_bar).sum())

    def error(self, loss: Callable[[float], float], slope: float) -> float:
        """Return the relative error of a slope against the best of four central differences."""
        found = [(loss(e) - loss(-e)) / (2 * e) for e in EPSILONS]
        errors = [abs(x - slope) / max(abs(x), 1e-3) for x in found]
        print(f"seed 0, slope {slope:.9g}, differences {found}, error {min(errors):.1e}")
        return min(errors)


def laikago() -> Case:
    """Return a Laikago that stands with its servos moving at random, every foot on the ground."""
    model = fb.models.laikago()
    rng = np.random.default_rng(1)
    q, v = model.keyframe("stand")
    u = q[7:] + 0.02 * rng.normal(size=(50, model.nu))
    params = {name: model.params[name].copy() for name in LAIKAGO_PARAMETERS}
    # a pair takes the larger friction, which has a slope only where the two differ
    params["geom_friction"][:, 0] += 0.01 * np.arange(model.ngeom)
    params["contact_compliance"][:] = 1e-5
    return Case(model, (q, v, u), params)


def arm() -> Case:
    """Return an arm with springs that bounces and slides on its tip, one joint at its limit."""
    model = fb.load(ARM)
    rng = np.random.default_rng(2)
    q, v = np.array([0.05, -0.11, 0.09]), np.array([0.6, -0.8, 0.5])
    u = rng.normal(size=(60, 2))
    params = {name: model.params[name].copy() for name in ARM_PARAMETERS}
    params["geom_restitution"][:] = 0.3 + 0.1 * np.arange(model.ngeom)
    return Case(model, (q, v, u), params)


def held() -> Case:
    """Return bodies held together by a weld, a connect and a joint equality."""
    model = fb.load(HELD)
    v = 0.2 * np.random.default_rng(3).normal(size=model.nv)
    params = {name: model.params[name].copy() for name in PARAMETERS["held"]}
    return Case(model, (model.q0, v, np.zeros((25, 0))), params)


def ball() -> Case:
    """Return a ball joint that runs into its limit."""
    model = fb.load(BALL)
    q, v = np.array([1.0, 0.15, 0.05, 0.1]), np.array([9.0, 4.0, 5.0])
    params = {name: model.params[name].copy() for name in PARAMETERS["ball"]}
    return Case(model, (q, v, np.full((40, 1), 0.2)), params)


CASES: dict[str, Callable[[], Case]] = {
    "laikago": laikago,
    "arm": arm,
    "held": held,
    "ball": ball,
}
BUILT: dict[str, Case] = {}


def case(name: str) -> Case:
    """Return a case, built once."""
    if name not in BUILT:
        BUILT[name] = CASES[name]()
    return BUILT[name]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("index", range(3), ids=["q", "v", "u"])
def test_state_and_controls(name: str, index: int) -> None:
    """Agree with central differences in q, v and u, along random directions."""
    c = case(name)
    slope_of = (c.gradient.q, c.gradient.v, c.gradient.u)[index]
    rng = np.random.default_rng(3)
    for _ in range(3):
        d = rng.normal(size=slope_of.shape)

        def moved(e: float, d: np.ndarray = d) -> float:
            point = tuple(x + e * d if k == index else x for k, x in enumerate(c.point))
            return c.loss(point, c.params)

        assert c.error(moved, float((slope_of * d).sum())) <= 1e-5


@pytest.mark.parametrize(
    ("name", "parameter"),
    [(name, parameter) for name in CASES for parameter in PARAMETERS[name]],
)
def test_parameters(name: str, parameter: str) -> None:
    """Agree with central differences in each parameter, along a random direction."""
    c = case(name)
    x, rng = c.params[parameter], np.random.default_rng(4)
    size = np.abs(x) if parameter in SHARES else np.maximum(np.abs(x), 1e-2)
    d = rng.normal(size=x.shape) * size

    def moved(e: float) -> float:
        return c.loss(c.point, {**c.params, parameter: x + e * d})

    found = c.gradient.params[parameter]
    assert found.shape == x.shape
    assert np.any(found != 0)
    assert c.error(moved, float((found * d).sum())) <= 1e-5


def test_arm_meets_every_kind_of_row() -> None:
    """Have the arm touch the plane, reach a joint limit and rub, so that its parameters act."""
    c = case("arm")
    assert c.roll.ok
    low, high = c.params["jnt_range"][2]
    assert (c.roll.q[:, 2] >= high - 1e-6).any() or (c.roll.q[:, 2] <= low + 1e-6).any()
    steps = zip(c.roll.q[:-1], c.roll.v[:-1], c.roll.u, strict=True)
    contacts = [c.sim.contacts(q, v, u) for q, v, u in steps]
    assert any(x.force[:, 2].max() > 0 for x in contacts)


def batch(dtype: str, threads: int) -> tuple[fb.Simulator, tuple[Any, ...], Params]:
    """Return a simulator, and eleven Laikagos with their own masses, friction and steps."""
    print("seed 5")
    rng = np.random.default_rng(5)
    model = fb.models.laikago()
    sim = fb.Simulator(model, dtype=dtype, threads=threads)
    q = np.tile(model.keyframe("stand")[0], (11, 1))
    q[:, 2] += rng.uniform(0, 0.01, 11)
    v = 0.1 * rng.normal(size=(11, model.nv))
    u = q[:, None, 7:] + 0.02 * rng.normal(size=(11, 20, model.nu))
    params = {
        "body_mass": model.params["body_mass"] * rng.uniform(0.8, 1.2, (11, 1)),
        "geom_friction": model.params["geom_friction"] * rng.uniform(0.5, 1, (11, 1, 1)),
        "dt": rng.uniform(0.001, 0.002, (11, 1)),
    }
    return sim, (q, v, u), params


def same(a: fb.Gradient, b: fb.Gradient, world: Any = ...) -> bool:
    """Return whether two gradients have the same bits, the first one in some world."""
    pairs = [(a.q, b.q), (a.v, b.v), (a.u, b.u), *((a.params[k], b.params[k]) for k in b.params)]
    return a.params.keys() == b.params.keys() and all(np.array_equal(x[world], y) for x, y in pairs)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("own", [False, True], ids=["shared", "per-world"])
def test_batch_equals_single(dtype: str, own: bool) -> None:
    """Give each world the bits it has alone, with its own parameters too, for any threads."""
    sim, (q, v, u), params = batch(dtype, 1)
    params = params if own else {}
    rng = np.random.default_rng(6)
    roll = sim.rollout(q, v, u, params=params)
    q_bar, v_bar = rng.normal(size=roll.q.shape), rng.normal(size=roll.v.shape)
    whole = roll.vjp(q_bar, v_bar)
    for threads in (2, 3):
        other = batch(dtype, threads)[0].rollout(q, v, u, params=params)
        assert same(whole, other.vjp(q_bar, v_bar))
    for k in range(len(q)):
        alone = sim.rollout(q[k], v[k], u[k], params={n: a[k] for n, a in params.items()})
        assert np.array_equal(alone.q, roll.q[k])
        assert same(whole, alone.vjp(q_bar[k], v_bar[k]), k)


def test_shared_parameters_are_summed_over_worlds() -> None:
    """Sum the gradient of what all worlds share; keep it apart where each has its own."""
    sim, (q, v, u), _ = batch("float64", 1)
    mass = sim.params["body_mass"]
    shared = sim.rollout(q, v, u, params={"body_mass": mass})
    own = sim.rollout(q, v, u, params={"body_mass": np.tile(mass, (len(q), 1))})
    bar = np.ones_like(shared.q)
    a, b = shared.vjp(bar).params["body_mass"], own.vjp(bar).params["body_mass"]
    assert a.shape == mass.shape and b.shape == (len(q), *mass.shape)
    assert np.abs(a - b.sum(axis=0)).max() <= 1e-12 * np.abs(b).max()
    assert sim.rollout(q, v, u[0]).vjp(bar).u.shape == u.shape


def test_zero_cotangents_give_zero() -> None:
    """Take missing cotangents for zero; no steps give the cotangent back."""
    model = fb.models.cartpole()
    sim = fb.Simulator(model)
    roll = sim.rollout(model.q0, model.v0, steps=5, params={"gravity": [0, 0, -1.0]})
    nothing = roll.vjp(np.zeros(2))
    for array in (nothing.q, nothing.v, nothing.u, nothing.params["gravity"]):
        assert not array.any()
    still = sim.rollout(model.q0, model.v0, steps=0).vjp([[1.0, 2.0]], [[3.0, 4.0]])
    assert list(still.q) == [1.0, 2.0] and list(still.v) == [3.0, 4.0]
    assert still.u.shape == (0, 1) and still.params == {}


def test_the_callers_arrays_do_not_matter_afterwards() -> None:
    """Keep the gradient of a rollout whatever the caller does with the arrays he passed."""
    model = fb.models.cartpole()
    sim = fb.Simulator(model)
    q, v, u = np.array([0.0, 0.3]), np.zeros(2), np.ones((50, 1))
    mass = sim.params["body_mass"].copy()
    roll = sim.rollout(q, v, u, params={"body_mass": mass})
    bar = np.ones_like(roll.q)
    before = roll.vjp(bar)
    for array in (q, v, u, mass):
        array[:] = -30.0
    assert same(before, roll.vjp(bar))
    assert (roll.u == 1.0).all()
    assert (bar == 1.0).all()


def test_step_without_all_contacts_has_no_gradient() -> None:
    """Raise where contacts were left out, by world and step, with the residual."""
    model = fb.models.box()
    sim = fb.Simulator(model, max_contacts=1)
    q = np.tile(model.q0, (2, 1))
    q[0, 2], q[1, 2] = 1.0, model.params["geom_size"][-1, 2]
    roll = sim.rollout(q, np.zeros((2, 6)), steps=1)
    with pytest.raises(WorldError) as caught:
        roll.vjp(np.ones_like(roll.q))
    assert at_fault(caught.value) == [(1, 0, fb.Status.NO_GRADIENT)]
    assert caught.value.residual.tolist() == [roll.residual[1]]


def test_unfinished_solve_has_the_gradient_of_its_sweeps() -> None:
    """Agree with central differences where the contact solve did not converge."""
    model = fb.models.box()
    sim = fb.Simulator(model, max_sweeps=3, solver="pgs")
    q = np.array(model.q0)
    q[2] = model.params["geom_size"][-1, 2]
    v = np.array([1.0, 0.5, -1.0, 0.3, 0.2, 0.1])
    roll = sim.rollout(q, v, steps=1)
    assert roll.status & fb.Status.UNCONVERGED
    rng = np.random.default_rng(0)
    bar, along = rng.normal(size=roll.v.shape), rng.normal(size=6)

    def loss(step: float) -> float:
        return float((sim.rollout(q, v + step * along, steps=1).v * bar).sum())

    slope = (loss(1e-6) - loss(-1e-6)) / 2e-6
    assert abs(roll.vjp(v_bar=bar).v @ along - slope) <= 1e-7 * abs(slope)


def test_nonfinite_rollout_has_no_gradient() -> None:
    """Raise where a world left the finite numbers, by world and step; the others keep theirs."""
    model = fb.models.pendulum(2)
    sim = fb.Simulator(model)
    q, v, u = np.full((4, 2), 0.3), np.zeros((4, 2)), np.full((4, 9, 2), 0.1)
    u[2, 5, 1] = np.nan
    roll = sim.rollout(q, v, u)
    with pytest.raises(WorldError) as caught:
        roll.vjp(np.ones_like(roll.q))
    assert at_fault(caught.value) == [(2, 5, fb.Status.NONFINITE)]
    with pytest.raises(WorldError, match="world 0, first at step 0, NONFINITE"):
        sim.rollout([np.nan, 0.0], v[0], steps=2).vjp()
