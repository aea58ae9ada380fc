"""The model and its report."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from featherback.model.model import Model
from tests.model.file_cases import MIXED
from tests.model.helpers import mjcf, read

KEYS = '<keyframe><key name="home" qpos="0.5" qvel="2"/><key qpos="1"/></keyframe>'


def model(text: str, **options: str) -> Model:
    """Return a model without the engine's structure."""
    return Model(read(text, **options), None)


def test_sizes_names_and_states() -> None:
    """Read sizes, names and the initial state; arrays are read-only."""
    made = model(mjcf('<site name="s"/>', after='<actuator><motor joint="j"/></actuator>'))
    assert (made.nq, made.nv, made.nu, made.nbody) == (1, 1, 1, 2)
    assert (made.njnt, made.ngeom, made.nsite) == (1, 1, 1)
    assert made.name == "test"
    assert made.body_names == ("world", "b")
    assert (made.joint_names, made.geom_names) == (("j",), ("g",))
    assert (made.site_names, made.actuator_names) == (("s",), ("",))
    assert (made.q0.tolist(), made.v0.tolist()) == ([0.0], [0.0])
    assert made.q0.dtype == made.v0.dtype == np.float64
    with pytest.raises(ValueError, match="read-only"):
        made.q0[0] = 1.0
    assert repr(made) == 'Model("test", nq=1, nv=1, nu=1, na=0, nbody=2, ngeom=1)'


def test_model_is_frozen() -> None:
    """Refuse assignment."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        model(mjcf()).parsed = None  # type: ignore[misc, assignment]


def test_params_are_those_of_the_structure() -> None:
    """Take parameters from the engine's structure."""

    class Structure:
        """Stands for the engine's structure."""

        def __init__(self) -> None:
            self.params = {"body_mass": np.ones(2)}

    structure = Structure()
    assert Model(read(mjcf()), structure).params is structure.params


def test_keyframes() -> None:
    """Return the state of a keyframe by name and by number."""
    made = model(mjcf(after=KEYS))
    assert made.keyframe_names == ("home", 1)
    for which in made.keyframe_names:
        assert made.keyframe(which)[0].shape == (1,)
    q, v = made.keyframe("home")
    assert (q.tolist(), v.tolist()) == ([0.5], [2.0])
    assert made.keyframe(1)[0].tolist() == [1.0]
    assert made.keyframe(-1)[0].tolist() == [1.0]
    assert not q.flags.writeable


def test_report_groups_notices_by_kind() -> None:
    """List notices under their kind, what was left out first."""
    heads = [
        line.partition(":")[0] for line in model(MIXED, on_unsupported="drop").report().split("\n")
    ]
    assert heads == [
        'model "test"',
        "dropped (left out on request)",
        "  <string>",
        "approximated (approximated on request)",
        "  <string>",
        "law (not the same under both contact laws)",
        "  <string>",
    ]


ACTIVATED = (
    '<actuator><general joint="j" dyntype="user"/><intvelocity joint="j" kp="1"/>'
    '<motor joint="j"/><position joint="j" timeconst="0.1"/></actuator>'
    '<keyframe><key name="home" act="1 2 3"/></keyframe>'
)


def test_activation_is_part_of_the_state() -> None:
    """Count activations, start them at zero and read those of a keyframe."""
    made = model(
        mjcf(
            after=ACTIVATED.replace('<general joint="j" dyntype="user"/>', "", 1).replace(
                "1 2 3", "2 3"
            )
        )
    )
    assert (made.na, made.act0.tolist()) == (2, [0.0, 0.0])
    q, v, act = made.keyframe("home")
    assert (q.tolist(), v.tolist(), act.tolist()) == ([0.0], [0.0], [2.0, 3.0])
    assert made.notices == ()
    plain = model(mjcf(after=KEYS))
    assert (plain.na, plain.act0.shape, len(plain.keyframe("home"))) == (0, (0,), 2)


def test_a_dropped_actuator_takes_its_activation_along() -> None:
    """Leave out the activation of a refused actuator, in keyframes too, and keep the others."""
    made = model(mjcf(after=ACTIVATED), on_unsupported="drop")
    assert made.na == 2
    assert made.keyframe("home")[2].tolist() == [2.0, 3.0]
