"""A batch of worlds of one task in NumPy: states, generators and parameters of each, and steps.

One call of the engine is one step of all environments: the state of every world is a row that
moves, and its control is held. A world has the same bits in every batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from featherback._checks import check_integer
from featherback._typing import Array, Bools, Real
from featherback.envs.randomize import Randomizer
from featherback.envs.state import NUMPY, State
from featherback.envs.task import Task, total
from featherback.errors import ShapeError
from featherback.sim import Simulator
from featherback.sim.bridge import Status, WorldStatus, bridge_of
from featherback.sim.inputs import as_real

MAX_WORLDS = 10**7
# a pair of factors, or a function of a generator and the parameter's own value
Randomize = Mapping[str, tuple[float, float] | Callable[[np.random.Generator, Real], Any]]
LIBRARY = (np, NUMPY)
# numbers of worlds
Rows = NDArray[np.integer[Any]]


class Outcome(NamedTuple):
    """What a step of all worlds gave.

    Attributes:
        observation: real[worlds, n].
        reward: float64[worlds]; zero in a world that left the finite numbers.
        terminated: bool[worlds].
        terms: the terms of the reward, each float64[worlds].
        status: uint32[worlds], bits of `featherback.Status`.
        nonfinite: bool[worlds], worlds that left the finite numbers, or whose action was none;
            their state is that before the step.
    """

    observation: Real
    reward: Array
    terminated: Bools
    terms: dict[str, Array]
    status: NDArray[np.uint32]
    nonfinite: Bools


class Worlds:
    """Worlds of one task.

    Attributes:
        task: the task.
        sim: the simulator.
        count: number of worlds.
        low: float64[n], least actions.
        high: float64[n], largest actions.
        age: int64[worlds], steps since the reset.
    """

    def __init__(
        self, task: Task, sim: Simulator, worlds: int, randomize: Randomize | None = None
    ) -> None:
        """Make worlds that have no state yet; `reset` gives them one."""
        self.task, self.sim = task, sim
        self.count = check_integer("envs.make()", "worlds", worlds, minimum=1, maximum=MAX_WORLDS)
        self.low, self.high = task.bounds(sim.model)
        bridge = bridge_of(sim)
        self._bridge, self._layout = bridge, bridge.layout
        self._x = np.zeros((self.count, 1, self._layout.nx), sim.dtype)
        self._u = np.zeros((self.count, self._layout.nu), sim.dtype)
        self._action = np.zeros((self.count, len(self.low)), sim.dtype)
        self._time = task.step_time(sim)
        self._randomizer = Randomizer(sim, self.count, randomize) if randomize else None
        self.age = np.zeros(self.count, np.int64)

    @property
    def params(self) -> dict[str, Array] | None:
        """The parameters that every world has of its own, by name; None where there are none."""
        return None if self._randomizer is None else self._randomizer.params

    @property
    def q(self) -> Real:
        """real[worlds, nq], configurations; a view."""
        return self._layout.q(self._x[:, 0])

    @property
    def v(self) -> Real:
        """real[worlds, nv], velocities; a view."""
        return self._layout.v(self._x[:, 0])

    def state(self, rows: Any = slice(None)) -> State:
        """Return the states of all worlds, or of some; they are copies."""
        params = self.params
        own = None if params is None else {name: value[rows] for name, value in params.items()}
        return self._state(self._x[rows, 0].copy(), self._u[rows], self._action[rows], rows, own)

    def _state(self, x: Real, u: Real, action: Real, rows: Any, params: Any) -> State:
        """Return states of flat ones."""
        state = State(self.sim, LIBRARY, params)
        layout = self._layout
        state.q, state.v, state.act = layout.q(x), layout.v(x), layout.act(x)
        state.u, state.action = u, action
        state.time = (self._time * self.age[rows]).astype(self.sim.dtype)
        return state

    def set_states(self, rows: Any, q: Any, v: Any) -> None:
        """Put worlds into states of choice; their activations are zero, and their age."""
        x = self._x[:, 0]
        x[rows] = 0.0
        self._layout.q(x)[rows], self._layout.v(x)[rows] = q, v
        self._u[rows] = self._action[rows] = 0.0
        self.age[rows] = 0

    def get_state(self) -> dict[str, Any]:
        """Return all that the next step depends on; copies."""
        own = {"x": self._x, "u": self._u, "action": self._action, "age": self.age}
        state: dict[str, Any] = {name: value.copy() for name, value in own.items()}
        if self._randomizer is not None:
            state["params"] = self._randomizer.get_state()
        return state

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `get_state` returned."""
        self._x, self._u = state["x"].copy(), state["u"].copy()
        self._action, self.age = state["action"].copy(), state["age"].copy()
        if self._randomizer is not None:
            self._randomizer.set_state(state["params"])

    def reset(self, rows: Rows, generators: Any) -> None:
        """Start new episodes in some worlds; generators[i] is that of world i."""
        if not len(rows):
            return
        own = [generators[i] for i in rows.tolist()]
        self.set_states(rows, *self.task.starts(self.sim.model, own))
        if self._randomizer is not None:
            self._randomizer.draw(rows, generators)

    def observe(self, rows: Any = slice(None)) -> Real:
        """Return observations of all worlds, or of some; a new array."""
        return np.array(self.task.observe(self.state(rows)), self.sim.dtype)

    def read_actions(self, where: str, actions: Any) -> Real:
        """Return actions, real[worlds, n]."""
        found = as_real(where, "actions", actions, self.sim.dtype)
        expected = (self.count, len(self.low))
        if found.shape != expected:
            raise ShapeError(
                f"{where}: actions have shape {found.shape}; expected {expected}, one row for "
                "each world."
            )
        return found

    def step(self, actions: Real) -> Outcome:
        """Advance all worlds by one step of the environment."""
        task, params = self.task, self.params
        lost: Bools = ~np.all(np.isfinite(actions), axis=1)
        action = np.where(lost[:, None], 0.0, actions).astype(self.sim.dtype, copy=False)
        start, every = self._x[:, 0].copy(), slice(None)
        before = self._state(start, self._u, self._action, every, params)
        self._action = action
        self._u = np.ascontiguousarray(task.control(before, action), self.sim.dtype)
        found = self._advance()
        lost |= (found.status & np.uint32(Status.NONFINITE)) != 0
        self.age += 1
        while True:
            if lost.any():
                self._x[lost, 0] = start[lost]
            after = self._state(self._x[:, 0].copy(), self._u, action, every, params)
            terms = {k: np.asarray(x, np.float64) for k, x in task.rewards(before, after).items()}
            observation = np.array(task.observe(after), self.sim.dtype)
            # states so far out that what is told of them is not finite are lost too
            known = np.isfinite(total(terms)) & np.isfinite(observation).all(axis=1)
            if np.all(known | lost):
                break
            lost |= ~known
        ended = task.terminated(after)
        terminated = np.zeros(self.count, bool) if ended is None else np.array(ended, bool)
        reward = np.where(lost, 0.0, total(terms))
        return Outcome(observation, reward, terminated | lost, terms, found.status, lost)

    def _advance(self) -> WorldStatus:
        """Move the states under the controls held."""
        found = WorldStatus.ok(self.count)
        held = np.repeat(self._u[:, None], self.task.frame_skip, axis=1)
        theta = None if self._randomizer is None else self._randomizer.theta
        u = held if self._layout.nu else None
        self._bridge.rollout(self._x, u, theta, found, steps=self.task.frame_skip)
        return found
