"""The largest joint speed after starts with overlaps and errors, here and in MuJoCo.

    python bench/recovery.py [--chains 1000]

Recovery must not become speed. One line for each start with a name; then the 101 poses of a wheel
that is tied off its axis, and random chains thrown into a floor, a box and past their limits.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray
from recovery_scenes import Start, chains, named, wheel_poses

import featherback as fb

FAST = 20.0  # a speed that no recovery explains [rad/s, m/s]


@dataclass(frozen=True)
class Outcome:
    """What became of a start.

    Attributes:
        here: largest speed of any joint here [rad/s, m/s].
        peer: the same in MuJoCo.
        flagged: whether the status of the world is not OK.
    """

    here: float
    peer: float
    flagged: bool


def of_mujoco(start: Start) -> float:
    """Return the largest speed in MuJoCo."""
    model = mujoco.MjModel.from_xml_string(start.xml)
    data = mujoco.MjData(model)
    if start.q:
        data.qpos[:] = start.q
    worst = 0.0
    for _ in range(start.steps):
        mujoco.mj_step(model, data)
        worst = max(worst, float(np.abs(data.qvel).max()))
    return worst


def run(start: Start) -> Outcome:
    """Return the outcome of a start."""
    model = fb.load(start.xml)
    q = np.array(start.q) if start.q else model.q0
    roll = fb.Simulator(model).rollout(q, model.v0, steps=start.steps)
    return Outcome(float(np.abs(roll.v).max()), of_mujoco(start), bool(np.any(roll.status)))


def line(name: str, here: float, peer: float, flagged: str) -> str:
    """Return a line of the table."""
    return f"{name:34}{here:12.3g}{peer:12.3g}  {flagged}"


def quantiles(speeds: NDArray[np.float64]) -> str:
    """Return median, 99 % and largest of some speeds."""
    return "  ".join(f"{x:9.3g}" for x in (*np.quantile(speeds, [0.5, 0.99]), speeds.max()))


def summary(name: str, starts: Iterable[Start]) -> list[str]:
    """Return the lines of many starts together."""
    found = [run(start) for start in starts]
    here, peer = (np.array([getattr(o, k) for o in found]) for k in ("here", "peer"))
    lines = [f"{name}: {len(found)}, flagged {sum(o.flagged for o in found)}"]
    lines.append(f"{'':12}{'median':>9}  {'99 %':>9}  {'largest':>9}  above {FAST:g}")
    for who, speeds in (("here", here), ("MuJoCo", peer)):
        lines.append(f"  {who:10}{quantiles(speeds)}  {int((speeds > FAST).sum())}")
    ratio = here / np.maximum(peer, 1e-3)
    worst = int(np.argmax(here))
    lines.append(
        f"  faster than MuJoCo: {int((ratio > 1).sum())}; by more than 3 and above 5: "
        f"{int(((ratio > 3) & (here > 5)).sum())}; the fastest has {here[worst]:.3g}, in MuJoCo "
        f"{peer[worst]:.3g}"
    )
    return lines


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chains", type=int, default=1000, help="number of random chains")
    given = parser.parse_args()
    print(f"{'largest joint speed [rad/s, m/s]':34}{'here':>12}{'MuJoCo':>12}")
    for start in named():
        got = run(start)
        print(line(start.name, got.here, got.peer, "flagged" if got.flagged else ""))
    print(*summary("wheel poses", wheel_poses()), sep="\n")
    print(*summary("random chains", chains(given.chains)), sep="\n")


if __name__ == "__main__":
    main()
