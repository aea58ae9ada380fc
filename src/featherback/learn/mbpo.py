"""Model-based policy optimization (Janner et al. 2019): SAC on short runs of learnt dynamics.

A small ensemble of networks predicts the change of the observation, the reward, both with their
spread, and whether the episode ends. Runs start at states of the environment; each step is that of
one network, drawn from those with the least error on held-out samples.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from featherback.learn.replay import Replay
from featherback.learn.sac import Batch, Learner
from featherback.learn.session import Session, Trained
from featherback.learn.settings import MBPO

HELD_OUT = 0.1  # share of the samples that no update sees
DECAY = 1e-5  # of the weights
LIMITS = (-4.0, 1.0)  # of the log standard deviation of normalised predictions


class Dynamics(nn.Module):
    """An ensemble of networks: observation and action -> change, reward, end of the episode."""

    inputs: Tensor
    outputs: Tensor
    elite: Tensor

    def __init__(self, sizes: tuple[int, ...], count: int, generator: torch.Generator) -> None:
        """Draw the weights; sizes: inputs, hidden units, length of an observation."""
        super().__init__()
        self.count, self.size = count, sizes[-1]
        ends = (*sizes[:-1], 2 * (self.size + 1) + 1)
        weights: list[nn.Parameter] = []
        for before, after in pairwise(ends):
            drawn = 2.0 * torch.rand(count, before, after, generator=generator) - 1.0
            weights.append(nn.Parameter(drawn / math.sqrt(before)))
        self.weights = nn.ParameterList(weights)
        self.biases = nn.ParameterList([nn.Parameter(torch.zeros(count, 1, k)) for k in ends[1:]])
        # mean and standard deviation of inputs and of outputs
        self.register_buffer("inputs", torch.stack([torch.zeros(sizes[0]), torch.ones(sizes[0])]))
        blank = torch.stack([torch.zeros(self.size + 1), torch.ones(self.size + 1)])
        self.register_buffer("outputs", blank)
        self.register_buffer("elite", torch.arange(count))

    def measure(self, x: Tensor, y: Tensor) -> None:
        """Take the statistics of all samples."""
        self.inputs = torch.stack([x.mean(0), x.std(0) + 1e-6])
        self.outputs = torch.stack([y.mean(0), y.std(0) + 1e-6])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return normalised mean, log standard deviation and the logit of the end, [count, n, ...].

        Args:
            x: real[n, inputs], or real[count, n, inputs] for other samples in every network.
        """
        x = (x - self.inputs[0]) / self.inputs[1]
        x = x if x.ndim == 3 else x.expand(self.count, *x.shape)
        last = len(self.weights) - 1
        for k, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x, weight)
            if k < last:
                x = functional.silu(x)
        mean, spread, end = x.split([self.size + 1, self.size + 1, 1], -1)
        middle, half = 0.5 * (LIMITS[1] + LIMITS[0]), 0.5 * (LIMITS[1] - LIMITS[0])
        return mean, middle + half * torch.tanh(spread), end.squeeze(-1)

    def error(self, x: Tensor, y: Tensor, ended: Tensor) -> Tensor:
        """Return the negative log likelihood of samples, real[count]."""
        mean, log_std, end = self(x)
        miss = ((y - self.outputs[0]) / self.outputs[1] - mean) * (-log_std).exp()
        likely = (0.5 * miss.square() + log_std).mean((-2, -1))
        wanted = ended.expand_as(end)
        hit = functional.binary_cross_entropy_with_logits(end, wanted, reduction="none")
        return likely + hit.mean(-1)

    @torch.no_grad()
    def imagine(
        self, observation: Tensor, action: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return successor, reward and end; every row by one of the elite, drawn at random."""
        n = len(observation)
        mean, log_std, end = self(torch.cat([observation, action], -1))
        chosen = self.elite[torch.randint(0, len(self.elite), (n,), generator=generator)]
        rows = torch.arange(n)
        noise = torch.randn(n, self.size + 1, generator=generator)
        drawn = mean[chosen, rows] + log_std[chosen, rows].exp() * noise
        y = self.outputs[0] + self.outputs[1] * drawn
        return observation + y[:, :-1], y[:, -1], (end[chosen, rows] > 0.0).to(y.dtype)


class Dream:
    """The dynamics of a learner, their memory, and batches that mix both kinds of samples."""

    def __init__(self, settings: MBPO, learner: Learner) -> None:
        """Build the ensemble."""
        self.settings, self.learner = settings, learner
        runner = learner.runner
        sizes = (runner.observations + runner.actions, *settings.model_hidden, runner.observations)
        self.generator = learner.session.generator
        self.dynamics = Dynamics(sizes, settings.ensemble, self.generator)
        self.adam = torch.optim.Adam(
            self.dynamics.parameters(), settings.model_rate, weight_decay=DECAY, fused=True
        )
        widths = {"observation": runner.observations, "action": runner.actions, "reward": 0}
        widths |= {"after": runner.observations, "terminated": 0}
        self.memory = Replay(settings.model_capacity, widths)
        self.fitted = 0
        self.miss = float("nan")

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        parts = {"dynamics": self.dynamics, "adam": self.adam, "memory": self.memory}
        own = {name: part.state_dict() for name, part in parts.items()}
        return {**own, "fitted": self.fitted, "miss": self.miss}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what a checkpoint kept."""
        # the number of the elite is that of the settings once there was a fit
        self.dynamics.elite = state["dynamics"]["elite"]
        self.dynamics.load_state_dict(state["dynamics"])
        self.adam.load_state_dict(state["adam"])
        self.memory.load_state_dict(state["memory"])
        self.fitted, self.miss = state["fitted"], state["miss"]

    def after_step(self) -> None:
        """Fit the dynamics where it is time, and run them."""
        count, settings = self.learner.replay.count, self.settings
        if count < max(settings.warmup, settings.model_batch):
            return
        if self.fitted == 0 or count - self.fitted >= settings.model_every:
            self.fitted = count
            self.fit()
        self.run(settings.model_samples * settings.worlds)

    def fit(self) -> None:
        """Fit all networks to their own draws of the samples, and choose the elite."""
        samples = self.learner.replay.all()
        x = torch.cat([samples["observation"], samples["action"]], -1)
        change = samples["after"] - samples["observation"]
        y = torch.cat([change, samples["reward"][:, None]], -1)
        self.dynamics.measure(x, y)
        order = torch.randperm(len(x), generator=self.generator)
        held = order[: max(1, round(HELD_OUT * len(x)))]
        seen = order[len(held) :]
        shape = (self.settings.ensemble, self.settings.model_batch)
        for _ in range(self.settings.model_updates):
            rows = seen[torch.randint(0, len(seen), shape, generator=self.generator)]
            loss = self.dynamics.error(x[rows], y[rows], samples["terminated"][rows]).sum()
            self.adam.zero_grad()
            torch.autograd.backward(loss)
            self.adam.step()
        with torch.no_grad():
            errors = self.dynamics.error(x[held], y[held], samples["terminated"][held])
        best = errors.argsort()[: self.settings.elites]
        self.dynamics.elite = best
        self.miss = float(errors[best].mean())

    def run(self, count: int) -> None:
        """Run the dynamics under the policy from states of the environment; keep the samples."""
        with torch.no_grad():
            observation = self.learner.replay.draw(count, self.generator)["observation"]
            for _ in range(self.settings.model_horizon):
                action, _ = self.learner.sample(observation)
                after, reward, end = self.dynamics.imagine(observation, action, self.generator)
                rows = {"observation": observation, "action": action, "reward": reward}
                self.memory.add(**rows, after=after, terminated=end)
                observation = after[end == 0.0]
                if not len(observation):
                    return

    def draw(self) -> Batch:
        """Return a batch of both kinds of samples."""
        if not len(self.memory):
            return self.learner.draw()
        imagined = round(self.settings.model_share * self.settings.batch)
        parts = [self.memory.draw(imagined, self.generator)]
        parts.append(self.learner.replay.draw(self.settings.batch - imagined, self.generator))
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}

    def row(self) -> dict[str, float]:
        """Return what the log says of the dynamics."""
        return {"model_error": self.miss}


def train(settings: MBPO, session: Session) -> Trained:
    """Train a policy."""
    learner = Learner(settings, session)
    dream = Dream(settings, learner)
    learner.draw_batch, learner.after_step = dream.draw, dream.after_step
    session.parts["dream"] = dream
    return session.run(lambda: {**learner.iterate(), **dream.row()}, learner.per_iteration)
