"""Whether every step under contact="mujoco" is solved, in the scenes that are hard for a solver.

    python bench/mujoco_law_solved.py                 all scenes but the long ones, 8 worlds of each
    python bench/mujoco_law_solved.py --full          all
    python bench/mujoco_law_solved.py --only pile     those whose name contains the word

The scenes are those of bench/contact_solve.py: dry friction, limp robots in any pose, hands,
stacks, feet, piles, chains, mass ratios. Worlds have velocities and controls of their own. A line
has the worlds with a step that is not solved, the largest residual (the Newton decrement relative
to the accelerations), and the most iterations of a step, for float64 and float32. Where worlds do
not stay finite it says how many of them MuJoCo loses.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from contact_scenes import Scene, scenes
from contact_solve import any_pose, controls_of, mujoco_batch, start_of
from law_peer import law_of

import featherback as fb
from featherback.sim import Status

COUNTED = ("UNCONVERGED", "CONTACT_OVERFLOW", "NONFINITE")


def run(scene: Scene, model: fb.Model, dtype: str, worlds: int) -> tuple[str, bool]:
    """Return the figures of a scene in one precision, and whether all steps are solved."""
    rng = np.random.default_rng(0)
    starts = [start_of(scene, model, rng) for _ in range(worlds)]
    q, v, *rest = (np.array(part) for part in zip(*starts, strict=True))
    if scene.far:
        q = np.array([any_pose(scene, model, one, rng) for one in q])
    u = controls_of(scene, model, rng, (worlds,))
    sim = fb.Simulator(model, dtype=dtype, threads=1, max_contacts=scene.contacts, **law_of(model))
    q, v, u, *rest = (part.astype(sim.dtype) for part in (q, v, u, *rest))
    roll = sim.rollout(q, v, u, act=rest[0] if rest else None)
    counts = {name: int(np.count_nonzero(roll.status & int(Status[name]))) for name in COUNTED}
    flags = "".join(f", {n} {name}" for name, n in counts.items() if n)
    if counts["NONFINITE"] and not rest:
        flags += f" (MuJoCo loses {mujoco_batch(model, q, v, np.asarray(u, float))[1]})"
    text = f"{dtype} residual {roll.residual.max():.0e}, iterations {roll.sweeps.max():.0f}{flags}"
    return text, not counts["UNCONVERGED"]


def main() -> int:
    """Print a line for each scene; return 1 where a step is not solved."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="scenes whose name contains this word")
    parser.add_argument("--full", action="store_true", help="the long ones too")
    parser.add_argument("--worlds", type=int, default=8, help="of each scene")
    given = parser.parse_args()
    solved: list[bool] = []
    for scene in scenes():
        if given.only not in scene.name or (scene.full and not given.full):
            continue
        model = scene.load()
        found = [run(scene, model, dtype, given.worlds) for dtype in ("float64", "float32")]
        solved.append(all(fine for _, fine in found))
        print(f"{scene.name:28} {'; '.join(text for text, _ in found)}", flush=True)
    print(f"{len(solved)} scenes, {solved.count(False)} with a step that is not solved")
    return int(not all(solved))


if __name__ == "__main__":
    sys.exit(main())
