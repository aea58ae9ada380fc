"""What the JAX bridge refuses: class and names at fault; threads and lifetimes."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import featherback as fb
from featherback.errors import ParameterError
from featherback.sim.status import Status
from tests.golden.sentences import Case, check, refused
from tests.jax.helpers import draw, jax, laikago, tree_model
from tests.jax.refusals import (
    CASES,
    LIMITED,
    TOGETHER,
    WRONG,
    fails,
    pendulum,
    spoilt,
    too_large,
    traced_step,
)

jnp: Any = jax.numpy
fbj = pytest.importorskip("featherback.jax")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_class_and_names(case: Case) -> None:
    """Raise the exception, and name where and what is at fault."""
    check(case)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_inputs_are_refused_when_they_are_traced(name: str) -> None:
    """Refuse wrong inputs when the function is traced as when it is called."""
    sim = pendulum()
    call, error, names = WRONG[name]
    refused(lambda: jax.jit(lambda: call(sim))(), error, *names)


def test_single_precision_works_where_double_is_off() -> None:
    """Run a float32 Simulator where JAX computes in float32."""
    with jax.enable_x64(False):
        sim = pendulum(dtype="float32")
        q1, _ = jax.jit(lambda q: fbj.step(sim, q, q))(jnp.ones(2))
        assert q1.dtype == np.float32
        assert np.array_equal(q1, sim.step(np.ones(2), np.ones(2))[0])
        assert jax.grad(lambda q: fbj.step(sim, q, q)[1].sum())(jnp.ones(2)).dtype == np.float32


@pytest.mark.parametrize("model", [fb.models.pendulum(2), fb.models.ball()], ids=lambda m: m.name)
def test_compiled_rollouts_that_cannot_fit_are_refused(model: fb.Model) -> None:
    """Refuse a rollout that takes more memory than is free while it is compiled."""
    refused(lambda: too_large(model, None, True), MemoryError, "rollout()", "1 MB of memory")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("which", TOGETHER, ids=lambda which: which[0])
def test_traced_parameters_must_go_together(which: Any, dtype: Any) -> None:
    """Refuse zero quaternions, swapped ranges and odd inertias that only the function sees."""
    name, names = which[0], TOGETHER[which]
    sim = fb.Simulator(fb.load(LIMITED), dtype=dtype)
    q, v = np.array(sim.model.q0, dtype), np.zeros(sim.model.nv, dtype)
    good, bad = sim.params[name].astype(dtype), spoilt(sim, *which)
    assert np.isfinite(fbj.step(sim, q, v, params={name: good})[0]).all()
    shared, own = traced_step(name, bad, sim), traced_step(name, np.stack([good, bad]), sim)
    output = jax.jit(lambda x: fbj.body_poses(sim, q, {name: x}))
    alone = fails(lambda: output(bad))
    assert all(part in text for text in (shared, own, alone) for part in names)
    assert ("of world 1" in own) == ("inertia" in name) and "of world" not in shared
    assert alone == shared.replace("step()", "featherback.jax")
    # numbers that JAX does not trace are looked at before
    refused(lambda: fbj.step(sim, q, v, params={name: bad}), ParameterError, "step()", name[:9])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_traced_inertias_of_rods_are_taken(dtype: Any) -> None:
    """Take a matrix whose least eigenvalue is zero, to rounding, in compiled functions."""
    seed = 9
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    sim = fb.Simulator(fb.load(LIMITED), dtype=dtype)
    q, v = np.array(sim.model.q0, dtype), np.zeros(sim.model.nv, dtype)
    names = ("body_inertia", "body_inertia_products")
    step = jax.jit(lambda *x: fbj.step(sim, q, v, params=dict(zip(names, x, strict=True))))
    for size in 10 ** rng.uniform(-3, 3, 50):
        rod = rng.normal(size=3) * size
        matrix = (rod @ rod * np.eye(3) - np.outer(rod, rod)).astype(dtype)
        moments, products = (sim.params[name].astype(dtype) for name in names)
        moments[2], products[2] = np.diag(matrix), matrix[[0, 0, 1], [1, 2, 2]]
        jax.block_until_ready(step(moments, products))
        products[2] *= 1.01
        assert "an inertia with the eigenvalue -" in fails(lambda m=moments, p=products: step(m, p))


def test_nan_is_a_status_forward() -> None:
    """Set the status of the world that is not finite."""
    sim = pendulum()
    q, v, u = np.zeros((3, 2)), np.zeros((3, 2)), np.zeros((3, 4, 2))
    u[1, 2, 0] = np.nan
    got = jax.jit(lambda u: fbj.rollout(sim, q, v, u))(u)
    want = sim.rollout(q, v, u)
    assert np.array_equal(got.q, want.q, equal_nan=True)
    assert list(got.status) == [0, Status.NONFINITE, 0]
    assert list(got.status_step) == [-1, 2, -1]


def test_nan_in_a_traced_step_is_a_status() -> None:
    """Follow a NaN inside of jit, and say it in the status of a rollout of one step."""
    sim, q = pendulum(), np.array([0.0, np.nan])
    assert np.isnan(jax.jit(lambda q: fbj.step(sim, q, np.zeros(2))[0])(q)).any()
    roll = jax.jit(lambda q: fbj.rollout(sim, q, np.zeros(2), steps=1))(q)
    assert int(roll.status) == Status.NONFINITE


def test_parameters_without_a_gradient_may_be_given() -> None:
    """Take a parameter without a gradient where another input is differentiated."""
    sim = fb.Simulator(laikago())
    q, v, u = (a[0] for a in draw(sim.model, 1, 3))
    weight = sim.params["dof_invweight0"]

    def loss(u: Any) -> Any:
        return fbj.rollout(sim, q, v, u, {"dof_invweight0": weight}).v.sum()

    assert np.all(np.isfinite(jax.jit(jax.grad(loss))(u)))


def test_simulator_may_go_before_the_function() -> None:
    """Keep the engines of a compiled function alive, and no longer than it lives."""

    def compiled() -> tuple[Any, Any, Any]:
        sim = pendulum(dt=0.00371)
        run = jax.jit(lambda q: fbj.step(sim, q, q)[0]).lower(np.ones(2)).compile()
        return run, sim.step(np.ones(2), np.ones(2))[0], weakref.ref(sim)

    run, want, gone = compiled()
    jax.clear_caches()
    gc.collect()
    assert gone() is None
    assert np.array_equal(run(np.ones(2)), want)


def test_equal_simulators_share_compiled_functions() -> None:
    """Name engines by what they were built from: equal ones alike, others apart."""
    from featherback.jax.engine_pool import engines_of

    first, again = pendulum(), pendulum()
    assert engines_of(first) == engines_of(again)
    others = [pendulum(dt=0.0007), pendulum(dtype="float32"), pendulum(friction="box")]
    others += [pendulum(threads=2), fb.Simulator(fb.models.pendulum(2, mass=2.0))]
    assert len({engines_of(sim) for sim in [first, *others]}) == 6


def test_unknown_engines_have_their_sentence() -> None:
    """Refuse a function compiled for engines that are not here, and buffers that do not fit."""
    from featherback.jax.engine_pool import engines_of

    engines = engines_of(pendulum())
    x, u, none = jnp.zeros((1, engines.layout.nx)), jnp.zeros((1, 2)), jnp.zeros(0)
    out = [jax.ShapeDtypeStruct(x.shape, x.dtype)]
    out += [jax.ShapeDtypeStruct((1,), np.uint32), jax.ShapeDtypeStruct((1,), np.int32)]

    def call(key: int, x: Any, u: Any, theta: Any) -> Any:
        run = jax.ffi.ffi_call("featherback_rollout", out)
        return run(x, u, theta, key=np.int64(key), single=True)

    assert "a Simulator that is not in this process" in fails(lambda: call(12345, x, u, none))
    for wrong in (x[:, 1:], x[0], x.astype("float32"), jnp.zeros((2, 4)), jnp.zeros(())):
        told = fails(lambda wrong=wrong: call(engines.key, wrong, u, none))
        assert told.startswith("featherback.jax: array x ")
    told = fails(lambda: call(engines.key, x, u[:, 1:], none))
    assert told.startswith("featherback.jax: array u ")
    told = fails(lambda: call(engines.key, x, u, jnp.zeros(3)))
    assert told.startswith("featherback.jax: array theta ")


def test_smallest_numbers_keep_their_bits() -> None:
    """Give the bits of numbers below the normal range, which XLA's own arithmetic makes zero."""
    sim = pendulum(threads=2)
    tiny = np.full((40, 2), 3e-310)
    run = jax.jit(lambda q, v: fbj.step(sim, q, v))
    for got, want in zip(run(tiny, tiny), sim.step(tiny, tiny), strict=True):
        assert np.all(want != 0)
        assert np.array_equal(got, want)


def test_threads_and_the_simulator_itself() -> None:
    """Run one compiled function from several threads while the Simulator runs too."""
    model = tree_model()
    sim = fb.Simulator(model, threads=2)
    q, v, u = draw(model, 16, 50)
    want = sim.rollout(q, v, u)
    run = jax.jit(jax.value_and_grad(lambda u: fbj.rollout(sim, q, v, u).q.sum()))
    value, gradient = run(u)
    with ThreadPoolExecutor(4) as threads:
        waiting = [threads.submit(lambda: jax.block_until_ready(run(u))) for _ in range(12)]
        for _ in range(4):
            assert np.array_equal(sim.rollout(q, v, u).q, want.q)
        for future in waiting:
            again, other = future.result()
            assert again == value and np.array_equal(other, gradient)
