"""What the JAX bridge refuses, each with its sentence; threads and lifetimes."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import featherback as fb
from featherback.errors import ParameterError, ShapeError
from featherback.sim.status import SENTENCES, Status
from tests.jax.helpers import draw, jax, laikago, tree_model

jnp: Any = jax.numpy
fbj = pytest.importorskip("featherback.jax")


def pendulum(**options: Any) -> fb.Simulator:
    """Return a simulator of a double pendulum."""
    return fb.Simulator(fb.models.pendulum(2), **options)


Z = np.zeros(2)
WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "length of q": (
        lambda sim: fbj.step(sim, np.zeros(3), Z),
        ShapeError,
        'step(): q has shape (3,); expected (2,) or (worlds, 2) for model "pendulum".',
    ),
    "rank of v": (
        lambda sim: fbj.rollout(sim, Z, np.zeros((1, 1, 2)), steps=3),
        ShapeError,
        'rollout(): v has shape (1, 1, 2); expected (2,) or (worlds, 2) for model "pendulum".',
    ),
    "a scalar": (
        lambda sim: fbj.step(sim, 0.0, Z),
        ShapeError,
        'step(): q has shape (1,); expected (2,) or (worlds, 2) for model "pendulum".',
    ),
    "worlds": (
        lambda sim: fbj.step(sim, np.zeros((3, 2)), np.zeros((4, 2))),
        ShapeError,
        "step(): q has 3 worlds and v has 4; they must agree.",
    ),
    "worlds of controls": (
        lambda sim: fbj.rollout(sim, np.zeros((3, 2)), Z, np.zeros((2, 5, 2))),
        ShapeError,
        "rollout(): q has 3 worlds and u has 2; they must agree.",
    ),
    "shape of controls": (
        lambda sim: fbj.rollout(sim, Z, Z, np.zeros((5, 3))),
        ShapeError,
        "rollout(): u has shape (5, 3); expected (steps, 2), (worlds, steps, 2) or, with steps=, "
        '(2,) for model "pendulum".',
    ),
    "no steps": (
        lambda sim: fbj.rollout(sim, Z, Z),
        ShapeError,
        "rollout(): neither u nor steps is given; pass one of them.",
    ),
    "steps below zero": (
        lambda sim: fbj.rollout(sim, Z, Z, steps=-1),
        ShapeError,
        "rollout(): steps is -1; it must be an integer from 0 to 2147483647.",
    ),
    "two numbers of steps": (
        lambda sim: fbj.rollout(sim, Z, Z, np.zeros((5, 2)), steps=4),
        ShapeError,
        "rollout(): u has 5 steps and steps is 4.",
    ),
    "nothing": (
        lambda sim: fbj.step(sim, None, Z),
        ShapeError,
        "step(): q is None; expected real numbers (float64).",
    ),
    "words": (
        lambda sim: fbj.step(sim, np.array(["a", "b"]), Z),
        ShapeError,
        "step(): q has dtype <U1; expected real numbers (float64).",
    ),
    "float32 arrays": (
        lambda sim: fbj.step(sim, jnp.zeros(2, "float32"), Z),
        ShapeError,
        "step(): q has dtype float32 and the Simulator is float64; convert it with "
        'astype("float64"), or make the Simulator with dtype="float32".',
    ),
    "complex arrays": (
        lambda sim: fbj.step(sim, Z, jnp.zeros(2, complex)),
        ShapeError,
        "step(): v has dtype complex128; expected real numbers (float64).",
    ),
    "half precision": (
        lambda sim: fbj.step(sim, jnp.zeros(2, "float16"), Z),
        ShapeError,
        "step(): q has dtype float16 and the Simulator is float64; convert it with "
        'astype("float64").',
    ),
    "not a simulator": (
        lambda sim: fbj.step(sim.model, Z, Z),
        ParameterError,
        "step(): sim is of type Model; pass a featherback.Simulator.",
    ),
    "parameters without names": (
        lambda sim: fbj.step(sim, Z, Z, params=[1.0]),
        ParameterError,
        "step(): params is of type list; it must be a dict from parameter names to arrays, such as "
        '{"body_mass": mass}.',
    ),
    "unknown parameter": (
        lambda sim: fbj.step(sim, Z, Z, params={"body_mas": 1.0}),
        ParameterError,
        'step(): unknown parameter "body_mas"; did you mean body_mass, body_pos, body_quat?',
    ),
    "shape of a parameter": (
        lambda sim: fbj.step(sim, np.zeros((4, 2)), Z, params={"body_mass": np.ones((5, 3))}),
        ShapeError,
        'step(): params["body_mass"] has shape (5, 3); expected (3,) or (4, 3).',
    ),
    "parameter per world without worlds": (
        lambda sim: fbj.step(sim, Z, Z, params={"body_mass": np.ones((5, 3))}),
        ShapeError,
        'step(): params["body_mass"] has shape (5, 3); expected (3,).',
    ),
    "negative mass": (
        lambda sim: fbj.step(sim, Z, Z, params={"body_mass": np.array([0.0, -1.0, 1.0])}),
        ParameterError,
        'step(): params["body_mass"] holds -1 kg; it must be >= 0.',
    ),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("case", WRONG)
def test_wrong_inputs_have_their_sentence(case: str, compiled: bool) -> None:
    """Refuse wrong inputs when the function is called or traced."""
    sim = pendulum()
    call, kind, sentence = WRONG[case]
    run = jax.jit(lambda: call(sim)) if compiled else (lambda: call(sim))
    with pytest.raises(kind) as caught:
        run()
    assert str(caught.value) == sentence


def test_double_precision_must_be_on() -> None:
    """Refuse a float64 Simulator where JAX computes in float32; float32 works there."""
    with jax.enable_x64(False):
        with pytest.raises(ParameterError) as caught:
            fbj.step(pendulum(), Z, Z)
        assert str(caught.value) == (
            "step(): the Simulator is float64 and JAX has 64-bit numbers switched off; call "
            'jax.config.update("jax_enable_x64", True) first, or make the Simulator with '
            'dtype="float32".'
        )
        sim = pendulum(dtype="float32")
        q1, _ = jax.jit(lambda q: fbj.step(sim, q, q))(jnp.ones(2))
        assert q1.dtype == np.float32
        assert np.array_equal(q1, sim.step(np.ones(2), np.ones(2))[0])
        assert jax.grad(lambda q: fbj.step(sim, q, q)[1].sum())(jnp.ones(2)).dtype == np.float32


@pytest.mark.parametrize("compiled", [False, True])
def test_rollouts_that_cannot_fit_are_refused(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refuse a rollout whose controls or states take more memory than is free."""
    monkeypatch.setattr("featherback.sim.memory.available", lambda: 10**6)
    # JAX may add a note after the sentence
    free = r"1 MB of memory are free; take fewer steps or worlds\.(\n|$)"

    def roll(sim: fb.Simulator, q: Any, v: Any, u: Any) -> Any:
        run = lambda q: fbj.rollout(sim, q, v, u, steps=10**9)  # noqa: E731
        return jax.jit(run)(q) if compiled else run(q)

    for u in (None, Z):
        told = rf"^rollout\(\): the controls take 16 GB and {free}"
        with pytest.raises(MemoryError, match=told):
            roll(pendulum(), Z, Z, u)
    ball = fb.Simulator(fb.models.ball())
    told = rf"^rollout\(\): the states take 104 GB and {free}"
    with pytest.raises(MemoryError, match=told):
        roll(ball, np.array(ball.model.q0), np.zeros(6), None)


def fails(run: Any) -> str:
    """Run a compiled function that fails and return the sentence without XLA's prefix."""
    # the first call of a compiled function and later ones raise errors of different kinds
    with pytest.raises((jax.errors.JaxRuntimeError, ValueError)) as caught:
        jax.block_until_ready(run())
    text = str(caught.value)
    assert text.startswith("INVALID_ARGUMENT: ")
    return text.removeprefix("INVALID_ARGUMENT: ")


def test_traced_parameters_are_checked_when_they_run() -> None:
    """Refuse values without meaning that only the compiled function sees."""
    sim = pendulum()

    def run(name: str) -> Any:
        step = jax.jit(lambda x: fbj.step(sim, np.zeros((2, 2)), Z, params={name: x}))
        roll = jax.jit(lambda x: fbj.rollout(sim, Z, Z, steps=2, params={name: x}))
        return step, roll

    step, roll = run("body_mass")
    assert fails(lambda: step(np.array([0.0, -1.5, 1.0]))) == (
        'step(): params["body_mass"] holds -1.5 kg; it must be >= 0.'
    )
    assert fails(lambda: roll(np.array([0.0, np.nan, 1.0]))) == (
        'rollout(): params["body_mass"] holds a NaN or infinity; give finite numbers.'
    )
    assert fails(lambda: step(np.array([[0.0, 1.0, 1.0], [0.0, 1.0, -2.0]]))) == (
        'step(): params["body_mass"] holds -2 kg; it must be >= 0.'
    )
    step, roll = run("dt")
    assert fails(lambda: roll(0.0)) == 'rollout(): params["dt"] is 0 s; it must be > 0.'
    step, roll = run("dof_frictionloss")
    assert fails(lambda: step(np.array([0.0, 0.1]))) == (
        'step(): params["dof_frictionloss"][1] is > 0, but the model was loaded with none there, '
        "so it has no friction row; give it a small frictionloss in the file."
    )
    step, roll = run("geom_restitution")
    assert fails(lambda: step(np.full(sim.params["geom_restitution"].shape, 1.25))) == (
        'step(): params["geom_restitution"] holds 1.25; it must be from 0 to 1.'
    )


LIMITED = """
<mujoco>
  <worldbody>
    <body name="free"><freejoint/><geom size="0.1" pos="0.1 0 0"/></body>
    <body name="arm">
      <joint name="a" range="-1 1" limited="true" actuatorfrcrange="-9 9"/>
      <geom type="box" size="0.1 0.2 0.3"/>
      <site name="tip"/>
    </body>
  </worldbody>
  <actuator>
    <motor joint="a" ctrlrange="-2 2" ctrllimited="true" forcerange="-3 3" forcelimited="true"/>
  </actuator>
</mujoco>
"""
ENDS = "the lower end must not lie above the upper."
QUATERNION = "is zero; a quaternion must have a length > 0."


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("name", "index", "value", "sentence"),
    [
        ("body_quat", 1, 0.0, f'params["body_quat"][1] {QUATERNION}'),
        ("body_iquat", 2, 0.0, f'params["body_iquat"][2] {QUATERNION}'),
        ("geom_quat", 1, 0.0, f'params["geom_quat"][1] {QUATERNION}'),
        ("site_quat", 0, 0.0, f'params["site_quat"][0] {QUATERNION}'),
        ("jnt_axis", 1, 0.0, 'params["jnt_axis"][1] is zero; an axis must have a length > 0.'),
        ("jnt_range", (1, 0), 5.0, f'params["jnt_range"][1] is from 5 to 0.0174533; {ENDS}'),
        (
            "jnt_actfrcrange",
            (1, 1),
            -10.0,
            f'params["jnt_actfrcrange"][1] is from -9 to -10; {ENDS}',
        ),
        (
            "actuator_ctrlrange",
            (0, 0),
            3.0,
            f'params["actuator_ctrlrange"][0] is from 3 to 2; {ENDS}',
        ),
        (
            "actuator_forcerange",
            (0, 0),
            4.0,
            f'params["actuator_forcerange"][0] is from 4 to 3; {ENDS}',
        ),
        (
            "body_inertia_products",
            (2, 1),
            1e3,
            'params["body_inertia"][2] and params["body_inertia_products"][2] give body "arm"'
            "{world} an inertia with the eigenvalue -998.56 kg·m²; all must be >= 0.",
        ),
    ],
)
def test_traced_parameters_must_go_together(
    name: str, index: Any, value: float, sentence: str, dtype: Any
) -> None:
    """Refuse zero quaternions, swapped ranges and odd inertias that only the function sees."""
    sim = fb.Simulator(fb.load(LIMITED), dtype=dtype)
    q, v = np.array(sim.model.q0, dtype), np.zeros(sim.model.nv, dtype)
    step = jax.jit(lambda x: fbj.step(sim, jnp.tile(q, (2, 1)), v, params={name: x}))
    output = jax.jit(lambda x: fbj.body_poses(sim, q, {name: x}))
    good = sim.params[name].astype(dtype)
    bad = good.copy()
    bad[index] = value
    assert np.isfinite(step(good)[0]).all()
    alone, second = (sentence.replace("{world}", world) for world in ("", " of world 1"))
    assert fails(lambda: step(bad)) == f"step(): {alone}"
    assert fails(lambda: step(np.stack([good, bad]))) == f"step(): {second}"
    assert fails(lambda: output(bad)) == f"featherback.jax: {alone}"
    # numbers that JAX does not trace are looked at before
    with pytest.raises(ParameterError, match=rf"^step\(\): params\[\"{name[:9]}"):
        fbj.step(sim, q, v, params={name: bad})


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


def test_nan_is_a_status_forward_and_an_error_backward() -> None:
    """Set the status of the world that is not finite, and refuse its gradient by world and step."""
    sim = pendulum()
    q, v, u = np.zeros((3, 2)), np.zeros((3, 2)), np.zeros((3, 4, 2))
    u[1, 2, 0] = np.nan
    got = jax.jit(lambda u: fbj.rollout(sim, q, v, u))(u)
    want = sim.rollout(q, v, u)
    assert np.array_equal(got.q, want.q, equal_nan=True)
    assert list(got.status) == [0, Status.NONFINITE, 0]
    assert list(got.status_step) == [-1, 2, -1]
    loss = jax.jit(jax.grad(lambda u: fbj.rollout(sim, q, v, u).q[:, 1].sum()))
    sentence = SENTENCES[Status.NONFINITE]
    head = "1 of 3 worlds are not OK; the others are unaffected.\nworld 1, first at step"
    assert fails(lambda: loss(u)) == f"vjp(): {head} 2, {sentence}"
    single = jax.grad(lambda u: fbj.step(sim, q, v, u)[0].sum())
    assert fails(lambda: single(u[:, 2])) == f"vjp(): {head} 0, {sentence}"
    start = jax.grad(lambda q: fbj.step(sim, q, v)[0].sum())
    assert fails(lambda: start(q + u[:, 2])) == f"vjp(): {head} 0, {sentence}"
    forward = jax.jit(jax.jacfwd(lambda s: fbj.rollout(sim, q, v, u + s).q))
    assert fails(lambda: forward(0.0)) == f"jvp(): {head} 2, {sentence}"
    worst = jax.grad(lambda q: fbj.step(sim, q, q)[0].sum())
    assert fails(lambda: worst(np.full((12, 2), np.nan))).splitlines()[-1] == "and 2 more worlds."


def test_directions_and_cotangents_must_be_finite() -> None:
    """Refuse cotangents and directions with a NaN, as vjp and jvp do."""
    sim = pendulum()

    def run(q: Any, v: Any, u: Any, mass: Any) -> Any:
        return fbj.rollout(sim, q, v, u, {"body_mass": mass})[:2]

    point = (Z, Z, np.zeros((3, 2)), sim.params["body_mass"])
    out, back = jax.vjp(run, *point)
    for i, name in enumerate(("q_bar", "v_bar")):
        bars = [np.zeros(x.shape) for x in out]
        bars[i][1, 1] = np.inf
        assert fails(lambda bars=bars: back(tuple(bars))) == (
            f"vjp(): {name} holds a NaN or infinity; give finite numbers, and zero where the loss "
            "does not depend on the state."
        )
    for i, name in enumerate(("dq", "dv", "du", "dparams")):
        dots = [np.zeros(x.shape) for x in point]
        dots[i].flat[0] = np.nan
        assert fails(lambda dots=dots: jax.jvp(run, point, tuple(dots))) == (
            f"jvp(): {name} holds a NaN or infinity; give finite numbers."
        )


def test_gradients_that_are_not_there_raise() -> None:
    """Refuse gradients of parameters without one, and of worlds that left contacts out."""
    model = laikago()
    sim = fb.Simulator(model)
    q, v, u = (a[0] for a in draw(model, 1, 3))
    site = sim.params["site_pos"]

    def loss(site: Any, u: Any) -> Any:
        return fbj.rollout(sim, q, v, u, {"site_pos": site}).v.sum()

    with pytest.raises(ParameterError) as caught:
        jax.grad(loss)(site, u)
    assert str(caught.value) == (
        'rollout(): params["site_pos"] has no gradient: sites do not act on the motion; '
        "differentiate with respect to other parameters only."
    )
    assert np.all(np.isfinite(jax.jit(jax.grad(loss, argnums=1))(site, u)))
    small = fb.Simulator(model, max_contacts=1)
    sentence = SENTENCES[Status.NO_GRADIENT]
    low = q - 0.2 * np.eye(len(q))[2]
    assert fails(lambda: jax.grad(lambda q: fbj.step(small, q, v)[1].sum())(low)) == (
        "vjp(): 1 of 1 worlds are not OK; the others are unaffected.\n"
        f"world 0, first at step 0, {sentence}"
    )


def test_other_platforms_have_their_sentence() -> None:
    """Refuse to be compiled for a graphics card, and say what to do."""
    sim = pendulum()
    traced = jax.jit(lambda q: fbj.step(sim, q, q)).trace(Z)
    with pytest.raises(NotImplementedError) as caught:
        traced.lower(lowering_platforms=("cuda",))
    assert str(caught.value) == (
        "featherback.jax: the computation is placed on cuda; the simulator runs on the CPU: move "
        'its inputs there with jax.device_put(x, jax.devices("cpu")[0]) or set '
        'jax.config.update("jax_platforms", "cpu").'
    )


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


def test_a_gradient_that_is_not_finite_raises() -> None:
    """Refuse a gradient that leaves the finite numbers on the way back."""
    sim = pendulum()

    def loss(q: Any) -> Any:
        return (fbj.rollout(sim, q, q, steps=20).v[-1] * 1e308).sum()

    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        jax.block_until_ready(jax.grad(loss)(np.ones(2)))
    assert (
        "vjp(): a gradient holds a NaN or infinity; give finite numbers, which the gradient left "
        "on the way back: take fewer steps, or smaller cotangents." in str(caught.value)
    )
