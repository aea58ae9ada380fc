"""What an identification hands back: values, their uncertainty, and what cannot be told apart."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from featherback.errors import OptimisationError

Array = NDArray[np.float64]

SINGULAR = 1e-10  # of the largest singular value: a direction below it does not act at all
BLIND = 1e8  # a direction known to this many times the sizes is rounding
NAMED = 0.2  # a label takes part in a direction with at least this share


@dataclass(frozen=True, eq=False)
class Direction:
    """A change of the unknowns that the data hardly sees.

    Attributes:
        shares: by label, in units of each unknown's size; of length one together, the largest
            positive.
        deviation: standard deviation along it, in the same units; infinite where the data does not
            see it at all.
    """

    shares: dict[str, float]
    deviation: float

    def describe(self) -> str:
        """Return one sentence."""
        # equal shares keep the order of the unknowns
        main = sorted(self.shares.items(), key=lambda item: -round(abs(item[1]), 6))
        main = [(name, share) for name, share in main if abs(share) >= NAMED]
        often = f"{self.deviation:.2g} times" if np.isfinite(self.deviation) else "any multiple of"
        if len(main) == 1:
            return f"the data does not tell {main[0][0]}: it is known to {often} its size."
        parts = ", ".join(f"{share:+.2f} {name}" for name, share in main)
        return (
            f"the data does not tell apart {parts} (shares of their sizes): along this direction "
            f"they are known to {often} their size."
        )


@dataclass(frozen=True, eq=False)
class Estimate:
    """Identified parameters.

    Attributes:
        labels: name of each unknown.
        x: float64[n], their values.
        covariance: float64[n, n], from the Gauss-Newton matrix; infinite along what the data does
            not see. Where the errors are larger than the noise that was given, by their ratio.
        jacobian: float64[measurements, n], of the weighted errors at x, starts eliminated.
        size: float64[n], a change of each unknown that matters; directions are measured in it.
        params: the identified parameters by name, as `Simulator` takes them.
        costs: half the sum of squared weighted errors after each iteration; the first is that of
            the start.
        path: x after each iteration.
        evaluations: predictions of each iteration; the first is 1.
        noise: what standard deviations are multiplied with: the misfit, and where a noise was
            given not less than 1.
        misfit: root mean square of the weighted errors, degrees of freedom counted: about 1 where
            model and noise are right, the noise itself where none was given; None where there are
            as many unknowns as measurements.
        at_bound: labels of unknowns that ended at a bound.
        converged: whether the optimiser came to its end, instead of spending all evaluations.
        reason: why it stopped, in a sentence.
        starts: q float64[windows, nq] and v float64[windows, nv], first states of the windows.
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
        """Number of iterations after the start."""
        return len(self.costs) - 1

    def directions(self) -> list[Direction]:
        """Return the singular directions of the scaled Jacobian, the least known first."""
        spread, rows = spreads(self.jacobian, self.size, self.noise)
        # a direction has no sign: its largest share is taken as positive
        largest = np.argmax(np.abs(rows), axis=1)
        rows = rows * np.sign(rows[np.arange(len(rows)), largest])[:, None]
        return [
            Direction(dict(zip(self.labels, map(float, rows[i]), strict=True)), float(spread[i]))
            for i in np.argsort(-spread, kind="stable")
        ]

    def unresolved(self, within: float = 0.1) -> list[Direction]:
        """Return the directions along which the unknowns are not known to `within` their size."""
        return [d for d in self.directions() if d.deviation > within]

    def report(self, within: float = 0.1) -> str:
        """Return values, standard deviations and what the data cannot tell apart, as text."""
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
        """Raise OptimisationError if the evaluations were spent before the end.

        Raises:
            OptimisationError: with the reason.
        """
        if not self.converged:
            raise OptimisationError(self.reason, self)


def spreads(jacobian: Array, size: Array, noise: float) -> tuple[Array, Array]:
    """Return standard deviations along singular directions in units of the sizes, and these.

    A deviation is infinite where the data does not see the direction.
    """
    values, rows = _singular(jacobian * size)
    blind = (values <= SINGULAR * values.max(initial=0.0)) | (values * BLIND <= noise)
    return np.where(blind, np.inf, noise / np.where(blind, 1.0, values)), rows


def covariance_of(jacobian: Array, size: Array, noise: float) -> Array:
    """Return the covariance of the unknowns; infinite for those that the data does not see."""
    spread, rows = spreads(jacobian, size, noise)
    blind = np.isinf(spread)
    root = np.where(blind, 0.0, spread)[:, None] * rows * size
    covariance = root.T @ root
    # an unknown that takes part in an unseen direction can have any value
    lost = np.any(np.abs(rows[blind]) > 1e-6, axis=0)
    covariance[lost, lost] = np.inf
    return covariance


def _singular(matrix: Array) -> tuple[Array, Array]:
    """Return all singular values and right singular vectors of a tall or wide matrix."""
    corner = np.linalg.qr(matrix, mode="r")
    _, values, rows = np.linalg.svd(corner, full_matrices=True)
    return np.concatenate([values, np.zeros(len(rows) - len(values))]), rows
