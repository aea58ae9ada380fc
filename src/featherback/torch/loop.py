"""A closed loop as torch records it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from featherback.sim import Simulator
from featherback.torch import ops
from featherback.torch.functions import roll

# (q, v, number of the step) -> u; where the model has activations (q, v, act, number of the step)
Policy = Callable[..., Tensor]
# the same of flat states
StatePolicy = Callable[[Tensor, int], Tensor]


class Loop:
    """Steps with a policy on flat states; names as in `featherback.torch.ops`."""

    def __init__(self, sim: Simulator, policy: StatePolicy, names: str) -> None:
        """Note what the loop runs; see the class."""
        self.sim, self.policy, self.names = sim, policy, names

    def run(self, first: int, number: int, x: Tensor, *packs: Tensor | None) -> tuple[Tensor, ...]:
        """Return the states after each step, the controls, and the status."""
        states: list[tuple[Tensor, Tensor]] = []
        status = step = None
        for t in range(first, first + number):
            u = self.policy(x, t)
            x, flags = roll(self.sim, self.names, ops.LOOP, x, u, *packs)
            states.append((x, u))
            bits = flags[..., 0]
            if status is None or step is None:
                status, step = bits, torch.full_like(bits, -1)
            step = torch.where((step < 0) & (bits != 0), t, step)
            status = status | bits
        assert status is not None and step is not None
        columns = [torch.stack(column, -2) for column in zip(*states, strict=True)]
        return *columns, torch.stack((status, step), -1)

    def whole(self, steps: int, x: Tensor, *packs: Tensor | None) -> tuple[Tensor, ...]:
        """Return all states, the controls, and the status."""
        xs, us, flags = self.run(0, steps, x, *packs)
        return torch.cat([x.unsqueeze(-2), xs], -2), us, flags
