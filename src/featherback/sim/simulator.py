"""The Simulator: one model, one step, one number type; steps and rollouts."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from featherback._core import Engine, isa
from featherback.errors import ParameterError, ShapeError
from featherback.model import Model
from featherback.sim.inputs import (
    as_real,
    check_steps,
    named_arrays,
    pack_theta,
    same_worlds,
)
from featherback.sim.memory import Memory, refuse_too_large
from featherback.sim.options import choose, make_options, positive, whole_number
from featherback.sim.outputs import Outputs
from featherback.sim.progress import progress_bar
from featherback.sim.raw import Raw
from featherback.sim.replay import Replay
from featherback.sim.rollout import Rollout
from featherback.sim.schedule import Checkpoint, Schedule, plan

Real = NDArray[np.floating]
Params = dict[str, ArrayLike]

MOST_THREADS = 256


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
        choose(where, "dtype", dtype, ("float64", "float32"))
        structure = model.structure
        options: dict[str, Any] = {
            "friction": friction,
            "solver": solver,
            "gradient": gradient,
            "margin": margin,
            "v_recover": v_recover,
            "v_rest": v_rest,
            "tolerance": tolerance,
            "max_sweeps": max_sweeps,
            "max_contacts": max_contacts,
        }
        self.options = make_options(where, dtype, structure.sizes["max_contacts"], options)
        self.model = model
        self.dtype = np.dtype(dtype)
        self.threads = whole_number(where, "threads", threads, 1, MOST_THREADS)
        base = dict(structure.params)
        given = named_arrays(where, params)
        if dt is not None:
            given["dt"] = np.array([positive(where, "dt", dt)])
        theta = pack_theta(where, model, base, given, None)
        self._base = _split(theta, base)
        self.dt = float(self._base["dt"][0])
        self._engine = self._build_engine(theta)
        self._step_one = self._engine.step_one
        self._sign()

    def _build_engine(self, theta: Real) -> Engine:
        """Return the engine for the options in force."""
        structure = self.model.structure
        limits = {name: getattr(self.options, name) for name in ("max_contacts", "max_sweeps")}
        sizes, tables = structure.packed(**limits)
        return Engine(
            sizes,
            tables,
            theta.astype(self.dtype),
            structure.vert.astype(self.dtype),
            self.options,
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
        steps = whole_number(where, "steps", steps, 0, 10**15)
        worlds = whole_number(where, "worlds", worlds, 0, 10**12)
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
