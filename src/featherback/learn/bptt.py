"""Backpropagation through whole episodes: the exact gradient of the return of a policy.

Every iteration runs one episode in every world with noise in the actions and follows the gradient
of the mean return. There is no value network: what is not in the episode does not count.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from featherback.errors import OptimizationError
from featherback.learn.gradient_runner import GradientRunner
from featherback.learn.networks import PolicyNetwork, PolicyShape, seeded
from featherback.learn.session import Session, Trained
from featherback.learn.settings import BPTT

LAST_RATE = 0.1  # share of the learning rate that is left at the end


class Learner:
    """The policy and the environment."""

    def __init__(self, settings: BPTT, session: Session) -> None:
        """Build the network and start the worlds."""
        self.settings, self.session = settings, session
        runner = GradientRunner(session.gradient_env(), session.seed(0), session.where)
        shape = PolicyShape(
            runner.observations,
            runner.actions,
            settings.hidden,
            activation="elu",
            norm=True,
            squash=True,
            log_std=settings.log_std,
            gain=None,
        )
        self.runner = runner
        self.policy: PolicyNetwork = seeded(
            lambda: PolicyNetwork(shape, runner.low, runner.high), settings.seed
        )
        rate = settings.learning_rate
        self.adam = torch.optim.Adam(self.policy.parameters(), rate, betas=(0.7, 0.95), fused=True)
        session.start(runner, self.policy, adam=self.adam)

    @property
    def per_iteration(self) -> int:
        """Steps of the environment in one iteration."""
        return self.settings.worlds * self.settings.horizon

    def iterate(self) -> dict[str, float]:
        """Run an episode in every world, follow the gradient, and return a row of the log."""
        settings = self.settings
        left = max(1.0 - self.session.steps / settings.steps, LAST_RATE)
        self.adam.param_groups[0]["lr"] = settings.learning_rate * left
        worth = self.episode()
        self.adam.zero_grad()
        torch.autograd.backward(-worth.mean())
        length = nn.utils.clip_grad_norm_(self.policy.parameters(), settings.gradient_norm)
        if not bool(torch.isfinite(length)):
            raise OptimizationError("the gradient of the return is NaN or infinite")
        self.adam.step()
        return {
            **self.runner.episodes.row(),
            "gradient_norm": float(length),
            "std": float(self.policy.log_std.detach().exp().mean()),
        }

    def episode(self) -> Tensor:
        """Return the discounted return of one episode in every world, with its graph."""
        runner, settings = self.runner, self.settings
        runner.reset(self.session.seed(3, self.session.iteration))
        worth = torch.zeros(settings.worlds)
        weight = torch.ones(settings.worlds)
        for _ in range(settings.horizon):
            noise = self.session.noise(settings.worlds, runner.actions)
            action, _ = self.policy.draw(runner.observation, noise)
            _, reward, terminated, truncated = runner.step(self.policy.scale(action))
            worth = worth + weight * reward
            # an episode counts once; a world that ends early waits for the others
            weight = torch.where(terminated | truncated, torch.zeros_like(weight), weight)
            weight = weight * settings.gamma
            if not bool(weight.any()):
                break
        return worth


def train(settings: BPTT, session: Session) -> Trained:
    """Train a policy."""
    learner = Learner(settings, session)
    return session.run(learner.iterate, learner.per_iteration)
