"""Costs with second derivatives, for methods that need them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from featherback._typing import Array
from featherback.control.controls import real_array
from featherback.errors import ParameterError
from featherback.model import Model
from featherback.model.manifold import difference, quaternions


@dataclass(frozen=True, eq=False)
class Expansion:
    """A cost summed over steps, with derivatives in x = (tangent of q, v) and u at each step.

    Attributes:
        x: float64[steps + 1, 2 nv], first derivative.
        u: float64[steps, nu], first derivative.
        xx: float64[steps + 1, 2 nv, 2 nv], second derivative.
        uu: float64[steps, nu, nu], second derivative.
        ux: float64[steps, nu, 2 nv], mixed second derivative.
    """

    x: Array
    u: Array
    xx: Array
    uu: Array
    ux: Array


class StageCost(Protocol):
    """A cost that is a sum over steps."""

    def total(self, q: Array, v: Array, u: Array) -> Array:
        """Return the cost of each world of q[worlds, steps + 1, nq], v and u."""
        ...

    def expand(self, q: Array, v: Array, u: Array) -> Expansion:
        """Return the derivatives along one trajectory q[steps + 1, nq], v, u."""
        ...


@dataclass(frozen=True, eq=False)
class Tracking:
    """Half the weighted squares of the distance to a goal, of velocity and of control.

    Attributes:
        model: the model.
        q: float64[nq], where to go.
        v: float64[nv], the velocity to have.
        u: float64[nu], the control from which effort is measured.
        running: float64[2 nv], weights of (q error, v error) at every step but the last.
        effort: float64[nu], weights of the control.
        final: float64[2 nv], weights of (q error, v error) at the last step.
    """

    model: Model
    q: Array
    v: Array
    u: Array
    running: Array
    effort: Array
    final: Array

    def errors(self, q: Array, v: Array) -> Array:
        """Return (tangent from the goal to q, velocity error), float64[..., 2 nv]."""
        return np.concatenate([difference(self.model, self.q, q), v - self.v], axis=-1)

    def total(self, q: Array, v: Array, u: Array) -> Array:
        """Return the cost of each world."""
        squares = self.errors(q, v) ** 2
        state = squares[..., :-1, :] @ self.running
        control = (u - self.u) ** 2 @ self.effort
        return 0.5 * ((state + control).sum(axis=-1) + squares[..., -1, :] @ self.final)

    def expand(self, q: Array, v: Array, u: Array) -> Expansion:
        """Return the derivatives; second ones of rotations are those of their linearization."""
        steps, n = u.shape[0], 2 * self.model.nv
        weights = np.concatenate([np.tile(self.running, (steps, 1)), self.final[None]])
        return Expansion(
            x=weights * self.errors(q, v),
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
        running: weights at every step but the last: one number, or real[2 nv] for the tangent of
            q and for v.
        effort: weights of the control, one number or real[nu]; above 0.
        final: weights at the last step, as `running`.

    Raises:
        ShapeError: where an array does not fit the model.
        ParameterError: for weights that are negative, NaN, or differ within a rotation.
    """
    where, n = "tracking()", 2 * model.nv
    weights = {
        "running": real_array(where, "running", running, (n,)),
        "effort": real_array(where, "effort", effort, (model.nu,)),
        "final": real_array(where, "final", final, (n,)),
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
        **weights,
    )
