"""The Simulator: one model, one step, one number type; all that users call."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from featherback._checks import check_integer
from featherback._core import isa
from featherback._typing import Params, Real
from featherback.model import Model
from featherback.sim import laws, run, state_outputs
from featherback.sim.bridge import Bridge
from featherback.sim.checkpoints import Checkpoint, plan
from featherback.sim.contacts import Contacts, find_contacts
from featherback.sim.cuda_device import read_device
from featherback.sim.inputs import MAX_STEPS, named_arrays, pack_theta
from featherback.sim.memory import Memory, refuse_too_large
from featherback.sim.options import (
    MAX_THREADS,
    Options,
    check_model,
    check_positive,
    read_dtype,
    read_options,
    shown_options,
)
from featherback.sim.outputs import OutputGradient, check_output, evaluate, evaluate_vjp
from featherback.sim.rollout import Gradient, Rollout
from featherback.sim.state import check_step_controls, read_point, read_start

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from featherback.sim.arguments import Arguments


@shown_options
class Simulator:
    """Steps worlds of one model. Not shared between threads; make one Simulator per thread.

    Args:
        model: what `featherback.load` or `featherback.models` returned.
        dt: step [s]; the model's own when None.
        dtype: "float64" or "float32", or such a dtype of NumPy, torch or JAX.
        threads: worker threads for batches, at most 256.
        params: parameters that replace the model's, by name.
        device: "cpu", "cuda", "cuda:1", or "cuda:0,1" for several GPUs that share the worlds: where
            steps and their derivatives are computed; a GPU needs the extra `cuda` and the kernels
            of `make cuda`, see docs/gpu.md.
        options: numerical options, each a keyword of its own; None stands for the default.
    """

    def __init__(
        self,
        model: Model,
        *,
        dt: float | None = None,
        dtype: Literal["float64", "float32"] | Any = "float64",
        threads: int = 1,
        params: Params | None = None,
        device: str = "cpu",
        **options: Unpack[Arguments],
    ) -> None:
        """Build the engine; see the class."""
        where = "Simulator()"
        check_model(where, model)
        real = read_dtype(where, dtype)
        gpus = read_device(where, device)
        chosen = read_options(where, model, real.name, options)
        threads = check_integer(where, "threads", threads, maximum=MAX_THREADS)
        changed = named_arrays(where, params)
        if dt is not None:
            changed["dt"] = np.array([check_positive(where, "dt", dt)])
        theta = pack_theta(where, model, model.structure.params, changed, None, chosen.contact)
        place = f"cuda:{','.join(map(str, gpus))}" if gpus else "cpu"
        self._attach(Bridge(model, chosen, real, threads, theta, place))

    def _attach(self, bridge: Bridge) -> None:
        """Take the engine."""
        self._bridge = bridge
        self._params = MappingProxyType({name: bridge.params[name] for name in bridge.shapes})
        # looked up once, since a step of one world takes a few microseconds
        self._step_one = bridge.step_one

    def __getstate__(self) -> Bridge:
        """Travel as model, options and parameters."""
        return self._bridge

    def __setstate__(self, bridge: Bridge) -> None:
        """Take the engine that was built again."""
        self._attach(bridge)

    def __repr__(self) -> str:
        """Return the model's name, step and options."""
        return (
            f'Simulator("{self.model.name}", dt={self.dt:g}, dtype={self.dtype.name}, '
            f"threads={self.threads}, {self._place()}, Options({laws.shown_options(self.options)}))"
        )

    def _place(self) -> str:
        """Return what the steps run on."""
        return f"isa={isa()}" if self.device == "cpu" else f"device={self.device}"

    @property
    def device(self) -> str:
        """Where steps are computed: "cpu", or a GPU such as "cuda:0"."""
        return self._bridge.device

    @property
    def model(self) -> Model:
        """The model that is stepped."""
        return self._bridge.model

    @property
    def options(self) -> Options:
        """Numerical options in force."""
        return self._bridge.options

    @property
    def dt(self) -> float:
        """Step [s]."""
        return float(self.params["dt"][0])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Number type of all results."""
        return self._bridge.layout.dtype

    @property
    def threads(self) -> int:
        """Worker threads for batches."""
        return self._bridge.threads

    @property
    def params(self) -> Mapping[str, Real]:
        """The parameters that act under the contact law, by name; read-only."""
        return self._params

    def step(
        self,
        q: ArrayLike,
        v: ArrayLike,
        u: ArrayLike | None = None,
        *,
        act: ArrayLike | None = None,
        warm: ArrayLike | None = None,
        params: Params | None = None,
        return_status: bool = False,
    ) -> tuple[Any, ...]:
        """Advance by one step.

        Args:
            q: real[(worlds,) nq], configuration in MuJoCo's layout.
            v: real[(worlds,) nv], velocity.
            u: real[(worlds,) nu], control; zero when None.
            act: real[(worlds,) na], activation of actuators; zero when None.
            warm: real[(worlds,) nv], accelerations at which the solve may start, those that the
                step before returned, or zeros; needs the option warmstart.
            params: parameters that replace the simulator's in this call.
            return_status: append the status.

        Returns:
            The next q and v, act where the model has activations, and warm where it was given;
            then, if asked for, the status, uint32[worlds] or a scalar: bits of `Status` that say
            what went wrong in a world, which holds what it computed.

        Raises:
            ParameterError: where a state or control holds a NaN or infinity, or a quaternion of
                length zero.
            ShapeError: where an array has a wrong shape, or u has a world axis and no state has.
        """
        if params is None:
            try:
                # one world whose arrays fit takes a short way; what goes wrong is told below
                out: Any = self._step_one(q, v, act, u, warm, return_status)
            except MemoryError as error:
                raise self._bridge.memory_error() from error
            if out is not None:
                return (*out[:-1], np.uint32(out[-1])) if return_status else out
        bridge, state = self._bridge, {"q": q, "v": v, "act": act, "u": u, "warm": warm}
        point, _ = read_point("step()", bridge, state, params, finite=True)
        ranks = [0 if part is None else np.ndim(part) for part in (q, v, act, warm)]
        check_step_controls("step()", () if u is None else np.shape(u), ranks)
        x, found = run.take_step(bridge, point)
        views = bridge.layout.parts(x[point.one])
        if warm is not None:
            views = (*views, bridge.layout.warm(x[point.one]))
        parts = tuple(part.copy() for part in views)
        return (*parts, found.status[point.one]) if return_status else parts

    def rollout(
        self,
        q: ArrayLike,
        v: ArrayLike,
        u: ArrayLike | None = None,
        *,
        act: ArrayLike | None = None,
        warm: ArrayLike | None = None,
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
            act: real[(worlds,) na], initial activation of actuators; zero when None.
            warm: real[(worlds,) nv], accelerations at which the first solve may start, such as the
                last row of another rollout's `warm`; zero when None. Needs the option warmstart.
            steps: number of steps; needed when u does not say it.
            params: parameters that replace the simulator's in this call.
            checkpoint: which states are kept. "step": all of them; an integer k: every k-th;
                "bytes:N", N a number of bytes or with kB, MB, GB: as many as fit, with the tape of
                the backward pass. What is not kept is computed again by `Rollout.vjp`, with the
                same bits.
            progress: show a progress bar.

        Returns:
            The trajectory with a status for each world.
        """
        where, bridge = "rollout()", self._bridge
        start = {"q": q, "v": v, "act": act, "warm": warm}
        point, controls = read_start(where, bridge, start, (u, steps), params)
        length = int(controls.shape[-2])
        state = bridge.layout.nx * self.dtype.itemsize * point.worlds
        schedule = plan(where, checkpoint, length, state)
        refuse_too_large(where, "states", schedule.states * state)
        with run.progress_bar(length) if progress else nullcontext() as report:
            return run.roll_out(
                bridge, point, controls if self.model.nu else None, schedule, report
            )

    def memory(self, steps: int, worlds: int = 1, *, checkpoint: Checkpoint = "step") -> Memory:
        """Return the memory that a rollout and its gradient will take, before it is run.

        Args:
            steps: number of steps.
            worlds: number of worlds.
            checkpoint: as for `rollout`.
        """
        where, layout = "memory()", self._bridge.layout
        steps = check_integer(where, "steps", steps, minimum=0, maximum=MAX_STEPS)
        worlds = check_integer(where, "worlds", worlds, minimum=0, maximum=10**12)
        state = layout.nx * self.dtype.itemsize * worlds
        return Memory(
            states=plan(where, checkpoint, steps, state).states * state,
            controls=2 * steps * worlds * layout.nu * self.dtype.itemsize,
            workspace=self._bridge.workspace_bytes * self.threads,
        )

    def jvp(
        self,
        q: ArrayLike,
        v: ArrayLike,
        u: ArrayLike | None = None,
        dq: ArrayLike | None = None,
        dv: ArrayLike | None = None,
        du: ArrayLike | None = None,
        *,
        act: ArrayLike | None = None,
        dact: ArrayLike | None = None,
        params: Params | None = None,
        dparams: Params | None = None,
    ) -> tuple[Real, ...]:
        """Return the directional derivative of one step, in forward mode.

        Where the step starts is given as to `step`, and directions in the shapes of what they
        change; None is zero. That in q is ambient: quaternions have four numbers, and a change of
        their length has no effect. Those in parameters come by name, zero for those left out.

        Returns:
            The derivatives of the next q (ambient) and v, and of act where the model has
            activations. What has no world axis is shared by all worlds.

        Raises:
            WorldError: where a step has no gradient, or a world leaves the finite numbers.
            ParameterError: where a parameter has no gradient or a direction is not finite.
            ShapeError: where an array has a wrong shape.
        """
        state = {"q": q, "v": v, "act": act, "u": u}
        along = {"dq": dq, "dv": dv, "dact": dact, "du": du}
        return run.step_jvp(self._bridge, state, along, params, dparams)

    def vjp(
        self,
        q: ArrayLike,
        v: ArrayLike,
        u: ArrayLike | None = None,
        q_bar: ArrayLike | None = None,
        v_bar: ArrayLike | None = None,
        act_bar: ArrayLike | None = None,
        *,
        act: ArrayLike | None = None,
        params: Params | None = None,
    ) -> Gradient:
        """Return the gradient of a loss on the next state, in reverse mode.

        Where the step starts is given as to `step`; q_bar, v_bar and act_bar are the derivatives of
        the loss with respect to the next q, v and act, in their shapes; None is zero.

        Returns:
            Gradients as of `Rollout.vjp`, those of the parameters given too; that of the control
            has no axis for steps.

        Raises:
            WorldError: where the step has no gradient, or a world leaves the finite numbers.
            ParameterError: where a parameter has no gradient or a cotangent is not finite.
            ShapeError: where an array has a wrong shape.
        """
        state = {"q": q, "v": v, "act": act, "u": u}
        bars = {"q_bar": q_bar, "v_bar": v_bar, "act_bar": act_bar}
        return run.step_vjp(self._bridge, state, bars, params)

    def linearize(
        self,
        q: ArrayLike,
        v: ArrayLike,
        u: ArrayLike | None = None,
        *,
        act: ArrayLike | None = None,
        params: Params | None = None,
    ) -> tuple[Real, Real]:
        """Return the Jacobians of one step, laid out as MuJoCo's `mjd_transitionFD` does.

        Args are those of `step`.

        Returns:
            A, real[(worlds,) 2 nv + na, 2 nv + na], the derivative of the next (dq, v, act) with
            respect to (dq, v, act), where dq lies in the tangent space: a rotation has three
            numbers, in body axes; and B, real[(worlds,) 2 nv + na, nu], that with respect to u.

        Raises:
            WorldError: where a step has no gradient, or a world leaves the finite numbers.
            ShapeError: where an array has a wrong shape.
        """
        # one world whose arrays fit takes a short way, as in step()
        out: Any = self._bridge.linearize_one(q, v, act, u) if params is None else None
        if out is not None:
            return out
        state = {"q": q, "v": v, "act": act, "u": u}
        return run.linearize_step(self._bridge, state, params)

    def contacts(
        self,
        q: ArrayLike,
        v: ArrayLike,
        u: ArrayLike | None = None,
        *,
        act: ArrayLike | None = None,
        params: Params | None = None,
    ) -> Contacts:
        """Return the contacts that the step from (q, v, u) sees, with their forces and gaps.

        Args are those of `step`, and so is what it refuses.
        """
        state = {"q": q, "v": v, "act": act, "u": u}
        point, _ = read_point("contacts()", self._bridge, state, params, finite=True)
        return find_contacts(self._bridge, point)

    def output(
        self, name: str, *inputs: ArrayLike, params: Params | None = None
    ) -> Real | tuple[Real, ...]:
        """Return an output of a state by its name.

        Args:
            name: "mass_matrix", "bias", "forward_dynamics", "inverse_dynamics", "body_poses",
                "site_poses", "site_positions", "center_of_mass", "mass_centers", "com_inertias",
                "com_velocities" or "contact_forces"; the method of this name says more.
            inputs: what it reads: q, then v, then a force or an acceleration, or activations and
                controls in one array.
            params: parameters that replace the simulator's in this call.

        Returns:
            Its array, or a tuple of positions and rotation matrices for poses.

        Raises:
            ParameterError: where there is no such output, or an input holds a NaN or infinity, or
                a quaternion of length zero.
            ShapeError: where an array has a wrong shape.
        """
        check_output("output()", name)
        arrays = evaluate(f"{name}()", self._bridge, name, inputs, params, finite=True)
        return arrays[0] if len(arrays) == 1 else arrays

    def output_vjp(
        self, name: str, *arrays: ArrayLike | None, params: Params | None = None
    ) -> OutputGradient:
        """Return the gradient of a loss on an output with respect to its inputs and parameters.

        Args:
            name: of the output, as for `output`.
            arrays: the inputs of `output`, then the derivative of the loss with respect to each of
                its arrays, in their shapes; one of the two of poses may be None.
            params: parameters that replace the simulator's in this call; their gradients come too.

        Raises:
            WorldError: where the gradient is not finite.
            ParameterError: where a cotangent holds a NaN or infinity.
            ShapeError: where an array has a wrong shape.
        """
        check_output("output_vjp()", name)
        return evaluate_vjp(f"{name}_vjp()", self._bridge, name, arrays, params)

    # outputs by methods of their own, and the gradients of losses on them
    mass_matrix = state_outputs.mass_matrix
    bias = state_outputs.bias
    forward_dynamics = state_outputs.forward_dynamics
    inverse_dynamics = state_outputs.inverse_dynamics
    center_of_mass = state_outputs.center_of_mass
    mass_centers = state_outputs.mass_centers
    com_inertias = state_outputs.com_inertias
    com_velocities = state_outputs.com_velocities
    site_positions = state_outputs.site_positions
    body_poses = state_outputs.body_poses
    site_poses = state_outputs.site_poses
    contact_forces = state_outputs.contact_forces
    contact_forces_vjp = state_outputs.contact_forces_vjp
    mass_matrix_vjp = state_outputs.mass_matrix_vjp
    bias_vjp = state_outputs.bias_vjp
    forward_dynamics_vjp = state_outputs.forward_dynamics_vjp
    inverse_dynamics_vjp = state_outputs.inverse_dynamics_vjp
    center_of_mass_vjp = state_outputs.center_of_mass_vjp
    mass_centers_vjp = state_outputs.mass_centers_vjp
    com_inertias_vjp = state_outputs.com_inertias_vjp
    com_velocities_vjp = state_outputs.com_velocities_vjp
    site_positions_vjp = state_outputs.site_positions_vjp
    body_poses_vjp = state_outputs.body_poses_vjp
    site_poses_vjp = state_outputs.site_poses_vjp
