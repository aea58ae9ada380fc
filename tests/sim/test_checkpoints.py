"""Checkpointed rollouts: the same bits whatever is kept, and the memory that was told before."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest
from numpy.typing import NDArray

import featherback as fb
from featherback.sim import memory
from featherback.sim.checkpoints import Schedule, plan, runs_needed, split

Real = NDArray[np.float64]

WORLDS, STEPS = 3, 40
SCHEDULES = (1, 7, 13, STEPS, 1000, "bytes:40kB", "bytes:15kB", "bytes:6kB", "bytes:1GB")


def laikago(seed: int) -> tuple[fb.Simulator, tuple[Real, Real, Real], dict[str, Real]]:
    """Return a simulator, a start on the ground with controls, and parameters."""
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    model = fb.models.laikago()
    q = np.repeat(model.q0[None], WORLDS, axis=0)
    v = 0.1 * rng.normal(size=(WORLDS, model.nv))
    u = rng.normal(size=(WORLDS, STEPS, model.nu))
    return fb.Simulator(model), (q, v, u), {"body_mass": model.params["body_mass"]}


@pytest.mark.parametrize("checkpoint", SCHEDULES)
def test_schedules_give_the_same_bits(checkpoint: str | int) -> None:
    """Return the states and the gradient of the stored rollout, bit for bit."""
    sim, start, params = laikago(3)
    rng = np.random.default_rng(4)
    whole = sim.rollout(*start, params=params)
    some = sim.rollout(*start, params=params, checkpoint=checkpoint)
    assert np.array_equal(some.q, whole.q[:, some.kept])
    assert np.array_equal(some.v, whole.v[:, some.kept])
    assert some.steps == whole.steps
    q_bar, v_bar = rng.normal(size=whole.q.shape), rng.normal(size=whole.v.shape)

    def cut(first: int, q: Real, v: Real) -> tuple[Real, Real]:
        rows = slice(first, first + q.shape[1])
        assert np.array_equal(q, whole.q[:, rows])
        assert np.array_equal(v, whole.v[:, rows])
        return q_bar[:, rows], v_bar[:, rows]

    one, other = whole.vjp(q_bar, v_bar), some.vjp(cotangents=cut)
    for name in ("q", "v", "u"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert np.array_equal(one.params["body_mass"], other.params["body_mass"])
    # a loss on the kept states, and on the last one alone
    sparse_q, sparse_v = np.zeros_like(q_bar), np.zeros_like(v_bar)
    sparse_q[:, some.kept], sparse_v[:, some.kept] = q_bar[:, some.kept], v_bar[:, some.kept]
    one = whole.vjp(sparse_q, sparse_v)
    other = some.vjp(q_bar[:, some.kept], v_bar[:, some.kept])
    assert np.array_equal(one.u, other.u)
    one, other = whole.vjp(q_bar[:, -1]), some.vjp(q_bar[:, -1])
    assert np.array_equal(one.u, other.u)


def test_one_world_and_shared_controls() -> None:
    """Cut a rollout without a world axis whose controls are shared."""
    sim, (q, v, u), _ = laikago(5)
    whole, some = (sim.rollout(q[0], v[0], u[0], checkpoint=c) for c in ("step", 6))
    assert some.q.shape == (len(some.kept), sim.model.nq)
    bar = np.random.default_rng(6).normal(size=sim.model.nq)
    assert np.array_equal(whole.vjp(bar).u, some.vjp(bar).u)
    shared = [sim.rollout(q, v, u[0], checkpoint=c).vjp(np.stack([bar] * 3)).u for c in ("step", 6)]
    assert np.array_equal(*shared)


def test_status_keeps_its_step() -> None:
    """Name the step at which a world leaves the finite numbers, counted from the start."""
    sim, (q, v, u), _ = laikago(7)
    u[1, 17] = np.nan
    whole, some = (sim.rollout(q, v, u, checkpoint=c) for c in ("step", 5))
    assert np.array_equal(whole.status, some.status)
    assert np.array_equal(whole.status_step, some.status_step)
    assert int(some.status_step[1]) == 17


def test_binomial_schedule_needs_the_fewest_runs() -> None:
    """Reverse C(s + 1 + r, s + 1) units with s slots and r runs, by brute force over splits."""
    fewest: dict[tuple[int, int], int] = {}

    def cost(units: int, slots: int) -> int:
        # unit-steps run forwards, the tape's own runs left out
        if units == 1:
            return 0
        if slots == 0:
            return units * (units - 1) // 2
        if (units, slots) not in fewest:
            fewest[units, slots] = min(
                m + cost(units - m, slots - 1) + cost(m, slots) for m in range(1, units)
            )
        return fewest[units, slots]

    def ours(units: int, slots: int) -> int:
        if units == 1:
            return 0
        if slots == 0:
            return units * (units - 1) // 2
        m = split(units, slots)
        assert 1 <= m < units
        return m + ours(units - m, slots - 1) + ours(m, slots)

    for units, slots in itertools.product(range(1, 25), range(5)):
        assert ours(units, slots) == cost(units, slots), (units, slots)
    assert runs_needed(10, 1) == 3


def test_budget_is_kept() -> None:
    """Hold no more states than the bytes allow, and run no step more often than needed."""
    for steps, budget in itertools.product((1, 10, 1000, 50_000), (5, 8, 30, 500, 10_000)):
        schedule = plan("rollout()", f"bytes:{budget * 296}", steps, 296)
        assert schedule.states <= max(budget, 5), (steps, budget, schedule)
        kept = schedule.kept
        assert kept[0] == 0
        assert kept[-1] == steps
        assert np.all(np.diff(kept) > 0)
    assert plan("rollout()", "bytes:2kB", 5, 296) == Schedule(5, 5, 0, True)
    long = plan("rollout()", "bytes:600kB", 50_000, 296)
    assert runs_needed(long.units, long.slots) == 1


def test_memory_is_told_beforehand() -> None:
    """Tell the bytes of the arrays that a rollout then holds."""
    sim, (q, v, u), _ = laikago(10)
    roll = sim.rollout(q, v, u)
    told = sim.memory(STEPS, WORLDS)
    assert told.states == roll.q.nbytes + roll.v.nbytes
    assert told.controls == 2 * roll.u.nbytes
    assert told.total == told.states + told.controls + told.workspace
    less = sim.memory(STEPS, WORLDS, checkpoint="bytes:15kB")
    assert less.states <= 15_000
    # one Laikago with its gradient takes under 400 bytes per step beyond the controls
    per_step = (sim.memory(5000).total - sim.memory(1000).total) / 4000 - u.shape[-1] * 8
    print(f"{per_step} bytes per step beyond the controls; {told}")
    assert per_step <= 400


@pytest.mark.parametrize("checkpoint", ["step", 1, 10, 500, "bytes:200kB", "bytes:20kB"])
def test_no_more_memory_than_told(checkpoint: str | int) -> None:
    """Take at most the bytes that were told for states and controls, and 70 kB for the rest."""
    sim = fb.Simulator(fb.models.laikago())
    q, v = sim.model.keyframe("stand")
    u = np.tile(q[7:], (2000, 1))
    told = sim.memory(2000, checkpoint=checkpoint)
    tracemalloc.start()
    try:
        sim.rollout(q, v, u, checkpoint=checkpoint).vjp(np.ones_like(q), np.ones_like(v))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    print(f"{checkpoint}: {peak} bytes at most, {told.states} and {told.controls} told")
    assert peak <= told.states + told.controls + 70_000


def test_memory_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse a rollout larger than the memory that is free, with the figures."""
    monkeypatch.setattr(memory, "available", lambda: 10**9)
    sim, (q, v, _), _ = laikago(11)
    told = (
        r"^rollout\(\): the controls take 9\.6 GB and 1 GB of memory are free; take fewer steps or "
    )
    with pytest.raises(MemoryError, match=rf"{told}worlds\.$"):
        sim.rollout(q, v, steps=10**8)
    ball = fb.Simulator(fb.models.ball())
    told = r"^rollout\(\): the states take 10\.4 GB and 1 GB of memory are free; take fewer "
    with pytest.raises(MemoryError, match=told):
        ball.rollout(ball.model.q0, ball.model.v0, steps=10**8)
