"""How many contact solves finish, what they leave, and what a step costs beside MuJoCo's.

    python bench/contact_solve.py                 all scenes but the long ones
    python bench/contact_solve.py --full          all, 256 worlds of Gymnasium's robots included
    python bench/contact_solve.py --only laikago  those whose name contains the word
    python bench/contact_solve.py --out FILE      the figures as JSON too

Steps of one world are taken one by one, here and in MuJoCo in turn, so that both see the same load
of the machine; a batch is taken in one call on one thread, by the time of the processor. Worlds of
a batch have velocities and controls of their own, and where a scene says so any pose. Where MuJoCo
loses a world (it resets a state that is not finite, or ends its rollout) it did not take the same
steps: the table says so and has no ratio. A scene that is too slow takes fewer steps, which the
table says too. MuJoCo solves a convex problem, softened everywhere, which is an easier one;
collisions, dynamics and integration are in all figures. The states that one world went through are
stepped once more, each by itself, for residuals and for the matrices that a solve factorised.
--dtype float32 is for what that can solve, not for times.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from contact_scenes import Scene, scenes
from mujoco import rollout as mujoco_rollout
from numpy.typing import NDArray
from report import provenance

import featherback as fb
from featherback.sim import Status

BAD = int(Status.UNCONVERGED | Status.CONTACT_OVERFLOW | Status.NONFINITE)
STATE = mujoco.mjtState.mjSTATE_FULLPHYSICS
FREE, SLIDE = int(mujoco.mjtJoint.mjJNT_FREE), int(mujoco.mjtJoint.mjJNT_SLIDE)
LOST = [int(getattr(mujoco.mjtWarning, f"mjWARN_BAD{what}")) for what in ("QPOS", "QVEL", "QACC")]
CHUNK = 256  # states whose steps are looked at in one call
Array = NDArray[Any]
State = tuple[Array, ...]  # q, v, and act where there is any


@dataclass(frozen=True)
class Row:
    """What became of a scene.

    Attributes:
        scene: its name.
        steps: that one world took.
        asked: those that it was to take; the time may be over before.
        flagged: those of them that are not solved.
        residual: largest residual of a solve [m/s].
        here: time of a step, median [us].
        slowest: the slowest hundredth [us].
        peer: that of MuJoCo, median [us].
        peer_lost: how often MuJoCo reset the world.
        worlds: of the batch.
        batch_steps: that each of them took.
        worlds_flagged: those of them with a step that is not solved.
        batch_flagged: steps of the batch that are not solved.
        batch_residual: largest residual in the batch [m/s].
        batch: time of a step of one world in the batch, mean [us].
        batch_peer: that of MuJoCo [us].
        batch_peer_lost: worlds that MuJoCo gave up.
        both: time of the processor in a step of one world, here and in MuJoCo together, mean [us].
        factorised: matrices that a solve of the one world factorised: median, 99 %, most.
    """

    scene: str
    steps: int
    asked: int
    flagged: int
    residual: float
    here: float
    slowest: float
    peer: float
    peer_lost: int = 0
    worlds: int = 0
    batch_steps: int = 0
    worlds_flagged: int = 0
    batch_flagged: int = 0
    batch_residual: float = 0.0
    batch: float = 0.0
    batch_peer: float = 0.0
    batch_peer_lost: int = 0
    both: float = 0.0
    factorised: list[float] = field(default_factory=list)


def start_of(scene: Scene, model: fb.Model, rng: np.random.Generator) -> State:
    """Return the state at which a scene starts."""
    state = model.keyframe(0) if model.keyframe_names else (model.q0, model.v0)
    rest = (np.zeros(model.na),) if model.na else ()
    return np.array(state[0]), scene.noise * rng.standard_normal(model.nv), *rest


def controls_of(scene: Scene, model: fb.Model, rng: np.random.Generator, lead: Any) -> Array:
    """Return controls of all steps within their ranges, with leading axes."""
    m = model.mujoco
    u = scene.controls * rng.standard_normal((*lead, scene.steps, model.nu))
    if scene.hold and model.keyframe_names:
        u = u + m.key_ctrl[0]
    low, high = np.where(m.actuator_ctrllimited[:, None] != 0, m.actuator_ctrlrange, (-9e9, 9e9)).T
    return np.clip(u, low, high)


def any_pose(scene: Scene, model: fb.Model, q: Array, rng: np.random.Generator) -> Array:
    """Return a random configuration near q, joints anywhere in their ranges, above the ground."""
    m, data = model.mujoco, mujoco.MjData(model.mujoco)
    q = np.array(q)
    mujoco.mj_integratePos(m, q, scene.far * rng.standard_normal(m.nv), 1.0)
    for joint in np.flatnonzero((m.jnt_limited != 0) & (m.jnt_type >= SLIDE)):
        q[m.jnt_qposadr[joint]] = rng.uniform(*m.jnt_range[joint])
    slide = (m.jnt_type == SLIDE) & (m.jnt_axis[:, 2] > 0.9)
    up = [*(m.jnt_qposadr[m.jnt_type == FREE] + 2), *m.jnt_qposadr[slide]]
    data.qpos[:] = q
    mujoco.mj_forward(m, data)
    if up:
        q[up[0]] += max(0.0, -data.contact.dist.min(initial=0.0))
    return q


def look_again(sim: fb.Simulator, states: State, u: Array) -> tuple[int, float, Array]:
    """Return steps that are not solved, the largest residual, and factorisations of each step."""
    flagged, residual, factorisations = 0, 0.0, []
    for k in range(0, len(u), CHUNK):
        piece = slice(k, k + CHUNK)
        q, v, act = (*(a[piece] for a in states), None)[:3]
        roll = sim.rollout(q, v, u[piece][:, None], act=act)
        flagged += int(np.count_nonzero(roll.status & BAD))
        residual = max(residual, float(roll.residual.max()))
        factorisations.append(roll.factorisations)
    return flagged, residual, np.concatenate(factorisations)


def one_world(scene: Scene, model: fb.Model, sim: fb.Simulator, seconds: float) -> Row:
    """Return the figures of one world; it takes no more steps than the seconds allow."""
    rng = np.random.default_rng(0)
    state, u = start_of(scene, model, rng), controls_of(scene, model, rng, ())
    peer = mujoco.MjData(model.mujoco)
    peer.qpos[:], peer.qvel[:] = state[:2]
    own, theirs = np.empty(scene.steps), np.empty(scene.steps)
    visited: list[State] = []
    asked, begins = scene.steps, time.process_time()
    for k in range(asked):
        if time.process_time() > begins + seconds:
            asked = k
            break
        visited.append(state)
        q, v, act = (*state, None)[:3]
        begin = time.perf_counter_ns()
        state = sim.step(q, v, u[k], act=act)
        middle = time.perf_counter_ns()
        peer.ctrl[:] = u[k]
        mujoco.mj_step(model.mujoco, peer)
        own[k], theirs[k] = middle - begin, time.perf_counter_ns() - middle
        if not np.isfinite(state[0]).all():
            break
    done = len(visited)
    mean = (time.process_time() - begins) / done * 1e6
    states = tuple(np.array(part) for part in zip(*visited, strict=True))
    flagged, residual, counts = look_again(sim, states, u[:done])
    times = (np.median(own[:done]), np.quantile(own[:done], 0.99), np.median(theirs[:done]))
    lost = sum(peer.warning[kind].number for kind in LOST)
    # steps after the last finite state are not solved
    flagged += asked - done
    figures = flagged, residual, *(t / 1e3 for t in times), lost
    factorised = [float(np.quantile(counts, share)) for share in (0.5, 0.99, 1.0)]
    return Row(scene.name, asked, scene.steps, *figures, both=mean, factorised=factorised)


def mujoco_batch(model: fb.Model, q: Array, v: Array, u: Array) -> tuple[float, int]:
    """Return the time of a step in MuJoCo's rollout of a batch [us], and the worlds it gave up."""
    m, n = model.mujoco, model.nq
    first = np.zeros((len(q), mujoco.mj_stateSize(m, STATE)))
    first[:, 1 : 1 + n], first[:, 1 + n : 1 + n + model.nv] = q, v
    begin = time.process_time()
    states, _ = mujoco_rollout.rollout(m, mujoco.MjData(m), first, u)
    spent = time.process_time() - begin
    # the first number of a state is its time, which stands still where a world was given up
    taken = np.rint(states[:, -1, 0] / m.opt.timestep)
    return spent / max(taken.sum(), 1.0) * 1e6, int(np.count_nonzero(taken < u.shape[1]))


def batch(scene: Scene, model: fb.Model, sim: fb.Simulator) -> dict[str, Any]:
    """Return the figures of a batch."""
    rng = np.random.default_rng(1)
    starts = [start_of(scene, model, rng) for _ in range(scene.worlds)]
    q, v, *rest = (np.array(part) for part in zip(*starts, strict=True))
    if scene.far:
        q = np.array([any_pose(scene, model, one, rng) for one in q])
    u = controls_of(scene, model, rng, (scene.worlds,))
    begin = time.process_time()
    roll = sim.rollout(q, v, u, act=rest[0] if rest else None)
    middle = time.process_time()
    bad = np.flatnonzero(roll.status & BAD)
    flagged = 0
    for world in bad:
        parts = (roll.q[world], roll.v[world], roll.act[world])[: 2 + len(rest)]
        fine = np.isfinite(np.concatenate(parts, axis=-1)).all(axis=-1)
        last = int(fine.argmin()) if not fine.all() else scene.steps
        states = tuple(np.asarray(part[:last]) for part in parts)
        flagged += look_again(sim, states, u[world, :last])[0] + scene.steps - last
    theirs, lost = mujoco_batch(model, q, v, u)
    return {
        "worlds": scene.worlds,
        "batch_steps": scene.steps,
        "worlds_flagged": len(bad),
        "batch_flagged": flagged,
        "batch_residual": float(roll.residual.max()),
        "batch": (middle - begin) / (scene.worlds * scene.steps) * 1e6,
        "batch_peer": theirs,
        "batch_peer_lost": lost,
    }


HEAD = (
    "| scene | steps | solved | residual [m/s] | factorised: median, 99 %, most | step [us] "
    "| 99 % [us] | MuJoCo [us] | ratio "
    "| worlds | worlds solved | steps solved | residual [m/s] | batch [us] | MuJoCo [us] | ratio |"
)


def against(here: float, peer: float, lost: str) -> tuple[str, str]:
    """Return MuJoCo's time and its ratio to ours; what was lost, and none, if something was."""
    return (lost, "none") if lost else (f"{peer:.1f}", f"{peer / here:.2f}")


def line(row: Row) -> str:
    """Return a line of the table; ratios are MuJoCo's time over ours."""

    def share(bad: int, of: int) -> str:
        """Return how many are left, in per cent; rounded down, so that 100 % are all."""
        return f"{math.floor(1e5 * (1 - bad / max(of, 1))) / 1e3 if bad else 100:g} %"

    cells = [
        *(row.scene, row.steps if row.steps == row.asked else f"{row.steps} of {row.asked}"),
        *(share(row.flagged, row.steps), f"{row.residual:.1e}"),
        ", ".join(f"{count:.0f}" for count in row.factorised),
        *(f"{row.here:.1f}", f"{row.slowest:.0f}"),
        *against(row.here, row.peer, f"reset {row.peer_lost} times" if row.peer_lost else ""),
    ]
    if row.worlds:
        total = row.worlds * row.batch_steps
        short = row.batch_steps < row.asked
        cells += [f"{row.worlds}, {row.batch_steps} steps" if short else row.worlds]
        cells += [share(row.worlds_flagged, row.worlds)]
        cells += [share(row.batch_flagged, total), f"{row.batch_residual:.1e}"]
        lost = f"lost {row.batch_peer_lost} worlds" if row.batch_peer_lost else ""
        cells += [f"{row.batch:.1f}", *against(row.batch, row.batch_peer, lost)]
    return "| " + " | ".join(map(str, cells)) + " |"


def total(rows: list[Row]) -> str:
    """Return the sentence that sums up the table."""
    steps = sum(row.steps + row.worlds * row.batch_steps for row in rows)
    bad = sum(row.flagged + row.batch_flagged for row in rows)
    others = sum(row.flagged + row.batch_flagged > 0 for row in rows)
    slower = sum(row.here > row.peer and not row.peer_lost for row in rows)
    batches = [row for row in rows if row.worlds and not row.batch_peer_lost]
    slower_batch = sum(row.batch > row.batch_peer for row in batches)
    lost = sum(row.peer_lost + row.batch_peer_lost > 0 for row in rows)
    return (
        f"solved: {steps - bad} of {steps} steps, {100 * (1 - bad / max(steps, 1)):.6f} %; scenes "
        f"with others: {others} of {len(rows)}; slower than MuJoCo: {slower} in one world, "
        f"{slower_batch} in a batch; MuJoCo lost worlds in {lost} scenes, not compared"
    )


def main() -> int:
    """Print the table; return 1 where a step is not solved."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="scenes whose name contains this word")
    parser.add_argument("--full", action="store_true", help="the long ones too")
    parser.add_argument("--one", action="store_true", help="one world only, no batches")
    parser.add_argument(
        "--seconds", type=float, default=120.0, help="for the steps of one world, and of a batch"
    )
    parser.add_argument("--dtype", default="float64", choices=("float64", "float32"))
    parser.add_argument("--out", type=Path, help="JSON file for the figures")
    options = parser.parse_args()
    facts = provenance()
    print(HEAD + "\n" + "|---" * HEAD.count(" |") + "|")
    rows: list[Row] = []
    for scene in scenes():
        if options.only not in scene.name or (scene.full and not options.full):
            continue
        model = scene.load()
        sim = scene.simulator(model, options.dtype)
        row = one_world(scene, model, sim, options.seconds)
        if not options.one:
            # medians do not know of the slow steps
            fit = int(options.seconds * 1e6 / (row.both * scene.worlds))
            short = replace(scene, steps=min(scene.steps, max(fit, 1)))
            row = Row(**{**asdict(row), **batch(short, model, sim)})
        rows.append(row)
        print(line(row), flush=True)
    print(total(rows))
    if options.out:
        figures = {"provenance": facts, "rows": [asdict(row) for row in rows]}
        options.out.write_text(json.dumps(figures, indent=1) + "\n")
    return int(any(row.flagged + row.batch_flagged for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
