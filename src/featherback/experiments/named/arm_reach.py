"""A network of 17 thousand weights moves an arm of four joints to any point it can reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from featherback._optional import import_optional
from featherback._typing import Array
from featherback.experiments.context import Context
from featherback.experiments.methods import run_cma
from featherback.experiments.result import Claim, Result, Trace
from featherback.models.reaching import reacher_xml

if TYPE_CHECKING:
    from featherback.experiments.neural.reach import Reach


SUMMARY = "a network of 17 thousand weights moves an arm of four joints to any point it can reach"
UPDATES, QUICK = 2563, 400  # updates of the first part, and of a quick run
SECONDS = 600.0  # of both parts together
BATCH, SEEN, UNSEEN = 64, 300, 1000  # targets of an update, of the trace, and of the figures
EVERY = 25  # updates of one iteration of the trace
RATE, DECAY, MIN_RATE = (
    3e-3,
    0.1,
    3e-5,
)  # first step of Adam, its decay over the first part, its end
NEAR = 0.05  # [m]
SIGMA = 0.03  # initial spread of CMA-ES
TRAINING, TRACE, TEST = 0, 1, 2  # which targets a key chooses


def rate_at(update: int) -> float:
    """Return the step of Adam at an update."""
    return max(RATE * DECAY ** (update / UPDATES), MIN_RATE)


def train(context: Context, reach: Reach) -> tuple[Array, Array, Trace]:
    """Train by gradients through the motion; return weights after the first part and at the end."""
    import torch

    from featherback.experiments.neural.networks import Training
    from featherback.experiments.neural.reach import NETWORK

    updates = QUICK if context.quick else UPDATES
    trace = context.trace("ours", "Adam (torch), gradients through the motion")
    shown = reach.targets((context.seed, TRACE), SEEN)
    training = Training(context, torch.from_numpy(NETWORK.start(context.rng)))
    trace.skip()
    if not trace.loss:
        trace.add(float(reach.errors(training.vector, shown).mean()), 0)
    with context.progress("gradients", updates) as update_progress:
        while training.done < updates or (not context.quick and trace.total_seconds < SECONDS):
            # an iteration ends with the first part, whatever its length
            left = updates - training.done
            count = min(EVERY, left) if left > 0 else EVERY
            for _ in range(count):
                targets = reach.targets((context.seed, TRAINING, training.done), BATCH)
                rate = rate_at(training.done)
                training.update(reach.loss(training.weights, targets), rate)
            error = float(reach.errors(training.vector, shown).mean())
            trace.add(min(error, trace.loss[-1]), count)
            if training.done == updates:
                context.keep(first=training.vector)
            training.keep()
            update_progress(training.done, error)
    return context.kept_or_empty("first"), training.vector, trace


def run(context: Context) -> Result:
    """Train the network by gradients, then by CMA-ES with as many evaluations."""
    import_optional(f"run {context.name}", "torch", "torch")
    import torch

    from featherback.experiments.neural.reach import NETWORK, Population, Reach

    torch.set_num_threads(1)
    reach = Reach()
    first, last, ours = train(context, reach)
    _record(context, reach, last)
    updates = QUICK if context.quick else UPDATES
    batch = Population(reach, reach.targets((context.seed, TRAINING, 0), BATCH))
    start = NETWORK.start(context.rng)
    # one iteration of CMA-ES is a population of networks
    population = 4 + int(3.0 * np.log(NETWORK.size))
    best, baseline = run_cma(
        context,
        batch,
        max_iterations=3 if context.quick else -(-updates // population),
        sigma=SIGMA,
        measure=float,
        start=start,
        population=population,
        diagonal=True,
    )
    test = reach.targets((context.seed, TEST), UNSEEN)
    errors = {what: reach.errors(w, test) for what, w in (("f", first), ("l", last), ("c", best))}
    return _result(context, (ours, baseline), errors)


def _record(context: Context, reach: Reach, weights: Array) -> None:
    """Record the motion to one of the targets."""
    import torch

    target = reach.targets((context.seed, TEST), 1)
    with torch.no_grad():
        motion = reach.move(torch.from_numpy(weights), target)
    context.record(
        reacher_xml(),
        {"q": motion.q[0].numpy(), "v": motion.v[0].numpy(), "u": motion.u[0].numpy()},
        dt=reach.sim.dt,
        target=target.numpy(),
        camera=(0.0, 0.0, 0.3, 3.2, 120.0, -15.0),
    )


def _result(context: Context, traces: tuple[Trace, Trace], errors: dict[str, Array]) -> Result:
    """Return figures and claims; what needs the full budget is not judged in a quick run."""
    ours, baseline = traces
    updates = QUICK if context.quick else UPDATES
    after = float(errors["f"].mean())
    final = float(errors["l"].mean())
    theirs = float(errors["c"].mean())
    figures: dict[str, float | None] = {
        f"mean error after {updates} updates [m]": after,
        f"median error after {updates} updates [m]": float(np.median(errors["f"])),
        "updates to a mean error of 5 cm": ours.evaluations_until(NEAR),
        "seconds to a mean error of 5 cm": ours.seconds_until(NEAR),
        "updates": ours.total_evaluations,
        "seconds": ours.total_seconds,
        "mean error at the end [m]": final,
        "median error at the end [m]": float(np.median(errors["l"])),
        "largest error at the end [m]": float(errors["l"].max()),
        "CMA-ES mean error [m]": theirs,
        "CMA-ES evaluations": baseline.total_evaluations,
        "CMA-ES seconds": baseline.total_seconds,
    }
    claims = [
        Claim(
            f"mean error under 5 cm over the reachable set in at most {UPDATES} updates: mean "
            f"error after {updates} over {UNSEEN} points never trained on [m]",
            after,
            after < NEAR,
        ),
        Claim(
            "better with the rest of ten minutes: mean error after the updates over that at the "
            "end",
            after / final,
            None if context.quick else final < after,
        ),
        Claim(
            "CMA-ES does not reach it in as many evaluations: its mean error over ours",
            theirs / after,
            None if context.quick else theirs > after,
        ),
    ]
    return Result(ours, baseline, figures, claims, notes=[NOTE])


NOTE = (
    "Points are drawn from the reachable set evenly by cells of 5 cm; the error is the distance of "
    "the tip after 2 s, from the upright arm at rest."
)
