"""Physically consistent inertias for identification: ten free numbers for each body.

Any `theta` in R^10 stands for a body that could exist: its mass is > 0 and its principal moments
satisfy the triangle inequalities strictly. Every such body has one `theta`. So an optimizer may
move freely in `theta`, and the gradient of a rollout is mapped back to it:

    values = inertia.from_log_cholesky(theta)              # theta (10,) or (bodies, 10)
    params = {k: sim.params[k].copy() for k in values}
    for name, value in values.items():
        params[name][bodies] = value
    gradient = sim.rollout(q, v, u, params=params).vjp(q_bar, v_bar).params
    theta_bar = inertia.from_log_cholesky_vjp(theta, {k: g[bodies] for k, g in gradient.items()})

With mass m, centre of mass t and second moments about it S = m U U', the ten numbers are
(alpha, d1, d2, d3, s12, s23, s13, t1, t2, t3) with m = exp(2 alpha) and

    U = [exp(d1)  s12      s13    ]
        [0        exp(d2)  s23    ]
        [0        0        exp(d3)]

The inertia about the centre of mass is tr(S) 1 - S in body axes. It is passed on as a full matrix,
`body_inertia` and `body_inertia_products` in the frame `body_iquat` = (1, 0, 0, 0): principal axes
are not unique where two moments are equal, and have no gradient there.

Reference: C. Rucker, P. M. Wensing, "Smooth Parameterization of Rigid-Body Inertia", IEEE Robotics
and Automation Letters 7(2), 2022.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from featherback._typing import Array
from featherback.errors import ParameterError, ShapeError

__all__ = ["from_log_cholesky", "from_log_cholesky_vjp", "to_log_cholesky"]

# shape of each value of one body
_SHAPES: dict[str, tuple[int, ...]] = {
    "body_mass": (),
    "body_ipos": (3,),
    "body_inertia": (3,),
    "body_inertia_products": (3,),
    "body_iquat": (4,),
}
# rows and columns of the products xy, xz, yz
_FIRST, _SECOND = [0, 0, 1], [1, 2, 2]


def to_log_cholesky(
    mass: ArrayLike, com: ArrayLike, inertia: ArrayLike, quat: ArrayLike | None = None
) -> Array:
    """Return the ten numbers of bodies, float64[..., 10].

    Args:
        mass: real[...], > 0 [kg].
        com: real[..., 3], centre of mass in body axes [m]; MuJoCo's `body_ipos`.
        inertia: real[..., 3, 3], inertia about the centre of mass [kg m^2], in body axes; with
            `quat`, real[..., 3], the principal moments; MuJoCo's `body_inertia`.
        quat: real[..., 4], orientation of the principal axes; MuJoCo's `body_iquat`.

    Raises:
        ParameterError: where no body has these values: a mass that is not > 0, or moments on or
            beyond the triangle inequality, such as those of a point or of a rod without width.
        ShapeError: where an array has a wrong shape.
    """
    where = "to_log_cholesky()"
    m = _array(where, "mass", mass, ())
    t = _array(where, "com", com, (3,))
    if quat is None:
        full = _array(where, "inertia", inertia, (3, 3))
    else:
        frame = _rotation(where, _array(where, "quat", quat, (4,)))
        moments = _array(where, "inertia", inertia, (3,))
        full = np.einsum("...ik,...k,...jk->...ij", frame, moments, frame)
    if np.any(np.abs(full - np.swapaxes(full, -1, -2)) > 1e-9 * np.abs(full).max(initial=0)):
        raise ParameterError(f"{where}: inertia is not symmetric; give a symmetric matrix.")
    if np.any(m <= 0):
        raise ParameterError(f"{where}: mass holds {m.min():g} kg; it must be > 0.")
    m, t, full = _together(where, m, t, full)
    second = 0.5 * np.trace(full, axis1=-2, axis2=-1)[..., None, None] * np.eye(3) - full
    moments = np.linalg.eigvalsh(second)
    if np.any(moments[..., 0] <= 1e-14 * moments[..., 2]):
        raise ParameterError(
            f"{where}: inertia lies on or beyond the triangle inequality, I1 + I2 > I3, so that no "
            "body with an extent along all its axes has it; give such a body."
        )
    # the upper factor is the lower one of the matrix with both axes reversed
    U = np.linalg.cholesky((second / m[..., None, None])[..., ::-1, ::-1])[..., ::-1, ::-1]
    theta = np.empty((*m.shape, 10))
    theta[..., 0] = 0.5 * np.log(m)
    theta[..., 1:4] = np.log(np.diagonal(U, axis1=-2, axis2=-1))
    theta[..., 4], theta[..., 5], theta[..., 6] = U[..., 0, 1], U[..., 1, 2], U[..., 0, 2]
    theta[..., 7:] = t
    return theta


def from_log_cholesky(theta: ArrayLike) -> dict[str, Array]:
    """Return parameters of bodies by name, in the shapes a Simulator takes for these bodies.

    Args:
        theta: real[..., 10], any finite numbers; see the module.

    Returns:
        `body_mass` [...], `body_ipos` [..., 3], `body_inertia` [..., 3] and
        `body_inertia_products` [..., 3] (xx, yy, zz and xy, xz, yz of the inertia matrix), and
        `body_iquat` [..., 4], which is (1, 0, 0, 0). Pass all five: they replace each other's.

    Raises:
        ParameterError: where theta is not finite, or so large that its mass or inertia is not.
        ShapeError: where theta has a wrong shape.
    """
    where = "from_log_cholesky()"
    x = _array(where, "theta", theta, (10,))
    with np.errstate(over="ignore", invalid="ignore"):
        mass, U = np.exp(2 * x[..., 0]), _upper_factor(x)
        second = mass[..., None, None] * (U @ np.swapaxes(U, -1, -2))
        trace = np.trace(second, axis1=-2, axis2=-1)
        diagonal = trace[..., None] - np.diagonal(second, axis1=-2, axis2=-1)
    if not np.all(np.isfinite(diagonal)) or np.any(mass == 0) or np.any(diagonal <= 0):
        raise ParameterError(
            f"{where}: theta gives a mass or an inertia that overflows; give smaller logarithms."
        )
    return {
        "body_mass": mass,
        "body_ipos": x[..., 7:].copy(),
        "body_inertia": diagonal,
        "body_inertia_products": -second[..., _FIRST, _SECOND],
        "body_iquat": np.broadcast_to([1.0, 0, 0, 0], (*mass.shape, 4)).copy(),
    }


def from_log_cholesky_vjp(theta: ArrayLike, bars: Mapping[str, ArrayLike]) -> Array:
    """Return the derivative of a loss with respect to theta, float64[..., 10].

    Args:
        theta: real[..., 10], as given to `from_log_cholesky`.
        bars: derivatives of the loss with respect to what it returned, by name; zero for those left
            out. That of `body_iquat` has no effect, since `body_iquat` does not depend on theta.

    Raises:
        ParameterError: for an unknown name, or numbers that are not finite.
        ShapeError: where an array has a wrong shape.
    """
    where = "from_log_cholesky_vjp()"
    x = _array(where, "theta", theta, (10,))
    bar = {name: np.zeros((*x.shape[:-1], *shape)) for name, shape in _SHAPES.items()}
    for name, value in bars.items():
        if name not in _SHAPES:
            raise ParameterError(
                f'{where}: unknown name "{name}" in bars; known: {", ".join(_SHAPES)}.'
            )
        array = _array(where, f'bars["{name}"]', value, _SHAPES[name])
        if array.shape != bar[name].shape:
            raise ShapeError(
                f'{where}: bars["{name}"] has shape {array.shape}; expected {bar[name].shape}.'
            )
        bar[name] = array
    mass, U = np.exp(2 * x[..., 0]), _upper_factor(x)
    # inertia = tr(S) 1 - S, so that S_bar = tr(I_bar) 1 - I_bar for a symmetric I_bar
    I_bar = np.zeros((*x.shape[:-1], 3, 3))
    for k in range(3):
        I_bar[..., k, k] = bar["body_inertia"][..., k]
        half = 0.5 * bar["body_inertia_products"][..., k]
        I_bar[..., _FIRST[k], _SECOND[k]] = I_bar[..., _SECOND[k], _FIRST[k]] = half
    S_bar = np.trace(I_bar, axis1=-2, axis2=-1)[..., None, None] * np.eye(3) - I_bar
    # S = m U U'
    U_bar = 2 * mass[..., None, None] * (S_bar @ U)
    mass_bar = bar["body_mass"] + np.sum(S_bar * (U @ np.swapaxes(U, -1, -2)), axis=(-2, -1))
    out = np.empty_like(x)
    out[..., 0] = 2 * mass * mass_bar
    out[..., 1:4] = np.diagonal(U_bar * U, axis1=-2, axis2=-1)
    out[..., 4], out[..., 5], out[..., 6] = U_bar[..., 0, 1], U_bar[..., 1, 2], U_bar[..., 0, 2]
    out[..., 7:] = bar["body_ipos"]
    return out


def _upper_factor(x: Array) -> Array:
    """Return the upper factor U of theta, float64[..., 3, 3]."""
    U = np.zeros((*x.shape[:-1], 3, 3))
    for k in range(3):
        U[..., k, k] = np.exp(x[..., 1 + k])
    U[..., 0, 1], U[..., 1, 2], U[..., 0, 2] = x[..., 4], x[..., 5], x[..., 6]
    return U


def _array(where: str, name: str, value: Any, shape: tuple[int, ...]) -> Array:
    """Return finite float64 numbers whose last axes are `shape`."""
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.asarray(None)
    if array.dtype.kind not in "fiu":
        raise ShapeError(f"{where}: {name} is not an array of real numbers; give one.")
    if array.shape[array.ndim - len(shape) :] != shape or array.ndim < len(shape):
        wanted = ", ".join(map(str, ("...", *shape)))
        raise ShapeError(f"{where}: {name} has shape {array.shape}; expected ({wanted}).")
    if not np.all(np.isfinite(array)):
        raise ParameterError(f"{where}: {name} holds a NaN or infinity; give finite numbers.")
    return array.astype(np.float64)


def _rotation(where: str, quat: Array) -> Array:
    """Return rotation matrices of quaternions wxyz of any length."""
    length = np.linalg.norm(quat, axis=-1, keepdims=True)
    if np.any(length == 0):
        raise ParameterError(f"{where}: quat holds a zero; a quaternion must have a length > 0.")
    w, x, y, z = np.moveaxis(quat / length, -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def _together(where: str, mass: Array, com: Array, full: Array) -> tuple[Array, Array, Array]:
    """Return mass, com and inertia with the same leading axes."""
    try:
        lead = np.broadcast_shapes(mass.shape, com.shape[:-1], full.shape[:-2])
    except ValueError:
        raise ShapeError(
            f"{where}: mass, com and inertia have the leading shapes {mass.shape}, "
            f"{com.shape[:-1]} and {full.shape[:-2]}; they must broadcast to one."
        ) from None
    return (
        np.broadcast_to(mass, lead),
        np.broadcast_to(com, (*lead, 3)),
        np.broadcast_to(full, (*lead, 3, 3)),
    )
