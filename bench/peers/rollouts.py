"""Rollouts of a scene and their gradients by each tool that Python calls, for bench/tables.py.

A tool is a call that takes a scene and returns a Tool; its library is imported inside it.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import straight
from numpy.typing import NDArray

import featherback as fb

Vector = NDArray[np.float64]
# takes the rollout, and returns its last state and a call that takes the gradient
Forward = Callable[[], tuple[Vector, Callable[[], Vector]]]


@dataclass(frozen=True)
class Scene:
    """One rollout: robots on the ground from a state, with controls, and what a tool is told.

    Attributes:
        q: float64[nq], initial positions.
        v: float64[nv].
        u: float64[steps, nu].
        robots: number of Laikagos in the world.
        dt: time step [s].
        setting: MuJoCo's options, as bench/peer.py names them.
        sweeps: of the straightforward step's solver.
    """

    q: Vector
    v: Vector
    u: Vector
    robots: int
    dt: float
    setting: dict[str, Any] = field(default_factory=dict[str, Any])
    sweeps: int = straight.SWEEPS

    def simulator(self, robots: int) -> fb.Simulator:
        """Return our simulator of some robots."""
        return fb.Simulator(fb.models.laikago(robots=robots), dt=self.dt, threads=1)

    def split(self) -> tuple[Vector, Vector, Vector]:
        """Return state and controls with an axis for robots: q, v, and u after its steps."""
        shape = (self.robots, -1)
        return (
            self.q.reshape(shape),
            self.v.reshape(shape),
            self.u.reshape(len(self.u), *shape),
        )


@dataclass(frozen=True)
class Tool:
    """A rollout that can be taken again and again.

    Attributes:
        forward: takes it.
        facts: what else there is to say, for the report.
    """

    forward: Forward
    facts: dict[str, Any] = field(default_factory=dict[str, Any])


def flat(*arrays: Any) -> Vector:
    """Return all numbers of some arrays behind each other."""
    return np.concatenate([np.ravel(np.asarray(a)) for a in arrays])


def ours(scene: Scene) -> Tool:
    """Return featherback's rollout and its vjp."""
    sim = scene.simulator(scene.robots)

    def forward() -> tuple[Vector, Callable[[], Vector]]:
        roll = sim.rollout(scene.q, scene.v, scene.u)

        def backward() -> Vector:
            g = roll.vjp(np.ones_like(scene.q), np.ones_like(scene.v))
            return flat(g.q, g.v, g.u)

        return flat(roll.q[-1], roll.v[-1]), backward

    return Tool(forward)


def differences(scene: Scene) -> Tool:
    """Return MuJoCo's rollout, and its gradient from mjd_transitionFD at every state.

    The gradient is in tangent space: 2 nv numbers of the initial state, then the controls.
    """
    import mujoco
    from mujoco import rollout as mujoco_rollout
    from peer import STATE, STEP, Setting

    model = Setting(**scene.setting).apply(fb.models.laikago(robots=scene.robots).mujoco)
    model.opt.timestep = scene.dt
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = scene.q, scene.v
    start = np.zeros((1, mujoco.mj_stateSize(model, STATE)))
    mujoco.mj_getState(model, data, start[0], STATE)
    n, u = model.nv, scene.u

    def forward() -> tuple[Vector, Callable[[], Vector]]:
        states = mujoco_rollout.rollout(model, data, start, u[None])[0][0]

        def backward() -> Vector:
            A, B = np.zeros((2 * n, 2 * n)), np.zeros((2 * n, model.nu))
            bar, u_bar = np.ones(2 * n), np.zeros_like(u)
            for t in range(len(u) - 1, -1, -1):
                mujoco.mj_setState(model, data, states[t - 1] if t else start[0], STATE)
                data.ctrl[:] = u[t]
                mujoco.mjd_transitionFD(model, data, STEP, False, A, B, None, None)
                u_bar[t] = bar @ B
                bar = bar @ A
            return flat(bar, u_bar)

        return states[-1][1 : 1 + model.nq + n], backward

    return Tool(forward)


def repeated(count: int, function: Callable[[Any], Any], state: Any) -> Any:
    """Return a state after a function was applied to it some times."""
    for _ in range(count):
        state = function(state)
    return state


def pytorch(scene: Scene, checkpointed: bool) -> Tool:
    """Return the straightforward step in eager PyTorch and its gradient by autograd.

    With checkpointed, a step is kept by its initial state and taken again on the way back; in the
    reentrant form, since the other one keeps the graph, which is larger than its tensors.
    """
    import torch
    from torch.utils.checkpoint import checkpoint

    torch.set_num_threads(1)
    robot = straight.robot(scene.simulator(1), lambda a: torch.asarray(np.array(a)))
    inputs = [torch.asarray(np.array(a)).requires_grad_() for a in scene.split()]

    def step(q: Any, v: Any, u: Any) -> Any:
        return straight.step(torch, repeated, robot, q, v, u, scene.sweeps)

    def forward() -> tuple[Vector, Callable[[], Vector]]:
        q, v, controls = inputs
        for u in controls:
            if checkpointed:
                q, v = checkpoint(step, q, v, u, use_reentrant=True)
            else:
                q, v = step(q, v, u)
        loss = q.sum() + v.sum()

        def backward() -> Vector:
            for x in inputs:
                x.grad = None
            loss.backward()
            return flat(*(x.grad for x in inputs))

        return flat(q.detach(), v.detach()), backward

    return Tool(forward)


def _compiled(rollout: Callable[..., Any], inputs: tuple[Any, ...]) -> Tool:
    """Return a rollout in JAX, compiled once forward and once backward."""
    import jax

    start = time.perf_counter()
    forth = jax.jit(lambda *x: jax.vjp(rollout, *x)).lower(*inputs).compile()
    middle = time.perf_counter()
    last, pull = forth(*inputs)
    ones = jax.tree.map(jax.numpy.ones_like, last)
    del last
    again = time.perf_counter()
    back = jax.jit(lambda pull, bar: pull(bar)).lower(pull, ones).compile()
    facts = {"compile_s": [middle - start, time.perf_counter() - again]}
    del pull

    def forward() -> tuple[Vector, Callable[[], Vector]]:
        last, pull = jax.block_until_ready(forth(*inputs))
        return flat(*last), lambda: flat(*jax.block_until_ready(back(pull, ones)))

    return Tool(forward, facts)


def with_jax(scene: Scene, checkpointed: bool) -> Tool:
    """Return the straightforward step in JAX, compiled in one scan, and its gradient."""
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    robot = straight.robot(scene.simulator(1), jax.numpy.asarray)

    def loop(count: int, function: Callable[[Any], Any], state: Any) -> Any:
        return jax.lax.fori_loop(0, count, lambda _, x: function(x), state)

    def step(x: Any, u: Any) -> Any:
        return straight.step(jax.numpy, loop, robot, *x, u, scene.sweeps), None

    def rollout(q: Any, v: Any, u: Any) -> Any:
        return jax.lax.scan(jax.checkpoint(step) if checkpointed else step, (q, v), u)[0]

    return _compiled(rollout, tuple(map(jax.numpy.asarray, scene.split())))


MJX_ITERATIONS = 1  # of its solver: with more it loops until it has converged


def mjx(scene: Scene, iterations: int = MJX_ITERATIONS) -> Tool:
    """Return MJX's rollout in one scan and its gradient, its solver held to some iterations."""
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    from mujoco import mjx

    native = copy.copy(fb.models.laikago(robots=scene.robots).mujoco)
    native.opt.timestep = scene.dt
    native.opt.iterations, native.opt.ls_iterations = iterations, 4
    model = mjx.put_model(native)
    blank = mjx.make_data(model)

    def rollout(q: Any, v: Any, u: Any) -> Any:
        def step(data: Any, u: Any) -> Any:
            return mjx.step(model, data.replace(ctrl=u)), None

        last = jax.lax.scan(jax.checkpoint(step), blank.replace(qpos=q, qvel=v), u)[0]
        return last.qpos, last.qvel

    return _compiled(rollout, tuple(map(jax.numpy.asarray, (scene.q, scene.v, scene.u))))


TOOLS: dict[str, Callable[[Scene], Tool]] = {
    "featherback": ours,
    "MuJoCo": differences,
    "PyTorch": lambda scene: pytorch(scene, False),
    "PyTorch, checkpoints": lambda scene: pytorch(scene, True),
    "JAX": lambda scene: with_jax(scene, False),
    "JAX, checkpoints": lambda scene: with_jax(scene, True),
    "MJX": mjx,
}
NEEDS = {
    "PyTorch": "torch",
    "PyTorch, checkpoints": "torch",
    "JAX": "jax",
    "JAX, checkpoints": "jax",
    "MJX": "mujoco.mjx",
}
