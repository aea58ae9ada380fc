"""A car with locked wheels slides to rest; the friction is found from where it stops."""

from __future__ import annotations

import math

import numpy as np

import featherback as fb
from featherback._optional import import_optional
from featherback._typing import Array
from featherback.experiments.context import Context
from featherback.experiments.plots import COLOURS, new_figure, save_figure
from featherback.experiments.result import Claim, Result, Trace
from featherback.identify import Estimate, Log, Unknown, identify, unknown
from featherback.models.racecar import racecar, racecar_xml

SUMMARY = "a car at 1 m/s with locked wheels; the friction with which it stops at 0.8 m"
SPEED, TARGET, GRAVITY = 1.0, 0.8, 9.81
STEPS = 2000  # of 1 ms; a car that stops at 0.8 m takes 1.6 s
FIRST = 0.002  # friction at the start of the search
BOUNDS = (1e-4, 1.0)
NEAR = 1e-3  # [m]
ITERATIONS = 10
RULER = 1e-3  # standard deviation of the one measurement, the final position [m]
HIDDEN = (0.055, 0.3)  # friction that a seed hides; the car stops within the log [-]
EVERY = 20  # simulator steps between rows of the noisy log
NOISE = 1e-3  # of its positions [m] and angles [rad]


def mu_of(sim: fb.Simulator, start: float = FIRST) -> Unknown:
    """Return the unknown: one friction coefficient for all that touches."""
    return unknown(sim, "geom_friction", column=0, start=start, bounds=BOUNDS)


def first_state(sim: fb.Simulator) -> tuple[Array, Array]:
    """Return the car on the floor, moving along x."""
    v = np.zeros(sim.model.nv)
    v[0] = SPEED
    return np.array(sim.model.q0), v


def slide(sim: fb.Simulator, mu: Array) -> fb.Rollout:
    """Return the motions for several frictions, one world each."""
    q, v = first_state(sim)
    n = len(mu)
    friction = np.tile(np.asarray(sim.params["geom_friction"]), (n, 1, 1))
    friction[:, :, 0] = mu[:, None]
    return sim.rollout(
        np.tile(q, (n, 1)), np.tile(v, (n, 1)), steps=STEPS, params={"geom_friction": friction}
    )


def run_ours(context: Context, sim: fb.Simulator) -> tuple[Estimate, Trace]:
    """Find the friction from one measurement: the final position should be the target."""
    q, v = first_state(sim)
    end = q.copy()
    end[0] = TARGET
    q_noise = np.full((2, len(q)), np.inf)
    q_noise[1, 0] = RULER
    log = Log([q, end], [v, v], q_noise=q_noise, v_noise=np.inf, every=STEPS)
    import_optional("run", "scipy.optimize", "opt")
    trace = context.trace("ours", "trust region (scipy least_squares), exact Jacobian")
    with context.progress("gradients", ITERATIONS) as update_progress:

        def report(iteration: int, cost: float, evaluations: int) -> None:
            trace.add(RULER * math.sqrt(2.0 * cost), evaluations)
            update_progress(iteration, trace.loss[-1])

        trace.start()
        estimate = identify(sim, log, [mu_of(sim)], report=report, max_evaluations=40)
    return estimate, trace


def run_baseline(context: Context, sim: fb.Simulator) -> tuple[float, Trace]:
    """Find the friction by Brent's method, which needs no derivative."""
    scipy = import_optional("run", "scipy.optimize", "opt")
    trace = context.trace("baseline", "Brent's method, bounded (scipy minimize_scalar)")
    best = math.inf
    trace.start()

    def loss(mu: float) -> float:
        nonlocal best
        miss = abs(float(slide(sim, np.array([mu])).q[0, -1, 0]) - TARGET)
        best = min(best, miss)
        trace.add(best)
        return miss**2

    loss(FIRST)
    result = scipy.minimize_scalar(
        loss, bounds=BOUNDS, method="bounded", options={"xatol": 1e-8, "maxiter": 60}
    )
    return float(result.x), trace


def identify_hidden(context: Context, sim: fb.Simulator) -> tuple[float, float, float]:
    """Find a hidden friction from noisy positions; return truth, estimate and deviation.

    The start is known: the car stands on the floor and moves at 1 m/s.
    """
    rng = context.rng
    truth = float(rng.uniform(*HIDDEN))
    roll = slide(sim, np.array([truth]))
    q, v = np.array(roll.q[0, ::EVERY]), np.array(roll.v[0, ::EVERY])
    noise = np.full(q.shape[1], NOISE)
    noise[3:7] = 0.5 * NOISE
    q[1:] += noise * rng.normal(size=q[1:].shape)
    log = Log(q, v, q_noise=noise, v_noise=np.inf, every=EVERY)
    estimate = identify(sim, log, [mu_of(sim, 0.1)])
    label = estimate.labels[0]
    return truth, estimate.values[label], estimate.deviations[label]


def plot_landscape(context: Context, sim: fb.Simulator, path: list[float], points: int) -> None:
    """Plot the loss and its derivative against the friction, with the iterations on it."""
    mu = np.geomspace(FIRST, 0.3, points)
    roll = slide(sim, mu)
    miss = np.asarray(roll.q[:, -1, 0], np.float64) - TARGET
    along = np.zeros((points, *sim.params["geom_friction"].shape))
    along[:, :, 0] = 1.0
    slope = 2.0 * miss * roll.jvp(dparams={"geom_friction": along})[0][:, -1, 0]
    seen = slide(sim, np.array(path)).q[:, -1, 0]
    figure = new_figure()
    left, right = figure.subplots(1, 2)
    left.plot(mu, miss**2, color=COLOURS[0], label="loss")
    left.plot(path, (seen - TARGET) ** 2, "o", color=COLOURS[1], label="iterations")
    for i, friction in enumerate(path[:5]):
        left.annotate(
            str(i),
            (friction, (seen[i] - TARGET) ** 2),
            xytext=(4, 4),
            textcoords="offset points",
            fontsize=8,
        )
    right.plot(mu, slope, color=COLOURS[0], label="exact")
    right.plot(mu, np.gradient(miss**2, mu), "--", color=COLOURS[2], label="from the loss")
    stops = SPEED / (GRAVITY * STEPS * sim.dt)
    for axes, label in ((left, "loss [m²]"), (right, "derivative of the loss [m²]")):
        axes.axvline(closed_form(), color="0.5", linewidth=0.8)
        axes.axvspan(FIRST, stops, color="0.93", label="still moving at the end")
        axes.set_xlabel("friction")
        axes.set_ylabel(label)
        axes.set_xscale("log")
        axes.legend(fontsize=8)
    figure.suptitle("racecar-friction: loss landscape; the line is v² / (2 g d)")
    context.files["landscape"] = save_figure(figure, context.path("-landscape.png"))


def closed_form() -> float:
    """Return the friction with which the car stops at the target, v^2 / (2 g d)."""
    return SPEED**2 / (2.0 * GRAVITY * TARGET)


def claims(
    mu: float, end: tuple[float, float], near: int | None, hidden: tuple[float, float]
) -> list[Claim]:
    """Return what must be shown: of the friction, the end of the motion and the hidden friction."""
    position, speed = end
    truth, found = hidden
    error = abs(mu / closed_form() - 1.0)
    return [
        Claim("friction within 1 % of v^2 / (2 g d)", error, error < 0.01),
        Claim(
            "the car stands within 1 mm of 0.8 m [m]",
            abs(position - TARGET),
            abs(position - TARGET) < NEAR and speed < 1e-6,
        ),
        Claim(
            "within 10 iterations from friction 0.002",
            near,
            near is not None and near <= ITERATIONS,
        ),
        Claim(
            "a hidden friction within 1 % from noisy positions",
            abs(found / truth - 1.0),
            abs(found / truth - 1.0) < 0.01,
        ),
    ]


def run(context: Context) -> Result:
    """Find the friction by gradients, then without; then a hidden one from a noisy log."""
    sim = fb.Simulator(racecar())
    estimate, ours = run_ours(context, sim)
    brent, baseline = run_baseline(context, sim)
    mu = float(estimate.x[0])
    last = slide(sim, np.array([mu, FIRST]))
    position, speed = float(last.q[0, -1, 0]), float(np.abs(last.v[0, -1, :3]).max())
    context.record(
        racecar_xml(),
        {"q": last.q[0], "v": last.v[0], "u": np.zeros((STEPS, 0))},
        dt=sim.dt,
        target=[TARGET, 0.0, 0.0],
        camera=(0.4, 0.0, 0.1, 1.6, 90.0, -18.0),
    )
    plot_landscape(context, sim, [float(x[0]) for x in estimate.path], 40 if context.quick else 200)
    truth, found, deviation = identify_hidden(context, sim)
    near = ours.first_below(NEAR)
    still_moving = float(last.v[1, -1, 0])
    return Result(
        ours=ours,
        baseline=baseline,
        figures={
            "friction found": mu,
            "friction in closed form": closed_form(),
            "friction at the start": FIRST,
            "speed at the end with the friction at the start [m/s]": still_moving,
            "position at the end [m]": position,
            "speed at the end [m/s]": speed,
            "iterations to 1 mm": near,
            "simulations to 1 mm": ours.evaluations_until(NEAR),
            "Brent's simulations to 1 mm": baseline.evaluations_until(NEAR),
            "friction found by Brent's method": brent,
            "hidden friction": truth,
            "hidden friction, relative error": found / truth - 1.0,
            "hidden friction, relative deviation": deviation / truth,
        },
        claims=claims(mu, (position, speed), near, (truth, found)),
        notes=[
            f"The search starts at friction {FIRST}, where the car does not stop within the "
            f"{STEPS * sim.dt:g} s that are simulated (it moves at {still_moving:.2f} m/s then and "
            f"would slide {SPEED**2 / (2 * GRAVITY * FIRST):.0f} m): the loss is on the position "
            "at that time, whose derivative is not zero whether the car stands or not.",
            "The position at rest is half a step's travel, 0.5 mm, short of the closed form, since "
            "the step is semi-implicit.",
        ],
    )
