"""Calls of featherback.identify that raise, and what an estimate reports."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import featherback as fb
from featherback.errors import OptimizationError, ParameterError, ShapeError
from featherback.identify import (
    Log,
    SingularDirection,
    identify,
    inertia_of,
    scale_factor,
    unknown,
)
from featherback.models import ball, pendulum
from tests.control.helpers import push
from tests.golden.sentences import Case, raises, returns

pytest.importorskip("scipy")

Q, V, U = np.zeros((11, 2)), np.zeros((11, 2)), np.zeros((10, 2))


def _sim() -> fb.Simulator:
    return fb.Simulator(pendulum(2))


def _with(array: np.ndarray, value: float) -> np.ndarray:
    changed = array.copy()
    changed[3, 1] = value
    return changed


def _log(name: str, error: type[Exception], log: Any, *names: str, **options: Any) -> Case:
    """Return the case of logs or options that `identify` refuses."""

    def call() -> None:
        sim = _sim()
        identify(sim, log, [unknown(sim, "body_mass", "link0")], **options)

    return raises(f"identify: {name}", error, call, "identify()", *names)


def _unknown(name: str, *names: str, of: tuple[Any, ...], **options: Any) -> Case:
    """Return the case of an unknown that is refused."""
    call = partial(unknown, _sim(), *of, **options)
    return raises(f"unknown: {name}", ParameterError, call, "unknown()", *names)


def _zero_quaternion() -> None:
    """Give a row that is no rotation."""
    sim = fb.Simulator(ball())
    q = np.tile([0.0, 0, 1, 1, 0, 0, 0], (5, 1))
    q[2, 3] = 0.0
    identify(sim, Log(q, np.zeros((5, 6))), [unknown(sim, "body_mass", "ball")])


def _diverge() -> None:
    """Predict a motion that becomes non-finite from the initial values."""
    sim = _sim()
    roll = sim.rollout([0.5, 0.1], [0.0, 0.0], steps=50)
    identify(sim, Log(roll.q, roll.v), [unknown(sim, "gravity", 2, start=-1e200)])


def _unknown_activation() -> None:
    """Cut windows where the activation of an actuator is not known."""
    sim, zeros = push().sim, np.zeros((11, 1))
    identify(sim, Log(zeros, zeros, zeros[:10]), [unknown(sim, "body_mass", 1)], window=5)


PLAIN = Log(Q, V, U)

LOGS = [
    _log("a NaN in q", ParameterError, Log(_with(Q, np.nan), V, U), "log 0", "q[3, 1]", "nan"),
    _log(
        "an infinity in v",
        ParameterError,
        [PLAIN, Log(Q, _with(V, np.inf), U)],
        "log 1",
        "v[3, 1]",
        "inf",
    ),
    _log("a NaN in u", ParameterError, Log(Q, V, _with(U, np.nan)), "log 0", "u[3, 1]", "nan"),
    _log("a log shorter than a window", ParameterError, PLAIN, "log 0", "20", window=20),
    _log("a log of one row", ParameterError, Log(Q[:1], V[:1], U[:0]), "log 0", "1 rows"),
    _log(
        "fewer measurements than unknowns",
        ParameterError,
        Log(Q[:6], u=U[:5]),
        "12 independent measurements",
        window=1,
        starts="free",
    ),
    _log("no logs", ParameterError, [], "no logs"),
    _log("an empty window", ParameterError, PLAIN, "window", "0", window=0),
    _log("a fractional window", ParameterError, PLAIN, "window", "2.5", window=2.5),
    _log("no velocities", ParameterError, Log(Q, u=U), "log 0", "v"),
    _log("velocities of another shape", ShapeError, Log(Q, V[:10], U), "log 0", "v", "(10, 2)"),
    _log("a word as q", ShapeError, Log("motion", V, U), "log 0", "q"),  # type: ignore[arg-type]
    _log("a noise of another shape", ShapeError, Log(Q, V, U, [1.0] * 3, 1.0), "q_noise", "(3,)"),
    _log("a noise of zero", ParameterError, Log(Q, V, U, 1.0, 0.0), "log 0", "v_noise", "0"),
    _log("one noise of two", ParameterError, Log(Q, V, U, 1.0), "log 0", "q_noise", "v_noise"),
    _log("nothing measured", ParameterError, Log(Q, V, U, np.inf, np.inf), "q_noise", "v_noise"),
    _log("different every", ParameterError, [PLAIN, Log(Q, V, U, every=2)], "every", "1, 2"),
    _log("a fractional every", ParameterError, Log(Q, V, U, every=1.5), "every", "1.5"),  # type: ignore[arg-type]
    _log("a word as noise", ShapeError, Log(Q, V, U, "small", 1.0), "log 0", "q_noise"),  # type: ignore[arg-type]
    _log("starts", ParameterError, PLAIN, "starts", "known", starts="known"),
    _log("no evaluations", ParameterError, PLAIN, "max_evaluations", "0", max_evaluations=0),
    raises(
        "identify: no unknowns",
        ParameterError,
        lambda: identify(_sim(), PLAIN, []),
        "identify()",
        "unknowns",
    ),
    _log("activations of another shape", ShapeError, Log(Q, V, U, act=Q), "act", "(11, 0)"),
    raises(
        "identify: a window without activation",
        ParameterError,
        _unknown_activation,
        "identify(): log 0",
        "act",
        "row 5",
    ),
    raises("identify: a zero quaternion", ParameterError, _zero_quaternion, "q[2, 3:7]"),
    raises(
        "identify: a prediction that diverges",
        OptimizationError,
        _diverge,
        "identify(): iteration 0, evaluation 1",
        "step 1",
        "NONFINITE",
    ),
]

UNKNOWNS = [
    _unknown("no such parameter", '"body_masses"', "body_mass", of=("body_masses",)),
    _unknown("no such body", '"body_mass"', '"link7"', "link1", of=("body_mass", "link7")),
    _unknown("no such row", '"body_mass"', "9", of=("body_mass", 9)),
    _unknown("a row without a name", '"gravity"', of=("gravity", "z")),
    _unknown("no column", "column", '"geom_friction"', of=("geom_friction",)),
    _unknown("a column too many", "column", '"body_mass"', of=("body_mass",), column=0),
    _unknown(
        "bounds that cross", "body_mass[link0]", "2 to 1", of=("body_mass", "link0"), bounds=(2, 1)
    ),
    _unknown(
        "a NaN as bound",
        "dof_damping[joint1]",
        "nan",
        of=("dof_damping", "joint1"),
        bounds=(np.nan, 1),
    ),
    _unknown(
        "a negative mass", "body_mass[link0]", "-1", of=("body_mass", "link0"), bounds=(-1, 1)
    ),
    _unknown(
        "a start outside",
        "body_mass[link0]",
        "5",
        of=("body_mass", "link0"),
        start=5.0,
        bounds=(1, 2),
    ),
    raises(
        "scale_factor: values of zero",
        ParameterError,
        lambda: scale_factor(_sim(), ["dof_damping"]),
        "scale_factor()",
        "dof_damping",
    ),
    raises(
        "inertia_of: no such body",
        ParameterError,
        lambda: inertia_of(_sim(), "upper"),
        "inertia_of()",
        '"upper"',
    ),
    raises(
        "inertia_of: a body without mass",
        ParameterError,
        lambda: inertia_of(_sim(), "world"),
        "mass",
        "0 kg",
    ),
]

ESTIMATES = [
    returns(
        "SingularDirection: one unknown",
        lambda: SingularDirection({"mass": 1.0, "friction": 0.1}, 3.0).describe(),
        "mass",
        "3 times",
    ),
    returns(
        "SingularDirection: one unknown without effect",
        lambda: SingularDirection({"mass": 1.0}, np.inf).describe(),
        "mass",
        "infinite",
    ),
    returns(
        "SingularDirection: a combination",
        lambda: SingularDirection({"mass": 0.8, "inertia": -0.6}, 0.5).describe(),
        "+0.80 mass, -0.60 inertia",
        "0.5",
    ),
    returns(
        "SingularDirection: a combination without effect",
        lambda: SingularDirection({"mass": 0.8, "inertia": -0.6}, np.inf).describe(),
        "+0.80 mass, -0.60 inertia",
        "infinite",
    ),
]

CASES = [*LOGS, *UNKNOWNS, *ESTIMATES]
