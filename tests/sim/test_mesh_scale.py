"""The scale of meshes: as a file with another scale, in gaps, points and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import featherback as fb
from featherback.errors import ParameterError
from featherback.sim.differences import slopes, stencil

# four low corners and three above, away from the file's origin
POINTS = """0.3 0.1 0 0.5 0.12 0.001 0.52 0.3 0.002 0.28 0.33 -0.001 0.4 0.2 0.3 0.35 0.15 0.25
 0.45 0.25 0.2"""
FRAMES = {
    "plain": "",
    "moved": 'refpos="0.05 -0.02 0.01" refquat="0.9 0.1 -0.05 0.2"',
}


def scene(scale: Any, frame: str = "plain", geoms: str = "") -> fb.Model:
    """Return a mesh with an explicit mass on a plane, and more geoms of the same mesh."""
    text = " ".join(f"{x:.17g}" for x in scale)
    return fb.load(
        f"""<mujoco model="mesh"><option timestep="0.002"/><asset>
<mesh name="m" scale="{text}" {FRAMES[frame]} vertex="{POINTS}"/>
<mesh name="other" vertex="0 0 0 0.1 0 0 0 0.1 0 0 0 0.1"/></asset><worldbody>
<geom type="plane" size="0 0 1" friction="0.6"/><body pos="0.1 0.2 0.01"><freejoint/>
<inertial pos="0.4 0.2 0.1" mass="2" diaginertia="0.02 0.03 0.025"/>
<geom type="mesh" mesh="m" pos="0.01 0.02 0.03" quat="0.99 0.01 0.02 0.05"/>{geoms}</body>
</worldbody></mujoco>"""
    )


def placed(model: fb.Model) -> tuple[np.ndarray, np.ndarray]:
    """Return a state in which a corner comes to the plane, at another turn than the reference."""
    q = np.array(model.q0)
    q[3:7] = [0.999, 0.01, -0.02, 0.03]
    q[3:7] /= np.linalg.norm(q[3:7])
    v = np.array([0.1, -0.2, -0.3, 0.2, 0.1, -0.1])
    found = fb.Simulator(model, margin=1.0).contacts(q, v)
    q[2] -= found.gap[: found.count].min() - 1e-4
    return q, v


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("ratio", [(1.3, 1.3, 1.3), (0.8, 1.2, 1.1), (1.0, 1.0, 0.7)])
def test_scale_acts_as_in_the_file(frame: str, ratio: tuple[float, ...]) -> None:
    """Give the gaps, points, normals and motion of the model loaded with the other scale."""
    base = np.array([0.9, 1.1, 1.0])
    one, two = scene(base, frame), scene(base * ratio, frame)
    np.testing.assert_allclose(one.params["mesh_scale"][0], base)
    q, v = placed(one)
    params = {"mesh_scale": np.array(two.params["mesh_scale"])}
    here = fb.Simulator(one, margin=0.1).contacts(q, v, params=params)
    there = fb.Simulator(two, margin=0.1).contacts(q, v)
    assert here.count == there.count > 1
    order = [np.lexsort(np.round(x.point[: x.count], 5).T) for x in (here, there)]
    # the compiler keeps vertices in single precision
    for name in ("gap", "point", "normal"):
        a, b = (getattr(x, name)[: x.count][k] for x, k in zip((here, there), order, strict=True))
        np.testing.assert_allclose(a, b, atol=2e-7)
    rolls = [
        fb.Simulator(one, params=params).rollout(q, v, steps=40),
        fb.Simulator(one).rollout(q, v, steps=40, params=params),
        fb.Simulator(two).rollout(q, v, steps=40),
    ]
    np.testing.assert_array_equal(rolls[0].q, rolls[1].q)
    np.testing.assert_allclose(rolls[0].q, rolls[2].q, atol=1e-5)
    assert np.abs(rolls[0].q - fb.Simulator(one).rollout(q, v, steps=40).q).max() > 1e-3


def test_scale_as_compiled_changes_no_bit() -> None:
    """Keep every bit when the scale is given as it is, in single and double precision."""
    model = scene([0.9, 1.1, 1.0])
    q, v = placed(model)
    for dtype in ("float64", "float32"):
        sim = fb.Simulator(model, dtype=dtype)
        params = {"mesh_scale": np.array(model.params["mesh_scale"])}
        batch = np.stack([params["mesh_scale"], 1.1 * params["mesh_scale"]])
        plain = sim.rollout(q, v, steps=50)
        np.testing.assert_array_equal(sim.rollout(q, v, steps=50, params=params).q, plain.q)
        two = sim.rollout(np.stack([q, q]), v, steps=50, params={"mesh_scale": batch})
        np.testing.assert_array_equal(two.q[0], plain.q)
        alone = sim.rollout(q, v, steps=50, params={"mesh_scale": batch[1]})
        np.testing.assert_array_equal(two.q[1], alone.q)


@pytest.mark.parametrize("frame", FRAMES)
def test_gradient_matches_differences(frame: str) -> None:
    """Agree with differences to 1e-6 over twenty steps; a mesh that does not touch has a zero."""
    geoms = '<geom type="mesh" mesh="m" pos="0.1 0 0"/><geom type="mesh" mesh="other" pos="0 0 1"/>'
    model = scene([0.9, 1.1, 1.0], frame, geoms)
    q, v = placed(model)
    print("seed 0")
    rng = np.random.default_rng(0)
    sim = fb.Simulator(model, tolerance=1e-12)
    base = np.array(model.params["mesh_scale"])
    roll = sim.rollout(q, v, steps=20, params={"mesh_scale": base})
    q_bar, v_bar = rng.normal(size=roll.q.shape), rng.normal(size=roll.v.shape)
    found = roll.vjp(q_bar, v_bar).params["mesh_scale"]
    assert np.all(found[0] != 0)
    assert not found[1].any()
    steps = stencil()
    for axis in range(3):
        moved = np.repeat(base[None], len(steps), axis=0)
        moved[:, 0, axis] += 0.1 * steps
        many = sim.rollout(np.tile(q, (len(steps), 1)), v, steps=20, params={"mesh_scale": moved})
        loss = ((many.q - roll.q) * q_bar).sum(axis=(1, 2))
        loss += ((many.v - roll.v) * v_bar).sum(axis=(1, 2))
        slope = slopes(loss[None]).value[0]
        assert abs(slope - 0.1 * found[0, axis]) <= 1e-6 * np.abs(0.1 * found).max()


def test_forward_mode_agrees() -> None:
    """Agree with the derivative along a direction, at the compiled scale and at another."""
    model = scene([0.9, 1.1, 1.0])
    q, v = placed(model)
    print("seed 1")
    rng = np.random.default_rng(1)
    sim = fb.Simulator(model)
    for factor in (1.0, 1.05):
        scale = factor * np.array(model.params["mesh_scale"])
        along = rng.normal(size=scale.shape)
        dots = sim.jvp(q, v, params={"mesh_scale": scale}, dparams={"mesh_scale": along})
        roll = sim.rollout(q, v, steps=1, params={"mesh_scale": scale})
        bars = [np.zeros_like(roll.q), np.zeros_like(roll.v)]
        weights = [rng.normal(size=x.shape) for x in dots]
        for bar, weight in zip(bars, weights, strict=True):
            bar[1] = weight
        back = float((roll.vjp(*bars).params["mesh_scale"] * along).sum())
        ahead = sum(float(x @ w) for x, w in zip(dots, weights, strict=True))
        assert abs(ahead) > 1e-3
        assert back == pytest.approx(ahead, rel=1e-10)


def test_mass_does_not_follow() -> None:
    """Keep mass and inertia, which are parameters of their own."""
    model = scene([0.9, 1.1, 1.0])
    sim, scale = fb.Simulator(model), 2 * np.array(model.params["mesh_scale"])
    M = sim.mass_matrix(model.q0, params={"mesh_scale": scale})
    np.testing.assert_array_equal(M, sim.mass_matrix(model.q0))


def test_zero_is_refused() -> None:
    """Refuse a scale of zero with one sentence."""
    model = scene([0.9, 1.1, 1.0])
    with pytest.raises(ParameterError) as caught:
        fb.Simulator(model, params={"mesh_scale": np.zeros((2, 3))})
    assert str(caught.value).startswith('Simulator(): params["mesh_scale"]')
