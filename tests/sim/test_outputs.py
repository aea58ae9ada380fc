"""Outputs of a state and their gradients: closed forms, MuJoCo, batches, float32, refusals."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import featherback as fb
from featherback.sim import OutputGradient

ARM = """<mujoco model="arm"><compiler angle="radian"/><worldbody>
<site name="world" pos="1 2 3"/>
<body name="post" pos="0.2 0 0" quat="1 0.1 0 0"><geom size="0.1" mass="4"/></body>
<body pos="0 0 0.5"><freejoint/><geom type="box" size="0.2 0.1 0.05" mass="3"/>
<site name="chest" pos="0.1 0 0.02" quat="1 0.2 0.1 0"/>
<body pos="0.2 0 0"><joint type="ball" pos="0.01 0 0"/><geom size="0.05" pos="0.1 0 0" mass="1"/>
<body pos="0.2 0 0"><joint axis="0 1 0.2" armature="0.03"/><joint type="slide" axis="1 0 0"/>
<geom size="0.04" pos="0.1 0.02 0" mass="0.5"/><site name="hand" pos="0.2 0 0"/></body></body>
</body></worldbody></mujoco>"""
NAMES = ["body_mass", "body_pos", "site_pos", "gravity", "dof_armature"]


@pytest.fixture(scope="module")
def model() -> fb.Model:
    """An arm on a free trunk, with a post that is fixed in the world."""
    return fb.load(ARM)


def state(model: fb.Model, worlds: int | None = None, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Return q (unit quaternions), v and one more vector of nv numbers."""
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    lead = () if worlds is None else (worlds,)
    q = rng.normal(size=(*lead, model.nq))
    for first in (3, 7):
        q[..., first : first + 4] /= np.linalg.norm(q[..., first : first + 4], axis=-1)[..., None]
    return q, rng.normal(size=(*lead, model.nv)), rng.normal(size=(*lead, model.nv))


def vjps(sim: fb.Simulator, x: tuple[Any, ...], bars: dict[str, Any], params: Any) -> Any:
    """Return the gradient of every output, by name."""
    q, v, a = x
    return {
        "mass_matrix": sim.mass_matrix_vjp(q, bars["M"], params=params),
        "bias": sim.bias_vjp(q, v, bars["c"], params=params),
        "inverse_dynamics": sim.inverse_dynamics_vjp(q, v, a, bars["c"], params=params),
        "forward_dynamics": sim.forward_dynamics_vjp(q, v, a, bars["c"], params=params),
        "body_poses": sim.body_poses_vjp(q, bars["p"], bars["R"], params=params),
        "site_positions": sim.site_positions_vjp(q, bars["x"], params=params),
        "site_poses": sim.site_poses_vjp(q, None, bars["S"], params=params),
        "center_of_mass": sim.center_of_mass_vjp(q, bars["y"], params=params),
        "mass_centers": sim.mass_centers_vjp(q, bars["C"], params=params),
        "com_inertias": sim.com_inertias_vjp(q, bars["I"], params=params),
        "com_velocities": sim.com_velocities_vjp(q, v, bars["C"], params=params),
    }


def cotangents(model: fb.Model, lead: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Draw cotangents of all outputs."""
    rng = np.random.default_rng(5)
    nv, nbody, nsite = model.nv, model.nbody, model.nsite
    shapes = {"M": (nv, nv), "c": (nv,), "p": (nbody, 3), "R": (nbody, 3, 3)}
    shapes |= {"x": (nsite, 3), "S": (nsite, 3, 3), "y": (3,), "C": (nbody, 6), "I": (nbody, 10)}
    return {name: rng.normal(size=(*lead, *shape)) for name, shape in shapes.items()}


def arrays(found: OutputGradient) -> dict[str, np.ndarray]:
    """Return the arrays of a gradient by name."""
    own = {k: getattr(found, k) for k in ("q", "v", "a", "tau")}
    return {**{k: a for k, a in own.items() if a is not None}, **found.params}


def test_center_of_mass_is_that_of_mujoco(model: fb.Model) -> None:
    """Agree with `subtree_com[0]`, bodies that are fixed in the world included."""
    q, _, _ = state(model)
    data = mujoco.MjData(model.mujoco)
    data.qpos[:] = q
    mujoco.mj_kinematics(model.mujoco, data)
    mujoco.mj_comPos(model.mujoco, data)
    found = fb.Simulator(model).center_of_mass(q)
    np.testing.assert_allclose(found, data.subtree_com[0], atol=1e-14)
    assert found.shape == (3,)


def test_outputs_of_bodies_are_those_of_mujoco(model: fb.Model) -> None:
    """Agree with `cinert`, `cvel` and the trees' centres, of the post in the world too."""
    q, v, _ = state(model)
    m, data = model.mujoco, mujoco.MjData(model.mujoco)
    data.qpos[:], data.qvel[:] = q, v
    mujoco.mj_kinematics(m, data)
    mujoco.mj_comPos(m, data)
    mujoco.mj_comVel(m, data)
    sim = fb.Simulator(model)
    centers = np.c_[data.xipos, data.subtree_com[m.body_rootid]]
    np.testing.assert_allclose(sim.mass_centers(q)[1:], centers[1:], atol=1e-14)
    np.testing.assert_allclose(sim.com_inertias(q)[1:], data.cinert[1:], atol=1e-14)
    np.testing.assert_allclose(sim.com_velocities(q, v)[1:], data.cvel[1:], atol=1e-13)
    for found in (sim.mass_centers(q), sim.com_inertias(q), sim.com_velocities(q, v)):
        np.testing.assert_array_equal(found[0], 0)


def test_a_tree_without_mass_lies_at_its_first_body(model: fb.Model) -> None:
    """Give trees of massless bodies a centre, and its gradient to the place of the first."""
    q, _, _ = state(model)
    sim, mass = fb.Simulator(model), np.zeros(model.nbody)
    found = sim.mass_centers(q, params={"body_mass": mass})
    np.testing.assert_array_equal(found[2:, 3:], np.tile(found[2, :3], (model.nbody - 2, 1)))
    bar = np.zeros((model.nbody, 6))
    bar[-1, 3:] = 1.0
    given = sim.mass_centers_vjp(q, bar, params={"body_mass": mass})
    bar[-1, 3:], bar[2, :3] = 0.0, 1.0
    np.testing.assert_array_equal(given.q, sim.mass_centers_vjp(q, bar).q)
    np.testing.assert_array_equal(given.params["body_mass"], 0)


def test_gradients_of_two_arms_on_one_base() -> None:
    """Differentiate outputs of a tree of bodies whose links have origins of their own."""
    arm = (
        '<body pos="{} 0 0.2"><joint axis="0 1 0"/>'
        '<geom type="capsule" size=".05" fromto="{}"/>{}</body>'
    )
    tips = [arm.format(0.3, "0 0 0 0 .2 .3", ""), arm.format(0.2, "0 .1 0 .2 .1 .1", "")]
    arms = arm.format(-0.4, "0 0 0 .3 0 .1", tips[0]) + arm.format(0.5, "0 0 0 .1 .2 .2", tips[1])
    sim = fb.Simulator(
        fb.load(
            '<mujoco><worldbody><body pos="1 2 0.5" quat="1 .2 .1 0">'
            f'<geom type="box" size=".2 .1 .1"/>{arms}</body></worldbody></mujoco>'
        )
    )
    rng = np.random.default_rng(6)
    q, v, step = rng.normal(size=4), rng.normal(size=4), 1e-6
    for name, given, wide in (
        ("mass_centers", (q,), 6),
        ("com_inertias", (q,), 10),
        ("com_velocities", (q, v), 6),
    ):
        bar = rng.normal(size=(sim.model.nbody, wide))
        found = sim.output_vjp(name, *given, bar)
        for k, gradient in enumerate((found.q, found.v)[: len(given)]):
            for i in range(4):
                sides = [
                    np.sum(
                        sim.output(
                            name,
                            *(x + s * step * np.eye(4)[i] * (j == k) for j, x in enumerate(given)),
                        )
                        * bar
                    )
                    for s in (1, -1)
                ]
                slope = (sides[0] - sides[1]) / (2 * step)
                assert gradient is not None
                assert abs(gradient[i] - slope) < 1e-7 * max(1.0, abs(slope))


def test_gradient_of_a_pendulum() -> None:
    """Give the closed forms of a point at (l sin a, 0, -l cos a): d/da, d/dl, d/dm."""
    model = fb.models.pendulum()
    sim, q = fb.Simulator(model), np.array([0.4])
    bob = model.params["body_ipos"][1]
    length = float(np.linalg.norm(bob))
    mass = float(model.params["body_mass"][1])
    com = sim.center_of_mass(q)
    params = {k: model.params[k].copy() for k in ("body_ipos", "body_mass", "gravity")}
    found = sim.center_of_mass_vjp(q, com - sim.body_poses(q)[0][1], params=params)
    # the distance from the hinge does not change with the angle; l dl with l
    np.testing.assert_allclose(found.q, 0, atol=1e-14)
    np.testing.assert_allclose(found.params["body_ipos"][1] @ bob, length**2, rtol=1e-13)
    np.testing.assert_array_equal(found.params["body_mass"], 0)
    # c = m g l sin a
    c = sim.bias(q, [0.0])[0]
    torque = sim.bias_vjp(q, [0.0], [1.0], params=params)
    np.testing.assert_allclose(torque.q, c / np.tan(0.4), rtol=1e-13)
    np.testing.assert_allclose(torque.params["body_mass"][1], c / mass, rtol=1e-13)
    assert torque.v is not None
    np.testing.assert_allclose(torque.v, 0, atol=1e-14)


def test_jacobian_of_sites_is_that_of_mujoco(model: fb.Model) -> None:
    """Agree with `mj_jacSite` on the joints whose coordinate is a number."""
    q, _, _ = state(model)
    data = mujoco.MjData(model.mujoco)
    data.qpos[:] = q
    mujoco.mj_kinematics(model.mujoco, data)
    mujoco.mj_comPos(model.mujoco, data)
    sim, hand = fb.Simulator(model), model.nsite - 1
    jacobian = np.zeros((3, model.nv))
    mujoco.mj_jacSite(model.mujoco, data, jacobian, None, hand)
    for axis in range(3):
        x_bar = np.zeros((model.nsite, 3))
        x_bar[hand, axis] = 1.0
        found = sim.site_positions_vjp(q, x_bar).q
        np.testing.assert_allclose(found[:3], jacobian[axis, :3], atol=1e-14)
        np.testing.assert_allclose(found[11:], jacobian[axis, 9:], atol=1e-14)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("threads", [1, 2])
def test_batch_has_the_bits_of_its_worlds(model: fb.Model, shared: bool, threads: int) -> None:
    """Give each world of a batch the bits it has by itself; sum what all share."""
    worlds = 5
    sim, point = fb.Simulator(model, threads=threads), state(model, worlds)
    bars = cotangents(model, (worlds,))
    rng = np.random.default_rng(1)
    params = {k: np.array(model.params[k]) for k in NAMES}
    if not shared:
        params = {k: a * rng.uniform(0.9, 1.1, (worlds, *a.shape)) for k, a in params.items()}
    batch = vjps(sim, point, bars, params)
    ones = []
    for w in range(worlds):
        own = params if shared else {k: a[w] for k, a in params.items()}
        ones.append(vjps(sim, tuple(x[w] for x in point), {k: b[w] for k, b in bars.items()}, own))
    for name, found in batch.items():
        for key, array in arrays(found).items():
            parts = np.array([arrays(one[name])[key] for one in ones])
            if shared and key in params:
                np.testing.assert_allclose(array, parts.sum(axis=0), rtol=1e-12, atol=1e-12)
            else:
                np.testing.assert_array_equal(array, parts)


def test_float32_is_close(model: fb.Model) -> None:
    """Agree with float64 to 1e-3 of the largest entry."""
    point, bars = state(model, 3), cotangents(model, (3,))
    params = {k: np.array(model.params[k]) for k in NAMES}
    wide = vjps(fb.Simulator(model), point, bars, params)
    narrow = vjps(fb.Simulator(model, dtype="float32"), point, bars, params)
    for name, found in wide.items():
        for key, array in arrays(found).items():
            other = arrays(narrow[name])[key]
            assert other.dtype == np.float32
            assert np.abs(other - array).max() <= 1e-3 * max(np.abs(array).max(), 1e-3), (name, key)


def test_shared_state_of_a_batch_of_parameters(model: fb.Model) -> None:
    """Repeat a state that all worlds share, and give each world a gradient of its own."""
    q, v, _ = state(model)
    masses = np.array(model.params["body_mass"]) * np.linspace(1, 2, 3)[:, None]
    sim = fb.Simulator(model)
    c_bar = np.ones((3, model.nv))
    found = sim.bias_vjp(np.tile(q, (3, 1)), v, c_bar, params={"body_mass": masses})
    assert found.v is not None
    assert (found.q.shape, found.v.shape) == ((3, model.nq), (3, model.nv))
    one = sim.bias_vjp(q, v, c_bar[0], params={"body_mass": masses[1]})
    np.testing.assert_array_equal(found.q[1], one.q)
    np.testing.assert_array_equal(found.params["body_mass"][1], one.params["body_mass"])


def test_no_worlds(model: fb.Model) -> None:
    """Give empty gradients for no worlds."""
    sim = fb.Simulator(model)
    found = sim.center_of_mass_vjp(np.zeros((0, model.nq)), np.zeros((0, 3)))
    assert found.q.shape == (0, model.nq)
    assert sim.center_of_mass(np.zeros((0, model.nq))).shape == (0, 3)


def test_the_page_runs(tmp_path: Path) -> None:
    """Run the code of docs/outputs.md, which asserts its own results."""
    page = (Path(__file__).parents[2] / "docs" / "outputs.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    assert len(blocks) == 2
    code = tmp_path / "page.py"
    code.write_text("\n".join(blocks))
    runpy.run_path(str(code))
