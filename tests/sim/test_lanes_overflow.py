"""Worlds of one block whose contacts together exceed the capacity, though each alone fits.

Such a block is stepped and differentiated lane by lane; every world must be as if it ran alone.
"""

from __future__ import annotations

import numpy as np
import pytest

import featherback as fb

WORLDS, STEPS = 6, 4
# the centre of mass lies off the centre, so that normal and friction are coupled
SPHERES = "".join(
    f'<body pos="{2 * k} 0 1"><freejoint name="{k}"/><geom size="0.1"/>'
    f'<inertial pos="0.04 0.03 0.05" mass="{1 + k}" diaginertia="0.004 0.005 0.006"/></body>'
    for k in range(WORLDS)
)
MOTORS = "".join(
    f'<motor joint="{k}" gear="1 2 0 0 0.5 0" ctrlrange="-1 1"/>' for k in range(WORLDS)
)
MODEL = (
    '<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="0 0 1" friction="0.4"/>'
    f"{SPHERES}</worldbody><actuator>{MOTORS}</actuator></mujoco>"
)


def start(model: fb.Model) -> tuple[np.ndarray, np.ndarray]:
    """World k has sphere k on the floor, sliding and spinning, and the others high above it."""
    q = np.repeat(model.q0[None], WORLDS, axis=0)
    v = np.random.default_rng(3).normal(size=(WORLDS, model.nv))
    for k in range(WORLDS):
        q[k, 7 * k + 2] = 0.0999
    return q, v


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_each_world_is_as_alone(dtype: str) -> None:
    """States, status and gradients of states and parameters equal those of each world alone."""
    model = fb.load(MODEL)
    q, v = start(model)
    options = {"solver": "pgs", "max_sweeps": 2, "max_contacts": 1, "dtype": dtype}
    sim = fb.Simulator(model, **options)
    params = {name: model.params[name] for name in ("body_mass", "geom_friction", "gravity")}
    rng = np.random.default_rng(5)
    q_bar, v_bar = rng.normal(size=(WORLDS, model.nq)), rng.normal(size=(WORLDS, model.nv))
    u = rng.normal(size=(WORLDS, STEPS, model.nu))
    # controls at their limits are ties
    u[1, 2] = u[4, 3, :2] = 1.0
    roll = sim.rollout(q, v, u, params=params)
    found, diagnosis = roll.vjp(q_bar, v_bar), roll.diagnose(q_bar, v_bar)
    # two sweeps do not finish, and nothing is left out of any world
    assert np.any(roll.status == fb.Status.UNCONVERGED)
    assert not np.any(roll.status & fb.Status.CONTACT_OVERFLOW)
    total = {name: np.zeros_like(value) for name, value in found.params.items()}
    for k in range(WORLDS):
        alone = sim.rollout(q[k], v[k], u[k], params=params)
        assert np.array_equal(alone.q, roll.q[k])
        assert np.array_equal(alone.v, roll.v[k])
        assert (alone.status, alone.status_step) == (roll.status[k], roll.status_step[k])
        one = alone.vjp(q_bar[k], v_bar[k])
        assert np.array_equal(one.q, found.q[k])
        assert np.array_equal(one.v, found.v[k])
        assert np.any(one.u) and np.array_equal(one.u, found.u[k])
        assert (one.unrolled, one.ties) == (found.unrolled[k], found.ties[k])
        assert (alone.residual, alone.sweeps) == (roll.residual[k], roll.sweeps[k])
        step = alone.diagnose(q_bar[k], v_bar[k])
        for name in ("norm", "contacts", "residual", "unrolled", "ties"):
            assert np.array_equal(getattr(step, name), getattr(diagnosis, name)[k])
        for name, value in one.params.items():
            total[name] += value
    for name, value in found.params.items():
        assert np.any(value)
        np.testing.assert_allclose(value, total[name], rtol=1e-12 if dtype == "float64" else 1e-5)


def test_a_world_that_does_not_fit_alone_is_flagged_alone() -> None:
    """Two contacts in one world exceed its capacity; its lane mates have no bit of it."""
    model = fb.load(MODEL)
    q, v = start(model)
    q[2, 2] = 0.0999
    roll = fb.Simulator(model, max_contacts=1).rollout(q, v, steps=1)
    overflow = roll.status & fb.Status.CONTACT_OVERFLOW
    assert np.flatnonzero(overflow).tolist() == [2]
    with pytest.raises(fb.WorldError) as caught:
        roll.vjp(v_bar=np.ones((WORLDS, model.nv)))
    assert np.array_equal(caught.value.world, [2])


def test_ties_of_contacts_are_counted_in_their_own_world() -> None:
    """A sphere that touches the floor at rest, without gravity, is a tie; one that hits it is none.

    While one world is differentiated the contacts of its lane mates are left out, so that a count
    from another world's turn would miss them.
    """
    model = fb.load(MODEL)
    q, v = start(model)
    v[:] = 0.0
    for k in range(WORLDS):
        q[k, 7 * k + 2] = 0.1
        v[k, 6 * k + 2] = -float(k % 2)
    sim = fb.Simulator(model, max_contacts=1, params={"gravity": np.zeros(3)})
    roll = sim.rollout(q, v, steps=1)
    assert roll.vjp(v_bar=np.ones_like(v)).ties.tolist() == [1, 0, 1, 0, 1, 0]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_each_world_is_solved_as_alone(dtype: str) -> None:
    """Count the factorisations of each world as if it ran alone."""
    model = fb.load(MODEL)
    q, v = start(model)
    sim = fb.Simulator(model, max_contacts=1, dtype=dtype)
    u = np.random.default_rng(6).normal(size=(WORLDS, STEPS, model.nu))
    roll = sim.rollout(q, v, u)
    assert roll.ok
    assert len(set(roll.factorisations.tolist())) > 2
    for k in range(WORLDS):
        alone = sim.rollout(q[k], v[k], u[k])
        assert np.array_equal(alone.v, roll.v[k])
        assert alone.factorisations == roll.factorisations[k]
