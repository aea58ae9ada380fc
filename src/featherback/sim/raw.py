"""Rollouts on arrays that are already checked, for bridges to frameworks.

A bridge knows a simulator by its handle, a text, since an operator of a framework takes arrays,
numbers and texts only.
"""

from __future__ import annotations

import itertools
import weakref
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from featherback.errors import ParameterError
from featherback.sim.directions import theta_direction
from featherback.sim.replay import Replay
from featherback.sim.schedule import Schedule
from featherback.sim.tangent import Params, Tangents

Real = NDArray[np.floating]

_handles = itertools.count(1)
_simulators: weakref.WeakValueDictionary[str, Raw] = weakref.WeakValueDictionary()


class Signature(NamedTuple):
    """What a bridge knows of a simulator before it calls it.

    Attributes:
        handle: name of the simulator, never used again in this process.
        model: name of the model.
        dtype: "float64" or "float32".
        nq: length of a configuration.
        nv: length of a velocity.
        nu: length of a control.
    """

    handle: str
    model: str
    dtype: str
    nq: int
    nv: int
    nu: int


class States(NamedTuple):
    """States of a rollout, with what went wrong in it.

    Attributes:
        q: real[worlds, steps + 1, nq].
        v: real[worlds, steps + 1, nv].
        status: uint32[worlds], bits of `Status`.
        status_step: int32[worlds], step at which the first bit was set, -1 for none.
    """

    q: Real
    v: Real
    status: NDArray[np.uint32]
    status_step: NDArray[np.int32]


class Raw(Tangents):
    """The part of a Simulator that bridges call; arrays are contiguous and of its number type.

    Attributes:
        signature: what a bridge asks for.
        param_shapes: shapes of the parameters, by name.
    """

    signature: Signature
    param_shapes: dict[str, tuple[int, ...]]

    def _sign(self) -> None:
        """Give this simulator a handle."""
        m = self.model
        handle = f"{m.name}#{next(_handles)}"
        self.signature = Signature(handle, m.name, self.dtype.name, m.nq, m.nv, m.nu)
        self.param_shapes = {name: a.shape for name, a in self._base.items()}
        _simulators[handle] = self

    def raw_theta(self, where: str, params: Params, worlds: int | None) -> Real | None:
        """Return all parameters as real[(worlds,) n], or None where none is given.

        Args:
            where: what the sentence of an error starts with.
            params: parameters by name, in their own shape or with a leading world axis.
            worlds: number of worlds; None where there is no world axis.
        """
        return self._theta(where, params, worlds)

    def raw_direction(
        self, where: str, dparams: dict[str, Real], worlds: int | None
    ) -> Real | None:
        """Return a direction in all parameters, as `raw_theta` returns the parameters."""
        return theta_direction(where, self._base, dparams, worlds, self.dtype)

    def raw_rollout(
        self, q: Real, v: Real, u: Real | None, steps: int, theta: Real | None
    ) -> States:
        """Roll out.

        Args:
            q: real[worlds, nq].
            v: real[worlds, nv].
            u: real[(worlds,) steps, nu]; None where the model has no controls.
            steps: number of steps.
            theta: what `raw_theta` returned.
        """
        worlds = len(q)
        qs = np.empty((worlds, steps + 1, q.shape[1]), self.dtype)
        vs = np.empty((worlds, steps + 1, v.shape[1]), self.dtype)
        qs[:, 0], vs[:, 0] = q, v
        status, step = np.zeros(worlds, np.uint32), np.full(worlds, -1, np.int32)
        if worlds and steps:
            arrays = {"q": qs, "v": vs, "status": status, "status_step": step}
            self._engine.rollout({**arrays, "u": u, "theta": theta}, None)
        return States(qs, vs, status, step)

    def raw_replay(
        self,
        states: tuple[Real, Real, Real | None],
        theta: Real | None,
        given: dict[str, tuple[int, ...]],
    ) -> Replay:
        """Return a rollout whose derivatives can be asked for.

        Args:
            states: q, v real[worlds, steps + 1, n] and u as given to `raw_rollout`.
            theta: what `raw_theta` returned.
            given: shapes of the parameters whose gradient is wanted, as they were given.
        """
        q, v, u = states
        steps = q.shape[1] - 1
        plan = Schedule(steps, max(steps, 1), 0, True)
        kept = np.arange(steps + 1)
        return Replay(self._engine, self._base, theta, given, kept, q, v, u, plan)


def simulator_of(handle: str) -> Raw:
    """Return the simulator with this handle, or refuse where it is gone."""
    sim = _simulators.get(handle)
    if sim is None:
        raise ParameterError(
            f'the simulator with handle "{handle}" is gone; keep it in a variable as long as '
            "results of it are differentiated."
        )
    return sim
