"""Quadrupeds with neural controllers for bench/gpu.py: 10 s on a GPU, with and without gradient.

python bench/gpu_degrave.py 100      rows for 100 s, a line of JSON each
"""

from __future__ import annotations

import gc
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from featherback.experiments.named.degrave_speed import THEIRS
from featherback.sim.bridge import bridge_of

# robots and network, what says most first
ROWS = (
    (128, "1.3 k"),
    (65536, "1.3 k"),
    (65536, "1.15 M"),
    (128, "1.15 M"),
    (1, "1.3 k"),
    (1, "1.15 M"),
)
WARM = 5  # steps
SECONDS = 100.0  # that all rows take at most, about


def apart(seconds: float) -> Iterator[dict[str, Any]]:
    """Yield the rows of a process of its own: what ran in this one keeps its scratch on the GPU."""
    command, left = [sys.executable, __file__, f"{seconds}"], list(ROWS)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        for line in run.stdout:
            row = json.loads(line)
            if "robots" in row:
                left.remove((row["robots"], row["network"]))
            else:
                left = []
            yield row
    for robots, name in left:
        reason = f"the process ended with code {run.returncode}"
        yield {"robots": robots, "network": name, "error": reason}


def measured(left: Callable[[], float]) -> Iterator[dict[str, Any]]:
    """Yield the figures of every row for which there is time; one that fails tells why."""
    try:
        from featherback.experiments.neural import sensing
    except ImportError:
        yield {"error": "torch is not installed"}
        return
    missing = sensing.missing_gpu()
    if missing:
        yield {"error": missing}
        return
    for robots, name in ROWS:
        row: dict[str, Any] = {"robots": robots, "network": name}
        # what the rows before, and the other parts, have left in torch's hands
        gc.collect()
        sensing.torch.cuda.empty_cache()
        try:
            yield {**row, **measure(robots, name, left)}
        except sensing.FAILURES as error:
            yield {**row, "error": sensing.one_line(error)}


def measure(robots: int, name: str, left: Callable[[], float]) -> dict[str, Any]:
    """Return the figures of one row, or why it has none."""
    from featherback.experiments.neural import sensing

    network = sensing.make_network(sensing.NETWORKS[name], 0)
    scene = sensing.SensingRobots(robots, network, np.random.default_rng(0), "cuda")
    engine: Any = bridge_of(scene.sim).engine
    scene.measure(WARM)
    few = scene.measure(WARM)
    if few.missing:
        return {"error": few.missing}
    need = (few.forward + few.both) * sensing.STEPS / WARM
    if need > left():
        return {"error": f"it takes about {need:.0f} s, and {max(left(), 0.0):.0f} s were left"}
    torch = sensing.torch
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    before = dict(engine.total_seconds)
    found = scene.measure(sensing.STEPS)
    kernels = {job: s - before.get(job, 0.0) for job, s in engine.total_seconds.items()}
    row: dict[str, Any] = {
        "weights": sum(w.numel() for w in network.parameters()),
        "steps": sensing.STEPS,
        "scratch_bytes": engine.world_bytes,
        "local": not engine.uses_memory,
        "flagged": found.flagged,
    }
    if math.isfinite(found.forward):
        row |= {"forward_s": found.forward, "distance": found.distance}
    if found.missing:
        return {**row, "error": found.missing}
    # two motions and one way back have been run
    rollout, back = kernels["rollout"] / 2, kernels["vjp"]
    return {
        **row,
        "gradient_s": found.both,
        "gradient_length": found.gradient,
        "kernels_forward_s": rollout,
        "kernels_gradient_s": rollout + back,
        # of torch's tensors, beside the scratch
        "peak_bytes": torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0,
    }


def text(rows: list[Mapping[str, Any]]) -> list[str]:
    """Return the lines of docs/gpu.md about these rows."""
    if not rows:
        return []
    if "robots" not in rows[0]:
        return [f"Quadrupeds with neural controllers were not measured: {rows[0]['error']}"]
    lines = [
        "",
        "Quadrupeds with neural controllers (`degrave-speed`), 1000 steps in float32, the network "
        "in torch on the same GPU; seconds, in brackets those of the simulator's kernels:",
        "",
        "| Robots, weights | without gradient | with gradient | ratio | theirs, GPU |",
        "|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda r: (r["robots"], -len(r["network"]))):
        lines.append(_line(row))
    return [*lines, ""]


def _line(row: Mapping[str, Any]) -> str:
    """Return a row of the table."""
    key = row["robots"], row["network"]
    robots = f"{row['robots']:,}".replace(",", " ")
    head = f"| {robots}, {row['network']} |"
    theirs = f"{THEIRS[key][3]:g} and {THEIRS[key][1]:g} s" if key in THEIRS else "-"
    if "gradient_s" not in row:
        first = f"{row['forward_s']:.2f} s" if "forward_s" in row else "-"
        return f"{head} {first} | {row['error']} | | {theirs} |"
    forward, both = (
        f"{row[f'{kind}_s']:.2f} s ({row[f'kernels_{kind}_s']:.2f})"
        for kind in ("forward", "gradient")
    )
    ratio = row["gradient_s"] / row["forward_s"]
    wrong = f"; {row['flagged']} robots went wrong" if row["flagged"] else ""
    return f"{head} {forward} | {both}{wrong} | {ratio:.1f} | {theirs} |"


def main() -> None:
    """Print the rows for which there is time."""
    end = time.monotonic() + (float(sys.argv[1]) if sys.argv[1:] else SECONDS)
    for row in measured(lambda: end - time.monotonic()):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
