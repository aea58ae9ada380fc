"""Rows that depend on each other: what is lost in round-off leaves gradients finite."""

from __future__ import annotations

import numpy as np

import featherback as fb
from tests.core.ops_models import Case

BOX = '<body pos="0 0 {}"><freejoint/><geom type="box" size="0.1 0.1 0.1" mass="1"/></body>'
STACK = (
    '<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="0 0 1"/>'
    + "".join(BOX.format(z) for z in (0.1, 0.3, 0.5))
    + '<body pos="0 0 0.7"><freejoint/><geom size="0.1" mass="1"/></body></worldbody></mujoco>'
)


def test_stack_has_finite_gradients_in_float32() -> None:
    """Stay finite in float32 where a pivot of the contact rows vanishes: 39 rows on 24 dofs.

    In the first state one does, with fused products: the lowest box tilted, the next one hardly.
    """
    case = Case(lambda: fb.load(STACK), dtype="float32")
    m, seed = case.model, 0
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    states = np.tile(np.r_[m.q0, np.zeros(m.nv)], (300, 1))
    states[0, [5, 11]] += 0.005, 1e-12
    moved = rng.random(states[1:].shape) < 0.1
    states[1:][moved] += rng.choice([-0.005, -1e-12, 1e-12, 0.005], int(moved.sum()))
    for x in states.astype(np.float32).astype(np.float64):
        bar = rng.normal(size=m.nq + m.nv)
        assert np.isfinite(case.ops.adjoint_float("step", x, bar)).all()
