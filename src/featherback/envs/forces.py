"""Forces of contacts, motors and other constraints in a state, as MuJoCo lays them out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import mujoco
import numpy as np

from featherback._typing import Real
from featherback.errors import FeatherbackError
from featherback.sim import Simulator
from featherback.sim.bridge import CONTACT_NUMBERS, Point, bridge_of

if TYPE_CHECKING:
    from featherback.envs.state import Array, State

# where a contact's numbers have its point, its force and its torque
POINT, FORCE, TORQUE = 1, 7, 10
# of each simulator one whose step is v + dt a, with the same forces
_explicit: WeakKeyDictionary[Simulator, Simulator] = WeakKeyDictionary()


def contact_wrenches(state: State) -> Real:
    """Return `cfrc_ext`, real[worlds, nbody, 6], torque and force on each body; see `State`."""
    sim, model, worlds = state.sim, state.model, len(state.q)
    world, pair, numbers = _contacts(state)
    middle = state.mass_centers[..., 3:]
    point, force, torque = (numbers[:, i : i + 3] for i in (POINT, FORCE, TORQUE))
    out = np.zeros((6, worlds * model.nbody), sim.dtype)
    geom_body = np.asarray(model.mujoco.geom_bodyid)
    for geom, sign in zip(model.structure.pair_geoms(pair), (-1.0, 1.0), strict=True):
        body = geom_body[geom]
        turn = torque + np.cross(point - middle[world, body], force)
        row = world * model.nbody + body
        for i, x in enumerate([*turn.T, *force.T]):
            out[i] += np.bincount(row, sign * x, out.shape[1])
    wrenches = np.ascontiguousarray(out.reshape(6, worlds, model.nbody).transpose(1, 2, 0))
    # the world is no body that moves
    wrenches[:, 0] = 0.0
    return wrenches


def differentiable_wrenches(state: State) -> Array:
    """Return `cfrc_ext` from the output of the engine, which is about the bodies' own centres."""
    given, centers = state.contact_forces, state.mass_centers
    force, torque = ([given[..., i + k] for i in range(3)] for k in (0, 3))
    arm = [centers[..., i] - centers[..., 3 + i] for i in range(3)]
    turn = [
        torque[k] + (arm[i] * force[j] - arm[j] * force[i])
        for k, i, j in ((0, 1, 2), (1, 2, 0), (2, 0, 1))
    ]
    return state.xp.stack([*turn, *force], -1)


def _contacts(state: State) -> tuple[Any, Any, Real]:
    """Return world, pair and numbers of every contact of the step that starts here."""
    bridge, worlds = bridge_of(state.sim), len(state.q)
    theta, given = bridge.read_params("envs", state.params, worlds)
    x = bridge.layout.join((worlds,), state.q, state.v, state.act)
    u = np.ascontiguousarray(state.u) if bridge.layout.nu else None
    capacity = bridge.options.max_contacts
    # only what is written is read, and most of it never is
    numbers = np.empty((worlds, capacity, CONTACT_NUMBERS), bridge.layout.dtype)
    pair = np.empty((worlds, capacity), np.int32)
    count, overflow = np.zeros(worlds, np.int32), np.zeros(worlds, np.uint8)
    bridge.contacts(Point(bridge.layout, x, u, theta, given), numbers, pair, count, overflow)
    world, row = np.nonzero(np.arange(count.max(initial=0)) < count[:, None])
    return world, pair[world, row], numbers[world, row]


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
    damping = _own(state, "dof_damping") * state.v
    return state.inverse_dynamics(acceleration) + damping - actuator_forces(state)


def actuator_forces(state: State) -> Array:
    """Return `qfrc_actuator`, real[worlds, nv], of motors on joints under the control held."""
    m = state.model.mujoco
    joint = int(mujoco.mjtTrn.mjTRN_JOINT)
    plain = not (np.any(m.actuator_gaintype) or np.any(m.actuator_biastype))
    if not plain or np.any(m.actuator_dyntype) or np.any(m.actuator_trntype != joint):
        raise FeatherbackError(
            f'actuator_forces(): model "{state.model.name}" has actuators that are not motors on '
            "joints; leave this term out."
        )
    u = _cut(state, state.u, m.actuator_ctrlrange, m.actuator_ctrllimited)
    force = u * _constant(state, m.actuator_gainprm[:, 0])
    force = _cut(state, force, m.actuator_forcerange, m.actuator_forcelimited)
    columns: list[Array] = [0.0 * state.v[:, 0]] * state.model.nv
    for i in range(state.model.nu):
        dof = int(m.jnt_dofadr[m.actuator_trnid[i, 0]])
        columns[dof] = columns[dof] + float(m.actuator_gear[i, 0]) * force[:, i]
    return state.xp.stack(columns, -1)


def _cut(state: State, x: Array, ranges: Any, limited: Any) -> Array:
    """Return numbers within their ranges, where they have one."""
    low = np.where(limited, ranges[:, 0], -np.inf)
    high = np.where(limited, ranges[:, 1], np.inf)
    return state.xp.clip(x, _constant(state, low), _constant(state, high))


def _constant(state: State, value: Any) -> Array:
    """Return numbers as an array like those of a state."""
    value = np.array(value, state.sim.dtype)
    return value if state.xp is np else state.xp.asarray(value)


def _own(state: State, name: str) -> Array:
    """Return a parameter as the worlds have it, real[1 or worlds, ...]."""
    given = (state.params or {}).get(name)
    if given is None:
        return _constant(state, state.sim.params[name])[None]
    return given if given.ndim > state.sim.params[name].ndim else given[None]
