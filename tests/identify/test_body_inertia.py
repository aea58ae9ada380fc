"""A body's mass, centre and inertia are identified together and stay those of a real body."""

from __future__ import annotations

import numpy as np
import pytest

import featherback as fb
from featherback.identify import Log, identify, inertia_of
from featherback.inertia import from_log_cholesky

XML = """
<mujoco>
  <option timestep="0.002"/>
  <worldbody>
    <body name="lower">
      <joint name="a" axis="0 0 1"/><joint name="b" axis="0 1 0"/><joint name="c" axis="1 0 0"/>
      <inertial pos="0.1 0.02 -0.05" mass="1.5" diaginertia="0.02 0.03 0.04" quat="0.9 0.1 0.3 0"/>
    </body>
  </worldbody>
  <actuator><motor joint="a"/><motor joint="b"/><motor joint="c"/></actuator>
</mujoco>
"""


def test_the_start_is_the_simulators_body() -> None:
    """Write back the body that was read: mass, centre and inertia in body axes."""
    sim = fb.Simulator(fb.load(XML))
    block = inertia_of(sim, "lower")
    q, v, u = np.array([0.3, -0.2, 0.5]), np.array([1.0, 2.0, -1.0]), np.zeros(3)
    params = {name: np.array(sim.params[name]) for name in from_log_cholesky(block.start)}
    block.put(block.start, params)
    np.testing.assert_allclose(
        sim.forward_dynamics(q, v, u, params=dict(params)),
        sim.forward_dynamics(q, v, u),
        rtol=1e-10,
    )


def test_tangents_are_derivatives() -> None:
    """Match central differences of what is written, for each of the ten numbers."""
    sim = fb.Simulator(fb.load(XML))
    block = inertia_of(sim, 1)
    names = list(from_log_cholesky(block.start))
    for i, tangent in enumerate(block.tangents(block.start)):
        ends: list[dict[str, np.ndarray]] = []
        for sign in (1.0, -1.0):
            params = {name: np.array(sim.params[name]) for name in names}
            block.put(block.start + sign * 1e-6 * np.eye(10)[i], params)
            ends.append(params)
        for name in names:
            slope = (ends[0][name] - ends[1][name]) / 2e-6
            np.testing.assert_allclose(tangent[name], slope, atol=1e-8)


def test_a_body_is_found() -> None:
    """Predict a new motion to rounding after a driven one, and name what it cannot tell."""
    pytest.importorskip("scipy")
    sim = fb.Simulator(fb.load(XML))
    truth = inertia_of(sim, "lower").start + 0.1 * np.random.default_rng(0).normal(size=10)
    names = list(from_log_cholesky(truth))
    params = {name: np.array(sim.params[name]) for name in names}
    inertia_of(sim, "lower").put(truth, params)
    real = fb.Simulator(sim.model, params=dict(params))
    u = 0.5 * np.sin(0.02 * np.arange(500)[:, None] * [1.0, 1.6, 2.3])
    roll = real.rollout([0.1, 0.2, 0.3], [0.0, 0.5, -0.5], u)
    log = Log(roll.q, roll.v, u, 1e-6, 1e-6)
    estimate = identify(sim, log, [inertia_of(sim, "lower")], window=50)
    # all joints meet in one point, about which mass, first moments and inertia act: of ten
    # numbers nine, since mass and centre act by their product alone
    (direction,) = estimate.unresolved(within=1e3)
    assert "half log mass of lower" in direction.components
    assert np.isinf(direction.deviation)
    values = estimate.params
    found = sim.rollout([-0.4, 0.1, 0.2], [1.0, 0.0, 0.0], -u, params=dict(values))
    wanted = real.rollout([-0.4, 0.1, 0.2], [1.0, 0.0, 0.0], -u)
    assert np.abs(found.q - wanted.q).max() < 1e-4
    moments = np.diag(values["body_inertia"][1])
    for k, (i, j) in enumerate(((0, 1), (0, 2), (1, 2))):
        moments[i, j] = moments[j, i] = values["body_inertia_products"][1, k]
    least, middle, most = np.linalg.eigvalsh(moments)
    assert values["body_mass"][1] > 0.0 and 0.0 < least and least + middle > most
