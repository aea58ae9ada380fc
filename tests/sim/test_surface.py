"""The surface as users meet it: what step says, what is read-only, what the system lacks."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import featherback as fb
from featherback.errors import WorldError
from featherback.sim import Status

PUBLIC = """bias bias_vjp body_poses body_poses_vjp center_of_mass center_of_mass_vjp com_inertias
com_inertias_vjp com_velocities com_velocities_vjp contact_forces contact_forces_vjp contacts
device dt dtype forward_dynamics forward_dynamics_vjp inverse_dynamics inverse_dynamics_vjp jvp
linearize mass_centers mass_centers_vjp mass_matrix mass_matrix_vjp memory model options output
output_vjp params rollout site_poses site_poses_vjp site_positions site_positions_vjp step threads
vjp""".split()


def test_help_shows_what_users_call() -> None:
    """Show the methods and attributes of a Simulator, each with a docstring, and nothing else."""
    shown = [name for name in dir(fb.Simulator) if not name.startswith("_")]
    assert shown == sorted(PUBLIC)
    assert all(inspect.getdoc(getattr(fb.Simulator, name)) for name in shown)
    assert fb.Simulator.__mro__ == (fb.Simulator, object)


def test_step_tells_its_status() -> None:
    """Append the status where it is asked for, as a scalar or for each world."""
    model = fb.models.box()
    sim = fb.Simulator(model, max_sweeps=1, solver="pgs")
    v = np.array([1.0, 0.5, -1.0, 0.3, 0.2, 0.1])
    q1, v1, status = sim.step(model.q0, v, return_status=True)
    assert status == Status.UNCONVERGED and status.dtype == np.uint32 and status.shape == ()
    plain = sim.step(model.q0, v)
    assert len(plain) == 2
    assert np.array_equal(plain[0], q1) and np.array_equal(plain[1], v1)
    high = model.q0 + np.eye(7)[2]
    _, _, both = sim.step(np.stack([model.q0, high]), v, return_status=True)
    assert both.tolist() == [Status.UNCONVERGED, Status.OK]
    tight = fb.Simulator(model, max_contacts=1)
    assert tight.step(model.q0, v, return_status=True)[-1] == Status.CONTACT_OVERFLOW
    # a list takes the careful path, whose status is the same
    assert sim.step(list(model.q0), v, return_status=True)[-1] == Status.UNCONVERGED


def test_a_step_that_overflows_says_so() -> None:
    """Return what was computed with NONFINITE where the inputs were finite."""
    model = fb.models.pendulum(1)
    sim = fb.Simulator(model)
    q, v, u = np.zeros(1), np.full(1, 1e308), np.zeros(1)
    *state, status = sim.step(q, v, u, return_status=True)
    assert status == Status.NONFINITE
    assert not np.isfinite(np.concatenate(state)).all()
    *state, status = sim.step(np.zeros((2, 1)), [[0.0], [1e308]], u, return_status=True)
    assert status.tolist() == [Status.OK, Status.NONFINITE]


def test_tensors_that_require_grad_are_refused() -> None:
    """Refuse torch's tensors with a graph also where their arrays would fit as they are."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    model = fb.models.cartpole()
    sim = fb.Simulator(model)
    plain = [torch.zeros(n, dtype=torch.float64) for n in (2, 2, 1)]
    expected = sim.step(np.zeros(2), np.zeros(2), np.zeros(1))[0]
    assert np.array_equal(sim.step(*plain)[0], expected)
    for i, name in enumerate("qvu"):
        given = [x.clone().requires_grad_(i == k) for k, x in enumerate(plain)]
        for call in (sim.step, sim.linearize, sim.contacts):
            with pytest.raises(fb.ShapeError, match=rf"{name} is a tensor .* featherback\.torch"):
                call(*given)
    with pytest.raises(fb.ShapeError, match=r"u is a tensor .* featherback\.torch"):
        sim.rollout(*plain[:2], torch.zeros((3, 1), dtype=torch.float64, requires_grad=True))


def test_arrays_that_jax_traces_are_refused() -> None:
    """Point to featherback.jax inside of JAX's transformations."""
    jax = pytest.importorskip("jax", reason="jax is not installed")
    sim = fb.Simulator(fb.models.cartpole(), dtype="float32")
    zero = np.zeros(2, np.float32)
    for transform in (jax.jit, jax.vmap, lambda f: jax.jacrev(f)):
        with pytest.raises(fb.ShapeError, match=r"q is traced by JAX .* featherback\.jax"):
            transform(lambda q: sim.step(q, zero)[0])(jax.numpy.zeros((2, 2), np.float32))


def test_parameters_cannot_be_assigned() -> None:
    """Raise where a parameter of a simulator or a model is assigned or written."""
    sim = fb.Simulator(fb.models.cartpole())
    for params in (sim.params, sim.model.params, sim.model.structure.tables):
        name = next(iter(params))
        with pytest.raises(TypeError, match="assignment"):
            params[name] = -1.0  # pyright: ignore[reportIndexIssue]
        with pytest.raises(ValueError, match="read-only"):
            params[name][...] = -1
    for name in ("device", "dt", "options", "model", "params", "dtype", "threads"):
        with pytest.raises(AttributeError):
            setattr(sim, name, None)


@pytest.mark.parametrize("dtype", ["float32", np.float32, np.dtype("float32"), np.dtype("<f4")])
def test_number_types(dtype: Any) -> None:
    """Take a number type by its name or as NumPy's own."""
    assert fb.Simulator(fb.models.cartpole(), dtype=dtype).dtype == np.float32


def test_number_types_of_frameworks() -> None:
    """Take torch's number types, by name."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    model = fb.models.cartpole()
    assert fb.Simulator(model, dtype=torch.float32).dtype == np.float32
    assert fb.Simulator(model, dtype=torch.float64).dtype == np.float64
    with pytest.raises(fb.ParameterError, match=r"dtype is torch\.float16"):
        fb.Simulator(model, dtype=torch.float16)


@pytest.mark.parametrize("checkpoint", ["step", 1, 4, "bytes:2kB"])
def test_cotangents_are_given_read_only_states(checkpoint: Any) -> None:
    """Refuse a function that writes into the states from which the steps run again."""
    model = fb.models.pendulum(2)
    roll = fb.Simulator(model).rollout(np.ones(2), np.ones(2), steps=12, checkpoint=checkpoint)

    def in_place(first: int, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, None]:
        q -= 0.5
        return q, None

    def beside(first: int, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, None]:
        assert not q.flags.writeable and not v.flags.writeable
        return q - 0.5, None

    with pytest.raises(ValueError, match="read-only"):
        roll.vjp(cotangents=in_place)
    whole = fb.Simulator(model).rollout(np.ones(2), np.ones(2), steps=12)
    assert np.array_equal(roll.vjp(cotangents=beside).u, whole.vjp(whole.q - 0.5).u)


def test_world_errors_carry_fields() -> None:
    """Carry the worlds, their steps, status and residual, one entry for each that went wrong."""
    model = fb.models.pendulum(2)
    u = np.full((5, 9, 2), 0.1)
    u[1, 3, 0], u[4, 6, 1] = np.nan, np.inf
    roll = fb.Simulator(model).rollout(np.zeros((5, 2)), np.zeros((5, 2)), u)
    with pytest.raises(WorldError) as caught:
        roll.raise_if_bad()
    error = caught.value
    assert error.world.tolist() == [1, 4]
    assert error.step.tolist() == [3, 6]
    assert error.status.tolist() == [Status.NONFINITE, Status.NONFINITE]
    assert error.residual.shape == (2,)
    with pytest.raises(WorldError) as caught:
        roll.vjp(np.ones((5, 2)))
    assert caught.value.world.tolist() == [1, 4]
    assert caught.value.step.tolist() == [3, 6]


def test_a_rollout_prints_in_one_line() -> None:
    """Print the model, worlds, steps and verdict."""
    model = fb.models.cartpole()
    sim = fb.Simulator(model)
    assert repr(sim.rollout(model.q0, model.v0, steps=3)) == 'Rollout("cartpole", 3 steps, ok)'
    many = sim.rollout(np.stack([model.q0, model.q0 * np.nan]), model.v0, steps=3)
    assert repr(many) == 'Rollout("cartpole", 2 worlds, 3 steps, NOT OK)'


def test_residual_of_an_unfinished_solve() -> None:
    """Carry and print the residual of a solve that did not finish."""
    model = fb.models.box()
    sim = fb.Simulator(model, max_sweeps=1, solver="pgs")
    roll = sim.rollout(model.q0, [1.0, 0.5, -1.0, 0.3, 0.2, 0.1], steps=3)
    with pytest.raises(WorldError) as caught:
        roll.raise_if_bad()
    assert caught.value.residual[0] == roll.residual > 0
    assert f"{float(roll.residual):.1e}"[:3] in str(caught.value)


def test_overflow_of_a_tangent_is_not_that_of_the_state() -> None:
    """Tell a tangent that overflows from a state that does, by world and step."""
    model = fb.models.pendulum(2)
    sim = fb.Simulator(model)
    roll = sim.rollout(np.ones((3, 2)), np.ones(2), steps=8)
    dq = np.zeros((3, 2))
    dq[1] = 1e308
    with pytest.raises(WorldError, match="the tangent of world 1 is not finite") as caught:
        roll.jvp(dq, dq)
    assert caught.value.world.tolist() == [1]
    assert 0 <= caught.value.step[0] < 8 and caught.value.status.tolist() == [0]
    with pytest.raises(WorldError, match="NONFINITE"):
        sim.jvp(np.ones(2), np.full(2, 1e308), dq=np.ones(2))


def test_workspace_beyond_the_memory_is_refused() -> None:
    """Refuse a workspace that cannot fit before it is asked for, with the figures."""
    rows = "".join(f'<body pos="{i} 0 1"><freejoint/><geom size="0.1"/></body>' for i in range(300))
    model = fb.load(f"<mujoco><worldbody>{rows}</worldbody></mujoco>")
    told = r"^Simulator\(\): the workspace takes .* GB and .* are free; pass a smaller max_contacts"
    with pytest.raises(MemoryError, match=told):
        fb.Simulator(model, solver="pgs", max_contacts=10_000)


def run_program(program: str) -> str:
    """Run a program in a process of its own, and return what it printed."""
    source = str(Path(fb.__file__).parent.parent)
    path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


LIMITED = """
import resource
import featherback as fb
model = fb.models.laikago()
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
try:
    fb.Simulator(model, threads=256)
except fb.ParameterError as error:
    print(error)
try:
    fb.Simulator(fb.models.box(), solver='pgs', max_contacts=10_000)
except MemoryError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of addresses are those of Linux")
def test_limits_of_the_system_are_sentences() -> None:
    """Say that the system starts no more threads, or leaves no more addresses (ulimit -v)."""
    threads, memory = run_program(LIMITED).splitlines()
    assert threads == (
        "Simulator(): threads is 256, and the system starts no more of them; pass fewer threads, "
        "or raise its limits (ulimit -u, ulimit -v)."
    )
    assert memory.startswith("Simulator(): the workspace takes ")
    assert memory.endswith("; pass a smaller max_contacts, or fewer threads.")


FORKED = """
import os, threading, time, warnings
import numpy as np
import featherback as fb
warnings.simplefilter("ignore", DeprecationWarning)
model = fb.models.laikago()
sim = fb.Simulator(model, threads=2)
q, v = np.tile(model.q0, (64, 1)), np.zeros((64, model.nv))
expected = fb.Simulator(model).rollout(q[:3], v[:3], steps=5).q
stop = threading.Event()

def work():
    while not stop.is_set():
        sim.rollout(q, v, steps=200)

thread = threading.Thread(target=work)
thread.start()
for _ in range(5):
    time.sleep(0.05)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            same = np.array_equal(sim.rollout(q[:3], v[:3], steps=5).q, expected)
            code = 0 if same and np.isfinite(sim.step(q[0], v[0])[0]).all() else 2
        finally:
            os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
stop.set()
thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_fork_while_another_thread_runs() -> None:
    """Let a child use the Simulator that another thread was running when it was forked."""
    assert run_program(FORKED).split() == ["0"] * 5
