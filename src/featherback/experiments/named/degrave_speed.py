"""How long quadrupeds with neural controllers take for ten seconds, with and without gradient."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from featherback._optional import import_optional
from featherback.experiments.context import Context
from featherback.experiments.result import Claim, Result

if TYPE_CHECKING:
    import torch

    from featherback.experiments.neural.sensing import Timing

SUMMARY = (
    "1 and 128 quadrupeds, 65 536 on a GPU, with neural controllers over 10 s, with and without "
    "gradient"
)
# robots by device; the last are left out with --quick
PROCESSOR, GPU = "processor", "GPU"
ROBOTS = {PROCESSOR: (1, 128), GPU: (1, 128, 65536)}
DEVICES = {PROCESSOR: "cpu", GPU: "cuda"}
MOST_QUICK = 128
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
    "on one thread of the processor, or both on the GPU, with the same options.",
    "Theirs: an i7-5930K and a GTX 1080, as they reported; another robot of the same size.",
)

Row = tuple[str, int, str]
"""Device, robots and network."""


def run(context: Context) -> Result:
    """Measure every number of robots with both networks, on the GPU too where there is one."""
    import_optional(f"run {context.name}", "torch", "torch")
    import torch

    from featherback.experiments.neural import sensing

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    steps = QUICK if context.quick else sensing.STEPS
    trace = context.trace("ours", "motion and gradient on the processor, one after the other")
    trace.start()
    notes: list[str] = [*NOTES]
    missing = sensing.missing_gpu()
    if missing:
        notes.append(f"No GPU was measured: {missing}")
    found: dict[Row, Timing] = {}
    figures: dict[str, float | None] = {"steps": steps}
    for row in _rows(context.quick, not missing):
        network = sensing.make_network(sensing.NETWORKS[row[2]], context.seed)
        figures[f"{_label(row)}: weights"] = sum(w.numel() for w in network.parameters())
        found[row] = _measure(row, network, steps, context)
        figures |= _figures(row, found[row])
        notes += _remarks(row, found[row])
        if row[0] == PROCESSOR:
            trace.add(-found[row].distance)
    torch.set_num_threads(threads)
    return Result(trace, None, figures, _claims(found, context.quick), notes=notes)


def _rows(quick: bool, gpu: bool) -> list[Row]:
    """Return what is measured, the processor first."""
    from featherback.experiments.neural.sensing import NETWORKS

    return [
        (device, robots, name)
        for device, numbers in ROBOTS.items()
        for robots in numbers
        for name in NETWORKS
        if (gpu or device != GPU) and (not quick or robots <= MOST_QUICK)
    ]


def _label(row: Row) -> str:
    """Return how the names of a row's figures begin."""
    device, robots, name = row
    return f"{robots} robots, {name} weights" + (", GPU" if device == GPU else "")


def _measure(row: Row, network: torch.nn.Module, steps: int, context: Context) -> Timing:
    """Measure a row after a few steps that are not timed; one that cannot be says why."""
    from featherback.experiments.neural import sensing

    device, robots, _ = row
    try:
        scene = sensing.SensingRobots(robots, network, context.rng, DEVICES[device])
    except sensing.FAILURES as error:
        return sensing.Timing(missing=sensing.one_line(error))
    few = scene.measure(WARM)
    return few if few.missing else scene.measure(steps)


def _figures(row: Row, found: Timing) -> dict[str, float | None]:
    """Return the figures of a row, beside theirs."""
    label = _label(row)
    figures: dict[str, float | None] = {
        f"{label}: without gradient [s]": _finite(found.forward),
        f"{label}: with gradient [s]": _finite(found.both),
        f"{label}: with over without": _finite(found.both / found.forward),
        f"{label}: distance [m]": _finite(found.distance),
        f"{label}: log10 of the length of the gradient": _log10(found.gradient),
    }
    theirs = THEIRS[row[1:]] if row[1:] in THEIRS else None
    if theirs and row[0] == PROCESSOR:
        figures |= {
            f"{label}: theirs without gradient, processor [s]": theirs[2],
            f"{label}: theirs with gradient, processor [s]": theirs[0],
            f"{label}: theirs with gradient, GPU [s]": theirs[1],
        }
    elif theirs:
        figures[f"{label}: theirs without gradient, GPU [s]"] = theirs[3]
    return figures


def _finite(number: float) -> float | None:
    """Return a number, None for one that was not measured."""
    return number if math.isfinite(number) else None


def _log10(length: float) -> float | None:
    return math.log10(length) if 0.0 < length < math.inf else None


def _remarks(row: Row, found: Timing) -> list[str]:
    """Say what is missing of a row, and how many robots went wrong."""
    remarks = [f"{_label(row)}: {found.missing}"] if found.missing else []
    if found.flagged:
        remarks.append(f"{_label(row)}: {found.flagged} robots have a status that is not OK.")
    return remarks


def _claims(found: dict[Row, Timing], quick: bool) -> list[Claim]:
    """Return what must be shown, for each device that was measured."""
    claims: list[Claim] = []
    for device, where in ((PROCESSOR, ""), (GPU, "on a GPU, ")):
        rows = {row[1:]: t for row, t in found.items() if row[0] == device}
        if not rows:
            continue
        # a row without a gradient counts as endless
        most = max(t.both / t.forward if t.both < math.inf else math.inf for t in rows.values())
        least = min(min(theirs[:2]) / rows[key].both for key, theirs in THEIRS.items())
        claims += [
            Claim(
                f"{where}a gradient costs less than seven times the motion, in every row: most",
                _finite(most),
                None if quick else most < 7.0,
            ),
            Claim(
                f"{where}faster with gradient than theirs on processor and GPU, in every row: "
                "least ratio",
                None if quick else least,
                None if quick else least > 1.0,
            ),
        ]
    return claims
