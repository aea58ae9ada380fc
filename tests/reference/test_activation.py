"""Activation dynamics against MuJoCo's own step, for 100 steps without constraints.

MuJoCo's integrator is implicitfast, implicit in the damping of joints and servos as ours is (see
test_mujoco.py); every dynamics type, early and late, with and without a range.
"""

from __future__ import annotations

import copy

import mujoco
import numpy as np
import pytest

import featherback as fb
from tests.core.models import activation_model
from tests.core.ops_models import Case
from tests.core.references import apply_spin
from tests.property.random_models import random_state

STEPS = 100
TYPES = ("integrator", "filter", "filterexact")
GEOM = '<geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0" mass="1"/>'
BODY = (
    '<mujoco><option timestep="0.005"><flag constraint="disable"/></option><worldbody><body>'
    f'<joint name="a" axis="0 1 0" damping="0.1"/>{GEOM}<body pos="0.3 0 0">'
    f'<joint name="b" axis="0 1 0.3" armature="0.01"/>{GEOM}</body></body></worldbody>'
    "<actuator>{}</actuator></mujoco>"
)


def law(kind: str, early: bool, limited: bool) -> str:
    """Return a model whose two joints are driven through one dynamics type."""
    limits = 'actlimited="true" actrange="-0.2 0.25"' if limited else ""
    text = f'dyntype="{kind}" dynprm="0.03" actearly="{str(early).lower()}" {limits}'
    servo = 'gaintype="affine" gainprm="3 0.2 -0.4" biastype="affine" biasprm="0.1 -3 -1"'
    return BODY.format(
        f'<general joint="a" {text} gainprm="2" ctrlrange="-0.8 0.8"/>'
        f'<general joint="b" {text} {servo} gear="1.5"/>'
    )


def check(model: fb.Model, seed: int) -> tuple[int, int]:
    """Step 100 times beside MuJoCo within 1e-9; return how often an activation was at a limit."""
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    m, ops = copy.copy(model.mujoco), Case(lambda: model).ops
    m.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    data = mujoco.MjData(m)
    q, v = random_state(model, rng)
    x = np.r_[q, 0.3 * v / max(1.0, np.abs(v).max()), rng.normal(size=model.na) * 0.2]
    data.qpos, data.qvel, data.act = np.split(x, [m.nq, m.nq + m.nv])
    held = moving = 0
    phase = rng.uniform(0, 2 * np.pi, model.nu)
    for k in range(STEPS):
        # slow enough for an integrator to reach its range and to come back
        u = 1.2 * np.sin(k / 30 + phase) + 0.3 * rng.normal(size=model.nu)
        data.ctrl = u
        data.xfrc_applied[:] = 0
        apply_spin(m, data)
        mujoco.mj_step(m, data)
        x = ops.forward("step", np.r_[x, u])
        theirs = np.r_[data.qpos, data.qvel, data.act]
        assert np.abs(x - theirs).max() <= 1e-9 * max(1.0, np.abs(theirs).max())
        at = m.actuator_actadr >= 0
        limit = m.actuator_actlimited[at, None].astype(bool) & (
            m.actuator_actrange[at] == data.act[:, None]
        )
        held, moving = held + int(limit.sum()), moving + int((~limit.any(axis=1)).sum())
    return held, moving


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("limited", [False, True])
def test_each_dynamics_type(kind: str, early: bool, limited: bool) -> None:
    """Follow MuJoCo through one dynamics type, at its limits and between them."""
    held, moving = check(fb.load(law(kind, early, limited)), 0)
    assert moving > 10
    assert held > 10 if limited else held == 0


@pytest.mark.parametrize("seed", range(5))
def test_all_types_together(seed: int) -> None:
    """Follow MuJoCo with all types on one robot, shortcuts, groups and force limits included."""
    held, moving = check(activation_model(), seed)
    assert held > 10
    assert moving > 100


def test_a_filter_without_time_constant_takes_the_control_at_once() -> None:
    """Take a time constant below 1e-15 s as that, as MuJoCo does."""
    text = '<general joint="a" dyntype="filterexact" dynprm="{}"/>'
    for value in ("0", "-1"):
        model = fb.load(BODY.format(text.format(value)))
        x = Case(lambda model=model: model).ops.forward("step", np.r_[np.zeros(4), 0.5, 0.3])
        assert x[-1] == pytest.approx(0.3, abs=1e-15)


def test_activation_rests_where_actuation_is_switched_off() -> None:
    """Leave act as it is, beyond its range too, under the flag actuation; MuJoCo does alike."""
    text = law("integrator", False, True).replace("<flag ", '<flag actuation="disable" ')
    model = fb.load(text)
    m = model.mujoco
    data = mujoco.MjData(m)
    data.act, data.ctrl = (0.5, -0.1), (1.0, 1.0)
    mujoco.mj_step(m, data)
    x = np.r_[np.zeros(4), 0.5, -0.1, 1.0, 1.0]
    y = Case(lambda: model).ops.forward("step", x)
    np.testing.assert_array_equal(y[4:], (0.5, -0.1))
    np.testing.assert_array_equal(data.act, (0.5, -0.1))
