"""What bench/count.py counts: each kernel runs between two calls that callgrind watches."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
from ours import Ours, python_steps
from scenes import chain_scene, laikago_scene

# name -> number of world-steps, or of Jacobians, that are counted
KERNELS = {
    "laikago, one world, float64": 200,
    "laikago, one world, float32": 200,
    "laikago, 64 worlds, float64": 64 * 20,
    "laikago, 64 worlds, float32": 64 * 20,
    "ten laikagos, one world, float64": 20,
    "chain of 100 links, tip held, float64": 40,
    "laikago, sim.step from Python, float64": 200,
    "laikago, backward, one world, float64": 200,
    "laikago, backward, 64 worlds, float64": 64 * 20,
    "laikago, backward, 64 worlds, float32": 64 * 20,
    "chain of 100 links, tip held, backward, float64": 40,
    "laikago, linearize, one world, float64": 40,
    "laikago, linearize, 64 worlds, float64": 64,
}


def backward(ours: Ours) -> Callable[[], object]:
    """Return a call that takes the gradient of a rollout that is already there."""
    roll = ours.roll()
    q_bar, v_bar = np.ones_like(roll.q[..., -1, :]), np.ones_like(roll.v[..., -1, :])
    return lambda: roll.vjp(q_bar, v_bar)


def linearize(ours: Ours, count: int) -> Callable[[], object]:
    """Return a call that takes the Jacobians at some states: of one world, or of all at once."""
    roll = ours.roll()
    if ours.scene.worlds > 1:
        point = tuple(np.ascontiguousarray(a[:, 1]) for a in (roll.q, roll.v, ours.u))
        return lambda: ours.sim.linearize(*point)
    points = [(roll.q[k].copy(), roll.v[k].copy(), ours.u[k].copy()) for k in range(count)]
    return lambda: [ours.sim.linearize(*point) for point in points]


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
        backward(Ours(single)),
        backward(Ours(batch)),
        backward(Ours(batch, "float32")),
        backward(Ours(chain_scene(100, 40, held=True))),
        linearize(Ours(single), KERNELS["laikago, linearize, one world, float64"]),
        linearize(Ours(batch), 1),
    ]
    for _, job in zip(KERNELS, jobs, strict=True):
        job()
        os.getpgrp()
        job()
        os.getpgrp()


if __name__ == "__main__":
    main()
