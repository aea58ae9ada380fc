"""Jams: links that overlap along a common axis, many feet under one plate; every step is solved."""

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
def test_links_that_overlap(overlap: float, gear: float, friction: float, mean: float) -> None:
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


def plate(side: int) -> str:
    """Return a plate on feet that hang on hinges, as many as the square of `side`."""
    feet = "".join(
        f'<body pos="{0.2 * i:g} {0.2 * j:g} 0"><joint axis="1 0 0" damping="0.1" stiffness="5"/>'
        '<geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.2" mass="0.1"/></body>'
        for j in range(side)
        for i in range(side)
    )
    middle, half = 0.1 * (side - 1), 0.1 * side
    return f"""<mujoco><option timestep="0.002"/><default><geom friction="0.6"/></default>
<worldbody><geom type="plane" size="0 0 1"/><body pos="0 0 0.221"><freejoint/>
<geom type="box" size="{half} {half} 0.02" pos="{middle} {middle} 0.05" mass="5"/>{feet}</body>
</worldbody></mujoco>"""


def test_many_feet_on_hinges() -> None:
    """Solve every step of a plate whose feet share its load, from velocities of all kinds."""
    print("seed 3")
    model = fb.load(plate(8))
    sim = fb.Simulator(model, contact="hard", max_contacts=400)
    v = 0.05 * np.random.default_rng(3).standard_normal((8, model.nv))
    roll = sim.rollout(np.tile(model.q0, (8, 1)), v, np.zeros((8, 100, 0)))
    assert not (roll.status & int(Status.UNCONVERGED)).any()
    assert roll.residual.max() < 1e-8
