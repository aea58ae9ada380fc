"""The methods of a Simulator that tell outputs of a state, and their gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from featherback._typing import Params, Real
from featherback.sim.bridge import bridge_of
from featherback.sim.outputs import OutputGradient, evaluate, join_drive

if TYPE_CHECKING:
    from featherback.sim.simulator import Simulator


def mass_matrix(self: Simulator, q: ArrayLike, *, params: Params | None = None) -> Real:
    """Return M(q), real[(worlds,) nv, nv], armature included."""
    return _one(self, "mass_matrix", q, params=params)


def bias(self: Simulator, q: ArrayLike, v: ArrayLike, *, params: Params | None = None) -> Real:
    """Return c(q, v), real[(worlds,) nv]: gravity, Coriolis and centrifugal terms."""
    return _one(self, "bias", q, v, params=params)


def forward_dynamics(
    self: Simulator, q: ArrayLike, v: ArrayLike, tau: ArrayLike, *, params: Params | None = None
) -> Real:
    """Return the acceleration a of M a + c = tau, without springs, damping and contact."""
    return _one(self, "forward_dynamics", q, v, tau, params=params)


def inverse_dynamics(
    self: Simulator, q: ArrayLike, v: ArrayLike, a: ArrayLike, *, params: Params | None = None
) -> Real:
    """Return tau = M a + c, real[(worlds,) nv]."""
    return _one(self, "inverse_dynamics", q, v, a, params=params)


def center_of_mass(self: Simulator, q: ArrayLike, *, params: Params | None = None) -> Real:
    """Return the centre of mass of the whole model in the world, real[(worlds,) 3].

    Every body but the world counts, those that are fixed in the world included, as in MuJoCo's
    `subtree_com[0]`.
    """
    return _one(self, "center_of_mass", q, params=params)


def mass_centers(self: Simulator, q: ArrayLike, *, params: Params | None = None) -> Real:
    """Return centres of mass in the world, real[(worlds,) nbody, 6].

    Of each body its own, then that of the kinematic tree which it belongs to: what hangs on one
    child of the world. Zero for the world.
    """
    return _one(self, "mass_centers", q, params=params)


def com_inertias(self: Simulator, q: ArrayLike, *, params: Params | None = None) -> Real:
    """Return inertias of bodies about their trees' centres of mass, real[(worlds,) nbody, 10].

    Along the world's axes: xx, yy, zz, xy, xz, yz, then the mass times the way from the centre
    of the tree to that of the body, then the mass; zero for the world. MuJoCo's `cinert`.
    """
    return _one(self, "com_inertias", q, params=params)


def com_velocities(
    self: Simulator, q: ArrayLike, v: ArrayLike, *, params: Params | None = None
) -> Real:
    """Return velocities of bodies at their trees' centres of mass, real[(worlds,) nbody, 6].

    Along the world's axes: the angular velocity, then the velocity of the point of the body
    that is at the centre of mass of its tree; zero for the world. MuJoCo's `cvel`.
    """
    return _one(self, "com_velocities", q, v, params=params)


def site_positions(self: Simulator, q: ArrayLike, *, params: Params | None = None) -> Real:
    """Return the positions of all sites in the world, real[(worlds,) nsite, 3]."""
    return _one(self, "site_positions", q, params=params)


def body_poses(self: Simulator, q: ArrayLike, *, params: Params | None = None) -> tuple[Real, Real]:
    """Return positions real[(worlds,) nbody, 3] and rotation matrices real[..., 3, 3]."""
    p, R = self.output("body_poses", q, params=params)
    return p, R


def site_poses(self: Simulator, q: ArrayLike, *, params: Params | None = None) -> tuple[Real, Real]:
    """Return positions real[(worlds,) nsite, 3] and rotation matrices real[..., 3, 3]."""
    p, R = self.output("site_poses", q, params=params)
    return p, R


def contact_forces(
    self: Simulator,
    q: ArrayLike,
    v: ArrayLike,
    u: ArrayLike | None = None,
    *,
    act: ArrayLike | None = None,
    params: Params | None = None,
) -> Real:
    """Return the forces of the contacts on each body, real[(worlds,) nbody, 6].

    Force and torque about the body's centre of mass, along the world's axes, as the parameter
    `xfrc_applied` has them, in the step that starts in this state; zero for the world. They are
    those of `contacts`, added up, with a gradient; under `contact="mujoco"` only. A world with
    more contacts than there is room for has NaN.
    """
    drive = join_drive("contact_forces()", bridge_of(self).layout, u, act, finite=True)
    return _one(self, "contact_forces", q, v, drive, params=params)


def contact_forces_vjp(
    self: Simulator,
    q: ArrayLike,
    v: ArrayLike,
    u: ArrayLike | None,
    F_bar: ArrayLike,
    *,
    act: ArrayLike | None = None,
    params: Params | None = None,
) -> OutputGradient:
    """Return the gradient of a loss on `contact_forces`."""
    drive = join_drive("contact_forces_vjp()", bridge_of(self).layout, u, act)
    return self.output_vjp("contact_forces", q, v, drive, F_bar, params=params)


def mass_matrix_vjp(
    self: Simulator, q: ArrayLike, M_bar: ArrayLike, *, params: Params | None = None
) -> OutputGradient:
    """Return the gradient of a loss on `mass_matrix`."""
    return self.output_vjp("mass_matrix", q, M_bar, params=params)


def bias_vjp(
    self: Simulator, q: ArrayLike, v: ArrayLike, c_bar: ArrayLike, *, params: Params | None = None
) -> OutputGradient:
    """Return the gradient of a loss on `bias`."""
    return self.output_vjp("bias", q, v, c_bar, params=params)


def forward_dynamics_vjp(
    self: Simulator,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    a_bar: ArrayLike,
    *,
    params: Params | None = None,
) -> OutputGradient:
    """Return the gradient of a loss on `forward_dynamics`."""
    return self.output_vjp("forward_dynamics", q, v, tau, a_bar, params=params)


def inverse_dynamics_vjp(
    self: Simulator,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    tau_bar: ArrayLike,
    *,
    params: Params | None = None,
) -> OutputGradient:
    """Return the gradient of a loss on `inverse_dynamics`."""
    return self.output_vjp("inverse_dynamics", q, v, a, tau_bar, params=params)


def center_of_mass_vjp(
    self: Simulator, q: ArrayLike, x_bar: ArrayLike, *, params: Params | None = None
) -> OutputGradient:
    """Return the gradient of a loss on `center_of_mass`."""
    return self.output_vjp("center_of_mass", q, x_bar, params=params)


def mass_centers_vjp(
    self: Simulator, q: ArrayLike, x_bar: ArrayLike, *, params: Params | None = None
) -> OutputGradient:
    """Return the gradient of a loss on `mass_centers`."""
    return self.output_vjp("mass_centers", q, x_bar, params=params)


def com_inertias_vjp(
    self: Simulator, q: ArrayLike, I_bar: ArrayLike, *, params: Params | None = None
) -> OutputGradient:
    """Return the gradient of a loss on `com_inertias`."""
    return self.output_vjp("com_inertias", q, I_bar, params=params)


def com_velocities_vjp(
    self: Simulator, q: ArrayLike, v: ArrayLike, V_bar: ArrayLike, *, params: Params | None = None
) -> OutputGradient:
    """Return the gradient of a loss on `com_velocities`."""
    return self.output_vjp("com_velocities", q, v, V_bar, params=params)


def site_positions_vjp(
    self: Simulator, q: ArrayLike, x_bar: ArrayLike, *, params: Params | None = None
) -> OutputGradient:
    """Return the gradient of a loss on `site_positions`."""
    return self.output_vjp("site_positions", q, x_bar, params=params)


def body_poses_vjp(
    self: Simulator,
    q: ArrayLike,
    p_bar: ArrayLike | None = None,
    R_bar: ArrayLike | None = None,
    *,
    params: Params | None = None,
) -> OutputGradient:
    """Return the gradient of a loss on `body_poses`; a cotangent that is None is zero."""
    return self.output_vjp("body_poses", q, p_bar, R_bar, params=params)


def site_poses_vjp(
    self: Simulator,
    q: ArrayLike,
    p_bar: ArrayLike | None = None,
    R_bar: ArrayLike | None = None,
    *,
    params: Params | None = None,
) -> OutputGradient:
    """Return the gradient of a loss on `site_poses`; a cotangent that is None is zero."""
    return self.output_vjp("site_poses", q, p_bar, R_bar, params=params)


def _one(self: Simulator, name: str, *inputs: ArrayLike, params: Params | None) -> Real:
    """Return an output that is one array."""
    (array,) = evaluate(f"{name}()", bridge_of(self), name, inputs, params, finite=True)
    return array
