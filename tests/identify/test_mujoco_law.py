"""Identification of contact softness: solref and solimp from a log of MuJoCo."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

import featherback as fb
from featherback.identify import Log, identify, unknown

pytest.importorskip("scipy")

BALL = """<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="0 0 1"/>
<body pos="0 0 0.3"><joint type="slide" axis="0 0 1"/>
<geom name="ball" size="0.1" mass="1" priority="1" solref="{solref}" solimp="{solimp}"/></body>
</worldbody></mujoco>"""
IMPEDANCE = "0.9 0.95 0.001 0.5 2"


def bounces(solref: str, steps: int = 400) -> Log:
    """Return a log of MuJoCo's of a ball that falls and bounces."""
    model = mujoco.MjModel.from_xml_string(BALL.format(solref=solref, solimp=IMPEDANCE))
    model.opt.tolerance = 0.0
    data = mujoco.MjData(model)
    q, v = [data.qpos.copy()], [data.qvel.copy()]
    for _ in range(steps):
        mujoco.mj_step(model, data)
        q.append(data.qpos.copy())
        v.append(data.qvel.copy())
    return Log(np.array(q), np.array(v), q_noise=1e-4, v_noise=1e-3)


@pytest.mark.parametrize(
    ("truth", "guess", "bounds"),
    [
        ((0.02, 0.4), "0.03 0.6", ((0.005, 0.1), (0.1, 2.0))),
        ((-8000.0, -30.0), "-5000 -50", ((-20000.0, -500.0), (-100.0, -1.0))),
    ],
    ids=["time constant and damping ratio", "stiffness and damping"],
)
def test_softness_of_a_bouncing_ball(
    truth: tuple[float, float], guess: str, bounds: tuple[tuple[float, float], ...]
) -> None:
    """Find both numbers of solref from the motion of a ball that MuJoCo bounced."""
    log = bounces(" ".join(map(str, truth)))
    model = fb.load(BALL.format(solref=guess, solimp=IMPEDANCE))
    sim = fb.Simulator(model, contact="mujoco")
    unknowns = [unknown(sim, "geom_solref", "ball", column=k, bounds=bounds[k]) for k in range(2)]
    estimate = identify(sim, log, unknowns, window=40)
    assert estimate.converged and estimate.unresolved() == []
    np.testing.assert_allclose(estimate.x, truth, rtol=1e-5)
