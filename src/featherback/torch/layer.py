"""The simulator as a module whose physical parameters can be learnt."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from featherback.errors import ParameterError
from featherback.sim import Simulator
from featherback.sim.bridge import refuse_unknown, refuse_without_gradient
from featherback.torch.closed_loop import ClosedLoop, Policy, closed_loop
from featherback.torch.inputs import DTYPES, check_simulator, check_tensor
from featherback.torch.rollout import Params, Trajectory, rollout, step

WHERE = "featherback.torch.SimulatorLayer()"


class SimulatorLayer(torch.nn.Module):
    """A simulator whose physical parameters are parameters of a module.

    They are attributes by their names: `layer.body_mass`. Copies of a layer share its simulator.

    Args:
        sim: the simulator.
        params: names of parameters, which start from the simulator's values, or tensors by name,
            in the shapes that `rollout` takes.

    Attributes:
        sim: the simulator.
    """

    sim: Simulator

    def __init__(self, sim: Simulator, params: Iterable[str] | Params = ()) -> None:
        """Register the parameters; see the class."""
        super().__init__()
        bridge = check_simulator(WHERE, sim)
        if isinstance(params, str):
            raise ParameterError(
                f'{WHERE}: params is the text "{params}"; pass a list of names, such as '
                f'["{params}"].'
            )
        if not isinstance(params, Iterable):
            raise ParameterError(
                f"{WHERE}: params is of type {type(params).__name__}; pass a list of names, such "
                'as ["body_mass"], or a dict from names to tensors.'
            )
        names = [str(name) for name in params]
        for name in names:
            refuse_unknown(WHERE, name, list(bridge.shapes))
        refuse_without_gradient(WHERE, dict.fromkeys(names))
        given = params if isinstance(params, Mapping) else {}
        self.sim = sim
        self._names = tuple(names)
        for name in names:
            value = given.get(name)
            if value is None:
                real = DTYPES[bridge.real]
                value = torch.tensor(sim.params[name], dtype=real, device=bridge.place)
            check_tensor(WHERE, f'params["{name}"]', value, bridge)
            self.register_parameter(name, torch.nn.Parameter(value.detach().clone()))

    @property
    def params(self) -> dict[str, Tensor]:
        """The physical parameters of this layer, by name."""
        return {name: getattr(self, name) for name in self._names}

    def forward(
        self,
        q: Tensor,
        v: Tensor,
        u: Tensor | None = None,
        *,
        steps: int | None = None,
        act: Tensor | None = None,
        warm: Tensor | None = None,
    ) -> Trajectory:
        """Return the rollout from (q, v, act) under u; see `featherback.torch.rollout`."""
        return rollout(self.sim, q, v, u, self.params, steps=steps, act=act, warm=warm)

    def step(
        self,
        q: Tensor,
        v: Tensor,
        u: Tensor | None = None,
        *,
        act: Tensor | None = None,
        warm: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """Return the next q and v, and act where there is one; see `featherback.torch.step`."""
        return step(self.sim, q, v, u, self.params, act=act, warm=warm)

    def closed_loop(
        self, policy: Policy, q: Tensor, v: Tensor, steps: int, **options: Any
    ) -> ClosedLoop:
        """Return a rollout with a policy; see `featherback.torch.closed_loop`."""
        return closed_loop(self.sim, policy, q, v, steps, self.params, **options)

    def extra_repr(self) -> str:
        """Return the simulator and the names of the parameters."""
        return f"{self.sim!r}, params=[{', '.join(self._names)}]"

    def __deepcopy__(self, memo: dict[int, Any]) -> SimulatorLayer:
        """Return a copy of the parameters with the same simulator."""
        memo[id(self.sim)] = self.sim
        other = type(self).__new__(type(self))
        memo[id(self)] = other
        other.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return other
