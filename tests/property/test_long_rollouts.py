"""Gradients of 1000 steps in contact: against central differences and against dual numbers.

Differences are taken at three steps, along lines on which no contact opens, closes, sticks or
slides anew in any of the 1000 steps. Dual numbers are chained step by step, along all directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

import featherback as fb
from featherback.errors import WorldError
from featherback.sim.check import sizes
from featherback.sim.inputs import NO_GRADIENT
from tests.property.modes import contact_modes
from tests.property.random_models import Rng, Vector
from tests.property.test_random_gradients import draw, law

STATES = ("q", "v", "u")
STEPS = 1000
# steps of the differences, by which they move the loss
EPSILONS = np.array([1e-1, 1e-2, 1e-3])
# largest move of an entry, in units of `sizes`
FARTHEST = 0.1
# inputs that move the gaps of contacts
PLACES = set("q body_pos body_quat qpos0 jnt_pos jnt_axis geom_pos geom_quat geom_size".split())
# inputs of which lines are found in every motion
COMPARED = {"v", "u", "body_mass", "geom_friction"}


@dataclass
class Long:
    """A rollout of 1000 steps with a random linear loss on all its states, and its gradient."""

    sim: fb.Simulator
    inputs: dict[str, Vector]
    rng: Rng

    def __post_init__(self) -> None:
        """Roll out and run backwards."""
        self.roll = self.rollout(self.inputs)
        self.bars = [self.rng.normal(size=a.shape) for a in (self.roll.q, self.roll.v)]
        found = self.roll.vjp(*self.bars)
        whole = {"q": found.q, "v": found.v, "u": found.u, **found.params}
        self.gradient = {name: a.reshape(-1) for name, a in whole.items()}
        self.modes = contact_modes(self.sim, self.inputs, self.roll)

    def rollout(self, inputs: dict[str, Any]) -> fb.Rollout:
        """Roll out inputs, some of them with a world axis."""
        params = {name: a for name, a in inputs.items() if name not in STATES}
        return self.sim.rollout(*(inputs[name] for name in STATES), params=params, steps=STEPS)

    def moved(self, name: str, line: Vector) -> tuple[dict[str, Any], fb.Rollout]:
        """Return inputs and rollouts at the steps +e and -e along a line through one input."""
        offsets = np.r_[EPSILONS, -EPSILONS]
        x = self.inputs[name]
        worlds = len(offsets)
        inputs: dict[str, Any] = {
            key: np.broadcast_to(a, (worlds, *a.shape)) if key in STATES else a
            for key, a in self.inputs.items()
        }
        inputs[name] = x + (offsets[:, None] * line).reshape(worlds, *x.shape)
        return inputs, self.rollout(inputs)

    def differences(self, name: str, line: Vector) -> Vector | None:
        """Return central differences at three steps, or None where a contact mode changes."""
        inputs, roll = self.moved(name, line)
        if not roll.ok or (contact_modes(self.sim, inputs, roll) != self.modes).any():
            return None
        states = zip((roll.q, roll.v), (self.roll.q, self.roll.v), self.bars, strict=True)
        loss = sum(((moved - fixed) * bar).sum(axis=(1, 2)) for moved, fixed, bar in states)
        return np.asarray((loss[:3] - loss[3:]) / (2 * EPSILONS))

    def errors(self, name: str, line: Vector) -> Vector | None:
        """Return the errors of the gradient against the differences, relative to its entries.

        Steps move the loss by `EPSILONS`, unless an entry would move too far; they are shortened
        where a mode changes on the way.
        """
        size = float(np.linalg.norm(self.gradient[name] * line))
        with np.errstate(invalid="ignore"):
            far = np.nanmax(np.abs(line / sizes(name, self.inputs)))
        line = line / max(size, far * EPSILONS[0] / FARTHEST)
        for shorter in (1.0, 0.1, 0.01):
            terms = self.gradient[name] * line * shorter
            found = self.differences(name, line * shorter)
            if found is not None:
                return np.abs(found - terms.sum()) / np.linalg.norm(terms)
        return None

    def pairing(self, lines: dict[str, Vector]) -> tuple[Vector, Vector]:
        """Return error and growth of each direction, by dual numbers through all steps.

        Args:
            lines: directions by name, each (directions, size of the input), all of them together.

        Returns:
            The difference of the two products as a share of the sum of the sizes of their terms,
            and by how much the tangent grows, at least one.
        """
        count = len(next(iter(lines.values())))
        turns = {k: a.reshape(count, *self.inputs[k].shape) for k, a in lines.items()}
        dparams = {k: a for k, a in turns.items() if k not in STATES}
        copies = {
            k: np.broadcast_to(a, (count, *a.shape)) if k in STATES else a
            for k, a in self.inputs.items()
        }
        start = [turns.get(name) for name in STATES]
        tangents = self.rollout(copies).jvp(*start, dparams=dparams)
        forward, size, norm = np.zeros(count), np.zeros(count), np.zeros((count, STEPS + 1))
        for tangent, bar in zip(tangents, self.bars, strict=True):
            products = tangent * bar
            forward += products.sum(axis=(1, 2))
            size += np.abs(products).sum(axis=(1, 2))
            norm = np.hypot(norm, np.linalg.norm(tangent, axis=2))
        growth = np.maximum(norm.max(axis=1) / np.maximum(norm[:, 0], 1.0), 1.0)
        terms = np.hstack([a * self.gradient[k] for k, a in lines.items()])
        size += np.abs(terms).sum(axis=1)
        # directions that hardly act, such as a joint's place along its axis, are held to the others
        size = np.maximum(size, max(1e-5 * size.max(), np.finfo(np.float64).tiny))
        return np.abs(forward - terms.sum(axis=1)) / size, growth


def parameters(sim: fb.Simulator) -> dict[str, Vector]:
    """Return all parameters that have a gradient, none of them tied within a maximum."""
    params = {k: np.array(a) for k, a in sim.params.items() if k not in NO_GRADIENT and a.size}
    params["geom_friction"][:, 0] *= np.linspace(0.7, 1.0, sim.model.ngeom)
    return params


def standing(seed: int, **options: Any) -> Long:
    """Return a Laikago that sways on its four feet, its servos led by slow waves."""
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    model = fb.models.laikago()
    sim = fb.Simulator(model, tolerance=1e-12, **options)
    q, v = (np.array(a) for a in model.keyframe("stand"))
    targets = q[7:] + 0.03 * rng.normal(size=model.nu)
    # from where it has settled, most feet stay on the floor
    settled = sim.rollout(q, v, targets, steps=500)
    time = sim.dt * np.arange(STEPS)[:, None]
    wave = np.sin(rng.uniform(2, 12, model.nu) * time) * rng.uniform(0, 0.03, model.nu)
    u = targets + wave
    inputs = {"q": settled.q[-1], "v": settled.v[-1], "u": u, **parameters(sim)}
    return Long(sim, inputs, rng)


def random_lines(case: Long, name: str, count: int) -> Vector:
    """Return random directions through one input; what must keep its sign moves by a share."""
    size = sizes(name, case.inputs)
    return case.rng.normal(size=(count, len(size))) * size


def active(case: Long) -> list[str]:
    """Return the inputs that act on the motion and can be moved."""
    moved = {name: sizes(name, case.inputs) for name in case.inputs}
    return [name for name in case.inputs if np.any(case.gradient[name] * moved[name])]


def check_differences(case: Long, names: list[str], count: int) -> set[str]:
    """Compare inputs along random lines, drawn anew where they cross a mode at every step.

    Returns:
        The inputs of which a line was compared.
    """
    assert case.roll.ok
    compared, lines, worst = list[str](), 0, 0.0
    for name in names:
        for line in random_lines(case, name, 2 * count):
            found = case.errors(name, line)
            lines += 1
            if found is None:
                continue
            compared.append(name)
            worst = max(worst, float(found.min()))
            assert found.min() <= 5e-6, f"{name}: errors {found} at three steps"
            # central differences are of second order until rounding, ten times less at ten times
            # the step, takes over
            second = found[0] / 30 + found[2] / 10
            assert found[0] <= 1e-5 or found[1] <= second, f"{name}: errors {found}"
            if compared.count(name) == count:
                break
    crossed = lines - len(compared)
    print(f"{crossed} of {lines} lines crossed a mode, worst error {worst:.1e}")
    assert crossed <= 0.4 * lines
    return set(compared)


def check_contact(case: Long) -> None:
    """Have three feet or more on the floor, never fewer than two, some of them sliding at times."""
    bearing = case.modes.sum(axis=(0, 2, 3))
    sticks, slides = case.modes.sum(axis=(0, 1, 2))
    print(f"contacts of a step {bearing.min()} to {bearing.max()}, {sticks} stick, {slides} slide")
    assert bearing.mean() >= 3 and bearing.min() >= 2
    assert sticks > 0 and slides > 0


def check_dual_numbers(case: Long, lines: dict[str, Vector], limit: float) -> float:
    """Compare with dual numbers along directions and return the worst error."""
    error, growth = case.pairing(lines)
    print(f"{len(error)} directions, pairing {error.max():.1e}, growth {growth.max():.1e}")
    # rounding grows with the tangents, but never to what a wrong term would make of it
    assert np.all(error <= limit * np.minimum(growth, 1e3))
    return float(error.max())


def test_laikago_against_differences() -> None:
    """Agree with central differences at three steps over 1000 steps in contact."""
    case = standing(0)
    check_contact(case)
    names = "v u body_mass body_ipos geom_friction gravity dof_damping dt".split()
    assert COMPARED <= check_differences(case, names, 1)


def test_laikago_in_its_pose() -> None:
    """Agree with central differences in places where velocity closes an error of 0.4 mm at once.

    By default that is 0.4 um, beyond which a gap term bends: no step of a difference is as small.
    """
    case = standing(0, v_recover=500.0)
    check_contact(case)
    names = {"q", "geom_size", "body_pos"}
    assert check_differences(case, sorted(names), 2) == names


def test_laikago_against_dual_numbers() -> None:
    """Agree with dual numbers over 1000 steps in contact, along random directions of all inputs."""
    case = standing(1)
    check_contact(case)
    check_dual_numbers(case, {name: random_lines(case, name, 8) for name in case.inputs}, 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("friction", ["cone", "box"])
@pytest.mark.parametrize("seed", range(6))
def test_laikago_in_every_input(seed: int, friction: Literal["cone", "box"]) -> None:
    """Agree with central differences over 1000 steps in every input that acts.

    Inputs that move the gaps are compared where a gap term is linear: test_laikago_in_its_pose.
    """
    case = standing(seed, friction=friction)
    check_contact(case)
    names = [name for name in active(case) if name not in PLACES]
    assert COMPARED <= check_differences(case, names, 2)
    case = standing(seed, friction=friction, v_recover=500.0)
    check_contact(case)
    assert COMPARED | {"q"} <= check_differences(case, active(case), 2)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["newton", "pgs"])
@pytest.mark.parametrize("friction", ["cone", "box"])
def test_laikago_in_every_direction(
    friction: Literal["cone", "box"], solver: Literal["newton", "pgs"]
) -> None:
    """Agree with dual numbers over 1000 steps, entry by entry; controls along random lines."""
    case = standing(2, friction=friction, solver=solver)
    for name in case.inputs:
        size = sizes(name, case.inputs)
        lines = random_lines(case, name, 64) if name == "u" else np.diag(size)
        if np.any(lines):
            print(name, end=": ")
            check_dual_numbers(case, {name: lines[np.any(lines != 0, axis=1)]}, 1e-10)


def random_case(seed: int) -> Long | None:
    """Return 1000 steps of a random model in contact, or None where it has no gradient."""
    model, q, v, rng = draw(seed)
    sim = fb.Simulator(model, friction=law(seed))
    u = 0.3 * rng.normal(size=(STEPS, model.nu))
    try:
        case = Long(sim, {"q": q, "v": v, "u": u, **parameters(sim)}, rng)
    except WorldError:
        return None
    # sums of squares of what has exploded are not finite
    largest = max(float(np.abs(a).max(initial=0)) for a in case.gradient.values())
    return case if largest < 1e100 else None


def check_random_models(seeds: range) -> None:
    """Compare random models with dual numbers along random directions of all inputs together."""
    missing, contacts, errors = 0, 0, list[float]()
    for seed in seeds:
        case = random_case(seed)
        if case is None:
            missing += 1
            continue
        contacts += int(case.modes.sum())
        print(f"seed {seed}", end=": ")
        lines = {name: random_lines(case, name, 4) for name in case.inputs}
        errors.append(check_dual_numbers(case, lines, 1e-6))
    print(
        f"seeds {seeds.start} to {seeds.stop - 1}: {missing} without gradient, {contacts} contacts"
    )
    assert missing <= 0.34 * len(seeds)
    assert contacts > 100 * len(seeds)
    # most of them without help from the growth
    assert np.mean(np.array(errors) <= 1e-6) >= 0.8


def test_random_models() -> None:
    """Agree with dual numbers over 1000 steps of three random models in contact."""
    check_random_models(range(40_000_000, 40_000_003))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(40_000_000, 40_000_200, 20))
def test_many_random_models(first: int) -> None:
    """Agree with dual numbers over 1000 steps of 200 random models in contact."""
    check_random_models(range(first, first + 20))
