"""Costs with second derivatives, for methods that need them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from featherback._typing import Array
from featherback.control.controls import real_array, real_numbers
from featherback.errors import ParameterError
from featherback.model import Model
from featherback.model.manifold import difference, quaternions


@dataclass(frozen=True, eq=False)
class Expansion:
    """A cost summed over steps, with derivatives in x = (tangent of q, v, act) and u at each step.

    Attributes:
        x: float64[steps + 1, nx], first derivative; nx is 2 nv + na.
        u: float64[steps, nu], first derivative.
        xx: float64[steps + 1, nx, nx], second derivative.
        uu: float64[steps, nu, nu], second derivative.
        ux: float64[steps, nu, nx], mixed second derivative.
    """

    x: Array
    u: Array
    xx: Array
    uu: Array
    ux: Array


class StageCost(Protocol):
    """A cost that is a sum over steps; act is given where the model has activations."""

    def total(self, q: Array, v: Array, u: Array, *act: Array) -> Array:
        """Return the cost of each world of q[worlds, steps + 1, nq], v and u."""
        ...

    def expand(self, q: Array, v: Array, u: Array, *act: Array) -> Expansion:
        """Return the derivatives along one trajectory q[steps + 1, nq], v, u."""
        ...


@dataclass(frozen=True, eq=False)
class Tracking:
    """Half the weighted squares of the distance to a goal, of velocity, activation and control.

    Attributes:
        model: the model.
        q: float64[nq], where to go.
        v: float64[nv], the velocity to have.
        u: float64[nu], the control from which effort is measured.
        running: float64[2 nv + na], weights of the errors of (q, v, act) at every step but the
            last.
        effort: float64[nu], weights of the control.
        final: float64[2 nv + na], weights of these errors at the last step.
        act: float64[na], the activation to have.
    """

    model: Model
    q: Array
    v: Array
    u: Array
    running: Array
    effort: Array
    final: Array
    act: Array

    def errors(self, q: Array, v: Array, *act: Array) -> Array:
        """Return (tangent from the goal to q, errors of v and act), float64[..., 2 nv + na]."""
        rest = [part - self.act for part in act]
        return np.concatenate([difference(self.model, self.q, q), v - self.v, *rest], axis=-1)

    def total(self, q: Array, v: Array, u: Array, *act: Array) -> Array:
        """Return the cost of each world."""
        squares = self.errors(q, v, *act) ** 2
        state = squares[..., :-1, :] @ self.running
        control = (u - self.u) ** 2 @ self.effort
        return 0.5 * ((state + control).sum(axis=-1) + squares[..., -1, :] @ self.final)

    def expand(self, q: Array, v: Array, u: Array, *act: Array) -> Expansion:
        """Return the derivatives; second ones of rotations are those of their linearization."""
        steps, n = u.shape[0], len(self.final)
        weights = np.concatenate([np.tile(self.running, (steps, 1)), self.final[None]])
        return Expansion(
            x=weights * self.errors(q, v, *act),
            u=self.effort * (u - self.u),
            xx=weights[:, :, None] * np.eye(n),
            uu=np.tile(np.diag(self.effort), (steps, 1, 1)),
            ux=np.zeros((steps, u.shape[1], n)),
        )


def tracking(
    model: Model,
    q: ArrayLike,
    *,
    v: ArrayLike = 0.0,
    u: ArrayLike = 0.0,
    act: ArrayLike = 0.0,
    running: ArrayLike = 0.0,
    effort: ArrayLike = 1e-3,
    final: ArrayLike = 1.0,
) -> Tracking:
    """Return the cost of going to a goal.

    Args:
        model: the model.
        q: real[nq], where to go.
        v: real[nv], the velocity to have there.
        u: real[nu], the control from which effort is measured.
        act: real[na], the activation of actuators to have there.
        running: weights at every step but the last: one number, or real[2 nv] for the tangent of
            q and for v; these do not weight act, real[2 nv + na] does.
        effort: weights of the control, one number or real[nu]; above 0.
        final: weights at the last step, as `running`.

    Raises:
        ShapeError: where an array does not fit the model.
        ParameterError: for weights that are negative, NaN, or differ within a rotation.
    """
    where = "tracking()"
    weights = {
        "running": _state_weights(where, "running", running, model),
        "effort": real_array(where, "effort", effort, (model.nu,)),
        "final": _state_weights(where, "final", final, model),
    }
    for name, array in weights.items():
        if np.any(array < 0.0):
            raise ParameterError(f"{where}: {name} holds {array.min():g}; it must be >= 0.")
    if np.any(weights["effort"] == 0.0):
        raise ParameterError(
            f"{where}: effort holds 0; it must be > 0, or the control is not determined."
        )
    for _, first in quaternions(model):
        for name in ("running", "final"):
            three = weights[name][first : first + 3]
            if np.ptp(three) != 0.0:
                raise ParameterError(
                    f"{where}: {name}[{first}:{first + 3}] is {three.tolist()}; the three "
                    "weights of a rotation must be equal."
                )
    return Tracking(
        model=model,
        q=real_array(where, "q", q, (model.nq,)),
        v=real_array(where, "v", v, (model.nv,)),
        u=real_array(where, "u", u, (model.nu,)),
        act=real_array(where, "act", act, (model.na,)),
        **weights,
    )


def _state_weights(where: str, name: str, given: ArrayLike, model: Model) -> Array:
    """Return weights of (q, v, act), float64[2 nv + na]; those of act are zero if not given."""
    n, na = 2 * model.nv, model.na
    array = real_numbers(where, name, given)
    if na and array.shape == (n + na,):
        return real_array(where, name, array, (n + na,))
    return np.concatenate([real_array(where, name, array, (n,)), np.zeros(na)])
