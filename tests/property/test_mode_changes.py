"""Gradients beside a kink: `vjp` is the derivative of the side the step is on.

Along random lines through q, v and u the slope that `vjp` gives jumps where a contact opens,
closes, sticks or slides, where a joint reaches its limit or breaks loose, where an actuator
saturates or two features of a shape swap. Each jump is bisected to rounding; just beside it, on
both sides, `vjp` is compared with the one-sided derivative away from it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import featherback as fb
from featherback.errors import WorldError
from featherback.sim.differences import LADDER
from tests.property.modes import Modes, contact_modes
from tests.property.random_models import Rng, Vector
from tests.property.sides import Side, side_slope
from tests.property.test_random_gradients import draw, law

STATES = ("q", "v", "u")
REACH = 0.02
GRID = 16
# share of the largest slope by which it jumps at a kink
JUMP = 1e-3
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Points:
    """Rollouts at some places of a line.

    Attributes:
        loss: float64[places], the loss less that of the first place.
        slope: float64[places], that of `vjp`.
        modes: contact modes of each place.
        ok: bool[places], whether all solves reached their tolerance.
    """

    loss: Vector
    slope: Vector
    modes: Modes
    ok: Any


class Line:
    """A line through q, v and u of a model, with a random linear loss on all states."""

    def __init__(self, sim: fb.Simulator, start: dict[str, Vector], rng: Rng) -> None:
        """Draw the line and the loss."""
        self.sim, self.start = sim, start
        self.along = {name: rng.normal(size=a.shape) for name, a in start.items()}
        steps, m = len(start["u"]), sim.model
        self.bars = [rng.normal(size=(steps + 1, n)) for n in (m.nq, m.nv)]

    def at(self, places: Vector) -> Points:
        """Roll out and run backwards at places of the line."""
        steps = len(self.start["u"])
        inputs = {
            name: self.start[name] + np.multiply.outer(places, self.along[name]) for name in STATES
        }
        roll = self.sim.rollout(*(inputs[name] for name in STATES), steps=steps)
        bars = [np.broadcast_to(bar, (len(places), *bar.shape)) for bar in self.bars]
        found = roll.vjp(*bars)
        slope = sum(
            np.tensordot(a, self.along[name], axes=self.along[name].ndim)
            for name, a in (("q", found.q), ("v", found.v), ("u", found.u))
        )
        states = zip((roll.q, roll.v), self.bars, strict=True)
        loss = sum(((a - a[:1]) * bar).sum(axis=(1, 2)) for a, bar in states)
        modes = contact_modes(self.sim, inputs, roll)
        return Points(np.asarray(loss), np.asarray(slope), modes, roll.status == 0)

    def side(self, place: float, sign: float) -> tuple[Points, Side]:
        """Return a place with its one-sided slope, from places of the same contact mode."""
        steps = sign * LADDER
        points = self.at(place + np.r_[0.0, steps])
        same = (points.modes == points.modes[:1]).all(axis=(1, 2, 3)) & points.ok
        values = np.where(same, points.loss, np.nan)
        return points, side_slope(0.0, values[1:], steps)

    def kink(self) -> tuple[float, float] | None:
        """Return two places beside the largest jump of the slope, or None if it has none."""
        places = np.linspace(0, REACH, 4 * GRID + 1)
        for _ in range(8):
            points = self.at(places)
            if not points.ok.all():
                return None
            jumps = np.abs(np.diff(points.slope))
            k = int(np.argmax(jumps))
            if jumps[k] <= JUMP * np.abs(points.slope).max():
                return None
            low, high = places[k], places[k + 1]
            if high - low <= 1e-10:
                return low, high
            places = np.linspace(low, high, GRID + 1)
        return low, high


def kind_of(before: Modes, after: Modes) -> str:
    """Return what changes between two sides, as far as contacts tell."""
    if (before.sum(axis=-1) != after.sum(axis=-1)).any():
        return "contact opens"
    return "contact slides" if (before != after).any() else "other"


def check_line(line: Line, label: str, count: Counter[str]) -> None:
    """Compare both sides of one kink, if the line has one."""
    count["lines"] += 1
    places = line.kink()
    if places is None:
        return
    count["kinks"] += 1
    modes: list[Modes] = []
    for place, sign in zip(places, (-1.0, 1.0), strict=True):
        points, side = line.side(place, sign)
        modes.append(points.modes[0])
        scale = float(np.abs(points.slope).max())
        if side.doubt > TOLERANCE / 3 * scale:
            count["sides unresolved"] += 1
            continue
        count["sides compared"] += 1
        error = abs(side.value - points.slope[0]) / scale
        assert error <= TOLERANCE, (
            f"{label}, at {place!r}: vjp {points.slope[0]:.10g}, slope {side.value:.10g} +- "
            f"{side.doubt:.1e} on its side, error {error:.1e}"
        )
    count[kind_of(*modes)] += 1


def line_of(seed: int, steps: int, **options: Any) -> Line:
    """Return a random line through a random model."""
    model, q, v, rng = draw(seed)
    start = {"q": q, "v": v, "u": rng.normal(size=(steps, model.nu))}
    return Line(fb.Simulator(model, friction=law(seed), tolerance=1e-12, **options), start, rng)


def check_models(seeds: range, steps: int, **options: Any) -> Counter[str]:
    """Compare the sides of kinks along one line of each model."""
    count = Counter[str]()
    for seed in seeds:
        try:
            check_line(line_of(seed, steps, **options), f"seed {seed}, {steps} steps", count)
        except WorldError:
            count["models that leave the finite numbers"] += 1
    assert count["models that leave the finite numbers"] <= 0.02 * len(seeds)
    print(f"seeds {seeds.start} to {seeds.stop - 1}, {steps} steps: {dict(count)}")
    return count


def check_counts(count: Counter[str], compared: int, unresolved: float = 1.0) -> None:
    """Have compared enough sides, beside contacts that open and slide and beside other kinks."""
    assert count["sides compared"] >= compared
    assert count["sides unresolved"] <= unresolved * count["sides compared"]
    assert all(count[kind] > 0 for kind in ("contact opens", "contact slides", "other"))


# [m/s]: a gap term is linear up to 0.4 mm; by default it bends beyond 0.4 um, and differences tell
# fewer slopes
LINEAR = 500.0


@pytest.mark.parametrize(
    ("v_recover", "compared", "unresolved"), [(0.5, 70, 1.0), (LINEAR, 95, 0.8)]
)
def test_one_step(v_recover: float, compared: int, unresolved: float) -> None:
    """Be the derivative of its own side, beside the kinks of one step on 190 models."""
    count = check_models(range(50_000_000, 50_000_190), 1, v_recover=v_recover)
    check_counts(count, compared, unresolved)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(50_000_120, 50_002_000, 376))
def test_one_step_of_many_models(first: int) -> None:
    """Be the derivative of its own side, beside the kinks of one step on 2000 models."""
    check_counts(check_models(range(first, first + 376), 1, v_recover=LINEAR), 180)


@pytest.mark.slow
def test_ten_steps() -> None:
    """Be the derivative of its own side, beside the kinks of ten steps on 300 models."""
    # ten steps have more kinks, and the next one is often nearer than a difference can see
    check_counts(check_models(range(51_000_000, 51_000_300), 10, v_recover=LINEAR), 150, 1.4)
