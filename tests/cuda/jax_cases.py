"""What must hold for JAX's arrays on the simulator's device, whichever that is."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import featherback as fb
import featherback.jax as fbj
from featherback.sim.bridge import bridge_of
from tests.core.models import activation_model
from tests.cuda.cases import SMALL, difference, laikago

WARM = {"max_contacts": 8, "contact": "mujoco", "warmstart": 1}
# of what is summed over the worlds, in another order than the processor's
SUMMED = 1e-11


def device_of(sim: fb.Simulator) -> Any:
    """Return JAX's device of a simulator."""
    kind, _, number = bridge_of(sim).place.partition(":")
    return jax.devices(kind)[int(number or 0)]


def simulators(worlds: int, steps: int) -> tuple[Any, Any, list[Any]]:
    """Return simulators on the device and on the processor, and q, v, u."""
    model, q, v, u = laikago(worlds, steps)
    return fb.Simulator(model, device="cuda", **SMALL), fb.Simulator(model, **SMALL), [q, v, u]


def run(sim: fb.Simulator, call: Callable[..., Any], *args: Any, compiled: bool = True) -> Any:
    """Return what a function of a simulator and arrays gives on the simulator's device."""
    own = jax.device_put(args, device_of(sim))
    bound = partial(call, sim)
    found = (jax.jit(bound) if compiled else bound)(*own)
    for x in jax.tree.leaves(found):
        assert x.devices() == {device_of(sim)}
    return jax.tree.map(np.asarray, found)


def compare(
    sims: Any, call: Callable[..., Any], args: Any, tolerance: float, compiled: bool = True
) -> None:
    """Compare what a function gives on the device and on the processor, array by array."""
    found = [jax.tree.leaves(run(sim, call, *args, compiled=compiled)) for sim in sims]
    for a, b in zip(*found, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        assert difference(a, b) <= tolerance


def loss(x: Any, seed: int = 3) -> Any:
    """Return a random linear function of an array."""
    weights = np.random.default_rng(seed).normal(size=x.shape)
    return (weights.astype(x.dtype) * x).sum()


def masses(sim: fb.Simulator, worlds: int | None) -> Any:
    """Return masses for all worlds, or each its own."""
    mass = np.array(sim.params["body_mass"])
    return mass if worlds is None else mass * (1 + 0.01 * np.arange(worlds)[:, None])


def check_rollout(tolerance: float) -> None:
    """Give the bits of NumPy's calls, and the processor's gradients of all kinds of parameters."""
    gpu, cpu, (q, v, u) = simulators(5, 4)
    bars = [np.random.default_rng(i).normal(size=(5, 5, n)) for i, n in ((3, 19), (4, 18))]
    for worlds in (None, 5):
        mass = masses(cpu, worlds)

        def roll(sim: Any, q: Any, v: Any, u: Any, mass: Any) -> Any:
            return fbj.rollout(sim, q, v, u, {"body_mass": mass})

        def total(*args: Any) -> Any:
            got = roll(*args)
            return (bars[0] * got.q).sum() + (bars[1] * got.v).sum()

        for controls in (u, u[0]):
            args = (q, v, controls, mass)
            want = gpu.rollout(*args[:3], params={"body_mass": mass})
            got = run(gpu, roll, *args)
            assert np.array_equal(got.q, want.q) and np.array_equal(got.v, want.v)
            assert np.array_equal(got.status, want.status)
            assert np.array_equal(got.status_step, want.status_step)
            compare((gpu, cpu), roll, args, tolerance)
            gradient = want.vjp(*bars)
            found = run(gpu, jax.grad(total, argnums=(1, 2, 3, 4)), *args)
            for a, b in zip(found[:2], (gradient.q, gradient.v), strict=True):
                assert np.array_equal(a, b)
            u_bar = gradient.u if controls is u else gradient.u.sum(0)
            assert difference(found[2], u_bar) <= SUMMED
            assert difference(found[3], gradient.params["body_mass"]) <= SUMMED
            compare((gpu, cpu), jax.grad(total, argnums=(1, 2, 3, 4)), args, max(tolerance, SUMMED))


def check_one_world(tolerance: float) -> None:
    """Roll out and step a world without a world axis, compiled and not."""
    gpu, cpu, given = simulators(1, 4)
    args = [x[0] for x in given]

    def both(sim: Any, q: Any, v: Any, u: Any) -> Any:
        return fbj.rollout(sim, q, v, u), fbj.step(sim, q, v, u[0])

    def total(*args: Any) -> Any:
        roll, step = both(*args)
        return loss(roll.q) + loss(step[0], 4) + loss(step[1], 5)

    for compiled in (False, True):
        for call in (both, jax.grad(total, argnums=(1, 2, 3))):
            compare((gpu, cpu), call, args, tolerance, compiled)


def check_single_precision() -> None:
    """Give the bits of NumPy's calls in float32, with JAX's 64-bit numbers on or off."""
    model, *given = laikago(3, 4)
    sim = fb.Simulator(model, device="cuda", dtype="float32", **SMALL)
    q, v, u = (x.astype(np.float32) for x in given)
    want = sim.rollout(q, v, u)
    gradient = want.vjp(np.ones_like(want.q), np.ones_like(want.v))

    def total(sim: Any, *args: Any) -> Any:
        roll = fbj.rollout(sim, *args)
        return roll.q.sum() + roll.v.sum()

    for wide in (True, False):
        with jax.enable_x64(wide):
            assert np.array_equal(run(sim, fbj.rollout, q, v, u).q, want.q)
            bars = run(sim, jax.grad(total, argnums=(1, 2, 3)), q, v, u)
        for a, b in zip(bars, (gradient.q, gradient.v, gradient.u), strict=True):
            assert a.dtype == np.float32 and np.array_equal(a, b)


def check_parts(tolerance: float) -> None:
    """Carry activations and accelerations of a warm start, as the processor does."""
    for model, options in ((activation_model(), {}), (fb.models.laikago(), WARM)):
        sims = [fb.Simulator(model, device=place, **options) for place in ("cuda", "cpu")]
        rng = np.random.default_rng(1)
        q = np.tile(model.q0, (3, 1)) + 0.01 * rng.normal(size=(3, model.nq))
        v, u = 0.1 * rng.normal(size=(3, model.nv)), 0.1 * rng.normal(size=(3, 4, model.nu))
        act = 0.1 * rng.normal(size=(3, model.na))
        warm = 0.1 * rng.normal(size=(3, model.nv)) if options else None

        def roll(sim: Any, *args: Any, warm: Any = warm) -> Any:
            q, v, u, act = args
            given = {"act": act, "warm": warm}
            return fbj.rollout(sim, q, v, u, **given), fbj.step(sim, q, v, u[:, 0], **given)

        def total(*args: Any, roll: Any = roll) -> Any:
            rolled, (q, v, *_) = roll(*args)
            return loss(rolled.v) + loss(rolled.act, 4) + loss(q, 5) + loss(v, 6)

        compare(sims, roll, (q, v, u, act), tolerance)
        compare(sims, jax.grad(total, argnums=(1, 2, 3, 4)), (q, v, u, act), tolerance)


def check_closed_loop(tolerance: float) -> None:
    """Give the processor's gradient of a scan of steps."""
    gpu, cpu, (q, v, _) = simulators(3, 1)
    gain = 0.01 * np.random.default_rng(1).normal(size=(37, 12))

    def total(sim: Any, gain: Any, q: Any, v: Any) -> Any:
        def body(state: Any, _: Any) -> Any:
            q, v = state
            control = q[:, 7:] + jnp.concatenate([q, v], axis=1) @ gain
            return fbj.step(sim, q, v, control), None

        (q1, v1), _ = jax.lax.scan(jax.checkpoint(body), (q, v), length=5)
        return loss(q1) + loss(v1, 4)

    call = jax.value_and_grad(total, argnums=(1, 2, 3))
    compare((gpu, cpu), call, (gain, q, v), max(tolerance, SUMMED))


def check_mapped(tolerance: float) -> None:
    """Map rollouts and their gradients, over worlds, over batches of them and over none."""
    gpu, cpu, (q, v, u) = simulators(4, 3)

    def total(sim: Any, q: Any, v: Any, u: Any, mass: Any) -> Any:
        roll = fbj.rollout(sim, q, v, u, {"body_mass": mass})
        return loss(roll.q) + loss(roll.v, 4)

    def mapped(sim: Any, *args: Any) -> Any:
        return jax.vmap(jax.grad(lambda *own: total(sim, *own), argnums=(0, 1, 2, 3)))(*args)

    compare((gpu, cpu), mapped, (q, v, u, masses(cpu, 4)), max(tolerance, SUMMED))
    two = [x.reshape(2, 2, *x.shape[1:]) for x in (q, v, u)]
    compare((gpu, cpu), mapped, (*two, masses(cpu, 2)), max(tolerance, SUMMED))
    compare((gpu, cpu), mapped, [x[:0] for x in (q, v, u, masses(cpu, 4))], 0.0)

    def summed(sim: Any, q: Any, v: Any, u: Any, mass: Any) -> Any:
        run = jax.vmap(lambda q, v, u: total(sim, q, v, u, mass))
        return run(q, v, u).sum()

    compare((gpu, cpu), jax.grad(summed, argnums=4), (q, v, u, masses(cpu, None)), SUMMED)
    without_steps = jax.grad(lambda sim, q: loss(fbj.rollout(sim, q, v, steps=0).q), argnums=1)
    compare((gpu, cpu), without_steps, [q], 0.0)


def check_forward(tolerance: float) -> None:
    """Give the processor's derivatives in forward mode, and second ones."""
    gpu, cpu, (q, v, u) = simulators(2, 2)

    def last(sim: Any, u: Any, mass: Any) -> Any:
        roll = fbj.rollout(sim, q, v, u, {"body_mass": mass})
        return roll.q[:, -1], fbj.step(sim, q, v, u[:, 0], {"body_mass": mass})[1]

    def pushed(sim: Any, u: Any, mass: Any) -> Any:
        return jax.jvp(lambda *own: last(sim, *own), (u, mass), (jnp.ones_like(u), mass))

    def curved(sim: Any, u: Any, mass: Any) -> Any:
        total = lambda *own: loss(last(sim, *own)[0]) + loss(last(sim, *own)[1], 4)  # noqa: E731
        bars = jax.grad(total, argnums=(0, 1))
        return jax.jvp(bars, (u, mass), (jnp.ones_like(u), mass))

    def none(sim: Any, u: Any) -> Any:
        return jax.vmap(lambda u: curved(sim, u, masses(sim, None)))(u)

    for call in (pushed, curved):
        compare((gpu, cpu), call, (u, masses(cpu, None)), max(tolerance, SUMMED))
    compare((gpu, cpu), none, [u[None][:0]], 0.0)


def check_outputs(tolerance: float) -> None:
    """Give the processor's outputs and their gradients."""
    gpu, cpu, (q, v, _) = simulators(3, 1)

    def told(sim: Any, q: Any, v: Any, mass: Any) -> Any:
        given = {"body_mass": mass}
        return fbj.center_of_mass(sim, q, given), fbj.bias(sim, q, v, given)

    def total(*args: Any) -> Any:
        y = told(*args)
        return loss(y[0]) + loss(y[1], 4)

    for worlds in (None, 3):
        args = (q, v, masses(cpu, worlds))
        compare((gpu, cpu), told, args, tolerance)
        compare((gpu, cpu), jax.grad(total, argnums=(1, 2, 3)), args, max(tolerance, SUMMED))


def check_threads() -> None:
    """Give the same bits where compiled functions run in several threads, beside NumPy's calls."""
    gpu, _, (q, v, u) = simulators(4, 3)
    want = gpu.rollout(q, v, u)
    call = jax.jit(lambda q: fbj.rollout(gpu, q, v, u).q)
    x = jax.device_put(q, device_of(gpu))
    with ThreadPoolExecutor(4) as threads:
        found = [threads.submit(lambda: np.asarray(call(x))) for _ in range(8)]
        assert np.array_equal(gpu.rollout(q, v, u).q, want.q)
        for one in found:
            assert np.array_equal(one.result(), want.q)


def check_life() -> None:
    """Keep the engine that a compiled function needs."""
    gpu, _, (q, v, u) = simulators(2, 2)
    want = gpu.rollout(q, v, u).q
    x, sim = jax.device_put(q, device_of(gpu)), [gpu]
    call = jax.jit(lambda q: fbj.rollout(sim[0], q, v, u).q).lower(x).compile()
    sim.clear()
    del gpu
    assert np.array_equal(np.asarray(call(x)), want)


def sentence(call: Callable[[], Any]) -> str:
    """Return the sentence of a compiled function that fails, without what JAX puts around it."""
    with pytest.raises((jax.errors.JaxRuntimeError, ValueError)) as caught:
        jax.block_until_ready(call())
    said = re.sub(r" \[executable_name='[^']*'\]\s*$", "", str(caught.value))
    names = "INVALID_ARGUMENT|WorldError|ParameterError"
    return re.split(rf"^(?:{names}): ", said, flags=re.MULTILINE)[-1].strip()


def _bad_calls(sim: fb.Simulator, q: Any, v: Any, u: Any) -> list[Callable[[], Any]]:
    """Return compiled calls with bad cotangents, states, controls, steps and parameters."""
    nan = np.full(u.shape, 0.0)
    nan[1, 1, 0] = np.nan
    bad = masses(sim, 2)
    bad[1, 2] = -1.0

    def roll(u: Any, v: Any = v) -> Any:
        return fbj.rollout(sim, q, v, u)

    def weighed(weight: float) -> Callable[[Any], Any]:
        return lambda u: (roll(u).v[1, -1] * weight).sum()

    def with_mass(mass: Any) -> Any:
        return fbj.rollout(sim, q, v, u, {"body_mass": mass}).q

    def step_mass(mass: Any) -> Any:
        return fbj.step(sim, q, v, None, {"body_mass": mass})[0]

    def stepped(u: Any) -> Any:
        return fbj.step(sim, q, v, u[:, 1])[0].sum()

    return [
        lambda: jax.jit(jax.grad(lambda u: roll(u).q[:, 1].sum()))(u + nan),
        lambda: jax.jit(jax.grad(weighed(np.nan)))(u),
        lambda: jax.jit(jax.grad(weighed(1e308)))(u),
        lambda: jax.jit(jax.grad(stepped))(u + nan),
        lambda: jax.jit(jax.grad(lambda v: roll(u, v).q[:, 0].sum()))(v * np.array([[1], [1e200]])),
        lambda: jax.jit(with_mass)(bad),
        lambda: jax.jit(step_mass)(bad[1]),
        lambda: jax.jvp(jax.jit(roll), (u,), (nan,))[1].q,
    ]


def check_refusals() -> None:
    """Say what is wrong with parameters and gradients as the processor does, and go on."""
    gpu, cpu, given = simulators(2, 3)
    sentences: list[list[str]] = []
    for sim in (gpu, cpu):
        with jax.default_device(device_of(sim)):
            sentences.append([sentence(call) for call in _bad_calls(sim, *given)])
    for one, other in zip(*sentences, strict=True):
        print(one)
        assert one == other


def check_status() -> None:
    """Mark a world that goes wrong, and leave the others as they are."""
    gpu, _, (q, v, u) = simulators(3, 4)
    worse = v.copy()
    worse[1] = 1e200
    good, bad = (run(gpu, fbj.rollout, q, start, u) for start in (v, worse))
    assert bad.status[1] & int(fb.Status.NONFINITE)
    assert not bad.status[[0, 2]].any() and not good.status.any()
    assert np.array_equal(bad.q[[0, 2]], good.q[[0, 2]])
    assert bad.status_step[1] >= 0 and bad.status_step[0] == -1


def check_order(count: int) -> None:
    """Wait for what XLA computes before a call, and be waited for."""
    gpu, _, (q, v, u) = simulators(16, 3)
    want = gpu.rollout(q, v, u)

    def late(sim: Any, q: Any, v: Any, u: Any) -> Any:
        # a long matter that ends with a number that is known to be zero only then
        x = jax.lax.fori_loop(0, count, lambda _, x: jnp.sin(x @ x), jnp.ones((512, 512)))
        zero = jnp.where(jnp.isfinite(x).all(), 0.0, 1.0)
        roll = fbj.rollout(sim, q + zero, v + zero, u + zero)
        return roll.q + zero, roll.v[:, -1].sum()

    for _ in range(3):
        found = run(gpu, late, q, v, u)
        assert np.array_equal(found[0], want.q)
        assert abs(found[1] - want.v[:, -1].sum()) <= 1e-9 * np.abs(want.v[:, -1]).sum()
