"""What bench/count.py counts: each kernel runs between two calls that callgrind watches."""

from __future__ import annotations

import os

from ours import Ours, python_steps
from scenes import chain_scene, laikago_scene

# name -> number of world-steps that are counted
KERNELS = {
    "laikago, one world, float64": 200,
    "laikago, one world, float32": 200,
    "laikago, 64 worlds, float64": 64 * 20,
    "laikago, 64 worlds, float32": 64 * 20,
    "ten laikagos, one world, float64": 20,
    "chain of 100 links, tip held, float64": 40,
    "laikago, sim.step from Python, float64": 200,
}


def main() -> None:
    """Run every kernel once uncounted and once between two marks, in the order of KERNELS."""
    single, batch = laikago_scene(1, 1, 200), laikago_scene(1, 64, 20)
    jobs = [
        Ours(single).roll,
        Ours(single, "float32").roll,
        Ours(batch).roll,
        Ours(batch, "float32").roll,
        Ours(laikago_scene(10, 1, 20)).roll,
        Ours(chain_scene(100, 40, held=True)).roll,
        python_steps(Ours(single)),
    ]
    for _, job in zip(KERNELS, jobs, strict=True):
        job()
        os.getpgrp()
        job()
        os.getpgrp()


if __name__ == "__main__":
    main()
