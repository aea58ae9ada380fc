"""Trajectories under contact="mujoco" against MuJoCo, whose Newton solver runs to its end.

Two trajectories of a robot with contacts part in the end, whatever their law: what is asked for is
that ours stays with MuJoCo's for as long as a MuJoCo does whose velocities are moved by 1e-12.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

import featherback as fb
from featherback.sim import Status
from tests.property.soft import exact_mujoco
from tools import corpus_cache

Array = NDArray[np.float64]

STEPS = 300
NEAR = 1e-6  # positions that agree, relative to the largest of them and 1
MOVED = 1e-12  # of the velocities of the twin
BAD = int(Status.UNCONVERGED | Status.CONTACT_OVERFLOW | Status.NONFINITE)
OWN: dict[str, Callable[[], fb.Model]] = {
    "laikago": fb.models.laikago,
    "quadruped": fb.models.quadruped,
    "chain": lambda: fb.models.chain(12),
    "pendulum": lambda: fb.models.pendulum(3),
    "ball": fb.models.ball,
    "box": fb.models.box,
    "cartpole": fb.models.cartpole,
}
INTEGRATORS = ("euler", "rk4", "implicitfast")


def law(model: fb.Model, integrator: str | None = None) -> dict[str, Any]:
    """Return the options of a file's law, with an integrator of ours."""
    own = model.structure.law
    return {
        "contact": "mujoco",
        "cone": own["cone"],
        "impratio": own["impratio"],
        "integrator": integrator or own["integrator"],
    }


def start(model: fb.Model, seed: int, steps: int = STEPS) -> tuple[Array, Array, Array]:
    """Return a state and controls that change every tenth step, a third of their range."""
    print(f"seed {seed}")
    rng, m = np.random.default_rng(seed), model.mujoco
    q = np.array(model.keyframe(0)[0] if model.keyframe_names else model.q0)
    # a foot that just touches may do so here and not there
    if m.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE:
        q[2] -= 1e-3
    limited = m.actuator_ctrllimited[:, None] != 0
    low, high = np.where(limited, m.actuator_ctrlrange, (-1.0, 1.0)).T
    draws = rng.uniform(-0.3, 0.3, (-(-steps // 10), m.nu))
    u = np.repeat(0.5 * (low + high) + 0.5 * (high - low) * draws, 10, axis=0)[:steps]
    return q, 0.05 * rng.standard_normal(m.nv), u


def follow(m: mujoco.MjModel, q: Array, v: Array, u: Array) -> Array:
    """Return MuJoCo's configurations."""
    data = mujoco.MjData(m)
    data.qpos[:], data.qvel[:] = q, v
    out = [np.array(q)]
    for control in u:
        data.ctrl[:] = control
        mujoco.mj_step(m, data)
        out.append(np.array(data.qpos))
    return np.array(out)


def agree(one: Array, other: Array) -> int:
    """Return the number of steps for which positions agree."""
    size = np.maximum(np.abs(one).max(axis=1), 1.0)
    far = np.flatnonzero(~(np.abs(one - other).max(axis=1) / size <= NEAR))
    return int(far[0]) - 1 if len(far) else len(one) - 1


def check_trajectory(model: fb.Model, options: dict[str, Any], seed: int) -> None:
    """Compare how long ours and the twin stay with MuJoCo."""
    m = exact_mujoco(model, options)
    q, v, u = start(model, seed)
    way = follow(m, q, v, u)
    twin = follow(m, q, v + MOVED * np.random.default_rng(seed).standard_normal(m.nv), u)
    roll = fb.Simulator(model, **options).rollout(q, v, u)
    ours, theirs = agree(way, np.asarray(roll.q)), agree(way, twin)
    print(f"{ours} steps, twin {theirs}")
    assert roll.status & BAD == 0
    # a tenth of a chaotic motion's time is nothing that one run can tell
    assert ours >= 0.9 * theirs


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("name", OWN)
def test_own_models_move_as_in_mujoco(name: str, integrator: str) -> None:
    """Stay with MuJoCo for as long as its twin does, by each of its integrators."""
    model = OWN[name]()
    check_trajectory(model, law(model, integrator), 0)


@pytest.mark.parametrize("name", ("laikago", "quadruped"))
def test_the_hard_law_parts_at_once(name: str) -> None:
    """Part from MuJoCo at the first contact under the hard law: the tests above can fail."""
    model = OWN[name]()
    q, v, u = start(model, 0)
    way = follow(exact_mujoco(model, law(model, "euler")), q, v, u)
    assert agree(way, np.asarray(fb.Simulator(model).rollout(q, v, u).q)) < 100


@pytest.mark.parametrize("integrator", ("euler", "implicitfast"))
@pytest.mark.parametrize("name", ("laikago", "quadruped", "box", "pendulum"))
def test_jacobians_are_those_of_differences(name: str, integrator: str) -> None:
    """Give the matrices of `mjd_transitionFD` along the way, at the better of two steps."""
    model = OWN[name]()
    options = law(model, integrator)
    m = exact_mujoco(model, options)
    q, v, u = start(model, 0)
    sim = fb.Simulator(model, **options)
    roll = sim.rollout(q, v, u)
    data, n = mujoco.MjData(m), 2 * m.nv
    for at in (20, 120, 250):
        ours = np.hstack(sim.linearize(roll.q[at], roll.v[at], u[at]))
        errors: list[float] = []
        for eps in (1e-6, 1e-7):
            A, B = np.zeros((n, n)), np.zeros((n, m.nu))
            data.qpos[:], data.qvel[:], data.ctrl[:] = roll.q[at], roll.v[at], u[at]
            mujoco.mjd_transitionFD(m, data, eps, True, A, B if m.nu else None, None, None)
            theirs = np.hstack([A, B])
            errors.append(float(np.abs(ours - theirs).max() / np.abs(theirs).max()))
        print(f"step {at}: {errors[0]:.1e}, {errors[1]:.1e}")
        assert min(errors) <= 1e-8


def gymnasium_files() -> list[str]:
    """Return the robots of Gymnasium in the list of the corpus."""
    return [e.path for e in corpus_cache.read_list("gymnasium/envs/mujoco")]


def load_robot(path: str) -> fb.Model:
    """Return a robot of Gymnasium from the cache; skip where it is not there."""
    entry = corpus_cache.read_list(path)[0]
    file = corpus_cache.DEFAULT_CACHE / f"{entry.package}-{entry.version}" / path
    if not Path(file).exists():
        pytest.skip("the corpus is not in the cache; fill it by python -m tools.corpus")
    return fb.load(str(file), on_unsupported="drop")


@pytest.mark.slow
@pytest.mark.parametrize("path", gymnasium_files())
def test_robots_of_gymnasium_move_as_in_mujoco(path: str) -> None:
    """Stay with MuJoCo for as long as its twin does, by the integrator of the file."""
    model = load_robot(path)
    check_trajectory(model, law(model), 0)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ("float64", "float32"))
@pytest.mark.parametrize("path", gymnasium_files())
def test_every_step_of_gymnasium_is_solved(path: str, dtype: str) -> None:
    """Solve 1000 steps in both precisions."""
    model = load_robot(path)
    sim = fb.Simulator(model, dtype=dtype, **law(model))
    q, v, u = (x.astype(dtype) for x in start(model, 0, 1000))
    assert sim.rollout(q, v, u).status & BAD == 0
