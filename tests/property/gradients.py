"""Gradients of rollouts against Richardson differences along lines, with a tally of outcomes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import featherback as fb
from featherback._core import option_table
from featherback.sim import options
from featherback.sim.check import sizes
from featherback.sim.differences import LADDER, RATIO, Slopes, slopes, stencil
from featherback.sim.inputs import NO_GRADIENT
from featherback.sim.laws import acting
from tests.property.modes import STATES, contact_modes
from tests.property.random_models import Rng
from tests.property.sides import Side, side_slope

Vector = NDArray[np.float64]
OFFSETS = stencil()
# sides are looked at nearer to the point, since a kink may lie between
NEAR = LADDER[0] * RATIO ** -np.arange(13.0)
# a one-sided slope is looked at if its doubt is below this share of the largest entry
CLEAR = 1e-4
# a line that rounding hides at the usual steps is looked at in steps so much longer
LONGER = 32.0


def parameters(model: fb.Model, law: str = "hard") -> dict[str, Vector]:
    """Return all parameters that act under a contact law and have a gradient."""
    names = [name for name in acting(model.params, law) if name not in NO_GRADIENT]
    return {name: np.array(model.params[name]) for name in names}


def soften_like_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give float64 the default compliance of rows that float32 has, so that the physics agree."""

    def soft(row: Any) -> Any:
        value = row.default_float32
        return SimpleNamespace(name=row.name, kind=row.kind, default=value, default_float32=value)

    rows = [soft(row) if row.name == "regularization" else row for row in option_table()]
    monkeypatch.setattr(options, "option_table", lambda: rows)


@dataclass
class Tally:
    """What came of many comparisons.

    Attributes:
        count: models, lines, crossed lines, models without a gradient, and others by name.
        worst: largest error of a compared line, relative to the largest entry of its gradient.
        failures: one text for each line above the tolerance.
        acted: names of inputs with a gradient that is not zero.
    """

    count: Counter[str] = field(default_factory=Counter)
    worst: float = 0.0
    failures: list[str] = field(default_factory=list)
    acted: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        """Return the counts and the worst error in one line."""
        counts = ", ".join(f"{name} {n}" for name, n in sorted(self.count.items()))
        return f"{counts}; worst relative error {self.worst:.1e}"


@dataclass
class Comparison:
    """One rollout with a random linear loss on all its states, and its gradient.

    Attributes:
        sim: the simulator.
        inputs: q, v, u, act where it is not zero, and parameters by name.
        rng: source of cotangents and directions.
        label: what a failure is called.
        tolerance: relative to the largest entry of the gradient of one input.
    """

    sim: fb.Simulator
    inputs: dict[str, Vector]
    rng: Rng
    label: str
    tolerance: float = 1e-6

    def __post_init__(self) -> None:
        """Roll out and run backwards; WorldError where there is no gradient."""
        self.steps = len(self.inputs["u"])
        self.roll = self._rollout(self.inputs)
        states = (self.roll.q, self.roll.v, self.roll.act)
        self.bars = [self.rng.normal(size=a.shape) for a in states]
        found = self.roll.vjp(*self.bars)
        self.gradient = {name: getattr(found, name) for name in STATES} | found.params
        self.largest = max(
            float(np.abs(a.reshape(-1) * sizes(name, self.inputs)).max(initial=0))
            for name, a in self.gradient.items()
            if name in self.inputs
        )

    def _rollout(self, inputs: dict[str, Any]) -> fb.Rollout:
        params = {name: a for name, a in inputs.items() if name not in STATES}
        point = {name: inputs.get(name) for name in STATES}
        return self.sim.rollout(**point, steps=self.steps, params=params)

    def beside(
        self, name: str, directions: Vector, offsets: Vector = OFFSETS
    ) -> tuple[dict[str, Any], fb.Rollout, Vector]:
        """Return inputs, rollouts and losses at the stencil along directions of one input."""
        x = self.inputs[name]
        moved = x.reshape(-1) + offsets[None, :, None] * directions[:, None, :]
        worlds = moved.shape[0] * moved.shape[1]
        inputs = {
            k: np.broadcast_to(a, (worlds, *a.shape)) if k in STATES else a
            for k, a in self.inputs.items()
        }
        inputs[name] = moved.reshape(worlds, *x.shape)
        roll = self._rollout(inputs)
        loss = np.zeros(worlds)
        for states, base, bar in zip(
            (roll.q, roll.v, roll.act),
            (self.roll.q, self.roll.v, self.roll.act),
            self.bars,
            strict=True,
        ):
            loss += ((states - base) * bar).sum(axis=(1, 2))
        # a world that converged and one that did not are on different sides of a choice
        loss[roll.status != self.roll.status] = np.nan
        return inputs, roll, loss

    def lines(self, name: str, directions: Vector) -> Slopes:
        """Return slopes of the loss along directions of one input, each flat."""
        return slopes(self.beside(name, directions)[2].reshape(len(directions), -1))

    def sides(self, name: str, direction: Vector) -> tuple[Side, Side]:
        """Return the slopes to the right and to the left, from steps of the point's own modes."""
        inputs, roll, loss = self.beside(name, direction[None], stencil(NEAR))
        modes = contact_modes(self.sim, inputs, roll)
        loss[(modes != modes[:1]).any(axis=(1, 2, 3))] = np.nan
        n = len(NEAR)
        right = side_slope(loss[0], loss[1 : n + 1], NEAR)
        return right, side_slope(loss[0], loss[n + 1 :], -NEAR)

    def compare(self, name: str, directions: Vector, tally: Tally) -> None:
        """Compare the gradient of one input along directions, and count."""
        gradient = self.gradient[name].reshape(-1)
        if not gradient.size or not len(directions):
            return
        with np.errstate(invalid="ignore"):
            reference = self.lines(name, directions)
        # eight digits below the largest entry of all is rounding, and what moves the loss by 1e-10
        size = sizes(name, self.inputs)
        floor = max(1e-8 * self.largest, 1e-10 / self.tolerance)
        scale = max(float(np.abs(gradient * size).max()), reference.largest(), floor)
        error = np.abs(directions @ gradient - reference.value) / scale
        # differences cannot follow a slope by which the smallest step moves the loss this far
        lost = scale * -OFFSETS[-1] > 1e3
        # so many sweeps may be rough below any step, with slopes far from those of the steps
        slope = scale if self.roll.ok else min(scale, float(np.abs(reference.value).max()))
        known = (reference.doubt <= self.tolerance / 3 * slope) & (not lost)
        if not known.all() and not lost:
            with np.errstate(invalid="ignore"):
                longer = self.lines(name, LONGER * directions)
            better = ~known & (longer.doubt <= LONGER * self.tolerance / 3 * slope)
            difference = np.where(better, longer.value / LONGER, reference.value)
            error = np.abs(directions @ gradient - difference) / scale
            known |= better
            tally.count["longer lines"] += int(better.sum())
        tally.count["exploded lines"] += len(known) if lost else 0
        tally.count["lines"] += len(known)
        tally.count["crossed lines"] += int((~known).sum())
        tally.worst = max(tally.worst, float(error[known].max(initial=0)))
        for direction in directions[~known] if not lost else ():
            self.compare_sides(name, direction, scale, tally)
        for k in np.flatnonzero(known & ~(error <= self.tolerance)):
            tally.failures.append(
                f"{self.label}: {name} along line {k}: vjp {directions[k] @ gradient:.10g}, "
                f"differences {reference.value[k]:.10g}, error {error[k]:.1e}"
            )
        if known.any():
            self.note(name, tally)

    def note(self, name: str, tally: Tally) -> None:
        """Note that an input acts, if its gradient is more than rounding."""
        entries = self.gradient[name].reshape(-1) * sizes(name, self.inputs)
        if np.abs(entries).max() > 1e-13 * self.largest:
            tally.acted.add(name)

    def compare_sides(self, name: str, direction: Vector, scale: float, tally: Tally) -> None:
        """Compare with one-sided slopes where central differences do not agree among themselves.

        The gradient must be the slope of a side that keeps the contact modes of the point. Where
        both do, a choice that is not a contact's may lie at either.
        """
        found = float(direction @ self.gradient[name].reshape(-1))
        sides = [
            side
            for side in self.sides(name, direction)
            # as above: sweeps may be rough below any step
            if side.doubt <= CLEAR * (scale if self.roll.ok else min(scale, abs(side.value)))
        ]
        if not sides:
            tally.count["crossed lines unresolved"] += 1
            return
        apart = max(side.value for side in sides) - min(side.value for side in sides)
        kinked = len(sides) == 1 or apart > 3 * sum(side.doubt for side in sides)
        tally.count["crossed lines with a kink" if kinked else "crossed lines by rounding"] += 1
        self.note(name, tally)
        excess = [abs(s.value - found) - max(self.tolerance * scale, 3 * s.doubt) for s in sides]
        if min(excess) > 0:
            tally.failures.append(
                f"{self.label}: {name} beside a kink: vjp {found:.10g}, one-sided slopes "
                f"{[(s.value, s.doubt) for s in sides]}, largest entry {scale:.3g}"
            )

    def entries(self, name: str) -> Vector:
        """Return one direction for each entry of an input."""
        return np.diag(sizes(name, self.inputs))

    def random_directions(self, name: str, count: int) -> Vector:
        """Return random directions; what must keep its sign is moved by a share of itself."""
        size = sizes(name, self.inputs)
        return self.rng.normal(size=(count if size.any() else 0, len(size))) * size
