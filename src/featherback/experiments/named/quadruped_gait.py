"""A network driven by a sine clock makes a quadruped run, against the best of 500 sine gaits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from featherback._optional import import_optional
from featherback._typing import Array
from featherback.experiments.context import Context
from featherback.experiments.result import Claim, Result, Trace
from featherback.models import quadruped_xml

if TYPE_CHECKING:
    from featherback.experiments.neural.gait import ClockGait


SUMMARY = "a network driven by a sine clock makes a quadruped run as far as it can in 8 s"
EVALUATIONS, QUICK = 500, 30
CLOCK = 5.5  # [Hz]
AMPLITUDE, PHASE = 0.2, 0.0  # the trot at the start [rad]
SPREAD = 0.02  # of the first weights from clock to servos, which a seed chooses [rad]
ROUND = 25  # evaluations after which Adam starts again from the fastest gait
RATES = (2e-4, 2e-3)  # between which the step of a round is drawn, evenly in its logarithm
AGREE = 1e-3  # allowed between the shipped speed of the reference and that of this run [m/s]
NOTE = (
    "The reference is the fastest row of sine_gaits.csv; `python -m "
    "featherback.experiments.neural.sine_gaits` walks all 500 gaits again. Both gaits are open "
    "loop, and their speed is the way along x over 8 s from standing."
)


def round_rate(seed: int, number: int) -> float:
    """Return the step of Adam in a round."""
    low, high = np.log(RATES)
    return float(np.exp(np.random.default_rng((seed, number)).uniform(low, high)))


def train(context: Context, gait: ClockGait) -> tuple[Array, Trace]:
    """Improve a slow trot by gradients, in rounds that each start from the fastest gait so far.

    Returns:
        The weights of the fastest gait found, and the trace of the negative of its speed.
    """
    import torch

    from featherback.experiments.neural.networks import Training

    evaluations = QUICK if context.quick else EVALUATIONS
    trace = context.trace("ours", "Adam (torch), gradients over half a second")
    trace.skip()
    rng = context.rng
    start = gait.start(rng, AMPLITUDE, PHASE)
    start[-16:] += SPREAD * rng.standard_normal(16)
    training = Training(context, torch.from_numpy(start.copy()))
    kept = context.kept("best")
    best = start if kept is None else kept
    with context.progress("gradients", evaluations) as update_progress:
        while len(trace.loss) < evaluations:
            number, within = divmod(len(trace.loss), ROUND)
            if within == 0 and number > 0:
                training.restart(best)
            motion, loss = gait.evaluate(training.weights)
            fastest = -trace.loss[-1] if trace.loss else -np.inf
            if motion.speed > fastest:
                best, fastest = training.vector, motion.speed
            training.update(loss, round_rate(context.seed, number))
            trace.add(-fastest)
            context.keep(best=best)
            training.keep()
            update_progress(len(trace.loss), -fastest)
    return best, trace


def run(context: Context) -> Result:
    """Train the network, and walk the reference gait beside it."""
    import_optional(f"run {context.name}", "torch", "torch")
    import torch

    from featherback.experiments.neural.gait import ClockGait, Walker, sine_gait
    from featherback.experiments.neural.sine_gaits import reference

    torch.set_num_threads(1)
    walker = Walker()
    gait = ClockGait(walker, CLOCK)
    best, ours = train(context, gait)
    amplitude, phase, frequency, shipped = (float(x) for x in reference())
    baseline = context.trace("baseline", "best of 500 sine gaits, shipped")
    baseline.start()
    theirs = walker.walk(sine_gait(walker, amplitude, phase, frequency))
    baseline.add(-theirs.speed)
    with torch.no_grad():
        motion = walker.walk(gait.controls(torch.from_numpy(best)).numpy())
    context.record(
        quadruped_xml(),
        {"q": motion.q, "v": motion.v, "u": motion.u},
        dt=walker.sim.dt,
        camera=(0.5 * motion.speed * 8.0, 0.0, 0.2, 3.0 + motion.speed * 6.0, 90.0, -15.0),
    )
    figures: dict[str, float | None] = {
        "weights": gait.size,
        "speed [m/s]": motion.speed,
        "speed at the start [m/s]": -ours.loss[0],
        "reference speed [m/s]": theirs.speed,
        "reference amplitude [rad]": amplitude,
        "reference phase [rad]": phase,
        "reference frequency [Hz]": frequency,
        "evaluations": ours.total_evaluations,
        "evaluations to the reference speed": ours.evaluations_until(-theirs.speed),
        "minimum height of the trunk [m]": float(motion.q[:, 2].min()),
        "seconds": ours.total_seconds,
    }
    claims = [
        Claim(
            f"faster than the reference gait within {EVALUATIONS} evaluations: speed over its",
            motion.speed / theirs.speed,
            None if context.quick else motion.speed > theirs.speed,
        ),
        Claim(
            "the reference walks as shipped: difference of its speed [m/s]",
            abs(theirs.speed - shipped),
            abs(theirs.speed - shipped) < AGREE,
        ),
    ]
    return Result(ours, baseline, figures, claims, notes=[NOTE])
