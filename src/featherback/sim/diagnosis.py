"""How a gradient fares along a rollout: where it grows, and what happens there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from featherback._typing import Real


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Figures of each step of a backward pass. World axes are those of the rollout.

    Attributes:
        norm: real[(worlds,) steps], length of the gradient of the loss with respect to the state
            before the step, configurations in the tangent space.
        contacts: int64[(worlds,) steps], contacts that carry a force in the step.
        events: bool[(worlds,) steps], whether that number differs from the step before.
        residual: real[(worlds,) steps], residual of the contact solve [m/s].
        unrolled: bool[(worlds,) steps], whether the solve was reversed sweep by sweep.
        ties: int64[(worlds,) steps], places on the border between two modes.
        growth: real[(worlds,)], rate at which the norm grows from the end of the rollout to its
            start [1/s]: the slope of its logarithm, where it is not zero.
    """

    norm: Real
    contacts: NDArray[np.int64]
    events: NDArray[np.bool_]
    residual: Real
    unrolled: NDArray[np.bool_]
    ties: NDArray[np.int64]
    growth: Real

    def __str__(self) -> str:
        """Return one line for each world, at most ten."""
        norm = np.atleast_2d(self.norm)
        growth = np.atleast_1d(self.growth)
        lines = [self._line(w, norm, growth) for w in range(min(len(norm), 10))]
        if len(norm) > 10:
            lines.append(f"and {len(norm) - 10} more worlds.")
        return "\n".join(lines)

    def _line(self, world: int, norm: Real, growth: Real) -> str:
        """Return the line of one world."""
        counts = [np.atleast_2d(a)[world] for a in (self.events, self.unrolled, self.ties)]
        if not norm.shape[1]:
            return f"world {world}: no steps"
        return (
            f"world {world}: gradient {norm[world, -1]:.3g} at the last step, "
            f"{norm[world, 0]:.3g} at the first, largest {norm[world].max():.3g} at step "
            f"{int(norm[world].argmax())}, growth {growth[world]:.3g} per second; "
            f"{int(counts[0].sum())} contact events, {int(counts[1].sum())} steps unrolled, "
            f"{int(counts[2].sum())} ties"
        )


def diagnose(trace: Real, dt: float | Real) -> Diagnosis:
    """Return the figures of a trace, real[(worlds,) steps, 5], of the backward job."""
    contacts = np.rint(trace[..., 1]).astype(np.int64)
    events = np.zeros(contacts.shape, bool)
    events[..., 1:] = contacts[..., 1:] != contacts[..., :-1]
    norm = trace[..., 0]
    rates = np.array([_slope(norm[w]) for w in np.ndindex(norm.shape[:-1])])
    rates = rates.reshape(norm.shape[:-1])
    return Diagnosis(
        norm=norm,
        contacts=contacts,
        events=events,
        residual=trace[..., 2],
        unrolled=trace[..., 3] != 0,
        ties=np.rint(trace[..., 4]).astype(np.int64),
        growth=np.asarray(-rates / dt),
    )


def _slope(norm: Real) -> float:
    """Return the slope of log(norm) over the steps where it is positive, by least squares."""
    steps = np.flatnonzero(norm > 0)
    if len(steps) < 2:
        return 0.0
    away = steps - steps.mean()
    return float(away @ np.log(norm[steps].astype(np.float64)) / (away @ away))
