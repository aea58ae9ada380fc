"""Forces of contacts and other constraints in a state, as MuJoCo lays them out."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from featherback._typing import Real
from featherback.envs.bodies import actuator_forces, own
from featherback.errors import FeatherbackError
from featherback.sim import Simulator

if TYPE_CHECKING:
    from featherback.envs.state import Array, State

# of each simulator one whose step is v + dt a, with the same forces
_explicit: WeakKeyDictionary[Simulator, Simulator] = WeakKeyDictionary()


def contact_wrenches(state: State) -> Real:
    """Return `cfrc_ext`, real[worlds, nbody, 6], torque and force on each body; see `State`."""
    sim, model = state.sim, state.model
    act = state.act if state.act.shape[-1] else None
    found = sim.contacts(state.q, state.v, state.u, act=act, params=state.params)
    middle = np.stack(state.centers[1], -1)
    world, row = np.nonzero(found.geom1 >= 0)
    point, force, torque = (x[world, row] for x in (found.point, found.force, found.torque))
    out = np.zeros((len(state.q), model.nbody, 6), sim.dtype)
    geom_body = np.asarray(model.mujoco.geom_bodyid)
    for geom, sign in ((found.geom1, -1.0), (found.geom2, 1.0)):
        body = geom_body[geom[world, row]]
        moment = torque + np.cross(point - middle[world, body], force)
        wrench = sign * np.concatenate([moment, force], -1)
        np.add.at(out, (world, body), wrench)
    # the world is no body that moves
    out[:, 0] = 0.0
    return out


def constraint_forces(state: State) -> Array:
    """Return `qfrc_constraint`, real[worlds, nv]: M a + c less the forces that are none of it."""
    sim = state.sim
    m = state.model.mujoco
    if sim.options.contact != "mujoco" or m.ntendon or np.any(m.jnt_stiffness):
        raise FeatherbackError(
            f'State.constraint_forces: model "{state.model.name}" has springs or tendons, or the '
            'contact law is not that of MuJoCo; pass contact="mujoco", or leave this term out.'
        )
    if sim not in _explicit:
        options = {"contact": "mujoco", "integrator": "euler", "eulerdamp": 0}
        dtype, params = sim.dtype.name, dict(sim.params)
        _explicit[sim] = Simulator(state.model, dtype=dtype, params=params, **options)  # pyright: ignore[reportArgumentType]
    acceleration = (state.step_freely(_explicit[sim]) - state.v) / sim.dt
    damping = own(state, "dof_damping") * state.v
    return state.inverse_dynamics(acceleration) + damping - actuator_forces(state)
