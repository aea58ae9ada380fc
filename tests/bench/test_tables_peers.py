"""The step of bench/peers against ours: the same states, and the same gradient."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import featherback as fb

BENCH = Path(__file__).resolve().parents[2] / "bench"
SEED = 20240


@pytest.fixture(scope="module")
def modules() -> Iterator[dict[str, Any]]:
    """Import files of bench/ under their own names, and forget them afterwards."""
    folders = [str(BENCH), str(BENCH / "peers")]
    before = set(sys.modules)
    sys.path[:0] = folders
    try:
        yield {name: importlib.import_module(name) for name in ("straight", "rollouts", "smooth")}
    finally:
        for folder in folders:
            sys.path.remove(folder)
        for name in set(sys.modules) - before:
            if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(BENCH):
                del sys.modules[name]


def scene(modules: dict[str, Any], robots: int, steps: int) -> Any:
    """Return robots on the ground that are pushed and whose servo targets move."""
    model = fb.models.laikago(robots=robots)
    print("seed", SEED)
    rng = np.random.default_rng(SEED)
    q, v = model.keyframe("stand")
    pose = q.reshape(robots, 19)[:, 7:].reshape(-1)
    u = pose + rng.uniform(-0.1, 0.1, (steps, model.nu))
    v = v + rng.uniform(-0.3, 0.3, model.nv)
    # feet that slide or lift off need more sweeps than those that stand
    return modules["rollouts"].Scene(q, v, u, robots, 0.001, sweeps=60)


@pytest.mark.parametrize(("tool", "robots"), [("PyTorch", 2), ("PyTorch, checkpoints", 1)])
def test_eager_step_takes_our_steps(tool: str, robots: int, modules: dict[str, Any]) -> None:
    """Find our last state and our gradient by autograd, for a robot and for two at once."""
    pytest.importorskip("torch")
    given = scene(modules, robots, 2)
    mine, my_gradient = modules["rollouts"].ours(given).forward()
    theirs, their_gradient = modules["rollouts"].TOOLS[tool](given).forward()
    assert np.abs(mine - theirs).max() < 1e-10
    size = np.abs(my_gradient()).max()
    assert np.abs(my_gradient() - their_gradient()).max() < 1e-10 * size


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["JAX", "JAX, checkpoints"])
def test_compiled_step_takes_our_steps(tool: str, modules: dict[str, Any]) -> None:
    """Find our last state and our gradient by JAX, compiled in one scan."""
    pytest.importorskip("jax")
    given = scene(modules, 1, 20)
    mine, my_gradient = modules["rollouts"].ours(given).forward()
    theirs, their_gradient = modules["rollouts"].TOOLS[tool](given).forward()
    assert np.abs(mine - theirs).max() < 1e-10
    size = np.abs(my_gradient()).max()
    assert np.abs(my_gradient() - their_gradient()).max() < 1e-10 * size


def test_a_foot_in_the_air_carries_nothing(modules: dict[str, Any]) -> None:
    """Leave out feet that cannot touch: a thrown robot moves as ours does."""
    torch = pytest.importorskip("torch")
    given = scene(modules, 1, 3)
    q = given.q.copy()
    q[2] += 0.02
    q[3:7] = (0.999, 0.03, 0.02, 0.01)
    thrown = replace(given, q=q)
    mine, _ = modules["rollouts"].ours(thrown).forward()
    with torch.no_grad():
        theirs, _ = modules["rollouts"].TOOLS["PyTorch"](thrown).forward()
    assert np.abs(mine - theirs).max() < 1e-10


def rollout(given: Any) -> tuple[fb.Simulator, fb.Rollout]:
    """Return our simulator of a scene and its rollout."""
    sim = given.simulator(given.robots)
    return sim, sim.rollout(given.q, given.v, given.u)


@pytest.mark.parametrize("robots", [1, 2])
def test_recovery_and_limits_take_no_part_in_the_scenes(
    robots: int, modules: dict[str, Any]
) -> None:
    """Find no overlap, load, spin or limit in our rollouts that their step leaves out."""
    modules["straight"].check_states(*rollout(scene(modules, robots, 20)))


@pytest.mark.parametrize(
    ("index", "value", "sentence"),
    [
        (2, -1e-3, "straight: an overlap [m] is 0.001 in step 0, expected at most 2e-07, which"),
        (7, 2.0, "straight: minus the room to a limit [rad] is "),
    ],
)
def test_states_that_are_not_covered_are_refused(
    index: int, value: float, sentence: str, modules: dict[str, Any]
) -> None:
    """Refuse a robot in the floor and a joint past its limit."""
    given = scene(modules, 1, 1)
    q = given.q.copy()
    q[index] += value
    with pytest.raises(ValueError) as caught:
        modules["straight"].check_states(*rollout(replace(given, q=q)))
    assert str(caught.value).startswith(sentence)


def test_a_spin_and_a_load_that_are_not_covered_are_refused(modules: dict[str, Any]) -> None:
    """Refuse a base that turns by more than a radian in a step, and one that is thrown down."""
    given = scene(modules, 1, 1)
    for index, value, sentence in (
        (5, 1.5e3, "straight: half a step's turn [rad] is 0.75"),
        (2, -300.0, "straight: a load [m/s] is "),
    ):
        v = given.v.copy()
        v[index] = value
        with pytest.raises(ValueError) as caught:
            modules["straight"].check_states(*rollout(replace(given, v=v)))
        assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("depth", [1e-7, 3e-7, 1e-6, 1e-4])
def test_velocities_from_an_overlap_are_ours(depth: float, modules: dict[str, Any]) -> None:
    """Find our velocities where positions move too: the row has one law at every depth."""
    pytest.importorskip("torch")
    given = scene(modules, 1, 1)
    q = given.q.copy()
    q[2] -= depth
    given = replace(given, q=q, sweeps=200)
    mine, _ = modules["rollouts"].ours(given).forward()
    theirs, _ = modules["rollouts"].TOOLS["PyTorch"](given).forward()
    assert np.abs(mine - theirs)[len(q) :].max() < 1e-10


def test_model_that_is_not_covered_is_refused(modules: dict[str, Any]) -> None:
    """Refuse a model without a free base, in one sentence."""
    with pytest.raises(ValueError) as caught:
        modules["straight"].check(fb.load(fb.models.chain_xml(2), name="chain"))
    assert str(caught.value) == (
        "straight: joints of types [3, 3], expected one free base, then hinges"
    )


def test_model_without_a_ground_is_refused(modules: dict[str, Any]) -> None:
    """Refuse a model whose spheres have no plane below them, in one sentence."""
    ball = '<body><freejoint/><geom size="0.1"/></body>'
    model = fb.load(f"<mujoco><worldbody>{ball}</worldbody></mujoco>", name="ball")
    with pytest.raises(ValueError) as caught:
        modules["straight"].check(model)
    assert str(caught.value) == (
        "straight: spheres on the planes [], expected one plane, the larger friction of a pair and "
        "three rows for each contact"
    )


def test_model_with_springs_is_refused(modules: dict[str, Any]) -> None:
    """Refuse a model with joint springs, in one sentence."""
    ground = '<geom type="plane" size="1 1 1"/>'
    ball = '<geom size="0.1"/><freejoint/><body><geom size="0.1"/><joint stiffness="2"/></body>'
    scene = f"<worldbody>{ground}<body>{ball}</body></worldbody>"
    model = fb.load(f"<mujoco>{scene}</mujoco>", name="ball")
    with pytest.raises(ValueError) as caught:
        modules["straight"].check(model)
    assert (
        str(caught.value) == "straight: jnt_stiffness is not zero, which this step does not cover"
    )


def test_smooth_part_agrees_with_pinocchio(modules: dict[str, Any]) -> None:
    """Find our Jacobians of the next velocity in Pinocchio's of the acceleration."""
    pytest.importorskip("pinocchio", reason="Pinocchio is part of the group bench")
    sim = fb.Simulator(fb.models.laikago())
    assert modules["smooth"].disagreement(sim, modules["smooth"].pinocchio_model(sim)) < 1e-11
