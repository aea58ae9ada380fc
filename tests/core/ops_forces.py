"""Rows of the op table for gravity compensation, fluids, muscles and actuators on sites."""

from __future__ import annotations

from functools import cache
from typing import Any

import mujoco
import numpy as np

import featherback as fb
from tests.core import references
from tests.core.ops import OpRow, Vector, over_parameters, state
from tests.core.ops_models import Case
from tests.core.ops_soft import step_rows
from tests.core.references import SLIDE

FORCES = """
<mujoco>
  <option timestep="0.004" density="1.3" viscosity="0.2" wind="0.5 -0.3 0.1"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <body pos="0 0 1" gravcomp="0.6">
      <freejoint/>
      <geom type="box" size="0.2 0.1 0.05" mass="2"/>
      <site name="hip" pos="0.1 0.1 0" euler="0 20 10"/>
      <body pos="0.2 0.1 0.1" euler="20 30 40" gravcomp="1.2">
        <joint name="a" axis="1 2 3" pos="0.02 0 0.01" range="-60 60" damping="0.1"
               actuatorgravcomp="true" actuatorfrcrange="-0.9 0.8"/>
        <geom type="capsule" size="0.03 0.1" mass="0.7" pos="0.01 0.02 0.1" fluidshape="ellipsoid"/>
        <geom type="ellipsoid" size="0.05 0.08 0.03" pos="0.05 0 0.2" euler="10 20 30" mass="0.2"
              fluidshape="ellipsoid" fluidcoef="0.4 0.3 1.2 0.9 1.1"/>
        <body pos="0 0.1 0.2" euler="10 0 70">
          <joint name="c" type="ball" pos="0.01 0 -0.02" actuatorgravcomp="true"/>
          <geom type="cylinder" size="0.05 0.1" mass="0.5" fluidshape="ellipsoid"/>
          <site name="tip" pos="0.02 0.05 0.1" euler="10 30 50"/>
          <body pos="0.1 0 0" euler="30 0 10" gravcomp="0.4">
            <geom type="box" size="0.03 0.05 0.02" pos="0.02 0 0" euler="0 20 0" mass="0.3"/>
          </body>
        </body>
      </body>
    </body>
    <body pos="1 0 0.2" gravcomp="1">
      <site name="far" pos="0.1 0.2 0.1" euler="20 10 5"/>
      <joint name="d" type="slide" axis="0 0 1" actuatorgravcomp="true"/>
      <joint name="e" axis="0 1 0.2" range="-50 60" damping="0.3"/>
      <geom type="sphere" size="0.1" pos="0.05 0 -0.1" mass="1" fluidshape="ellipsoid"/>
    </body>
    <body pos="-1 0 1" euler="0 30 20">
      <freejoint/>
      <geom type="box" size="0.1 0.06 0.15" pos="0.01 0.02 0" mass="0.8" fluidshape="ellipsoid"/>
    </body>
  </worldbody>
  <actuator>
    <motor joint="a" gear="2"/>
    <muscle joint="a" force="3" range="0.7 1.2" timeconst="0.02 0.06"/>
    <muscle joint="e" gear="1.5" scale="4" tausmooth="0.4" lmax="1.4" fvmax="1.3"/>
    <general joint="e" gaintype="muscle" gainprm="0.8 1.3 2 200 0.4 1.5 1.2 1.3 1.4"
             biastype="muscle" biasprm="0.9 1.4 2 200 0.5 1.6 1.5 1.1 1.2" lengthrange="-0.4 0.5"
             dyntype="filter" dynprm="0.03" forcerange="-1.5 1"/>
    <motor jointinparent="d" gear="1.5" armature="0.1" damping="0.2"/>
    <general site="tip" gear="1 0.5 -0.3 0.2 0.1 -0.4" biastype="affine" biasprm="0.1 0 -0.5"/>
    <general site="tip" refsite="hip" gear="1 0.4 0.2 0.3 -0.2 0.1" gaintype="affine"
             gainprm="1 0.3 -0.2" biastype="affine" biasprm="0 -2 -0.3"/>
    <position site="tip" refsite="far" gear="0 1 0.5 0 0 0" kp="2" kv="0.4" forcerange="-1 1"/>
    <general slidersite="far" cranksite="tip" cranklength="3" gear="1.2" biastype="affine"
             biasprm="0 -1 -0.6"/>
  </actuator>
</mujoco>
"""


@cache
def forces_model() -> fb.Model:
    """Return bodies that are carried and drift in a fluid, muscles, and terms of actuators."""
    return fb.load(FORCES, name="forces")


def _slope(m: Any, data: Any, i: int) -> float:
    """Return how the force of an actuator answers to its speed, per input."""
    if m.actuator_gaintype[i] != int(mujoco.mjtGain.mjGAIN_MUSCLE):
        return m.actuator_gainprm[i, 2] if m.actuator_gaintype[i] else 0.0
    length, speed, h = data.actuator_length[i], data.actuator_velocity[i], 1e-5
    ends = [
        mujoco.mju_muscleGain(
            length, v, m.actuator_lengthrange[i], m.actuator_acc0[i], m.actuator_gainprm[i, :9]
        )
        for v in (speed - h, speed + h)
    ]
    return (ends[1] - ends[0]) / (2 * h)


def actuation(model: fb.Model, x: Vector) -> Vector:
    """Return MuJoCo's passive and actuator forces, and armature + h damping, at (q, v, act, u)."""
    m, data = model.mujoco, references.data_at(model, x)
    data.act, data.ctrl = np.split(x[m.nq + m.nv :], [m.na])
    mujoco.mj_fwdActuation(m, data)
    damping = np.array(m.dof_damping).reshape(-1)[: m.nv].copy()
    for i in range(m.nu):
        if m.actuator_trntype[i] > int(mujoco.mjtTrn.mjTRN_JOINTINPARENT):
            continue
        j = m.actuator_trnid[i, 0]
        d, gear = m.jnt_dofadr[j], m.actuator_gear[i, 0]
        limited = m.actuator_forcelimited[i] and data.actuator_force[i] in m.actuator_forcerange[i]
        held = m.jnt_actfrclimited[j] and data.qfrc_actuator[d] in m.jnt_actfrcrange[j]
        if m.jnt_type[j] < SLIDE or limited or held:
            continue
        at = m.actuator_actadr[i]
        given = data.act[at] if at >= 0 else data.ctrl[i]
        damping[d] += max(-_slope(m, data, i) * given, 0.0) * gear**2
    tau = data.qfrc_passive + data.qfrc_actuator
    return np.r_[tau, m.dof_armature + m.opt.timestep * damping]


def _draw(case: Case, rng: np.random.Generator, rest: bool = False) -> Vector:
    """Draw (q, v, act, u)."""
    return state(case.model, rng, case.model.na + case.model.nu, rest)


def _soft(integrator: str) -> Case:
    return Case(
        forces_model, contact="mujoco", cone="pyramidal", impratio=1.0, integrator=integrator
    )


forces = Case(forces_model)
forces_euler = _soft("euler")
forces_fast = _soft("implicitfast")
forces_rk4 = _soft("rk4")


def _rows(case: Case) -> list[OpRow]:
    """Return the rows of the hard law, and of the forces by themselves."""

    def sample(rng: np.random.Generator) -> Vector:
        return _draw(case, rng)

    def edge(rng: np.random.Generator) -> Vector:
        return _draw(case, rng, True)

    def draw(rng: np.random.Generator, rest: bool = False) -> Vector:
        return _draw(case, rng, rest)

    def own(x: Vector) -> Vector:
        return references.step(case.sim, x)

    def act(x: Vector) -> Vector:
        return references.activation(case.model, x)

    def tau(x: Vector) -> Vector:
        return actuation(case.model, x)

    def of_act() -> Vector:
        m = case.model
        return np.r_[np.zeros(m.nq + m.nv), np.ones(m.na + m.nu)]

    def ops() -> Any:
        return case.ops

    return [
        OpRow("forces/actuation", "actuation", ops, sample, edge, tau, value=1e-9),
        OpRow(
            "forces/activation",
            "activation",
            ops,
            sample,
            edge,
            act,
            differentiable=of_act,
            value=1e-12,
        ),
        OpRow("forces/step", "step", ops, sample, edge, own, value=1e-9),
        over_parameters("forces", case, draw, own, value=1e-9),
    ]


FORCE_ROWS: list[OpRow] = [
    *_rows(forces),
    *step_rows("forces", forces_euler),
    *step_rows("forces/implicitfast", forces_fast),
    *step_rows("forces/rk4", forces_rk4),
]
