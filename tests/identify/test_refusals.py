"""Every refusal of the identification is one sentence that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import featherback as fb
from featherback.errors import FeatherbackError, OptimizationError, ParameterError, ShapeError
from featherback.identify import Log, identify, scale_factor, unknown
from featherback.models import ball, pendulum

pytest.importorskip("scipy")

Q, V, U = np.zeros((11, 2)), np.zeros((11, 2)), np.zeros((10, 2))


def _sim() -> fb.Simulator:
    return fb.Simulator(pendulum(2))


def _identify(log: Any, **options: Any) -> None:
    sim = _sim()
    identify(sim, log, [unknown(sim, "body_mass", "link0")], **options)


def _with(array: np.ndarray, value: float) -> np.ndarray:
    changed = array.copy()
    changed[3, 1] = value
    return changed


REFUSALS: list[tuple[type[FeatherbackError], str, Callable[[], Any]]] = [
    (
        ParameterError,
        "identify(): log 0: q[3, 1] is nan; give finite numbers, and an infinite noise where "
        "nothing was measured.",
        lambda: _identify(Log(_with(Q, np.nan), V, U)),
    ),
    (
        ParameterError,
        "identify(): log 1: v[3, 1] is inf; give finite numbers, and an infinite noise where "
        "nothing was measured.",
        lambda: _identify([Log(Q, V, U), Log(Q, _with(V, np.inf), U)]),
    ),
    (
        ParameterError,
        "identify(): log 0: u[3, 1] is nan; give finite numbers, and an infinite noise where "
        "nothing was measured.",
        lambda: _identify(Log(Q, V, _with(U, np.nan))),
    ),
    (
        ParameterError,
        "identify(): log 0 has 11 rows, too few for a window of 20 steps, which takes 21; give a "
        "longer log or a shorter window.",
        lambda: _identify(Log(Q, V, U), window=20),
    ),
    (
        ParameterError,
        "identify(): log 0 has 1 rows; a motion has at least 2: give a longer log.",
        lambda: _identify(Log(Q[:1], V[:1], U[:0])),
    ),
    (
        ParameterError,
        "identify(): the logs hold 12 independent measurements for 1 unknowns and 12 coordinates "
        "of free starts; give longer logs, or longer windows.",
        lambda: _identify(Log(Q[:6], u=U[:5]), window=1, starts="free"),
    ),
    (
        ParameterError,
        "identify(): there are no logs; give at least one.",
        lambda: _identify([]),
    ),
    (
        ParameterError,
        "identify(): window is 0; it must be an integer >= 1.",
        lambda: _identify(Log(Q, V, U), window=0),
    ),
    (
        ParameterError,
        "identify(): window is 2.5; it must be an integer >= 1.",
        lambda: _identify(Log(Q, V, U), window=2.5),
    ),
    (
        ParameterError,
        "identify(): log 0 has no v, and without it a prediction has no velocity to start from; "
        'give v, or pass starts="free" so that it is estimated.',
        lambda: _identify(Log(Q, u=U)),
    ),
    (
        ShapeError,
        "identify(): log 0: v has shape (10, 2); expected (11, 2) for this model and log.",
        lambda: _identify(Log(Q, V[:10], U)),
    ),
    (
        ShapeError,
        "identify(): log 0: q is not a table of numbers; give one.",
        lambda: _identify(Log("motion", V, U)),  # type: ignore[arg-type]
    ),
    (
        ShapeError,
        "identify(): log 0: q_noise has shape (3,); it must broadcast to (11, 2), the shape of q.",
        lambda: _identify(Log(Q, V, U, [1.0, 1.0, 1.0], 1.0)),
    ),
    (
        ParameterError,
        "identify(): log 0: v_noise holds 0; a standard deviation is above 0, and infinite where "
        "nothing was measured.",
        lambda: _identify(Log(Q, V, U, 1.0, 0.0)),
    ),
    (
        ParameterError,
        "identify(): log 0: q_noise is given and v_noise is not, so that they cannot be weighed "
        "against each other; give both or neither.",
        lambda: _identify(Log(Q, V, U, 1.0)),
    ),
    (
        ParameterError,
        "identify(): log 0: q_noise and v_noise are infinite throughout, so nothing was measured; "
        "give a finite noise to what was.",
        lambda: _identify(Log(Q, V, U, np.inf, np.inf)),
    ),
    (
        ParameterError,
        "identify(): every is 1, 2; it must be the same integer >= 1 in all logs.",
        lambda: _identify([Log(Q, V, U), Log(Q, V, U, every=2)]),
    ),
    (
        ParameterError,
        "identify(): every is 1.5; it must be the same integer >= 1 in all logs.",
        lambda: _identify(Log(Q, V, U, every=1.5)),  # type: ignore[arg-type]
    ),
    (
        ShapeError,
        "identify(): log 0: q_noise is not an array of numbers; give one.",
        lambda: _identify(Log(Q, V, U, "small", 1.0)),  # type: ignore[arg-type]
    ),
    (
        ParameterError,
        "identify(): there are no unknowns; give at least one.",
        lambda: identify(_sim(), Log(Q, V, U), []),
    ),
    (
        ParameterError,
        "identify(): starts is 'known'; it must be one of measured, free.",
        lambda: _identify(Log(Q, V, U), starts="known"),
    ),
    (
        ParameterError,
        "identify(): max_evaluations is 0; it must be an integer >= 1.",
        lambda: _identify(Log(Q, V, U), max_evaluations=0),
    ),
    (
        ParameterError,
        'unknown(): unknown parameter "body_masses"; did you mean body_mass, body_pos, body_quat?',
        lambda: unknown(_sim(), "body_masses"),
    ),
    (
        ParameterError,
        'unknown(): "body_mass" has no row "link7"; did you mean link1, link0, world?',
        lambda: unknown(_sim(), "body_mass", "link7"),
    ),
    (
        ParameterError,
        'unknown(): "body_mass" has no row 9; it has 3, numbered from 0.',
        lambda: unknown(_sim(), "body_mass", 9),
    ),
    (
        ParameterError,
        'unknown(): the rows of "gravity" have no names; give their numbers.',
        lambda: unknown(_sim(), "gravity", "z"),
    ),
    (
        ParameterError,
        'unknown(): column is None; "geom_friction" has the columns 0 to 2: name one.',
        lambda: unknown(_sim(), "geom_friction"),
    ),
    (
        ParameterError,
        'unknown(): column is 0, and "body_mass" has one number for each; omit it.',
        lambda: unknown(_sim(), "body_mass", column=0),
    ),
    (
        ParameterError,
        "unknown(): body_mass[link0] has the bounds 2 to 1; the lower must be below the upper.",
        lambda: unknown(_sim(), "body_mass", "link0", bounds=(2.0, 1.0)),
    ),
    (
        ParameterError,
        "unknown(): dof_damping[joint1] has the bounds nan to 1; the lower must be below the "
        "upper.",
        lambda: unknown(_sim(), "dof_damping", "joint1", bounds=(np.nan, 1.0)),
    ),
    (
        ParameterError,
        "unknown(): body_mass[link0] has the lower bound -1, and a value below 0 has no meaning; "
        "raise it to 0.",
        lambda: unknown(_sim(), "body_mass", "link0", bounds=(-1.0, 1.0)),
    ),
    (
        ParameterError,
        "unknown(): body_mass[link0] starts at 5, outside its bounds 1 to 2; move it inside or "
        "widen the bounds.",
        lambda: unknown(_sim(), "body_mass", "link0", start=5.0, bounds=(1.0, 2.0)),
    ),
    (
        ParameterError,
        "scale_factor(): the values of dof_damping are zero, so a factor has no effect; name "
        "others.",
        lambda: scale_factor(_sim(), ["dof_damping"]),
    ),
]


def test_a_quaternion_of_length_zero_is_refused() -> None:
    """Refuse a row that is no rotation."""
    sim = fb.Simulator(ball())
    q = np.tile([0.0, 0, 1, 1, 0, 0, 0], (5, 1))
    q[2, 3] = 0.0
    with pytest.raises(ParameterError) as caught:
        identify(sim, Log(q, np.zeros((5, 6))), [unknown(sim, "body_mass", "ball")])
    assert str(caught.value) == (
        "identify(): log 0: q[2, 3:7] is a quaternion of length 0; give one that is a rotation."
    )


@pytest.mark.parametrize(("kind", "said", "work"), REFUSALS, ids=[said for _, said, _ in REFUSALS])
def test_refusals(kind: type[FeatherbackError], said: str, work: Callable[[], Any]) -> None:
    """Refuse with one sentence."""
    with pytest.raises(kind) as caught:
        work()
    assert str(caught.value) == said


def test_divergence_at_the_start_is_told() -> None:
    """Stop with the step and the reason where the first prediction becomes non-finite."""
    sim = _sim()
    roll = sim.rollout([0.5, 0.1], [0.0, 0.0], steps=50)
    fall = unknown(sim, "gravity", 2, start=-1e200)
    with pytest.raises(OptimizationError) as caught:
        identify(sim, Log(roll.q, roll.v), [fall])
    print(caught.value)
    assert str(caught.value).startswith("identify(): iteration 0, evaluation 1: 1 of 1 worlds")
    assert "step 1" in str(caught.value) and "NONFINITE" in str(caught.value)
    assert str(caught.value).endswith(
        "; these are the initial values, so give others, a shorter window or a smaller time step."
    )
