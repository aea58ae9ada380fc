"""Gymnasium's humanoid: to run along x, and to stand up. Terms and defaults of its v5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from featherback.envs.forces import actuator_forces
from featherback.envs.state import Array, State
from featherback.envs.tasks.gymnasium_models import NearRest, load_file
from featherback.envs.tasks.runners import Range, Speed, within
from featherback.model import Model

ROOT = 6  # dofs of the torso, which have no motor


@dataclass(frozen=True, kw_only=True)
class Person(NearRest):
    """What the two have in common.

    Attributes:
        ctrl_cost_weight: of the sum of the squared controls.
        reset_noise_scale: of the noise in the first state.
        exclude_current_positions_from_observation: leave x and y out.
        include_cinert_in_observation: observe the inertias of all bodies.
        include_cvel_in_observation: observe the velocities of all bodies.
        include_qfrc_actuator_in_observation: observe the forces of the motors.
        include_cfrc_ext_in_observation: observe the contact forces on all bodies; Gymnasium does.
    """

    frame_skip: int = 5
    ctrl_cost_weight: float = 0.1
    reset_noise_scale: float = 1e-2
    exclude_current_positions_from_observation: bool = True
    include_cinert_in_observation: bool = True
    include_cvel_in_observation: bool = True
    include_qfrc_actuator_in_observation: bool = True
    include_cfrc_ext_in_observation: bool = False

    file: ClassVar[str] = ""
    simulator_options: ClassVar[dict[str, Any]] = {"contact": "mujoco"}
    followed: ClassVar[int] = 1

    def model(self) -> Model:
        """Return Gymnasium's robot."""
        return load_file(self.file)

    def observe(self, state: State) -> Array:
        """Return q without x and y, v, and what is asked for besides."""
        hidden = 2 if self.exclude_current_positions_from_observation else 0
        parts = [state.q[:, hidden:], state.v]
        if self.include_cinert_in_observation:
            parts.append(_rows(state.com_inertias))
        if self.include_cvel_in_observation:
            parts.append(_rows(state.com_velocities))
        if self.include_qfrc_actuator_in_observation:
            parts.append(actuator_forces(state)[:, ROOT:])
        if self.include_cfrc_ext_in_observation:
            parts.append(_rows(state.contact_wrenches))
        return state.xp.concatenate(parts, -1)

    def contact_cost(self, state: State, weight: float, limits: Range) -> Array:
        """Return the cost of contact forces, within its limits."""
        wrench = state.contact_wrenches
        return state.xp.clip(weight * (wrench * wrench).sum((-2, -1)), *limits)


@dataclass(frozen=True, kw_only=True)
class Humanoid(Person):
    """A humanoid that runs along x.

    Attributes:
        forward_reward_weight: of the speed of the centre of mass along x.
        contact_cost_weight: of the sum of the squared contact forces; Gymnasium's is 5e-7.
        contact_cost_range: within which that cost is cut.
        healthy_reward: of each step that ends healthy.
        terminate_when_unhealthy: end the episode where it is not.
        healthy_z_range: heights of the torso that are healthy [m].
        speed: "difference" rewards the way of the centre of mass over the time of a step, as
            Gymnasium does; "end" the speed of the torso at the end of the step.
    """

    forward_reward_weight: float = 1.25
    contact_cost_weight: float = 0.0
    contact_cost_range: Range = (-np.inf, 10.0)
    healthy_reward: float = 5.0
    terminate_when_unhealthy: bool = True
    healthy_z_range: Range = (1.0, 2.0)
    speed: Speed = "difference"

    file: ClassVar[str] = "humanoid.xml"

    def healthy(self, state: State) -> Array:
        """Return whether the height of the torso is within its range."""
        return within(state.q[:, 2], self.healthy_z_range)

    def terminated(self, state: State) -> Array | None:
        """Return where the humanoid is not healthy."""
        return ~self.healthy(state) if self.terminate_when_unhealthy else None

    def rewards(self, before: State, after: State) -> dict[str, Array]:
        """Return health, speed, cost of control, and the cost of contact where it has one."""
        if self.speed == "end":
            speed = after.v[:, 0]
        else:
            way = after.center_of_mass[:, 0] - before.center_of_mass[:, 0]
            speed = way / self.step_time(after.sim)
        terms = {
            "reward_survive": self.healthy_reward * self.healthy(after),
            "reward_forward": self.forward_reward_weight * speed,
            "reward_ctrl": -self.ctrl_cost_weight * (after.u**2).sum(-1),
        }
        if self.contact_cost_weight:
            limits = self.contact_cost_range
            terms["reward_contact"] = -self.contact_cost(after, self.contact_cost_weight, limits)
        return terms


@dataclass(frozen=True, kw_only=True)
class HumanoidStandup(Person):
    """A humanoid that lies on its back and stands up.

    Attributes:
        impact_cost_weight: of the sum of the squared contact forces; Gymnasium's is 5e-7.
        impact_cost_range: within which that cost is cut.
    """

    impact_cost_weight: float = 0.0
    impact_cost_range: Range = (-np.inf, 10.0)

    file: ClassVar[str] = "humanoidstandup.xml"

    def rewards(self, before: State, after: State) -> dict[str, Array]:
        """Return the height of the torso, the cost of control, and one for each step."""
        height = after.q[:, 2]
        terms = {
            "reward_linup": height / after.sim.dt,
            "reward_quadctrl": -self.ctrl_cost_weight * (after.u**2).sum(-1),
            "reward_step": 1.0 + 0.0 * height,
        }
        if self.impact_cost_weight:
            limits = self.impact_cost_range
            terms["reward_impact"] = -self.contact_cost(after, self.impact_cost_weight, limits)
        return terms


def _rows(x: Array) -> Array:
    """Return numbers of all bodies but the world in a row, real[worlds, n]."""
    return x[:, 1:].reshape(x.shape[0], -1)
