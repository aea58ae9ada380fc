"""The Laikago trots at a speed of choice, by targets of its servos."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from featherback import models
from featherback._typing import Array as Float64
from featherback.envs.state import Array, State
from featherback.envs.task import Task
from featherback.model import Model

# joints of a leg: hip roll, whose sign is mirrored from left to right, hip pitch, knee
MIRROR = (-1.0, 1.0, 1.0)
# legs FR, FL, RR, RL: which follows which half of the clock
PHASE = (0.0, 1.0, 1.0, 0.0)


@lru_cache(maxsize=1)
def _laikago() -> Model:
    """Return the robot, made once."""
    return models.laikago()


@dataclass(frozen=True, kw_only=True)
class LaikagoTrot(Task):
    """To run along x at a given speed, with diagonal legs together, by servo targets at 50 Hz.

    A clock tells the phase of the trot. The targets are the standing pose, plus a lift of the two
    legs whose turn it is, plus the actions.

    Attributes:
        target_speed: along x [m/s].
        frequency: of the clock [Hz].
        lift: angle by which the clock bends a leg [rad].
        action_scale: change of a servo target by the action 1 [rad].
        turn_cost_weight: of the squared speeds to the side and about the vertical.
        tilt_cost_weight: of the tilt of the trunk, 1 less the cosine.
        height_cost_weight: of the squared error of the trunk's height [1/m^2].
        trot_cost_weight: of the squared difference between diagonal legs [1/rad^2].
        ctrl_cost_weight: of the sum of the squared actions.
        healthy_reward: of each step that ends with the trunk up.
        healthy_z_range: heights of the trunk that are healthy [m].
        reset_noise_scale: of the noise in the joints and all speeds of the first state.
    """

    frame_skip: int = 10
    max_episode_steps: int = 500
    target_speed: float = 0.5
    frequency: float = 2.0
    lift: float = 0.25
    action_scale: float = 0.3
    turn_cost_weight: float = 0.5
    tilt_cost_weight: float = 2.0
    height_cost_weight: float = 10.0
    trot_cost_weight: float = 0.1
    ctrl_cost_weight: float = 0.02
    healthy_reward: float = 1.0
    healthy_z_range: tuple[float, float] = (0.25, 0.6)
    reset_noise_scale: float = 0.02

    followed: ClassVar[int] = 1

    def model(self) -> Model:
        """Return the Laikago of featherback.models."""
        return _laikago()

    def bounds(self, model: Model) -> tuple[Float64, Float64]:
        """Return -1 and 1."""
        return -np.ones(model.nu), np.ones(model.nu)

    def start(self, model: Model, rng: np.random.Generator) -> tuple[Float64, Float64]:
        """Return the robot as it stands, nearly."""
        q, v = (np.array(x) for x in model.keyframe("stand"))
        noise = rng.uniform(-self.reset_noise_scale, self.reset_noise_scale, model.nu + model.nv)
        q[7:] += noise[: model.nu]
        return q, v + noise[model.nu :]

    def clock(self, state: State) -> tuple[Array, Array]:
        """Return sine and cosine of the clock, real[worlds] each."""
        angle = 2.0 * np.pi * self.frequency * state.time
        return state.xp.sin(angle), state.xp.cos(angle)

    def control(self, state: State, action: Array) -> Array:
        """Return servo targets, real[worlds, 12]."""
        xp, (sine, _) = state.xp, self.clock(state)
        stand = state.model.keyframe("stand")[0][7:]
        columns: list[Array] = []
        for leg, phase in enumerate(PHASE):
            # the leg is lifted in its half of the clock
            bend = self.lift * xp.clip(-sine if phase else sine, 0.0, 1.0)
            for joint, share in enumerate((0.0, 1.0, -2.0)):
                columns.append(float(stand[3 * leg + joint]) + share * bend)
        return xp.stack(columns, -1) + self.action_scale * xp.clip(action, -1.0, 1.0)

    def observe(self, state: State) -> Array:
        """Return height, up and velocities in the trunk's frame, joints, joint speeds, clock."""
        xp, turn = state.xp, state.body_poses[1][:, 1]
        pace = (turn * state.v[:, :3, None]).sum(-2)
        parts = [state.q[:, 2:3], turn[:, 2], pace, state.v[:, 3:6], state.q[:, 7:]]
        return xp.concatenate([*parts, state.v[:, 6:], xp.stack(self.clock(state), -1)], -1)

    def terminated(self, state: State) -> Array:
        """Return where the trunk is too low or too high."""
        low, high = self.healthy_z_range
        return (state.q[:, 2] <= low) | (state.q[:, 2] >= high)

    def rewards(self, before: State, after: State) -> dict[str, Array]:
        """Return speed, and the costs of turning, tilt, height, gait and control."""
        q, v = after.q, after.v
        tilt = 1.0 - after.body_poses[1][:, 1, 2, 2]
        height = q[:, 2] - float(after.model.keyframe("stand")[0][2])
        miss = v[:, 0] - self.target_speed
        return {
            "reward_speed": 1.0 - (miss / max(abs(self.target_speed), 0.1)) ** 2,
            "reward_survive": self.healthy_reward * ~self.terminated(after),
            "reward_turn": -self.turn_cost_weight * (v[:, 1] ** 2 + v[:, 5] ** 2),
            "reward_tilt": -self.tilt_cost_weight * tilt,
            "reward_height": -self.height_cost_weight * height**2,
            "reward_trot": -self.trot_cost_weight * self.gap(q),
            "reward_ctrl": -self.ctrl_cost_weight * (after.action**2).sum(-1),
        }

    def gap(self, q: Array) -> Array:
        """Return the squared difference between diagonal legs, real[worlds]."""
        legs = [[q[:, 7 + 3 * leg + joint] for joint in range(3)] for leg in range(4)]
        pairs = ((legs[0], legs[3]), (legs[1], legs[2]))
        out = 0.0
        for one, other in pairs:
            for joint, sign in enumerate(MIRROR):
                out = out + (one[joint] - sign * other[joint]) ** 2
        return out
