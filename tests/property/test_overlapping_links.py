"""Links that overlap along a common axis: contacts whose normals no joint moves."""

from __future__ import annotations

import numpy as np
import pytest

import featherback as fb
from featherback.sim import Status

STEPS, HELD = 200, 10
LINK = '<geom type="box" size="0.012 0.01 0.06" pos="0 0 -0.05" euler="0 {turn} 0" mass="0.05"/>'


def walker(beside: int, overlap: float, gear: float, friction: float) -> str:
    """Return a trunk with four times `beside` legs of two links that overlap along their axes."""
    legs, motors = "", ""
    for x in (-0.15, 0.15):
        for y in (-0.08, 0.08):
            for k in range(beside):
                side, name = (-1) ** k, f"{x}{y}{k}"
                motors += f'<motor joint="hip{name}" gear="{gear}" ctrlrange="-1 1"/>'
                motors += f'<motor joint="knee{name}" gear="{gear}" ctrlrange="-1 1"/>'
                legs += (
                    f'<body pos="{x} {y + (k - 0.5) * (0.02 - overlap)} 0">'
                    f'<joint name="hip{name}" axis="0 1 0"/>{LINK.format(turn=15 * side)}'
                    f'<body pos="{0.05 * side} 0 -0.1">'
                    f'<joint name="knee{name}" axis="0 1 0"/>{LINK.format(turn=0)}</body></body>'
                )
    return f"""<mujoco><compiler angle="degree"/><option timestep="0.002"/>
<default><geom friction="{friction}"/></default><worldbody><geom type="plane" size="5 5 .1"/>
<body pos="0 0 0.19"><freejoint/><geom type="box" size="0.2 0.06 0.03" mass="1"/>{legs}</body>
</worldbody><actuator>{motors}</actuator></mujoco>"""


@pytest.mark.parametrize(
    ("overlap", "gear", "friction", "mean"),
    [(0.012, 0.3, 1.0, 60), (0.012, 0.3, 2.0, 60), (0.012, 0.05, 1.0, 80)],
)
def test_every_step_is_solved(overlap: float, gear: float, friction: float, mean: float) -> None:
    """Solve every step to rounding, with few factorisations in the mean."""
    print("seed 0")
    model = fb.load(walker(4, overlap, gear, friction))
    sim = fb.Simulator(model, contact="hard")
    draws = np.random.default_rng(0).uniform(-1, 1, (STEPS // HELD, model.nu))
    u = np.repeat(draws, HELD, axis=0)
    roll = sim.rollout(model.q0, np.zeros(model.nv), u)
    assert not roll.status & int(Status.UNCONVERGED)
    assert roll.residual < 1e-8
    # each step by itself, in the states of the rollout
    steps = sim.rollout(roll.q[:-1], roll.v[:-1], u[:, None])
    assert not (steps.status & int(Status.UNCONVERGED)).any()
    assert steps.factorisations.mean() < mean
