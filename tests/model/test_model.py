"""The model and its report."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from featherback.errors import ParameterError
from featherback.model.model import Model
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
    assert repr(made) == 'Model("test", nq=1, nv=1, nu=1, nbody=2, ngeom=1)'


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


@pytest.mark.parametrize(
    ("after", "which", "expected"),
    [
        (
            "",
            "home",
            'keyframe(): model "test" has no keyframes; add a <key> to the file or use q0.',
        ),
        (KEYS, "hme", 'keyframe(): model "test" has no keyframe "hme"; did you mean "home"?'),
        (KEYS, "", 'keyframe(): model "test" has no keyframe ""; there are: "home", 1.'),
        (KEYS, 2, 'keyframe(): model "test" has no keyframe 2; there are 2, numbered from 0.'),
        (KEYS, 0.5, 'keyframe(): model "test" has no keyframe 0.5; there are 2, numbered from 0.'),
    ],
)
def test_keyframe_errors(after: str, which: str | int, expected: str) -> None:
    """Say what keyframes there are, and suggest the nearest name."""
    with pytest.raises(ParameterError) as caught:
        model(mjcf(after=after)).keyframe(which)
    assert str(caught.value) == expected


def test_report_groups_notices_by_kind() -> None:
    """List notices under their kind, what was left out first."""
    text = mjcf(
        '<geom size="1" solref="1 1"/>',
        world='<geom name="w" type="plane" size="1 1 1" condim="4"/>',
        after='<actuator><motor name="m" jointinparent="j"/></actuator>',
    )
    assert model(text, on_unsupported="drop").report() == (
        'model "test":\n'
        "dropped (left out on request): 1\n"
        '  <string>:8: <motor name="m">: the actuator with jointinparent transmission has no '
        "effect; its control is ignored.\n"
        "approximated (approximated on request): 1\n"
        '  <string>:3: <geom name="w">: condim 4 is treated as 3: no torsional or rolling '
        "friction.\n"
        "ignored (no meaning here): 1\n"
        '  <string>:5: <geom> in <body name="b">: solref of <geom> has no meaning here: contacts, '
        "limits and equalities follow the contact model of this library."
    )


def test_report_of_a_plain_model() -> None:
    """Say so if there is nothing to report."""
    assert model(mjcf()).report() == (
        'model "test":\nnothing was ignored, left out, approximated or repaired'
    )


ACTIVATED = (
    '<actuator><muscle joint="j" lengthrange="0 1"/><intvelocity joint="j" kp="1"/>'
    '<motor joint="j"/><position joint="j" timeconst="0.1"/></actuator>'
    '<keyframe><key name="home" act="1 2 3"/></keyframe>'
)


def test_activation_is_part_of_the_state() -> None:
    """Count activations, start them at zero and read those of a keyframe."""
    made = model(
        mjcf(
            after=ACTIVATED.replace('<muscle joint="j" lengthrange="0 1"/>', "", 1).replace(
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
