"""Soft actor-critic (Haarnoja et al. 2018): two values, their slow copies, a tuned temperature.

The batches of an update and the worth of an action are functions of the learner, so that others,
model-based or first-order, can put theirs in their place.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from featherback.learn.networks import PolicyNetwork, PolicyShape, Twin, move_towards, seeded
from featherback.learn.replay import Replay
from featherback.learn.runner import Runner
from featherback.learn.session import Session, Trained
from featherback.learn.settings import SAC

Batch = dict[str, Tensor]


class Learner:
    """Policy, values, temperature, memory and the environment.

    Attributes:
        widths: columns of samples by name; zero for a number.
        draw_batch: -> samples of an update: observation, action, reward, after, terminated.
        policy_batch: samples of the values' update -> those of the policy's.
        worth: (batch, action) -> what the policy maximizes besides its entropy, real[n].
        observe: called with the columns of a vector step before it is made; returns all of them.
        after_step: called when a vector step is kept.
    """

    def __init__(
        self, settings: SAC, session: Session, extra: dict[str, int] | None = None
    ) -> None:
        """Build the networks and start the worlds; `extra`: widths of further columns."""
        self.settings, self.session = settings, session
        runner = Runner(session.vector_env(settings.worlds), session.seed(0), session.where)
        self.runner = runner
        shape = PolicyShape(
            runner.observations,
            runner.actions,
            settings.hidden,
            activation="relu",
            squash=True,
            wide=True,
            gain=None,
        )
        self.policy: PolicyNetwork = seeded(
            lambda: PolicyNetwork(shape, runner.low, runner.high), settings.seed
        )
        sizes = (runner.observations + runner.actions, *settings.hidden, 1)
        self.values = Twin(sizes, 2, session.generator)
        self.targets = copy.deepcopy(self.values).requires_grad_(False)
        self.log_temperature = nn.ParameterList(
            [nn.Parameter(torch.tensor(settings.temperature).log())]
        )
        widths = {"observation": runner.observations, "action": runner.actions, "reward": 0}
        self.widths = widths | {"after": runner.observations, "terminated": 0, **(extra or {})}
        self.replay = Replay(settings.capacity, self.widths)
        rate = settings.learning_rate
        self.adams = {
            "policy_adam": torch.optim.Adam(self.policy.parameters(), rate, fused=True),
            "values_adam": torch.optim.Adam(self.values.parameters(), rate, fused=True),
            "temperature_adam": torch.optim.Adam(self.log_temperature.parameters(), rate),
        }
        self.draw_batch: Callable[[], Batch] = self.draw
        self.policy_batch: Callable[[Batch], Batch] = lambda batch: batch
        self.worth: Callable[[Batch, Tensor], Tensor] = self.lower_value
        self.observe: Callable[[Batch], Batch] = lambda columns: columns
        self.after_step: Callable[[], None] = lambda: None
        session.start(runner, self.policy, **self.parts)

    @property
    def parts(self) -> dict[str, Any]:
        """What a checkpoint keeps besides policy and environment."""
        own = {"values": self.values, "targets": self.targets, "replay": self.replay}
        return {**own, "temperature": self.log_temperature, **self.adams}

    @property
    def per_iteration(self) -> int:
        """Steps of the environment in one iteration."""
        return self.settings.worlds * self.settings.rollout

    @property
    def temperature(self) -> Tensor:
        """Weight of the entropy."""
        return self.log_temperature[0].detach().exp()

    def iterate(self) -> dict[str, float]:
        """Step the worlds and make updates; return a row of the log."""
        settings, runner = self.settings, self.runner
        losses: list[Tensor] = []
        due = 0.0
        for _ in range(settings.rollout):
            self.step()
            self.after_step()
            due += runner.worlds * settings.update_share
            if self.replay.count < max(settings.warmup, 1):
                due = 0.0
            while due >= 1.0:
                due -= 1.0
                losses += [self.update() for _ in range(settings.repeat)]
        nan = torch.full((3,), float("nan"))
        value, policy, entropy = torch.stack(losses).mean(0) if losses else nan
        return {
            **runner.episodes.row(),
            "value_loss": float(value),
            "policy_loss": float(policy),
            "entropy": float(entropy),
            "temperature": float(self.temperature),
        }

    @torch.no_grad()
    def step(self) -> None:
        """Step all worlds once and keep what happened."""
        runner = self.runner
        observation = runner.observation
        shape = (runner.worlds, runner.actions)
        if self.replay.count < self.settings.warmup:
            action = 2.0 * torch.rand(shape, generator=self.session.generator) - 1.0
        else:
            action, _ = self.policy.draw(observation, self.session.noise(*shape))
        columns = self.observe({"observation": observation, "action": action})
        after, reward, terminated, _ = runner.step(self.policy.scale(action))
        self.replay.add(**columns, reward=reward, after=after, terminated=terminated)

    def draw(self) -> Batch:
        """Return samples of the memory."""
        return self.replay.draw(self.settings.batch, self.session.generator)

    def sample(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Return actions of the policy and the logs of their densities."""
        return self.policy.draw(
            observation, self.session.noise(len(observation), self.runner.actions)
        )

    def soft_value(self, observation: Tensor) -> Tensor:
        """Return the value of observations under the policy and the slow values, real[n]."""
        action, density = self.sample(observation)
        both = self.targets(torch.cat([observation, action], -1))
        return both.amin(0) - self.temperature * density

    def lower_value(self, batch: Batch, action: Tensor) -> Tensor:
        """Return the lower of the two values of actions, real[n]."""
        return self.values(torch.cat([batch["observation"], action], -1)).amin(0)

    def update(self) -> Tensor:
        """Update values, policy and temperature once; return their losses and the entropy."""
        settings, batch = self.settings, self.draw_batch()
        with torch.no_grad():
            ahead = self.soft_value(batch["after"]) * (1.0 - batch["terminated"])
            target = batch["reward"] + settings.gamma * ahead
        both = self.values(torch.cat([batch["observation"], batch["action"]], -1))
        error = (both - target).square().mean(-1).sum()
        self.descend("values_adam", error)
        batch = self.policy_batch(batch)
        action, density = self.sample(batch["observation"])
        loss = (self.temperature * density - self.worth(batch, action)).mean()
        self.descend("policy_adam", loss)
        wanted = -float(self.runner.actions)
        gap = (density.detach().mean() + wanted) * self.log_temperature[0]
        self.descend("temperature_adam", -gap)
        move_towards(self.targets, self.values, 1.0 - settings.target_share)
        return torch.stack([error.detach(), loss.detach(), -density.detach().mean()])

    def descend(self, name: str, loss: Tensor) -> None:
        """Make a step of one of the optimizers."""
        adam = self.adams[name]
        adam.zero_grad()
        inputs = [p for group in adam.param_groups for p in group["params"]]
        torch.autograd.backward(loss, inputs=inputs)
        adam.step()


def train(settings: SAC, session: Session) -> Trained:
    """Train a policy."""
    learner = Learner(settings, session)
    return session.run(learner.iterate, learner.per_iteration)
