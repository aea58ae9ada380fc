"""A warm start under MuJoCo's law: accelerations that a state carries from solve to solve.

They say where a solve starts, not where it ends: trajectories and gradients are those of a cold
start, in fewer iterations.
"""

from __future__ import annotations

import copy
import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest

import featherback as fb
from featherback.errors import ParameterError, ShapeError
from tests.core.ops_soft import scene_model

STEPS = 300
BOX = """<mujoco><worldbody><geom type="plane" size="1 1 1"/><body pos="0 0 0.0999"><freejoint/>
<geom type="box" size="0.1 0.1 0.1" mass="1"/></body></worldbody></mujoco>"""
INTEGRATORS = ("euler", "rk4", "implicitfast")
Array = np.ndarray


@cache
def robot() -> fb.Model:
    """Return the Laikago."""
    return fb.models.laikago()


def simulators(model: fb.Model, **options: Any) -> tuple[fb.Simulator, fb.Simulator]:
    """Return a simulator that starts cold, and one that carries a start."""
    cold, warm = (
        fb.Simulator(model, contact="mujoco", warmstart=switch, **options) for switch in (0, 1)
    )
    return cold, warm


def walk(steps: int, worlds: int | None = None) -> tuple[Array, Array, Array]:
    """Return a standing Laikago, and controls that move its legs without lifting its feet."""
    rng = np.random.default_rng(0)
    q, v = (np.array(x) for x in robot().keyframe("stand"))
    q[2] -= 0.002
    lead = () if worlds is None else (worlds,)
    swing = 0.1 * np.sin(np.arange(steps)[:, None] / 20 + rng.uniform(0, 6, (*lead, 1, 12)))
    v = v + 0.05 * rng.normal(size=(*lead, robot().nv))
    return np.broadcast_to(q, (*lead, robot().nq)).copy(), v, q[7:] + swing


def scene_start(worlds: int | None = None) -> tuple[Array, Array, Array]:
    """Return a state of the scene, which has every kind of row and an activation, and controls."""
    rng, model = np.random.default_rng(1), scene_model()
    lead = () if worlds is None else (worlds,)
    v = 0.1 * rng.normal(size=(*lead, model.nv))
    q = np.broadcast_to(model.q0, (*lead, model.nq)).copy()
    return q, v, 0.3 * rng.normal(size=(*lead, 20, model.nu))


def near(found: Array, wanted: Array, tolerance: float) -> bool:
    """Return whether arrays agree, relative to the largest number."""
    return bool(np.abs(found - wanted).max() <= tolerance * max(1.0, np.abs(wanted).max()))


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
def test_trajectories_are_those_of_a_cold_start(integrator: Any, cone: Any) -> None:
    """Walk for hundreds of steps to the same states."""
    cold, warm = simulators(robot(), integrator=integrator, cone=cone)
    start = walk(STEPS)
    ends = [sim.rollout(*start) for sim in (cold, warm)]
    assert all(roll.ok for roll in ends)
    assert near(ends[1].q, ends[0].q, 1e-9) and near(ends[1].v, ends[0].v, 1e-9)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_gradients_are_those_of_a_cold_start(integrator: Any) -> None:
    """Pull the same gradients back, of a robot and of every kind of row, in all orders."""
    for model, start in ((robot(), walk(40)), (scene_model(), scene_start())):
        cold, warm = simulators(model, integrator=integrator, cone="elliptic")
        names = ("geom_solref", "geom_friction", "body_mass")
        params = {name: model.params[name] for name in names}
        bars = [np.linspace(-1.0, 1.0, n) for n in (model.nq, model.nv)]
        rolls = [sim.rollout(*start, params=params) for sim in (cold, warm)]
        wanted, found = (roll.vjp(*bars) for roll in rolls)
        for name in ("q", "v", "act", "u"):
            exact = getattr(wanted, name)
            if exact.size:
                assert near(getattr(found, name), exact, 1e-8), name
        for name in names:
            assert near(found.params[name], wanted.params[name], 1e-8), name
        dv = np.linspace(1.0, 2.0, model.nv)
        pushed = [roll.jvp(dv=dv)[1] for roll in rolls]
        assert near(pushed[1], pushed[0], 1e-8)
        curved = [roll.hessian_vector_product(*bars, direction=(None, dv, None)) for roll in rolls]
        assert near(curved[1].v, curved[0].v, 1e-6)


def iterations(sim: fb.Simulator, roll: fb.Rollout) -> Array:
    """Return the Newton iterations of each step of a rollout."""
    own = {"warm": roll.warm[:-1]} if roll.warm.shape[-1] else {}
    return sim.rollout(roll.q[:-1], roll.v[:-1], roll.u[:, None], **own).sweeps


def test_fewer_iterations() -> None:
    """Take fewer Newton iterations, and never many more, than from a cold start."""
    cold, warm = simulators(robot(), cone="elliptic")
    start = walk(STEPS)
    counts = [iterations(sim, sim.rollout(*start)) for sim in (cold, warm)]
    print([(c.mean(), c.max()) for c in counts])
    assert counts[1].mean() < 0.9 * counts[0].mean()
    assert counts[1].max() <= counts[0].max() + 2


def test_a_solve_that_starts_at_its_end_takes_no_iteration() -> None:
    """Find the minimum at once where the step before ended at it."""
    _, warm = simulators(robot())
    q, v, u = (x[0] if x.ndim == 2 else x for x in walk(1))
    _, _, end = warm.step(q, v, u, warm=np.zeros(robot().nv))
    assert warm.rollout(q, v, u[None]).sweeps > 0
    assert warm.rollout(q, v, u[None], warm=end).sweeps == 0


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_same_bits_in_any_batch(dtype: str, integrator: Any) -> None:
    """Give a world the same bits alone and in batches of any size, forwards and backwards."""
    _, sim = simulators(scene_model(), dtype=dtype, integrator=integrator)
    q, v, u = scene_start(11)
    every = sim.rollout(q, v, u)
    bar = np.ones_like(every.v)
    gradient = every.vjp(v_bar=bar)
    for part in (slice(0, 1), slice(3, 10)):
        some = sim.rollout(q[part], v[part], u[part])
        for name in ("q", "v", "act", "warm"):
            assert np.array_equal(getattr(some, name), getattr(every, name)[part])
        assert np.array_equal(some.vjp(v_bar=bar[part]).v, gradient.v[part])


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_carried_over_bit_by_bit(integrator: Any) -> None:
    """Go on from the last state of a rollout, or step by step, as one long rollout does."""
    _, sim = simulators(scene_model(), integrator=integrator)
    q, v, u = scene_start(3)
    long = sim.rollout(q, v, u)
    assert not np.any(long.warm[:, 0]) and long.warm.shape == long.v.shape
    head = sim.rollout(q, v, u[:, :8])
    tail = sim.rollout(
        head.q[:, -1], head.v[:, -1], u[:, 8:], act=head.act[:, -1], warm=head.warm[:, -1]
    )
    for name in ("q", "v", "act", "warm"):
        assert np.array_equal(getattr(tail, name), getattr(long, name)[:, 8:])
    one = (q[0], v[0], np.zeros(1), np.zeros(sim.model.nv))
    for k in range(20):
        one = sim.step(*one[:2], u[0, k], act=one[2], warm=one[3])
    every = (q, v, np.zeros((3, 1)), np.zeros_like(v))
    for k in range(20):
        *state, status = sim.step(
            *every[:2], u[:, k], act=every[2], warm=every[3], return_status=True
        )
        every = tuple(state)
        assert not np.any(status)
    assert sim._bridge.step_one(*one[:2], one[2], u[0, 0], one[3], False) is not None
    assert sim._bridge.step_one(*one[:2], one[2], u[0, 0], one[3] * np.nan, False) is None
    for part, many, name in zip(one, every, ("q", "v", "act", "warm"), strict=True):
        assert np.array_equal(part, getattr(long, name)[0, -1])
        assert np.array_equal(many, getattr(long, name)[:, -1])


def test_checkpoints_and_copies() -> None:
    """Run the same steps again from few states, and in a pickle and a copy of the simulator."""
    _, sim = simulators(robot())
    start = walk(60)
    roll, few = (sim.rollout(*start, checkpoint=c) for c in ("step", 7))
    bar = np.ones(robot().nq)
    assert np.array_equal(few.warm[-1], roll.warm[-1]) and np.any(roll.warm[-1])
    assert np.array_equal(roll.vjp(bar).v, few.vjp(bar).v)
    for other in (pickle.loads(pickle.dumps(sim)), copy.deepcopy(sim)):  # noqa: S301
        assert other.options.warmstart == 1
        assert np.array_equal(other.rollout(*start).warm, roll.warm)
    again = pickle.loads(pickle.dumps(roll))  # noqa: S301
    assert np.array_equal(again.vjp(bar).v, roll.vjp(bar).v)


def test_any_start_leads_to_the_same_end() -> None:
    """Step to the same state from accelerations that have nothing to do with it."""
    cold, warm = simulators(scene_model(), cone="elliptic")
    q, v, u = (x[..., 0, :] if x.ndim == 3 else x for x in scene_start(8))
    wanted = cold.step(q, v, u)
    rng = np.random.default_rng(2)
    for size in (1.0, 1e3, 1e200):
        found = warm.step(q, v, u, warm=size * rng.normal(size=v.shape))
        assert near(found[1], wanted[1], 1e-11)


def test_float32_walks_as_from_a_cold_start() -> None:
    """Walk in float32 from warm starts."""
    cold, warm = simulators(robot(), dtype="float32", cone="elliptic")
    q, v, u = walk(100, worlds=9)
    ends = [sim.rollout(q, v, u) for sim in (cold, warm)]
    assert all(roll.ok for roll in ends)
    assert np.abs(ends[1].q - ends[0].q).max() < 1e-3


def test_worlds_of_float32_end_in_double_precision_as_well() -> None:
    """Finish a thin cone in double precision from any start, with the bits of one world alone."""
    model = fb.load(BOX)
    cold, warm = simulators(model, dtype="float32", cone="elliptic", impratio=1e8)
    rng = np.random.default_rng(1)
    q, v = np.repeat(model.q0[None], 64, axis=0), rng.normal(size=(64, 6))
    start = 100 * rng.normal(size=v.shape)
    wanted, found = cold.rollout(q, v, steps=1), warm.rollout(q, v, steps=1, warm=start)
    # single precision ends at 1e-6
    ended = (found.residual < 1e-10) & (found.sweeps > 1)
    assert found.ok and np.count_nonzero(ended) > 3
    assert near(found.v, wanted.v, 1e-3)
    for k in np.flatnonzero(ended)[:3]:
        one = warm.rollout(q[k], v[k], steps=1, warm=start[k])
        assert np.array_equal(one.v, found.v[k]) and np.array_equal(one.warm, found.warm[k])


def test_a_world_that_is_lost_leaves_the_others_alone() -> None:
    """Keep NaN of one world out of the others' starts."""
    _, sim = simulators(robot())
    q, v, u = walk(20, worlds=5)
    wanted = sim.rollout(q, v, u)
    u[2, 4] = np.nan
    found = sim.rollout(q, v, u)
    assert found.status[2] == fb.Status.NONFINITE and np.count_nonzero(found.status) == 1
    rest = [0, 1, 3, 4]
    assert np.array_equal(found.q[rest], wanted.q[rest])
    assert np.array_equal(found.warm[rest], wanted.warm[rest])


def test_jacobians_do_not_see_it() -> None:
    """Linearize, and differentiate a step, in the sizes and to the numbers of a cold start."""
    cold, warm = simulators(robot())
    q, v, u = (x[0] if x.ndim == 2 else x for x in walk(1))
    for wanted, found in zip(cold.linearize(q, v, u), warm.linearize(q, v, u), strict=True):
        assert np.array_equal(found, wanted)
    bars = np.ones(robot().nq), np.ones(robot().nv)
    assert np.array_equal(warm.vjp(q, v, u, *bars).v, cold.vjp(q, v, u, *bars).v)
    assert np.array_equal(cold.step(q, v, u)[0], warm.step(q, v, u)[0])
    assert int(warm.contacts(q, v, u).count) == 4


def test_what_is_refused() -> None:
    """Refuse accelerations that are not finite, of a wrong length, or that nothing carries."""
    cold, warm = simulators(fb.models.ball())
    q, v = cold.model.q0, cold.model.v0
    bad = np.full(6, np.nan)
    for call in (lambda w: warm.step(q, v, warm=w), lambda w: warm.rollout(q, v, steps=2, warm=w)):
        with pytest.raises(ParameterError, match="warm"):
            call(bad)
        with pytest.raises(ShapeError, match=r"warm has shape \(5,\)"):
            call(np.zeros(5))
    with pytest.raises(ParameterError, match="carries no warm start; leave it out"):
        cold.step(q, v, warm=np.zeros(6))
    with pytest.raises(ParameterError, match="carries no warm start"):
        cold.rollout(q, v, steps=1, warm=np.zeros((3, 6)))
    assert cold.rollout(q, v, steps=1, warm=np.zeros(0)).warm.shape == (2, 0)
    with pytest.raises(ParameterError, match='warmstart acts under contact="mujoco" only'):
        fb.Simulator(cold.model, warmstart=True)
    assert fb.Simulator(cold.model, contact="mujoco", warmstart=True).options.warmstart == 1
    with pytest.raises(ParameterError, match="warmstart is 2"):
        fb.Simulator(cold.model, contact="mujoco", warmstart=2)
