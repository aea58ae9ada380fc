"""The one checker of parameter values: what it says of each rule, in rows of either number type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import featherback as fb
from featherback._core import ParameterChecker, parameter_names, parameter_table

XML = """
<mujoco>
  <asset><mesh name="m" vertex="0 0 0  1 0 0  0 1 0  0 0 1"/></asset>
  <worldbody>
    <body name="free"><freejoint/><geom size="0.1"/></body>
    <body name="arm">
      <joint name="a" range="-1 1" limited="true" actuatorfrcrange="-9 9" frictionloss="0.1"/>
      <geom type="mesh" mesh="m" contype="0" conaffinity="0"/>
      <site name="tip"/>
      <body name="hand"><joint name="b"/><geom size="0.1"/></body>
    </body>
  </worldbody>
  <tendon><fixed damping="1"><joint joint="a" coef="1"/></fixed></tendon>
  <actuator><motor joint="a"/></actuator>
</mujoco>
"""
EPS = {dtype: float(np.finfo(dtype).eps) for dtype in ("float64", "float32")}


@pytest.fixture(scope="module")
def model() -> fb.Model:
    """A model with a row for every rule."""
    return fb.load(XML)


@pytest.fixture(scope="module")
def checker(model: fb.Model) -> ParameterChecker:
    """The checker of the model."""
    sizes, tables = model.structure.packed()
    return ParameterChecker(sizes, tables, model.body_names)


def flat(model: fb.Model, dtype: str, **changed: tuple[Any, Any]) -> np.ndarray:
    """Return all parameters as one row, with one entry, or a row, of some replaced."""
    params = {name: np.array(value) for name, value in model.params.items()}
    for name, (index, value) in changed.items():
        params[name][index] = value
    return np.concatenate([value.ravel() for value in params.values()]).astype(dtype)


# parameter, entry, value, row that is named, end of the message
WRONG = [
    ("dt", 0, -0.5, 0, 'params["dt"] is -0.5 s; it must be > 0.'),
    ("gravity", 2, np.inf, 2, 'params["gravity"] holds a NaN or infinity; give finite numbers.'),
    ("body_mass", 3, -2.0, 3, 'params["body_mass"] holds -2 kg; it must be >= 0.'),
    ("body_inertia", (2, 1), -2.0, 2, 'params["body_inertia"] holds -2 kg·m²; it must be >= 0.'),
    ("geom_restitution", 1, 2.0, 1, 'params["geom_restitution"] holds 2; it must be from 0 to 1.'),
    ("mesh_scale", (0, 2), 0.0, 0, 'params["mesh_scale"] holds 0; a scale must not be zero.'),
    (
        "body_quat",
        2,
        0.0,
        2,
        'params["body_quat"][2] is zero; a quaternion must have a length > 0.',
    ),
    ("jnt_axis", 2, 0.0, 2, 'params["jnt_axis"][2] is zero; an axis must have a length > 0.'),
    (
        "jnt_actfrcrange",
        (1, 0),
        10.0,
        1,
        'params["jnt_actfrcrange"][1] is from 10 to 9; the lower end must not lie above the upper.',
    ),
    (
        "dof_frictionloss",
        7,
        0.5,
        7,
        'params["dof_frictionloss"][7] is > 0, but the model was loaded with none there, so it has '
        "no friction row; give it a small frictionloss in the file.",
    ),
    (
        "tendon_armature",
        0,
        0.5,
        0,
        'params["tendon_armature"][0] is > 0, but the model was loaded with none there; give it a '
        "small armature in the file.",
    ),
]


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("case", WRONG, ids=[name for name, *_ in WRONG])
def test_every_rule_has_its_sentence(
    model: fb.Model, checker: ParameterChecker, case: tuple[Any, ...], dtype: str
) -> None:
    """Name parameter, row, world and value; say nothing of what was not given."""
    name, index, value, row, message = case
    good, bad = flat(model, dtype), flat(model, dtype, **{name: (index, value)})
    assert checker.check(good, parameter_names(), EPS[dtype]) is None
    found = checker.check(bad, parameter_names(), EPS[dtype])
    assert found is not None
    rule = next(p.rule for p in parameter_table() if p.name == name)
    assert (found.parameter, found.index, found.world, found.rule) == (name, row, -1, rule)
    assert found.value == value
    assert found.message == message
    rows = checker.check(np.stack([good, good, bad, bad]), [name], EPS[dtype])
    assert rows is not None and rows.world == 2 and rows.message == message
    others = [other for other in parameter_names() if other != name]
    assert checker.check(bad, others, EPS[dtype]) is None


@pytest.mark.parametrize("dtype", EPS)
def test_inertias_are_told_by_body_and_world(
    model: fb.Model, checker: ParameterChecker, dtype: str
) -> None:
    """Name the body and its least eigenvalue where products are too large, whichever is given."""
    good, bad = flat(model, dtype), flat(model, dtype, body_inertia_products=((3, 1), 0.3))
    x, y, z = model.params["body_inertia"][3]
    least = np.linalg.eigvalsh([[x, 0, 0.3], [0, y, 0], [0.3, 0, z]])[0]
    for given in (["body_inertia"], ["body_inertia_products"]):
        found = checker.check(np.stack([good, bad]), given, EPS[dtype])
        assert found is not None
        assert (found.index, found.world, found.rule) == (3, 1, "products")
        assert found.value == pytest.approx(least, rel=1e-6)
        assert found.message == (
            'params["body_inertia"][3] and params["body_inertia_products"][3] give body "hand" of '
            f"world 1 an inertia with the eigenvalue {least:g} kg·m²; all must be >= 0."
        )
    alone = checker.check(bad, ["body_inertia"], EPS[dtype])
    assert alone is not None and 'body "hand" an inertia' in alone.message
    assert checker.check(bad, ["body_mass"], EPS[dtype]) is None


def test_least_eigenvalues_are_those_of_numpy(model: fb.Model, checker: ParameterChecker) -> None:
    """Refuse random symmetric matrices just where their least eigenvalue is below zero."""
    seed = 4
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    refused = 0
    for scale in 10.0 ** rng.uniform(-150, 150, 400):
        a = rng.normal(size=(3, 3)) * scale
        matrix = a + a.T if rng.random() < 0.5 else a @ a.T / scale
        np.fill_diagonal(matrix, np.abs(np.diag(matrix)))
        products = matrix[[0, 0, 1], [1, 2, 2]]
        theta = flat(
            model,
            "float64",
            body_inertia=(2, np.diag(matrix)),
            body_inertia_products=(2, products),
        )
        found = checker.check(theta, ["body_inertia"], EPS["float64"])
        least = np.linalg.eigvalsh(matrix)[0]
        if abs(least) > 1e-9 * np.trace(matrix):
            assert (found is not None) == (least < 0)
        if found is not None:
            refused += 1
            assert found.value == pytest.approx(least, rel=1e-6)
    assert 50 < refused < 350


def test_ends_of_ranges_that_limit_nothing_may_be_infinite(
    model: fb.Model, checker: ParameterChecker
) -> None:
    """Take infinite ends where a range is not in force, and a NaN nowhere."""
    free = flat(model, "float64", jnt_range=((2, 1), np.inf))
    assert checker.check(free, ["jnt_range"], 0.0) is None
    for bad in (((1, 1), np.inf), ((2, 1), np.nan)):
        found = checker.check(flat(model, "float64", jnt_range=bad), ["jnt_range"], 0.0)
        assert found is not None and found.message == (
            'params["jnt_range"] holds a NaN or infinity; give finite numbers.'
        )
    ranges = np.array(model.params["jnt_range"])
    ranges[2] = -np.inf, np.inf
    fb.Simulator(model, params={"jnt_range": ranges})
