"""Options and parameters that a Simulator refuses; see `tests.sim.refusals`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import featherback as fb
from featherback.errors import ParameterError, ShapeError
from tests.golden.sentences import Case
from tests.sim.refusal import MODEL, Q, V, ball, sim

FORCES = """<mujoco model="forces"><worldbody><body><joint name="j" actuatorfrcrange="-2 3"/>
<geom size="0.1"/><site name="s"/></body></worldbody>
<actuator><motor joint="j" forcerange="-1 4"/></actuator></mujoco>"""

DISCRETE = """<mujoco><option integrator="discrete"/><worldbody><body><joint/><geom size=".1"/>
</body></worldbody></mujoco>"""


OPTIONS: dict[str, Any] = {
    "dtype": ["float16", int, None, np.float16],
    "contact": ["soft", "", np.array(["hard", "mujoco"])],
    "friction": ["pyramid"],
    "solver": ["lcp"],
    "smoothing": [-0.01, 9e-9, np.nan, np.inf, 1.5, True, "a little"],
    "gradient": ["finite"],
    "dt": [0.0, -1e-3, "fast", np.nan, True, 10**400],
    "threads": [0, 257, 1.5, True, 10**5000],
    "margin": [-0.1, True],
    "v_recover": [0],
    "v_rest": [-1],
    "tolerance": [0.0],
    "max_sweeps": [0, 2**40],
    "max_contacts": [-1, 100001],
    "params": [[1.0]],
}


def _options() -> Iterable[Case]:
    """Options of a Simulator."""
    for name, values in OPTIONS.items():
        for value in values:
            shown = "a huge number" if isinstance(value, int) and value > 2**50 else repr(value)
            yield Case(
                f"Simulator, {name} is {shown}",
                lambda options={name: value}: fb.Simulator(MODEL, **options),
                ParameterError,
                ("Simulator()", name),
            )
    yield Case(
        "Simulator, unrolled with newton",
        lambda: fb.Simulator(MODEL, gradient="unrolled"),
        ParameterError,
        ("gradient", "solver", "pgs"),
    )
    for solver in ("newton", "pgs"):
        yield Case(
            f"Simulator, smoothing with {solver}",
            lambda solver=solver: fb.Simulator(MODEL, smoothing=0.01, solver=solver),
            ParameterError,
            ("smoothing", "solver", solver, "interior"),
        )
    for model in ("laikago", None, MODEL.mujoco):
        yield Case(
            f"Simulator, model is a {type(model).__name__}",
            lambda model=model: fb.Simulator(model),  # pyright: ignore[reportArgumentType]
            ParameterError,
            ("Simulator()", "model", type(model).__name__, "featherback.load"),
        )


def changed(name: str, value: float, index: Any = 0) -> dict[str, Any]:
    """Return a parameter of the cart-pole with one entry replaced."""
    array = MODEL.params[name].copy()
    array[index] = value
    return {name: array}


NEGATIVE = ("body_mass", "body_inertia", "jnt_stiffness", "dof_damping", "dof_armature")
NEGATIVE += ("dof_frictionloss", "geom_friction", "geom_restitution", "contact_compliance")
PARAMS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "unknown": ({"body_mas": 1}, ("body_mas", "body_mass")),
    "a number": ({3: 1.0}, ('"3"', "body_mass")),
    "NaN mass": (changed("body_mass", np.nan), ('params["body_mass"]', "NaN")),
    "infinite gravity": (changed("gravity", np.inf), ('params["gravity"]', "infinity")),
    **{f"negative {n}": (changed(n, -1.0), (f'params["{n}"]', "-1")) for n in NEGATIVE},
    "negative geom_size": (changed("geom_size", -1.0), ('params["geom_size"]', "-1")),
    "no time": ({"dt": 0.0}, ('params["dt"]', "0")),
    "restitution of 5": (changed("geom_restitution", 5.0), ('params["geom_restitution"]', "5")),
    **{
        f"zero {n}": (changed(n, 0.0, 1), (f'params["{n}"][1]', "zero"))
        for n in ("body_quat", "body_iquat", "geom_quat", "jnt_axis")
    },
    "jnt_range": (changed("jnt_range", 9.0, (0, 0)), ('params["jnt_range"][0]', "9")),
    "actuator_ctrlrange": (
        changed("actuator_ctrlrange", 99.0, (0, 0)),
        ('params["actuator_ctrlrange"][0]', "99"),
    ),
    "friction without a row": (
        changed("dof_frictionloss", 0.1, 1),
        ('params["dof_frictionloss"][1]', "frictionloss"),
    ),
}


def _params() -> Iterable[Case]:
    """Parameters, refused alike wherever they are given."""
    for name, (params, names) in PARAMS.items():
        calls: dict[str, Callable[[Any], Any]] = {
            "step": lambda p: sim().step(Q, V, params=p),
            "rollout": lambda p: sim().rollout(Q, V, steps=1, params=p),
            "Simulator": lambda p: fb.Simulator(MODEL, params=p),
        }
        for call, run in calls.items():
            yield Case(
                f"{call}, params, {name}",
                lambda run=run, p=params: run(p),
                ParameterError,
                (f"{call}()", *names),
            )


def _odd_params() -> Iterable[Case]:
    """Parameters that are no dictionary, of one world, and of sites and forces."""
    for value in ([1.0], np.ones(3), "body_mass"):
        for call, run in {
            "step": lambda p: sim().step(Q, V, params=p),
            "bias": lambda p: sim().bias(Q, V, params=p),
            "rollout": lambda p: sim().rollout(Q, V, steps=1, params=p),
        }.items():
            yield Case(
                f"{call}, params is a {type(value).__name__}",
                lambda run=run, p=value: run(p),
                ParameterError,
                (f"{call}()", "params", type(value).__name__),
            )
    axes = np.tile(MODEL.params["jnt_axis"], (3, 1, 1))
    axes[2, 1] = 0.0
    q, v = np.tile(Q, (3, 1)), np.tile(V, (3, 1))
    yield Case(
        "step, an axis of one world",
        lambda: sim().step(q, v, params={"jnt_axis": axes}),
        ParameterError,
        ('params["jnt_axis"][1]', "zero"),
    )
    forces: dict[str, Any] = {
        "site_quat": np.zeros((1, 4)),
        "jnt_actfrcrange": [[3.0, -2.0]],
        "actuator_forcerange": [[4.0, -1.0]],
    }
    for name, value in forces.items():
        yield Case(
            f"Simulator, {name}",
            lambda name=name, value=value: fb.Simulator(fb.load(FORCES), params={name: value}),
            ParameterError,
            (f'params["{name}"][0]',),
        )


def _shapes() -> Iterable[Case]:
    """Parameters of a wrong shape or type."""
    ones = {"body_mass": np.ones(7)}
    q, v = np.tile(Q, (4, 1)), np.tile(V, (4, 1))
    yield Case(
        "step, shape of a parameter",
        lambda: sim().step(Q, V, params=ones),
        ShapeError,
        ('params["body_mass"]', "(7,)", "(3,)"),
    )
    yield Case(
        "step, shape of a parameter of worlds",
        lambda: sim().step(q, v, params=ones),
        ShapeError,
        ('params["body_mass"]', "(7,)", "(3,)", "(4, 3)"),
    )
    yield Case(
        "step, text as a parameter",
        lambda: sim().step(Q, V, params={"gravity": ["a", "b", "c"]}),
        ShapeError,
        ('params["gravity"]', "<U1"),
    )
    yield Case(
        "step, None as a parameter",
        lambda: sim().step(Q, V, params={"gravity": None}),  # pyright: ignore[reportArgumentType]
        ShapeError,
        ('params["gravity"]', "None"),
    )
    yield Case(
        "step, no parameter is near",
        lambda: sim().step(Q, V, params={"zzzz": 1}),
        ParameterError,
        ("zzzz", *sim().params),
    )
    without = ("body_invweight0", "dof_invweight0")
    for name in without:
        yield Case(
            f"vjp, {name} has no gradient",
            lambda name=name: ball().vjp(
                ball().model.q0,
                ball().model.v0,
                q_bar=np.ones(7),
                params={name: ball().params[name]},
            ),
            ParameterError,
            (f'params["{name}"]', "gradient"),
        )


LAWS: dict[str, dict[str, Any]] = {
    "mujoco": {
        "margin": 0.01,
        "v_recover": 1.0,
        "v_rest": 0.1,
        "tolerance": 1e-8,
        "max_sweeps": 10,
        "friction": "box",
        "solver": "newton",
        "smoothing": 0.0,
        "gradient": "auto",
    },
    "hard": {
        "cone": "elliptic",
        "impratio": 2.0,
        "integrator": "euler",
        "refsafe": 1,
        "eulerdamp": 0,
        "warmstart": 1,
    },
}


def _laws() -> Iterable[Case]:
    """Options and parameters of the other contact law, and what the file asks for."""
    for law, options in LAWS.items():
        other = "hard" if law == "mujoco" else "mujoco"
        for name, value in options.items():
            yield Case(
                f"Simulator, {name} under {law}",
                lambda o={"contact": law, name: value}: fb.Simulator(MODEL, **o),
                ParameterError,
                ("Simulator()", name, f'contact is "{law}"', f'contact="{other}"'),
            )
    soft = fb.Simulator(fb.models.ball(), contact="mujoco")
    for made, name in ((ball(), "geom_solref"), (soft, "contact_compliance")):
        q, v, value = made.model.q0, made.model.v0, made.model.params[name]
        given, options = {name: value}, {"contact": made.options.contact}
        calls: dict[str, Callable[..., Any]] = {
            "Simulator": lambda g, s, q, v, o: fb.Simulator(s.model, params=g, **o),
            "rollout": lambda g, s, q, v, o: s.rollout(q, v, steps=1, params=g),
            "jvp": lambda g, s, q, v, o: s.jvp(q, v, dparams=g),
            "check_gradients": lambda g, s, q, v, o: fb.check_gradients(s, params=list(g)),
        }
        for call, run in calls.items():
            yield Case(
                f"{call}, {name} under {made.options.contact}",
                lambda run=run, all=(given, made, q, v, options): run(*all),
                ParameterError,
                (f"{call}()", f'"{name}"', "contact="),
            )
    yield Case(
        "Simulator, the file's integrator",
        lambda: fb.Simulator(fb.load(DISCRETE), contact="mujoco"),
        ParameterError,
        ("Simulator()", "integrator", "discrete", "euler"),
    )
    carried = fb.Simulator(fb.models.ball(), contact="mujoco", warmstart=1)
    q, v = soft.model.q0, soft.model.v0
    for call, run in {
        "step": lambda s, w: s.step(q, v, warm=w),
        "rollout": lambda s, w: s.rollout(q, v, steps=1, warm=w),
    }.items():
        yield Case(
            f"{call}, warm that is not finite",
            lambda run=run: run(carried, np.full(6, np.inf)),
            ParameterError,
            (f"{call}()", "warm"),
        )
        yield Case(
            f"{call}, warm that nothing carries",
            lambda run=run: run(soft, np.zeros(6)),
            ParameterError,
            (f"{call}()", "warm", "warmstart=1"),
        )


CASES = (*_laws(), *_options(), *_params(), *_odd_params(), *_shapes())
