"""Networks of the learners: layers, policies with their noise, running statistics."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "elu": nn.ELU,
    "relu": nn.ReLU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
}
LOG_STD = (-5.0, 2.0)  # range of a log standard deviation that depends on the observation
CLIP = 10.0  # largest normalised observation
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


def layers(
    sizes: tuple[int, ...], activation: str, *, norm: bool = False, gain: float | None = None
) -> nn.Sequential:
    """Return linear layers with activations between them.

    Args:
        sizes: inputs, units of each hidden layer, outputs.
        activation: key of ACTIVATIONS.
        norm: whether each hidden layer is followed by a layer normalisation.
        gain: of an orthogonal start of the last layer (the others have sqrt(2)); None: torch's own.
    """
    parts: list[nn.Module] = []
    for before, after in pairwise(sizes[:-1]):
        parts += [nn.Linear(before, after), ACTIVATIONS[activation]()]
        if norm:
            parts.append(nn.LayerNorm(after))
    last = nn.Linear(sizes[-2], sizes[-1])
    if gain is not None:
        for part in [*parts, last]:
            if isinstance(part, nn.Linear):
                nn.init.orthogonal_(part.weight, gain if part is last else math.sqrt(2.0))
                nn.init.zeros_(part.bias)
    return nn.Sequential(*parts, last)


class Normalizer(nn.Module):
    """Running mean and variance of observations, kept in double precision."""

    mean: Tensor
    variance: Tensor
    count: Tensor

    def __init__(self, size: int) -> None:
        """Start with mean zero and variance one."""
        super().__init__()
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("variance", torch.ones(size, dtype=torch.float64))
        self.register_buffer("count", torch.tensor(1e-4, dtype=torch.float64))

    @torch.no_grad()
    def update(self, x: Tensor) -> None:
        """Take rows x[n, size] into account."""
        x = x.detach().to(torch.float64)
        mean, variance, n = x.mean(0), x.var(0, unbiased=False), len(x)
        total = self.count + n
        delta = mean - self.mean
        spread = self.variance * self.count + variance * n + delta**2 * self.count * n / total
        self.mean = self.mean + delta * n / total
        self.variance = spread / total
        self.count = total

    def forward(self, x: Tensor) -> Tensor:
        """Return rows with mean zero and variance one, at most CLIP."""
        scale = torch.rsqrt(self.variance + 1e-5).to(x.dtype)
        return ((x - self.mean.to(x.dtype)) * scale).clamp(-CLIP, CLIP)


@dataclass(frozen=True)
class PolicyShape:
    """What a policy network is made of; enough to build it again.

    Attributes:
        observations: length of an observation.
        actions: length of an action.
        hidden: units of the hidden layers.
        activation: key of ACTIVATIONS.
        norm: whether there are layer normalisations.
        squash: whether an action is the tanh of a Gaussian; otherwise a Gaussian that is clipped.
        wide: whether the noise depends on the observation.
        log_std: log of its standard deviation at the start, where it does not.
        gain: of the last layer at the start; None: torch's own start.
    """

    observations: int
    actions: int
    hidden: tuple[int, ...]
    activation: str = "tanh"
    norm: bool = False
    squash: bool = False
    wide: bool = False
    log_std: float = -1.0
    gain: float | None = 0.01


class PolicyNetwork(nn.Module):
    """A Gaussian over actions in units of half their range, given observations."""

    low: Tensor
    high: Tensor

    def __init__(self, shape: PolicyShape, low: Any, high: Any) -> None:
        """Build the network for actions from `low` to `high`."""
        super().__init__()
        self.shape = shape
        outputs = shape.actions * (2 if shape.wide else 1)
        sizes = (shape.observations, *shape.hidden, outputs)
        self.normalizer = Normalizer(shape.observations)
        self.body = layers(sizes, shape.activation, norm=shape.norm, gain=shape.gain)
        if not shape.wide:
            self.log_std = nn.Parameter(torch.full((shape.actions,), shape.log_std))
        self.register_buffer("low", torch.as_tensor(low, dtype=torch.float32).clone())
        self.register_buffer("high", torch.as_tensor(high, dtype=torch.float32).clone())

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log standard deviation before squashing or clipping."""
        out = self.body(self.normalizer(observation))
        if not self.shape.wide:
            return out, self.log_std.expand_as(out)
        mean, log_std = out.chunk(2, -1)
        return mean, log_std.clamp(*LOG_STD)

    def best(self, observation: Tensor) -> Tensor:
        """Return the action without noise, from -1 to 1."""
        mean, _ = self(observation)
        return torch.tanh(mean) if self.shape.squash else mean.clamp(-1.0, 1.0)

    def draw(self, observation: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return an action for unit noise, and the log of its probability density.

        The action is squashed where the policy squashes; otherwise it may lie outside of -1 to 1
        and is clipped on its way to the environment.
        """
        mean, log_std = self(observation)
        x = mean + log_std.exp() * noise
        density = (-0.5 * noise.square() - log_std - HALF_LOG_2PI).sum(-1)
        if not self.shape.squash:
            return x, density
        slope = 2.0 * (math.log(2.0) - x - functional.softplus(-2.0 * x))
        return torch.tanh(x), density - slope.sum(-1)

    def log_density(self, observation: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log density of actions of a policy that does not squash, and the entropy."""
        mean, log_std = self(observation)
        noise = (action - mean) * (-log_std).exp()
        density = (-0.5 * noise.square() - log_std - HALF_LOG_2PI).sum(-1)
        return density, (log_std + 0.5 + HALF_LOG_2PI).sum(-1)

    def scale(self, action: Tensor) -> Tensor:
        """Return actions from -1 to 1 in the units of the environment, clipped to its range."""
        middle, half = 0.5 * (self.high + self.low), 0.5 * (self.high - self.low)
        return middle.to(action.dtype) + half.to(action.dtype) * action.clamp(-1.0, 1.0)


class ReturnScale:
    """Running standard deviation of the discounted return, by which rewards are divided."""

    def __init__(self, worlds: int, gamma: float) -> None:
        """Start with a scale of one."""
        self.gamma = gamma
        self.running = torch.zeros(worlds, dtype=torch.float64)
        self.statistics = Normalizer(1)

    def __call__(self, reward: Tensor, done: Tensor) -> Tensor:
        """Return scaled rewards[steps, worlds] after taking them into account."""
        sums: list[Tensor] = []
        for r, d in zip(reward.to(torch.float64), done, strict=True):
            self.running = self.running * self.gamma + r
            sums.append(self.running)
            self.running = torch.where(d, torch.zeros_like(self.running), self.running)
        self.statistics.update(torch.stack(sums).reshape(-1, 1))
        return reward * torch.rsqrt(self.statistics.variance + 1e-8).to(reward.dtype)

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {"running": self.running, "statistics": self.statistics.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what a checkpoint kept."""
        self.running = state["running"]
        self.statistics.load_state_dict(state["statistics"])


class Twin(nn.Module):
    """Several value networks of one shape as batched matrices: x[n, in] -> values[count, n]."""

    def __init__(self, sizes: tuple[int, ...], count: int, generator: torch.Generator) -> None:
        """Draw the weights of `count` networks with outputs of length one."""
        super().__init__()
        weights: list[nn.Parameter] = []
        for before, after in pairwise(sizes):
            drawn = torch.rand(count, before, after, generator=generator)
            weights.append(nn.Parameter((2.0 * drawn - 1.0) / math.sqrt(before)))
        self.weights = nn.ParameterList(weights)
        self.biases = nn.ParameterList([nn.Parameter(torch.zeros(count, 1, k)) for k in sizes[1:]])
        self.count = count

    def forward(self, x: Tensor) -> Tensor:
        """Return the value of every network."""
        x = x.expand(self.count, *x.shape)
        last = len(self.weights) - 1
        for k, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x, weight)
            if k < last:
                x = torch.relu(x)
        return x.squeeze(-1)


@torch.no_grad()
def move_towards(slow: nn.Module, fast: nn.Module, share: float) -> None:
    """Move the weights of a slow copy towards those of its original, by a share of the way."""
    for old, new in zip(slow.parameters(), fast.parameters(), strict=True):
        old.lerp_(new, share)


def seeded(build: Any, seed: int) -> Any:
    """Return what `build` makes with torch's global generator seeded; its state is put back."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()


def first_not_finite(module: nn.Module) -> str | None:
    """Return the name of the first parameter that holds NaN or infinity, or None."""
    for name, value in module.named_parameters():
        if not bool(torch.isfinite(value).all()):
            return name
    return None
