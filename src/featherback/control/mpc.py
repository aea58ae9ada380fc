"""Model predictive control: plan ahead at every step, apply the first control, plan again."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from featherback._checks import check_integer
from featherback._typing import Array
from featherback.control.controls import real_array
from featherback.control.ilqr import Policy, ilqr
from featherback.control.quadratic_cost import StageCost
from featherback.errors import OptimizationError, ParameterError
from featherback.sim import Simulator


@dataclass(eq=False)
class RecedingHorizon:
    """A controller that plans by iLQR from the state it is given; each plan starts from the last.

    Attributes:
        sim: the simulator it plans with; a longer step than the plant's makes it look further.
        cost: cost of a plan.
        guess: float64[horizon, nu], the controls from which the next plan starts.
        max_iterations: maximum number of iLQR iterations of one plan.
        lower: lower limits of u; the model's control range when None.
        upper: upper limits of u; the model's control range when None.
        plan: the last plan; None before the first.
    """

    sim: Simulator
    cost: StageCost
    guess: Array
    max_iterations: int = 3
    lower: ArrayLike | None = None
    upper: ArrayLike | None = None
    plan: Policy | None = field(default=None)

    def __post_init__(self) -> None:
        """Check the guess."""
        self.guess = np.array(self.guess, np.float64)
        nu = self.sim.model.nu
        if self.guess.ndim != 2 or self.guess.shape[1] != nu or len(self.guess) < 1:
            raise ParameterError(
                f"RecedingHorizon(): guess has shape {self.guess.shape}; expected (horizon, {nu}) "
                f'for model "{self.sim.model.name}".'
            )

    def control(self, q: ArrayLike, v: ArrayLike, act: ArrayLike | None = None) -> Array:
        """Plan from a state and return the control to apply, float64[nu]; act is zero when None.

        Raises:
            OptimizationError: where no plan can be made from this state.
        """
        self.plan = ilqr(
            self.sim,
            q,
            v,
            self.guess,
            self.cost,
            act=act,
            lower=self.lower,
            upper=self.upper,
            max_iterations=self.max_iterations,
        )
        # the next plan starts one step later, and ends by holding the last control
        self.guess = np.concatenate([self.plan.u[1:], self.plan.u[-1:]])
        return self.plan.u[0].copy()


@dataclass(frozen=True, eq=False)
class ClosedLoopTrajectory:
    """The trajectory of a plant under a controller.

    Attributes:
        q: float64[steps + 1, nq].
        v: float64[steps + 1, nv].
        u: float64[steps, nu].
        act: float64[steps + 1, na], activations of actuators.
    """

    q: Array
    v: Array
    u: Array
    act: Array


def run_closed_loop(
    controller: RecedingHorizon,
    plant: Simulator,
    q: ArrayLike,
    v: ArrayLike,
    steps: int,
    *,
    act: ArrayLike | None = None,
    every: int = 1,
) -> ClosedLoopTrajectory:
    """Run a plant under a controller.

    Args:
        controller: plans the controls.
        plant: the simulator that stands for the robot; it may have other parameters or another
            step than the controller's.
        q: real[nq], initial configuration.
        v: real[nv], initial velocity.
        steps: steps of the plant.
        act: real[na], initial activation of actuators; zero when None.
        every: steps of the plant for which one control holds.

    Returns:
        The trajectory of the plant.

    Raises:
        OptimizationError: where no plan can be made, with the step.
    """
    where, model = "run_closed_loop()", plant.model
    check_integer(where, "steps", steps)
    check_integer(where, "every", every)
    sizes = {"q": model.nq, "v": model.nv, "act": model.na}
    given = {"q": q, "v": v, "act": 0.0 if act is None else act}
    path = {name: np.empty((steps + 1, n)) for name, n in sizes.items()}
    for name, n in sizes.items():
        path[name][0] = real_array(where, name, given[name], (n,))
    # a controller without activations is asked with q and v alone
    state = [path[name] for name in ("q", "v", "act")[: 3 if model.na else 2]]
    us = np.empty((steps, model.nu))
    for t in range(steps):
        if t % every == 0:
            try:
                us[t] = controller.control(*(part[t] for part in state))
            except OptimizationError as error:
                done = {name: part[: t + 1] for name, part in path.items()}
                raise OptimizationError(
                    f"{where}: step {t} of {steps}: {error}",
                    ClosedLoopTrajectory(u=us[:t], **done),
                ) from None
        else:
            us[t] = us[t - 1]
        after = plant.step(path["q"][t], path["v"][t], us[t], act=path["act"][t])
        for part, value in zip(state, after, strict=True):
            part[t + 1] = value
    return ClosedLoopTrajectory(u=us, **path)
