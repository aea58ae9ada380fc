"""Ant, half cheetah, hopper and walker: to run along x. Terms and defaults of Gymnasium's v5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from featherback.envs.state import Array, State
from featherback.envs.tasks.gymnasium_models import NearRest, load_file
from featherback.model import Model

Range = tuple[float, float]
# how the speed of a step is measured
Speed = Literal["difference", "end"]
SPEED_UP = 10.0  # joint speeds are cut there in observations [rad/s]


def forward_speed(before: State, after: State, step_time: float, speed: Speed) -> Array:
    """Return the speed of the root along x [m/s]: over the step, or at its end."""
    if speed == "end":
        return after.v[:, 0]
    return (after.q[:, 0] - before.q[:, 0]) / step_time


def within(x: Array, limits: Range) -> Array:
    """Return where low < x < high."""
    return (limits[0] < x) & (x < limits[1])


@dataclass(frozen=True, kw_only=True)
class Runner(NearRest):
    """What the four have in common.

    Attributes:
        forward_reward_weight: of the speed along x.
        ctrl_cost_weight: of the sum of the squared actions.
        reset_noise_scale: of the noise in the first state.
        exclude_current_positions_from_observation: leave the place along the floor out.
        speed: "difference" rewards the way of a step over its time, as Gymnasium does; "end" the
            speed at its end, whose gradient does not cancel over an episode.
    """

    frame_skip: int = 4
    forward_reward_weight: float = 1.0
    ctrl_cost_weight: float = 1e-3
    reset_noise_scale: float = 5e-3
    exclude_current_positions_from_observation: bool = True
    speed: Speed = "difference"

    file: ClassVar[str] = ""
    simulator_options: ClassVar[dict[str, Any]] = {"contact": "mujoco"}
    followed: ClassVar[int] = 1
    # numbers of q that tell the place along the floor
    places: ClassVar[int] = 1

    def model(self) -> Model:
        """Return Gymnasium's robot."""
        return load_file(self.file)

    def seen(self, state: State, v: Array) -> list[Array]:
        """Return configuration and velocities, as they are observed."""
        hidden = self.places if self.exclude_current_positions_from_observation else 0
        return [state.q[:, hidden:], v]

    def moving(self, before: State, after: State) -> dict[str, Array]:
        """Return the terms of speed and control."""
        step_time = self.step_time(after.sim)
        speed = forward_speed(before, after, step_time, self.speed)
        action = after.action
        return {
            "reward_forward": self.forward_reward_weight * speed,
            "reward_ctrl": -self.ctrl_cost_weight * (action * action).sum(-1),
        }


@dataclass(frozen=True, kw_only=True)
class HalfCheetah(Runner):
    """A planar cheetah that runs; its episodes never end early."""

    frame_skip: int = 5
    ctrl_cost_weight: float = 0.1
    reset_noise_scale: float = 0.1

    file: ClassVar[str] = "half_cheetah.xml"
    normal: ClassVar[bool] = True

    def observe(self, state: State) -> Array:
        """Return q without x, and v."""
        return state.xp.concatenate(self.seen(state, state.v), -1)

    def rewards(self, before: State, after: State) -> dict[str, Array]:
        """Return speed and cost of control."""
        return self.moving(before, after)


@dataclass(frozen=True, kw_only=True)
class Healthy(Runner):
    """A runner whose episode ends where it is not healthy.

    Attributes:
        healthy_reward: of each step that ends healthy.
        terminate_when_unhealthy: end the episode where it is not.
        healthy_z_range: heights that are healthy [m].
    """

    healthy_reward: float = 1.0
    terminate_when_unhealthy: bool = True
    healthy_z_range: Range = (0.0, float("inf"))

    def healthy(self, state: State) -> Array:
        """Return bool[worlds]."""
        raise NotImplementedError

    def terminated(self, state: State) -> Array | None:
        """Return where the robot is not healthy."""
        return ~self.healthy(state) if self.terminate_when_unhealthy else None

    def rewards(self, before: State, after: State) -> dict[str, Array]:
        """Return speed, cost of control, and health."""
        terms = self.moving(before, after)
        terms["reward_survive"] = self.healthy_reward * self.healthy(after)
        return terms


@dataclass(frozen=True, kw_only=True)
class Walker2d(Healthy):
    """A planar walker on two legs.

    Attributes:
        healthy_angle_range: angles of the torso that are healthy [rad].
    """

    healthy_z_range: Range = (0.8, 2.0)
    healthy_angle_range: Range = (-1.0, 1.0)

    file: ClassVar[str] = "walker2d_v5.xml"

    def observe(self, state: State) -> Array:
        """Return q without x, and v within +-10."""
        v = state.xp.clip(state.v, -SPEED_UP, SPEED_UP)
        return state.xp.concatenate(self.seen(state, v), -1)

    def healthy(self, state: State) -> Array:
        """Return whether height and angle of the torso are within their ranges."""
        height, angle = state.q[:, 1], state.q[:, 2]
        return within(height, self.healthy_z_range) & within(angle, self.healthy_angle_range)


@dataclass(frozen=True, kw_only=True)
class Hopper(Walker2d):
    """A planar hopper on one leg.

    Attributes:
        healthy_state_range: of all numbers of the state but x and height.
    """

    healthy_z_range: Range = (0.7, float("inf"))
    healthy_angle_range: Range = (-0.2, 0.2)
    healthy_state_range: Range = (-100.0, 100.0)

    file: ClassVar[str] = "hopper.xml"

    def healthy(self, state: State) -> Array:
        """Return whether height, angle and all other numbers are within their ranges."""
        q, v = (within(x, self.healthy_state_range).all(-1) for x in (state.q[:, 2:], state.v))
        return super().healthy(state) & q & v


@dataclass(frozen=True, kw_only=True)
class Ant(Healthy):
    """A quadruped with eight motors.

    Attributes:
        contact_cost_weight: of the sum of the squared contact forces, each cut to
            contact_force_range. Gymnasium's is 5e-4.
        contact_force_range: of contact forces and torques, as observed and as they cost.
        include_cfrc_ext_in_observation: observe the contact forces on all bodies; Gymnasium does.
    """

    frame_skip: int = 5
    ctrl_cost_weight: float = 0.5
    reset_noise_scale: float = 0.1
    healthy_z_range: Range = (0.2, 1.0)
    contact_cost_weight: float = 0.0
    contact_force_range: Range = (-1.0, 1.0)
    include_cfrc_ext_in_observation: bool = False

    file: ClassVar[str] = "ant.xml"
    places: ClassVar[int] = 2
    normal: ClassVar[bool] = True

    def observe(self, state: State) -> Array:
        """Return q without x and y, v, and contact forces where they are asked for."""
        parts = self.seen(state, state.v)
        if self.include_cfrc_ext_in_observation:
            forces = self.forces(state)[:, 1:]
            parts.append(forces.reshape(len(forces), -1))
        return state.xp.concatenate(parts, -1)

    def forces(self, state: State) -> Array:
        """Return contact torques and forces, real[worlds, nbody, 6], within their range."""
        return state.xp.clip(state.contact_wrenches, *self.contact_force_range)

    def healthy(self, state: State) -> Array:
        """Return whether the height is within its range."""
        height, (low, high) = state.q[:, 2], self.healthy_z_range
        return (low <= height) & (height <= high)

    def rewards(self, before: State, after: State) -> dict[str, Array]:
        """Return speed, cost of control, health, and the cost of contact where it has one."""
        terms = super().rewards(before, after)
        if self.contact_cost_weight:
            forces = self.forces(after)
            terms["reward_contact"] = -self.contact_cost_weight * (forces * forces).sum((-2, -1))
        return terms
