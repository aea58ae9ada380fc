"""What callers of a Simulator may get wrong: each case with its error and the names at fault."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import featherback as fb
from featherback.errors import ParameterError, ShapeError, WorldError
from tests.golden.sentences import Case
from tests.sim.refusal import BAR, MODEL, NAN, Q, U, V, Z, ball, roll, sim
from tests.sim.refusals_params import CASES as PARAMS

STEP_SHAPES: dict[str, tuple[tuple[Any, ...], tuple[str, ...]]] = {
    "long q": ((np.zeros(3), V), ("q", "(3,)", "(2,)")),
    "long q of worlds": ((np.zeros((4, 3)), V), ("q", "(4, 3)")),
    "q of three axes": ((np.zeros((1, 1, 2)), V), ("q", "(1, 1, 2)")),
    "short v": ((Q, np.zeros(1)), ("v", "(1,)", "(2,)")),
    "long u": ((Q, V, np.zeros(2)), ("u", "(2,)", "(1,)")),
    "worlds of q and v": ((np.zeros((3, 2)), np.zeros((4, 2))), ("q", "3", "v", "4")),
    "worlds of u": ((np.zeros((3, 2)), np.zeros((3, 2)), np.zeros((2, 1))), ("u", "2")),
    "controls of many worlds": ((Q, V, np.zeros((10, 1))), ("u", "(10, 1)", "rollout()")),
    "complex q": ((np.array([1j, 0]), V), ("q", "complex128")),
    "bool q": ((np.array([True, False]), V), ("q", "bool")),
    "text in q": ((["a", "b"], V), ("q", "<U1")),
    "None in q": (([None, 1.0], V), ("q", "object")),
    "q is None": ((None, V), ("q", "None")),
    "v is None": ((Q, None, U), ("v", "None")),
}


STEP_VALUES: dict[str, tuple[tuple[Any, ...], tuple[str, ...]]] = {
    "NaN in q": ((NAN, V), ("q[0]", "nan")),
    "infinity in v": ((Q, np.array([0.0, np.inf])), ("v[1]", "inf")),
    "NaN in u": ((Q, V, np.array([np.nan])), ("u[0]", "nan")),
    "NaN in one world": ((np.stack([Q, NAN]), V), ("q[1, 0]", "nan")),
    "NaN in a list": (([np.nan, 0.0], V), ("q[0]", "nan")),
}


def _steps() -> Iterable[Case]:
    """States and controls of a step."""
    for name, (arguments, names) in STEP_SHAPES.items():
        yield Case(f"step, {name}", lambda a=arguments: sim().step(*a), ShapeError, names)
    for name, (arguments, names) in STEP_VALUES.items():
        yield Case(f"step, {name}", lambda a=arguments: sim().step(*a), ParameterError, names)
    yield Case("contacts, NaN", lambda: sim().contacts(NAN, V), ParameterError, ("q[0]", "nan"))
    q, v = ball().model.q0, ball().model.v0
    for length in (0.0, 1e-200, 1e200):
        one = q.copy()
        one[3:7] *= length
        names = ("q[3:7]", "quaternion", f"{length:g}")
        yield Case(
            f"step, quaternion of length {length:g}",
            lambda one=one: ball().step(one, v),
            ParameterError,
            names,
        )
        two = np.stack([q, one])
        yield Case(
            f"step, quaternion of length {length:g} in one world",
            lambda two=two: ball().step(two, v),
            ParameterError,
            ("q[1, 3:7]", "quaternion"),
        )


CONTROLS: dict[str, tuple[Any, Any, tuple[str, ...]]] = {
    "neither u nor steps": (None, None, ("u", "steps")),
    "negative steps": (None, -1, ("steps", "-1")),
    "half a step": (None, 2.5, ("steps", "2.5")),
    "steps as text": (None, "9", ("steps", "'9'")),
    "steps as a bool": (None, True, ("steps", "True")),
    "steps beyond 32 bits": (None, 2**31, ("steps", "2147483648")),
    "steps of 400 digits": (None, 10**400, ("steps", "2147483647")),
    "steps of 5000 digits": (None, 10**5000, ("steps", "thousands of digits")),
    "u without steps": (np.zeros(1), None, ("u", "(1,)")),
    "long u": (np.zeros((4, 2)), None, ("u", "(4, 2)")),
    "u of four axes": (np.zeros((1, 1, 4, 1)), None, ("u", "(1, 1, 4, 1)")),
    "u and steps": (np.zeros((4, 1)), 5, ("u", "4", "steps", "5")),
    "worlds of u": (np.zeros((2, 4, 1)), None, ("q", "3", "u", "2")),
}


def _rollouts() -> Iterable[Case]:
    """Controls and step counts of a rollout."""
    q, v = np.tile(Q, (3, 1)), np.tile(V, (3, 1))
    for name, (u, steps, names) in CONTROLS.items():
        yield Case(
            f"rollout, {name}",
            lambda u=u, steps=steps: sim().rollout(q, v, u, steps=steps),
            ShapeError,
            names,
        )
    for checkpoint, names in (
        ("steps", ("checkpoint", "'steps'")),
        (0, ("checkpoint", "0")),
        ("bytes:" + 5000 * "9", ("checkpoint", "18 digits")),
        ("bytes:80", ("checkpoint", "32 bytes", "160")),
    ):
        yield Case(
            f"rollout, checkpoint {str(checkpoint)[:12]}",
            lambda c=checkpoint: sim().rollout(Q, V, steps=40, checkpoint=c),
            ParameterError,
            names,
        )
    yield Case(
        "rollout, q is None", lambda: sim().rollout(None, V, steps=1), ShapeError, ("q", "None")
    )


def _frameworks() -> Iterable[Case]:
    """Arrays that a framework follows; stand-ins, so that none is needed."""

    class Tensor:
        """Something that requires a gradient."""

        requires_grad = True

    class Tracer:
        """Something that JAX traces."""

    Tracer.__module__ = "jax._src.core"
    for name, value, names in (
        ("tensor", Tensor(), ("featherback.torch", "detach()")),
        ("tracer", Tracer(), ("featherback.jax",)),
    ):
        calls: dict[str, Callable[[Any], Any]] = {
            "step": lambda x: sim().step(x, V),
            "rollout": lambda x: sim().rollout(Q, x, steps=1),
            "linearize": lambda x: sim().linearize(Q, V, x),
            "bias": lambda x: sim().bias(Q, x),
            "vjp": lambda x: sim().vjp(Q, V, q_bar=x),
        }
        for call, run in calls.items():
            yield Case(
                f"{call}, {name}",
                lambda run=run, x=value: run(x),
                ShapeError,
                (f"{call}()", *names),
            )
        yield Case(
            f"step, {name} in params",
            lambda x=value: sim().step(Q, V, params={"gravity": x}),
            ShapeError,
            ('params["gravity"]', *names),
        )


OUTPUTS: dict[str, tuple[Callable[[], Any], type[Exception], tuple[str, ...]]] = {
    "mass_matrix, long q": (lambda: sim().mass_matrix(np.zeros(3)), ShapeError, ("q", "(3,)")),
    "bias, long v": (lambda: sim().bias(Q, np.zeros(3)), ShapeError, ("v", "(3,)")),
    "forward_dynamics, long tau": (
        lambda: sim().forward_dynamics(Q, V, np.zeros(3)),
        ShapeError,
        ("tau", "(3,)"),
    ),
    "inverse_dynamics, worlds of a": (
        lambda: sim().inverse_dynamics(np.zeros((2, 2)), V, np.zeros((3, 2))),
        ShapeError,
        ("q", "2", "a", "3"),
    ),
    "forward_dynamics, tau is None": (
        lambda: sim().forward_dynamics(Q, V, None),  # pyright: ignore[reportArgumentType]
        ShapeError,
        ("tau", "None"),
    ),
    "output, unknown": (
        lambda: sim().output("momentum", Q),
        ParameterError,
        ("'momentum'", "mass_matrix", "site_poses"),
    ),
    "output, v missing": (lambda: sim().output("bias", Q), ShapeError, ("1", "q, v")),
    "output_vjp, c_bar missing": (
        lambda: sim().output_vjp("bias", Q, V),
        ShapeError,
        ("2", "q, v, c_bar"),
    ),
    "body_poses_vjp, no cotangent": (
        lambda: sim().body_poses_vjp(Q),
        ParameterError,
        ("cotangent", "p_bar", "R_bar"),
    ),
    "body_poses_vjp, R_bar": (
        lambda: sim().body_poses_vjp(Q, None, np.zeros((MODEL.nbody, 3))),
        ShapeError,
        ("R_bar", f"({MODEL.nbody}, 3, 3)"),
    ),
    "mass_matrix_vjp, NaN": (
        lambda: sim().mass_matrix_vjp(Q, np.full((2, 2), np.nan)),
        ParameterError,
        ("M_bar[0, 0]", "nan"),
    ),
    "mass_matrix, NaN": (lambda: sim().mass_matrix(NAN), ParameterError, ("q[0]", "nan")),
    "body_poses, zero quaternion": (
        lambda: ball().body_poses(np.zeros(7)),
        ParameterError,
        ("q[3:7]", "quaternion"),
    ),
    "forward_dynamics, NaN in one world": (
        lambda: sim().forward_dynamics(Q, V, np.stack([V, NAN])),
        ParameterError,
        ("tau[1, 0]", "nan"),
    ),
    "bias_vjp, zero quaternions": (
        lambda: ball().bias_vjp(np.zeros((2, 7)), np.zeros(6), np.ones((2, 6))),
        WorldError,
        ("world 0", "1 more", "quaternion"),
    ),
    "center_of_mass, no mass": (
        lambda: sim().center_of_mass(Q, params={"body_mass": np.zeros(MODEL.nbody)}),
        ParameterError,
        ("mass",),
    ),
    "center_of_mass_vjp, no mass": (
        lambda: sim().center_of_mass_vjp(
            Q, np.zeros(3), params={"body_mass": np.zeros(MODEL.nbody)}
        ),
        ParameterError,
        ("mass",),
    ),
    **{
        f"center_of_mass, body_mass is {value}": (
            lambda value=value: sim().center_of_mass(Q, params={"body_mass": value}),
            ShapeError,
            ('params["body_mass"]',),
        )
        for value in ("heavy", 1.0, (1.0, 2.0))
    },
    "forward_dynamics_vjp, a_bar": (
        lambda: sim().forward_dynamics_vjp(Q, V, V, np.zeros(3)),
        ShapeError,
        ("a_bar", "(3,)", "(2,)"),
    ),
    "inverse_dynamics_vjp, a": (
        lambda: sim().inverse_dynamics_vjp(Q, V, np.zeros(3), V),
        ShapeError,
        ("a has shape", "(3,)"),
    ),
}


def _outputs() -> Iterable[Case]:
    """Outputs and their gradients."""
    for name, (call, error, names) in OUTPUTS.items():
        where = name.partition(",")[0] + "()"
        if "unknown" not in name:
            where = where.replace("output_vjp()", "bias_vjp()").replace("output()", "bias()")
        yield Case(name, call, error, (where, *names))


DERIVATIVES: dict[str, tuple[str, dict[str, Any], type[Exception], tuple[str, ...]]] = {
    "long q": ("jvp", {"q": np.zeros(3)}, ShapeError, ("q", "(3,)")),
    "long u": ("linearize", {"u": Z}, ShapeError, ("u", "(2,)")),
    "v is None": ("linearize", {"v": None}, ShapeError, ("v", "None")),
    "long du": ("jvp", {"du": Z}, ShapeError, ("du", "(2,)")),
    "worlds of dq": (
        "jvp",
        {"q": np.zeros((3, 2)), "dq": np.zeros((4, 2))},
        ShapeError,
        ("q", "3", "dq", "4"),
    ),
    "complex dv": ("jvp", {"dv": np.zeros(2, complex)}, ShapeError, ("dv", "complex128")),
    "short gravity": (
        "jvp",
        {"dparams": {"gravity": Z}},
        ShapeError,
        ('dparams["gravity"]', "(2,)", "(3,)"),
    ),
    "worlds of gravity": (
        "jvp",
        {"q": np.zeros((4, 2)), "dparams": {"gravity": np.zeros((5, 3))}},
        ShapeError,
        ('dparams["gravity"]', "(5, 3)", "(4, 3)"),
    ),
    "NaN in dq": ("jvp", {"dq": NAN}, ParameterError, ("dq[0]", "nan")),
    "infinite gravity": (
        "jvp",
        {"dparams": {"gravity": [0.0, 0.0, np.inf]}},
        ParameterError,
        ('dparams["gravity"][2]', "inf"),
    ),
    "dparams is a list": ("jvp", {"dparams": [1.0]}, ParameterError, ("dparams", "list")),
    "unknown parameter": (
        "jvp",
        {"dparams": {"gravitas": Z}},
        ParameterError,
        ("gravitas", "gravity"),
    ),
    "no gradient": (
        "jvp",
        {"dparams": {"dof_invweight0": np.zeros(2)}},
        ParameterError,
        ('dparams["dof_invweight0"]', "gradient"),
    ),
    "overflow of the tangent": (
        "jvp",
        {"dq": np.full(2, 1e308), "dv": np.full(2, 1e308)},
        WorldError,
        ("tangent", "world 0"),
    ),
    "long q_bar": ("vjp", {"q_bar": np.ones(3)}, ShapeError, ("q_bar", "(3,)")),
    "NaN in v_bar": ("vjp", {"v_bar": NAN}, ParameterError, ("v_bar[0]", "nan")),
    "no cotangent": ("vjp", {}, ParameterError, ("cotangent", "q_bar", "v_bar")),
    # the position of the cart does not act on the step, so the gradient itself is finite
    "NaN in q": ("vjp", {"q": NAN, "q_bar": [1.0, 1.0]}, ParameterError, ("q[0]", "nan")),
    "NaN in u": ("jvp", {"u": [np.nan], "dq": Z}, ParameterError, ("u[0]", "nan")),
    "overflow of the gradient": (
        "vjp",
        {"q": [0.0, 0.1], "q_bar": np.full(2, 1e308), "v_bar": np.full(2, 1e308)},
        WorldError,
        ("gradient", "world 0", "diagnose()"),
    ),
    "NaN where no Jacobian looks": ("linearize", {"q": NAN}, ParameterError, ("q[0]", "nan")),
    "NaN in a world": (
        "linearize",
        {"q": np.stack([Z, NAN])},
        ParameterError,
        ("q[1, 0]", "nan"),
    ),
}


def _derivatives() -> Iterable[Case]:
    """Derivatives of one step."""
    for name, (method, arguments, error, names) in DERIVATIVES.items():
        state = {"q": Z, "v": Z, **arguments}
        yield Case(
            f"{method}, {name}",
            lambda method=method, state=state: getattr(sim(), method)(**state),
            error,
            (f"{method}()", *names),
        )


OF_ROLLOUTS: dict[str, tuple[Callable[[fb.Rollout], Any], type[Exception], tuple[str, ...]]] = {
    "vjp, q_bar": (lambda r: r.vjp(np.ones((4, 2))), ShapeError, ("q_bar", "(4, 2)", "(6, 2)")),
    "vjp, infinite v_bar": (lambda r: r.vjp(None, BAR), ParameterError, ("v_bar[3, 1]", "inf")),
    "vjp, no cotangent": (lambda r: r.vjp(), ParameterError, ("cotangent", "q_bar")),
    "diagnose, no cotangent": (lambda r: r.diagnose(), ParameterError, ("cotangent",)),
    "hessian_vector_product, no cotangent": (
        lambda r: r.hessian_vector_product(direction=(Z, None, None)),
        ParameterError,
        ("cotangent", "q_bar"),
    ),
    "vjp, shape of a piece": (
        lambda r: r.vjp(cotangents=lambda first, q, v: (np.ones(2), None)),
        ShapeError,
        ("cotangents()", "q_bar", "(2,)", "(6, 2)"),
    ),
    "vjp, no tuple": (
        lambda r: r.vjp(cotangents=lambda first, q, v: q),  # pyright: ignore[reportReturnType]
        ParameterError,
        ("cotangents()", "ndarray", "(q_bar, v_bar)"),
    ),
    "vjp, both": (
        lambda r: r.vjp(np.ones(2), cotangents=lambda first, q, v: (q, v)),
        ParameterError,
        ("cotangents", "q_bar"),
    ),
    "vjp, no function": (
        lambda r: r.vjp(cotangents=3),  # pyright: ignore[reportArgumentType]
        ParameterError,
        ("cotangents", "int", "(first, q, v)"),
    ),
    "jvp, dq": (lambda r: r.jvp(np.ones(3)), ShapeError, ("dq", "(3,)", "(2,)")),
    "jvp, NaN in dv": (lambda r: r.jvp(dv=[0.0, np.nan]), ParameterError, ("dv[1]", "nan")),
    "jvp, overflow of the tangent": (
        lambda r: r.jvp(np.full(2, 1e308), np.full(2, 1e308)),
        WorldError,
        ("tangent", "world 0"),
    ),
    "hessian_vector_product, two directions": (
        lambda r: r.hessian_vector_product(np.ones(2), direction=(Z, None)),  # pyright: ignore[reportArgumentType]
        ParameterError,
        ("direction", "2"),
    ),
    "hessian_vector_product, direction is None": (
        lambda r: r.hessian_vector_product(np.ones(2), direction=None),  # pyright: ignore[reportArgumentType]
        ParameterError,
        ("direction",),
    ),
}


def _rollout_derivatives() -> Iterable[Case]:
    """Derivatives of a rollout."""
    for name, (call, error, names) in OF_ROLLOUTS.items():
        where = name.partition(",")[0]
        yield Case(f"Rollout.{name}", lambda call=call: call(roll()), error, (f"{where}()", *names))
    yield Case(
        "Rollout.jvp, checkpoints",
        lambda: roll(checkpoint=2).jvp(Z),
        ParameterError,
        ("jvp()", "4 of 6", 'checkpoint="step"'),
    )


CHECKS: dict[str, tuple[dict[str, Any], type[Exception], tuple[str, ...]]] = {
    "no steps": ({"steps": 0}, ParameterError, ("steps", "0")),
    "draws is a bool": ({"draws": True}, ParameterError, ("draws", "True")),
    "params is a text": ({"params": "dt"}, ParameterError, ("params", '["dt"]')),
    "no gradient": (
        {"params": ["dof_invweight0"]},
        ParameterError,
        ('params["dof_invweight0"]', "gradient"),
    ),
    "unknown parameter": ({"params": ["mass"]}, ParameterError, ('"mass"', "body_mass")),
    "worlds": ({"q": np.zeros((3, 2))}, ParameterError, ("q", "world axis")),
}


def _checks() -> Iterable[Case]:
    """What check_gradients cannot check."""
    for name, (options, error, names) in CHECKS.items():
        yield Case(
            f"check_gradients, {name}",
            lambda options=options: fb.check_gradients(sim(), **options),
            error,
            names,
        )
    # its rollout refuses shapes
    yield Case(
        "rollout, long q of check_gradients",
        lambda: fb.check_gradients(sim(), q=np.zeros(3)),
        ShapeError,
        ("q", "(3,)"),
    )
    narrow = fb.Simulator(MODEL, dtype="float32")
    for name, given in (("no simulator", MODEL), ("float32", narrow)):
        yield Case(
            f"check_gradients, {name}",
            lambda given=given: fb.check_gradients(given),
            ParameterError,
            ("check_gradients()", "Simulator", "float32" if given is narrow else "Model"),
        )


CASES: list[Case] = [
    *PARAMS,
    *_steps(),
    *_rollouts(),
    *_frameworks(),
    *_outputs(),
    *_derivatives(),
    *_rollout_derivatives(),
    *_checks(),
]
