"""The schema as Python reads it: against MuJoCo, models, and what is built from it."""

from __future__ import annotations

import copy
import inspect
import pickle
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import featherback as fb
from featherback import _core
from featherback.sim.arguments import Arguments
from featherback.sim.laws import OPTIONS
from featherback.sim.options import CHOSEN

MODELS = {
    "laikago": fb.models.laikago,
    "pendulum": lambda: fb.models.pendulum(2),
    "ball": fb.models.ball,
}


@pytest.mark.parametrize(
    ("rows", "kinds", "prefix"),
    [
        (_core.joint_types(), mujoco.mjtJoint, "mjJNT_"),
        (_core.equality_types(), mujoco.mjtEq, "mjEQ_"),
    ],
)
def test_types_have_the_numbers_of_mujoco(rows: Any, kinds: Any, prefix: str) -> None:
    """Number joints and equality constraints as MuJoCo does."""
    for row in rows:
        if row.name == "none":
            assert row.number < 0
        else:
            assert row.number == int(getattr(kinds, prefix + row.name.upper()))


@pytest.mark.parametrize("name", MODELS)
def test_joints_fill_the_state(name: str) -> None:
    """Count the coordinates and degrees of freedom of a model from the types of its joints."""
    model = MODELS[name]()
    rows = {row.number: row for row in _core.joint_types()}
    kinds = [rows[int(k)] for k in model.mujoco.jnt_type]
    assert sum(row.nq for row in kinds) == model.nq
    assert sum(row.nv for row in kinds) == model.nv


@pytest.mark.parametrize("name", MODELS)
def test_parameters_have_the_shapes_of_the_table(name: str) -> None:
    """Find every parameter of a model in the table, in its order and with its rows and columns."""
    structure = MODELS[name]().structure
    table = _core.parameter_table()
    assert [row.name for row in table] == list(structure.params) == _core.parameter_names()
    for row in table:
        count = int(row.rows) if row.rows.isdigit() else structure.sizes[row.rows]
        value = structure.params[row.name]
        assert value.size == count * row.columns
        assert value.shape in ((count,), (count, row.columns))


def test_every_rule_and_reason_is_used() -> None:
    """Keep no rule that no parameter has, and say why a gradient is missing in words."""
    table = {row.name: row for row in _core.parameter_table()}
    assert {row.rule for row in table.values()} == set(
        "any not_negative positive fraction nonzero quaternion axis range moments products "
        "friction_loss tendon_inertia".split()
    )
    assert table["dt"].least == table["geom_restitution"].least == 0.0
    assert table["mesh_scale"].least == table["body_pos"].least == -np.inf
    missing = {name: row.no_gradient for name, row in table.items() if row.no_gradient}
    assert sorted(missing) == [
        "body_invweight0",
        "body_invweight0_mujoco",
        "dof_invweight0",
        "geom_solmix",
        "tendon_invweight0",
    ]
    assert missing["geom_solmix"] == "it weighs the parameters of two geoms"


@pytest.mark.parametrize("name", MODELS)
def test_tables_are_packed_in_order(name: str) -> None:
    """Put sizes and tables one after another, with other limits where asked for."""
    structure = MODELS[name]().structure
    sizes, tables = structure.packed(max_contacts=7)
    assert dict(zip(_core.size_names(), sizes.tolist(), strict=True)) == {
        **structure.sizes,
        "max_contacts": 7,
    }
    assert sizes.dtype == tables.dtype == np.int32
    assert len(tables) == _core.table_size(sizes)
    at = 0
    for key in _core.table_names():
        n = len(structure.tables[key])
        assert np.array_equal(tables[at : at + n], structure.tables[key])
        at += n
    assert at == len(tables)


def test_wrong_lengths_are_refused() -> None:
    """Refuse sizes or tables that are cut short, before they are read."""
    sizes, tables = fb.models.ball().structure.packed()
    for wrong in ((sizes[:-1], tables), (sizes, tables[:-1])):
        with pytest.raises(ValueError, match="has a wrong length"):
            _core.ParameterChecker(*wrong, ["world", "ball"])
    with pytest.raises(TypeError):
        _core.table_size(sizes[:-1])


@pytest.mark.parametrize("name", MODELS)
def test_outputs_have_the_shapes_of_the_table(name: str) -> None:
    """Return every output in the shape that the table gives for the sizes of a model."""
    model = MODELS[name]()
    sim = fb.Simulator(model, contact="mujoco")
    values = {"q": model.q0, "v": model.v0, "a": np.ones(model.nv), "tau": np.ones(model.nv)}
    values["drive"] = np.ones(model.nu)
    for row in _core.output_table():
        shape = model.structure.output_shape(row.name)
        if row.name == "poses":
            assert shape == (model.nbody + model.nsite, 12)
            continue
        got = getattr(sim, row.name)(*(values[key] for key in row.inputs))
        assert got.shape == shape


def test_options_stand_in_the_signature_and_the_documentation() -> None:
    """Show each option of the table where a user looks, and refuse others."""
    shown = inspect.signature(fb.Simulator).parameters
    for name, row in CHOSEN.items():
        soft = name in OPTIONS["mujoco"]
        own = row.default != row.default_float32 or soft
        assert shown[name].default == (None if own else row.default)
        end = "." if soft else "; default"
        assert fb.Simulator.__doc__ and f"        {name}: {row.doc}{end}" in fb.Simulator.__doc__
    assert "regularization" not in shown
    assert list(Arguments.__annotations__) == list(CHOSEN)
    with pytest.raises(fb.ParameterError) as caught:
        fb.Simulator(fb.models.ball(), regularization=1e-3)  # type: ignore[call-arg]
    assert str(caught.value).startswith('Simulator(): unknown option "regularization"; known: ')
    with pytest.raises(fb.ParameterError) as caught:
        fb.Simulator(fb.models.ball(), frictoin="box")  # type: ignore[call-arg]
    assert str(caught.value) == 'Simulator(): unknown option "frictoin"; did you mean friction?'


def test_options_have_the_defaults_of_the_table() -> None:
    """Take defaults by number type, None among them, and keep what is given."""
    model = fb.models.ball()
    for dtype in ("float64", "float32"):
        options = fb.Simulator(model, dtype=dtype, margin=None).options
        for row in _core.option_table():
            default = row.default_float32 if dtype == "float32" else row.default
            expected = min(default, 1) if row.name == "max_contacts" else default
            assert getattr(options, row.name) == expected
    changed = fb.Simulator(model, friction="box", solver="pgs", gradient="unrolled").options
    assert (changed.friction, changed.solver, changed.gradient) == ("box", "pgs", "unrolled")


def test_smoothing_chooses_the_interior_solver() -> None:
    """Take the solver with a smooth law where none is given, and keep both through a pickle."""
    model = fb.models.ball()
    for sim in (
        fb.Simulator(model, smoothing=0.01),
        fb.Simulator(model, smoothing=0.01, solver=None),
        fb.Simulator(model, smoothing=0.01, solver="interior"),
    ):
        options = sim.options
        assert (options.solver, options.smoothing) == ("interior", 0.01)
    # the ends of what is allowed
    assert fb.Simulator(model, smoothing=1e-8).options.smoothing == 1e-8
    assert fb.Simulator(model, smoothing=1).options.smoothing == 1.0
    assert fb.Simulator(model, smoothing=0).options.solver == "newton"
    assert fb.Simulator(model, smoothing=0, solver="pgs").options.solver == "pgs"
    kept = pickle.loads(pickle.dumps(fb.Simulator(model, smoothing=0.01)))  # noqa: S301
    assert (kept.options.solver, kept.options.smoothing) == ("interior", 0.01)
    assert "solver='interior', smoothing=0.01" in repr(kept)


def test_options_are_values() -> None:
    """Compare, hash, print and copy options; none can be changed."""
    model = fb.models.ball()
    one, same = fb.Simulator(model).options, fb.Simulator(model).options
    other = fb.Simulator(model, friction="box").options
    assert one == same and hash(one) == hash(same) and one != other and one != "cone"
    assert copy.deepcopy(other) == other and copy.deepcopy(other) is not other
    assert str(other).startswith("Options(contact='hard', cone='pyramidal', ")
    assert "friction='box'" in str(other)
    with pytest.raises(AttributeError):
        one.margin = 1.0  # type: ignore[misc]
    with pytest.raises(ValueError, match="no choice of this option: pyramid"):
        _core.Options(friction="pyramid")


def test_statuses_are_bits_with_a_sentence() -> None:
    """Give each status a bit of its own and a sentence that begins with its name."""
    table = _core.status_table()
    assert [row.bit for row in table] == [1 << k for k in range(len(table))]
    assert [fb.Status[row.name] for row in table] == list(fb.Status)
    for row in table:
        assert row.sentence.startswith(f"{row.name}: ") and row.sentence.endswith(".")
        assert fb.Status(row.bit).sentences() == [row.sentence]
    assert fb.Status.OK == 0 and issubclass(fb.Status, int)
    assert repr(fb.Status(3)) == "<Status.NONFINITE|CONTACT_OVERFLOW: 3>"
    assert copy.deepcopy(fb.Status.UNCONVERGED) is fb.Status.UNCONVERGED


def test_generated_types_are_those_of_the_extension() -> None:
    """Write the type of the options as it stands in the tree."""
    from tools.write_arguments import TARGET, written

    assert Path(TARGET).read_text() == written()
