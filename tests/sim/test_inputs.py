"""What callers may pass in: every refusal in full, every layout of numbers answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import featherback as fb
from featherback.errors import ParameterError, ShapeError

MODEL = fb.models.cartpole()
Q, V, U = np.array([0.1, 0.2]), np.array([0.3, -0.4]), np.array([0.5])
ENDS = "the lower end must not lie above the upper."
QUATERNION = "a quaternion must have a length > 0."
EXPECTED = 'expected (2,) or (worlds, 2) for model "cartpole".'
CONTROLS = 'expected (steps, 1), (worlds, steps, 1) or, with steps=, (1,) for model "cartpole".'


def refusal(call: Callable[[], Any], kind: type[Exception]) -> str:
    """Return the message with which a call is refused."""
    with pytest.raises(kind) as caught:
        call()
    assert isinstance(caught.value, fb.FeatherbackError)
    return str(caught.value)


@pytest.fixture(scope="module")
def sim() -> fb.Simulator:
    """Return a cart-pole simulator."""
    return fb.Simulator(MODEL)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros(3), V), f"step(): q has shape (3,); {EXPECTED}"),
        ((np.zeros((4, 3)), V), f"step(): q has shape (4, 3); {EXPECTED}"),
        ((np.zeros((1, 1, 2)), V), f"step(): q has shape (1, 1, 2); {EXPECTED}"),
        ((Q, np.zeros(1)), f"step(): v has shape (1,); {EXPECTED}"),
        (
            (Q, V, np.zeros(2)),
            'step(): u has shape (2,); expected (1,) or (worlds, 1) for model "cartpole".',
        ),
        (
            (np.zeros((3, 2)), np.zeros((4, 2))),
            "step(): q has 3 worlds and v has 4; they must agree.",
        ),
        (
            (np.zeros((3, 2)), np.zeros((3, 2)), np.zeros((2, 1))),
            "step(): q has 3 worlds and u has 2; they must agree.",
        ),
        (
            (np.array([1j, 0]), V),
            "step(): q has dtype complex128; expected real numbers (float64).",
        ),
        (
            (np.array([True, False]), V),
            "step(): q has dtype bool; expected real numbers (float64).",
        ),
        ((["a", "b"], V), "step(): q has dtype <U1; expected real numbers (float64)."),
        (([None, 1.0], V), "step(): q has dtype object; expected real numbers (float64)."),
        ((None, V), "step(): q is None; expected real numbers (float64)."),
        ((Q, None), "step(): v is None; expected real numbers (float64)."),
        ((Q, None, U), "step(): v is None; expected real numbers (float64)."),
    ],
)
def test_step_refuses(sim: fb.Simulator, arguments: tuple[Any, ...], message: str) -> None:
    """Refuse states and controls of the wrong shape, count or type with one sentence."""
    assert refusal(lambda: sim.step(*arguments), ShapeError) == message


def test_ragged_lists_are_refused(sim: fb.Simulator) -> None:
    """Refuse a list that is no array, with NumPy's own reason."""
    message = refusal(lambda: sim.step([[1.0, 2.0], [3.0]], V), ShapeError)
    assert message.startswith("step(): q is not an array of numbers: ")
    assert message.endswith(".")


@pytest.mark.parametrize(
    ("u", "steps", "message"),
    [
        (None, None, "rollout(): neither u nor steps is given; pass one of them."),
        (None, -1, "rollout(): steps is -1; it must be a whole number >= 0."),
        (None, 2.5, "rollout(): steps is 2.5; it must be a whole number >= 0."),
        (None, "9", "rollout(): steps is '9'; it must be a whole number >= 0."),
        (None, True, "rollout(): steps is True; it must be a whole number >= 0."),
        (np.zeros(1), None, f"rollout(): u has shape (1,); {CONTROLS}"),
        (np.zeros((4, 2)), None, f"rollout(): u has shape (4, 2); {CONTROLS}"),
        (np.zeros((1, 1, 4, 1)), None, f"rollout(): u has shape (1, 1, 4, 1); {CONTROLS}"),
        (np.zeros((4, 1)), 5, "rollout(): u has 4 steps and steps is 5."),
        (
            np.zeros((2, 4, 1)),
            None,
            "rollout(): q has 3 worlds and u has 2; they must agree.",
        ),
    ],
)
def test_rollout_refuses(sim: fb.Simulator, u: Any, steps: Any, message: str) -> None:
    """Refuse controls and step counts that do not fit."""
    q, v = np.tile(Q, (3, 1)), np.tile(V, (3, 1))
    assert refusal(lambda: sim.rollout(q, v, u, steps=steps), ShapeError) == message


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.mass_matrix(np.zeros(3)), f"mass_matrix(): q has shape (3,); {EXPECTED}"),
        (lambda s: s.bias(Q, np.zeros(3)), f"bias(): v has shape (3,); {EXPECTED}"),
        (
            lambda s: s.forward_dynamics(Q, V, np.zeros(3)),
            f"forward_dynamics(): tau has shape (3,); {EXPECTED}",
        ),
        (
            lambda s: s.inverse_dynamics(Q, V, np.zeros(3)),
            f"inverse_dynamics(): a has shape (3,); {EXPECTED}",
        ),
        (
            lambda s: s.inverse_dynamics(np.zeros((2, 2)), V, np.zeros((3, 2))),
            "inverse_dynamics(): q has 2 worlds and a has 3; they must agree.",
        ),
        (lambda s: s.contacts(np.zeros(3), V), f"contacts(): q has shape (3,); {EXPECTED}"),
        (
            lambda s: s.forward_dynamics(Q, V, None),
            "forward_dynamics(): tau is None; expected real numbers (float64).",
        ),
        (
            lambda s: s.inverse_dynamics(Q, V, None),
            "inverse_dynamics(): a is None; expected real numbers (float64).",
        ),
        (
            lambda s: s.rollout(None, V, steps=1),
            "rollout(): q is None; expected real numbers (float64).",
        ),
        (
            lambda s: s.step(Q, V, params={"gravity": None}),
            'step(): params["gravity"] is None; expected real numbers (float64).',
        ),
    ],
)
def test_outputs_refuse(
    sim: fb.Simulator, call: Callable[[fb.Simulator], Any], message: str
) -> None:
    """Refuse wrong shapes in dynamics outputs, by the name of the function called."""
    assert refusal(lambda: call(sim), ShapeError) == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "float16"}, "dtype is 'float16'; it must be one of float64, float32."),
        ({"friction": "pyramid"}, "friction is 'pyramid'; it must be one of cone, box."),
        ({"solver": "lcp"}, "solver is 'lcp'; it must be one of newton, pgs."),
        ({"dt": 0.0}, "dt is 0.0; it must be > 0."),
        ({"dt": -1e-3}, "dt is -0.001; it must be > 0."),
        ({"dt": "fast"}, "dt is 'fast'; it must be a finite number."),
        ({"dt": np.nan}, "dt is nan; it must be a finite number."),
        ({"threads": 0}, "threads is 0; it must be a whole number from 1 to 256."),
        ({"threads": 257}, "threads is 257; it must be a whole number from 1 to 256."),
        ({"threads": 1.5}, "threads is 1.5; it must be a whole number from 1 to 256."),
        ({"threads": True}, "threads is True; it must be a whole number from 1 to 256."),
        ({"margin": -0.1}, "margin is -0.1; it must be >= 0."),
        ({"v_recover": 0}, "v_recover is 0; it must be > 0."),
        ({"v_rest": -1}, "v_rest is -1; it must be >= 0."),
        ({"tolerance": 0.0}, "tolerance is 0.0; it must be > 0."),
        ({"max_sweeps": 0}, "max_sweeps is 0; it must be a whole number from 1 to 1000000."),
        (
            {"max_sweeps": 2**40},
            "max_sweeps is 1099511627776; it must be a whole number from 1 to 1000000.",
        ),
        ({"max_contacts": -1}, "max_contacts is -1; it must be a whole number from 0 to 10000."),
        (
            {"max_contacts": 10001},
            "max_contacts is 10001; it must be a whole number from 0 to 10000.",
        ),
        (
            {"params": [1.0]},
            "params is of type list; it must be a dict from parameter names to arrays, such as "
            '{"body_mass": mass}.',
        ),
    ],
)
def test_simulator_refuses(options: dict[str, Any], message: str) -> None:
    """Refuse options outside their range."""
    assert refusal(lambda: fb.Simulator(MODEL, **options), ParameterError) == (
        f"Simulator(): {message}"
    )


@pytest.mark.parametrize("model", ["laikago", None, MODEL.mujoco], ids=["str", "none", "mujoco"])
def test_only_models_are_simulated(model: Any) -> None:
    """Refuse what is not a Model, and say where one comes from."""
    assert refusal(lambda: fb.Simulator(model), ParameterError) == (
        f"Simulator(): model is of type {type(model).__name__}; pass what featherback.load or "
        'featherback.models returns, such as featherback.load("robot.xml").'
    )


def many(name: str, value: float, *, index: Any = 0) -> dict[str, np.ndarray]:
    """Return a parameter with one entry replaced."""
    array = MODEL.params[name].copy()
    array[index] = value
    return {name: array}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"body_mas": 1},
            'unknown parameter "body_mas"; did you mean body_mass, body_pos, body_quat?',
        ),
        (
            many("body_mass", np.nan),
            'params["body_mass"] holds a NaN or infinity; give finite numbers.',
        ),
        (
            many("gravity", np.inf),
            'params["gravity"] holds a NaN or infinity; give finite numbers.',
        ),
        (many("body_mass", -2.0), 'params["body_mass"] holds -2 kg; it must be >= 0.'),
        (many("body_inertia", -1.0), 'params["body_inertia"] holds -1 kg·m²; it must be >= 0.'),
        (
            many("jnt_stiffness", -1.0),
            'params["jnt_stiffness"] holds -1 N·m/rad or N/m; it must be >= 0.',
        ),
        (
            many("dof_damping", -0.5),
            'params["dof_damping"] holds -0.5 N·m·s/rad or N·s/m; it must be >= 0.',
        ),
        (
            many("dof_armature", -1.0),
            'params["dof_armature"] holds -1 kg·m² or kg; it must be >= 0.',
        ),
        (
            many("dof_frictionloss", -1.0),
            'params["dof_frictionloss"] holds -1 N·m or N; it must be >= 0.',
        ),
        (many("geom_friction", -1.0), 'params["geom_friction"] holds -1 no unit; it must be >= 0.'),
        (
            many("geom_restitution", -1.0),
            'params["geom_restitution"] holds -1 no unit; it must be >= 0.',
        ),
        (
            many("contact_compliance", -1.0),
            'params["contact_compliance"] holds -1 m/N; it must be >= 0.',
        ),
        (many("geom_size", -1.0), 'params["geom_size"] holds -1 m; it must be >= 0.'),
        ({"dt": 0.0}, 'params["dt"] is 0 s; it must be > 0.'),
        ({3: 1.0}, f'unknown parameter "3"; known: {", ".join(MODEL.params)}.'),
        (
            many("geom_restitution", 5.0),
            'params["geom_restitution"] holds 5; it must be from 0 to 1.',
        ),
        *(
            (many(name, 0.0, index=1), f'params["{name}"][1] is zero; {QUATERNION}')
            for name in ("body_quat", "body_iquat", "geom_quat")
        ),
        (
            many("jnt_axis", 0.0, index=1),
            'params["jnt_axis"][1] is zero; an axis must have a length > 0.',
        ),
        (many("jnt_range", 9.0, index=(0, 0)), f'params["jnt_range"][0] is from 9 to 2.4; {ENDS}'),
        (
            many("actuator_ctrlrange", 99.0, index=(0, 0)),
            f'params["actuator_ctrlrange"][0] is from 99 to 10; {ENDS}',
        ),
        (
            many("dof_frictionloss", 0.1, index=1),
            'params["dof_frictionloss"][1] is > 0, but the model was loaded with none there, so it '
            "has no friction row; give it a small frictionloss in the file.",
        ),
    ],
)
def test_parameters_refuse(sim: fb.Simulator, params: dict[str, Any], message: str) -> None:
    """Refuse parameters that are unknown or have no physical meaning, in every call."""
    assert refusal(lambda: sim.step(Q, V, params=params), ParameterError) == f"step(): {message}"
    assert refusal(lambda: sim.rollout(Q, V, steps=1, params=params), ParameterError) == (
        f"rollout(): {message}"
    )
    assert refusal(lambda: fb.Simulator(MODEL, params=params), ParameterError) == (
        f"Simulator(): {message}"
    )


@pytest.mark.parametrize("params", [[1.0], np.ones(3), "body_mass"], ids=["list", "array", "str"])
def test_parameters_must_be_named(sim: fb.Simulator, params: Any) -> None:
    """Refuse parameters that are no dictionary, in every call."""
    kind = type(params).__name__
    message = (
        f"params is of type {kind}; it must be a dict from parameter names to arrays, such as "
        '{"body_mass": mass}.'
    )
    assert refusal(lambda: sim.step(Q, V, params=params), ParameterError) == f"step(): {message}"
    assert refusal(lambda: sim.bias(Q, V, params=params), ParameterError) == f"bias(): {message}"
    assert refusal(lambda: sim.rollout(Q, V, steps=1, params=params), ParameterError) == (
        f"rollout(): {message}"
    )


def test_meaningless_values_in_one_world(sim: fb.Simulator) -> None:
    """Find a zero axis in one world of many."""
    axes = np.tile(MODEL.params["jnt_axis"], (3, 1, 1))
    axes[2, 1] = 0.0
    q, v = np.tile(Q, (3, 1)), np.tile(V, (3, 1))
    message = refusal(lambda: sim.step(q, v, params={"jnt_axis": axes}), ParameterError)
    assert message == 'step(): params["jnt_axis"][1] is zero; an axis must have a length > 0.'


FORCES = """<mujoco model="forces"><worldbody><body><joint name="j" actuatorfrcrange="-2 3"/>
<geom size="0.1"/><site name="s"/></body></worldbody>
<actuator><motor joint="j" forcerange="-1 4"/></actuator></mujoco>"""


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"site_quat": np.zeros((1, 4))}, f'params["site_quat"][0] is zero; {QUATERNION}'),
        (
            {"jnt_actfrcrange": [[3.0, -2.0]]},
            f'params["jnt_actfrcrange"][0] is from 3 to -2; {ENDS}',
        ),
        (
            {"actuator_forcerange": [[4.0, -1.0]]},
            f'params["actuator_forcerange"][0] is from 4 to -1; {ENDS}',
        ),
    ],
)
def test_sites_and_force_ranges_refuse(params: dict[str, Any], message: str) -> None:
    """Refuse zero quaternions of sites and force ranges upside down."""
    model = fb.load(FORCES)
    assert refusal(lambda: fb.Simulator(model, params=params), ParameterError) == (
        f"Simulator(): {message}"
    )


def test_parameters_in_force_can_be_passed_back() -> None:
    """Take every parameter of a model as it is, also those of which there are none."""
    for model in (MODEL, fb.models.laikago(), fb.models.ball(), fb.models.chain(3)):
        sim = fb.Simulator(model, params=fb.Simulator(model).params)
        a = sim.step(model.q0, model.v0, params=sim.params)
        assert np.array_equal(a[0], sim.step(model.q0, model.v0)[0])


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


def test_unknown_parameter_lists_the_known(sim: fb.Simulator) -> None:
    """List all names where none is near."""
    message = refusal(lambda: sim.step(Q, V, params={"zzzz": 1}), ParameterError)
    known = ", ".join(MODEL.params)
    assert message == f'step(): unknown parameter "zzzz"; known: {known}.'


@pytest.mark.parametrize(
    ("worlds", "message"),
    [
        (None, 'step(): params["body_mass"] has shape (7,); expected (3,).'),
        (4, 'step(): params["body_mass"] has shape (7,); expected (3,) or (4, 3).'),
    ],
)
def test_parameter_shape(sim: fb.Simulator, worlds: int | None, message: str) -> None:
    """Refuse parameters of the wrong shape; a world axis is offered where there is one."""
    q, v = (Q, V) if worlds is None else (np.tile(Q, (worlds, 1)), np.tile(V, (worlds, 1)))
    params = {"body_mass": np.ones(7)}
    assert refusal(lambda: sim.step(q, v, params=params), ShapeError) == message


def test_parameter_type(sim: fb.Simulator) -> None:
    """Refuse parameters that are not numbers."""
    message = refusal(lambda: sim.step(Q, V, params={"gravity": ["a", "b", "c"]}), ShapeError)
    assert message == ('step(): params["gravity"] has dtype <U1; expected real numbers (float64).')


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
    """Print the model, the step and every option with its value."""
    text = repr(fb.Simulator(MODEL, dt=0.002, threads=2))
    assert text == (
        f'Simulator("cartpole", dt=0.002, dtype=float64, threads=2, isa={fb.isa()}, '
        "Options(margin=0.005, v_recover=0.5, v_rest=0.05, tolerance=1e-10, max_sweeps=200, "
        "max_contacts=0, friction='cone', solver='newton', gradient='auto', "
        "regularization=1e-06))"
    )
