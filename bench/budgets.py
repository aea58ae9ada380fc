"""The budgets of the forward side, one function each."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import cached_property

import ours
import peer
from ours import Ours
from peer import Peer, Setting
from report import Row, disturbed, figure, spread
from scenes import Scene, chain_scene, laikago_scene
from timing import fitted_exponent, interleave, one_core

WORLDS = 1024
ROBOTS = 10
READY = "import featherback as fb; fb.Simulator(fb.models.laikago())"


class Bench:
    """What the rows share: sizes, scenes and MuJoCo's best setting on one Laikago."""

    def __init__(self, quick: bool) -> None:
        """Choose the sizes; quick ones give rough figures in seconds."""
        self.quick = quick
        self.rounds = 3 if quick else 15
        self.patience = 0.0 if quick else 4.0
        self.steps = 200 if quick else 1000
        self.batch_steps = 10 if quick else 50
        self.sizes = [10, 30, 100] if quick else [10, 30, 100, 300, 1000]

    @cached_property
    def single(self) -> Scene:
        """One Laikago."""
        return laikago_scene(1, 1, self.steps)

    @cached_property
    def batch(self) -> Scene:
        """A batch of Laikagos."""
        return laikago_scene(1, WORLDS, self.batch_steps)

    @cached_property
    def setting(self) -> tuple[Setting, list[dict[str, object]]]:
        """MuJoCo's fastest converged setting on one Laikago, and all that were tried."""
        with one_core():
            return peer.best_setting(laikago_scene(1, 2, self.steps // 2), self.quick)


def _ours_note(solved: ours.Solved, worlds: int) -> str:
    """Return what our solver did, in words."""
    return (
        f"ours: {solved.contacts:.2f} contacts per world ({solved.loaded:.2f} carry force), "
        f"largest residual {solved.residual:.1e} m/s, "
        f"{solved.sweeps:.1f} sweeps (at most {solved.max_sweeps}), "
        f"{solved.bad} of {worlds} worlds with a status bit"
    )


def _peer_note(solved: peer.Solved, setting: Setting) -> str:
    """Return what MuJoCo's solver did, in words."""
    return (
        f"MuJoCo: {solved.contacts:.2f} contacts per world, {solved.iterations:.1f} iterations, "
        f"{100 * solved.unconverged:.2g} % of steps cut off; {setting}"
    )


def single_step(bench: Bench) -> Row:
    """One Laikago on the ground, one core."""
    setting, tried = bench.setting
    with one_core():
        mine, theirs = Ours(bench.single), Peer(bench.single, setting)
        jobs = {"ours": mine.roll, "MuJoCo": theirs.roll}
        times = interleave(jobs, bench.rounds, patience=bench.patience)
        solved, peer_solved = mine.solved(), theirs.solved()
    steps = bench.steps
    return Row(
        "single",
        "one Laikago, forward step, one core, against mj_step",
        spread(times["ours"], steps),
        spread(times["MuJoCo"], steps),
        times["MuJoCo"].seconds / times["ours"].seconds,
        1.5,
        3.0,
        notes=(_ours_note(solved, 1), _peer_note(peer_solved, setting), *disturbed(times)),
        data={
            "times": {name: t.per(steps) for name, t in times.items()},
            "solved": asdict(solved),
            "peer_solved": asdict(peer_solved),
            "tried": tried,
        },
    )


def batch_steps(bench: Bench, dtype: str) -> Row:
    """A batch of 1024 worlds on one core."""
    setting, _ = bench.setting
    must, goal = (8.0, 15.0) if dtype == "float64" else (14.0, 30.0)
    few = bench.batch.first(64)
    with one_core():
        mine, theirs = Ours(bench.batch, dtype), Peer(few, setting)
        jobs = {"ours": mine.roll, "MuJoCo": theirs.roll}
        times = interleave(jobs, bench.rounds, patience=bench.patience)
        solved, peer_solved = mine.solved(), theirs.solved(worlds=16)
    counts = {"ours": WORLDS * bench.batch_steps, "MuJoCo": few.worlds * bench.batch_steps}
    rate = {name: counts[name] / t.seconds for name, t in times.items()}
    return Row(
        f"batch-{dtype}",
        f"batch of {WORLDS}, {dtype}, one core, steps per second",
        f"{rate['ours'] / 1e3:.0f} k/s ±{50 * times['ours'].spread:.0f}%",
        f"{rate['MuJoCo'] / 1e3:.1f} k/s ±{50 * times['MuJoCo'].spread:.0f}%",
        rate["ours"] / rate["MuJoCo"],
        must,
        goal,
        notes=(_ours_note(solved, WORLDS), _peer_note(peer_solved, setting), *disturbed(times)),
        data={
            "times": {name: t.per(counts[name]) for name, t in times.items()},
            "solved": asdict(solved),
            "peer_solved": asdict(peer_solved),
        },
    )


def threads(bench: Bench) -> Row:
    """Two threads against one."""
    setting, _ = bench.setting
    few = bench.batch.first(128)
    mine = {n: Ours(bench.batch, threads=n) for n in (1, 2)}
    theirs = {n: Peer(few, setting, threads=n) for n in (1, 2)}
    jobs = {f"ours {n}": mine[n].roll for n in (1, 2)}
    jobs |= {f"MuJoCo {n}": theirs[n].roll for n in (1, 2)}
    times = interleave(
        jobs, bench.rounds, patience=bench.patience, threads={"ours 2": 2, "MuJoCo 2": 2}
    )
    gain = {
        name: times[f"{name} 1"].seconds / times[f"{name} 2"].seconds for name in ("ours", "MuJoCo")
    }
    cpu = times["ours 2"].cpu / times["ours 1"].cpu
    equal = (mine[1].roll().q == mine[2].roll().q).all()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Row(
        "threads",
        f"two threads against one, batch of {WORLDS}, float64",
        f"{gain['ours']:.2f}x ±{50 * times['ours 2'].spread:.0f}%",
        f"{gain['MuJoCo']:.2f}x ±{50 * times['MuJoCo 2'].spread:.0f}%",
        gain["ours"],
        1.8,
        1.95,
        notes=(
            f"{cores} cores; bitwise identical results from one and two threads: "
            f"{'yes' if equal else 'no'}; "
            f"processor time of two threads against one: {cpu:.2f}x",
            *disturbed(times),
        ),
        data={
            "times": {name: t.per(1) for name, t in times.items()},
            "equal_bits": bool(equal),
            "processor_time": cpu,
        },
    )


def ten_robots(bench: Bench) -> Row:
    """Ten Laikagos in one world, time per robot against one Laikago."""
    steps = bench.steps // 5
    one, ten = laikago_scene(1, 1, steps), laikago_scene(ROBOTS, 1, steps)
    with one_core():
        setting, tried = peer.best_setting(ten, bench.quick, rounds=2)
        mine = {1: Ours(one), ROBOTS: Ours(ten)}
        theirs = {1: Peer(one, bench.setting[0]), ROBOTS: Peer(ten, setting)}
        jobs = {f"ours {n}": mine[n].roll for n in mine}
        jobs |= {f"MuJoCo {n}": theirs[n].roll for n in theirs}
        times = interleave(jobs, bench.rounds, patience=bench.patience)
        solved, peer_solved = mine[ROBOTS].solved(), theirs[ROBOTS].solved()
    ratio = {
        name: times[f"{name} {ROBOTS}"].seconds / ROBOTS / times[f"{name} 1"].seconds
        for name in ("ours", "MuJoCo")
    }
    faster = times[f"MuJoCo {ROBOTS}"].seconds / times[f"ours {ROBOTS}"].seconds
    return Row(
        "ten-robots",
        "ten Laikagos in one world, time per robot against one",
        f"{spread(times[f'ours {ROBOTS}'], steps * ROBOTS)} ({ratio['ours']:.2f}x)",
        f"{spread(times[f'MuJoCo {ROBOTS}'], steps * ROBOTS)} ({ratio['MuJoCo']:.2f}x)",
        ratio["ours"],
        1.3,
        1.0,
        lower=True,
        notes=(
            f"{faster:.2f}x as fast as MuJoCo on the same world",
            _ours_note(solved, 1),
            _peer_note(peer_solved, setting),
            *disturbed(times),
        ),
        data={
            "times": {n: t.per(steps) for n, t in times.items()},
            "faster": faster,
            "solved": asdict(solved),
            "peer_solved": asdict(peer_solved),
            "tried": tried,
        },
    )


def _chain_seconds(scene: Scene, held: bool, bench: Bench) -> tuple[float, float]:
    """Return our and MuJoCo's best time of one step of a chain."""
    links = scene.model.nv
    few = scene.shortened(max(2, 2000 // links))
    peers = {str(s): Peer(few, s) for s in peer.chain_settings(held)}
    jobs = {"ours": Ours(scene).roll, **{name: one.roll for name, one in peers.items()}}
    rounds = bench.rounds if links <= 100 else 3
    times = interleave(jobs, rounds, patience=bench.patience / 4)
    mine = times.pop("ours").seconds / scene.steps
    return mine, min(t.seconds for t in times.values()) / few.steps


def chain(bench: Bench, held: bool) -> Row:
    """A chain of n links: is the time linear in n?"""
    ours_s: list[float] = []
    peer_s: list[float] = []
    residual = 0.0
    with one_core():
        for links in bench.sizes:
            scene = chain_scene(links, max(20, 4000 // links), held)
            mine, theirs = _chain_seconds(scene, held, bench)
            ours_s.append(mine)
            peer_s.append(theirs)
            residual = max(residual, float(Ours(scene).roll().residual.max()))
    exponent, peer_exponent = (fitted_exponent(bench.sizes, s) for s in (ours_s, peer_s))
    per_link = [f"{1e6 * s / n:.3g}" for n, s in zip(bench.sizes, ours_s, strict=True)]
    per_link_peer = [f"{1e6 * s / n:.3g}" for n, s in zip(bench.sizes, peer_s, strict=True)]
    rows = "tip held by 3 rows" if held else "no rows"
    return Row(
        "chain-held" if held else "chain",
        f"chain of {bench.sizes[0]} to {bench.sizes[-1]} links, {rows}, exponent of time in n",
        f"{exponent:.2f}",
        f"{peer_exponent:.2f}",
        exponent,
        1.1,
        None,
        unit="",
        lower=True,
        notes=(
            f"links {', '.join(map(str, bench.sizes))}",
            f"ours: {', '.join(per_link)} us per link; largest residual {residual:.1e} m/s",
            f"MuJoCo: {', '.join(per_link_peer)} us per link",
        ),
        data={
            "links": bench.sizes,
            "ours_us": [s * 1e6 for s in ours_s],
            "peer_us": [s * 1e6 for s in peer_s],
        },
    )


def _seconds_of(code: str, repeats: int) -> list[float]:
    """Return the times of some code in fresh processes."""
    script = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
    command = (sys.executable, "-c", script)
    return [
        float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for _ in range(repeats)
    ]


def import_time(bench: Bench) -> Row:
    """Time of `import featherback` in a fresh process."""
    repeats = 3 if bench.quick else 9
    mine, theirs, numpy, ready = (
        _seconds_of(code, repeats)
        for code in ("import featherback", "import mujoco", "import numpy", READY)
    )
    value, middle = statistics.median(mine), statistics.median
    return Row(
        "import",
        "import featherback in a fresh process",
        f"{value:.3f} s ({min(mine):.3f} to {max(mine):.3f})",
        f"{middle(theirs):.3f} s ({min(theirs):.3f} to {max(theirs):.3f})",
        value,
        0.3,
        0.15,
        unit="s",
        lower=True,
        notes=(
            f"import numpy alone {middle(numpy):.3f} s; from import to a Laikago's Simulator, "
            f"NumPy and MuJoCo's compiler imported on the way, {middle(ready):.3f} s",
        ),
        data={"ours_s": mine, "peer_s": theirs, "numpy_s": numpy, "ready_s": ready},
    )


def python_share(bench: Bench) -> Row:
    """What Python adds to a single-world step: a loop of sim.step less the same in one call."""
    setting, _ = bench.setting
    with one_core():
        mine, theirs = Ours(bench.single), Peer(bench.single, setting)
        jobs = {
            "ours": ours.python_steps(mine),
            "ours, one call": mine.roll,
            "MuJoCo": peer.python_steps(theirs),
            "MuJoCo, one call": theirs.roll,
        }
        times = interleave(jobs, bench.rounds, patience=bench.patience)
    us = {name: t.seconds / bench.steps * 1e6 for name, t in times.items()}
    share = {name: us[name] - us[f"{name}, one call"] for name in ("ours", "MuJoCo")}
    return Row(
        "python",
        "Python's share of a single-world sim.step",
        figure(share["ours"], "us"),
        figure(share["MuJoCo"], "us"),
        share["ours"],
        5.0,
        1.0,
        unit="us",
        lower=True,
        notes=(
            f"ours: sim.step {us['ours']:.3g} us, in one rollout {us['ours, one call']:.3g} us",
            f"MuJoCo: ctrl and mj_step {us['MuJoCo']:.3g} us, "
            f"in one rollout {us['MuJoCo, one call']:.3g} us",
            *disturbed(times),
        ),
        data={"us": us},
    )


# in the order of the table
BUDGETS: dict[str, Callable[[Bench], Row]] = {
    "single": single_step,
    "batch-float64": lambda bench: batch_steps(bench, "float64"),
    "batch-float32": lambda bench: batch_steps(bench, "float32"),
    "threads": threads,
    "ten-robots": ten_robots,
    "chain": lambda bench: chain(bench, held=False),
    "chain-held": lambda bench: chain(bench, held=True),
    "import": import_time,
    "python": python_share,
}
