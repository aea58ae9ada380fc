"""Networks whose weights are one vector, and Adam on it, kept in the saved state of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from featherback._typing import Array
from featherback.experiments.context import Context


@dataclass(frozen=True)
class Network:
    """Layers with rectifiers between them; the weights are passed in.

    Attributes:
        sizes: numbers of inputs, of units in each hidden layer, and of outputs.
    """

    sizes: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of weights."""
        return sum((before + 1) * after for before, after in pairwise(self.sizes))

    def start(self, rng: np.random.Generator) -> Array:
        """Return random weights, float64[size]; those of the last layer are zero."""
        parts: list[Array] = []
        last = len(self.sizes) - 2
        for layer, (before, after) in enumerate(pairwise(self.sizes)):
            bound = 0.0 if layer == last else before**-0.5
            parts.append(rng.uniform(-bound, bound, (before + 1) * after))
        return np.concatenate(parts)

    def __call__(self, weights: Tensor, x: Tensor) -> Tensor:
        """Return real[(networks,) n, out] of weights[(networks,) size] and x[(networks,) n, in]."""
        at = 0
        last = len(self.sizes) - 2
        for layer, (before, after) in enumerate(pairwise(self.sizes)):
            end = at + before * after
            matrix = weights[..., at:end].unflatten(-1, (before, after))
            offset = weights[..., None, end : end + after]
            x = x @ matrix + offset
            if layer < last:
                x = torch.relu(x)
            at = end + after
        return x


@dataclass
class Training:
    """Adam on one vector of weights; goes on from where a stopped run was.

    Attributes:
        context: the run, which keeps weights and moments.
        weights: real[size], the vector that is trained.
        clip: largest length of a gradient; a longer one is shortened.
        done: updates made.
    """

    context: Context
    weights: Tensor
    clip: float = 1.0
    done: int = 0
    _adam: torch.optim.Adam = field(init=False)

    def __post_init__(self) -> None:
        """Take over what a stopped run kept."""
        self.weights.requires_grad_()
        self._adam = torch.optim.Adam([self.weights])
        kept = self.context.kept("weights")
        if kept is not None:
            with torch.no_grad():
                self.weights.copy_(torch.from_numpy(kept[0]))
            self.done = int(cast(Any, self.context.kept("updates")))
            self._adam.state[self.weights] = {
                "step": torch.tensor(float(cast(Any, self.context.kept("moments")))),
                "exp_avg": torch.from_numpy(kept[1].copy()),
                "exp_avg_sq": torch.from_numpy(kept[2].copy()),
            }

    def restart(self, weights: Array) -> None:
        """Go on from other weights, without the moments of the updates before."""
        with torch.no_grad():
            self.weights.copy_(torch.from_numpy(weights))
        self._adam.state.clear()

    def update(self, loss: Tensor, rate: float) -> None:
        """Make one update against the gradient of a loss."""
        self._adam.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_([self.weights], self.clip)
        self._adam.param_groups[0]["lr"] = rate
        self._adam.step()
        self.done += 1

    def keep(self) -> None:
        """Keep weights and moments for `--resume`."""
        state = self._adam.state.get(self.weights, {})
        zero = torch.zeros_like(self.weights)
        moments = (state.get(name, zero).detach().numpy() for name in ("exp_avg", "exp_avg_sq"))
        step = float(state.get("step", 0.0))
        self.context.keep(
            weights=np.stack([self.vector, *moments]), updates=self.done, moments=step
        )

    @property
    def vector(self) -> Array:
        """The weights as they are now, float64[size]."""
        return self.weights.detach().numpy().copy()
