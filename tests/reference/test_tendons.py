"""Fixed tendons against MuJoCo: lengths, moments, forces, and whole steps under its contact law."""

from __future__ import annotations

from collections import Counter

import mujoco
import numpy as np
import pytest

import featherback as fb
from featherback import ModelError
from tests.core.ops_models import Case
from tests.core.references import actuation, tendon_moments
from tests.property.soft import exact_mujoco, soft_options
from tests.property.tendons import draw_tendons, joins_branches

# force -> the parameters that make it
FORCES = {
    "qfrc_spring": ("jnt_stiffness", "tendon_stiffness"),
    "qfrc_damper": ("dof_damping", "tendon_damping"),
    "qfrc_actuator": ("actuator_gainprm", "actuator_biasprm"),
}


@pytest.mark.parametrize("seed", range(40))
def test_forces_are_mujocos(seed: int) -> None:
    """Give qfrc_spring, qfrc_damper and qfrc_actuator, together and one by one, to 1e-12."""
    model, q, v, rng = draw_tendons(seed)
    try:
        fb.Simulator(model)
    except ModelError as error:
        pytest.skip(f"the reference reads parameters of the hard law: {error}")
    u = rng.normal(size=model.nu)
    x = np.r_[q, v, u]
    case = Case(lambda: model, contact="mujoco")
    wanted = actuation(model, x)
    size = max(float(np.abs(wanted).max()), 1.0)
    assert np.abs(case.ops.forward("actuation", x) - wanted).max() <= 1e-12 * size
    m, nv = model.mujoco, model.nv
    data = mujoco.MjData(m)
    data.qpos[:], data.qvel[:], data.ctrl[:] = q, v, u
    mujoco.mj_forward(m, data)
    params = model.params
    none = {name: np.zeros_like(params[name]) for names in FORCES.values() for name in names}
    moments = tendon_moments(m, data)
    for field, names in FORCES.items():
        left = {name: params[name] for name in names}
        case = Case(lambda: model, contact="mujoco", params={**none, **left})
        found = case.ops.forward("actuation", x)
        tau, damping = found[:nv], found[2 * nv :]
        tau = tau - moments.T @ (damping * (moments @ v))
        assert np.abs(tau - getattr(data, field)).max() <= 1e-12 * size, field


@pytest.mark.parametrize("seed", range(20))
def test_lengths_and_moments_are_mujocos(seed: int) -> None:
    """Move by springs of tendons alone as MuJoCo's length and moments say, to 1e-9."""
    model, q, v, _ = draw_tendons(seed)
    m = model.mujoco
    data = mujoco.MjData(m)
    data.qpos[:], data.qvel[:] = q, v
    mujoco.mj_forward(m, data)
    moments = tendon_moments(m, data)
    tendons = {k: model.params[k].copy() for k in ("tendon_stiffness", "tendon_lengthspring")}
    off = {
        "jnt_stiffness": np.zeros(model.mujoco.njnt),
        "dof_damping": np.zeros(model.nv),
        "tendon_damping": np.zeros(m.ntendon),
        "actuator_gainprm": np.zeros((model.nu, 3)),
        "actuator_biasprm": np.zeros((model.nu, 3)),
    }
    for t in range(m.ntendon):
        tendons["tendon_stiffness"][:] = np.eye(m.ntendon)[t] * 3.0
        tendons["tendon_lengthspring"][:] = data.ten_length[t] - 0.2
        case = Case(lambda: model, contact="mujoco", params={**off, **tendons})
        tau = case.ops.forward("actuation", np.r_[q, v, np.zeros(model.nu)])[: model.nv]
        assert np.abs(tau + moments[t] * 0.6).max() <= 1e-9


def one_step(seed: int, tally: Counter[str], heavy: bool = False) -> float:
    """Return the error of the accelerations of a step under MuJoCo's law."""
    model, q, v, rng = draw_tendons(seed, heavy=heavy)
    options = soft_options(seed)
    reference, u = exact_mujoco(model, options), rng.normal(size=model.nu)
    data = mujoco.MjData(reference)
    data.qpos[:], data.qvel[:], data.ctrl[:] = q, v, u
    mujoco.mj_forward(reference, data)
    smooth = float(np.abs(data.qacc_smooth).max())
    kinds = mujoco.mjtConstraint
    tally.update(kinds(int(t)).name.removeprefix("mjCNSTR_").lower() for t in data.efc_type)
    tally.update([options["integrator"]])
    mujoco.mj_step(reference, data)
    sim = fb.Simulator(model, **options)
    *_, ours, status = sim.step(q, v, u, return_status=True)
    assert status == 0, seed
    a, b = (ours - v) / sim.dt, (data.qvel - v) / sim.dt
    return float(np.abs(a - b).max()) / max(float(np.abs(b).max()), smooth, 1.0)


def test_one_step_is_mujocos() -> None:
    """Agree to 1e-9 with limits, dry friction and couplings, by every integrator."""
    tally: Counter[str] = Counter()
    errors = [(one_step(seed, tally), seed) for seed in range(120)]
    print(sorted(errors)[-3:], dict(tally))
    assert max(errors)[0] < 1e-9
    assert min(tally[k] for k in ("limit_tendon", "friction_tendon", "equality", "rk4")) > 10
    assert tally["implicitfast"] > 10


def test_one_step_with_armature_is_mujocos() -> None:
    """Agree to 1e-9 on models whose tendons, fixed and spatial, have armature."""
    tally: Counter[str] = Counter()
    drawn = [(seed, *draw_tendons(seed, heavy=True)[:2]) for seed in range(120)]
    seeds = [seed for seed, model, q in drawn if not joins_branches(model, q)]
    errors = [(one_step(seed, tally, heavy=True), seed) for seed in seeds]
    print(len(seeds), sorted(errors)[-3:], dict(tally))
    assert max(errors)[0] < 1e-9 and len(seeds) > 80
    assert min(tally[k] for k in ("limit_tendon", "equality", "rk4", "implicitfast")) > 10


@pytest.mark.parametrize("seed", range(20))
def test_inertia_and_bias_with_armature_are_mujocos(seed: int) -> None:
    """Give MuJoCo's mass matrix, bias and smooth accelerations, to 1e-9 of the largest."""
    model, q, v, _ = draw_tendons(seed, heavy=True)
    if joins_branches(model, q):
        pytest.skip("MuJoCo's inertia is not positive without what joins branches")
    m, sim = model.mujoco, fb.Simulator(model, contact="mujoco")
    data = mujoco.MjData(m)
    data.qpos[:], data.qvel[:] = q, v
    mujoco.mj_forward(m, data)
    M = np.zeros((m.nv, m.nv))
    mujoco.mj_fullM(m, data, M)
    tau = np.arange(m.nv) - 1.5
    for found, wanted in (
        (sim.mass_matrix(q), M),
        (sim.bias(q, v), data.qfrc_bias),
        (sim.inverse_dynamics(q, v, tau), M @ tau + data.qfrc_bias),
        (sim.forward_dynamics(q, v, tau), np.linalg.solve(M, tau - data.qfrc_bias)),
    ):
        assert np.abs(found - wanted).max() <= 1e-9 * max(1.0, float(np.abs(wanted).max()))


SLIDES = """
<mujoco><option timestep="0.1" gravity="0 0 0"/><worldbody>
  <body><joint name="a" type="slide"/><geom size="1" mass="1" contype="0" conaffinity="0"/></body>
  <body><joint name="b" type="slide"/><geom size="1" mass="1" contype="0" conaffinity="0"/></body>
</worldbody>
<tendon><fixed name="t" {more}>
  <joint joint="a" coef="1"/><joint joint="b" coef="1"/></fixed></tendon>
<actuator>{act}</actuator></mujoco>
"""


def test_damping_is_implicit_under_the_hard_law() -> None:
    """Give the worked example of docs/derivations/tendon.md, by a damper and by a servo."""
    for more, act in (
        ('damping="10"', ""),
        ("", '<velocity tendon="t" kv="10"/>'),
        ('damping="4"', '<velocity tendon="t" kv="1.5" gear="2"/>'),
    ):
        sim = fb.Simulator(fb.load(SLIDES.format(more=more, act=act)))
        u = np.zeros(sim.model.nu)
        v = sim.step(np.zeros(2), np.array([1.0, 0.0]), u)[1]
        np.testing.assert_allclose(v, [2 / 3, -1 / 3], atol=1e-12)


def test_armature_under_the_hard_law() -> None:
    """Give the worked example of docs/derivations/tendon.md, in a step and as an output."""
    sim = fb.Simulator(fb.load(SLIDES.format(more='armature="1"', act='<motor joint="a"/>')))
    v = sim.step(np.zeros(2), np.zeros(2), np.array([3.0]))[1]
    np.testing.assert_allclose(v / sim.dt, [2, -1], atol=1e-12)
    acc = sim.forward_dynamics(np.zeros(2), np.zeros(2), np.array([3.0, 0.0]))
    np.testing.assert_allclose(acc, [2, -1], atol=1e-12)


# of the others most have loops, or joints that turn freely
HEAVY = [(seed, True) for seed in (46, 88, 99, 109, 116, 119, 164, 235, 252, 256, 269)]


@pytest.mark.parametrize(("seed", "heavy"), [*((seed, False) for seed in range(20)), *HEAVY])
def test_hard_step_is_that_of_the_whole_matrix(seed: int, heavy: bool) -> None:
    """Solve (M + hD + (h B + armature) J'J) a = tau where nothing else acts, to 1e-9."""
    model, q, v, rng = draw_tendons(seed, narrow=True, heavy=heavy)
    m = model.mujoco
    u = rng.normal(size=model.nu)
    no_rows = {
        "dof_frictionloss": np.zeros(model.nv),
        "tendon_frictionloss": np.zeros(m.ntendon),
        "jnt_range": np.tile([-1e6, 1e6], (m.njnt, 1)),
        "tendon_range": np.tile([-1e6, 1e6], (m.ntendon, 1)),
        "geom_pos": model.params["geom_pos"] + np.eye(1, m.ngeom).T * [0, 0, -1e3],
    }
    if m.neq or np.any(m.jnt_type < 2):
        pytest.skip("loops, and joints whose velocity products are the library's own")
    case = Case(lambda: model, params=no_rows)
    nv = model.nv
    tau, hd, damping = np.split(case.ops.forward("actuation", np.r_[q, v, u]), [nv, 2 * nv])
    data = mujoco.MjData(m)
    data.qpos[:], data.qvel[:] = q, v
    mujoco.mj_forward(m, data)
    moments = tendon_moments(m, data)
    # the engine counts the velocity products of armature among the forces of tendons
    armature, m.tendon_armature[:] = m.tendon_armature.copy(), 0
    mujoco.mj_forward(m, data)
    mass = np.zeros((nv, nv))
    mujoco.mj_fullM(m, data, mass)
    m.tendon_armature[:] = armature
    drag = armature + case.sim.dt * damping
    whole = mass + np.diag(hd - m.dof_armature) + moments.T * drag @ moments
    # the explicit force is without what the row does
    force = tau - moments.T @ (damping * (moments @ v)) - data.qfrc_bias
    wanted = v + case.sim.dt * np.linalg.solve(whole, force)
    found = case.sim.step(q, v, u)[1]
    assert np.abs(found - wanted).max() <= 1e-9 * max(1.0, float(np.abs(wanted).max()))
