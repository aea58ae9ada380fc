"""Proximal policy optimization (Schulman et al. 2017), with generalized advantage estimates.

An episode that is cut by its time limit goes on in the value of its last observation; one that
ends by itself is worth nothing more. Statistics of observations are those of the iterations
before, so that samples and updates see the same policy.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from featherback.learn.networks import PolicyNetwork, PolicyShape, ReturnScale, layers, seeded
from featherback.learn.runner import Runner
from featherback.learn.session import Session, Trained
from featherback.learn.settings import PPO


@dataclass(frozen=True)
class Samples:
    """What the worlds did in one iteration; arrays are [steps, worlds, ...]."""

    observation: Tensor
    action: Tensor
    after: Tensor
    reward: Tensor
    terminated: Tensor
    done: Tensor


class Learner:
    """Policy, value and the environment."""

    def __init__(self, settings: PPO, session: Session) -> None:
        """Build the networks and start the worlds."""
        self.settings, self.session = settings, session
        runner = Runner(session.vector_env(settings.worlds), session.seed(0), session.where)
        shape = PolicyShape(
            runner.observations, runner.actions, settings.hidden, log_std=settings.log_std
        )
        sizes = (runner.observations, *settings.hidden, 1)
        self.runner = runner
        self.policy, self.value = seeded(
            lambda: (
                PolicyNetwork(shape, runner.low, runner.high),
                layers(sizes, "tanh", gain=1.0),
            ),
            settings.seed,
        )
        self.scale = ReturnScale(settings.worlds, settings.gamma)
        parameters = [*self.policy.parameters(), *self.value.parameters()]
        self.parameters: list[nn.Parameter] = parameters
        self.adam = torch.optim.Adam(parameters, settings.learning_rate, eps=1e-5, fused=True)
        session.start(runner, self.policy, value=self.value, adam=self.adam, scale=self.scale)

    @property
    def per_iteration(self) -> int:
        """Steps of the environment in one iteration."""
        return self.settings.worlds * self.settings.rollout

    def iterate(self) -> dict[str, float]:
        """Collect samples, improve the policy, and return a row of the log."""
        settings = self.settings
        if settings.decay:
            left = 1.0 - self.session.steps / settings.steps
            self.adam.param_groups[0]["lr"] = settings.learning_rate * max(left, 0.0)
        samples = self.collect()
        observation = samples.observation.flatten(0, 1)
        action = samples.action.flatten(0, 1)
        with torch.no_grad():
            old, _ = self.policy.log_density(observation, action)
        advantage, target = self.advantages(samples)
        losses: list[Tensor] = []
        for _ in range(settings.epochs):
            order = torch.randperm(len(observation), generator=self.session.generator)
            for rows in order.split(settings.batch):
                batch = (observation[rows], action[rows], old[rows], advantage[rows], target[rows])
                losses.append(self.update(*batch))
        self.policy.normalizer.update(observation)
        clipped, error, kl = (float(x) for x in torch.stack(losses).mean(0))
        return {
            **self.runner.episodes.row(),
            "policy_loss": clipped,
            "value_loss": error,
            "kl": kl,
            "std": float(self.policy.log_std.detach().exp().mean()),
        }

    @torch.no_grad()
    def collect(self) -> Samples:
        """Step the worlds under the policy."""
        rows: list[tuple[Tensor, ...]] = []
        for _ in range(self.settings.rollout):
            observation = self.runner.observation
            noise = self.session.noise(self.runner.worlds, self.runner.actions)
            mean, log_std = self.policy(observation)
            action = mean + log_std.exp() * noise
            after, reward, terminated, truncated = self.runner.step(self.policy.scale(action))
            rows.append((observation, action, after, reward, terminated, terminated | truncated))
        return Samples(*(torch.stack(column) for column in zip(*rows, strict=True)))

    @torch.no_grad()
    def advantages(self, samples: Samples) -> tuple[Tensor, Tensor]:
        """Return generalized advantage estimates and targets of the value, real[steps * worlds]."""
        settings = self.settings
        reward = self.scale(samples.reward, samples.done)
        now, after = self.estimate(samples.observation), self.estimate(samples.after)
        error = reward + settings.gamma * after * ~samples.terminated - now
        keep = settings.gamma * settings.trace_decay * ~samples.done
        advantage = torch.zeros_like(error)
        running = torch.zeros_like(error[0])
        for k in reversed(range(len(error))):
            running = error[k] + keep[k] * running
            advantage[k] = running
        return advantage.flatten(), (advantage + now).flatten()

    def estimate(self, observation: Tensor) -> Tensor:
        """Return the value of observations[..., n]."""
        return self.value(self.policy.normalizer(observation)).squeeze(-1)

    def update(
        self, observation: Tensor, action: Tensor, old: Tensor, advantage: Tensor, target: Tensor
    ) -> Tensor:
        """Make one step of Adam; return the policy's loss, the value's, and the divergence."""
        settings = self.settings
        density, entropy = self.policy.log_density(observation, action)
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        change = density - old
        ratio = change.exp()
        bounded = ratio.clamp(1.0 - settings.ratio_clip, 1.0 + settings.ratio_clip)
        loss = -torch.minimum(ratio * advantage, bounded * advantage).mean()
        error = (self.estimate(observation) - target).square().mean()
        whole = loss + settings.value_weight * error - settings.entropy_weight * entropy.mean()
        self.adam.zero_grad()
        torch.autograd.backward(whole)
        nn.utils.clip_grad_norm_(self.parameters, settings.gradient_norm)
        self.adam.step()
        with torch.no_grad():
            return torch.stack([loss, error, (ratio - 1.0 - change).mean()])


def train(settings: PPO, session: Session) -> Trained:
    """Train a policy."""
    learner = Learner(settings, session)
    return session.run(learner.iterate, learner.per_iteration)
