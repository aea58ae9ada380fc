"""The inertia of one body as ten unknowns that always stand for a body that could exist."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from featherback._typing import Array
from featherback.identify.unknowns import rows_of
from featherback.inertia import from_log_cholesky, from_log_cholesky_vjp, to_log_cholesky
from featherback.sim import Simulator

NAMES = ("body_mass", "body_ipos", "body_inertia", "body_inertia_products", "body_iquat")
PARTS = (
    "half log mass",
    "log spread 1",
    "log spread 2",
    "log spread 3",
    "skew 12",
    "skew 23",
    "skew 13",
    "centre x",
    "centre y",
    "centre z",
)


@dataclass(frozen=True, eq=False)
class BodyInertia:
    """Mass, centre of mass and inertia of one body; see `featherback.inertia` for the numbers.

    Attributes:
        body: its number.
        name: its name in reports.
        theta: float64[10], where the search begins.
        bodies: number of bodies of the model.
    """

    body: int
    name: str
    theta: Array
    bodies: int

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the ten numbers."""
        return tuple(f"{part} of {self.name}" for part in PARTS)

    @property
    def start(self) -> Array:
        """Where the search begins."""
        return self.theta

    @property
    def lower(self) -> Array:
        """No bounds."""
        return np.full(10, -np.inf)

    @property
    def upper(self) -> Array:
        """No bounds."""
        return np.full(10, np.inf)

    @property
    def size(self) -> Array:
        """One for logarithms, half of it for the mass; the body's largest spread for lengths."""
        length = float(np.exp(np.max(self.theta[1:4])))
        return np.array([0.5, 1.0, 1.0, 1.0, *(6 * [length])])

    def put(self, x: Array, params: dict[str, Array]) -> None:
        """Write mass, centre of mass and inertia of the body."""
        for name, value in from_log_cholesky(x).items():
            params[name][self.body] = value

    def tangents(self, x: Array) -> list[dict[str, Array]]:
        """Return the derivative of the parameters with respect to each of the ten numbers."""
        values = from_log_cholesky(x)
        sizes = {name: int(np.size(value)) for name, value in values.items()}
        total = sum(sizes.values())
        # one backward pass for each physical number, all in one batch
        bars: dict[str, Array] = {}
        slices: dict[str, slice] = {}
        at = 0
        for name, size in sizes.items():
            slices[name] = slice(at, at + size)
            bars[name] = np.eye(total)[:, slices[name]].reshape(total, *np.shape(values[name]))
            at += size
        matrix = from_log_cholesky_vjp(np.tile(x, (total, 1)), bars)
        out: list[dict[str, Array]] = []
        for i in range(10):
            tangent: dict[str, Array] = {}
            for name, value in values.items():
                full = np.zeros((self.bodies, *np.shape(value)))
                full[self.body] = matrix[slices[name], i].reshape(np.shape(value))
                tangent[name] = full
            out.append(tangent)
        return out


def inertia_of(sim: Simulator, body: str | int) -> BodyInertia:
    """Return the ten unknown numbers of a body: mass, centre of mass and inertia.

    They have no bounds: whatever the optimizer tries, a body with these values could exist.

    Args:
        sim: the simulator; its values are the start.
        body: name or number of the body.

    Raises:
        ParameterError: if there is no such body, or none that could exist has the simulator's
            values.
    """
    number = rows_of("inertia_of()", sim.model, "body_mass", body)[0]
    params = {name: np.asarray(sim.params[name][number], np.float64) for name in NAMES}
    full = np.diag(params["body_inertia"])
    for k, (i, j) in enumerate(((0, 1), (0, 2), (1, 2))):
        full[i, j] = full[j, i] = params["body_inertia_products"][k]
    # the inertia is written in the frame of body_iquat
    w, x, y, z = params["body_iquat"] / np.linalg.norm(params["body_iquat"])
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    rotation = np.eye(3) + 2.0 * (w * cross + cross @ cross)
    inertia = rotation @ full @ rotation.T
    theta = to_log_cholesky(params["body_mass"], params["body_ipos"], 0.5 * (inertia + inertia.T))
    name = sim.model.body_names[number] or f"body {number}"
    return BodyInertia(number, name, theta, sim.model.nbody)
