"""A Simulator with MuJoCo's contact law: settings of the file, parameters, copies, statuses."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import mujoco
import numpy as np
import pytest

import featherback as fb
from featherback.errors import ParameterError

FILE = """<mujoco model="soft"><option timestep="0.002" cone="elliptic" impratio="3"
integrator="implicitfast"><flag refsafe="disable" eulerdamp="disable"/></option>
<worldbody><geom name="floor" type="plane" size="0 0 1" solref="0.01 1.2"/>
<body pos="0 0 0.099"><freejoint/><geom name="ball" size="0.1" mass="1" condim="6"
friction="0.8 0.02 0.01" solref="-900 -20" solimp="0.8 0.95 0.002 0.4 3"/></body>
<body pos="1 0 0.099"><freejoint/><geom name="other" size="0.1" mass="1"/></body></worldbody>
<contact><pair geom1="floor" geom2="other" condim="4" friction="0.5 0.9 0.01 0.001 0.001"
solreffriction="0.04 1" margin="0.01"/></contact></mujoco>"""


def start(model: fb.Model) -> tuple[np.ndarray, np.ndarray]:
    """Return a state in which both balls slide, turn and sink in."""
    v = np.array([0.5, -0.3, -0.2, 1.0, -2.0, 3.0] * 2)
    return np.array(model.q0), v


def test_settings_are_those_of_the_file() -> None:
    """Take cone, impratio, integrator and flags from the file, and others where they are given."""
    model = fb.load(FILE)
    own = fb.Simulator(model, contact="mujoco").options
    assert (own.cone, own.impratio, own.integrator) == ("elliptic", 3.0, "implicitfast")
    assert (own.refsafe, own.eulerdamp) == (0, 0)
    given: dict[str, Any] = {"cone": "pyramidal", "impratio": 2, "integrator": "euler"}
    other = fb.Simulator(model, contact="mujoco", refsafe=1, **given).options
    assert (other.cone, other.impratio, other.integrator) == ("pyramidal", 2.0, "euler")
    assert (other.refsafe, other.eulerdamp) == (1, 0)
    plain = fb.Simulator(fb.models.ball(), contact="mujoco").options
    assert (plain.cone, plain.impratio, plain.integrator) == ("pyramidal", 1.0, "euler")


@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
def test_forces_of_contacts_are_mujocos(cone: Any) -> None:
    """Report the force on each contact as MuJoCo does, in world axes."""
    model = fb.load(FILE)
    sim = fb.Simulator(model, contact="mujoco", cone=cone)
    reference = copy.deepcopy(model.mujoco)
    reference.opt.cone = int(cone == "elliptic")
    reference.opt.tolerance, reference.opt.iterations = 0.0, 60
    reference.opt.ls_tolerance = 1e-12
    data = mujoco.MjData(reference)
    data.qpos[:], data.qvel[:] = start(model)
    mujoco.mj_forward(reference, data)
    found = sim.contacts(*start(model))
    assert int(found.count) == data.ncon == 2
    wanted = {}
    for number, contact in enumerate(data.contact):
        force = np.zeros(6)
        mujoco.mj_contactForce(reference, data, number, force)
        wanted[int(contact.geom[1])] = force.reshape(2, 3) @ contact.frame.reshape(3, 3)
    for k in range(2):
        exact = wanted[int(found.geom2[k])]
        assert np.abs(found.force[k] - exact[0]).max() < 1e-9 * np.abs(exact[0]).max()
        assert np.abs(found.torque[k] - exact[1]).max() < 1e-9 * np.abs(exact[0]).max()
    assert np.abs(found.torque).max() > 0


def test_other_parameters_are_those_of_another_file() -> None:
    """Step with changed settings as a file with these settings does."""
    model = fb.load(FILE)
    params = {
        "geom_solref": np.array([[0.02, 1.0], [0.03, 0.7], [0.02, 1.0]]),
        "geom_margin": np.array([0.001, 0.002, 0.0]),
        "pair_friction_rest": np.array([[0.4, 0.02, 0.003, 0.002]]),
        "pair_solreffriction": np.array([[0.05, 0.9]]),
    }
    text = FILE.replace('solref="0.01 1.2"', 'margin="0.001"')
    text = text.replace('solref="-900 -20"', 'solref="0.03 0.7" margin="0.002"')
    text = text.replace('"0.5 0.9 0.01 0.001 0.001"', '"0.5 0.4 0.02 0.003 0.002"')
    text = text.replace('solreffriction="0.04 1"', 'solreffriction="0.05 0.9"')
    changed = fb.Simulator(model, contact="mujoco", params=params)
    written = fb.Simulator(fb.load(text), contact="mujoco")
    ends = [sim.rollout(*start(model), steps=50) for sim in (changed, written)]
    before = fb.Simulator(model, contact="mujoco").rollout(*start(model), steps=50)
    assert np.abs(ends[0].q - ends[1].q).max() < 1e-13
    assert np.abs(ends[0].q - before.q).max() > 1e-4


def test_params_are_those_that_act() -> None:
    """List the parameters of the law and refuse the others, in outputs too."""
    model = fb.load(FILE, on_unsupported="drop")
    soft, hard = fb.Simulator(model, contact="mujoco"), fb.Simulator(model)
    assert "geom_solref" in soft.params and "geom_restitution" not in soft.params
    assert "geom_solref" not in hard.params and "geom_restitution" in hard.params
    assert set(soft.params) | set(hard.params) == set(model.params)
    fb.Simulator(model, contact="mujoco", params=soft.params)
    with pytest.raises(ParameterError, match=r'bias.*"geom_solref" acts under contact="mujoco"'):
        hard.bias(*start(model), params={"geom_solref": model.params["geom_solref"]})


def test_simulators_travel() -> None:
    """Keep law, settings and parameters in a pickle and a copy; roll out the same bits."""
    model = fb.load(FILE)
    solref = 1.1 * model.params["geom_solref"]
    sim = fb.Simulator(model, contact="mujoco", impratio=5.0, params={"geom_solref": solref})
    roll = sim.rollout(*start(model), steps=20)
    bar = np.ones(model.nq)
    for other in (pickle.loads(pickle.dumps(sim)), copy.deepcopy(sim)):  # noqa: S301
        assert other.options == sim.options and list(other.params) == list(sim.params)
        assert np.array_equal(other.rollout(*start(model), steps=20).q, roll.q)
    again = pickle.loads(pickle.dumps(roll))  # noqa: S301
    assert np.array_equal(again.vjp(bar).v, roll.vjp(bar).v)


def test_checkpoints_and_second_order() -> None:
    """Differentiate with few kept states, and twice, as with all of them."""
    model = fb.load(FILE)
    sim = fb.Simulator(model, contact="mujoco")
    kept, few = (sim.rollout(*start(model), steps=30, checkpoint=c) for c in ("step", 7))
    bar = np.linspace(0.1, 1.0, model.nq)
    assert np.array_equal(kept.vjp(bar).v, few.vjp(bar).v)
    roll = sim.rollout(*start(model), steps=3)
    dv = np.linspace(-1.0, 1.0, model.nv)
    twice = roll.hessian_vector_product(bar, direction=(None, dv, None))
    q, v = start(model)
    e = 1e-5
    ends = [sim.rollout(q, v + s * e * dv, steps=3).vjp(bar).v for s in (1, -1)]
    wanted = (ends[0] - ends[1]) / (2 * e)
    assert np.abs(twice.v - wanted).max() < 1e-6 * np.abs(wanted).max()


def test_too_many_contacts_are_said() -> None:
    """Set the status where contacts are left out, and refuse the gradient."""
    model = fb.load(FILE)
    sim = fb.Simulator(model, contact="mujoco", max_contacts=1)
    roll = sim.rollout(*start(model), steps=1)
    assert roll.status == fb.Status.CONTACT_OVERFLOW
    with pytest.raises(fb.WorldError):
        roll.vjp(np.ones(model.nq))


def test_check_gradients_passes_on_a_robot() -> None:
    """Find gradients and differences alike on the Laikago, in contact softness too."""
    sim = fb.Simulator(fb.models.laikago(), contact="mujoco")
    names = ["geom_solref", "geom_solimp", "geom_margin", "geom_friction"]
    report = fb.check_gradients(sim, params=names, steps=5, draws=4)
    assert report.ok, str(report)


def test_equal_frictions_of_spin_have_half_of_the_gradient_each() -> None:
    """Give each of two geoms with the same torsional friction half of its gradient."""
    text = """<mujoco><worldbody><geom type="plane" size="1 1 1" friction="0.8 0.03 0.01"/>
    <body pos="0 0 0.0995"><freejoint/><geom size="0.1" condim="4" friction="0.8 0.03 0.01"/></body>
    </worldbody></mujoco>"""
    model = fb.load(text)
    sim = fb.Simulator(model, contact="mujoco")
    frictions = {"geom_friction": model.params["geom_friction"]}
    roll = sim.rollout(model.q0, [0.0, 0, 0, 0, 0, 9], steps=20, params=frictions)
    found = roll.vjp(v_bar=np.eye(6)[5]).params["geom_friction"][:, 1]
    assert found[0] == found[1] < -1e-3
    # of both together it is that of differences
    ends = [
        sim.rollout(
            model.q0,
            [0.0, 0, 0, 0, 0, 9],
            steps=20,
            params={"geom_friction": frictions["geom_friction"] + [0, side, 0]},
        ).v[-1, 5]
        for side in (-1e-6, 1e-6)
    ]
    slope = (ends[1] - ends[0]) / 2e-6
    assert abs(found.sum() - slope) <= 1e-6 * abs(slope)
