"""The reference of the gait experiment: the best of 500 sine gaits.

`python -m featherback.experiments.neural.sine_gaits` walks all of them and writes their speeds to
sine_gaits.csv beside this file.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from featherback._typing import Array
from featherback.experiments.files import write_bytes

TABLE = Path(__file__).with_name("sine_gaits.csv")
HEADER = "amplitude [rad],phase [rad],frequency [Hz],speed [m/s]"
AMPLITUDES = np.linspace(0.1, 1.0, 10)  # [rad]
PHASES = 2.0 * math.pi / 5.0 * np.arange(5)  # [rad]
FREQUENCIES = np.linspace(1.0, 5.5, 10)  # [Hz]
AT_ONCE = 50  # gaits of one batch


def grid() -> Array:
    """Return amplitude, phase and frequency of all gaits, float64[500, 3]."""
    axes = np.meshgrid(AMPLITUDES, PHASES, FREQUENCIES, indexing="ij")
    return np.stack([np.asarray(axis, np.float64).ravel() for axis in axes], -1)


def speeds(gaits: Array) -> Array:
    """Return the mean speed over eight seconds of each gait, float64[n] [m/s]."""
    from featherback.experiments.neural.gait import SECONDS, Walker, sine_gait

    walker = Walker()
    found: list[Array] = []
    for start in range(0, len(gaits), AT_ONCE):
        some = gaits[start : start + AT_ONCE]
        u = np.stack([sine_gait(walker, *(float(x) for x in gait)) for gait in some])
        q, v = (np.tile(part, (len(some), 1)) for part in (walker.q, walker.v))
        roll = walker.sim.rollout(q, v, u)
        found.append((roll.q[:, -1, 0] - q[:, 0]) / SECONDS)
    return np.concatenate(found)


def read() -> Array:
    """Return the table, float64[500, 4]: amplitude, phase, frequency and speed."""
    return np.loadtxt(TABLE, delimiter=",", skiprows=1, ndmin=2)


def reference() -> Array:
    """Return amplitude, phase, frequency and speed of the fastest gait of the table."""
    table = read()
    return table[int(np.argmax(table[:, 3]))]


def write(gaits: Array, speed: Array) -> Path:
    """Write the table with all digits of the gaits and six of the speeds."""
    rows = [
        ",".join([*(repr(float(x)) for x in gait), f"{float(value):.6f}"])
        for gait, value in zip(gaits, speed, strict=True)
    ]
    return write_bytes(TABLE, ("\n".join([HEADER, *rows]) + "\n").encode())


if __name__ == "__main__":
    write(grid(), speeds(grid()))
