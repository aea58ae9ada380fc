"""Short-horizon actor-critic (Xu et al. 2022): gradients through a few steps of the simulator.

The policy follows the exact gradient of the rewards over a short horizon plus the value of the
state behind it. The value learns targets of TD(lambda) and has a slow copy for what lies ahead.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from featherback.errors import OptimizationError
from featherback.learn.gradient_runner import GradientRunner
from featherback.learn.networks import PolicyNetwork, PolicyShape, layers, move_towards, seeded
from featherback.learn.session import Session, Trained
from featherback.learn.settings import SHAC

LAST_RATE = 0.05  # share of the learning rate that is left at the end


@dataclass
class Window:
    """What the worlds did over one horizon; lists of [worlds, ...] by step."""

    observation: list[Tensor] = field(default_factory=list[Tensor])
    reward: list[Tensor] = field(default_factory=list[Tensor])
    ahead: list[Tensor] = field(default_factory=list[Tensor])
    done: list[Tensor] = field(default_factory=list[Tensor])


class Learner:
    """Policy, value, its slow copy and the environment."""

    def __init__(self, settings: SHAC, session: Session) -> None:
        """Build the networks and start the worlds."""
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
        sizes = (runner.observations, *settings.hidden, 1)
        self.runner = runner
        self.policy, self.value = seeded(
            lambda: (
                PolicyNetwork(shape, runner.low, runner.high),
                layers(sizes, "elu", norm=True),
            ),
            settings.seed,
        )
        last: nn.Linear = self.policy.body[-1]
        with torch.no_grad():
            last.weight.mul_(0.1)
            last.bias.zero_()
        self.target = copy.deepcopy(self.value).requires_grad_(False)
        betas = (0.7, 0.95)
        rate = settings.learning_rate
        self.adam = torch.optim.Adam(self.policy.parameters(), rate, betas=betas, fused=True)
        self.value_adam = torch.optim.Adam(
            self.value.parameters(), settings.value_rate, betas=betas, fused=True
        )
        session.start(
            runner,
            self.policy,
            value=self.value,
            target=self.target,
            adam=self.adam,
            value_adam=self.value_adam,
        )

    @property
    def per_iteration(self) -> int:
        """Steps of the environment in one iteration."""
        return self.settings.worlds * self.settings.horizon

    def iterate(self) -> dict[str, float]:
        """Follow the gradient of the policy, then fit the value; return a row of the log."""
        settings = self.settings
        left = max(1.0 - self.session.steps / settings.steps, LAST_RATE)
        self.adam.param_groups[0]["lr"] = settings.learning_rate * left
        window, worth = self.roll()
        self.adam.zero_grad()
        torch.autograd.backward(-worth / self.per_iteration)
        length = nn.utils.clip_grad_norm_(self.policy.parameters(), settings.gradient_norm)
        if not bool(torch.isfinite(length)):
            raise OptimizationError("the gradient of the policy is NaN or infinite")
        self.adam.step()
        self.runner.detach()
        error = self.fit_value(window)
        self.policy.normalizer.update(torch.cat(window.observation))
        return {
            **self.runner.episodes.row(),
            "value_loss": error,
            "gradient_norm": float(length),
            "std": float(self.policy.log_std.detach().exp().mean()),
        }

    def roll(self) -> tuple[Window, Tensor]:
        """Step the worlds over the horizon; return what happened and what it is worth."""
        settings, runner = self.settings, self.runner
        window = Window()
        worth = torch.zeros(())
        total = torch.zeros(settings.worlds)
        weight = torch.ones(settings.worlds)
        for k in range(settings.horizon):
            observation = runner.observation
            noise = self.session.noise(settings.worlds, runner.actions)
            action, _ = self.policy.draw(observation, noise)
            after, reward, terminated, truncated = runner.step(self.policy.scale(action))
            done = terminated | truncated
            ahead = self.estimate(self.target, after)
            ahead = torch.where(terminated, torch.zeros_like(ahead), ahead)
            total = total + weight * reward
            # a world's sum is closed where its episode or the horizon ends
            closed = done if k < settings.horizon - 1 else torch.ones_like(done)
            whole = total + settings.gamma * weight * ahead
            worth = worth + torch.where(closed, whole, torch.zeros_like(whole)).sum()
            total = torch.where(done, torch.zeros_like(total), total)
            weight = torch.where(done, torch.ones_like(weight), settings.gamma * weight)
            window.observation.append(observation.detach())
            window.reward.append(reward.detach())
            window.ahead.append(ahead.detach())
            window.done.append(done)
        return window, worth

    def estimate(self, value: nn.Module, observation: Tensor) -> Tensor:
        """Return the value of observations[..., n] by one of the two networks."""
        return value(self.policy.normalizer(observation)).squeeze(-1)

    def fit_value(self, window: Window) -> float:
        """Fit the value to targets of TD(lambda), move its slow copy, return the mean error."""
        settings = self.settings
        observation = torch.cat(window.observation)
        target = torch.cat(self.targets(window))
        errors: list[Tensor] = []
        for _ in range(settings.value_epochs):
            order = torch.randperm(len(target), generator=self.session.generator)
            for rows in order.chunk(settings.value_batches):
                found = self.estimate(self.value, observation[rows])
                error = (found - target[rows]).square().mean()
                self.value_adam.zero_grad()
                torch.autograd.backward(error)
                nn.utils.clip_grad_norm_(self.value.parameters(), 1.0)
                self.value_adam.step()
                errors.append(error.detach())
        move_towards(self.target, self.value, 1.0 - settings.target_share)
        return float(torch.stack(errors).mean())

    @torch.no_grad()
    def targets(self, window: Window) -> list[Tensor]:
        """Return the targets of TD(lambda), real[worlds] for each step."""
        settings = self.settings
        out: list[Tensor] = []
        later = window.ahead[-1]
        for k in reversed(range(settings.horizon)):
            ahead = window.ahead[k]
            mixed = (1.0 - settings.trace_decay) * ahead + settings.trace_decay * later
            cut = window.done[k] if k < settings.horizon - 1 else torch.ones_like(window.done[k])
            later = window.reward[k] + settings.gamma * torch.where(cut, ahead, mixed)
            out.append(later)
        return out[::-1]


def train(settings: SHAC, session: Session) -> Trained:
    """Train a policy."""
    learner = Learner(settings, session)
    return session.run(learner.iterate, learner.per_iteration)
