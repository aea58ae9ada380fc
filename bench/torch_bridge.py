"""Measure what a call from PyTorch costs over the core, and the memory of a closed loop.

    python bench/torch_bridge.py
    python bench/torch_bridge.py --quick

Calls alternate with the bare engine, and the least of many is taken: of wall time, and of the
thread's processor time, which other work on the machine disturbs less. The memory is the peak above
that of the process at rest, of 5000 Laikago steps with a network in the loop, forward and backward,
each way of keeping the graph in a process of its own. The exit code does not depend on the figures.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

import featherback as fb
import featherback.torch as fbt
from featherback.sim.bridge import bridge_of

BUDGET_US = 50.0
# Qiao et al. 2021, table 1: 5000 Laikago steps with gradient
PAPER_MB = 5.0


def least(jobs: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, tuple[float, float]]:
    """Return the shortest wall and processor time of each job [us], in alternating rounds."""
    best = {name: [np.inf, np.inf] for name in jobs}
    for job in jobs.values():
        job()
    for _ in range(rounds):
        for name, job in jobs.items():
            # several in a row, so that what a job needs is near
            for _ in range(5):
                start = time.perf_counter(), time.thread_time()
                job()
                spent = time.perf_counter() - start[0], time.thread_time() - start[1]
                best[name] = [min(x, 1e6 * y) for x, y in zip(best[name], spent, strict=True)]
    return {name: (wall, cpu) for name, (wall, cpu) in best.items()}


def call_costs(steps: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Return the times [us] of one Laikago rollout by the engine, NumPy and PyTorch."""
    sim = fb.Simulator(fb.models.laikago())
    q, v = (np.array(x) for x in sim.model.keyframe("stand"))
    u = np.tile(q[7:], (steps, 1))
    tensors = tuple(torch.tensor(a) for a in (q, v, u))
    leaf = tensors[2].clone().requires_grad_()
    bridge = bridge_of(sim)
    x, found = bridge.states(np.concatenate([q, v])[None], u, steps, None)

    def both() -> None:
        fbt.rollout(sim, *tensors[:2], leaf).q[-1].sum().backward()

    last = np.eye(sim.model.nq)[0]
    return least(
        {
            "core": lambda: bridge.rollout(x, u, None, found, steps=steps),
            "numpy": lambda: sim.rollout(q, v, u),
            "torch": lambda: fbt.rollout(sim, *tensors),
            "torch, recorded": lambda: fbt.rollout(sim, *tensors[:2], leaf),
            "numpy with vjp": lambda: sim.rollout(q, v, u).vjp(last),
            "torch with backward": both,
        },
        rounds,
    )


def policy_of(sim: fb.Simulator) -> torch.nn.Module:
    """Return a small network around the standing pose."""
    torch.manual_seed(0)
    model = sim.model
    stand = torch.tensor(model.keyframe("stand")[0][7:])
    net = torch.nn.Sequential(
        torch.nn.Linear(model.nq + model.nv, 32), torch.nn.Tanh(), torch.nn.Linear(32, model.nu)
    ).double()

    class Policy(torch.nn.Module):
        """The network, with small answers."""

        def __init__(self) -> None:
            """Hold the network."""
            super().__init__()
            self.net = net

        def forward(self, q: torch.Tensor, v: torch.Tensor, t: int) -> torch.Tensor:
            """Return servo positions."""
            return stand + 0.01 * self.net(torch.cat([q, v], -1))

    return Policy()


def resident(field: str) -> int:
    """Return a field of the memory of this process [kB]."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise RuntimeError(f"/proc/self/status has no {field}.")


def closed_loop(memory: Any, steps: int) -> tuple[float, float]:
    """Return the peak memory [MB] above rest and the time [us] per step of a closed loop."""
    sim = fb.Simulator(fb.models.laikago())
    policy = policy_of(sim)
    q, v = (torch.tensor(x) for x in sim.model.keyframe("stand"))

    def run(steps: int) -> None:
        found = fbt.closed_loop(sim, policy, q, v, steps, memory=memory)
        found.q[-1, 0].backward()

    run(20)
    # lets the peak start again from the present
    Path("/proc/self/clear_refs").write_text("5")
    rest, start = resident("VmRSS"), time.perf_counter()
    run(steps)
    spent = time.perf_counter() - start
    return (resident("VmHWM") - rest) / 1000, 1e6 * spent / steps


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="rough figures in seconds")
    parser.add_argument("--memory", help="measure one way of keeping the graph, in this process")
    options = parser.parse_args()
    torch.set_num_threads(1)
    steps = 200 if options.quick else 5000
    if options.memory:
        print(*closed_loop(options.memory, steps))
        return 0
    times = call_costs(100, 20 if options.quick else 400)
    wall, cpu = times["core"]
    print("one Laikago, 100 steps      wall [us]   over core   processor [us]   over core")
    for name, (a, b) in times.items():
        print(f"{name:<26}{a:>11.1f}{a - wall:>12.1f}{b:>17.1f}{b - cpu:>12.1f}")
    print(f"budget: torch, {BUDGET_US:.0f} us over core\n")
    print(f"one Laikago, {steps} steps with a network, forward and backward")
    for memory in ("states", "checkpoint", "graph"):
        command = [sys.executable, __file__, "--memory", memory]
        command += ["--quick"] if options.quick else []
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        megabytes, each = map(float, done.stdout.split())
        print(f'memory="{memory}"'.ljust(26) + f"{megabytes:>8.1f} MB{each:>10.0f} us per step")
    print(f"paper: {PAPER_MB:.0f} MB for 5000 steps")
    return 0


if __name__ == "__main__":
    sys.exit(main())
