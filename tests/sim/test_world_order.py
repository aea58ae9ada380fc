"""Worlds stand beside those that touched alike at the last call, and no bit tells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import featherback as fb

WORLDS, STEPS, CALLS = 600, 3, 3
LEGS = "".join(
    f'<body pos="{x} {y} 0"><joint name="{name}" axis="0 1 0" range="-60 60"/>'
    f'<geom type="capsule" fromto="0 0 0 {x} {y} -0.3" size="0.04"/></body>'
    for name, x, y in (("a", 0.2, 0.2), ("b", 0.2, -0.2), ("c", -0.2, 0.2), ("d", -0.2, -0.2))
)
# legs meet the floor and each other; one motor has an activation of its own
ROBOT = f"""
<mujoco><option timestep="0.004"/>
<compiler angle="degree" autolimits="true"/>
<worldbody><geom type="plane" size="0 0 1"/>
<body name="root" pos="0 0 0.4"><freejoint/><geom type="sphere" size="0.1"/>{LEGS}</body>
</worldbody>
<actuator>
<general joint="a" dyntype="filter" dynprm="0.05" gainprm="2"/><motor joint="b" gear="2"/>
</actuator></mujoco>
"""


def starts(model: fb.Model, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Return worlds at all heights and turns, from free fall to deep contact."""
    q = np.tile(model.q0, (WORLDS, 1))
    q[:, 2] = rng.uniform(0.05, 0.6, WORLDS)
    turn = rng.normal(0, 1, (WORLDS, 4))
    q[:, 3:7] = turn / np.linalg.norm(turn, axis=1, keepdims=True)
    q[:, 7:] = rng.uniform(-1.2, 1.2, (WORLDS, model.nq - 7))
    v = rng.normal(0, 1, (WORLDS, model.nv))
    return q, v, rng.normal(0, 1, (WORLDS, STEPS, model.nu))


def calls(sim: fb.Simulator, given: tuple[Any, Any, Any], params: Any) -> list[Any]:
    """Return what several calls in a row give, each from where the last one ended."""
    (q, v, u), act, found = given, None, []
    for _ in range(CALLS):
        roll = sim.rollout(q, v, u, act=act, params=params)
        found += [roll.q, roll.v, roll.act, roll.status, roll.residual, roll.sweeps]
        q, v, act = roll.q[..., -1, :], roll.v[..., -1, :], roll.act[..., -1, :]
    return found


@pytest.mark.parametrize("options", [{}, {"integrator": "rk4"}, {"cone": "elliptic"}], ids=str)
@pytest.mark.parametrize("own", [False, True], ids=["shared", "of each world"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_world_has_the_same_bits_alone(dtype: str, own: bool, options: dict[str, Any]) -> None:
    """Give what a world by itself gives, in every call and with every number of threads."""
    print("seed 7")
    rng = np.random.default_rng(7)
    model = fb.load(ROBOT)
    given = starts(model, rng)
    mass = model.params["body_mass"]
    params = {"body_mass": mass * rng.uniform(0.9, 1.1, (WORLDS, 1)) if own else mass}
    sims = [
        fb.Simulator(model, dtype=dtype, contact="mujoco", threads=n, **options) for n in (1, 2)
    ]
    first, second = (calls(sim, given, params) for sim in sims)
    for a, b in zip(first, second, strict=True):
        assert np.array_equal(a, b)
    assert len(set(first[5].tolist())) > 1
    for world in range(0, WORLDS, 61):
        alone = {name: x[world] if own else x for name, x in params.items()}
        one = calls(sims[0], tuple(x[world] for x in given), alone)  # type: ignore[arg-type]
        for a, b in zip(first, one, strict=True):
            assert np.array_equal(a[world], b)


def test_a_bad_world_touches_no_other() -> None:
    """A world that is not finite tells so by itself, wherever it stands."""
    print("seed 8")
    rng = np.random.default_rng(8)
    model = fb.load(ROBOT)
    sim = fb.Simulator(model, contact="mujoco")
    q, v, u = starts(model, rng)
    good = sim.rollout(q, v, u)
    torn, fast = u.copy(), v.copy()
    torn[3, 1, 1], fast[77, 0] = np.nan, np.inf
    for _ in range(2):
        bad = sim.rollout(q, fast, torn)
        assert np.flatnonzero(bad.status).tolist() == [3, 77]
        rest = np.setdiff1d(np.arange(WORLDS), [3, 77])
        assert np.array_equal(bad.q[rest], good.q[rest])
        assert np.array_equal(bad.v[rest], good.v[rest])


def test_carried_accelerations() -> None:
    """A state's fourth part stays with its world."""
    print("seed 9")
    rng = np.random.default_rng(9)
    model = fb.load(ROBOT)
    sim = fb.Simulator(model, contact="mujoco", warmstart=1)
    q, v, u = starts(model, rng)
    whole = sim.rollout(q, v, np.tile(u, (1, 2, 1)))
    half = sim.rollout(q, v, u)
    rest = sim.rollout(half.q[:, -1], half.v[:, -1], u, act=half.act[:, -1], warm=half.warm[:, -1])
    assert np.array_equal(rest.q[:, -1], whole.q[:, -1])
    assert np.array_equal(rest.warm[:, -1], whole.warm[:, -1])
