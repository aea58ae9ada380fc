"""What a model tells besides its motion, on JAX arrays: poses and dynamics."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike

from featherback.errors import ParameterError, ShapeError
from featherback.jax.inputs import (
    NO_GRADIENT,
    Params,
    count_worlds,
    flat_params,
    give_worlds,
    open_call,
    rows,
)
from featherback.jax.primitives import OUTPUT, output_map
from featherback.sim import Simulator
from featherback.sim.bridge import OF_A_STEP, bridge_of, check_law


def body_poses(
    sim: Simulator, q: ArrayLike, params: Params | None = None
) -> tuple[jax.Array, jax.Array]:
    """Return positions real[(worlds,) nbody, 3] and rotation matrices real[..., 3, 3]."""
    return _poses("body_poses()", sim, q, params, sites=False)


def site_positions(sim: Simulator, q: ArrayLike, params: Params | None = None) -> jax.Array:
    """Return the positions of all sites in the world, real[(worlds,) nsite, 3]."""
    return _poses("site_positions()", sim, q, params, sites=True)[0]


def site_poses(
    sim: Simulator, q: ArrayLike, params: Params | None = None
) -> tuple[jax.Array, jax.Array]:
    """Return positions real[(worlds,) nsite, 3] and rotation matrices real[..., 3, 3]."""
    return _poses("site_poses()", sim, q, params, sites=True)


def center_of_mass(sim: Simulator, q: ArrayLike, params: Params | None = None) -> jax.Array:
    """Return the centre of mass of the whole model in the world, real[(worlds,) 3]."""
    where = "center_of_mass()"
    out = _evaluate(where, sim, "center_of_mass", {"q": q}, params)
    mass: Any = (params or {}).get("body_mass", sim.params["body_mass"])
    if not isinstance(mass, Tracer) and np.any(np.asarray(mass)[..., 1:].sum(axis=-1) == 0):
        raise ParameterError(
            f"{where}: no body has a mass, so there is no centre of mass; give one a mass > 0."
        )
    return out


def mass_centers(sim: Simulator, q: ArrayLike, params: Params | None = None) -> jax.Array:
    """Return centres of mass, real[(worlds,) nbody, 6]: of each body, then of its tree."""
    return _of_bodies("mass_centers", sim, {"q": q}, params)


def com_inertias(sim: Simulator, q: ArrayLike, params: Params | None = None) -> jax.Array:
    """Return inertias about the trees' centres, real[(worlds,) nbody, 10]; MuJoCo's `cinert`."""
    return _of_bodies("com_inertias", sim, {"q": q}, params)


def com_velocities(
    sim: Simulator, q: ArrayLike, v: ArrayLike, params: Params | None = None
) -> jax.Array:
    """Return velocities at the trees' centres, real[(worlds,) nbody, 6]; MuJoCo's `cvel`."""
    return _of_bodies("com_velocities", sim, {"q": q, "v": v}, params)


def mass_matrix(sim: Simulator, q: ArrayLike, params: Params | None = None) -> jax.Array:
    """Return M(q), real[(worlds,) nv, nv], armature included."""
    out = _evaluate("mass_matrix()", sim, "mass_matrix", {"q": q}, params)
    return out.reshape(*out.shape[:-1], sim.model.nv, sim.model.nv)


def bias(sim: Simulator, q: ArrayLike, v: ArrayLike, params: Params | None = None) -> jax.Array:
    """Return c(q, v), real[(worlds,) nv]: gravity, Coriolis and centrifugal terms."""
    return _evaluate("bias()", sim, "bias", {"q": q, "v": v}, params)


def forward_dynamics(
    sim: Simulator, q: ArrayLike, v: ArrayLike, tau: ArrayLike, params: Params | None = None
) -> jax.Array:
    """Return the acceleration a of M a + c = tau, without springs, damping and contact."""
    inputs = {"q": q, "v": v, "tau": tau}
    return _evaluate("forward_dynamics()", sim, "forward_dynamics", inputs, params)


def inverse_dynamics(
    sim: Simulator, q: ArrayLike, v: ArrayLike, a: ArrayLike, params: Params | None = None
) -> jax.Array:
    """Return tau = M a + c, real[(worlds,) nv]."""
    inputs = {"q": q, "v": v, "a": a}
    return _evaluate("inverse_dynamics()", sim, "inverse_dynamics", inputs, params)


def contact_forces(
    sim: Simulator,
    q: ArrayLike,
    v: ArrayLike,
    u: ArrayLike | None = None,
    params: Params | None = None,
    *,
    act: ArrayLike | None = None,
) -> jax.Array:
    """Return the forces of the contacts on each body, real[(worlds,) nbody, 6].

    Force and torque about the body's centre of mass in the step that starts in this state, as
    `Simulator.contact_forces` returns them; under `contact="mujoco"` only.
    """
    where = "contact_forces()"
    call = open_call(where, sim)
    check_law(f"featherback.jax.{where}", bridge_of(sim), "contact_forces")
    if act is not None and not sim.model.na:
        raise ShapeError(
            f'{where}: act is given, but model "{sim.model.name}" has no activations; leave it out.'
        )
    parts = rows(call, {"act": act, "u": u})
    lead = jnp.broadcast_shapes(*(x.shape[:-1] for x in parts.values()))
    drive = jnp.concatenate([jnp.broadcast_to(x, (*lead, x.shape[-1])) for x in parts.values()], -1)
    return _of_bodies("contact_forces", sim, {"q": q, "v": v, "drive": drive}, params)


def _of_bodies(
    name: str, sim: Simulator, inputs: dict[str, Any], params: Params | None
) -> jax.Array:
    """Return an output that has a row for each body."""
    out = _evaluate(f"{name}()", sim, name, inputs, params)
    return out.reshape(*out.shape[:-1], sim.model.nbody, -1)


def _poses(
    where: str, sim: Simulator, q: ArrayLike, params: Params | None, *, sites: bool
) -> tuple[jax.Array, jax.Array]:
    """Return positions and rotations of bodies or sites."""
    out = _evaluate(where, sim, "poses", {"q": q}, params)
    bodies = sim.model.nbody
    poses = out.reshape(*out.shape[:-1], bodies + sim.model.nsite, 12)
    poses = poses[..., bodies:, :] if sites else poses[..., :bodies, :]
    return poses[..., :3], poses[..., 3:].reshape(*poses.shape[:-1], 3, 3)


def _evaluate(
    where: str, sim: Simulator, output: str, inputs: dict[str, Any], params: Params | None
) -> jax.Array:
    """Evaluate an output, one flat row for each world."""
    call = open_call(where, sim)
    arrays = rows(call, inputs)
    worlds = count_worlds(where, arrays, {})
    # what moves nothing but acts on contacts has no gradient there either
    undifferentiated = NO_GRADIENT if output in OF_A_STEP else {}
    theta = flat_params(call, params, worlds, undifferentiated)
    full = [give_worlds(x, worlds, 1) for x in arrays.values()]
    # inputs that the output does not read, parameters aside
    missing = [jnp.zeros((0,), theta.dtype)] * (len(OUTPUT.point) - len(full) - 1)
    point = (*full, *missing, theta)
    (out,) = output_map.forward.bind(point, engines=call.engines, output=output)
    return out[0] if worlds is None else out
