"""The budgets of the backward side, one function each."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable

import numpy as np
from budgets import WORLDS, Bench
from numpy.typing import NDArray
from ours import Ours
from peer import Peer, Transitions
from report import Row, disturbed, figure, spread
from scenes import Scene, chain_scene
from timing import QUIET, Timing, fitted_exponent, interleave, one_core

import featherback as fb

NO_PEER = "none"
POINTS = 5  # states at which Jacobians are taken in one sample, which is then about a millisecond
EXTRA_STEPS = (20_000, 60_000)  # rollouts whose peaks of memory are compared


def last_state(roll: fb.Rollout) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Return the cotangents of a loss on the last state, all ones."""
    return np.ones_like(roll.q[..., -1, :]), np.ones_like(roll.v[..., -1, :])


def backward_of(mine: Ours) -> Callable[[], fb.Gradient]:
    """Return a call that takes the gradient of a rollout that is already there."""
    roll = mine.roll()
    q_bar, v_bar = last_state(roll)
    return lambda: roll.vjp(q_bar, v_bar)


def gradient_of(mine: Ours) -> Callable[[], fb.Gradient]:
    """Return a call that rolls out and takes the gradient."""
    q_bar, v_bar = last_state(mine.roll())
    return lambda: mine.roll().vjp(q_bar, v_bar)


def backward(bench: Bench, scene: Scene, name: str, dtype: str) -> Row:
    """The backward step, in which the step is run again, against the forward step."""
    with one_core():
        mine = Ours(scene, dtype)
        jobs = {"forward": mine.roll, "backward": backward_of(mine)}
        times = interleave(jobs, bench.rounds, patience=bench.patience)
    count = scene.worlds * scene.steps
    us = {key: t.seconds / count * 1e6 for key, t in times.items()}
    who = "one Laikago" if scene.worlds == 1 else f"batch of {scene.worlds}"
    return Row(
        name,
        f"{who}, {dtype}, backward step against our forward",
        spread(times["backward"], count),
        NO_PEER,
        us["backward"] / us["forward"],
        2.0,
        1.0,
        lower=True,
        notes=(
            f"forward {us['forward']:.3g} us; backward {us['backward']:.3g} us, in which the step "
            f"is run again; without that {us['backward'] - us['forward']:.3g} us, "
            f"{us['backward'] / us['forward'] - 1:.2f}x",
            *disturbed(times),
        ),
        data={"times": {key: t.per(count) for key, t in times.items()}},
    )


def _against_differences(
    times: dict[str, Timing], count: float, points: int
) -> tuple[float, dict[str, float], str]:
    """Return our microseconds, MuJoCo's, and both ratios in words."""
    mine = times["ours"].seconds / count * 1e6
    theirs = {
        name: times[f"MuJoCo, {name}"].seconds / points * 1e6 for name in ("one-sided", "centred")
    }
    note = "; ".join(
        f"{name} differences {us:.3g} us, {us / mine:.3g}x" for name, us in theirs.items()
    )
    return mine, theirs, f"mjd_transitionFD: {note}; the ratio of the table is to one-sided ones"


def _transition_jobs(bench: Bench, scene: Scene, count: int) -> dict[str, Callable[[], None]]:
    """Return MuJoCo's two ways to take Jacobians at some states of a scene."""
    fd = Transitions(Peer(scene, bench.setting[0]), count)
    return {"MuJoCo, one-sided": fd.call(False), "MuJoCo, centred": fd.call(True)}


def gradient(bench: Bench) -> Row:
    """Forward and one backward step of one Laikago against mjd_transitionFD."""
    setting, _ = bench.setting
    with one_core():
        mine = Ours(bench.single)
        jobs = {"ours": gradient_of(mine), "backward": backward_of(mine)}
        jobs |= _transition_jobs(bench, bench.single, POINTS)
        times = interleave(jobs, bench.rounds, patience=bench.patience)
    us, theirs, note = _against_differences(times, bench.steps, POINTS)
    alone = times["backward"].seconds / bench.steps * 1e6
    return Row(
        "gradient",
        "one Laikago, forward and backward step, against mjd_transitionFD",
        spread(times["ours"], bench.steps),
        spread(times["MuJoCo, one-sided"], POINTS),
        theirs["one-sided"] / us,
        30.0,
        60.0,
        notes=(
            note,
            f"a step and its gradient at a given state, as mjd_transitionFD gives them: "
            f"{alone:.3g} us, {theirs['one-sided'] / alone:.3g}x and "
            f"{theirs['centred'] / alone:.3g}x; MuJoCo: {setting}",
            *disturbed(times),
        ),
        data={"us": us, "backward_us": alone, "peer_us": theirs},
    )


def batch_gradients(bench: Bench, dtype: str) -> Row:
    """Gradients per second of a batch, forward and backward, on one core."""
    setting, _ = bench.setting
    few = bench.batch.first(8)
    with one_core():
        mine = Ours(bench.batch, dtype)
        jobs = {"ours": gradient_of(mine), **_transition_jobs(bench, few, 4)}
        times = interleave(jobs, bench.rounds, patience=bench.patience)
    count, points = WORLDS * bench.batch_steps, 4 * few.worlds
    us, theirs, note = _against_differences(times, count, points)
    return Row(
        f"gradients-{dtype}",
        f"batch of {WORLDS}, {dtype}, one core, gradient steps per second",
        f"{1e3 / us:.0f} k/s ±{50 * times['ours'].spread:.0f}%",
        f"{1e3 / theirs['one-sided']:.2f} k/s",
        theirs["one-sided"] / us,
        30.0,
        60.0,
        notes=(note, f"MuJoCo: {setting}", *disturbed(times)),
        data={"us": us, "peer_us": theirs},
    )


def linearize(bench: Bench) -> Row:
    """The full A and B of one Laikago against mjd_transitionFD, both called from Python."""
    setting, _ = bench.setting
    with one_core():
        mine = Ours(bench.single)
        roll = mine.roll()
        at = np.linspace(0, bench.steps - 1, 16 * POINTS).astype(int)
        points = [(roll.q[k].copy(), roll.v[k].copy(), mine.u[k].copy()) for k in at]
        many = Ours(bench.batch)
        rolls = many.roll()
        batch = (rolls.q[:, 1].copy(), rolls.v[:, 1].copy(), many.u[:, 1].copy())

        def each() -> None:
            for q, v, u in points:
                mine.sim.linearize(q, v, u)

        jobs: dict[str, Callable[[], object]] = {"ours": each}
        jobs["batch"] = lambda: many.sim.linearize(*batch)
        jobs |= _transition_jobs(bench, bench.single, POINTS)
        times = interleave(jobs, bench.rounds, patience=bench.patience)
    us, theirs, note = _against_differences(times, len(points), POINTS)
    together = times["batch"].seconds / WORLDS * 1e6
    return Row(
        "linearize",
        "one Laikago, full A and B, against mjd_transitionFD",
        spread(times["ours"], len(points)),
        spread(times["MuJoCo, one-sided"], POINTS),
        theirs["one-sided"] / us,
        8.0,
        15.0,
        notes=(
            note,
            f"in a batch of {WORLDS} {together:.3g} us per world, "
            f"{theirs['one-sided'] / together:.3g}x and {theirs['centred'] / together:.3g}x; "
            f"MuJoCo: {setting}",
            *disturbed(times),
        ),
        data={"us": us, "batch_us": together, "peer_us": theirs},
    )


def chain_backward(bench: Bench, held: bool) -> Row:
    """A chain of n links: is the time of the backward step linear in n?"""
    seconds: list[float] = []
    with one_core():
        for links in bench.sizes:
            scene = chain_scene(links, max(20, 4000 // links), held)
            rounds = bench.rounds if links <= 100 else 3
            jobs = {"ours": backward_of(Ours(scene))}
            times = interleave(jobs, rounds, patience=bench.patience / 4)
            seconds.append(times["ours"].seconds / scene.steps)
    exponent = fitted_exponent(bench.sizes, seconds)
    per_link = [f"{1e6 * s / n:.3g}" for n, s in zip(bench.sizes, seconds, strict=True)]
    rows = "tip held by 3 rows" if held else "no rows"
    return Row(
        "chain-backward-held" if held else "chain-backward",
        f"backward, chain of {bench.sizes[0]} to {bench.sizes[-1]} links, {rows}, exponent in n",
        f"{exponent:.2f}",
        NO_PEER,
        exponent,
        1.1,
        None,
        unit="",
        lower=True,
        notes=(
            f"links {', '.join(map(str, bench.sizes))}",
            f"ours: {', '.join(per_link)} us per link",
        ),
        data={"links": bench.sizes, "ours_us": [s * 1e6 for s in seconds]},
    )


MEMORY = """
import resource, sys
import numpy as np
import featherback as fb
model = fb.models.laikago()
sim = fb.Simulator(model)
q, v = model.keyframe("stand")
def run(steps):
    roll = sim.rollout(q, v, np.tile(q[7:], (steps, 1)))
    roll.vjp(np.ones(model.nq), np.ones(model.nv))
run(10)
run(int(sys.argv[1]))
# the peak that rusage tells starts at that of the process this one was started from
try:
    lines = open("/proc/self/status").read().splitlines()
    peak = 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
except OSError:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(peak)
"""

FIRST = """
import time
import featherback as fb
import numpy as np
model = fb.models.laikago()
q, v = model.keyframe("stand")
u = np.tile(q[7:], (10, 1))
start = time.perf_counter(), time.process_time()
sim = fb.Simulator(model)
roll = sim.rollout(q, v, u)
roll.vjp(np.ones(model.nq), np.ones(model.nv))
print(time.perf_counter() - start[0], time.process_time() - start[1])
"""


def _printed(code: str, *arguments: str) -> list[float]:
    """Return the numbers that some code prints in a fresh process."""
    command = (sys.executable, "-c", code, *arguments)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


def memory(bench: Bench) -> Row:
    """Memory of a rollout and its gradient for each step, beside the controls and their gradient.

    Peaks of the resident memory of two processes whose rollouts differ in length.
    """
    model = fb.models.laikago()
    short, long = (n // 10 if bench.quick else n for n in EXTRA_STEPS)
    peaks = [_printed(MEMORY, str(n))[0] for n in (short, long)]
    whole = (peaks[1] - peaks[0]) / (long - short)
    controls = 2 * 8 * model.nu
    return Row(
        "memory",
        "one Laikago, rollout and gradient, bytes for each step beyond the controls",
        figure(whole - controls, "bytes"),
        NO_PEER,
        whole - controls,
        400.0,
        300.0,
        unit="bytes",
        lower=True,
        notes=(
            f"peaks of resident memory {peaks[0] / 1e6:.4g} MB at {short} steps and "
            f"{peaks[1] / 1e6:.4g} MB at {long}: {whole:.4g} bytes for each step, of which "
            f"controls and their gradient {controls}; a state has {8 * (model.nq + model.nv)}",
        ),
        data={"steps": [short, long], "peaks": peaks, "controls": controls},
    )


def first_gradient(bench: Bench) -> Row:
    """Time from a loaded Laikago to its first gradient, simulator included, in a fresh process."""
    runs = [_printed(FIRST) for _ in range(3 if bench.quick else 9)]
    quiet = [wall for wall, busy in runs if busy > QUIET * wall]
    # interrupted by other processes every time: processor times stand in for wall times
    seconds = quiet or [busy for _, busy in runs]
    value = statistics.median(seconds)
    return Row(
        "first-gradient",
        "first gradient of a loaded Laikago, ten steps, in a fresh process",
        f"{value:.4f} s ({min(seconds):.4f} to {max(seconds):.4f})",
        NO_PEER,
        value,
        0.1,
        0.02,
        unit="s",
        lower=True,
        notes=(
            f"{len(quiet)} of {len(runs)} runs undisturbed"
            + ("" if quiet else "; processor times are given"),
        ),
        data={"wall_s": [run[0] for run in runs], "processor_s": [run[1] for run in runs]},
    )


# in the order of the table
GRADIENTS: dict[str, Callable[[Bench], Row]] = {
    "backward": lambda bench: backward(bench, bench.single, "backward", "float64"),
    "backward-batch": lambda bench: backward(bench, bench.batch, "backward-batch", "float64"),
    "backward-float32": lambda bench: backward(bench, bench.batch, "backward-float32", "float32"),
    "gradient": gradient,
    "gradients-float64": lambda bench: batch_gradients(bench, "float64"),
    "gradients-float32": lambda bench: batch_gradients(bench, "float32"),
    "linearize": linearize,
    "memory": memory,
    "chain-backward": lambda bench: chain_backward(bench, held=False),
    "chain-backward-held": lambda bench: chain_backward(bench, held=True),
    "first-gradient": first_gradient,
}
