"""Forces of contacts as an output: MuJoCo's values, gradients, batches, refusals."""

from __future__ import annotations

from collections import Counter
from typing import Any

import mujoco
import numpy as np
import pytest

import featherback as fb
from featherback.errors import ParameterError, ShapeError, WorldError
from featherback.sim.differences import slopes, stencil
from tests.core.ops_soft import driven_model
from tests.property.gradients import Vector, parameters
from tests.property.soft import draw_soft, exact_mujoco, soft_options
from tests.property.test_mujoco_law import SCALES, direction

OFFSETS = stencil()


def centres(sim: fb.Simulator, q: Vector) -> Vector:
    """Return the centres of mass of all bodies."""
    place, turn = sim.body_poses(q)
    return place + np.einsum("...bij,bj->...bi", turn, sim.params["body_ipos"])


def test_values_are_those_of_mujoco() -> None:
    """Give `cfrc_ext` about the bodies' own centres, wherever contacts alone act on bodies."""
    touched = 0
    for seed in range(60):
        model, q, v, rng = draw_soft(seed)
        connected = np.isin(
            model.mujoco.eq_type, [mujoco.mjtEq.mjEQ_CONNECT, mujoco.mjtEq.mjEQ_WELD]
        )
        if connected.any() or seed % 2 == 1:
            # points between boxes and balls are chosen otherwise
            continue
        options = soft_options(seed)
        sim = fb.Simulator(model, **options)
        u = rng.normal(size=model.nu)
        m = exact_mujoco(model, options)
        data = mujoco.MjData(m)
        data.qpos, data.qvel, data.ctrl = q, v, u
        mujoco.mj_forward(m, data)
        mujoco.mj_rnePostConstraint(m, data)
        middle = data.subtree_com[m.body_rootid]
        force = data.cfrc_ext[:, 3:]
        torque = data.cfrc_ext[:, :3] - np.cross(data.xipos - middle, force)
        expected = np.concatenate([force, torque], 1)
        expected[0] = 0.0
        found = sim.contact_forces(q, v, u)
        scale = max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(found, expected, atol=1e-8 * scale, err_msg=str(seed))
        touched += bool(force[1:].any())
    assert touched >= 10


def check_lines(seed: int, tally: Counter[str]) -> float:
    """Compare slopes of a loss on the forces with differences, in every input."""
    model, q, v, rng = draw_soft(seed)
    sim = fb.Simulator(model, **soft_options(seed))
    inputs = {"q": q, "v": v, "u": rng.normal(size=model.nu), **parameters(model, "mujoco")}
    given = {n: x for n, x in inputs.items() if n not in SCALES}
    bar = rng.normal(size=(model.nbody, 6))
    found = sim.contact_forces_vjp(q, v, inputs["u"], bar, params=given)
    gradients = {"q": found.q, "v": found.v, "u": found.u, **found.params}
    names = [name for name, value in inputs.items() if value.size]
    values, exact = [], []
    here = sim.contact_forces(q, v, inputs["u"], params=given)
    for name in names:
        line = direction(name, inputs[name], model, rng)
        offsets = OFFSETS.reshape(-1, *(1,) * line.ndim)
        moved = {**inputs, name: inputs[name] + offsets * line}
        start = [
            np.broadcast_to(moved[n], (len(OFFSETS), *inputs[n].shape)) for n in ("q", "v", "u")
        ]
        there = sim.contact_forces(*start, params={n: moved[n] for n in given})
        values.append(np.einsum("wbi,bi->w", there - here, bar))
        gradient = gradients[name]
        assert gradient is not None
        exact.append(float(np.sum(gradient * line)))
    lines = slopes(np.array(values))
    largest = max(lines.largest(), 1e-12)
    error = np.abs(lines.value - np.array(exact)) / largest
    # a line that ends at a kink, or that rounding hides, says nothing
    sure = lines.doubt < 1e-7 * largest
    for name, known, gap, slope in zip(names, sure, error, exact, strict=True):
        tally[name] += bool(known and abs(slope) > 1e-9 * largest)
        assert not known or gap < 1e-6, (seed, name, gap)
    tally["sure"] += int(sure.sum())
    tally["all"] += len(sure)
    return float(error[sure].max(initial=0))


def test_gradients_are_those_of_differences() -> None:
    """Agree to 1e-6 of the largest slope, in states, controls and every parameter."""
    tally: Counter[str] = Counter()
    worst = max(check_lines(seed, tally) for seed in range(3000, 3050))
    print(worst, dict(tally))
    assert tally["sure"] > 0.9 * tally["all"]
    for name in "q v u body_mass body_ipos geom_size geom_solref geom_solimp geom_friction".split():
        assert tally[name] > 0, name


def test_activations_have_gradients() -> None:
    """Differentiate by activations and controls beside each other."""
    model = driven_model()
    sim = fb.Simulator(model, contact="mujoco")
    rng = np.random.default_rng(2)
    q, v = (x.copy() for x in model.keyframe("start")[:2])
    act, u = 0.1 * rng.normal(size=model.na), 0.1 * rng.normal(size=model.nu)
    bar = rng.normal(size=(model.nbody, 6))
    found = sim.contact_forces_vjp(q, v, u, bar, act=act)
    assert found.act is not None and found.u is not None and np.any(found.act)
    for name, x, gradient in (("act", act, found.act), ("u", u, found.u)):
        along = rng.normal(size=x.shape)
        values = []
        for step in (1e-5, -1e-5):
            given = {"act": act, "u": u, name: x + step * along}
            values.append(float(np.sum(sim.contact_forces(q, v, **given) * bar)))
        slope = (values[0] - values[1]) / 2e-5
        assert abs(slope - gradient @ along) < 1e-6 * max(1.0, abs(slope))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_worlds_of_a_batch_have_the_bits_of_one_world(dtype: Any) -> None:
    """Evaluate and differentiate worlds as each by itself."""
    for seed in (41, 43, 44):
        model, q, v, rng = draw_soft(seed)
        worlds = 19
        q = np.repeat(q[None], worlds, axis=0).astype(dtype)
        v = (v + 0.3 * rng.normal(size=(worlds, model.nv))).astype(dtype)
        u = rng.normal(size=(worlds, model.nu)).astype(dtype)
        bar = rng.normal(size=(worlds, model.nbody, 6)).astype(dtype)
        params = {"geom_friction": np.asarray(model.params["geom_friction"], dtype)}
        sim = fb.Simulator(model, dtype=dtype, threads=2, **soft_options(seed))
        whole = sim.contact_forces(q, v, u, params=params)
        found = sim.contact_forces_vjp(q, v, u, bar, params=params)
        assert np.any(whole[:, 1:])
        for k in (0, 7, 16, worlds - 1):
            one = sim.contact_forces(q[k], v[k], u[k], params=params)
            own = sim.contact_forces_vjp(q[k], v[k], u[k], bar[k], params=params)
            assert np.array_equal(one, whole[k])
            assert found.v is not None and own.v is not None
            assert np.array_equal(own.q, found.q[k]) and np.array_equal(own.v, found.v[k])
            assert own.u is not None and found.u is not None
            assert np.array_equal(own.u, found.u[k])


def test_a_world_without_room_has_no_forces() -> None:
    """Give NaN where contacts were left out, refuse its gradient, and spare the others."""
    xml = (
        '<mujoco><worldbody><geom type="plane" size="1 1 .1"/><body pos="0 0 .099"><freejoint/>'
        '<geom type="box" size=".1 .1 .1"/></body></worldbody></mujoco>'
    )
    sim = fb.Simulator(fb.load(xml), contact="mujoco", max_contacts=2)
    q = np.repeat(sim.model.q0[None], 20, axis=0)
    q[:, 2] += 1.0
    q[5, 2] -= 1.0
    found = sim.contact_forces(q, np.zeros((20, 6)), np.zeros((20, 0)))
    assert np.isnan(found[5]).all()
    assert np.isfinite(np.delete(found, 5, axis=0)).all()
    with pytest.raises(WorldError, match="world 5"):
        sim.contact_forces_vjp(q, np.zeros((20, 6)), None, np.ones((20, 2, 6)))


def test_what_has_no_gradient_is_refused() -> None:
    """Refuse the hard law, parameters without a gradient, and activations that are not there."""
    model = fb.models.laikago()
    q, v = model.keyframe("stand")
    hard, soft = fb.Simulator(model), fb.Simulator(model, contact="mujoco")
    with pytest.raises(ParameterError, match='contact="mujoco"'):
        hard.contact_forces(q, v, q[7:])
    with pytest.raises(ShapeError, match="no activations"):
        soft.contact_forces(q, v, q[7:], act=np.zeros(1))
    bar = np.ones((model.nbody, 6))
    with pytest.raises(ParameterError, match="has no gradient"):
        fixed = {"geom_solmix": np.array(soft.params["geom_solmix"])}
        soft.contact_forces_vjp(q, v, q[7:], bar, params=fixed)
    weight = float(np.sum(model.params["body_mass"]) * 9.81)
    roll = soft.rollout(q, v, np.tile(q[7:], (1500, 1)))
    up = soft.contact_forces(roll.q[-1], roll.v[-1], q[7:])[:, 2].sum()
    assert abs(up - weight) < 1e-3 * weight


def test_torch_and_jax_have_the_same_bits() -> None:
    """Give values and gradients of the NumPy interface, in both bridges."""
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    import featherback.jax as fbj
    import featherback.torch as fbt

    model = driven_model()
    sim = fb.Simulator(model, contact="mujoco")
    rng = np.random.default_rng(4)
    q, v = (np.repeat(x[None], 5, axis=0) for x in model.keyframe("start")[:2])
    act, u = rng.normal(size=(5, model.na)) * 0.1, rng.normal(size=(5, model.nu)) * 0.1
    mass = np.array(model.params["body_mass"])
    bar = rng.normal(size=(5, model.nbody, 6))
    value = sim.contact_forces(q, v, u, act=act, params={"body_mass": mass})
    found = sim.contact_forces_vjp(q, v, u, bar, act=act, params={"body_mass": mass})
    want = [found.q, found.v, found.u, found.act, found.params["body_mass"]]

    leaves = [torch.tensor(x, requires_grad=True) for x in (q, v, u, act, mass)]
    out = fbt.contact_forces(sim, *leaves[:3], {"body_mass": leaves[4]}, act=leaves[3])
    np.testing.assert_array_equal(out.detach(), value)
    out.backward(torch.tensor(bar))
    for leaf, expected in zip(leaves, want, strict=True):
        np.testing.assert_array_equal(leaf.grad, expected)

    with jax.enable_x64(True):

        def forces(q: Any, v: Any, u: Any, act: Any, mass: Any) -> Any:
            return fbj.contact_forces(sim, q, v, u, {"body_mass": mass}, act=act)

        out, back = jax.vjp(jax.jit(forces), q, v, u, act, mass)
        np.testing.assert_array_equal(out, value)
        for got, expected in zip(back(bar), want, strict=True):
            np.testing.assert_array_equal(got, expected)
