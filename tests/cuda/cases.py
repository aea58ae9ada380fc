"""What must hold on a GPU, for any device that `featherback.sim.cuda` can open."""

from __future__ import annotations

from typing import Any

import numpy as np

import featherback as fb
from featherback.sim import cuda_arrays
from featherback.sim.bridge import bridge_of
from featherback.sim.cuda import CudaEngine
from featherback.sim.status import WorldStatus
from tests.property.random_models import random_contact_scene, random_state

SMALL = {"max_contacts": 8, "max_sweeps": 30}


def engine_of(sim: fb.Simulator) -> CudaEngine:
    """Return the engine of a simulator on a GPU."""
    engine: Any = bridge_of(sim).engine
    assert isinstance(engine, CudaEngine)
    return engine


def laikago(worlds: int, steps: int) -> tuple[fb.Model, Any, Any, Any]:
    """Return the robot, states and controls under which its feet touch the ground."""
    model = fb.models.laikago()
    q, _ = model.keyframe("stand")
    rng = np.random.default_rng(5)
    v = 0.1 * rng.normal(size=(worlds, model.nv))
    return model, np.tile(q, (worlds, 1)), v, q[7:] + 0.2 * rng.normal(size=(worlds, steps, 12))


def difference(a: Any, b: Any) -> float:
    """Return the largest difference, as a share of the largest number of b."""
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-300)) if np.size(b) else 0.0


def gradient_difference(a: fb.Rollout, b: fb.Rollout, seed: int = 0) -> float:
    """Return the largest relative difference of the gradients of a random loss on two rollouts."""
    rng = np.random.default_rng(seed)
    bars = rng.normal(size=b.q.shape), rng.normal(size=b.v.shape)
    got, want = a.vjp(*bars), b.vjp(*bars)
    worst = max(difference(getattr(got, name), getattr(want, name)) for name in ("q", "v", "u"))
    names = want.params or {}
    return max([worst, *(difference(got.params[name], want.params[name]) for name in names)])


def check_laikago(tolerance: float) -> None:
    """Compare rollout and gradient with the processor's, for every kind of parameters."""
    model, q, v, u = laikago(40, 30)
    cpu, gpu = fb.Simulator(model, **SMALL), fb.Simulator(model, device="cuda", **SMALL)
    mass = model.structure.params["body_mass"]
    own = {"body_mass": np.stack([mass * (1 + 0.01 * i) for i in range(len(q))])}
    for params in (None, {"body_mass": 1.1 * mass}, own):
        a, b = (sim.rollout(q, v, u, params=params) for sim in (gpu, cpu))
        assert difference(a.q, b.q) <= tolerance
        assert np.array_equal(a.status, b.status)
        assert np.array_equal(a.sweeps, b.sweeps)
        assert gradient_difference(a, b) <= tolerance


def check_random_scenes(count: int, tolerance: float, **options: Any) -> list[float]:
    """Compare rollouts and gradients in random scenes with contacts; return the differences."""
    found: list[float] = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        model = fb.load(random_contact_scene(rng), on_unsupported="drop")
        cpu, gpu = fb.Simulator(model, **options), fb.Simulator(model, device="cuda", **options)
        starts = [random_state(model, rng, spread=0.1) for _ in range(3)]
        q, v = (np.stack(part) for part in zip(*starts, strict=True))
        u = rng.normal(size=(3, 20, model.nu))
        a, b = (sim.rollout(q, v, u) for sim in (gpu, cpu))
        assert np.array_equal(a.status, b.status)
        found.append(difference(a.q, b.q))
        if not b.status.any():
            found[-1] = max(found[-1], gradient_difference(a, b))
        print(f"seed {seed}: {found[-1]:.1e}")
    assert max(found) <= tolerance
    return found


def check_bits() -> None:
    """Give the same bits for any number of worlds, place among them and size of blocks."""
    model, q, v, u = laikago(70, 8)
    sim = fb.Simulator(model, device="cuda", **SMALL)
    rolls = []
    for block, order in ((None, np.arange(70)), (32, np.arange(70)[::-1]), (96, np.arange(40, 51))):
        engine_of(sim).block = block
        roll = sim.rollout(q[order], v[order], u[order])
        gradient = roll.vjp(np.ones_like(roll.q), np.ones_like(roll.v))
        rolls.append((order, roll.q, gradient.u, gradient.v))
    _, *first = rolls[0]
    for order, *other in rolls[1:]:
        for a, b in zip(first, other, strict=True):
            assert np.array_equal(a[order], b)


def check_bad_worlds() -> None:
    """Leave all other worlds as they are where some leave the finite numbers."""
    model, q, v, u = laikago(64, 10)
    sim = fb.Simulator(model, device="cuda", **SMALL)
    good = sim.rollout(q, v, u)
    worse = v.copy()
    worse[[3, 40]] = 1e200
    bad = sim.rollout(q, worse, u)
    rest = np.setdiff1d(np.arange(64), [3, 40])
    assert np.array_equal(good.q[rest], bad.q[rest])
    assert np.all(bad.status[[3, 40]] & int(fb.Status.NONFINITE))
    assert not bad.status[rest].any()


def check_pieces(device: Any, free: int) -> None:
    """Give the same bits where the worlds are run in pieces for want of memory."""
    model, q, v, u = laikago(30, 6)
    sim = fb.Simulator(model, device="cuda", **SMALL)
    whole = sim.rollout(q, v, u)
    gradient = whole.vjp(np.ones_like(whole.q), np.ones_like(whole.v))
    engine_of(sim).close_arrays()
    before, device.free_bytes = device.free_bytes, lambda: free
    try:
        pieces = sim.rollout(q, v, u)
        again = pieces.vjp(np.ones_like(pieces.q), np.ones_like(pieces.v))
    finally:
        device.free_bytes = before
    assert np.array_equal(whole.q, pieces.q)
    assert np.array_equal(gradient.u, again.u)


def check_single_world() -> None:
    """Step, differentiate and checkpoint one world as the processor does."""
    model, q, v, u = laikago(1, 12)
    cpu, gpu = fb.Simulator(model, **SMALL), fb.Simulator(model, device="cuda", **SMALL)
    for a, b in zip(gpu.step(q[0], v[0], u[0, 0]), cpu.step(q[0], v[0], u[0, 0]), strict=True):
        assert difference(a, b) < 1e-9
    a, b = (sim.rollout(q[0], v[0], u[0], checkpoint=5) for sim in (gpu, cpu))
    ones = np.ones(model.nq), np.ones(model.nv)
    assert difference(a.vjp(*ones).u, b.vjp(*ones).u) < 1e-9
    assert gpu.contacts(q[0], v[0], u[0, 0]).count == cpu.contacts(q[0], v[0], u[0, 0]).count


class OnDevice:
    """An array of NumPy that says it lies on a GPU, as it does where the processor is the GPU."""

    def __init__(self, array: Any) -> None:
        """Hold the array."""
        self.array, self.shape = array, array.shape

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Return where it lies."""
        return dict(self.array.__array_interface__)


class Speaks:
    """An array of NumPy that speaks DLPack and nothing else."""

    def __init__(self, array: Any, device: tuple[int, int] = (1, 0)) -> None:
        """Hold the array."""
        self.array, self.shape, self.device = array, array.shape, device

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return where it says it lies."""
        return self.device

    def __dlpack__(self, **given: Any) -> Any:
        """Return a capsule of NumPy's."""
        return self.array.__dlpack__()


def check_device_arrays(on: Any = OnDevice) -> None:
    """Roll out and differentiate arrays of the device in place, with the bits of NumPy's."""
    model, q, v, u = laikago(20, 6)
    sim = fb.Simulator(model, device="cuda", **SMALL)
    x = np.full((20, 7, cuda_arrays.state_size(sim)), np.nan)
    x[:, 0] = np.concatenate([q, v], axis=1)
    states, controls = on(x), on(u)
    assert not cuda_arrays.rollout(sim, states, controls).any()
    want = sim.rollout(q, v, u)
    assert np.array_equal(x[:, :, : model.nq], want.q)
    cot = np.zeros_like(x)
    cot[:, 3], x_bar, u_bar = 2.0, np.ones_like(x[:, 0]), np.full_like(u, np.nan)
    cuda_arrays.vjp(sim, states, controls, on(x_bar), on(u_bar), on(cot))
    cot[:, -1] = 1.0
    gradient = want.vjp(cot[:, :, : model.nq], cot[:, :, model.nq :])
    assert np.array_equal(u_bar, gradient.u)
    assert np.array_equal(x_bar[:, model.nq :], gradient.v)


def check_jvp(tolerance: float) -> None:
    """Compare directional derivatives with the processor's, along parameters too."""
    model, q, v, u = laikago(6, 5)
    cpu, gpu = fb.Simulator(model, **SMALL), fb.Simulator(model, device="cuda", **SMALL)
    rng = np.random.default_rng(2)
    along = rng.normal(size=q.shape), rng.normal(size=v.shape), rng.normal(size=u[:, 0].shape)
    mass = {"body_mass": model.structure.params["body_mass"]}
    for dparams in (None, mass):
        given = dict(params=mass, dparams=dparams)
        a, b = (sim.jvp(q, v, u[:, 0], *along, **given) for sim in (gpu, cpu))
        assert max(difference(*pair) for pair in zip(a, b, strict=True)) <= tolerance


def check_several(worlds: int, other: Any = "cuda:0,1") -> None:
    """Give the bits of one GPU where several share the worlds."""
    model, q, v, u = laikago(worlds, 4)
    one, two = (fb.Simulator(model, device=device, **SMALL) for device in ("cuda", other))
    told: list[int] = []
    mass = model.structure.params["body_mass"]
    own = {"body_mass": np.stack([mass * (1 + 0.01 * i) for i in range(worlds)])}
    for params, controls in ((None, u), ({"body_mass": 1.1 * mass}, u[0]), (own, u)):
        rolls = [sim.rollout(q, v, controls, params=params) for sim in (one, two)]
        for name in ("q", "v", "status", "sweeps", "residual"):
            assert np.array_equal(*(getattr(roll, name) for roll in rolls))
        bars = np.ones_like(rolls[0].q), np.ones_like(rolls[0].v)
        gradients = [roll.vjp(*bars) for roll in rolls]
        for name in ("q", "v", "u"):
            assert np.array_equal(*(getattr(g, name) for g in gradients))
        for name in params or ():
            assert np.array_equal(*(g.params[name] for g in gradients))
        A, B = (sim.linearize(q, v, u[:, 0], params=params) for sim in (one, two))
        assert all(np.array_equal(a, b) for a, b in zip(A, B, strict=True))
        found = [sim.contacts(q, v, u[:, 0], params=params) for sim in (one, two)]
        assert np.array_equal(found[0].force, found[1].force)
        assert np.array_equal(*(sim.mass_matrix(q, params=params) for sim in (one, two)))
    soft = [fb.Simulator(model, device=d, contact="mujoco") for d in ("cuda", other)]
    assert np.array_equal(*(sim.contact_forces(q, v, u[:, 0]) for sim in soft))
    bar = np.ones((worlds, model.nbody, 6))
    assert np.array_equal(*(sim.contact_forces_vjp(q, v, u[:, 0], bar).q for sim in soft))
    x = np.concatenate([q, v], axis=1)[:, None].repeat(5, axis=1)
    bridge_of(two).rollout(x, u, None, WorldStatus.ok(worlds), steps=4, progress=told.append)
    assert told[-1] == 4
