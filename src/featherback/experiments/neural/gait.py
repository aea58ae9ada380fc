"""The quadruped's gaits: sine gaits and networks driven by a clock, over eight seconds.

A gait is open loop, so its controls are known before the motion. The gradient of the distance over
eight seconds of contacts is valid for tiny changes only; what is followed here is the
gradient over half a second from each of the states that the gait passes through, all at once.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

import featherback as fb
import featherback.torch as fbt
from featherback._typing import Array
from featherback.experiments.neural.networks import Network

DT, STEPS, SEGMENT = 0.004, 2000, 125  # eight seconds; gradients over half a second
SECONDS = DT * STEPS
TROT = (1.0, -1.0, -1.0, 1.0)  # sign of each leg's swing: FR, FL, RR, RL
NETWORK = Network((2, 128, 128, 8))  # sine and cosine of the clock -> servo targets
SKIP = (2, 8)  # weights from the clock straight to the servos, after those of the network
UPRIGHT = 1.0  # weight of tilt and yaw, as squares of their sines [m/s]


@dataclass(frozen=True)
class Motion:
    """One gait over eight seconds.

    Attributes:
        q: float64[steps + 1, nq].
        v: float64[steps + 1, nv].
        u: float64[steps, nu].
    """

    q: Array
    v: Array
    u: Array

    @property
    def speed(self) -> float:
        """Mean speed along x [m/s]."""
        return float(self.q[-1, 0] - self.q[0, 0]) / SECONDS


class Walker:
    """The quadruped on its floor, standing at the start.

    Attributes:
        sim: the simulator.
        q: float64[nq], standing.
        v: float64[nv], at rest.
    """

    def __init__(self) -> None:
        """Load the robot."""
        model = fb.models.quadruped()
        self.sim = fb.Simulator(model, dt=DT, threads=min(os.cpu_count() or 1, 8))
        self.q, self.v = (np.array(part) for part in model.keyframe("stand"))
        self.lower, self.upper = np.array(model.mujoco.actuator_ctrlrange).T
        self.stand = self.q[7:]

    def walk(self, u: Array) -> Motion:
        """Return the motion under servo targets, float64[steps, nu]."""
        roll = self.sim.rollout(self.q, self.v, u)
        return Motion(np.asarray(roll.q, np.float64), np.asarray(roll.v, np.float64), u)

    def clip(self, u: Array) -> Array:
        """Return servo targets within their ranges."""
        return np.clip(u, self.lower, self.upper)


def clock(frequency: float) -> Array:
    """Return sine and cosine of the clock at every step, float64[steps, 2]."""
    angle = 2.0 * math.pi * frequency * DT * np.arange(STEPS)
    return np.stack([np.sin(angle), np.cos(angle)], -1)


def sine_weights(amplitude: float, phase: float) -> Array:
    """Return float64[2, 8] from clock to servos; the knees swing `phase` [rad] before the hips."""
    hip = np.array([1.0, 0.0])
    knee = np.array([math.cos(phase), math.sin(phase)])
    legs = [sign * amplitude * np.stack([hip, knee], -1) for sign in TROT]
    return np.concatenate(legs, -1)


def sine_gait(walker: Walker, amplitude: float, phase: float, frequency: float) -> Array:
    """Return the servo targets of a sine gait, float64[steps, nu]."""
    return walker.clip(walker.stand + clock(frequency) @ sine_weights(amplitude, phase))


@dataclass(frozen=True)
class ClockGait:
    """A network that maps a clock to servo targets.

    Attributes:
        walker: the robot.
        frequency: of the clock [Hz].
    """

    walker: Walker
    frequency: float

    @property
    def size(self) -> int:
        """Number of weights."""
        return NETWORK.size + math.prod(SKIP)

    def start(self, rng: np.random.Generator, amplitude: float, phase: float) -> Array:
        """Return the first weights: a sine gait, and a network that adds nothing yet."""
        return np.concatenate([NETWORK.start(rng), sine_weights(amplitude, phase).ravel()])

    def controls(self, weights: Tensor) -> Tensor:
        """Return the servo targets, real[steps, nu]."""
        tick = torch.from_numpy(clock(self.frequency))
        skip = weights[NETWORK.size :].unflatten(0, SKIP)
        free = torch.from_numpy(self.walker.stand) + tick @ skip + NETWORK(weights, tick)
        lower, upper = (torch.from_numpy(x) for x in (self.walker.lower, self.walker.upper))
        return torch.minimum(torch.maximum(free, lower), upper)

    def evaluate(self, weights: Tensor) -> tuple[Motion, Tensor]:
        """Return the motion, and a loss whose gradient improves the gait.

        The loss is the mean over segments of tilt and yaw less speed [m/s]; each segment starts
        from the state that the motion has there, which is taken as given.
        """
        u = self.controls(weights)
        motion = self.walker.walk(u.detach().numpy())
        q = torch.from_numpy(motion.q[:-1:SEGMENT].copy())
        v = torch.from_numpy(motion.v[:-1:SEGMENT].copy())
        roll = fbt.rollout(self.walker.sim, q, v, u.reshape(len(q), SEGMENT, -1))
        speed = (roll.q[:, -1, 0] - q[:, 0]).mean() / (SEGMENT * DT)
        w, x, y, z = roll.q[..., 3:7].unbind(-1)
        tilt = 2.0 * (x.square() + y.square())
        yaw = (2.0 * (w * z + x * y)).square()
        return motion, UPRIGHT * (tilt + yaw).mean() - speed
