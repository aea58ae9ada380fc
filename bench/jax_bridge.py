"""Measure what a call from compiled JAX costs over the core.

    python bench/jax_bridge.py
    python bench/jax_bridge.py --quick

A `lax.scan` over `featherback.jax.step` is compared with `Simulator.rollout` of the same steps: the
difference, shared out over the steps, is the cost of one call inside `jit`. A compiled function of
one rollout, and one that does nothing, show what it costs to call a compiled function. The least of
many alternating repeats is taken. The exit code does not depend on the figures.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

import featherback as fb
import featherback.jax as fbj

BUDGET_US = 5.0


def least(jobs: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the shortest time of each job [us], in alternating rounds."""
    best = dict.fromkeys(jobs, np.inf)
    for job in jobs.values():
        job()
    for _ in range(rounds):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            best[name] = min(best[name], 1e6 * (time.perf_counter() - start))
    return best


def measure(model: fb.Model, steps: int, rounds: int) -> dict[str, float]:
    """Return the times [us] of core, scan of steps and rollout for one model."""
    sim = fb.Simulator(model)
    q, v = np.array(model.q0), np.zeros(model.nv)
    u = np.zeros((steps, model.nu)) + (q[7:] if model.name == "laikago" else 0.0)

    @jax.jit
    def scan(q: jax.Array, v: jax.Array, u: jax.Array) -> Any:
        return jax.lax.scan(lambda s, c: (fbj.step(sim, *s, c), None), (q, v), u)[0]

    @jax.jit
    def roll(q: jax.Array, v: jax.Array, u: jax.Array) -> Any:
        return fbj.rollout(sim, q, v, u)

    empty = jax.jit(lambda q, v, u: (q, v + 1))
    given = [jax.numpy.asarray(x) for x in (q, v, u)]
    last = scan(*given)[0]
    assert np.array_equal(last, sim.rollout(q, v, u).q[-1])
    return least(
        {
            "core": lambda: sim.rollout(q, v, u),
            "scan": lambda: jax.block_until_ready(scan(*given)),
            "rollout": lambda: jax.block_until_ready(roll(*given)),
            "empty": lambda: jax.block_until_ready(empty(*given)),
        },
        rounds,
    )


def main(arguments: list[str] | None = None) -> int:
    """Measure both models and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="rough figures in seconds")
    rounds = 20 if parser.parse_args(arguments).quick else 500
    jax.config.update("jax_enable_x64", True)
    print(f"jax {jax.__version__}, featherback {fb.__version__} ({fb.isa()})")
    print(f"{'model':10} {'core, us/step':>14} {'call in jit, us over core':>26} {'budget':>7}")
    for model in (fb.models.pendulum(2), fb.models.laikago()):
        steps = 200
        us = measure(model, steps, rounds)
        over = (us["scan"] - us["core"]) / steps
        print(f"{model.name:10} {us['core'] / steps:14.2f} {over:26.2f} {BUDGET_US:7.1f}")
        print(
            f"  one rollout of {steps} steps: {us['rollout']:.0f} us compiled, {us['core']:.0f} us "
            f"from NumPy; a compiled function that does nothing takes {us['empty']:.0f} us"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
