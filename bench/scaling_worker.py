"""One rollout and its gradient in a fresh process, for bench/scaling_memory.py; prints JSON.

python bench/scaling_worker.py '{"robots": 1, "steps": 500, "checkpoint": "step", "seconds": 0.2}'
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from typing import Any

import numpy as np
from scaling_scenes import standing_scene

import featherback as fb


def peak_kb() -> int:
    """Return the largest resident memory of this process so far, in kilobytes."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))


def forget_peak() -> None:
    """Start the peak of resident memory anew at what is resident now."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def digest(gradient: fb.Gradient) -> str:
    """Return a short name for the bits of a gradient."""
    parts = (np.ascontiguousarray(a).tobytes() for a in (gradient.q, gradient.v, gradient.u))
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def measure(robots: int, steps: int, checkpoint: str | int, seconds: float) -> dict[str, Any]:
    """Return the peak of the first rollout and gradient, and samples of more of them."""
    scene = standing_scene(robots, steps)
    q, v, u = scene.q[0], scene.v[0], scene.u[0]
    q_bar, v_bar = np.ones_like(q), np.ones_like(v)
    # code is loaded by a short run of another simulator, which is part of the idle process
    other, sim = fb.Simulator(scene.model), fb.Simulator(scene.model)
    other.rollout(q, v, u[:2]).vjp(q_bar, v_bar)
    predicted = sim.memory(steps, checkpoint=checkpoint)
    forget_peak()
    idle = peak_kb()
    samples: dict[str, list[tuple[float, float]]] = {"forward": [], "backward": []}
    report: dict[str, Any] = {"idle_kb": idle}
    start = time.perf_counter()
    while "peak_kb" not in report or time.perf_counter() - start < seconds:
        clock = time.perf_counter(), time.process_time()
        roll = sim.rollout(q, v, u, checkpoint=checkpoint)
        middle = time.perf_counter(), time.process_time()
        gradient = roll.vjp(q_bar, v_bar)
        end = time.perf_counter(), time.process_time()
        if "peak_kb" not in report:
            report["peak_kb"] = peak_kb()
            report |= {"kept": len(roll.kept), "bits": digest(gradient)}
            report["state"] = [*roll.q[-1].tolist(), *roll.v[-1].tolist()]
        samples["forward"].append((middle[0] - clock[0], middle[1] - clock[1]))
        samples["backward"].append((end[0] - middle[0], end[1] - middle[1]))
        del roll, gradient
    # kept until here, so that its scratch is not used again
    del other
    report["predicted"] = {
        "states": predicted.states,
        "controls": predicted.controls,
        "workspace": predicted.workspace,
    }
    # the first run warms up where there are others
    return report | {key: taken[1:] or taken for key, taken in samples.items()}


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))))
