"""The engine behind a Simulator, on flat states; the one module that bridges to frameworks import.

A `Bridge` is the only thing that calls the extension. It takes arrays that are already checked:
C-contiguous, of the simulator's number type, with a leading world axis, states as flat rows
x = (q, v, act, warm) laid out as `Bridge.layout` says. What is wrong in a world comes back as a
status.

A bridge to a framework finds the Bridge of a Simulator by `bridge_of`, or by its handle, a text,
since an operator of a framework takes arrays, numbers and texts only (`bridge_of_handle`). It packs
parameters with `read_params` and `read_direction`, rolls out with `states`, and differentiates with
`replay`. Everything else it may use of `featherback.sim` is listed in `__all__`.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Mapping
from functools import wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from featherback._core import CONTACT_NUMBERS, TRACE_NUMBERS, Engine, isa
from featherback._typing import Ints, Params, Real
from featherback.errors import ParameterError
from featherback.model import Model
from featherback.model.manifold import quaternions
from featherback.model.structure import Structure
from featherback.sim.checkpoints import Schedule
from featherback.sim.cuda_device import read_device
from featherback.sim.inputs import (
    INERTIAS,
    NO_GRADIENT,
    as_real,
    named_arrays,
    pack_theta,
    refuse_unknown,
    refuse_without_gradient,
    require_finite,
    same_worlds,
    theta_direction,
)
from featherback.sim.laws import acting
from featherback.sim.memory import (
    WORKSPACE,
    available,
    check_workspace,
    readable,
    refuse_too_large,
)
from featherback.sim.options import Options
from featherback.sim.outputs import OF_A_STEP, check_law, evaluate, evaluate_vjp, output_shape
from featherback.sim.replay import (
    Bars,
    Replay,
    require_finite_gradient,
    require_finite_states,
)
from featherback.sim.state import (
    Point,
    StateLayout,
    Trajectory,
    check_carried,
    check_controls,
    check_step_controls,
    require_usable,
)
from featherback.sim.status import SENTENCES, Status, WorldStatus, describe, world_error

if TYPE_CHECKING:
    from featherback.sim.cuda import CudaEngine
    from featherback.sim.simulator import Simulator

__all__ = [
    "CONTACT_NUMBERS",
    "INERTIAS",
    "NO_GRADIENT",
    "OF_A_STEP",
    "SENTENCES",
    "TRACE_NUMBERS",
    "Bars",
    "Bridge",
    "Point",
    "Replay",
    "Schedule",
    "StateLayout",
    "Status",
    "Trajectory",
    "WorldStatus",
    "as_real",
    "bridge_of",
    "bridge_of_handle",
    "check_carried",
    "check_controls",
    "check_law",
    "check_step_controls",
    "describe",
    "evaluate",
    "evaluate_vjp",
    "named_arrays",
    "output_shape",
    "refuse_too_large",
    "refuse_unknown",
    "refuse_without_gradient",
    "require_finite",
    "require_finite_gradient",
    "require_finite_states",
    "require_usable",
    "same_worlds",
    "world_error",
]

_handles = itertools.count(1)
_bridges: weakref.WeakValueDictionary[str, Bridge] = weakref.WeakValueDictionary()


Job = TypeVar("Job", bound=Callable[..., Any])


def _job(method: Job) -> Job:
    """Say in a sentence that the engine found no memory."""

    @wraps(method)
    def told(self: Bridge, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except MemoryError as error:
            raise self.memory_error() from error

    return cast("Job", told)


class Bridge:
    """One model compiled with options and parameters, `theta` float64[ntheta].

    Attributes:
        layout: of flat states.
        params: all parameters, by name, read-only; some act under one contact law only.
        shapes: shapes of the parameters that act under the contact law, by name.
        handle: name of the simulator, never used again in this process.
        real: name of the number type.
        device: "cpu", or the GPUs that run the jobs, such as "cuda:0" or "cuda:0,1".
        step_one: (q, v, act, u, warm, return_status) -> q1, v1, act1 where the model has
            activations, warm1 where warm is given, and the status if asked for; None where they
            are not NumPy's float64 or float32 arrays of one world (act, u and warm may be None, for
            zeros), or the next state is not finite.
        linearize_one: (q, v, act, u) -> A, B; None where the arrays do not fit or a bit of the
            status is set.
    """

    def __init__(
        self,
        model: Model,
        options: Options,
        dtype: np.dtype[Any],
        threads: int,
        theta: Real,
        device: str = "cpu",
    ) -> None:
        """Build the engine; see the class."""
        structure = model.structure
        self.model, self.options, self.threads, self.device = model, options, threads, device
        self.host = _build(structure, theta.astype(dtype), options, threads)
        self.engine = self.host if device == "cpu" else self._on_gpu(theta.astype(dtype))
        self.step_one, self.linearize_one = self.engine.step_one, self.engine.linearize_one
        # memory is taken as it is used: what is asked for beyond the model's own room is checked
        if options.max_contacts > structure.sizes["max_contacts"] or options.solver == "pgs":
            check_workspace("Simulator()", self.workspace_bytes * threads)
        lengths = (model.nq, model.nv, structure.sizes["na"], model.nu)
        starts = tuple(at for at, _ in quaternions(model))
        nwarm = model.nv if options.contact == "mujoco" and options.warmstart else 0
        self.layout = StateLayout(model.name, *lengths, dtype, starts, nwarm)
        self.params = MappingProxyType(_split(theta, structure.params))
        self.shapes = {name: self.params[name].shape for name in acting(self.params, self.law)}
        self.handle, self.real = f"{model.name}#{next(_handles)}", dtype.name
        _bridges[self.handle] = self

    def _on_gpu(self, theta: Real) -> Engine:
        """Return the engine on GPUs, which answers the calls of the one on the processor."""
        from featherback.sim.cuda import open_engines
        from featherback.sim.cuda_several import SeveralEngines

        ordinals = read_device("Simulator()", self.device)
        engines = open_engines(self.host, ordinals, self.model, theta, self.options)
        return cast("Engine", engines[0] if len(engines) == 1 else SeveralEngines(engines))

    @property
    def gpu(self) -> CudaEngine | None:
        """The engine that takes arrays by their address, where there is one GPU; else None."""
        engine: Any = self.engine
        return None if engine is self.host or "," in self.device else engine

    def require_one_device(self, where: str) -> None:
        """Refuse what cannot be split among several GPUs."""
        if "," in self.device:
            raise ParameterError(
                f'{where}: the simulator runs on several GPUs, "{self.device}", and splits '
                "NumPy's arrays among them; for arrays that lie on a GPU build one simulator for "
                'each, such as device="cuda:0".'
            )

    @property
    def place(self) -> str:
        """The device on which a framework's arrays are taken as they are, "cpu" or "cuda:0"."""
        return "cpu" if self.gpu is None else self.gpu.device.place

    @property
    def law(self) -> str:
        """The contact law."""
        return self.options.contact

    @property
    def workspace_bytes(self) -> int:
        """Bytes of scratch of one thread."""
        return self.engine.workspace_bytes

    @property
    def theta_size(self) -> int:
        """Number of parameters."""
        return self.engine.theta_size

    def memory_error(self) -> MemoryError:
        """Return the error for a workspace that could not be had."""
        need, free = self.workspace_bytes * self.threads, available()
        room = "" if free is None else f" and {readable(free)} are free"
        return MemoryError(
            f'the engine of model "{self.model.name}" finds no memory: its workspace takes '
            f"{readable(need)}{room}; {WORKSPACE}."
        )

    def theta_bar(self, worlds: int) -> Real:
        """Return zeros for the gradient of all parameters, and of what is derived from them."""
        return np.zeros((worlds, self.theta_size + self.engine.derived_size), self.layout.dtype)

    # parameters

    def read_params(
        self, where: str, params: Params | None, worlds: int | None
    ) -> tuple[Real | None, dict[str, tuple[int, ...]]]:
        """Check parameters; return them flat, None for the simulator's own, and their shapes.

        Each has its own shape or a leading axis of `worlds`, which is None where nothing has one.
        """
        given = named_arrays(where, params)
        if not given:
            return None, {}
        theta = pack_theta(where, self.model, self.params, given, worlds, self.law)
        shapes = {name: np.shape(value) for name, value in given.items()}
        return np.ascontiguousarray(theta, self.layout.dtype), shapes

    def read_direction(self, where: str, dparams: Params | None, worlds: int | None) -> Real | None:
        """Check a direction in parameters; return it flat, None where there is none."""
        own = (self.layout.dtype, self.law)
        direction = theta_direction(where, self.params, dparams, worlds, *own)
        return None if direction is None else np.ascontiguousarray(direction)

    # jobs of the engine

    @_job
    def rollout(
        self,
        x: Real,
        u: Real | None,
        theta: Real | None,
        found: WorldStatus,
        *,
        steps: int,
        u_first: int = 0,
        residual: Real | None = None,
        sweeps: Real | None = None,
        factorisations: Real | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Advance x, real[worlds, rows, nx]: rows are steps + 1, or one row that moves."""
        if not len(x) or not steps:
            return
        self.engine.rollout(
            x,
            u,
            theta,
            found.status,
            found.step,
            steps=steps,
            u_first=u_first,
            residual=residual,
            sweeps=sweeps,
            factorisations=factorisations,
            progress=progress,
        )

    @_job
    def vjp(
        self,
        path: Trajectory,
        x: Real,
        x_cot: Real | None,
        bars: Bars,
        theta_bar: Real | None,
        *,
        first: int = 0,
        trace: Real | None = None,
    ) -> WorldStatus:
        """Run the adjoint over the states x, real[worlds, steps + 1, nx], of steps from `first`.

        x_cot, real[worlds, rows, nx], belongs to the last rows of x. Bars are read and written: the
        controls' from `first` on; theta_bar is completed where `first` is zero.
        """
        found = WorldStatus.ok(len(x))
        self.engine.vjp(
            x,
            path.u,
            path.theta,
            x_cot,
            bars.x,
            bars.u,
            theta_bar,
            found.status,
            found.step,
            bars.unrolled,
            bars.ties,
            u_first=first,
            finish_params=first == 0,
            trace=trace,
        )
        return found

    @_job
    def jvp(
        self, path: Trajectory, x_dot: Real, du: Real | None, dtheta: Real | None
    ) -> WorldStatus:
        """Run tangents along all states: x_dot is real[worlds, steps + 1, nx], row 0 is read."""
        found = WorldStatus.ok(path.worlds)
        if path.worlds and path.steps:
            own = (path.x, path.u, path.theta)
            self.engine.jvp(*own, x_dot, du, dtheta, found.status, found.step)
        return found

    @_job
    def hvp(
        self,
        path: Trajectory,
        directions: tuple[Real, Real | None, Real | None],
        cotangents: tuple[Real | None, Real | None],
        bars: tuple[Bars, Bars],
        theta_bars: tuple[Real | None, Real | None],
    ) -> WorldStatus:
        """Run the adjoint and its tangent over all states; bars are read and written.

        Args:
            path: the rollout.
            directions: x_dot of all states as `jvp` leaves it, du and dtheta.
            cotangents: x_cot and its tangent, real[worlds, rows, nx].
            bars: the adjoint and its tangent.
            theta_bars: of the parameters, likewise.
        """
        found = WorldStatus.ok(path.worlds)
        self.engine.hvp(
            path.x,
            path.u,
            path.theta,
            *directions,
            *cotangents,
            bars[0].x,
            bars[1].x,
            bars[1].u,
            *theta_bars,
            found.status,
            found.step,
        )
        return found

    @_job
    def linearize(self, point: Point, A: Real, B: Real) -> WorldStatus:
        """Write the Jacobians A, real[worlds, n, n], and B, real[worlds, n, nu], of a step."""
        found = WorldStatus.ok(point.worlds)
        if point.worlds:
            own = (point.x, point.u, point.theta)
            self.engine.linearize(*own, A, B, found.status, found.step)
        return found

    @_job
    def contacts(
        self, point: Point, numbers: Real, pair: Ints, count: Ints, overflow: NDArray[np.uint8]
    ) -> None:
        """Write the contacts that a step sees, numbers[worlds, n, CONTACT_NUMBERS]."""
        if point.worlds:
            own = (point.x, point.u, point.theta)
            self.engine.contacts(*own, numbers, pair, count, overflow)

    @_job
    def output(self, name: str, inputs: Mapping[str, Real], theta: Real | None, y: Real) -> None:
        """Write an output of each world to y from inputs, real[worlds, n] each."""
        if len(y):
            self.engine.output(name, *_three(inputs), theta, y)

    @_job
    def output_vjp(
        self,
        name: str,
        inputs: Mapping[str, Real],
        theta: Real | None,
        y_bar: Real,
        bars: Mapping[str, Real],
        theta_bar: Real | None,
    ) -> None:
        """Add the gradient of a loss on an output to `bars`, one for each of its inputs."""
        if len(y_bar):
            own = _three(inputs)
            self.engine.output_vjp(name, *own, theta, y_bar, *_three(bars), theta_bar)

    # for bridges to frameworks

    def states(
        self, x: Real, u: Real | None, steps: int, theta: Real | None
    ) -> tuple[Real, WorldStatus]:
        """Roll out from x[worlds, nx]; return states[worlds, steps + 1, nx] and what went wrong.

        u is real[(worlds,) steps, nu], None where the model has no controls; theta is what
        `read_params` returned.
        """
        rows = np.empty((len(x), steps + 1, x.shape[1]), self.layout.dtype)
        rows[:, 0] = x
        found = WorldStatus.ok(len(x))
        self.rollout(rows, u, theta, found, steps=steps)
        return rows, found

    def replay(self, path: Trajectory) -> Replay:
        """Return a rollout whose derivatives can be asked for."""
        return Replay(self, path)

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel as what it was built from; the engine is built again."""
        theta = np.concatenate([a.reshape(-1) for a in self.params.values()])
        own = (self.layout.dtype, self.threads, theta, self.device)
        return Bridge, (self.model, self.options, *own)


def _build(structure: Structure, theta: Real, options: Options, threads: int) -> Engine:
    """Return an engine; say in a sentence what the system has too little of."""
    limits = {"max_contacts": options.max_contacts, "max_sweeps": options.max_sweeps}
    vert = structure.vert.astype(theta.dtype)
    try:
        return Engine(*structure.packed(**limits), theta, vert, options, isa(), threads)
    except RuntimeError as error:
        # nothing else in it asks the system for threads
        raise ParameterError(
            f"Simulator(): threads is {threads}, and the system starts no more of them; pass fewer "
            "threads, or raise its limits (ulimit -u, ulimit -v)."
        ) from error


def bridge_of(sim: Simulator) -> Bridge:
    """Return the bridge of a simulator."""
    return sim._bridge  # pyright: ignore[reportPrivateUsage]


def bridge_of_handle(handle: str) -> Bridge:
    """Return the bridge with this handle, or refuse where its simulator is gone."""
    bridge = _bridges.get(handle)
    if bridge is None:
        raise ParameterError(
            f'the simulator with handle "{handle}" is gone; keep it in a variable as long as '
            "results of it are differentiated."
        )
    return bridge


def _three(inputs: Mapping[str, Real]) -> tuple[Any, Any, Any]:
    """Return q, v and the third input of an output; None for one that it does not read."""
    third = next((a for name, a in inputs.items() if name not in ("q", "v")), None)
    return inputs["q"], inputs.get("v"), third


def _split(theta: Real, like: Mapping[str, Real]) -> dict[str, Real]:
    """Cut a flat parameter vector into named, read-only arrays."""
    out: dict[str, Real] = {}
    at = 0
    for name, base in like.items():
        out[name] = theta[at : at + base.size].reshape(base.shape)
        out[name].setflags(write=False)
        at += base.size
    return out
