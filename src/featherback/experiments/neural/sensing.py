"""Quadrupeds that networks drive from 81 sensors, for the speed table of Degrave et al. (2019)."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

import featherback as fb
import featherback.torch as fbt
from featherback._typing import Array
from featherback.sim.bridge import bridge_of

DT, STEPS = 0.01, 1000  # ten seconds
HARMONICS = 25  # sine and cosine of a clock, and of its multiples
CLOCK = 1.5  # [Hz]
SENSORS = 8 + 8 + 9 + 6 + 2 * HARMONICS
SWING = 0.3  # of a servo's target about the standing pose, at most [rad]
NETWORKS = {"1.3 k": (15,), "1.15 M": (1024, 1024)}  # hidden layers by number of weights
# room that these robots never need more of; it keeps the scratch of a GPU small
ROOM: dict[str, Any] = {"max_contacts": 8, "max_sweeps": 30}
# what keeps a row from being measured, such as memory or a step without gradient
FAILURES = (fb.FeatherbackError, MemoryError, RuntimeError)


@dataclass(frozen=True)
class Timing:
    """One motion of ten seconds.

    Attributes:
        forward: time without a gradient [s]; infinite where there is no motion.
        both: time of the motion and of the gradient with respect to all weights [s]; infinite
            where there is no gradient.
        distance: that the robots came on average, along x [m].
        gradient: length of the gradient of that distance.
        flagged: robots whose status is not OK.
        missing: why motion or gradient is missing, a sentence; empty where nothing is.
    """

    forward: float = math.inf
    both: float = math.inf
    distance: float = math.nan
    gradient: float = math.nan
    flagged: int = 0
    missing: str = ""


def missing_gpu() -> str:
    """Return why there is no GPU to be measured, a sentence; empty where there is one."""
    try:
        sim = fb.Simulator(fb.models.pendulum(), dtype="float32", device="cuda")
    except FAILURES as error:
        return one_line(error)
    if bridge_of(sim).place != "cpu" and not torch.cuda.is_available():
        return "torch has no CUDA here; install a torch that is built with it."
    return ""


def one_line(error: Exception) -> str:
    """Return what an error says, on one line."""
    return " ".join(str(error).split())[:300] or type(error).__name__


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
        network: from sensors to servo targets, on the simulator's device.
    """

    def __init__(
        self,
        robots: int,
        network: torch.nn.Module,
        rng: np.random.Generator,
        device: str = "cpu",
    ) -> None:
        """Load the robot, draw poses, and put all of it on a device, the network too."""
        model = fb.models.quadruped()
        self.sim = fb.Simulator(model, dt=DT, dtype="float32", device=device, **ROOM)
        self._place = bridge_of(self.sim).place
        self.network = network.to(self._place)
        q, _ = model.keyframe("stand")
        self._stand = self._tensor(np.asarray(q[7:]))
        noise = 0.02 * rng.standard_normal((robots, 8))
        self._q = self._tensor(np.tile(q, (robots, 1)))
        self._q[:, 7:] += self._tensor(noise)
        self._v = torch.zeros((robots, model.nv), device=self._place)
        angle = 2.0 * math.pi * CLOCK * DT * np.outer(np.arange(STEPS), np.arange(1, HARMONICS + 1))
        self._clock = self._tensor(np.concatenate([np.sin(angle), np.cos(angle)], -1))

    def _tensor(self, values: Array) -> Tensor:
        return torch.from_numpy(np.asarray(values, np.float32).copy()).to(self._place)

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
        return self._moved(steps)[0]

    def _moved(self, steps: int) -> tuple[Tensor, Tensor]:
        """Return how far they come on average [m], and how many have a status that is not OK."""

        def policy(q: Tensor, v: Tensor, step: int) -> Tensor:
            return self._stand + SWING * self.network(self.sense(q, v, step))

        # states and controls are kept; a network is asked again on the way back, step by step
        weights = list(self.network.parameters())
        loop = fbt.closed_loop(self.sim, policy, self._q, self._v, steps, weights=weights)
        distance = (loop.q[:, -1, 0] - self._q[:, 0]).mean()
        return distance, torch.count_nonzero(loop.flags[:, 0])

    def _now(self) -> float:
        """Return the time when the device has done all it was given [s]."""
        if self._q.is_cuda:
            torch.cuda.synchronize(self._q.device)
        return time.perf_counter()

    def measure(self, steps: int) -> Timing:
        """Take the motion without and with its gradient; say what is missing."""
        found = Timing()
        try:
            begin = self._now()
            with torch.no_grad():
                distance, flagged = self._moved(steps)
            forward = self._now() - begin
            found = Timing(forward, distance=float(distance), flagged=int(flagged))
            begin = self._now()
            bars = torch.autograd.grad(self.distance(steps), list(self.network.parameters()))
            both = self._now() - begin
            length = float(sum(float(bar.double().square().sum()) for bar in bars)) ** 0.5
            return replace(found, both=both, gradient=length)
        except FAILURES as error:
            return replace(found, missing=one_line(error))
