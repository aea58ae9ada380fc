"""What a rollout returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from featherback.errors import WorldError
from featherback.sim.status import Status, describe

Real = NDArray[np.floating]
# (q, v, u, q_bar, v_bar) -> gradient, bound by the simulator to its engine and parameters
Backward = Callable[["Rollout", ArrayLike | None, ArrayLike | None], "Gradient"]


@dataclass(frozen=True, eq=False)
class Gradient:
    """Gradient of a loss on a trajectory. World axes are those of the rollout.

    Attributes:
        q: real[(worlds,) nq], with respect to the initial configuration, ambient: it includes the
            normalisation of quaternions, so plain finite differences in q agree with it.
        v: real[(worlds,) nv], with respect to the initial velocity.
        u: real[(worlds,) steps, nu], with respect to the controls; one for each world.
        params: by name, for the parameters that were given to the rollout, in the shape they had:
            summed over the worlds where all shared them.
    """

    q: Real
    v: Real
    u: Real
    params: dict[str, Real]


@dataclass(frozen=True, eq=False)
class Rollout:
    """A trajectory. The leading world axis is there only if the input had one.

    Its arrays are read-only, since `vjp` runs the steps again from them; copy them to change them.

    Attributes:
        q: real[(worlds,) steps + 1, nq], the first row is the initial configuration.
        v: real[(worlds,) steps + 1, nv].
        u: real[(worlds,) steps, nu], the controls; no world axis where all worlds share them.
        status: uint32[worlds], bits of `Status`; a scalar array for one world.
        status_step: int32[worlds], step at which the first bit was set, -1 for none.
        residual: real[worlds], largest residual of the contact solve in any step [m/s].
        sweeps: real[worlds], largest number of Gauss-Seidel sweeps in one step.
        dt: step [s]; real[worlds] where each world has its own.
        backward: what `vjp` calls.
    """

    q: Real
    v: Real
    u: Real
    status: NDArray[np.uint32]
    status_step: NDArray[np.int32]
    residual: Real
    sweeps: Real
    dt: float | Real
    backward: Backward = field(repr=False)

    def __post_init__(self) -> None:
        """Make the arrays read-only."""
        arrays = (self.q, self.v, self.u, self.status, self.status_step, self.residual, self.sweeps)
        for array in (*arrays, self.dt):
            if isinstance(array, np.ndarray):
                array.setflags(write=False)

    @property
    def steps(self) -> int:
        """Number of steps."""
        return int(self.q.shape[-2]) - 1

    @property
    def ok(self) -> bool:
        """Whether no world has a status bit set."""
        return not np.any(self.status)

    def describe_status(self) -> str:
        """Return a text that names each world that is not OK, and what to do."""
        return describe(np.atleast_1d(self.status), np.atleast_1d(self.status_step))

    def raise_if_bad(self) -> None:
        """Raise WorldError if any world has a status bit set."""
        if not self.ok:
            raise WorldError(f"rollout(): {self.describe_status()}")

    def vjp(self, q_bar: ArrayLike | None = None, v_bar: ArrayLike | None = None) -> Gradient:
        """Return the gradient of a loss with respect to initial state, controls and parameters.

        The parameters are those that were passed to the rollout.

        Args:
            q_bar: derivative of the loss with respect to `q`, same shape; zero when None.
            v_bar: derivative of the loss with respect to `v`, same shape; zero when None.

        Raises:
            WorldError: where a step has no gradient, or a world left the finite numbers.
            ParameterError: where a parameter given to the rollout has no gradient, or q_bar or
                v_bar holds a NaN or infinity.
            ShapeError: where q_bar or v_bar has another shape than `q` or `v`.
        """
        self._refuse_nonfinite()
        return self.backward(self, q_bar, v_bar)

    def _refuse_nonfinite(self) -> None:
        """Refuse a gradient through a NaN or infinity, by world and step."""
        bad = np.atleast_1d(self.status) & np.uint32(Status.NONFINITE)
        if not np.any(bad):
            return
        # the word's step may be that of another bit; the first row that is not finite says it
        rows = [np.isfinite(a).all(axis=-1).reshape(len(bad), -1) for a in (self.q, self.v)]
        finite = rows[0] & rows[1]
        first = np.maximum(np.argmin(finite, axis=1) - 1, 0)
        step = np.where(finite.all(axis=1), np.atleast_1d(self.status_step), first)
        raise WorldError(f"vjp(): {describe(bad, step.astype(np.int32))}")
