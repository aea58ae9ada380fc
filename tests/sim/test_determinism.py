"""The same bits for any batch size, thread count, lane and order; nothing is remembered."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import pytest

import featherback as fb
from tests.property.random_models import random_state

SIZES = (1, 2, 3, 7, 8, 9, 64, 1000)
THREADS = (1, 2, 3, 8)
STEPS = 25

PILE = """<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="0 0 1"/>
<body pos="0 0 0.1"><freejoint/><geom type="box" size="0.1 0.1 0.1" mass="1"/></body>
<body pos="0.02 0 0.26"><freejoint/>
<geom type="capsule" size="0.05 0.1" euler="0 90 10" mass="0.5"/></body>
<body pos="0 0.01 0.42"><freejoint/><geom type="box" size="0.12 0.08 0.09" mass="2"/></body>
<body pos="0.4 0 0.2"><freejoint/><geom type="capsule" size="0.06 0.1" mass="1"/></body>
<body pos="0.52 0 0.1"><freejoint/><geom type="sphere" size="0.09" mass="1"/></body>
</worldbody></mujoco>"""


@lru_cache
def worlds(name: str) -> tuple[fb.Model, np.ndarray, np.ndarray, np.ndarray]:
    """Return a model and 1000 random states and control sequences."""
    rng = np.random.default_rng(0)
    model = fb.models.laikago() if name == "laikago" else fb.load(PILE)
    n = SIZES[-1]
    q, v = np.empty((n, model.nq)), np.empty((n, model.nv))
    for k in range(n):
        q[k], v[k] = random_state(model, rng, spread=0.03)
        v[k] *= 10
    if name != "laikago":
        return model, q, v, np.zeros((n, STEPS, 0))
    u = q[:, None, 7:] + rng.uniform(-0.3, 0.3, (n, STEPS, model.nu))
    return model, q, v, u


def in_batches(sim: fb.Simulator, name: str, order: np.ndarray, size: int) -> list[np.ndarray]:
    """Roll out the worlds of `order` in batches and return the results in the worlds' order."""
    _, q, v, u = worlds(name)
    cuts = range(size, len(order), size)
    parts = [sim.rollout(q[k], v[k], u[k], steps=STEPS) for k in np.split(order, cuts)]
    back = np.argsort(order)
    fields = ("q", "v", "status", "status_step", "residual", "sweeps", "factorisations")
    return [np.concatenate([getattr(p, f) for p in parts])[back] for f in fields]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["laikago", "pile"])
def test_one_hash_for_all_batches(name: str, dtype: str) -> None:
    """Give one hash over batch sizes, thread counts and random orders of the worlds.

    Worlds are rolled out in batches of each size, in a random order; the SHA-256 is that of the
    states, status words, residuals, sweeps and factorisations of the first 30 worlds, put back in
    order.
    """
    print("seed 1")
    rng = np.random.default_rng(1)
    model = worlds(name)[0]
    hashes: dict[str, tuple[int, int]] = {}
    for threads in THREADS:
        sim = fb.Simulator(model, dtype=dtype, threads=threads)
        for size in SIZES:
            order = rng.permutation(max(size, 30))
            found = [array[:30] for array in in_batches(sim, name, order, size)]
            digest = hashlib.sha256(b"".join(array.tobytes() for array in found)).hexdigest()
            hashes.setdefault(digest, (threads, size))
            assert np.abs(found[1][:, -1] - found[1][:, 0]).max() > 0.5
            assert found[6].max() > found[6].min()
    print(f"threads and batch size at which each hash was first seen: {hashes}")
    assert len(hashes) == 1


def gradients_in_batches(
    sim: fb.Simulator, name: str, order: np.ndarray, size: int, steps: int
) -> list[np.ndarray]:
    """Return gradients of q, v, u and parameters of each world, in the worlds' order.

    Every world has masses and frictions of its own, so that their gradients stay apart.
    """
    model, q, v, u = worlds(name)
    scale = np.random.default_rng(4).uniform(0.8, 1.2, (SIZES[-1], 1))
    bars = [np.sin(np.arange(n)) + np.zeros((steps + 1, 1)) for n in (model.nq, model.nv)]
    parts: list[fb.Gradient] = []
    for k in np.split(order, range(size, len(order), size)):
        params = {
            "body_mass": model.params["body_mass"] * scale[k],
            "geom_friction": model.params["geom_friction"] * scale[k, :, None],
            "geom_size": np.tile(model.params["geom_size"], (len(k), 1, 1)),
            "gravity": np.tile(model.params["gravity"], (len(k), 1)),
        }
        roll = sim.rollout(q[k], v[k], u[k, :steps], steps=steps, params=params)
        parts.append(roll.vjp(*(np.tile(bar, (len(k), 1, 1)) for bar in bars)))
    back = np.argsort(order)
    found = [[p.q, p.v, p.u, *p.params.values()] for p in parts]
    return [np.concatenate(arrays)[back] for arrays in zip(*found, strict=True)]


# options under which nearly all solves finish, many do not, and all are differentiated by sweeps
SOLVES: dict[str, dict[str, Any]] = {
    "finished": {},
    "unfinished": {"solver": "pgs", "max_sweeps": 6},
    "unrolled": {"solver": "pgs", "max_sweeps": 60, "gradient": "unrolled"},
}


@pytest.mark.parametrize("solve", SOLVES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["laikago", "pile"])
def test_one_hash_for_all_gradients(name: str, dtype: str, solve: str) -> None:
    """Give one hash of gradients over batch sizes, thread counts and random orders of the worlds.

    The SHA-256 is that of the gradients of q, v, u, masses, frictions, sizes and gravity of the
    first 30 worlds. Where some solves do not finish, they stand in lanes beside some that did.
    """
    print("seed 3")
    rng, steps = np.random.default_rng(3), 8
    model, q, v, u = worlds(name)
    hashes: dict[str, tuple[int, int]] = {}
    for threads in THREADS:
        sim = fb.Simulator(model, dtype=dtype, threads=threads, **SOLVES[solve])
        status = sim.rollout(q[:30], v[:30], u[:30, :steps], steps=steps).status
        unfinished = (status & np.uint32(fb.Status.UNCONVERGED)) != 0
        assert unfinished.any() or solve != "unfinished"
        for size in SIZES[:-1]:
            order = rng.permutation(max(size, 30))
            found = [a[:30] for a in gradients_in_batches(sim, name, order, size, steps)]
            digest = hashlib.sha256(b"".join(array.tobytes() for array in found)).hexdigest()
            hashes.setdefault(digest, (threads, size))
            assert all(np.any(array != 0) for array in found if array.size)
    print(f"threads and batch size at which each hash was first seen: {hashes}")
    assert len(hashes) == 1


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_one_world_equals_a_batch_of_one(dtype: str) -> None:
    """Give one world the same bits alone, as a batch of one, step by step and among others."""
    for name in ("laikago", "pile"):
        model, q, v, u = worlds(name)
        sim = fb.Simulator(model, dtype=dtype)
        batch = sim.rollout(q[:9], v[:9], u[:9], steps=STEPS)
        alone = sim.rollout(q[4], v[4], u[4], steps=STEPS)
        single = sim.rollout(q[4:5], v[4:5], u[4:5], steps=STEPS)
        x, y = q[4].astype(dtype), v[4].astype(dtype)
        for k in range(STEPS):
            x, y = sim.step(x, y, u[4, k].astype(dtype) if model.nu else None)
            assert np.array_equal(x, alone.q[k + 1])
        assert np.array_equal(y, alone.v[-1])
        assert np.array_equal(alone.q, batch.q[4])
        assert np.array_equal(alone.q, single.q[0])


@pytest.mark.parametrize("law", ["hard", "mujoco"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_equal_states_have_equal_bits(dtype: str, law: Any) -> None:
    """Give plus zero for what vanishes in a state, whatever the signs of zeros before."""
    model = fb.load(
        '<mujoco><option gravity="0 0 0"/><worldbody><body><joint type="ball"/>'
        '<geom size="0.1" mass="1"/></body></worldbody></mujoco>'
    )
    signs = np.array(list(product((0.0, -0.0), repeat=4)))
    turns = np.concatenate([np.where(np.eye(4)[k] > 0, 1.0, signs) for k in range(4)])
    rates = np.array(list(product((0.0, -0.0, 1.0), repeat=3)))
    q, v = (np.array(x) for x in zip(*product(turns, rates), strict=True))
    sim = fb.Simulator(model, dtype=dtype, contact=law)
    roll, plus = sim.rollout(q, v, steps=1), sim.rollout(q + 0.0, v + 0.0, steps=1)
    for name in ("q", "v"):
        after, same = getattr(roll, name)[:, 1], getattr(plus, name)[:, 1]
        assert not np.signbit(after[after == 0]).any()
        assert after.tobytes() == same.tobytes()


def test_parameters_per_world_equal_shared_ones() -> None:
    """Give the same bits for a parameter given once, per world, or to the Simulator."""
    model, q, v, u = worlds("laikago")
    mass = 1.1 * model.params["body_mass"]
    sim = fb.Simulator(model)
    shared = sim.rollout(q[:5], v[:5], u[:5], params={"body_mass": mass})
    each = sim.rollout(q[:5], v[:5], u[:5], params={"body_mass": np.tile(mass, (5, 1))})
    own = fb.Simulator(model, params={"body_mass": mass}).rollout(q[:5], v[:5], u[:5])
    plain = sim.rollout(q[:5], v[:5], u[:5])
    assert np.array_equal(shared.q, each.q)
    assert np.array_equal(shared.q, own.q)
    assert not np.array_equal(shared.q, plain.q)


def test_parameters_of_one_world_stay_there() -> None:
    """Change one world's parameters: the bits of the others stay as they were."""
    model, q, v, u = worlds("laikago")
    sim = fb.Simulator(model)
    mass = np.tile(model.params["body_mass"], (9, 1))
    before = sim.rollout(q[:9], v[:9], u[:9], params={"body_mass": mass})
    mass[3] *= 1.5
    after = sim.rollout(q[:9], v[:9], u[:9], params={"body_mass": mass})
    others = np.arange(9) != 3
    assert np.array_equal(before.q[others], after.q[others])
    assert not np.array_equal(before.q[3], after.q[3])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_save_and_restore_is_exact(dtype: str) -> None:
    """Continue from a saved state bit for bit, in a fresh Simulator, at 100 random moments.

    There is no hidden state: q, v and u say everything.
    """
    print("seed 2")
    rng = np.random.default_rng(2)
    for name in ("laikago", "pile"):
        model, q, v, u = worlds(name)
        whole = fb.Simulator(model, dtype=dtype).rollout(q[:50], v[:50], u[:50], steps=STEPS)
        fresh = fb.Simulator(model, dtype=dtype, threads=2)
        for _ in range(50):
            world, at = int(rng.integers(50)), int(rng.integers(1, STEPS))
            saved = whole.q[world, at].tobytes(), whole.v[world, at].tobytes()
            x, y = (np.frombuffer(s, dtype) for s in saved)
            rest = fresh.rollout(x, y, u[world, at:], steps=STEPS - at)
            assert np.array_equal(rest.q, whole.q[world, at:])
            assert np.array_equal(rest.v, whole.v[world, at:])


def test_outputs_do_not_depend_on_the_batch() -> None:
    """Give dynamics outputs and contacts the same bits for one world and in a batch."""
    for name in ("laikago", "pile"):
        model, q, v, u = worlds(name)
        sim = fb.Simulator(model)
        tau = v[:11].copy()
        controls = u[:11, 0] if model.nu else None
        batch = (
            sim.mass_matrix(q[:11]),
            sim.bias(q[:11], v[:11]),
            sim.forward_dynamics(q[:11], v[:11], tau),
            sim.inverse_dynamics(q[:11], v[:11], tau),
            sim.site_positions(q[:11]),
            sim.body_poses(q[:11])[1],
            sim.contacts(q[:11], v[:11], controls).force,
        )
        for k in (0, 3, 10):
            one = (
                sim.mass_matrix(q[k]),
                sim.bias(q[k], v[k]),
                sim.forward_dynamics(q[k], v[k], tau[k]),
                sim.inverse_dynamics(q[k], v[k], tau[k]),
                sim.site_positions(q[k]),
                sim.body_poses(q[k])[1],
                sim.contacts(q[k], v[k], u[k, 0] if model.nu else None).force,
            )
            for a, b in zip(batch, one, strict=True):
                assert np.array_equal(a[k], b)


def test_float32_follows_float64() -> None:
    """Stay within 1e-4 of float64 while the robot drops 5 cm and lands, 100 steps.

    float32's solve has a tolerance of 1e-4 of the velocities and a regularisation of 1e-4; what
    they leave in a step is h times that, and the servos pull it back.
    """
    model = fb.models.laikago()
    q, v = model.keyframe("stand")
    u = model.mujoco.key_ctrl[0]
    start = q + np.eye(model.nq)[2] * 0.05
    wide = fb.Simulator(model).rollout(start, v, u, steps=100)
    narrow = fb.Simulator(model, dtype="float32").rollout(start, v, u, steps=100)
    error = np.abs(wide.q - narrow.q).max()
    print(f"float32 apart by {error:.1e}")
    assert narrow.q.dtype == narrow.v.dtype == np.float32
    assert error <= 1e-4
