"""How long quadrupeds with neural controllers take for ten seconds, with and without gradient."""

from __future__ import annotations

import math

from featherback._optional import import_optional
from featherback.experiments.context import Context
from featherback.experiments.result import Claim, Result

SUMMARY = "1 and 128 quadrupeds with neural controllers over 10 s, with and without gradient"
ROBOTS = (1, 128)
QUICK, WARM = 50, 3  # steps
# seconds of Degrave et al. (2019): robots, network: with gradient on a CPU and a GPU, without
THEIRS = {
    (1, "1.3 k"): (8.17, 69.6, 1.06, 9.69),
    (1, "1.15 M"): (13.2, 75.0, 2.04, 9.69),
    (128, "1.3 k"): (263.0, 128.0, 47.7, 17.8),
    (128, "1.15 M"): (311.0, 129.0, 50.4, 18.3),
}
NOTES = (
    "A gradient is that of the mean distance with respect to all weights, through 1000 steps of "
    "0.01 s in float32; its length says what 10 s of contacts do to it. Network and simulator run "
    "on one thread of the processor.",
    "Theirs: an i7-5930K and a GTX 1080, as they reported; another robot of the same size.",
)


def run(context: Context) -> Result:
    """Measure every number of robots with both networks."""
    import_optional(f"run {context.name}", "torch", "torch")
    import torch

    from featherback.experiments.neural.sensing import (
        NETWORKS,
        STEPS,
        SensingRobots,
        make_network,
    )

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    steps = QUICK if context.quick else STEPS
    trace = context.trace("ours", "motion and gradient, one after the other")
    trace.start()
    figures: dict[str, float | None] = {"steps": steps}
    ratios: list[float] = []
    faster: list[float] = []
    for robots in ROBOTS:
        for name, hidden in NETWORKS.items():
            row = f"{robots} robots, {name} weights"
            network = make_network(hidden, context.seed)
            scene = SensingRobots(robots, network, context.rng)
            scene.measure(WARM)
            found = scene.measure(steps)
            theirs = THEIRS[robots, name]
            figures |= {
                f"{row}: weights": sum(w.numel() for w in network.parameters()),
                f"{row}: without gradient [s]": found.forward,
                f"{row}: with gradient [s]": found.both,
                f"{row}: with over without": found.both / found.forward,
                f"{row}: theirs without gradient, processor [s]": theirs[2],
                f"{row}: theirs with gradient, processor [s]": theirs[0],
                f"{row}: theirs with gradient, GPU [s]": theirs[1],
                f"{row}: distance [m]": found.distance,
                f"{row}: log10 of the length of the gradient": _log10(found.gradient),
            }
            ratios.append(found.both / found.forward)
            faster.append(min(theirs[:2]) / found.both)
            trace.add(-found.distance)
    torch.set_num_threads(threads)
    quick = context.quick
    claims = [
        Claim(
            "a gradient costs less than seven times the motion, in every row: most",
            max(ratios),
            None if quick else max(ratios) < 7.0,
        ),
        Claim(
            "faster with gradient than theirs on processor and GPU, in every row: least ratio",
            None if quick else min(faster),
            None if quick else min(faster) > 1.0,
        ),
    ]
    return Result(trace, None, figures, claims, notes=list(NOTES))


def _log10(length: float) -> float | None:
    return math.log10(length) if 0.0 < length < math.inf else None
