"""What the engine is told of activation: addresses, types, limits, and what is held."""

from __future__ import annotations

import numpy as np
import pytest

import featherback as fb
from tests.model.helpers import mjcf

LAWS = (
    '<actuator><motor joint="j"/><general joint="j" dyntype="integrator" group="3"/>'
    '<general joint="j" dyntype="filter" dynprm="0.2" actearly="true"/><motor joint="j"/>'
    '<position joint="j" timeconst="0.1"/>'
    '<intvelocity joint="j" kp="1" actrange="-1 2"/></actuator>'
)


def tables(before: str = "") -> dict[str, list[int]]:
    """Return the tables of activation of a model with every type."""
    found = fb.load(mjcf(before=before, after=LAWS)).structure.tables
    return {name: found[f"act_{name}"].tolist() for name in ("adr", "dyn", "early", "limited")}


def test_tables_of_activation() -> None:
    """Number activations in the order of their actuators and name their types."""
    assert tables() == {
        "adr": [-1, 0, 1, -1, 2, 3],
        "dyn": [0, 1, 2, 0, 3, 1],
        "early": [0, 0, 1, 0, 0, 0],
        "limited": [0, 0, 0, 0, 0, 1],
    }


def test_activations_that_are_switched_off_are_held() -> None:
    """Hold the activations of a group that is off, or all, then without their ranges."""
    assert tables('<option actuatorgroupdisable="3"/>')["dyn"] == [0, 100, 2, 0, 3, 1]
    off = tables('<option><flag actuation="disable"/></option>')
    assert off["dyn"] == [0, 100, 100, 0, 100, 100]
    assert off["limited"] == [0] * 6


def test_parameters_of_activation() -> None:
    """Give time constants and ranges MuJoCo's names."""
    params = fb.load(mjcf(after=LAWS)).params
    np.testing.assert_array_equal(params["actuator_dynprm"][[2, 4], 0], [0.2, 0.1])
    np.testing.assert_array_equal(params["actuator_actrange"][5], [-1.0, 2.0])


def test_a_range_with_its_ends_exchanged_is_refused() -> None:
    """Refuse an actrange that is in force and no range, and take any where it is not."""
    model = fb.load(mjcf(after=LAWS))
    swapped = np.array(model.params["actuator_actrange"])
    swapped[5] = 3.0, -1.0
    with pytest.raises(fb.ParameterError, match="actuator_actrange"):
        fb.Simulator(model, params={"actuator_actrange": swapped})
    swapped[[1, 5]] = swapped[[5, 1]]
    fb.Simulator(model, params={"actuator_actrange": swapped})


def test_numbers_of_activation_must_be_finite() -> None:
    """Refuse a time constant that is no number after compilation."""
    text = mjcf(after=LAWS.replace('timeconst="0.1"', 'timeconst="1e400"'))
    with pytest.raises(fb.ModelError):
        fb.load(text)
