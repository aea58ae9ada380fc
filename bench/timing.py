"""Timing on a shared machine: pinned cores, interleaved repeats, medians of undisturbed samples.

Where other processes interrupt every sample, processor times stand in for wall times.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

QUIET = 0.97  # processor time over wall time above which a sample counts as undisturbed
QUIET_THREADS = 0.93  # the same for several threads, which also wait for each other


@dataclass(frozen=True)
class Timing:
    """Seconds of one call, over repeats.

    Attributes:
        seconds: median of the undisturbed samples; where none is, of the shortest fifth of their
            processor times.
        low: lower quartile of the same samples.
        high: upper quartile.
        cpu: median of the processor time, all threads together.
        samples: number of samples taken.
        quiet: number of them that no other process interrupted.
    """

    seconds: float
    low: float
    high: float
    cpu: float
    samples: int
    quiet: int

    @property
    def spread(self) -> float:
        """Distance between the quartiles as a share of the median."""
        return (self.high - self.low) / self.seconds

    def per(self, count: float) -> dict[str, float]:
        """Return the figures in microseconds for one of `count` parts of the call."""
        scale = 1e6 / count
        return {
            "us": self.seconds * scale,
            "low_us": self.low * scale,
            "high_us": self.high * scale,
            "samples": self.samples,
            "quiet": self.quiet,
        }


def summarise(samples: list[tuple[float, float]], threads: int = 1) -> Timing:
    """Return the Timing of (wall seconds, processor seconds) samples of a call on `threads`."""
    wall, cpu = np.array(samples).T
    quiet = cpu / (wall * threads) > (QUIET if threads == 1 else QUIET_THREADS)
    shortest = np.sort(cpu / threads)[: -(-len(cpu) // 5)]
    low, middle, high = np.percentile(wall[quiet] if quiet.any() else shortest, (25, 50, 75))
    return Timing(
        float(middle), float(low), float(high), float(np.median(cpu)), len(wall), int(quiet.sum())
    )


def interleave(
    jobs: Mapping[str, Callable[[], object]],
    rounds: int,
    *,
    patience: float = 0.0,
    threads: dict[str, int] | None = None,
) -> dict[str, Timing]:
    """Time the jobs in turn, round after round.

    Args:
        jobs: calls to time, by name; each is called once before the first round.
        rounds: number of rounds.
        patience: seconds that may be added until half the rounds of every job are undisturbed.
        threads: threads a job keeps busy, 1 where it is not named.

    Returns:
        The Timing of each job.
    """
    busy = {name: (threads or {}).get(name, 1) for name in jobs}
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in jobs}
    for job in jobs.values():
        job()
    spent = 0.0
    while True:
        for name, job in jobs.items():
            wall, cpu = time.perf_counter(), time.process_time()
            job()
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            samples[name].append((wall, cpu))
            spent += wall if len(samples[name]) > rounds else 0.0
        done = {name: summarise(taken, busy[name]) for name, taken in samples.items()}
        enough = all(t.samples >= rounds for t in done.values())
        if enough and (spent >= patience or all(2 * t.quiet >= rounds for t in done.values())):
            return done


def _busy_ticks() -> dict[int, int]:
    """Return the ticks each core has been busy, or nothing where the system does not tell."""
    try:
        with open("/proc/stat") as file:
            lines = [line.split() for line in file if line.startswith("cpu")]
    except OSError:
        return {}
    return {
        int(words[0][3:]): sum(map(int, words[1:4])) + sum(map(int, words[6:9]))
        for words in lines
        if words[0] != "cpu"
    }


def quietest_core() -> int | None:
    """Return the core of this process that others use least, None where cores cannot be chosen."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    before = _busy_ticks()
    time.sleep(0.3)
    after = _busy_ticks()
    cores = sorted(os.sched_getaffinity(0), reverse=True)
    return min(cores, key=lambda core: after.get(core, 0) - before.get(core, 0))


@contextmanager
def one_core() -> Generator[int | None]:
    """Keep this process on its quietest core; threads started inside stay there too."""
    core = quietest_core()
    if core is None:
        yield None
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield core
    finally:
        os.sched_setaffinity(0, allowed)


def fitted_exponent(sizes: list[int], seconds: list[float]) -> float:
    """Return the slope of log(seconds) over log(size) by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
