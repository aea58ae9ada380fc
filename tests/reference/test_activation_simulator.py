"""Activation through the Simulator and both bridges against MuJoCo's own step and differences."""

from __future__ import annotations

import copy

import mujoco
import numpy as np
import pytest

import featherback as fb
from tests.reference.test_activation import STEPS, TYPES, law


def reference(model: fb.Model, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return MuJoCo's states under controls, from rest."""
    m = copy.copy(model.mujoco)
    m.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    data = mujoco.MjData(m)
    rows = [(data.qpos.copy(), data.qvel.copy(), data.act.copy())]
    for control in u:
        data.ctrl = control
        mujoco.mj_step(m, data)
        rows.append((data.qpos.copy(), data.qvel.copy(), data.act.copy()))
    q, v, act = (np.array(column) for column in zip(*rows, strict=True))
    return q, v, act


def controls(model: fb.Model) -> np.ndarray:
    """Return controls that drive activations to their ranges and back."""
    return 1.2 * np.sin(np.arange(STEPS)[:, None] / 25 + np.arange(model.nu))


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("early", [False, True])
def test_rollouts_follow_mujoco(kind: str, early: bool) -> None:
    """Rollout, steps, torch and JAX give MuJoCo's states within 1e-9."""
    torch = pytest.importorskip("torch")
    import featherback.torch as fbt

    model = fb.load(law(kind, early, True))
    sim, u = fb.Simulator(model), controls(model)
    theirs = reference(model, u)
    roll = sim.rollout(model.q0, model.v0, u)
    for ours, other in zip((roll.q, roll.v, roll.act), theirs, strict=True):
        assert np.abs(ours - other).max() <= 1e-9
    state = (model.q0, model.v0, model.act0)
    for control in u:
        state = sim.step(state[0], state[1], control, act=state[2])
    assert np.array_equal(np.concatenate(state), np.r_[roll.q[-1], roll.v[-1], roll.act[-1]])
    start = (torch.tensor(model.q0), torch.tensor(model.v0), torch.tensor(u))
    found = fbt.rollout(sim, *start)
    for ours, other in ((found.q, roll.q), (found.v, roll.v), (found.act, roll.act)):
        assert np.array_equal(ours.numpy(), other)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("early", [False, True])
def test_jacobians_follow_mujoco(kind: str, early: bool) -> None:
    """A and B have MuJoCo's layout and, within their errors, the values of its differences."""
    model = fb.load(law(kind, early, False))
    m = copy.copy(model.mujoco)
    m.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    rng = np.random.default_rng(2)
    data = mujoco.MjData(m)
    data.qpos, data.qvel = rng.normal(size=m.nq), 0.1 * rng.normal(size=m.nv)
    data.act, data.ctrl = 0.1 * rng.normal(size=m.na), 0.1 * rng.normal(size=m.nu)
    n = 2 * m.nv + m.na
    A, B = np.zeros((n, n)), np.zeros((n, m.nu))
    point = [data.qpos.copy(), data.qvel.copy(), data.ctrl.copy()]
    act = data.act.copy()
    mujoco.mjd_transitionFD(m, data, 1e-6, True, A, B, None, None)
    ours = fb.Simulator(model).linearize(*point, act=act)
    # its integrator drops how damping changes with the state; the rows of act and q do not
    np.testing.assert_allclose(ours[0][2 * m.nv :], A[2 * m.nv :], atol=1e-7)
    np.testing.assert_allclose(ours[1], B, atol=1e-5)
    np.testing.assert_allclose(ours[0], A, atol=2e-3)


def test_gradients_of_torch_are_those_of_the_rollout() -> None:
    """The loss on states of all kinds has the same gradient by torch and by vjp."""
    torch = pytest.importorskip("torch")
    import featherback.torch as fbt

    model = fb.load(law("filterexact", False, True))
    sim, u = fb.Simulator(model), controls(model)[:20]
    rng = np.random.default_rng(4)
    bars = [rng.normal(size=(21, n)) for n in (model.nq, model.nv, model.na)]
    inputs = [
        torch.tensor(x, requires_grad=True) for x in (model.q0, model.v0, u, model.act0 + 0.1)
    ]
    found = fbt.rollout(sim, *inputs[:3], act=inputs[3])
    loss = sum(
        (torch.tensor(b) * y).sum()
        for b, y in zip(bars, (found.q, found.v, found.act), strict=True)
    )
    loss.backward()
    roll = sim.rollout(model.q0, model.v0, u, act=model.act0 + 0.1)
    exact = roll.vjp(bars[0], bars[1], bars[2])
    for ours, other in zip(inputs, (exact.q, exact.v, exact.u, exact.act), strict=True):
        np.testing.assert_allclose(ours.grad.numpy(), other, rtol=1e-13, atol=1e-13)


def test_an_activation_exactly_at_its_range_is_a_tie() -> None:
    """Count an activation that the step puts exactly on the end of its range."""
    text = law("integrator", False, True)
    model = fb.load(text)
    sim = fb.Simulator(model)
    # the drive is dt times the control: 0.25 is reached to the bit from 0.25 with none
    for act, ties in ((0.25, True), (0.2, False)):
        start = np.array([act, 0.0])
        found = sim.rollout(model.q0, model.v0, np.zeros((1, 2)), act=start).vjp(np.ones(model.nq))
        assert (found.ties > 0) == ties
