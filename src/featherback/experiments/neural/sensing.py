"""Quadrupeds that networks drive from 81 sensors, for the speed table of Degrave et al. (2019)."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

import featherback as fb
import featherback.torch as fbt
from featherback._typing import Array

DT, STEPS = 0.01, 1000  # ten seconds
HARMONICS = 25  # sine and cosine of a clock, and of its multiples
CLOCK = 1.5  # [Hz]
SENSORS = 8 + 8 + 9 + 6 + 2 * HARMONICS
SWING = 0.3  # of a servo's target about the standing pose, at most [rad]
NETWORKS = {"1.3 k": (15,), "1.15 M": (1024, 1024)}  # hidden layers by number of weights


@dataclass(frozen=True)
class Timing:
    """One motion of ten seconds.

    Attributes:
        forward: time without a gradient [s].
        both: time of the motion and of the gradient with respect to all weights [s].
        distance: that the robots came on average, along x [m].
        gradient: length of the gradient of that distance.
    """

    forward: float
    both: float
    distance: float
    gradient: float


def make_network(hidden: tuple[int, ...], seed: int) -> torch.nn.Sequential:
    """Return a network from sensors to eight numbers between -1 and 1."""
    torch.manual_seed(seed)
    layers: list[torch.nn.Module] = []
    for before, after in pairwise((SENSORS, *hidden, 8)):
        layers += [torch.nn.Linear(before, after), torch.nn.Tanh()]
    return torch.nn.Sequential(*layers)


class SensingRobots:
    """Quadrupeds on a floor, each with the same network and a pose of its own.

    Attributes:
        sim: the simulator.
        network: from sensors to servo targets.
    """

    def __init__(self, robots: int, network: torch.nn.Module, rng: np.random.Generator) -> None:
        """Load the robot and draw poses."""
        model = fb.models.quadruped()
        self.sim = fb.Simulator(model, dt=DT, dtype="float32")
        self.network = network
        q, _ = model.keyframe("stand")
        self._stand = self._tensor(np.asarray(q[7:]))
        noise = 0.02 * rng.standard_normal((robots, 8))
        self._q = self._tensor(np.tile(q, (robots, 1)))
        self._q[:, 7:] += self._tensor(noise)
        self._v = torch.zeros((robots, model.nv))
        angle = 2.0 * math.pi * CLOCK * DT * np.outer(np.arange(STEPS), np.arange(1, HARMONICS + 1))
        self._clock = self._tensor(np.concatenate([np.sin(angle), np.cos(angle)], -1))

    @staticmethod
    def _tensor(values: Array) -> Tensor:
        return torch.from_numpy(np.asarray(values, np.float32).copy())

    def sense(self, q: Tensor, v: Tensor, step: int) -> Tensor:
        """Return what a network sees, float32[robots, 81]: joints, trunk and clock."""
        w, x, y, z = q[:, 3:7].unbind(-1)
        rotation = [
            1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
            2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
            2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
        ]  # fmt: skip
        clock = self._clock[step].expand(len(q), -1)
        return torch.cat([q[:, 7:], v[:, 6:], torch.stack(rotation, -1), v[:, :6], clock], -1)

    def distance(self, steps: int) -> Tensor:
        """Return how far the robots come on average [m]."""

        def policy(q: Tensor, v: Tensor, step: int) -> Tensor:
            return self._stand + SWING * self.network(self.sense(q, v, step))

        weights = list(self.network.parameters())
        loop = fbt.closed_loop(self.sim, policy, self._q, self._v, steps, weights=weights)
        return (loop.q[:, -1, 0] - self._q[:, 0]).mean()

    def measure(self, steps: int) -> Timing:
        """Take the motion without and with its gradient."""
        begin = time.perf_counter()
        with torch.no_grad():
            self.distance(steps)
        forward = time.perf_counter() - begin
        begin = time.perf_counter()
        distance = self.distance(steps)
        bars = torch.autograd.grad(distance, list(self.network.parameters()))
        both = time.perf_counter() - begin
        length = float(sum(float(bar.double().square().sum()) for bar in bars)) ** 0.5
        return Timing(forward, both, float(distance.detach()), length)
