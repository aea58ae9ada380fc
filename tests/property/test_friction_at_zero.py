"""The derivative by a dry friction of zero is that of the side where friction can be."""

from __future__ import annotations

import numpy as np
import pytest

import featherback as fb


def chain(joints: int) -> fb.Model:
    """Return a chain of hinges with dry friction that hangs free of contacts."""
    text = "".join(
        f'<body pos="0.1 0 0"><joint axis="0 {1 - k % 2} {k % 2}" frictionloss="0.01" '
        'armature="0.01"/><geom type="capsule" size="0.02" fromto="0 0 0 0.1 0 0" contype="0" '
        'mass="0.1"/>'
        for k in range(joints)
    )
    return fb.load(
        f'<mujoco><option timestep="0.002"/><worldbody>{text}{"</body>" * joints}</worldbody>'
        "</mujoco>"
    )


@pytest.mark.parametrize("joints", [3, 60])
def test_derivative_by_a_friction_of_zero(joints: int) -> None:
    """Few rows in lanes and many in a world of their own, each joint moving either way."""
    rng = np.random.default_rng(joints)
    model = chain(joints)
    sim = fb.Simulator(model, threads=1)
    q = rng.normal(size=(4, model.nq)) * 0.3
    v = rng.choice([-1.0, 1.0], (4, model.nv)) * rng.uniform(0.5, 1.0, (4, model.nv))
    way, bar = rng.uniform(0.5, 1.0, model.nv), rng.normal(size=(4, model.nv))
    none, step = np.zeros(model.nv), 1e-6

    def run(loss: np.ndarray) -> fb.Rollout:
        return sim.rollout(q, v, steps=1, params={"dof_frictionloss": loss})

    difference = (run(step * way).v[:, -1] - run(none).v[:, -1]) / step
    forward = run(none).jvp(dparams={"dof_frictionloss": way})[1][:, -1]
    backward = run(none).vjp(v_bar=bar).params["dof_frictionloss"]
    assert np.abs(difference).max() > 1e-3
    np.testing.assert_allclose(forward, difference, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose((backward * way).sum(), (bar * forward).sum(), rtol=1e-9)
