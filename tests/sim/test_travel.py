"""Simulators and rollouts that travel: pickled, copied, sent to other processes, forked."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pytest

import featherback as fb

STEPS = 6


def robot(**options: Any) -> fb.Simulator:
    """Return a Laikago simulator with options and parameters of its own."""
    model = fb.models.laikago()
    mass = 1.1 * model.params["body_mass"]
    return fb.Simulator(model, dt=0.004, params={"body_mass": mass}, **options)


def rolled(sim: fb.Simulator) -> fb.Rollout:
    """Return a rollout of two worlds with a parameter of each."""
    q, v = sim.model.keyframe("stand")
    friction = np.stack([sim.params["geom_friction"], 0.5 * sim.params["geom_friction"]])
    u = np.tile(q[7:], (STEPS, 1))
    return sim.rollout(np.stack([q, q]), v, u, params={"geom_friction": friction})


def pickled(x: Any) -> Any:
    """Return what comes out of a pickle."""
    return pickle.loads(pickle.dumps(x))  # noqa: S301


COPIES = {
    "pickle": pickled,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_simulator_is_built_again(way: str, dtype: str) -> None:
    """Give a copy the model, options and parameters: it prints alike and gives the same bits."""
    sim = robot(dtype=dtype, threads=2, friction="box", max_contacts=20)
    other = COPIES[way](sim)
    assert repr(other) == repr(sim)
    assert all(np.array_equal(other.params[name], a) for name, a in sim.params.items())
    assert np.array_equal(rolled(other).q, rolled(sim).q)
    q, v = sim.model.keyframe("stand")
    assert np.array_equal(other.step(q, v)[0], sim.step(q, v)[0])


@pytest.mark.parametrize("way", COPIES)
def test_a_rollout_keeps_its_arrays_and_derivatives(way: str) -> None:
    """Give a copy of a rollout the same arrays, read-only, and the same gradient."""
    roll = rolled(robot())
    other = COPIES[way](roll)
    for name in ("q", "v", "act", "u", "kept", "status", "status_step", "residual", "sweeps"):
        assert np.array_equal(getattr(other, name), getattr(roll, name)), name
        assert not getattr(other, name).flags.writeable, name
    bar = np.ones_like(roll.q)
    one, two = roll.vjp(bar), other.vjp(bar)
    assert np.array_equal(one.u, two.u)
    assert np.array_equal(one.params["geom_friction"], two.params["geom_friction"])


@pytest.mark.parametrize("way", COPIES)
def test_a_model_stays_read_only(way: str) -> None:
    """Give a copy of a model the same arrays, none of which can be written."""
    model = fb.models.laikago()
    assert model.q0.size and model.v0.size
    other = COPIES[way](model)
    assert repr(other) == repr(model) and np.array_equal(other.q0, model.q0)
    arrays = {"q0": other.q0, "v0": other.v0, "act0": other.act0, "vert": other.structure.vert}
    arrays |= {"geom1": other.parsed.pairs.geom1, "keep": other.parsed.keep_actuator}
    for name, array in {**arrays, **other.params, **other.structure.tables}.items():
        assert not array.flags.writeable, name
    with pytest.raises(TypeError, match="assignment"):
        other.params["body_mass"] = model.params["body_mass"]
    assert np.array_equal(other.params["body_mass"], model.params["body_mass"])


def test_a_rollout_and_its_simulator_share_an_engine() -> None:
    """Build the engine once where a simulator travels with its rollouts."""
    sim = robot()
    other, roll = pickled((sim, rolled(sim)))
    assert roll.replay.bridge is other._bridge


def gradient_elsewhere(work: tuple[fb.Simulator, fb.Rollout]) -> tuple[np.ndarray, np.ndarray]:
    """Roll out and differentiate in another process."""
    sim, roll = work
    return rolled(sim).q, roll.vjp(np.ones_like(roll.q)).u


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_processes_give_the_same_bits(method: str) -> None:
    """Send a simulator and a rollout to a process that was not forked from this one."""
    sim = robot()
    roll = rolled(sim)
    with ProcessPoolExecutor(1, multiprocessing.get_context(method)) as pool:
        q, u_bar = pool.submit(gradient_elsewhere, (sim, roll)).result(timeout=300)
    assert np.array_equal(q, roll.q)
    assert np.array_equal(u_bar, roll.vjp(np.ones_like(roll.q)).u)
