"""What a task sees of a batch of worlds: states, and what the engine tells about them.

A task is written once. Its arrays are those of NumPy, torch or JAX; `State.xp` is the module they
belong to, and a function that the three have under one name (`xp.sin`, `xp.where`, `xp.clip`,
`xp.stack(parts, -1)`, `xp.concatenate(parts, -1)`) works for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from featherback.envs.forces import constraint_forces, contact_wrenches, differentiable_wrenches
from featherback.errors import FeatherbackError
from featherback.model import Model
from featherback.sim import Simulator

# an array of NumPy, torch or JAX
Array = Any


class NumpyOutputs:
    """The outputs of a Simulator as functions of it, by the names that the bridges have."""

    def __getattr__(self, name: str) -> Any:
        """Return an output by its name."""

        def evaluate(sim: Simulator, *inputs: Any) -> Any:
            return sim.output(name, *inputs[:-1], params=inputs[-1])

        return evaluate


NUMPY = NumpyOutputs()


class State:
    """States of a batch of worlds, after a step or after a reset.

    Attributes:
        sim: the simulator.
        xp: numpy, torch or jax.numpy.
        q: real[worlds, nq], configurations.
        v: real[worlds, nv], velocities.
        act: real[worlds, na], activations of actuators.
        u: real[worlds, nu], controls that the step held; zero after a reset.
        action: real[worlds, n], the actions that the controls were made of; zero after a reset.
        time: real[worlds], seconds since the reset.
        params: parameters that a world has of its own, by name, or None.
    """

    def __init__(
        self, sim: Simulator, library: tuple[Any, Any], params: Mapping[str, Any] | None = None
    ) -> None:
        """Make an empty one; library is xp, and the module that has the outputs."""
        self.sim, self.params = sim, params
        self.xp, self._outputs = library
        self.q: Array = None
        self.v: Array = None
        self.act: Array = None
        self.u: Array = None
        self.action: Array = None
        self.time: Array = None

    @property
    def model(self) -> Model:
        """The model."""
        return self.sim.model

    @cached_property
    def body_poses(self) -> tuple[Array, Array]:
        """real[worlds, nbody, 3] and real[worlds, nbody, 3, 3], positions and rotations."""
        return self._outputs.body_poses(self.sim, self.q, self.params)

    @cached_property
    def mass_centers(self) -> Array:
        """real[worlds, nbody, 6], centres of mass of each body and of the tree it belongs to."""
        return self._outputs.mass_centers(self.sim, self.q, self.params)

    @cached_property
    def com_inertias(self) -> Array:
        """real[worlds, nbody, 10], inertias about the trees' centres: MuJoCo's `cinert`."""
        return self._outputs.com_inertias(self.sim, self.q, self.params)

    @cached_property
    def com_velocities(self) -> Array:
        """real[worlds, nbody, 6], velocities at the trees' centres: MuJoCo's `cvel`."""
        return self._outputs.com_velocities(self.sim, self.q, self.v, self.params)

    @cached_property
    def site_positions(self) -> Array:
        """real[worlds, nsite, 3]."""
        return self._outputs.site_positions(self.sim, self.q, self.params)

    @cached_property
    def center_of_mass(self) -> Array:
        """real[worlds, 3], that of the whole model."""
        return self._outputs.center_of_mass(self.sim, self.q, self.params)

    @cached_property
    def contact_wrenches(self) -> Array:
        """real[worlds, nbody, 6], torque and force of the contacts on each body.

        They are those of the step that starts here under the control held, about the centre of
        mass of the kinematic tree, along the world's axes, as MuJoCo's `cfrc_ext` has them. Under
        the hard law they have no gradient, and torch and JAX refuse.
        """
        if self.sim.options.contact == "mujoco":
            return differentiable_wrenches(self)
        if self.xp is not np:
            raise FeatherbackError(
                f"State.contact_wrenches: contact forces have no gradient under the hard law, and "
                f'this state is one of {self.xp.__name__}; pass contact="mujoco", leave the terms '
                "of contact forces out of the task, or take featherback.envs.make()."
            )
        return contact_wrenches(self)

    @cached_property
    def contact_forces(self) -> Array:
        """real[worlds, nbody, 6], force and torque about each body's centre of mass."""
        if self.xp is np:
            given: dict[str, Any] = {"act": self.act} if self.model.na else {}
            return self.sim.contact_forces(self.q, self.v, self.u, params=self.params, **given)
        act = self.act if self.model.na else None
        return self._outputs.contact_forces(self.sim, self.q, self.v, self.u, self.params, act=act)

    @cached_property
    def constraint_forces(self) -> Array:
        """real[worlds, nv], forces of contacts, limits, friction and couplings on the dofs.

        They are those of the step that starts here under the control held, under MuJoCo's law.
        """
        return constraint_forces(self)

    def step_freely(self, sim: Simulator) -> Array:
        """Return the velocities after one step of another simulator of the same model."""
        if self.xp is np:
            return sim.step(self.q, self.v, self.u, act=self.act, params=self.params)[1]
        return self._outputs.step(sim, self.q, self.v, self.u, self.params, act=self.act)[1]

    def inverse_dynamics(self, a: Array) -> Array:
        """Return M a + c, real[worlds, nv]."""
        return self._outputs.inverse_dynamics(self.sim, self.q, self.v, a, self.params)

    def body(self, name: str) -> Array:
        """Return the positions of a body, real[worlds, 3]."""
        return self.body_poses[0][:, self.model.body_names.index(name)]

    def site(self, name: str) -> Array:
        """Return the positions of a site, real[worlds, 3]."""
        return self.site_positions[:, self.model.site_names.index(name)]
