"""Helpers for rough landscapes: clipped gradients, and gradients averaged over a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from featherback._checks import is_integer
from featherback._typing import Array
from featherback.control.controls import real_array
from featherback.control.outcome import Bounded
from featherback.errors import ParameterError
from featherback.sim.options import check_choice

Order = Literal["first", "zeroth", "mixed"]
ORDERS = ("first", "zeroth", "mixed")


class Batched(Bounded, Protocol):
    """An objective that evaluates many points at once, such as `Shooting`."""

    def values(self, x: Array) -> Array:
        """Return the costs of x[worlds, size]."""
        ...

    def gradients(self, x: Array) -> tuple[Array, Array]:
        """Return costs and gradients at x[worlds, size]."""
        ...


def clip_norm(gradient: Array, max_norm: float | None) -> Array:
    """Return a gradient, shortened where its norm exceeds `max_norm`; None does nothing."""
    if max_norm is None:
        return gradient
    if not max_norm > 0.0:
        raise ParameterError(f"clip_norm(): max_norm is {max_norm}; it must be > 0.")
    norm = float(np.linalg.norm(gradient))
    return gradient * (max_norm / norm) if norm > max_norm else gradient


@dataclass(frozen=True, eq=False)
class Bundle:
    """A gradient averaged over random neighbours.

    Attributes:
        cost: mean cost of the neighbours.
        gradient: float64[size], the estimate of the gradient of that mean.
        variance: mean over the unknowns of the estimate's variance.
        first: weight of the first-order estimate in it, 1 for "first" and 0 for "zeroth".
    """

    cost: float
    gradient: Array
    variance: float
    first: float


def bundle(
    objective: Batched,
    x: Array,
    *,
    sigma: float,
    samples: int,
    rng: np.random.Generator,
    order: Order = "first",
) -> Bundle:
    """Estimate the gradient of the cost smoothed by Gaussian noise, from one batch of worlds.

    Neighbours come in pairs x + sigma e and x - sigma e. The first order averages exact gradients;
    the zeroth order uses costs only, so that it also sees jumps; "mixed" weights the two by the
    inverse of their variances.

    Args:
        objective: evaluates a batch.
        x: float64[size], where.
        sigma: standard deviation of the noise, in units of x.
        samples: number of worlds, even and at least 4.
        rng: source of the noise.
        order: "first", "zeroth" or "mixed".

    Returns:
        The estimate and how uncertain it is.

    Raises:
        ParameterError: for a bad sigma, number of samples or order.
        WorldError: where a world becomes non-finite.
    """
    where = "bundle()"
    _check_options(where, sigma, samples, order)
    x = real_array(where, "x", x, (objective.size,))
    noise = rng.standard_normal((samples // 2, len(x)))
    points = np.concatenate([x + sigma * noise, x - sigma * noise])
    half = samples // 2
    if order == "zeroth":
        cost = objective.values(points)
        exact = None
    else:
        cost, exact = objective.gradients(points)
    # a pair is one sample: its mean gradient, or its difference along the noise
    difference = (cost[:half] - cost[half:])[:, None] / (2.0 * sigma) * noise
    estimates = {"zeroth": _mean(difference)}
    if exact is not None:
        estimates["first"] = _mean(0.5 * (exact[:half] + exact[half:]))
    mean = float(cost.mean())
    if order != "mixed":
        gradient, variance = estimates[order]
        return Bundle(mean, gradient, variance, float(order == "first"))
    (first, spread1), (zeroth, spread0) = estimates["first"], estimates["zeroth"]
    total = spread0 + spread1
    weight = spread0 / total if total > 0.0 else 1.0
    spread = weight**2 * spread1 + (1.0 - weight) ** 2 * spread0
    return Bundle(mean, weight * first + (1.0 - weight) * zeroth, spread, weight)


def _check_options(where: str, sigma: float, samples: int, order: str) -> None:
    """Raise ParameterError for options that are unknown or out of range."""
    check_choice(where, "order", order, ORDERS)
    if not (np.isfinite(sigma) and sigma > 0.0):
        raise ParameterError(f"{where}: sigma is {sigma}; it must be a finite number > 0.")
    if not is_integer(samples) or samples < 4 or samples % 2:
        raise ParameterError(f"{where}: samples is {samples}; it must be an even integer >= 4.")


def _mean(rows: Array) -> tuple[Array, float]:
    """Return the mean over the rows, and the mean variance of that mean's entries."""
    spread = rows.var(axis=0, ddof=1).mean() / len(rows)
    return rows.mean(axis=0), float(spread)
