"""A batch runs in lanes or world by world, as time decides; no result tells which."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import featherback as fb

WORLDS, STEPS, CALLS = 19, 12, 6
BODIES = "".join(
    f'<body pos="{0.01 * k} 0 {0.1 + 0.21 * k}"><freejoint/>'
    f'<geom type="box" size="0.1 0.1 0.1" mass="{1 + k}"/></body>'
    for k in range(4)
)
STACK = (
    '<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="0 0 1"/>'
    f"{BODIES}</worldbody></mujoco>"
)


def results(sim: fb.Simulator, q: Any, v: Any, params: dict[str, Any]) -> list[Any]:
    """Return all that a rollout and its gradient give."""
    roll = sim.rollout(q, v, steps=STEPS, params=params)
    bar = roll.vjp(np.ones((len(q), STEPS + 1, q.shape[1])), np.ones_like(roll.v))
    fields = (roll.status, roll.residual, roll.sweeps, roll.factorisations)
    return [roll.q, roll.v, *fields, bar.q, bar.v, *bar.params.values()]


@pytest.mark.parametrize("own", [False, True], ids=["shared", "of each world"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_every_call_has_the_same_bits(dtype: str, threads: int, own: bool) -> None:
    """Calls after the first run some steps of a block in the other way; no bit tells which."""
    print("seed 4")
    rng = np.random.default_rng(4)
    model = fb.load(STACK)
    sim = fb.Simulator(model, dtype=dtype, threads=threads)
    q = np.tile(model.q0, (WORLDS, 1))
    q[:, 2::7] -= rng.uniform(0, 0.01, (WORLDS, 4))
    v = rng.normal(0, 0.2, (WORLDS, model.nv))
    mass = model.params["body_mass"]
    params = {"body_mass": mass * rng.uniform(0.9, 1.1, (WORLDS, 1)) if own else mass}
    first = results(sim, q, v, params)
    assert first[5].max() > 1
    for _ in range(CALLS):
        for a, b in zip(first, results(sim, q, v, params), strict=True):
            assert np.array_equal(a, b)
    # and a world alone has them too
    alone = {name: value[3] if own else value for name, value in params.items()}
    roll = sim.rollout(q[3], v[3], steps=STEPS, params=alone)
    assert np.array_equal(roll.q, first[0][3])
    assert np.array_equal(roll.v, first[1][3])


def test_no_steps() -> None:
    """The gradient of a batch without steps is what was given, in every call."""
    model = fb.load(STACK)
    sim = fb.Simulator(model)
    q = np.tile(model.q0, (WORLDS, 1))
    v = np.zeros((WORLDS, model.nv))
    sim.rollout(q, v, steps=STEPS).vjp(None, np.ones_like(v))
    for _ in range(CALLS):
        bar = sim.rollout(q, v, steps=0).vjp(None, np.ones_like(v))
        assert np.array_equal(bar.v, np.ones_like(v))
