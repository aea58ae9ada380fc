"""What callers may pass in: every refusal in full, every layout of numbers answered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import featherback as fb

MODEL = fb.models.cartpole()
Q, V, U = np.array([0.1, 0.2]), np.array([0.3, -0.4]), np.array([0.5])


@pytest.fixture(scope="module")
def sim() -> fb.Simulator:
    """Return a cart-pole simulator."""
    return fb.Simulator(MODEL)


def many(name: str, value: float, *, index: Any = 0) -> dict[str, np.ndarray]:
    """Return a parameter with one entry replaced."""
    array = MODEL.params[name].copy()
    array[index] = value
    return {name: array}


@pytest.mark.filterwarnings("error")
def test_options_are_numbers_of_any_precision() -> None:
    """Take a number of NumPy as the number that it is, without a warning."""
    for kind in (np.float32, np.float64):
        given: dict[str, Any] = {"margin": kind(0.25), "smoothing": kind(0.5)}
        options = fb.Simulator(MODEL, **given).options
        assert (options.margin, options.smoothing) == (0.25, 0.5)


def test_parameters_in_force_can_be_passed_back() -> None:
    """Take every parameter of a model as it is, also those of which there are none."""
    for model in (MODEL, fb.models.laikago(), fb.models.ball(), fb.models.chain(3)):
        sim = fb.Simulator(model, params=fb.Simulator(model).params)
        a = sim.step(model.q0, model.v0, params=sim.params)
        assert np.array_equal(a[0], sim.step(model.q0, model.v0)[0])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_arrays_of_one_world_take_the_short_way(dtype: str) -> None:
    """Step and linearize arrays in either precision and any stride, or none, as lists of them."""
    model = fb.load("""<mujoco><worldbody><body><freejoint/><geom size=".1"/>
<body><joint name="a"/><joint name="b" axis="0 1 0"/><geom size=".1"/></body></body>
</worldbody><actuator><motor joint="a"/><general joint="b" dyntype="filter" dynprm=".05"/><general
joint="a" dyntype="integrator" gainprm="2"/></actuator></mujoco>""")
    sim, rng = fb.Simulator(model, dtype=dtype), np.random.default_rng(7)
    print("seed 7")
    wide = [rng.normal(size=(n, 3)) for n in (model.nq, model.nv, model.nu, model.na)]
    q, v, u, act = (x[:, 1] for x in wide)
    narrow = [x.astype(np.float32) for x in (q, v, u, act)]
    backwards = [x[::-1].copy()[::-1] for x in (q, v, u, act)]
    fixed = [np.array(x) for x in (q, v, u, act)]
    for x in fixed:
        x.flags.writeable = False
    forms = [(q, v, u, act), narrow, backwards, fixed, (q, v, narrow[2], None), (q, v, None, None)]
    for *state, last in forms:
        short = [*state[:2], last, state[2]]
        assert sim._bridge.step_one(*short, None, False) is not None
        assert sim._bridge.linearize_one(*short) is not None
        lists = [None if x is None else x.tolist() for x in (*state, last)]
        for call in (sim.step, sim.linearize):
            found = call(*state, act=last)
            for one, other in zip(found, call(*lists[:3], act=lists[3]), strict=True):
                assert one.dtype == sim.dtype and np.array_equal(one, other)


@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
@pytest.mark.parametrize("name", ["q", "v", "u"])
def test_numbers_beyond_float32_are_refused(name: str) -> None:
    """Refuse a number that is finite in float64 and infinite in the simulator's float32."""
    given = {"q": Q, "v": V, "u": U, name: np.full_like({"q": Q, "v": V, "u": U}[name], 1e300)}
    with pytest.raises(fb.ParameterError, match=rf"step\(\): {name}\[0\] is inf"):
        fb.Simulator(MODEL, dtype="float32").step(**given)


def test_no_room_for_contacts_is_an_overflow() -> None:
    """Say that contacts were left out where there is room for none."""
    model = fb.models.box()
    tight = fb.Simulator(model, max_contacts=0).contacts(model.q0, model.v0)
    assert tight.overflow and tight.count == 0 and tight.gap.shape == (0,)
    assert not fb.Simulator(model).contacts(model.q0, model.v0).overflow


def test_ranges_without_limits_are_free(sim: fb.Simulator) -> None:
    """Take any numbers for a range that is not in force, and the axis of a joint without one."""
    out = sim.step(Q, V, params=many("jnt_range", 9.0, index=(1, 0)))
    assert np.array_equal(out[0], sim.step(Q, V)[0])
    ball = fb.models.ball()
    fb.Simulator(ball, params={"jnt_axis": np.zeros((1, 3))})


def test_rollouts_are_read_only_and_steps_are_not(sim: fb.Simulator) -> None:
    """Do not let the arrays of a rollout be written; give those of a step to the caller."""
    q, v, u = np.tile(Q, (3, 1)), np.tile(V, (3, 1)), np.ones((3, 4, 1))
    for roll in (sim.rollout(q, v, u), sim.rollout(Q, V, steps=3)):
        arrays = (roll.q, roll.v, roll.u, roll.status, roll.status_step, roll.residual, roll.sweeps)
        assert not any(a.flags.writeable for a in arrays)
        assert not np.shares_memory(roll.u, u)
        with pytest.raises(ValueError, match="read-only"):
            roll.q[0] = 0.0
    mass = MODEL.params["body_mass"]
    steps = [sim.step(Q, V, U), sim.step(q, v), sim.step(Q, V, U, params={"body_mass": mass})]
    for out in steps:
        assert all(a.flags.writeable and a.flags.c_contiguous for a in out)


def test_step_of_each_world(sim: fb.Simulator) -> None:
    """Give the step of a rollout as one number, or as one for each world."""
    q, v = np.tile(Q, (3, 1)), np.tile(V, (3, 1))
    assert sim.rollout(q, v, steps=1).dt == sim.dt
    assert sim.rollout(q, v, steps=1, params={"dt": 0.003}).dt == 0.003
    masses = np.tile(MODEL.params["body_mass"], (3, 1))
    assert sim.rollout(q, v, steps=1, params={"body_mass": masses, "dt": [0.003]}).dt == 0.003
    own = sim.rollout(q, v, steps=1, params={"dt": [[0.001], [0.002], [0.003]]})
    assert isinstance(own.dt, np.ndarray) and list(own.dt) == [0.001, 0.002, 0.003]
    assert not own.dt.flags.writeable


def test_zero_worlds(sim: fb.Simulator) -> None:
    """Answer a batch of no worlds with arrays of no worlds."""
    q, v, u = np.zeros((0, 2)), np.zeros((0, 2)), np.zeros((0, 7, 1))
    roll = sim.rollout(q, v, u)
    assert roll.q.shape == (0, 8, 2) and roll.v.shape == (0, 8, 2) and roll.status.shape == (0,)
    assert roll.ok
    assert roll.describe_status() == "all 0 worlds are OK"
    assert sim.step(q, v)[0].shape == (0, 2)
    assert sim.mass_matrix(q).shape == (0, 2, 2)
    assert sim.bias(q, v).shape == (0, 2)
    assert sim.body_poses(q)[1].shape == (0, 3, 3, 3)
    assert sim.contacts(q, v).count.shape == (0,)


def test_zero_steps(sim: fb.Simulator) -> None:
    """Answer no steps with the initial state."""
    roll = sim.rollout(Q, V, steps=0)
    assert roll.q.shape == (1, 2) and roll.steps == 0
    assert np.array_equal(roll.q[0], Q) and np.array_equal(roll.v[0], V)


def test_every_layout_gives_the_same_bits() -> None:
    """Take strided, reversed, Fortran-order, other-dtype and list inputs."""
    print("seed 0")
    rng = np.random.default_rng(0)
    model = fb.models.laikago()
    sim = fb.Simulator(model)
    q = np.tile(model.q0, (6, 1))
    v, u = rng.standard_normal((6, model.nv)), rng.standard_normal((6, 5, model.nu))
    expected = sim.rollout(q, v, u)

    def same(*arrays: Any) -> bool:
        roll = sim.rollout(*arrays)
        return np.array_equal(roll.q, expected.q) and np.array_equal(roll.v, expected.v)

    def strided(a: np.ndarray) -> np.ndarray:
        wide = np.full((*a.shape[:-1], 2 * a.shape[-1]), np.nan)
        wide[..., ::2] = a
        return wide[..., ::2]

    assert same(*map(strided, (q, v, u)))
    assert same(*(np.asfortranarray(a) for a in (q, v, u)))
    assert same(*(a[::-1].copy()[::-1] for a in (q, v, u)))
    assert same(*(a.tolist() for a in (q, v, u)))
    assert same(*(a.astype(">f8") for a in (q, v, u)))
    assert same(*(a.astype(np.longdouble) for a in (q, v, u)))
    one = sim.step(strided(q[0]), strided(v[0]), strided(u[0, 0]))
    assert np.array_equal(one[0], expected.q[0, 1])


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64, np.uint16, np.float16, np.float32])
def test_number_types(sim: fb.Simulator, kind: Any) -> None:
    """Take integers and narrower floats for what they mean."""
    q, v, u = (np.array(x, kind) for x in ([1, 2], [3, 1], [1]))
    a, b = sim.step(q, v, u), sim.step(*(x.astype(np.float64) for x in (q, v, u)))
    assert np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1])
    assert a[0].dtype == np.float64


def test_float64_inputs_of_a_float32_simulator() -> None:
    """Round float64 inputs to float32 and answer in float32."""
    narrow = fb.Simulator(MODEL, dtype="float32")
    a, b = narrow.step(Q, V, U), narrow.step(*(x.astype(np.float32) for x in (Q, V, U)))
    assert a[0].dtype == a[1].dtype == np.float32
    assert np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1])


def test_inputs_are_never_changed() -> None:
    """Leave q, v, u and parameters as they were; results share no memory with them."""
    model = fb.models.laikago()
    sim = fb.Simulator(model)
    q, v = np.tile(model.q0, (5, 1)), np.ones((5, model.nv))
    q[:, 3:7] *= 3.0
    u, mass = np.ones((5, 4, model.nu)), model.params["body_mass"] * 2
    arrays = [q, v, u, mass]
    kept = [a.copy() for a in arrays]
    roll = sim.rollout(q, v, u, params={"body_mass": mass})
    step = sim.step(q[0], v[0], u[0, 0])
    sim.contacts(q, v, u[:, 0])
    sim.mass_matrix(q)
    sim.inverse_dynamics(q, v, v)
    assert all(np.array_equal(a, b) for a, b in zip(arrays, kept, strict=True))
    outputs = (roll.q, roll.v, *step)
    assert not any(np.shares_memory(a, b) for a in arrays for b in outputs)
    assert np.array_equal(roll.q[:, 0], q)


def test_quaternions_are_normalised_on_entry() -> None:
    """Take a quaternion of any length for its direction: the next state has unit length."""
    model = fb.models.box()
    sim = fb.Simulator(model)
    q, v = model.q0.copy(), np.array([0.1, 0.2, 0.3, 1.0, 2.0, 3.0])
    q[2] += 1.0
    long = q.copy()
    long[3:] *= 7.3
    a, b = sim.step(q, v), sim.step(long, v)
    assert np.abs(a[0] - b[0]).max() <= 4 * np.finfo(float).eps
    assert np.linalg.norm(b[0][3:]) == pytest.approx(1.0, abs=4 * np.finfo(float).eps)


def test_world_axes_are_broadcast(sim: fb.Simulator) -> None:
    """Repeat what has no world axis: one state with many controls, many states with one control."""
    u = np.linspace(-1, 1, 12).reshape(3, 4, 1)
    many_controls = sim.rollout(Q, V, u)
    assert many_controls.q.shape == (3, 5, 2)
    for k in range(3):
        assert np.array_equal(many_controls.q[k], sim.rollout(Q, V, u[k]).q)
    shared = sim.rollout(np.tile(Q, (2, 1)), V, u[0])
    assert np.array_equal(shared.q[0], shared.q[1])
    assert np.array_equal(shared.q[0], many_controls.q[0])
    held = sim.rollout(Q, V, U, steps=6)
    assert np.array_equal(held.q, sim.rollout(Q, V, np.tile(U, (6, 1))).q)
    stepped = sim.step(np.tile(Q, (3, 1)), V, U)
    assert stepped[0].shape == (3, 2)
    assert np.array_equal(stepped[0][2], sim.step(Q, V, U)[0])


def test_missing_control_is_zero(sim: fb.Simulator) -> None:
    """Take no control for a zero control."""
    assert np.array_equal(sim.step(Q, V)[1], sim.step(Q, V, [0.0])[1])
    assert np.array_equal(sim.rollout(Q, V, steps=3).q, sim.rollout(Q, V, np.zeros((3, 1))).q)


def test_parameters_in_force_are_read_only() -> None:
    """Show the parameters in force, with those replaced, and do not let them be written."""
    sim = fb.Simulator(MODEL, dt=0.001, params={"gravity": [0.0, 0.0, -1.6]})
    assert sim.dt == 0.001 and sim.params["dt"][0] == 0.001
    assert list(sim.params["gravity"]) == [0.0, 0.0, -1.6]
    with pytest.raises(ValueError, match="read-only"):
        sim.params["gravity"][2] = 0.0


def test_repr_names_model_and_options() -> None:
    """Print the model, the step and every option that acts with its value."""
    text = repr(fb.Simulator(MODEL, dt=0.002, threads=2))
    assert text == (
        f'Simulator("cartpole", dt=0.002, dtype=float64, threads=2, isa={fb.isa()}, '
        "Options(contact='hard', margin=0.005, v_recover=0.5, v_rest=0.05, tolerance=1e-10, "
        "max_sweeps=200, max_contacts=0, friction='cone', solver='newton', smoothing=0.0, "
        "gradient='auto', regularization=1e-06))"
    )
    soft = repr(fb.Simulator(MODEL, contact="mujoco", cone="elliptic"))
    assert soft.endswith(
        "Options(contact='mujoco', cone='elliptic', impratio=1.0, integrator='euler', refsafe=1, "
        "eulerdamp=1, warmstart=0, max_contacts=0))"
    )
