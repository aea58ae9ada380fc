"""A ball swings against a hanging chain; the chain's mass is found from positions."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import featherback as fb
from featherback._typing import Array
from featherback.experiments.context import Context
from featherback.experiments.differences import ByDifferences, fit
from featherback.experiments.plots import COLOURS, new_figure, save_figure
from featherback.experiments.result import Claim, Result
from featherback.identify import Log, Unknown, scale_factor
from featherback.identify.log import cut
from featherback.identify.problem import PredictionProblem
from featherback.models.struck_chain import struck_chain, struck_chain_xml

SUMMARY = "a ball swings against a hanging chain, whose mass is found from 10 s of positions"
LINKS = 10
TRUTH = 0.7  # mass of the chain [kg]; the model's is 1 kg, so that a factor is a mass
STARTS = (0.02, 0.1)  # masses that a seed starts from [kg]
RESTITUTION = 0.5
STEPS, WINDOW = 5000, 100  # of 2 ms
NOISE = 1e-6  # of the angles [rad]
RELEASE = 1.0  # angle of the rod at the start [rad]
COUNTS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100)
TIMED = 500  # steps of the loss whose gradient is timed
REPEATS = 5
NOTES = (
    f"The angles carry noise of {NOISE:g} rad. The chain is chaotic, so the 10 s are "
    f"predicted in windows of {WINDOW * 0.002:g} s from the observed state; what a window "
    "starts with is not exact, so the errors stay above the noise.",
    "The central differences are one batch of two worlds for each parameter, in lanes; the "
    "exact gradient is one world. Their times are those of one processor core.",
)


@dataclass(frozen=True)
class Times:
    """Time of one gradient against the number of parameters.

    Attributes:
        counts: numbers of parameters.
        exact: processor seconds of a rollout and its backward pass.
        differences: processor seconds of the central differences, all worlds in one batch.
    """

    counts: list[int]
    exact: list[float]
    differences: list[float]

    def crossing(self) -> float | None:
        """Return the number of parameters from which on the exact gradient is the faster."""
        ratio = np.log(np.array(self.differences) / np.array(self.exact))
        if ratio[0] >= 0.0:
            return float(self.counts[0])
        ahead = np.flatnonzero(ratio >= 0.0)
        if not len(ahead):
            return None
        i = int(ahead[0])
        share = -ratio[i - 1] / (ratio[i] - ratio[i - 1])
        low, high = math.log(self.counts[i - 1]), math.log(self.counts[i])
        return math.exp(low + share * (high - low))


def make_sim() -> fb.Simulator:
    """Return the scene: the ball bounces off the chain."""
    model = struck_chain(LINKS)
    restitution = np.zeros(model.ngeom)
    restitution[model.geom_names.index("ball")] = RESTITUTION
    return fb.Simulator(model, params={"geom_restitution": restitution})


def mass_of(sim: fb.Simulator, start: float) -> Unknown:
    """Return the unknown: the mass of the chain, shared by its links."""
    links = [f"link{i}" for i in range(LINKS)]
    names = ("body_mass", "body_inertia")
    return scale_factor(sim, names, links, label="chain mass", start=start, bounds=(0.01, 10.0))


def true_motion(sim: fb.Simulator) -> fb.Rollout:
    """Return the motion that is observed."""
    params = {
        name: np.array(sim.params[name], np.float64) for name in ("body_mass", "body_inertia")
    }
    mass_of(sim, 1.0).put(np.array([TRUTH]), params)
    q = np.zeros(sim.model.nq)
    q[-1] = RELEASE
    return sim.rollout(q, np.zeros(sim.model.nv), steps=STEPS, params=dict(params))


def observe(sim: fb.Simulator, roll: fb.Rollout, rng: np.random.Generator) -> Log:
    """Return noisy angles; velocities, needed where a window starts, are their differences."""
    q = np.array(roll.q) + NOISE * rng.normal(size=roll.q.shape)
    v = np.zeros_like(q)
    v[1:] = np.diff(q, axis=0) / sim.dt
    return Log(q, v, q_noise=NOISE, v_noise=np.inf)


def angle_error(problem: PredictionProblem, cost: float) -> float:
    """Return the root mean square of the errors [rad]."""
    count = max(np.count_nonzero(problem.windows.q_weight), 1)
    return NOISE * math.sqrt(2.0 * cost / count)


def parameter_directions(sim: fb.Simulator) -> list[tuple[str, tuple[int, ...]]]:
    """Return 100 entries of parameters, ten for each link."""
    entries: list[tuple[str, tuple[int, ...]]] = []
    for link in range(LINKS):
        body = sim.model.body_names.index(f"link{link}")
        entries += [("body_mass", (body,)), ("dof_damping", (link,))]
        entries += [("body_ipos", (body, k)) for k in range(3)]
        entries += [("body_inertia", (body, k)) for k in range(3)]
        entries += [("jnt_pos", (link, k)) for k in (0, 2)]
    return entries


def exact_gradient(sim: fb.Simulator, log: Array, names: list[str]) -> dict[str, Array]:
    """Return the gradient of half the squared error by one rollout and its backward pass."""
    given = {name: np.array(sim.params[name]) for name in names}
    q = np.zeros(sim.model.nq)
    q[-1] = RELEASE
    roll = sim.rollout(q, np.zeros(sim.model.nv), steps=len(log) - 1, params=dict(given))
    return {
        k: np.asarray(g, np.float64) for k, g in roll.vjp(np.asarray(roll.q) - log).params.items()
    }


def difference_gradient(
    sim: fb.Simulator, log: Array, entries: list[tuple[str, tuple[int, ...]]]
) -> Array:
    """Return the same gradient by central differences: two worlds for each parameter."""
    n = len(entries)
    h = 1e-7
    given: dict[str, Array] = {}
    for name in dict.fromkeys(name for name, _ in entries):
        base = np.array(sim.params[name], np.float64)
        given[name] = np.tile(base, (2 * n, *(1,) * base.ndim))
    for i, (name, at) in enumerate(entries):
        given[name][(2 * i, *at)] += h
        given[name][(2 * i + 1, *at)] -= h
    q = np.zeros((2 * n, sim.model.nq))
    q[:, -1] = RELEASE
    roll = sim.rollout(q, np.zeros_like(q), steps=len(log) - 1, params=dict(given))
    loss = 0.5 * np.sum((np.asarray(roll.q) - log) ** 2, axis=(1, 2))
    return (loss[::2] - loss[1::2]) / (2.0 * h)


def measure_times(sim: fb.Simulator, log: Array, counts: tuple[int, ...], repeats: int) -> Times:
    """Time both gradients; each time is the shortest of a few."""
    entries = parameter_directions(sim)
    times = Times(list(counts), [], [])
    for count in counts:
        chosen = entries[:count]
        names = list(dict.fromkeys(name for name, _ in chosen))
        times.exact.append(_shortest(lambda names=names: exact_gradient(sim, log, names), repeats))
        times.differences.append(
            _shortest(lambda chosen=chosen: difference_gradient(sim, log, chosen), repeats)
        )
    return times


def _shortest(work: Callable[[], object], repeats: int) -> float:
    """Return the shortest processor time of some calls [s], undisturbed by other programs."""
    best = math.inf
    for _ in range(repeats):
        begun = time.process_time()
        work()
        best = min(best, time.process_time() - begun)
    return best


def plot_times(context: Context, times: Times) -> None:
    """Plot the time of a gradient against the number of parameters."""
    figure = new_figure(6.0, 4.0)
    axes = figure.subplots()
    axes.loglog(times.counts, times.exact, "o-", color=COLOURS[0], label="exact, reverse mode")
    axes.loglog(
        times.counts, times.differences, "o-", color=COLOURS[1], label="central differences"
    )
    axes.set_xlabel("parameters")
    axes.set_ylabel("time of one gradient [s]")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.suptitle(f"chain-mass: gradient of a loss over {TIMED} steps")
    context.files["times"] = save_figure(figure, context.path("-times.png"))


def run(context: Context) -> Result:
    """Find the mass with exact derivatives, then with differences; then time gradients."""
    sim = make_sim()
    roll = true_motion(sim)
    rng = context.rng
    log = observe(sim, roll, rng)
    start = float(rng.uniform(*STARTS))
    windows = cut("run chain-mass", sim.model, sim.dt, [log], WINDOW, False)
    unknowns = [mass_of(sim, start)]
    optimizer = "trust region (scipy least_squares)"
    exact = PredictionProblem(sim, windows, unknowns, False)
    estimate, ours = fit(context, [exact], "ours", f"{optimizer}, exact", angle_error)
    rough = ByDifferences(sim, windows, unknowns, False)
    method = f"{optimizer}, central differences"
    by_differences, baseline = fit(context, [rough], "baseline", method, angle_error)
    context.record(
        struck_chain_xml(LINKS),
        {"q": roll.q, "v": roll.v, "u": np.zeros((STEPS, 0))},
        dt=sim.dt,
        camera=(0.0, 0.0, 0.75, 2.4, 90.0, -5.0),
    )
    counts = (1, 3, 10, 30, 100) if context.quick else COUNTS
    observed = np.asarray(roll.q, np.float64)[: TIMED + 1]
    times = measure_times(sim, observed, counts, 2 if context.quick else REPEATS)
    plot_times(context, times)
    error = abs(float(estimate.x[0]) / TRUTH - 1.0)
    crossing = times.crossing()
    speedup = times.differences[-1] / times.exact[-1]
    return Result(
        ours=ours,
        baseline=baseline,
        figures={
            "mass found [kg]": float(estimate.x[0]),
            "mass [kg]": TRUTH,
            "mass at the start [kg]": start,
            "relative error": error,
            "relative error with differences": abs(float(by_differences.x[0]) / TRUTH - 1.0),
            "iterations": estimate.iterations,
            "seconds": ours.total_seconds,
            "seconds with differences": baseline.total_seconds,
            "parameters from which on exact gradients are faster": crossing,
            "time of differences over exact, 1 parameter": times.differences[0] / times.exact[0],
            "time of differences over exact, 100 parameters": speedup,
        },
        claims=[
            Claim("mass within 1 %", error, error < 0.01),
            Claim(
                "exact gradients are faster for 100 parameters: time of differences over exact",
                speedup,
                None if context.quick else speedup > 1.0,
            ),
        ],
        notes=list(NOTES),
    )
