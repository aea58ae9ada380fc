"""Calls of featherback.jax that raise, each with its error and the names at fault."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import pytest

import featherback as fb
from featherback.errors import ParameterError, ShapeError
from tests.golden.sentences import Case, module_as, raises, returns
from tests.jax.helpers import draw, jax, laikago

jnp: Any = jax.numpy
fbj = pytest.importorskip("featherback.jax")
Z = np.zeros(2)


def pendulum(**options: Any) -> fb.Simulator:
    """Return a simulator of a double pendulum."""
    return fb.Simulator(fb.models.pendulum(2), **options)


def fails(run: Callable[[], Any]) -> str:
    """Run a compiled function that fails and return the sentence without XLA's prefix."""
    # the first call of a compiled function and later ones raise errors of different kinds
    with pytest.raises((jax.errors.JaxRuntimeError, ValueError)) as caught:
        jax.block_until_ready(run())
    text = str(caught.value)
    assert text.startswith("INVALID_ARGUMENT: ")
    return text.removeprefix("INVALID_ARGUMENT: ")


def last_line(code: str) -> str:
    """Run code that fails in a process of its own; return the last line of its traceback."""
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    return done.stderr.strip().splitlines()[-1]


MASS = {"body_mass": np.ones((5, 3))}
# calls of a simulator with inputs that are wrong before anything is compiled
WRONG: dict[str, tuple[Callable[[Any], Any], type[Exception], tuple[str, ...]]] = {
    "step, long q": (lambda sim: fbj.step(sim, np.zeros(3), Z), ShapeError, ("q", "(3,)", "(2,)")),
    "rollout, v of three axes": (
        lambda sim: fbj.rollout(sim, Z, np.zeros((1, 1, 2)), steps=3),
        ShapeError,
        ("v", "(1, 1, 2)"),
    ),
    "step, a number": (lambda sim: fbj.step(sim, 0.0, Z), ShapeError, ("q", "(1,)")),
    "step, worlds": (
        lambda sim: fbj.step(sim, np.zeros((3, 2)), np.zeros((4, 2))),
        ShapeError,
        ("q", "3", "v", "4"),
    ),
    "rollout, worlds of controls": (
        lambda sim: fbj.rollout(sim, np.zeros((3, 2)), Z, np.zeros((2, 5, 2))),
        ShapeError,
        ("q", "3", "u", "2"),
    ),
    "rollout, wide controls": (
        lambda sim: fbj.rollout(sim, Z, Z, np.zeros((5, 3))),
        ShapeError,
        ("u", "(5, 3)", "(steps, 2)"),
    ),
    "rollout, no steps": (lambda sim: fbj.rollout(sim, Z, Z), ShapeError, ("u", "steps")),
    "rollout, steps below zero": (
        lambda sim: fbj.rollout(sim, Z, Z, steps=-1),
        ShapeError,
        ("steps", "-1"),
    ),
    "rollout, two numbers of steps": (
        lambda sim: fbj.rollout(sim, Z, Z, np.zeros((5, 2)), steps=4),
        ShapeError,
        ("u", "5", "4"),
    ),
    "step, None": (lambda sim: fbj.step(sim, None, Z), ShapeError, ("q", "None")),
    "step, words": (
        lambda sim: fbj.step(sim, np.array(["a", "b"]), Z),
        ShapeError,
        ("q", "<U1"),
    ),
    "step, float32": (
        lambda sim: fbj.step(sim, jnp.zeros(2, "float32"), Z),
        ShapeError,
        ("q", "float32", "Simulator"),
    ),
    "step, complex numbers": (
        lambda sim: fbj.step(sim, Z, jnp.zeros(2, complex)),
        ShapeError,
        ("v", "complex128"),
    ),
    "step, controls of many worlds": (
        lambda sim: fbj.step(sim, Z, Z, np.zeros((10, 2))),
        ShapeError,
        ("u", "(10, 2)", "rollout()"),
    ),
    "step, half precision": (
        lambda sim: fbj.step(sim, jnp.zeros(2, "float16"), Z),
        ShapeError,
        ("q", "float16"),
    ),
    "step, a model for sim": (
        lambda sim: fbj.step(sim.model, Z, Z),
        ParameterError,
        ("sim", "Model"),
    ),
    "step, params without names": (
        lambda sim: fbj.step(sim, Z, Z, params=[1.0]),
        ParameterError,
        ("params", "list"),
    ),
    "step, an unknown parameter": (
        lambda sim: fbj.step(sim, Z, Z, params={"body_mas": 1.0}),
        ParameterError,
        ("body_mas", "body_mass"),
    ),
    "step, worlds of a parameter": (
        lambda sim: fbj.step(sim, np.zeros((4, 2)), Z, params=MASS),
        ShapeError,
        ('params["body_mass"]', "(5, 3)", "(4, 3)"),
    ),
    "step, a parameter with worlds": (
        lambda sim: fbj.step(sim, Z, Z, params=MASS),
        ShapeError,
        ('params["body_mass"]', "(5, 3)", "(3,)"),
    ),
    "step, a mass below zero": (
        lambda sim: fbj.step(sim, Z, Z, params={"body_mass": np.array([0.0, -1.0, 1.0])}),
        ParameterError,
        ('params["body_mass"]', "-1 kg"),
    ),
    "forward_dynamics, long tau": (
        lambda sim: fbj.forward_dynamics(sim, Z, Z, np.zeros(3)),
        ShapeError,
        ("tau", "(3,)"),
    ),
    "site_positions, a model for sim": (
        lambda sim: fbj.site_positions(sim.model, Z),
        ParameterError,
        ("sim", "Model"),
    ),
    "center_of_mass, no mass": (
        lambda sim: fbj.center_of_mass(sim, Z, {"body_mass": np.zeros(3)}),
        ParameterError,
        ("mass",),
    ),
}


def _single_precision() -> None:
    """Call a float64 Simulator where JAX computes in float32."""
    with jax.enable_x64(False):
        fbj.step(pendulum(), Z, Z)


def too_large(model: fb.Model, u: Any, compiled: bool) -> None:
    """Roll out more steps than one megabyte of memory holds."""
    sim, q, v = fb.Simulator(model), np.array(model.q0), np.zeros(model.nv)
    # JAX takes long for empty arrays of many rows
    steps = 10**9 if model.nu else 10**6
    run = lambda q: fbj.rollout(sim, q, v, u, steps=steps)  # noqa: E731
    with mock.patch("featherback.sim.memory.available", lambda: 10**6):
        (jax.jit(run) if compiled else run)(q)


def _calls() -> Iterator[Case]:
    """Calls that are refused before anything is compiled."""
    for name, (call, error, names) in WRONG.items():
        where = f"{name.partition(',')[0]}()"
        yield raises(name, error, lambda call=call: call(pendulum()), where, *names)
    names = ("Simulator", "jax_enable_x64")
    yield raises("step, 64-bit numbers are off", ParameterError, _single_precision, *names)
    call = lambda: fbj.step(pendulum(), np.array([0.0, np.nan]), Z)  # noqa: E731
    yield raises("step, NaN in q", ParameterError, call, "step()", "q[1]", "nan")
    call = lambda: fbj.step(pendulum(), Z, Z, jnp.full(2, jnp.inf))  # noqa: E731
    yield raises("step, infinity in u", ParameterError, call, "step()", "u[0]", "inf")
    for what, model, u, need in (
        ("controls", fb.models.pendulum(2), None, "16 GB"),
        ("held controls", fb.models.pendulum(2), Z, "16 GB"),
        ("states", fb.models.ball(), None, "104 MB"),
    ):
        call = partial(too_large, model, u, False)
        yield raises(f"rollout, too many {what}", MemoryError, call, "rollout()", need)


def traced_step(name: str, value: Any, sim: fb.Simulator | None = None) -> str:
    """Return what a compiled step says of a parameter that only it sees."""
    sim = pendulum() if sim is None else sim
    q, v = np.array(sim.model.q0, sim.dtype), np.zeros(sim.model.nv, sim.dtype)
    step = jax.jit(lambda x: fbj.step(sim, jnp.tile(q, (2, 1)), v, params={name: x}))
    return fails(lambda: step(value))


def traced_roll(name: str, value: Any) -> str:
    """Return what a compiled rollout says of a parameter that only it sees."""
    sim = pendulum()
    return fails(lambda: jax.jit(lambda x: fbj.rollout(sim, Z, Z, None, {name: x}, steps=2))(value))


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
# parameter, entry, value -> names in the sentence
TOGETHER: dict[tuple[str, Any, float], tuple[str, ...]] = {
    ("body_quat", 1, 0.0): ('params["body_quat"][1]', "zero"),
    ("body_iquat", 2, 0.0): ('params["body_iquat"][2]', "zero"),
    ("geom_quat", 1, 0.0): ('params["geom_quat"][1]', "zero"),
    ("site_quat", 0, 0.0): ('params["site_quat"][0]', "zero"),
    ("jnt_axis", 1, 0.0): ('params["jnt_axis"][1]', "zero"),
    ("jnt_range", (1, 0), 5.0): ('params["jnt_range"][1]', "5"),
    ("jnt_actfrcrange", (1, 1), -10.0): ('params["jnt_actfrcrange"][1]', "-10"),
    ("actuator_ctrlrange", (0, 0), 3.0): ('params["actuator_ctrlrange"][0]', "3"),
    ("actuator_forcerange", (0, 0), 4.0): ('params["actuator_forcerange"][0]', "4"),
    ("body_inertia_products", (2, 1), 1e3): ('params["body_inertia_products"][2]', '"arm"'),
}


def spoilt(sim: fb.Simulator, name: str, index: Any, value: float) -> np.ndarray:
    """Return a parameter with one entry replaced."""
    bad = sim.params[name].astype(sim.dtype)
    bad[index] = value
    return bad


def _traced() -> Iterator[Case]:
    """Values without meaning that only the compiled function sees."""
    for name, call, *names in (
        ("mass", partial(traced_step, "body_mass", np.array([0.0, -1.5, 1.0])), "-1.5 kg"),
        (
            "mass of world 1",
            partial(traced_step, "body_mass", np.array([[0.0, 1, 1], [0.0, 1, -2]])),
            "-2 kg",
        ),
        ("friction loss", partial(traced_step, "dof_frictionloss", np.array([0, 0.1])), "[1]"),
        ("restitution", partial(traced_step, "geom_restitution", np.full(2, 1.25)), "1.25"),
    ):
        yield returns(f"compiled step, {name}", call, "step(): params", *names)
    call = partial(traced_roll, "body_mass", np.array([0.0, np.nan, 1.0]))
    yield returns("compiled rollout, NaN", call, 'rollout(): params["body_mass"]', "NaN")
    call = partial(traced_roll, "dt", 0.0)
    yield returns("compiled rollout, dt", call, 'rollout(): params["dt"]', "0 s")
    sim = fb.Simulator(fb.load(LIMITED))
    for (name, index, value), names in TOGETHER.items():
        bad = spoilt(sim, name, index, value)
        yield returns(f"compiled step, {name}", partial(traced_step, name, bad, sim), *names)
    output = lambda: jax.jit(lambda x: fbj.body_poses(sim, sim.model.q0, {"body_quat": x}))(  # noqa: E731
        spoilt(sim, "body_quat", 1, 0.0)
    )
    yield returns("compiled output", lambda: fails(output), "featherback.jax", "body_quat")


def _with_nan(call: Callable[..., Any]) -> str:
    """Return what the derivative of a call says where one control of three worlds is NaN."""
    u = np.zeros((3, 4, 2))
    u[1, 2, 0] = np.nan
    return fails(lambda: call(u))


def _dot_or_bar(kind: str, which: int) -> str:
    """Return what a derivative of a rollout says of a direction or cotangent with a NaN."""
    sim = pendulum()
    run = lambda q, v, u, mass: fbj.rollout(sim, q, v, u, {"body_mass": mass})[:2]  # noqa: E731
    point = (Z, Z, np.zeros((3, 2)), sim.params["body_mass"])
    given = point if kind == "jvp" else jax.eval_shape(run, *point)
    arrays = [np.zeros(x.shape) for x in given]
    arrays[which].flat[0] = np.nan
    if kind == "jvp":
        return fails(lambda: jax.jvp(run, point, tuple(arrays)))
    return fails(lambda: jax.vjp(run, *point)[1](tuple(arrays)))


def _overflow() -> str:
    """Return what a gradient that leaves the finite numbers on the way back says."""
    sim = pendulum()
    loss = lambda q: (fbj.rollout(sim, q, q, steps=20).v[-1] * 1e308).sum()  # noqa: E731
    return fails(lambda: jax.grad(loss)(np.ones(2)))


def _left_out() -> str:
    """Return what the gradient of a world that left contacts out says."""
    model = laikago()
    sim = fb.Simulator(model, max_contacts=1)
    q, v, _ = (a[0] for a in draw(model, 1, 3))
    low = q - 0.2 * np.eye(len(q))[2]
    return fails(lambda: jax.grad(lambda q: fbj.step(sim, q, v)[1].sum())(low))


def _gradients() -> Iterator[Case]:
    """Gradients and directions that are not finite, or not there."""
    sim, many = pendulum(), np.zeros((3, 2))
    for name, call, step in (
        ("vjp, rollout", jax.grad(lambda u: fbj.rollout(sim, many, many, u).q[:, 1].sum()), 2),
        ("vjp, step", jax.grad(lambda u: fbj.step(sim, many, many, u[:, 2])[0].sum()), 0),
        ("vjp, state", jax.grad(lambda u: fbj.step(sim, many + u[:, 2], many)[0].sum()), 0),
        ("jvp, rollout", lambda u: jax.jacfwd(lambda s: fbj.rollout(sim, Z, Z, u + s).q)(0.0), 2),
    ):
        where = f"{name.partition(',')[0]}(): 1 of 3 worlds"
        names = (where, f"world 1, first at step {step}", "NONFINITE")
        yield returns(f"{name}, NaN in a world", partial(_with_nan, call), *names)
    worst = lambda: jax.grad(lambda q: fbj.step(sim, q, q)[0].sum())(np.full((12, 2), np.nan))  # noqa: E731
    yield returns("vjp, NaN in many worlds", lambda: fails(worst), "12 of 12", "2 more worlds")
    for kind, inputs in (("vjp", ("q_bar", "v_bar")), ("jvp", ("dq", "dv", "du", "dparams"))):
        for which, name in enumerate(inputs):
            call = partial(_dot_or_bar, kind, which)
            yield returns(f"{kind}, NaN in {name}", call, f"{kind}(): {name} holds a NaN")
    yield returns("vjp, overflow", _overflow, "vjp(): a gradient", "NaN")
    yield returns("vjp, contacts left out", _left_out, "vjp(): 1 of 1 worlds", "world 0")
    weight = sim.params["dof_invweight0"]
    call = lambda: jax.grad(  # noqa: E731
        lambda x: fbj.rollout(sim, Z, Z, None, {"dof_invweight0": x}, steps=2).v.sum()
    )(weight)
    names = ("rollout()", 'params["dof_invweight0"]', "no gradient")
    yield raises("rollout, no gradient", ParameterError, call, *names)
    matrix = jax.grad(lambda q: fbj.mass_matrix(sim, q).sum())
    call = partial(fails, lambda: matrix(np.array([[0, 0], [0, np.nan]])))
    yield returns("output, NaN in a world", call, "featherback.jax", "world 1")
    back = lambda: jax.vjp(lambda q: fbj.bias(sim, q, q), Z)[1](np.array([0, np.inf]))  # noqa: E731
    yield returns("output, infinity in a cotangent", lambda: fails(back), "cotangent", "infinity")


def _on_cuda() -> None:
    """Compile a step for a graphics card."""
    sim = pendulum()
    jax.jit(lambda q: fbj.step(sim, q, q)).trace(Z).lower(lowering_platforms=("cuda",))


def _varying() -> None:
    """Map a rollout over shards with the check of varying axes."""
    sim = pendulum()
    mesh = jax.make_mesh((1,), ("worlds",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("worlds")
    run = lambda q: fbj.rollout(sim, q, q, steps=2).q  # noqa: E731
    jax.shard_map(run, mesh=mesh, in_specs=spec, out_specs=spec)(np.ones((2, 2)))


def _without_jax() -> None:
    """Import the bridge where JAX is not installed."""
    with module_as("jax"):
        importlib.reload(fbj)


NO_CPU = (
    "import jax, featherback as fb, featherback.jax as fbj\n"
    "jax.config.update('jax_platforms', 'tpu')\n"
    "fbj.step(fb.Simulator(fb.models.pendulum(2), dtype='float32'), [0, 0], [0, 0])"
)


def _missing() -> Iterator[Case]:
    """Derivatives, platforms and packages that are not there."""
    sim, ones = pendulum(), np.ones(2)
    step = lambda q: fbj.step(sim, q, q)[0].sum()  # noqa: E731
    for name, call, *names in (
        ("step, forward over forward", lambda: jax.jacfwd(jax.jacfwd(step))(ones), "forward mode"),
        ("step, third", lambda: jax.jacrev(jax.jacrev(jax.jacrev(step)))(ones), "third"),
        (
            "outputs, second",
            lambda: jax.hessian(lambda q: fbj.mass_matrix(sim, q).sum())(ones),
            "second derivatives of outputs",
        ),
        ("a graphics card", _on_cuda, "cuda", "CPU"),
        ("varying axes", _varying, "shard_map", "check_vma=False"),
    ):
        yield raises(name, NotImplementedError, call, "featherback.jax", *names)
    yield raises("JAX is missing", ModuleNotFoundError, _without_jax, "JAX", "pip install")
    yield returns("no CPU platform", lambda: last_line(NO_CPU), "ParameterError", "CPU platform")


CASES = [*_calls(), *_traced(), *_gradients(), *_missing()]
