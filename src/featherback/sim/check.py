"""Check of a simulator's gradients against differences, for a user's own robot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from featherback._checks import check_integer
from featherback._core import parameter_table
from featherback.errors import ParameterError, WorldError
from featherback.model.manifold import quaternions
from featherback.sim.bridge import bridge_of
from featherback.sim.contacts import find_contacts
from featherback.sim.differences import LADDER, Slopes, sides, slopes, stencil
from featherback.sim.gradient_report import GradientReport, Where
from featherback.sim.inputs import NO_GRADIENT, refuse_without_gradient
from featherback.sim.laws import refuse_other_parameter
from featherback.sim.rollout import Rollout
from featherback.sim.simulator import Simulator
from featherback.sim.state import read_point
from featherback.sim.status import Status

Vector = NDArray[np.float64]
Inputs = dict[str, Vector]

STATES = ("q", "v", "act", "u")
OFFSETS = stencil()
LINES = 2
# share of the steps of differences with which a line is looked at again
FINE = 1e-4
# what is said of a line along which a gradient is one of several slopes
TIE = "a tie: slopes on its two sides differ, and the gradient is one of them or between them"
APART = "a tie, or rounding: large and small differences disagree, and the gradient is one of them"
# entries of one input that are looked at to say which of them is off
MAX_ENTRIES = 200
MAX_CHANGE = 1e3
# rounding of a loss, relative to the sum of its parts and of what inputs contribute to it: of one
# number, and of all that a rollout computes
EPSILON = float(np.finfo(np.float64).eps)
ROUNDING = 100 * EPSILON
# deviation of the draws from the base: states in their units, u in ranges of the controls
SPREAD = {"q": 0.01, "v": 0.1, "act": 0.01, "u": 0.1}
# shares of that deviation: a smaller one is taken where a draw's steps are not solved
NEARNESS = (1.0, 0.1, 0.01, 0.001)
UNSOLVED = int(Status.NONFINITE) | int(Status.UNCONVERGED)
# parameters that keep their sign when they are drawn
KEEPS_SIGN = frozenset(p.name for p in parameter_table() if p.least == 0.0 or p.rule == "nonzero")

# parameters whose last two entries are a lower and an upper end
RANGES = frozenset(p.name for p in parameter_table() if p.rule == "range")


def check_gradients(
    sim: Simulator,
    *,
    q: ArrayLike | None = None,
    v: ArrayLike | None = None,
    u: ArrayLike | None = None,
    act: ArrayLike | None = None,
    steps: int = 20,
    draws: int = 8,
    params: Sequence[str] = (),
    seed: int = 0,
    tolerance: float = 1e-5,
) -> GradientReport:
    """Compare `Rollout.vjp` with differences on rollouts of one's own robot.

    The first draw starts from the given state and controls, the others near them, and nearer still
    where their steps are not solved or not finite. The loss is a
    random linear function of all states; its slopes along random lines through q, v, act, u and
    each parameter are compared with Richardson differences. A line along which differences disagree
    crossed a contact mode (touching, sliding, a joint at its limit); it is counted apart. So is a
    tie, where the slopes on the two sides of a line differ and the gradient is one of them. What is
    zero up to the rounding of the loss, in gradient and differences, agrees. Where an error is
    above the tolerance, the report names its entry and the first step that shows it.

    Example:
        >>> import featherback as fb
        >>> sim = fb.Simulator(fb.models.cartpole())
        >>> report = fb.check_gradients(sim, q=[0.0, 0.5], params=["body_mass"])
        >>> report.ok
        True

    Args:
        sim: a float64 simulator of one's own model and options.
        q: float64[nq], state to start from; None for the first keyframe, or else q0.
        v: float64[nv]; None for that of the keyframe.
        u: float64[steps, nu] or float64[nu]; None for those of the keyframe, or else zero.
        act: float64[na]; None for that of the keyframe, or else zero.
        steps: steps of each rollout.
        draws: number of rollouts.
        params: names of parameters to check as well.
        seed: seed of all random numbers.
        tolerance: largest error allowed, relative to the largest entry of an input's gradient.

    Raises:
        ParameterError: where the simulator computes in float32, `steps` or `draws` is not > 0, or
            a parameter is unknown or has no gradient.
        ShapeError: where q, v, act or u has another shape than the model's.
    """
    where = "check_gradients()"
    _refuse(where, sim, {"steps": steps, "draws": draws}, params)
    rng = np.random.default_rng(seed)
    base = _base(sim, {"q": q, "v": v, "act": act, "u": u}, steps)
    base |= {name: np.array(sim.params[name], np.float64) for name in params}
    tally = _Tally(tolerance)
    for draw in range(draws):
        inputs = base if draw == 0 else _near(sim, base, rng)
        tally.draw(sim, inputs, draw, rng)
    return tally.report(sim.model.name, steps, draws)


def _refuse(where: str, sim: Any, counts: dict[str, int], params: Sequence[str]) -> None:
    """Refuse what cannot be checked."""
    if not isinstance(sim, Simulator):
        raise ParameterError(
            f"{where}: sim is of type {type(sim).__name__}; pass a featherback.Simulator."
        )
    if sim.dtype != np.float64:
        raise ParameterError(
            f"{where}: the simulator computes in {sim.dtype.name}, in which differences have too "
            'few digits to compare with; pass a Simulator with dtype="float64".'
        )
    for name, count in counts.items():
        check_integer(where, name, count)
    if isinstance(params, str):
        raise ParameterError(
            f'{where}: params is the text "{params}"; pass a list of names, such as ["{params}"].'
        )
    refuse_without_gradient(where, dict.fromkeys(params))
    for name in params:
        if name not in sim.params:
            refuse_other_parameter(where, name, sim.params)
            known = ", ".join(key for key in sim.params if key not in NO_GRADIENT)
            raise ParameterError(f'{where}: unknown parameter "{name}"; known: {known}.')


def _base(sim: Simulator, given: dict[str, Any], steps: int) -> Inputs:
    """Return the state and controls of the first draw, checked by a rollout."""
    model, key = sim.model, sim.model.mujoco
    start: dict[str, Any] = {
        "q": model.q0,
        "v": model.v0,
        "act": model.act0,
        "u": np.zeros(model.nu),
    }
    if model.keyframe_names:
        fields = {"q": key.key_qpos, "v": key.key_qvel, "act": key.key_act, "u": key.key_ctrl}
        start = {name: np.array(rows[0], np.float64) for name, rows in fields.items()}
    start |= {name: value for name, value in given.items() if value is not None}
    roll = sim.rollout(**start, steps=steps)
    if roll.q.ndim != 2:
        raise ParameterError(
            "check_gradients(): q, v, act or u has a world axis; give one state and one sequence "
            "of controls."
        )
    states = {"q": roll.q[0], "v": roll.v[0], "act": roll.act[0], "u": roll.u}
    return {name: np.array(a, np.float64) for name, a in states.items()}


def _near(sim: Simulator, base: Inputs, rng: np.random.Generator) -> Inputs:
    """Return a random state and random controls near the base, nearer where they have no steps.

    A state in which bodies overlap more than at the base may have no steps that end: its deviation
    is made smaller until it has.
    """
    model, tables = sim.model, sim.model.mujoco
    size = np.where(tables.actuator_ctrllimited, np.ptp(tables.actuator_ctrlrange, axis=1), 1.0)
    away = {"q": rng.normal(size=model.nq), "v": rng.normal(size=model.nv)}
    away["act"] = rng.normal(size=model.na)
    away["u"] = size * rng.normal(size=base["u"].shape)
    out = dict(base)
    for name in sorted(base.keys() & KEEPS_SIGN):
        # equal values tie where a pair takes the larger one
        out[name] = base[name] * rng.uniform(0.97, 1.0, base[name].shape)
    for share in NEARNESS:
        out |= {name: base[name] + share * SPREAD[name] * away[name] for name in STATES}
        for first, _ in quaternions(model):
            out["q"][first : first + 4] /= np.linalg.norm(out["q"][first : first + 4])
        if not int(_rollout(sim, out).status) & UNSOLVED:
            break
    return out


def _rollout(sim: Simulator, inputs: Inputs) -> Rollout:
    """Return the rollout of some inputs."""
    params: dict[str, ArrayLike] = {k: a for k, a in inputs.items() if k not in STATES}
    point: dict[str, Any] = {name: inputs[name] for name in STATES}
    return sim.rollout(**point, steps=inputs["u"].shape[-2], params=params)


def _reason(draw: int, error: WorldError) -> Where:
    """Return why a draw has no gradient: the sentences of its world."""
    if not error.status.any():
        return Where(draw, what=str(error))
    sentences = Status(int(error.status[0])).sentences()
    return Where(draw, step=int(error.step[0]), what=" ".join(sentences))


@dataclass(frozen=True)
class _Compared:
    """Slopes along lines beside a gradient, relative to what errors are relative to.

    Attributes:
        error: float64[lines], of the gradient.
        doubt: float64[lines], of the slopes.
        tied: bool[lines], whether the sides differ, and the gradient is the slope of one of them.
    """

    error: Vector
    doubt: Vector
    tied: NDArray[np.bool_]


class _Case:
    """One rollout with a linear loss on all its states, its gradient, and rollouts beside it."""

    def __init__(
        self, sim: Simulator, inputs: Inputs, bars: list[Vector], tolerance: float
    ) -> None:
        self.sim, self.inputs, self.bars = sim, inputs, bars
        self.tolerance = tolerance
        self.steps = len(inputs["u"])
        self.roll = _rollout(self.sim, inputs)
        self.ties = 0
        self.gradient = self._vjp(self.steps)
        self.largest = max(
            float(np.abs(a * self.sizes(name)).max(initial=0)) for name, a in self.gradient.items()
        )
        self.parts = self._parts()
        self.floor = self._floor()

    def sizes(self, name: str) -> Vector:
        """Return by how much the entries of an input are moved."""
        return sizes(name, {**self.sim.params, **self.inputs})

    def _vjp(self, horizon: int) -> Inputs:
        """Return the gradient of the loss on states up to a horizon, flat."""
        bars = [np.array(bar) for bar in self.bars]
        for bar in bars:
            bar[horizon + 1 :] = 0
        found = self.roll.vjp(*bars)
        self.ties = int(found.ties)
        named = {name: getattr(found, name) for name in STATES} | found.params
        return {name: np.asarray(a, np.float64).reshape(-1) for name, a in named.items()}

    def beside(self, name: str, lines: Vector, share: float = 1.0) -> tuple[Inputs, Rollout]:
        """Return the inputs and rollouts at all offsets along lines through one input."""
        x = self.inputs[name]
        moved = x.reshape(-1) + share * OFFSETS[None, :, None] * lines[:, None, :]
        worlds = moved.shape[0] * moved.shape[1]
        inputs = {
            key: np.broadcast_to(a, (worlds, *a.shape)) if key in STATES else a
            for key, a in self.inputs.items()
        }
        inputs[name] = moved.reshape(worlds, *x.shape)
        return inputs, _rollout(self.sim, inputs)

    def losses(self, roll: Rollout) -> Vector:
        """Return the loss up to each horizon less the base's; NaN where the status differs."""
        states = [(getattr(roll, k), getattr(self.roll, k)) for k in ("q", "v", "act")]
        loss = np.zeros(roll.q.shape[:2])
        for (moved, base), bar in zip(states, self.bars, strict=True):
            loss += ((moved - base) * bar).sum(axis=2)
        loss[roll.status != self.roll.status] = np.nan
        return loss.cumsum(axis=1)

    def compare(self, name: str, lines: Vector, share: float = 1.0) -> _Compared:
        """Compare the gradient along lines with slopes of differences.

        Steps of the differences are a share of the usual ones.
        """
        loss = self.losses(self.beside(name, lines, share)[1])[:, -1].reshape(len(lines), -1)
        steps, rounding = share * LADDER, EPSILON * self.parts
        found = slopes(loss, steps, rounding)
        scale = self.scale(name, self.gradient[name], found)
        slope = lines @ self.gradient[name]
        # differences cannot follow a slope by which the smallest step moves the loss this far
        lost = scale * share * -OFFSETS[-1] > MAX_CHANGE
        # sweeps that end early may be rough below any step, with slopes far from the gradient
        sure = scale if self.roll.ok else min(scale, float(np.abs(found.value).max()))
        one_sided = sides(loss, steps, rounding)
        tied = one_sided.hold(slope, self.tolerance * scale, between=self.ties > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            doubt = np.full(len(lines), np.inf) if lost else found.doubt / sure
        return _Compared(np.abs(slope - found.value) / scale, doubt, tied)

    def _parts(self) -> float:
        """Return the sum of what the loss is made of, and of what inputs contribute to it."""
        parts = [
            getattr(self.roll, k) * b for k, b in zip(("q", "v", "act"), self.bars, strict=True)
        ]
        parts += [a * self.inputs[name].reshape(-1) for name, a in self.gradient.items()]
        return sum(float(np.abs(part).sum()) for part in parts)

    def _floor(self) -> float:
        """Return the smallest slope that rounding leaves enough digits for."""
        # the largest step brings the slope out best, and a third of the tolerance is for doubt
        seen = ROUNDING * self.parts / OFFSETS.max() / (self.tolerance / 3)
        # what lies eight digits below the largest entry of all is rounding, too
        return max(1e-8 * self.largest, seen, float(np.finfo(np.float64).tiny))

    def scale(self, name: str, gradient: Vector, found: Slopes) -> float:
        """Return what errors are relative to: the largest entry, times what it is moved by."""
        entries = np.abs(gradient * self.sizes(name))
        return max(float(entries.max()), found.largest(), self.floor)

    def first_step(self, name: str, line: Vector, tolerance: float, share: float) -> int:
        """Return the first step after which the loss has the error, by bisecting the horizon."""
        losses = self.losses(self.beside(name, line[None], share)[1])

        def wrong(horizon: int) -> bool:
            found = slopes(losses[None, :, horizon], share * LADDER)
            gradient = self._vjp(horizon)[name]
            error = abs(float(line @ gradient - found.value[0])) - found.doubt[0]
            return bool(error > tolerance * self.scale(name, gradient, found))

        right, bad = 0, self.steps
        while bad - right > 1:
            middle = (right + bad) // 2
            right, bad = (right, middle) if wrong(middle) else (middle, bad)
        return bad - 1

    def worst_entry(
        self, name: str, tolerance: float, share: float
    ) -> tuple[tuple[int, ...], Vector, float] | None:
        """Return the entry of an input with the largest error, its line and its error."""
        size = self.sizes(name)
        largest = np.argsort(-np.abs(self.gradient[name] * size), kind="stable")[:MAX_ENTRIES]
        lines = np.diag(size)[largest]
        found = self.compare(name, lines, share)
        error = np.where(found.doubt <= tolerance / 3, found.error, 0.0)
        k = int(np.argmax(error))
        if error[k] == 0:
            return None
        shape = self.inputs[name].shape
        index = tuple(int(i) for i in np.unravel_index(int(largest[k]), shape))
        return index, lines[k], float(error[k])

    def mode_change(self, name: str, line: Vector) -> tuple[int | None, str]:
        """Return the first step at which contacts differ within the stencil, and which."""
        inputs, roll = self.beside(name, line[None])
        touching, pairs = self._touching(inputs, roll)
        base, middle = touching[0], len(OFFSETS) // 2
        # the smallest offsets come last on either side
        for k in range(middle, 0, -1):
            differs = (touching[[k, k + middle]] != base).any(axis=0)
            if differs.any():
                step, pair = (int(i) for i in np.argwhere(differs)[0])
                names = self.sim.model.geom_names
                one, two = (f'"{names[g]}"' if names[g] else f"geom {g}" for g in pairs[pair])
                return step, f"contact of {one} and {two}"
        reasons = "it slides or sticks, a bound is reached, or noise hides the slope"
        return None, f"no contact opens or closes; {reasons}"

    def _touching(
        self, inputs: Inputs, roll: Rollout
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return how many contacts of pairs of geoms bear a force, and which pairs have some.

        The first is (worlds, steps, pairs), the second (pairs, 2).
        """
        worlds = len(roll.q)
        parts = {"q": roll.q, "v": roll.v, "act": roll.act}
        rows = worlds * self.steps
        state = {name: a[:, :-1].reshape(rows, a.shape[-1]) for name, a in parts.items()}
        state["u"] = inputs["u"].reshape(rows, roll.u.shape[-1])
        params: dict[str, ArrayLike] = {
            key: np.repeat(a, self.steps, axis=0) if a.ndim > self.inputs[key].ndim else a
            for key, a in inputs.items()
            if key not in STATES
        }
        # a world beside this one may have left the finite numbers
        bridge = bridge_of(self.sim)
        point, _ = read_point("check_gradients()", bridge, state, params)
        found = find_contacts(bridge, point)
        bears = np.abs(found.force).max(axis=2, initial=0) > 0
        world, _ = np.nonzero(bears)
        both = np.stack([found.geom1[bears], found.geom2[bears]], axis=1)
        pairs, number = np.unique(both, axis=0, return_inverse=True)
        count = np.zeros((point.worlds, len(pairs)), np.int64)
        np.add.at(count, (world, number.reshape(-1)), 1)
        return count.reshape(worlds, self.steps, len(pairs)), pairs


@dataclass(frozen=True)
class _Verdict:
    """What differences say of a gradient along lines.

    Attributes:
        error: float64[lines], of the gradient.
        known: bool[lines], whether they say anything.
        share: float64[lines], of the usual steps that was taken.
        what: by line, the sentence of a tie.
    """

    error: Vector
    known: NDArray[np.bool_]
    share: Vector
    what: dict[int, str]


class _Tally:
    """Collects what comparisons gave."""

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self.lines = 0
        self.errors: dict[str, float] = {}
        self.worst: Where | None = None
        self.crossed: list[Where] = []
        self.missing: list[Where] = []

    def draw(self, sim: Simulator, inputs: Inputs, draw: int, rng: np.random.Generator) -> None:
        """Compare the gradient of a random loss with respect to all inputs of one draw."""
        lengths, rows = (sim.model.nq, sim.model.nv, sim.model.na), len(inputs["u"]) + 1
        bars = [rng.normal(size=(rows, n)) for n in lengths]
        try:
            case = _Case(sim, inputs, bars, self.tolerance)
        except WorldError as error:
            self.missing.append(_reason(draw, error))
            return
        for name in inputs:
            self.add(case, draw, name, rng)

    def add(self, case: _Case, draw: int, name: str, rng: np.random.Generator) -> None:
        """Compare the gradient of one input along random lines."""
        lines = _lines(case.sizes(name), rng)
        if not len(lines):
            return
        found = self.judge(case, name, lines)
        error, known, share = found.error, found.known, found.share
        for k in np.flatnonzero(~known):
            step, what = case.mode_change(name, lines[k])
            tie = found.what.get(int(k))
            # the name of a contact that opens or closes says more
            what = what if step is not None or tie is None else tie
            self.crossed.append(Where(draw, name, step=step, what=what, tie=tie is not None))
        if not known.any():
            return
        self.lines += int(known.sum())
        k = int(np.argmax(np.where(known, error, -1.0)))
        largest = float(error[k])
        self.errors[name] = max(self.errors.get(name, 0.0), largest)
        if self.worst is None or largest > self.worst.error:
            place = Where(draw, name, error=largest)
            self.worst = place
            if largest > self.tolerance:
                self.worst = self._locate(case, place, lines[k], float(share[k]))

    def judge(self, case: _Case, name: str, lines: Vector) -> _Verdict:
        """Return what differences say of a gradient along lines.

        A mode that is crossed at a distance is not within steps that are small enough, so these are
        asked where the usual ones do not agree. Where both have a slope, that of the smaller steps
        is right, but they may be so small that rounding is all they see.
        """
        allowed = self.tolerance
        wide = case.compare(name, lines)
        error, known = wide.error.copy(), wide.doubt <= allowed / 3
        share, what = np.ones(len(lines)), dict[int, str]()
        again = np.flatnonzero(~known | (error > allowed))
        if not again.size:
            return _Verdict(error, known, share, what)
        fine = case.compare(name, lines[again], FINE)
        for k, i in enumerate(again.tolist()):
            near = fine.doubt[k] <= allowed / 3
            if near and (not known[i] or fine.error[k] <= allowed):
                error[i], share[i], known[i] = fine.error[k], FINE, True
            if known[i] and error[i] <= allowed:
                continue
            # small differences that tell the gradient from the slope of the large ones
            small = fine.error[k] <= allowed and fine.doubt[k] <= max(allowed, error[i] / 3)
            agrees = small or wide.error[i] <= allowed
            if wide.tied[i] or fine.tied[k]:
                known[i], what[i] = False, TIE
            elif known[i] and agrees:
                known[i], what[i] = False, APART
        return _Verdict(error, known, share, what)

    def _locate(self, case: _Case, place: Where, line: Vector, share: float) -> Where:
        """Find the entry and the step of an error above the tolerance."""
        entry = case.worst_entry(place.name, self.tolerance, share)
        index = None
        if entry is not None and entry[2] > self.tolerance:
            index, line = entry[0], entry[1]
        step = case.first_step(place.name, line, self.tolerance, share)
        return replace(place, index=index, step=step)

    def report(self, model: str, steps: int, draws: int) -> GradientReport:
        """Return the report."""
        return GradientReport(
            model=model,
            steps=steps,
            draws=draws,
            tolerance=self.tolerance,
            lines=self.lines,
            errors=dict(self.errors),
            worst=self.worst,
            crossed=tuple(self.crossed),
            missing=tuple(self.missing),
        )


def sizes(name: str, inputs: Mapping[str, Any]) -> Vector:
    """Return by how much the entries of an input are moved along a line, flat.

    What must keep its sign is moved by a share of itself, a product of inertia by a share of the
    least moment of its body, which is then among the inputs, and an end of a range by less than the
    other is away.
    """
    x = np.asarray(inputs[name])
    flat = np.abs(x.reshape(-1))
    if name in STATES:
        return np.ones_like(flat)
    if name == "body_inertia_products":
        least = np.asarray(inputs["body_inertia"]).min(axis=-1, keepdims=True)
        return 0.02 * np.broadcast_to(least, x.shape).reshape(-1)
    size = 0.1 * (flat if name in KEEPS_SIGN else np.maximum(flat, 1e-2))
    if name in RANGES:
        size = np.minimum(size, np.repeat(np.ptp(x.reshape(-1, 2), axis=1), 2))
    return size


def _lines(size: Vector, rng: np.random.Generator) -> Vector:
    """Return random directions of one input, flat; none where it cannot be moved."""
    return rng.normal(size=(LINES if size.any() else 0, len(size))) * size
