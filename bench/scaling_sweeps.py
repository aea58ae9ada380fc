"""The sweeps of bench/scaling.py that time: batch, threads, links, contacts, horizon, Jacobians."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import peer
from gradients import backward_of
from ours import Ours
from peer import Peer, Setting, Transitions
from scaling_scenes import (
    balls_scene,
    driven_chain_scene,
    legs_scene,
    plate_scene,
    standing_scene,
)
from scenes import Scene, chain_scene, laikago_scene
from timing import Timing, interleave, one_core

import featherback as fb

Row = dict[str, Any]
Job = Callable[[], object]

OURS, PEER = "featherback", "MuJoCo"
DIFFERENCE = 1e-6  # step of our own finite differences


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes:
        quick: fewer and smaller sizes.
    """

    quick: bool

    @property
    def rounds(self) -> int:
        """Timed repeats of a job."""
        return 3 if self.quick else 9

    @property
    def patience(self) -> float:
        """Seconds that may be added until half the repeats are undisturbed."""
        return 0.0 if self.quick else 2.0

    def sizes(self, *values: int) -> list[int]:
        """Return all sizes; a quick run takes the first, one in the middle and the last but one."""
        few = sorted({0, len(values) // 2, len(values) - 2})
        return [values[i] for i in few] if self.quick else list(values)

    def time(
        self, jobs: dict[str, Job], threads: dict[str, int] | None = None
    ) -> dict[str, Timing]:
        """Time the jobs in turn."""
        return interleave(jobs, self.rounds, patience=self.patience, threads=threads)


def pick_setting(scene: Scene, tried: list[Setting]) -> Setting:
    """Return MuJoCo's fastest setting on a scene among those with the fewest solves cut off."""
    peers = [Peer(scene, setting) for setting in tried]
    times = interleave({str(p.setting): p.roll for p in peers}, 2)
    cut = {str(p.setting): p.solved(worlds=2, steps=50).unconverged for p in peers}
    return min((p.setting for p in peers), key=lambda s: (cut[str(s)], times[str(s)].low))


def batch(effort: Effort) -> list[Row]:
    """Worlds stepped at once, on one core."""
    rows: list[Row] = []
    with one_core():
        setting, _ = peer.best_setting(laikago_scene(1, 2, 500), effort.quick)
        for worlds in effort.sizes(1, 4, 8, 16, 64, 256, 1024, 4096):
            scene = laikago_scene(1, worlds, min(500, max(10, 10_000 // worlds)))
            mine = {dtype: Ours(scene, dtype) for dtype in ("float64", "float32")}
            jobs: dict[str, Job] = {}
            for dtype, one in mine.items():
                jobs |= {f"{dtype} forward": one.roll, f"{dtype} backward": backward_of(one)}
            jobs[PEER] = Peer(scene, setting).roll
            times, count = effort.time(jobs), worlds * scene.steps
            sizes = {"x": worlds, "steps": scene.steps}
            for dtype in mine:
                figures = {k: times[f"{dtype} {k}"].per(count) for k in ("forward", "backward")}
                rows.append({"tool": f"{OURS}, {dtype}", **sizes, **figures})
            figures = {"forward": times[PEER].per(count), "setting": str(setting)}
            rows.append({"tool": PEER, **sizes, **figures})
    return rows


def thread_counts() -> list[int]:
    """Return 1, 2, 4 ... and the number of cores this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    top = cores or 1
    return sorted({*(2**k for k in range(9) if 2**k <= top), top})


def threads(effort: Effort) -> list[Row]:
    """Threads on a batch of 1024 worlds."""
    scene = laikago_scene(1, 1024, 10 if effort.quick else 30)
    few = scene.first(256)
    with one_core():
        setting, _ = peer.best_setting(laikago_scene(1, 2, 500), effort.quick)
    rows: list[Row] = []
    for count in thread_counts():
        mine, theirs = Ours(scene, threads=count), Peer(few, setting, threads=count)
        jobs: dict[str, Job] = {"forward": mine.roll, "backward": backward_of(mine)}
        jobs[PEER] = theirs.roll
        times = effort.time(jobs, dict.fromkeys(jobs, count))
        parts = scene.worlds * scene.steps
        figures = {k: times[k].per(parts) for k in ("forward", "backward")}
        rows.append({"tool": f"{OURS}, float64", "x": count, **figures})
        figures = {"forward": times[PEER].per(few.worlds * few.steps), "setting": str(setting)}
        rows.append({"tool": PEER, "x": count, **figures})
    return rows


def _beside(effort: Effort, scene: Scene, tried: list[Setting]) -> tuple[Row, Row]:
    """Return our forward and backward step on a scene of one world, and MuJoCo's step."""
    setting = pick_setting(scene, tried)
    mine, theirs = Ours(scene), Peer(scene, setting)
    jobs: dict[str, Job] = {"forward": mine.roll, "backward": backward_of(mine)}
    times = effort.time(jobs | {PEER: theirs.roll})
    roll = mine.roll()
    solved, gradient = mine.solved(), roll.vjp(np.ones_like(roll.q[-1]), np.ones_like(roll.v[-1]))
    ours = {k: times[k].per(scene.steps) for k in jobs}
    other = theirs.solved(worlds=1, steps=50)
    return (
        {
            **ours,
            "contacts": solved.contacts,
            "residual": solved.residual,
            "unfinished": float(gradient.unrolled) / scene.steps,
        },
        {
            "forward": times[PEER].per(scene.steps),
            "setting": str(setting),
            "contacts": other.contacts,
            "unfinished": other.unconverged,
        },
    )


def links(effort: Effort) -> list[Row]:
    """Links of a hanging chain, free and with its tip held in the world, one world."""
    rows: list[Row] = []
    with one_core():
        for n in effort.sizes(10, 20, 50, 100, 200, 500, 1000):
            for held in (False, True):
                scene = chain_scene(n, max(20, 4000 // n), held)
                ours, theirs = _beside(effort, scene, peer.chain_settings(held))
                kind = {"x": n, "scene": "tip held" if held else "free"}
                rows += [{"tool": OURS, **kind, **ours}, {"tool": PEER, **kind, **theirs}]
    return rows


CONTACT_SCENES: dict[str, Callable[[int, int], Scene]] = {
    "balls": balls_scene,
    "rigid body": plate_scene,
    "legs": legs_scene,
}


def contacts(effort: Effort) -> list[Row]:
    """Contacts of one world: balls apart, feet of one rigid body, feet of a body with 64 legs."""
    rows: list[Row] = []
    with one_core():
        for n in effort.sizes(0, 1, 2, 4, 8, 16, 32, 64):
            for name, make in CONTACT_SCENES.items():
                scene = make(n, 20 if effort.quick else 50)
                ours, theirs = _beside(effort, scene, peer.chain_settings(True))
                kind = {"x": n, "scene": name, "nv": scene.model.nv}
                rows += [{"tool": OURS, **kind, **ours}, {"tool": PEER, **kind, **theirs}]
    return rows


def horizon(effort: Effort) -> list[Row]:
    """Steps of one rollout of a standing Laikago."""
    rows: list[Row] = []
    with one_core():
        for steps in effort.sizes(50, 100, 500, 1000, 5000, 10_000, 50_000):
            mine = Ours(standing_scene(1, steps))
            times = effort.time({"forward": mine.roll, "backward": backward_of(mine)})
            figures = {key: timing.per(steps) for key, timing in times.items()}
            rows.append({"tool": f"{OURS}, float64", "x": steps, **figures})
    return rows


def differences(sim: fb.Simulator, q: Any, v: Any, u: Any) -> Callable[[], tuple[Any, Any]]:
    """Return a call that takes centred differences of one step, all in one batch.

    Args:
        sim: simulator of a model whose configurations are a vector space.
        q: float64[nv].
        v: float64[nv].
        u: float64[nu].
    """
    point, n = np.concatenate([q, v, u]), len(v)
    shift = DIFFERENCE * np.eye(len(point))

    def call() -> tuple[Any, Any]:
        x = np.concatenate([point + shift, point - shift])
        out = np.concatenate(sim.step(x[:, :n], x[:, n : 2 * n], x[:, 2 * n :]), axis=1)
        columns = ((out[: len(point)] - out[len(point) :]) / (2.0 * DIFFERENCE)).T
        return columns[:, : 2 * n], columns[:, 2 * n :]

    return call


def jacobian(effort: Effort) -> list[Row]:
    """Degrees of freedom of a driven chain: A and B in full, exact and by finite differences."""
    rows: list[Row] = []
    with one_core():
        for n in effort.sizes(2, 5, 10, 20, 50, 100, 200):
            scene = driven_chain_scene(n, 50)
            mine = Ours(scene)
            q, v, u = mine.q, mine.v, mine.u[0]
            fd = differences(mine.sim, q, v, u)
            A, B = mine.sim.linearize(q, v, u)
            A_fd, B_fd = fd()
            error = max(np.abs(A - A_fd).max(), np.abs(B - B_fd).max())
            setting = pick_setting(scene, peer.chain_settings(False))
            # a sample of each takes about a millisecond or more
            repeat, points = max(2, 400 // n), max(2, min(40, 100 // n))
            theirs = Transitions(Peer(scene, setting), points)
            jobs: dict[str, Job] = {
                "linearize": lambda s=mine.sim, x=(q, v, u), r=repeat: [
                    s.linearize(*x) for _ in range(r)
                ],
                "our differences, centred": fd,
                "MuJoCo, one-sided": theirs.call(False),
                "MuJoCo, centred": theirs.call(True),
                "one backward step": backward_of(mine),
            }
            parts = {"linearize": repeat, "one backward step": scene.steps}
            parts |= {"MuJoCo, one-sided": points, "MuJoCo, centred": points}
            for name, timing in effort.time(jobs).items():
                row: Row = {"tool": name, "x": n, "time": timing.per(parts.get(name, 1))}
                extra = {"error": float(error), "setting": str(setting)}
                rows.append({**row, **extra})
    return rows
