"""How many contact solves finish, what they leave, and what a step costs beside MuJoCo's.

    python bench/contact_solve.py                 all scenes
    python bench/contact_solve.py --only laikago  those whose name contains the word
    python bench/contact_solve.py --worlds 64     with a batch of that many worlds too

Steps of one world are taken one by one, here and in MuJoCo in turn, so that both see the same load
of the machine. MuJoCo solves a convex problem, softened everywhere, which is an
easier one; collisions, dynamics and integration are in both figures.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import mujoco
import numpy as np
from contact_scenes import Scene, scenes

import featherback as fb
from featherback.sim import Status

BIT = int(Status.UNCONVERGED)


@dataclass(frozen=True)
class Row:
    """What became of a scene.

    Attributes:
        unfinished: steps that are flagged.
        here: time of a step, median [us].
        slowest: the slowest hundredth [us].
        peer: that of MuJoCo, median [us].
        batch: time of a step of one world in a batch [us], or None.
    """

    unfinished: int
    here: float
    slowest: float
    peer: float
    batch: float | None


def controls_of(scene: Scene, model: fb.Model) -> np.ndarray:
    """Return controls of all steps."""
    rng = np.random.default_rng(1)
    u = scene.controls * rng.standard_normal((scene.steps, model.nu))
    if scene.hold and model.keyframe_names:
        u = u + model.mujoco.key_ctrl[0]
    return u


def measure(scene: Scene, worlds: int) -> Row:
    """Return the row of a scene."""
    model = scene.load()
    sim = fb.Simulator(model)
    peer = mujoco.MjData(model.mujoco)
    rng = np.random.default_rng(0)
    q = np.array(model.keyframe(0)[0] if model.keyframe_names else model.q0)
    v = scene.noise * rng.standard_normal(model.nv)
    peer.qpos[:], peer.qvel[:] = q, v
    start = q.copy(), v.copy()
    u = controls_of(scene, model)
    own, theirs = np.empty(scene.steps), np.empty(scene.steps)
    unfinished = 0
    for k in range(scene.steps):
        begin = time.perf_counter_ns()
        q, v, status = sim.step(q, v, u[k], return_status=True)
        middle = time.perf_counter_ns()
        peer.ctrl[:] = u[k]
        mujoco.mj_step(model.mujoco, peer)
        own[k], theirs[k] = middle - begin, time.perf_counter_ns() - middle
        unfinished += bool(int(status) & BIT)
    batch = None
    if worlds:
        many = np.tile(start[0], (worlds, 1)), np.tile(start[1], (worlds, 1))
        noise = scene.noise * rng.standard_normal(many[1].shape)
        begin = time.perf_counter_ns()
        sim.rollout(many[0], many[1] + noise, u)
        batch = (time.perf_counter_ns() - begin) / (worlds * scene.steps) / 1e3
    slowest = float(np.quantile(own, 0.99)) / 1e3
    return Row(
        unfinished, float(np.median(own)) / 1e3, slowest, float(np.median(theirs)) / 1e3, batch
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="scenes whose name contains this word")
    parser.add_argument("--worlds", type=int, default=0, help="worlds of a batch (none)")
    options = parser.parse_args()
    print(
        "| scene | steps | unfinished | step [us] | 99 % [us] | MuJoCo [us] | ratio | batch [us] |"
    )
    print("|---|---|---|---|---|---|---|---|")
    steps = unfinished = 0
    for scene in scenes():
        if options.only not in scene.name:
            continue
        row = measure(scene, options.worlds)
        steps, unfinished = steps + scene.steps, unfinished + row.unfinished
        batch = "" if row.batch is None else f"{row.batch:.1f}"
        print(
            f"| {scene.name} | {scene.steps} | {row.unfinished} | {row.here:.1f} | "
            f"{row.slowest:.0f} | {row.peer:.1f} | {row.peer / row.here:.2f} | {batch} |",
            flush=True,
        )
    share = 100 * (1 - unfinished / max(steps, 1))
    print(f"finished: {steps - unfinished} of {steps} steps, {share:.3f} %")


if __name__ == "__main__":
    main()
