"""The result of an identification: values, their uncertainty, and what the data cannot resolve."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from featherback._typing import Array
from featherback.errors import OptimizationError

SINGULAR = 1e-10  # of the largest singular value: a direction below it has no effect at all
UNOBSERVED = 1e8  # a direction known only to this many times the sizes is rounding
NAMED = 0.2  # a label is named in a direction if its component is at least this


@dataclass(frozen=True, eq=False)
class SingularDirection:
    """A singular direction of the Jacobian: a combination of unknowns, and how well it is known.

    Attributes:
        components: by label, in units of each unknown's size; a unit vector, its largest component
            positive.
        deviation: standard deviation along it, in the same units; infinite where it has no effect
            on the data.
    """

    components: dict[str, float]
    deviation: float

    def describe(self) -> str:
        """Return one sentence."""
        # equal components keep the order of the unknowns
        main = sorted(self.components.items(), key=lambda item: -round(abs(item[1]), 6))
        main = [(name, component) for name, component in main if abs(component) >= NAMED]
        known = np.isfinite(self.deviation)
        if len(main) == 1:
            spread = f"is {self.deviation:.2g} times its size" if known else "is infinite"
            return f"the data does not determine {main[0][0]}: its standard deviation {spread}."
        parts = ", ".join(f"{component:+.2f} {name}" for name, component in main)
        spread = f"is {self.deviation:.2g}" if known else "is infinite"
        return (
            f"the data does not determine the combination {parts} (in units of their sizes): the "
            f"standard deviation along it {spread}."
        )


@dataclass(frozen=True, eq=False)
class Estimate:
    """Identified parameters.

    Attributes:
        labels: name of each unknown.
        x: float64[n], their values.
        covariance: float64[n, n], from the Gauss-Newton matrix; infinite along what has no effect
            on the data. Where the errors exceed the noise that was given, scaled by their ratio.
        jacobian: float64[measurements, n], of the weighted errors at x, starts eliminated.
        size: float64[n], typical scale of each unknown; directions are measured in it.
        params: the identified parameters by name, as `Simulator` takes them.
        costs: half the sum of squared weighted errors after each iteration; the first is that of
            the initial values.
        path: x after each iteration.
        evaluations: predictions of each iteration; the first is 1.
        noise: what standard deviations are multiplied with: the misfit, and where a noise was
            given not less than 1.
        misfit: root mean square of the weighted errors, degrees of freedom counted: about 1 where
            model and noise are right, the noise itself where none was given; None where there are
            as many unknowns as measurements.
        at_bound: labels of unknowns that ended at a bound.
        converged: whether the optimizer converged before `max_evaluations`.
        reason: why it stopped, in a sentence.
        starts: q float64[windows, nq] and v float64[windows, nv], initial states of the windows.
    """

    labels: tuple[str, ...]
    x: Array
    covariance: Array
    jacobian: Array = field(repr=False)
    size: Array
    params: dict[str, Array] = field(repr=False)
    costs: list[float]
    path: list[Array] = field(repr=False)
    evaluations: list[int]
    noise: float
    misfit: float | None
    at_bound: tuple[str, ...]
    converged: bool
    reason: str
    starts: tuple[Array, Array] = field(repr=False)

    @property
    def values(self) -> dict[str, float]:
        """Values by label."""
        return dict(zip(self.labels, map(float, self.x), strict=True))

    @property
    def deviations(self) -> dict[str, float]:
        """Standard deviations by label."""
        spread = np.sqrt(np.diag(self.covariance))
        return dict(zip(self.labels, map(float, spread), strict=True))

    @property
    def iterations(self) -> int:
        """Number of iterations after the initial values."""
        return len(self.costs) - 1

    def directions(self) -> list[SingularDirection]:
        """Return the singular directions of the scaled Jacobian, the least certain first."""
        spread, rows = spreads(self.jacobian, self.size, self.noise)
        # a direction has no sign: its largest component is taken as positive
        largest = np.argmax(np.abs(rows), axis=1)
        rows = rows * np.sign(rows[np.arange(len(rows)), largest])[:, None]
        return [
            SingularDirection(
                dict(zip(self.labels, map(float, rows[i]), strict=True)), float(spread[i])
            )
            for i in np.argsort(-spread, kind="stable")
        ]

    def unresolved(self, within: float = 0.1) -> list[SingularDirection]:
        """Return the directions along which the unknowns are not known to `within` their size."""
        return [d for d in self.directions() if d.deviation > within]

    def report(self, within: float = 0.1) -> str:
        """Return values, standard deviations and what the data does not determine, as text."""
        width = max(len(label) for label in self.labels)
        lines = [
            f"{label:{width}}  {value:12.6g} +- {spread:.2g}"
            for (label, value), spread in zip(
                self.values.items(), self.deviations.values(), strict=True
            )
        ]
        lines += [f"{label} ended at a bound." for label in self.at_bound]
        lines += [direction.describe() for direction in self.unresolved(within)]
        lines.append(self.reason)
        if self.misfit is not None:
            lines.append(f"root mean square of the weighted errors: {self.misfit:.4g}.")
        return "\n".join(lines)

    def raise_if_unfinished(self) -> None:
        """Raise OptimizationError if it stopped at `max_evaluations` before it converged."""
        if not self.converged:
            raise OptimizationError(self.reason, self)


def spreads(jacobian: Array, size: Array, noise: float) -> tuple[Array, Array]:
    """Return standard deviations along singular directions in units of the sizes, and these.

    A deviation is infinite where the direction has no effect on the data.
    """
    values, rows = _singular(jacobian * size)
    unseen = (values <= SINGULAR * values.max(initial=0.0)) | (values * UNOBSERVED <= noise)
    return np.where(unseen, np.inf, noise / np.where(unseen, 1.0, values)), rows


def covariance_of(jacobian: Array, size: Array, noise: float) -> Array:
    """Return the covariance of the unknowns; infinite for those without effect on the data."""
    spread, rows = spreads(jacobian, size, noise)
    unseen = np.isinf(spread)
    root = np.where(unseen, 0.0, spread)[:, None] * rows * size
    covariance = root.T @ root
    # an unknown that takes part in an unobservable direction can have any value
    lost = np.any(np.abs(rows[unseen]) > 1e-6, axis=0)
    covariance[lost, lost] = np.inf
    return covariance


def _singular(matrix: Array) -> tuple[Array, Array]:
    """Return all singular values and right singular vectors of a tall or wide matrix."""
    corner = np.linalg.qr(matrix, mode="r")
    _, values, rows = np.linalg.svd(corner, full_matrices=True)
    return np.concatenate([values, np.zeros(len(rows) - len(values))]), rows
