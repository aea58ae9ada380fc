"""What a step and a gradient under contact="mujoco" cost beside MuJoCo's own.

    python bench/mujoco_law.py                     all scenes
    python bench/mujoco_law.py --only ant          those whose name contains the word
    python bench/mujoco_law.py --out FILE          the figures as JSON, bench/mujoco_law.json
    python bench/mujoco_law.py --docs              put its tables into docs/which_law.md
    python bench/mujoco_law.py --mjx PYTHON        MJX beside it, by an interpreter that has it

Both take the same file with its own integrator and cone (Euler where the file asks for one that is
not there), and both solve the same convex problem. MuJoCo runs twice: as the file says, and with
the fastest setting of its Newton solver whose accelerations are within 1e-8 of the minimum in 19 of
20 states: dense or sparse matrices, islands or not, the largest tolerance that does, warm starts as
it has them. Ours ends at a decrement of 1e-12 in float64, from a cold start and, beside it, from
one that states carry (warmstart=1); in float32 at 1e-6, which is the precision of its numbers.
Ratios are those to the setting of equal quality.

Everything runs on one thread, in turn, so that both see the same load of the machine; times are
medians of undisturbed samples. One world takes 100 steps by `rollout`, here and there. A batch has
1024 worlds, each with velocities and controls of its own, from states along a trajectory; MuJoCo
takes worlds one after another, so a few of them stand for all. The gradient is the rollout and its
`vjp`, per step; `mjd_transitionFD` gives the two matrices of one step, from which a reverse sweep
would take the gradient; it refuses RK4, where differences of `mj_step` stand for it. Contact points
are counted on both sides: where shapes have another manifold here, the problems are not of the same
size.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from contact_scenes import Scene, hands, made, package_folder, quadrupeds
from contact_solve import controls_of, start_of
from law_peer import FULL, Runner, Setting, differences, fastest, full_state, law_of, matched
from mujoco_law_text import MARK, put_between, tables
from numpy.typing import NDArray
from report import provenance
from timing import Timing, interleave, one_core

import featherback as fb
from featherback.models.laikago import laikago_xml
from featherback.sim import Status

ROOT = Path(__file__).resolve().parent.parent
JSON_FILE, PAGE = ROOT / "bench" / "mujoco_law.json", ROOT / "docs" / "which_law.md"
GYMNASIUM = ("gymnasium", "1.4.0")
NAMED = ("go2, standing by PD", "shadow hand, block", "64 feet", "stack of 10", "stack of 20")
NAMED += ("pile of 30", "pile of 100")
BAD = int(Status.UNCONVERGED | Status.CONTACT_OVERFLOW | Status.NONFINITE)
NEAR = 1e-8  # relative error of MuJoCo's accelerations
SETTLE, STEPS, SOURCES = 500, 100, 32  # steps before, of one world, and states of a batch
Array = NDArray[np.float64]


@dataclass
class Row:
    """Figures of a scene; times are microseconds of one step of one world.

    Attributes:
        scene: its name.
        nv: degrees of freedom.
        law: integrator and cone.
        contacts: mean number of contact points, here and in MuJoCo.
        setting: of MuJoCo at equal quality, and its error.
        worlds: of the batch.
        batch_steps: that each of them took.
        flagged: worlds with a step that is not solved: one world, batch float64, batch float32.
        times: by name.
        notes: what could not be measured.
    """

    scene: str
    nv: int
    law: str
    contacts: tuple[float, float]
    setting: str
    error: float
    worlds: int
    batch_steps: int
    flagged: tuple[int, int, int] = (0, 0, 0)
    times: dict[str, float] = field(default_factory=dict[str, float])
    notes: list[str] = field(default_factory=list[str])


def cases() -> Iterator[Scene]:
    """Yield the scenes."""
    yield Scene("laikago", laikago_xml(), STEPS, hold=True)
    folder = package_folder(GYMNASIUM)
    for name in ("ant", "humanoid") if folder else ():
        path = folder / "gymnasium" / "envs" / "mujoco" / "assets" / f"{name}.xml"
        yield Scene(name, str(path), STEPS, controls=0.3)
    for scene in (*quadrupeds(), *hands(), *made()):
        if scene.name in NAMED:
            yield scene


@dataclass(frozen=True)
class Start:
    """A scene that has settled.

    Attributes:
        scene: what it is.
        model: of featherback.
        peer: of MuJoCo, with the same law.
        states: along the way (sources, nq), (sources, nv), and activations where there are any.
        u: controls of one world (steps, nu).
    """

    scene: Scene
    model: fb.Model
    peer: mujoco.MjModel
    states: tuple[Array, ...]
    u: Array

    def simulator(self, dtype: str = "float64", warm: bool = False) -> fb.Simulator:
        """Return a simulator on one thread under the law of the file."""
        own = {**law_of(self.model), "max_contacts": self.scene.contacts, "warmstart": int(warm)}
        return fb.Simulator(self.model, dtype=dtype, threads=1, **own)

    def batch(self, worlds: int, steps: int) -> tuple[tuple[Array, ...], Array]:
        """Return states and controls of a batch, with velocities of their own."""
        rng = np.random.default_rng(2)
        at = np.arange(worlds) % len(self.states[0])
        q, v, *rest = (part[at] for part in self.states)
        v = v + self.scene.noise * rng.standard_normal(v.shape)
        u = controls_of(self.scene, self.model, rng, (worlds,))
        u = np.tile(u, (1, -(-steps // u.shape[1]), 1))
        return (q, v, *rest), np.ascontiguousarray(u[:, :steps])


def settle(scene: Scene) -> Start:
    """Return a scene after some steps of MuJoCo, and states along its way."""
    model = scene.load()
    m, rng = matched(model), np.random.default_rng(0)
    state = start_of(scene, model, rng)
    first = full_state(m, *(*state, None)[:3])
    u = controls_of(scene, model, rng, ())
    u = np.tile(u, (-(-(SETTLE + STEPS) // len(u)), 1))[: SETTLE + STEPS]
    way = Runner(m, first[None], u[None, :SETTLE])()[0]
    some = way[np.linspace(SETTLE - 200, SETTLE - 1, SOURCES).astype(int)][::-1]
    n, k = 1 + m.nq, 1 + m.nq + m.nv
    states = (some[:, 1:n], some[:, n:k], *((some[:, k : k + m.na],) if m.na else ()))
    return Start(scene, model, m, tuple(np.ascontiguousarray(s) for s in states), u[SETTLE:])


def rollout(sim: fb.Simulator, state: tuple[Array, ...], u: Array) -> fb.Rollout:
    """Return the steps from a state or a batch of them."""
    q, v, act = (*(part.astype(sim.dtype) for part in state), None)[:3]
    return sim.rollout(q, v, u.astype(sim.dtype), act=act)


def count_contacts(start: Start, sim: fb.Simulator, roll: fb.Rollout) -> tuple[float, float]:
    """Return the mean number of contacts that push, here and in MuJoCo, at the same states."""
    m, data = start.peer, mujoco.MjData(start.peer)
    here, there = [], []
    for k in range(0, len(start.u), 10):
        act = roll.act[k] if start.model.na else None
        found = sim.contacts(roll.q[k], roll.v[k], start.u[k], act=act)
        here.append(np.count_nonzero(np.abs(found.force[: int(found.count)]).max(axis=-1) > 0.0))
        mujoco.mj_setState(m, data, full_state(m, roll.q[k], roll.v[k], act), FULL)
        data.ctrl[:] = start.u[k]
        mujoco.mj_forward(m, data)
        forces = np.zeros((data.ncon, 6))
        for number in range(data.ncon):
            mujoco.mj_contactForce(m, data, number, forces[number])
        there.append(np.count_nonzero(forces[:, 0] > 0.0))
    return float(np.mean(here)), float(np.mean(there))


Jobs = dict[str, tuple[Callable[[], object], float]]


def one_world_jobs(start: Start, sim: fb.Simulator, equal: mujoco.MjModel) -> Jobs:
    """Return calls of one world, and the steps that each takes."""
    state, u = tuple(part[0] for part in start.states), start.u
    first = full_state(start.peer, *(*state, None)[:3])
    q, v, act = (*state, None)[:3]
    roll, warm = rollout(sim, state, u), start.simulator(warm=True)
    bars = np.ones_like(roll.q), np.ones_like(roll.v)
    return {
        "step": (lambda: rollout(sim, state, u), STEPS),
        "warm": (lambda: rollout(warm, state, u), STEPS),
        "file": (Runner(start.peer, first[None], u[None]), STEPS),
        "equal": (Runner(equal, first[None], u[None]), STEPS),
        "gradient": (lambda: rollout(sim, state, u).vjp(*bars), STEPS),
        "linearize": (lambda: sim.linearize(q, v, u[0], act=act), 1),
        "differences": (lambda: differences(equal, first, u[0], 1e-6, False), 1),
        "centred": (lambda: differences(equal, first, u[0], 1e-6), 1),
    }


def batch_jobs(
    start: Start, equal: mujoco.MjModel, shape: tuple[int, int], few: tuple[int, int]
) -> Jobs:
    """Return calls of a batch of (worlds, steps), of which MuJoCo and linearize take a few."""
    state, u = start.batch(*shape)
    sims = {name: start.simulator(name) for name in ("float64", "float32")}
    warm = start.simulator(warm=True)
    chosen = np.linspace(0, shape[0] - 1, few[0]).astype(int)
    first = full_state(start.peer, *(*(part[chosen] for part in state), None)[:3])
    q, v, act = (*state, None)[:3]

    def gradient() -> None:
        roll = rollout(sims["float64"], state, u)
        roll.vjp(np.ones_like(roll.q), np.ones_like(roll.v))

    total = shape[0] * shape[1]
    some = slice(0, few[1])
    part = None if act is None else act[some]
    return {
        "batch": (lambda: rollout(sims["float64"], state, u), total),
        "batch_warm": (lambda: rollout(warm, state, u), total),
        "batch32": (lambda: rollout(sims["float32"], state, u), total),
        "batch_peer": (Runner(equal, first, u[chosen]), few[0] * shape[1]),
        "batch_gradient": (gradient, total),
        "batch_linearize": (
            lambda: sims["float64"].linearize(q[some], v[some], u[some, 0], act=part),
            len(q[some]),
        ),
    }


def timed(jobs: Jobs, rounds: int, patience: float) -> dict[str, float]:
    """Return microseconds of a step by job."""
    found = interleave({name: job for name, (job, _) in jobs.items()}, rounds, patience=patience)
    return {name: _each(found[name], jobs[name][1]) for name in jobs}


def _each(timing: Timing, count: float) -> float:
    return timing.seconds / count * 1e6


def measure(scene: Scene, given: argparse.Namespace) -> Row:
    """Return the figures of a scene."""
    start = settle(scene)
    sim, m = start.simulator(), start.peer
    state = tuple(part[0] for part in start.states)
    first = full_state(m, *(*state, None)[:3])
    setting: Setting = fastest(m, first, start.u, NEAR)
    equal = setting.apply(m)
    roll = rollout(sim, state, start.u)
    times = timed(one_world_jobs(start, sim, equal), given.rounds, given.patience)
    # a batch call takes a second or so, but at least one step of every world
    steps = int(np.clip(given.seconds * 1e6 / (times["step"] * given.worlds), 1, 20))
    few = int(np.clip(given.seconds * 1e6 / (times["equal"] * steps), 4, min(64, given.worlds)))
    columns = int(np.clip(given.seconds * 1e6 / times["linearize"], 4, min(256, given.worlds)))
    shape = (given.worlds, steps)
    batch, u = start.batch(*shape)
    flagged = [
        int(np.count_nonzero(rollout(start.simulator(name), batch, u).status & BAD))
        for name in ("float64", "float32")
    ]
    times |= timed(batch_jobs(start, equal, shape, (few, columns)), given.rounds, given.patience)
    cone = "elliptic" if m.opt.cone == mujoco.mjtCone.mjCONE_ELLIPTIC else "pyramidal"
    return Row(
        *(scene.name, m.nv, f"{law_of(start.model)['integrator']}, {cone}"),
        contacts=count_contacts(start, sim, roll),
        setting=str(setting),
        error=setting.error,
        worlds=shape[0],
        batch_steps=steps,
        flagged=(int(bool(roll.status & BAD)), *flagged),
        times=times,
    )


def ask_mjx(python: str, scene: Scene) -> dict[str, Any]:
    """Return what MJX needs for a scene, or why it does not take it."""
    worker = Path(__file__).with_name("peers") / "mjx.py"
    try:
        done = subprocess.run(
            [python, str(worker)], input=scene.xml, capture_output=True, text=True, timeout=900
        )
    except subprocess.TimeoutExpired:
        return {"reason": "took more than 900 s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    last = (done.stderr.strip().splitlines() or ["no answer"])[-1]
    return json.loads(lines[-1]) if lines else {"reason": last[:200]}


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="scenes whose name contains this word")
    parser.add_argument("--worlds", type=int, default=1024, help="of a batch")
    parser.add_argument("--rounds", type=int, default=7, help="samples of each call")
    parser.add_argument("--seconds", type=float, default=1.0, help="of one call of a batch")
    parser.add_argument("--patience", type=float, default=5.0, help="seconds to wait for quiet")
    parser.add_argument("--mjx", default="", help="interpreter that has mujoco-mjx")
    parser.add_argument("--docs", action="store_true", help=f"write {PAGE.name}, measure nothing")
    parser.add_argument("--out", type=Path, default=JSON_FILE, help="JSON file")
    return parser.parse_args()


def main() -> int:
    """Print the tables; return 1 where a step is not solved."""
    given = arguments()
    if given.docs:
        put_between(PAGE, MARK, tables(json.loads(given.out.read_text())))
        return 0
    facts, rows, mjx = provenance(), [], {}
    for scene in cases():
        if given.only not in scene.name:
            continue
        with one_core():
            rows.append(asdict(measure(scene, given)))
        if given.mjx:
            mjx[scene.name] = ask_mjx(given.mjx, scene)
        print(tables({"provenance": facts, "rows": rows[-1:], "mjx": mjx}), flush=True)
    saved = {"provenance": facts, "rows": rows, "mjx": mjx}
    print(tables(saved))
    given.out.write_text(json.dumps(saved, indent=1, default=float) + "\n")
    return int(any(sum(row["flagged"]) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
