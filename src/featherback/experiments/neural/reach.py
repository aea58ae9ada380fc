"""The reaching arm as a task for a network: targets, the closed loop, and its errors."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

import featherback as fb
import featherback.torch as fbt
from featherback._typing import Array
from featherback.experiments.neural.networks import Network
from featherback.models.reaching import JOINTS, reacher

NETWORK = Network((7, 124, 124, 4))  # tip to target [m] and joint angles -> change of the servos
DECISIONS, HOLD = 10, 20  # the network is asked 10 times, every 20 steps of 10 ms
GAIN = 0.5  # change of a servo's target for an output of one [rad]
COUNTED = 3  # decisions whose distance from the target is not part of the loss
POSES = 100_000  # drawn to find the reachable set
CELL = 0.05  # edge of the cells by which it is made even [m]


@dataclass(frozen=True)
class ReachBatch:
    """What the arm did, for many targets at once.

    Attributes:
        q: real[worlds, steps + 1, 4].
        v: real[worlds, steps + 1, 4].
        u: real[worlds, steps, 4], servo targets.
        distance: real[decisions, worlds], of the tip from the target after each decision [m].
    """

    q: Tensor
    v: Tensor
    u: Tensor
    distance: Tensor


class Reach:
    """The arm, its reachable set, and a network in the loop.

    Attributes:
        sim: the simulator.
        points: float64[POSES, 3], tips of poses with joints drawn evenly from their ranges [m].
        chances: float64[POSES], of each point, so that every cell of the set is as likely.
    """

    def __init__(self) -> None:
        """Find the reachable set; it is the same in every run."""
        self.sim = fb.Simulator(reacher(), threads=min(os.cpu_count() or 1, 8))
        self.limits = np.array([joint[2] for joint in JOINTS])
        poses = np.random.default_rng(0).uniform(-self.limits, self.limits, (POSES, len(JOINTS)))
        self.points = np.asarray(self.sim.site_positions(poses)[:, 0], np.float64)
        cells = np.floor(self.points / CELL).astype(np.int64)
        _, which, counts = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
        share = 1.0 / counts[which.ravel()]
        self.chances = share / share.sum()

    def targets(self, key: tuple[int, ...], count: int) -> Tensor:
        """Return points of the reachable set, real[count, 3], the same for the same key [m]."""
        rng = np.random.default_rng(key)
        return torch.from_numpy(self.points[rng.choice(POSES, count, p=self.chances)])

    def move(self, weights: Tensor, targets: Tensor) -> ReachBatch:
        """Move from the upright arm to targets[n, 3] by weights of one network, or of several."""
        networks = weights.shape[:-1]
        goal = targets.expand(*networks, *targets.shape).reshape(-1, 3)
        q = goal.new_zeros(len(goal), len(JOINTS))
        v, target = torch.zeros_like(q), torch.zeros_like(q)
        ends = torch.from_numpy(self.limits)
        states, controls, distances = [(q[:, None], v[:, None])], list[Tensor](), list[Tensor]()
        for _ in range(DECISIONS):
            seen = torch.cat([goal - fbt.site_positions(self.sim, q)[:, 0], q], -1)
            change = NETWORK(weights, seen.reshape(*networks, -1, 7)).reshape(-1, len(JOINTS))
            target = torch.minimum(torch.maximum(target + GAIN * change, -ends), ends)
            held = target[:, None].expand(-1, HOLD, -1)
            roll = fbt.rollout(self.sim, q, v, held)
            q, v = roll.q[:, -1], roll.v[:, -1]
            states.append((roll.q[:, 1:], roll.v[:, 1:]))
            controls.append(held)
            tip = fbt.site_positions(self.sim, q)[:, 0]
            distances.append(torch.linalg.vector_norm(tip - goal, dim=-1))
        qs, vs = (torch.cat(parts, 1) for parts in zip(*states, strict=True))
        return ReachBatch(qs, vs, torch.cat(controls, 1), torch.stack(distances))

    def loss(self, weights: Tensor, targets: Tensor) -> Tensor:
        """Return the distance after the first decisions, averaged over time and targets [m]."""
        return self.move(weights, targets).distance[COUNTED:].mean()

    def errors(self, weights: Array, targets: Tensor) -> Array:
        """Return the distance at the end for each target, float64[n] [m]."""
        with torch.no_grad():
            return self.move(torch.from_numpy(weights), targets).distance[-1].numpy()


@dataclass(frozen=True)
class Population:
    """What CMA-ES minimizes: the loss of the weights, without bounds, over a batch of targets."""

    reach: Reach
    targets: Tensor
    size: int = NETWORK.size
    lower: Array = field(default_factory=lambda: np.full(NETWORK.size, -np.inf))
    upper: Array = field(default_factory=lambda: np.full(NETWORK.size, np.inf))

    def values(self, x: Array) -> Array:
        """Return the losses of x[networks, size] [m]."""
        with torch.no_grad():
            distance = self.reach.move(torch.from_numpy(x), self.targets).distance[COUNTED:]
        return distance.mean(0).reshape(len(x), -1).mean(-1).numpy()
