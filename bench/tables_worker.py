"""One rollout and its gradient in a fresh process, for bench/tables.py; prints samples as JSON.

python bench/tables_worker.py TOOL SCENE.npz SECONDS '{"robots": 1, "dt": 0.002, "setting": {}}'
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))
from rollouts import TOOLS, Scene


def peak_kb() -> int:
    """Return the largest resident memory of this process so far, in kilobytes."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))


def forget_peak() -> None:
    """Give freed memory back, and start the peak of resident memory anew at what is left."""
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def main(arguments: list[str]) -> None:
    """Run once for the peak of memory, again until the seconds are spent; see the module."""
    name, path, seconds = arguments[0], arguments[1], float(arguments[2])
    with np.load(path, allow_pickle=False) as arrays:
        q, v, u = arrays["q"], arrays["v"], arrays["u"]
    scene = Scene(q, v, u, **json.loads(arguments[3]))
    tool = TOOLS[name](scene)
    # code is loaded and scratch allocated by a short run, which is part of the idle process; where
    # a compiler runs, it has done so
    if "compile_s" not in tool.facts:
        TOOLS[name](replace(scene, u=u[:2])).forward()[1]()
    forget_peak()
    idle, peak = peak_kb(), 0
    samples: dict[str, list[float]] = {"forward": [], "backward": []}
    state, gradient = np.zeros(0), np.zeros(0)
    start = time.perf_counter()
    for turn in range(200):
        clock = time.perf_counter(), time.process_time()
        state, backward = tool.forward()
        samples["forward"] += [time.perf_counter() - clock[0], time.process_time() - clock[1]]
        clock = time.perf_counter(), time.process_time()
        gradient = backward()
        samples["backward"] += [time.perf_counter() - clock[0], time.process_time() - clock[1]]
        peak = peak_kb() if turn == 0 else peak
        if time.perf_counter() - start > seconds:
            break
    # the first run warms up where there are others
    kept = {k: s[2:] if len(s) > 2 else s for k, s in samples.items()}
    report = {"idle_kb": idle, "peak_kb": peak, "state": state.tolist(), **kept, **tool.facts}
    print(json.dumps({**report, "gradient": gradient.tolist()}))


if __name__ == "__main__":
    main(sys.argv[1:])
