"""The Simulator: one model, one step, one number type; steps and rollouts."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from featherback._core import Engine, isa
from featherback.errors import ParameterError, ShapeError
from featherback.model import Model
from featherback.sim.inputs import (
    as_real,
    check_steps,
    is_whole,
    named_arrays,
    pack_theta,
    same_worlds,
)
from featherback.sim.memory import Memory, refuse_too_large
from featherback.sim.outputs import Outputs
from featherback.sim.progress import progress_bar
from featherback.sim.raw import Raw
from featherback.sim.replay import Replay
from featherback.sim.rollout import Rollout
from featherback.sim.schedule import Checkpoint, Schedule, plan

Real = NDArray[np.floating]
Params = dict[str, ArrayLike]

REGULARISATION = {"float64": 1e-6, "float32": 1e-4}
TOLERANCE = {"float64": 1e-10, "float32": 1e-4}
# in the core's order
GRADIENTS = ("auto", "implicit", "unrolled")
MOST_SWEEPS, MOST_CONTACTS, MOST_THREADS = 1_000_000, 10_000, 256


@dataclass(frozen=True)
class Options:
    """Numerical options of a Simulator; `sim.options` prints them with their values.

    Attributes:
        margin: contact and limit rows are built below this gap [m or rad].
        v_recover: largest speed of recovery from penetration [m/s].
        v_rest: approach speed below which restitution is zero [m/s].
        tolerance: residual of the contact solve, relative to the largest row velocity.
        max_sweeps: cap on Gauss-Seidel sweeps in one step.
        max_contacts: contacts one world can hold.
        friction: "cone" (true cone) or "box" (each tangent by itself).
        solver: "newton" (sweeps, then Newton steps on the active set) or "pgs" (sweeps only).
        gradient: "auto" (implicit where the solve finished, unrolled elsewhere), "implicit" (the
            solution is differentiated) or "unrolled" (the sweeps are).
        regularisation: default compliance, as a share of the bodies' inverse weights.
    """

    margin: float
    v_recover: float
    v_rest: float
    tolerance: float
    max_sweeps: int
    max_contacts: int
    friction: str
    solver: str
    gradient: str
    regularisation: float

    def core(self) -> dict[str, float | int]:
        """Return the options in the core's terms."""
        values: dict[str, float | int] = {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.name not in ("friction", "solver", "gradient", "max_contacts")
        }
        values["box_friction"] = int(self.friction == "box")
        values["exact_finish"] = int(self.solver == "newton")
        values["gradient"] = GRADIENTS.index(self.gradient)
        return values


class Simulator(Raw, Outputs):
    """Steps worlds of one model. Not shared between threads; make one Simulator per thread.

    Args:
        model: what `featherback.load` or `featherback.models` returned.
        dt: step [s]; the model's own when None.
        dtype: "float64" or "float32".
        threads: worker threads for batches, at most 256.
        friction: "cone" or "box".
        solver: "newton" or "pgs".
        gradient: "auto", "implicit" or "unrolled"; the last needs solver="pgs".
        margin: contact and limit rows are built below this gap [m or rad].
        v_recover: largest speed of recovery from penetration [m/s].
        v_rest: approach speed below which restitution is zero [m/s].
        tolerance: relative residual of the contact solve; None for the number type's default.
        max_sweeps: cap on Gauss-Seidel sweeps in one step.
        max_contacts: contacts one world can hold; None for the smaller of 100 and what the
            model's pairs can give.
        params: parameters that replace the model's, by name.
    """

    def __init__(
        self,
        model: Model,
        *,
        dt: float | None = None,
        dtype: Literal["float64", "float32"] = "float64",
        threads: int = 1,
        friction: Literal["cone", "box"] = "cone",
        solver: Literal["newton", "pgs"] = "newton",
        gradient: Literal["auto", "implicit", "unrolled"] = "auto",
        margin: float = 0.005,
        v_recover: float = 0.5,
        v_rest: float = 0.05,
        tolerance: float | None = None,
        max_sweeps: int = 200,
        max_contacts: int | None = None,
        params: Params | None = None,
    ) -> None:
        """Build the engine; see the class."""
        where = "Simulator()"
        _refuse_other(where, model)
        _choose(where, "dtype", dtype, ("float64", "float32"))
        _choose(where, "friction", friction, ("cone", "box"))
        _choose(where, "solver", solver, ("newton", "pgs"))
        _choose_gradient(where, gradient, solver)
        structure = model.structure
        capacity = structure.sizes["max_contacts"] if max_contacts is None else max_contacts
        self.options = Options(
            margin=_positive(where, "margin", margin, zero=True),
            v_recover=_positive(where, "v_recover", v_recover),
            v_rest=_positive(where, "v_rest", v_rest, zero=True),
            tolerance=_positive(
                where, "tolerance", TOLERANCE[dtype] if tolerance is None else tolerance
            ),
            max_sweeps=_whole(where, "max_sweeps", max_sweeps, 1, MOST_SWEEPS),
            max_contacts=_whole(where, "max_contacts", capacity, 0, MOST_CONTACTS),
            friction=friction,
            solver=solver,
            gradient=gradient,
            regularisation=REGULARISATION[dtype],
        )
        self.model = model
        self.dtype = np.dtype(dtype)
        self.threads = _whole(where, "threads", threads, 1, MOST_THREADS)
        base: dict[str, Real] = dict(structure.params)
        given = named_arrays(where, params)
        if dt is not None:
            given["dt"] = np.array([_positive(where, "dt", dt)])
        theta = pack_theta(where, model, base, given, None)
        self._base = _split(theta, base)
        self.dt = float(self._base["dt"][0])
        self._engine = self._build_engine(theta)
        self._step_one = self._engine.step_one
        self._sign()

    def _build_engine(self, theta: Real) -> Engine:
        """Return the engine for the options in force."""
        structure = self.model.structure
        limits = ("max_contacts", "max_sweeps")
        sizes = {**structure.sizes, **{k: getattr(self.options, k) for k in limits}}
        return Engine(
            sizes,
            structure.tables,
            theta.astype(self.dtype),
            structure.vert.astype(self.dtype),
            self.options.core(),
            isa(),
            self.threads,
        )

    def __repr__(self) -> str:
        """Return the model's name, step and options."""
        return (
            f'Simulator("{self.model.name}", dt={self.dt:g}, dtype={self.dtype.name}, '
            f"threads={self.threads}, isa={isa()}, {self.options})"
        )

    def __reduce__(self) -> str:
        """Refuse to be pickled or copied."""
        raise TypeError(
            "a Simulator cannot be pickled or copied, since it holds threads and compiled state; "
            "pass on the model's file or XML and the parameters, and build it again there."
        )

    @property
    def engine(self) -> Engine:
        """The compiled core, for bridges to other frameworks."""
        return self._engine

    @property
    def params(self) -> dict[str, Real]:
        """The parameters in force, by name, read-only."""
        return dict(self._base)

    def step(
        self,
        q: ArrayLike,
        v: ArrayLike,
        u: ArrayLike | None = None,
        *,
        params: Params | None = None,
    ) -> tuple[Real, Real]:
        """Advance by one step.

        Args:
            q: real[(worlds,) nq], configuration in MuJoCo's layout.
            v: real[(worlds,) nv], velocity.
            u: real[(worlds,) nu], control; zero when None.
            params: parameters that replace the simulator's in this call.

        Returns:
            The next q and v. A world that goes wrong holds what it computed; `rollout` says why.
        """
        if params is None:
            out: Any = self._step_one(q, v, u)
            if out is not None:
                return out[0], out[1]
        named, batched = self._worlds("step()", {"q": q, "v": v, "u": u})
        if "u" in named:
            named["u"] = named["u"][:, None]
        roll = self._run("step()", named, params, batched, Schedule(1, 1, 0, True), None)
        return roll.q[..., 1, :].copy(), roll.v[..., 1, :].copy()

    def rollout(
        self,
        q: ArrayLike,
        v: ArrayLike,
        u: ArrayLike | None = None,
        *,
        steps: int | None = None,
        params: Params | None = None,
        checkpoint: Checkpoint = "step",
        progress: bool = False,
    ) -> Rollout:
        """Advance by many steps and keep every state.

        Args:
            q: real[(worlds,) nq], initial configuration.
            v: real[(worlds,) nv], initial velocity.
            u: real[(worlds,) steps, nu], controls; without a world axis they are shared by all
                worlds; real[nu] holds one control for all steps; zero when None.
            steps: number of steps; needed when u does not say it.
            params: parameters that replace the simulator's in this call.
            checkpoint: which states are kept. "step": all of them; a whole number k: every k-th;
                "bytes:N", N a number of bytes or with kB, MB, GB: as many as fit, with the tape of
                the backward pass. What is not kept is computed again by `Rollout.vjp`, with the
                same bits.
            progress: show a progress bar.

        Returns:
            The trajectory with a status for each world.
        """
        where = "rollout()"
        named, batched = self._worlds(where, {"q": q, "v": v})
        worlds = len(named["q"])
        controls, steps, u_batched = self._controls(where, u, steps, worlds if batched else None)
        if u_batched and not batched:
            named = {k: np.repeat(a, len(controls), axis=0) for k, a in named.items()}
            batched = True
        if self.model.nu:
            named["u"] = controls
        state = (self.model.nq + self.model.nv) * self.dtype.itemsize * len(named["q"])
        schedule = plan(where, checkpoint, steps, state)
        refuse_too_large(where, "states", schedule.states * state)
        with progress_bar(steps) if progress else nullcontext() as report:
            return self._run(where, named, params, batched, schedule, report)

    def memory(self, steps: int, worlds: int = 1, *, checkpoint: Checkpoint = "step") -> Memory:
        """Return the memory that a rollout and its gradient will take, before it is run.

        Args:
            steps: number of steps.
            worlds: number of worlds.
            checkpoint: as for `rollout`.
        """
        where = "memory()"
        steps = _whole(where, "steps", steps, 0, 10**15)
        worlds = _whole(where, "worlds", worlds, 0, 10**12)
        state = (self.model.nq + self.model.nv) * self.dtype.itemsize * worlds
        schedule = plan(where, checkpoint, steps, state)
        return Memory(
            states=schedule.states * state,
            controls=2 * steps * worlds * self.model.nu * self.dtype.itemsize,
            workspace=self._engine.workspace_bytes * self.threads,
        )

    def _controls(
        self, where: str, u: ArrayLike | None, steps: int | None, worlds: int | None
    ) -> tuple[Real, int, bool]:
        """Check the controls of a rollout; return them, the number of steps, and if per world."""
        nu = self.model.nu
        steps = check_steps(where, steps, u is not None)
        if steps is not None:
            refuse_too_large(where, "controls", steps * nu * self.dtype.itemsize)
        if u is None:
            assert steps is not None
            return np.zeros((steps, nu), self.dtype), steps, False
        # a copy, since the rollout keeps it
        array = np.array(as_real(where, "u", u, self.dtype), order="C")
        if array.ndim == 1 and array.shape == (nu,) and steps is not None:
            array = np.ascontiguousarray(np.broadcast_to(array, (steps, nu)))
        if array.ndim not in (2, 3) or array.shape[-1] != nu:
            raise ShapeError(
                f"{where}: u has shape {array.shape}; expected (steps, {nu}), "
                f"(worlds, steps, {nu}) or, with steps=, ({nu},) "
                f'for model "{self.model.name}".'
            )
        if steps is not None and array.shape[-2] != steps:
            raise ShapeError(f"{where}: u has {array.shape[-2]} steps and steps is {steps}.")
        if array.ndim == 3 and worlds is not None:
            same_worlds(where, "q", worlds, "u", len(array))
        return array, int(array.shape[-2]), array.ndim == 3

    def _run(
        self,
        where: str,
        named: dict[str, Real],
        params: Params | None,
        batched: bool,
        schedule: Schedule,
        report: Any,
    ) -> Rollout:
        """Roll out checked arrays."""
        worlds = len(named["q"])
        theta = self._theta(where, params, worlds if batched else None)
        u = named.get("u", np.zeros((schedule.steps, 0), self.dtype))
        kept = schedule.first_kept()
        q = np.empty((worlds, len(kept), self.model.nq), self.dtype)
        v = np.empty((worlds, len(kept), self.model.nv), self.dtype)
        q[:, 0], v[:, 0] = named["q"], named["v"]
        arrays: dict[str, Any] = {
            "u": u if u.shape[-1] else None,
            "theta": theta,
            "status": np.zeros(worlds, np.uint32),
            "status_step": np.full(worlds, -1, np.int32),
            "residual": np.zeros(worlds, self.dtype),
            "sweeps": np.zeros(worlds, self.dtype),
        }
        if worlds and schedule.steps:
            if schedule.whole:
                self._engine.rollout({**arrays, "q": q, "v": v}, report)
            else:
                self._run_pieces(q, v, kept, arrays, report)
        given = {name: np.shape(value) for name, value in named_arrays(where, params).items()}
        one: Any = ... if batched else 0
        return Rollout(
            q=q[one],
            v=v[one],
            u=u[0] if u.ndim == 3 and not batched else u,
            kept=kept,
            status=np.asarray(arrays["status"][one]),
            status_step=np.asarray(arrays["status_step"][one]),
            residual=np.asarray(arrays["residual"][one]),
            sweeps=np.asarray(arrays["sweeps"][one]),
            dt=self._dt(theta, len(given.get("dt", ())) == 2),
            replay=Replay(
                self._engine, self._base, theta, given, kept, q, v, arrays["u"], schedule
            ),
        )

    def _run_pieces(
        self, q: Real, v: Real, kept: NDArray[np.int64], arrays: dict[str, Any], report: Any
    ) -> None:
        """Roll out from one kept state to the next, with one state that moves."""
        q_now, v_now = q[:, :1].copy(), v[:, :1].copy()
        step = arrays["status_step"]
        for i, (first, last) in enumerate(itertools.pairwise(map(int, kept))):
            fresh = step < 0
            piece = {"u_first": first, "steps": last - first, "q": q_now, "v": v_now}
            self._engine.rollout({**arrays, **piece}, None)
            if report is not None:
                report(last)
            q[:, i + 1], v[:, i + 1] = q_now[:, 0], v_now[:, 0]
            # a piece counts its steps from its own start
            step[fresh & (step >= 0)] += first

    def _dt(self, theta: Real | None, own: bool) -> float | Real:
        """Return the step of a rollout, the first parameter; one for each world if `own`."""
        if theta is None or not theta.size:
            return self.dt
        return theta[:, 0].copy() if own else float(theta.flat[0])


def _refuse_other(where: str, model: Any) -> None:
    """Refuse what is not a Model."""
    if not isinstance(model, Model):
        raise ParameterError(
            f"{where}: model is of type {type(model).__name__}; pass what featherback.load or "
            'featherback.models returns, such as featherback.load("robot.xml").'
        )


def _choose_gradient(where: str, gradient: str, solver: str) -> None:
    """Refuse a mode of differentiation that does not go with the solver."""
    _choose(where, "gradient", gradient, GRADIENTS)
    if gradient == "unrolled" and solver != "pgs":
        raise ParameterError(
            f'{where}: gradient is "unrolled" and solver is "{solver}"; only sweeps can be '
            'reversed, so pass solver="pgs" with it, or gradient="auto".'
        )


def _choose(where: str, name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ParameterError(
            f"{where}: {name} is {value!r}; it must be one of {', '.join(allowed)}."
        )


def _positive(where: str, name: str, value: float, zero: bool = False) -> float:
    if not isinstance(value, (int, float, np.integer, np.floating)) or not np.isfinite(value):
        raise ParameterError(f"{where}: {name} is {value!r}; it must be a finite number.")
    if value < 0 or (value == 0 and not zero):
        raise ParameterError(f"{where}: {name} is {value!r}; it must be {'>=' if zero else '>'} 0.")
    return float(value)


def _whole(where: str, name: str, value: Any, least: int, most: int) -> int:
    if not is_whole(value) or not least <= value <= most:
        raise ParameterError(
            f"{where}: {name} is {value!r}; it must be a whole number from {least} to {most}."
        )
    return int(value)


def _split(theta: Real, like: dict[str, Real]) -> dict[str, Real]:
    """Cut a flat parameter vector into named, read-only arrays."""
    out: dict[str, Real] = {}
    at = 0
    for name, shape in ((k, a.shape) for k, a in like.items()):
        size = int(np.prod(shape))
        out[name] = theta[at : at + size].reshape(shape)
        out[name].setflags(write=False)
        at += size
    return out
