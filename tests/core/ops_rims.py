"""Rows of the op table for friction against turning and rolling under the hard law."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import featherback as fb
from tests.core import references
from tests.core.ops import OpRow, Vector, over_parameters, state
from tests.core.ops_models import Case

RIMS = """
<mujoco>
  <option timestep="0.004"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 1" euler="3 4 0" friction="0.4 0.02 0.01" condim="3"/>
    <body pos="0 0 0.099">
      <freejoint/>
      <geom name="ball" size="0.1" mass="1" friction="0.5 0.03 0.004" condim="6"/>
      <body pos="0 0 0.2"><joint type="ball" damping="0.02"/>
        <geom size="0.06" pos="0.02 0 0.03" mass="0.3" condim="4" friction="0.3 0.02 0.003"/>
      </body>
    </body>
    <body pos="0.6 0 0.049" euler="2 1 30">
      <freejoint/>
      <geom name="box" type="box" size="0.1 0.08 0.05" mass="2" friction="0.6 0.01 0.002"
            condim="4"/>
    </body>
    <body pos="0.62 0.01 0.158">
      <freejoint/>
      <geom name="top" size="0.06" mass="0.4" friction="0.7 0.02 0.005" condim="6" priority="1"/>
    </body>
    <body pos="-0.6 0 0.3">
      <joint type="slide" axis="0 0 1"/><joint axis="0 0 1" frictionloss="0.01"/>
      <joint axis="0 1 0" damping="0.05"/>
      <geom name="own" type="capsule" size="0.05" fromto="0 0 -0.01 0.02 0 -0.26" mass="0.7"/>
    </body>
  </worldbody>
  <contact>
    <pair geom1="floor" geom2="own" condim="6" friction="0.5 0.5 0.02 0.01 0.01"/>
  </contact>
</mujoco>
"""


@cache
def rims_model() -> fb.Model:
    """Return a model whose contacts turn and roll: on a floor, on each other, by a pair's rule."""
    return fb.load(RIMS, name="rims")


rims = Case(rims_model)
rims_box = Case(rims_model, friction="box")
rims_interior = Case(rims_model, solver="interior")
rims_smooth = Case(rims_model, smoothing=0.02)
rims_smooth_box = Case(rims_model, smoothing=0.02, friction="box")


def _rows(label: str, case: Case) -> list[OpRow]:
    """Return the rows of a step, over states and over all parameters."""

    def draw(rng: np.random.Generator, rest: bool = False) -> Vector:
        return state(case.model, rng, 0, rest)

    def reference(x: Vector) -> Vector:
        return references.step(case.sim, x)

    precision: dict[str, Any] = {"value": 1e-9, "float_tolerance": 3e-3, "pairing": 1e-9}
    ends = (draw, lambda rng: draw(rng, True))
    return [
        OpRow(f"{label}/step", "step", lambda: case.ops, *ends, reference, **precision),
        over_parameters(label, case, draw, reference, **precision),
    ]


RIM_ROWS: list[OpRow] = [
    *_rows("rims", rims),
    *_rows("rims/box", rims_box),
    *_rows("rims/interior", rims_interior),
    *_rows("rims/smooth", rims_smooth),
    *_rows("rims/smooth/box", rims_smooth_box),
]
