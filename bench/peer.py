"""MuJoCo as the peer: its fastest setting that converges, rollouts, what it solved."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from dataclasses import asdict, dataclass

import mujoco
import numpy as np
from mujoco import rollout as mujoco_rollout
from numpy.typing import NDArray
from scenes import Scene
from timing import interleave

SOLVERS = {"PGS": 0, "CG": 1, "Newton": 2}
CONES = {"pyramidal": 0, "elliptic": 1}
JACOBIANS = {"dense": 0, "sparse": 1}
INTEGRATORS = {
    "Euler": int(mujoco.mjtIntegrator.mjINT_EULER),
    "implicitfast": int(mujoco.mjtIntegrator.mjINT_IMPLICITFAST),
}
STATE = mujoco.mjtState.mjSTATE_FULLPHYSICS
STEP = 1e-6  # of the finite differences, as MuJoCo's documentation has it

# parts that have no work here: no sensors, no springs, no body with many geoms
IDLE = (
    mujoco.mjtDisableBit.mjDSBL_SENSOR
    | mujoco.mjtDisableBit.mjDSBL_SPRING
    | mujoco.mjtDisableBit.mjDSBL_MIDPHASE
)


@dataclass(frozen=True)
class Setting:
    """Options of MuJoCo that leave the physical model alone."""

    solver: str = "Newton"
    cone: str = "pyramidal"
    jacobian: str = "dense"
    integrator: str = "Euler"
    islands: bool = True

    def __str__(self) -> str:
        """Return the options in words."""
        islands = "islands" if self.islands else "no islands"
        return f"{self.solver}, {self.cone}, {self.jacobian}, {self.integrator}, {islands}"

    def apply(self, model: mujoco.MjModel) -> mujoco.MjModel:
        """Return a copy of the model with this setting; tolerance and iterations stay."""
        out = copy.copy(model)
        out.opt.solver = SOLVERS[self.solver]
        out.opt.cone = CONES[self.cone]
        out.opt.jacobian = JACOBIANS[self.jacobian]
        out.opt.integrator = INTEGRATORS[self.integrator]
        out.opt.disableflags |= int(IDLE)
        if not self.islands:
            out.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_ISLAND)
        return out


@dataclass(frozen=True)
class Solved:
    """What MuJoCo's solver did on the timed steps of a scene.

    Attributes:
        contacts: mean number of contacts in a step of one world.
        iterations: mean number of solver iterations, summed over islands.
        unconverged: share of steps in which an island used all iterations.
    """

    contacts: float
    iterations: float
    unconverged: float


class Peer:
    """A scene in MuJoCo at one setting, warmed up and ready to be timed."""

    def __init__(self, scene: Scene, setting: Setting, threads: int = 1) -> None:
        """Run the untimed steps; see the class."""
        self.scene = scene
        self.setting = setting
        self.model = setting.apply(scene.model.mujoco)
        self.data = [mujoco.MjData(self.model) for _ in range(threads)]
        state = self._states(scene)
        if scene.warm.shape[1]:
            state = mujoco_rollout.rollout(self.model, self.data[0], state, scene.warm)[0][:, -1]
        self.start = np.ascontiguousarray(state)
        self.warmstart = np.array([self.enter(row).qacc_warmstart for row in self.start])
        self.states = np.empty((scene.worlds, scene.steps, self.start.shape[1]))
        self._sensors = np.empty((scene.worlds, scene.steps, self.model.nsensordata))

    def _states(self, scene: Scene) -> NDArray[np.float64]:
        """Return the initial states in MuJoCo's layout."""
        data = self.data[0]
        out = np.zeros((scene.worlds, mujoco.mj_stateSize(self.model, STATE)))
        for q, v, row in zip(scene.q, scene.v, out, strict=True):
            data.qpos[:], data.qvel[:] = q, v
            mujoco.mj_getState(self.model, data, row, STATE)
        return out

    def enter(self, state: NDArray[np.float64]) -> mujoco.MjData:
        """Put one world into a state and evaluate it."""
        data = self.data[0]
        mujoco.mj_setState(self.model, data, state, STATE)
        mujoco.mj_forward(self.model, data)
        return data

    def roll(self) -> None:
        """Take the timed steps, in MuJoCo's own loop."""
        mujoco_rollout.rollout(
            self.model,
            self.data if len(self.data) > 1 else self.data[0],
            self.start,
            self.scene.u if self.model.nu else None,
            nstep=self.scene.steps,
            initial_warmstart=self.warmstart,
            state=self.states,
            sensordata=self._sensors,
            persistent_pool=len(self.data) > 1,
        )

    def solved(self, worlds: int = 8, steps: int = 200) -> Solved:
        """Step some worlds again from Python and look at every solve."""
        data = self.data[0]
        rows: list[tuple[int, int, bool]] = []
        for w in range(min(worlds, self.scene.worlds)):
            mujoco.mj_setState(self.model, data, self.start[w], STATE)
            data.qacc_warmstart[:] = self.warmstart[w]
            for u in self.scene.u[w, :steps]:
                if self.model.nu:
                    data.ctrl[:] = u
                mujoco.mj_step(self.model, data)
                count = data.solver_niter[: max(1, data.nisland)]
                full = bool(np.any(count >= self.model.opt.iterations))
                rows.append((data.ncon, int(np.sum(count)), full))
        contacts, iterations, full = np.mean(np.array(rows, float), axis=0)
        return Solved(float(contacts), float(iterations), float(full))


def python_steps(peer: Peer) -> Callable[[], None]:
    """Return a call that takes the timed steps of the first world with mj_step from Python."""
    model, data, controls = peer.model, peer.data[0], peer.scene.u[0]

    def call() -> None:
        mujoco.mj_setState(model, data, peer.start[0], STATE)
        data.qacc_warmstart[:] = peer.warmstart[0]
        for u in controls:
            data.ctrl[:] = u
            mujoco.mj_step(model, data)

    return call


class Transitions:
    """MuJoCo's finite differences of one step, at states of its own rollout."""

    def __init__(self, peer: Peer, count: int) -> None:
        """Choose `count` states of every world; see the class."""
        peer.roll()
        m = peer.model
        self.peer, self.data = peer, peer.data[0]
        at = np.linspace(0, peer.scene.steps - 2, count).astype(int)
        states = peer.states[:, at].reshape(-1, peer.states.shape[-1])
        controls = peer.scene.u[:, at + 1].reshape(len(states), -1)
        # a time comes before positions and velocities
        self.points = [
            (x[1 : 1 + m.nq], x[1 + m.nq : 1 + m.nq + m.nv], u, np.array(peer.enter(x).qacc))
            for x, u in zip(states, controls, strict=True)
        ]
        self.A = np.zeros((2 * m.nv, 2 * m.nv))
        self.B = np.zeros((2 * m.nv, m.nu))

    def call(self, centred: bool) -> Callable[[], None]:
        """Return a call that takes the Jacobians at every state."""
        model, data, A, B = self.peer.model, self.data, self.A, self.B

        def call() -> None:
            for q, v, u, warm in self.points:
                data.qpos[:], data.qvel[:], data.ctrl[:] = q, v, u
                data.qacc_warmstart[:] = warm
                mujoco.mjd_transitionFD(model, data, STEP, centred, A, B, None, None)

        return call


def settings(quick: bool) -> list[Setting]:
    """Return the settings to try."""
    if quick:
        return [Setting(), Setting(solver="PGS")]
    names = itertools.product(SOLVERS, CONES, JACOBIANS, INTEGRATORS, (True, False))
    return [Setting(*values) for values in names]


def chain_settings(rows: bool) -> list[Setting]:
    """Return the settings to try on a chain: its rows are equalities, so cones do not matter."""
    if not rows:
        return [Setting(jacobian=j, integrator=i) for j in JACOBIANS for i in INTEGRATORS]
    return [Setting(solver=s, jacobian=j) for s in SOLVERS for j in JACOBIANS]


def best_setting(
    scene: Scene, quick: bool, rounds: int = 5
) -> tuple[Setting, list[dict[str, object]]]:
    """Return the fastest setting whose every solve ends below the default tolerance.

    Args:
        scene: what is timed; a few worlds are enough.
        quick: try two settings only.
        rounds: timed repeats of each setting.

    Returns:
        The setting, and one entry per setting tried: its options, microseconds and share of
        steps whose solve was cut off.
    """
    peers = {str(s): Peer(scene, s) for s in settings(quick)}
    times = interleave({name: peer.roll for name, peer in peers.items()}, rounds)
    tried: list[tuple[bool, float, Setting, dict[str, object]]] = []
    for name, peer in peers.items():
        us = times[name].low / (scene.worlds * scene.steps) * 1e6
        cut = peer.solved(worlds=2).unconverged
        entry: dict[str, object] = {**asdict(peer.setting), "us": us, "unconverged": cut}
        tried.append((cut > 0.0, us, peer.setting, entry))
    tried.sort(key=lambda item: item[:2])
    return tried[0][2], [item[3] for item in tried]
