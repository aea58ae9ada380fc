"""What the search for near pairs costs from 10 to 5000 geoms, beside MuJoCo's step.

    python bench/broad_phase.py               up to 5000 geoms; figures into bench/broad_phase.json
    python bench/broad_phase.py --most 1000   up to 1000
    python bench/broad_phase.py --docs        and the tables into docs/scaling.md
    python bench/broad_phase.py --saved --docs  the tables from the figures of the last run
    python bench/broad_phase.py --only balls  scenes whose name contains the word

Every scene and law is a process of its own, on one thread. "Near pairs" is a step of the scene
lifted into the air, where nothing touches, less the same step without contacts: the search, and
the pairs that it lets through. The step is that of the scene after 200 others, with its contacts.
Memory is what the process has at most, above what it had before the simulator. MuJoCo steps the
same scene, with the settings of the file.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from law_peer import Runner, full_state
from mujoco_law_text import origin, put_between
from report import provenance
from timing import interleave

import featherback as fb
from featherback.models.laikago import laikago_xml
from featherback.sim import Status

ROOT = Path(__file__).resolve().parent.parent
JSON_FILE, PAGE = ROOT / "bench" / "broad_phase.json", ROOT / "docs" / "scaling.md"
MARK = "bench/broad_phase.py"
SIZES = (10, 30, 100, 300, 1000, 2000, 5000)
LAWS = ("hard", "mujoco")
BATCH = 64
# free bodies up to which a scene goes: what joins all bodies of a pile has a matrix of all dofs
MOST_BODIES = 1000
HEAD = '<mujoco><option timestep="0.002"/><size memory="1G"/><worldbody>'
FLOOR = '<geom type="plane" size="0 0 1"/>'


def grid(count: int, gap: float) -> list[tuple[float, float]]:
    """Return places on a square."""
    side = int(np.ceil(np.sqrt(count)))
    return [(gap * (i % side), gap * (i // side)) for i in range(count)]


def balls(count: int) -> str:
    """Return free balls that lie on a plane."""
    parts = (
        f'<body pos="{x:g} {y:g} .05"><freejoint/><geom size=".05"/></body>'
        for x, y in grid(count - 1, 0.15)
    )
    return f"{HEAD}{FLOOR}{''.join(parts)}</worldbody></mujoco>"


def dominoes(count: int) -> str:
    """Return upright boxes in rows of a hundred; the first of each row leans."""
    parts: list[str] = []
    for i in range(count - 1):
        lean = ' euler="0 12 0"' if i % 100 == 0 else ""
        at = f"{0.06 * (i % 100):g} {0.4 * (i // 100):g} .1"
        parts.append(
            f'<body pos="{at}"{lean}><freejoint/><geom type="box" size=".01 .04 .1"/></body>'
        )
    return f"{HEAD}{FLOOR}{''.join(parts)}</worldbody></mujoco>"


def rubble(count: int) -> str:
    """Return free bodies of ten balls each on a plane."""
    turns = np.random.default_rng(0).normal(size=(max(count // 10, 1), 10, 3))
    parts: list[str] = []
    for (x, y), offsets in zip(grid(len(turns), 0.5), turns, strict=True):
        places = 0.1 * offsets / np.linalg.norm(offsets, axis=1, keepdims=True)
        geoms = "".join(f'<geom size=".05" pos="{a:.4f} {b:.4f} {c:.4f}"/>' for a, b, c in places)
        parts.append(f'<body pos="{x:g} {y:g} .15"><freejoint/>{geoms}</body>')
    return f"{HEAD}{FLOOR}{''.join(parts)}</worldbody></mujoco>"


def stones(count: int) -> str:
    """Return a Laikago on a field of fixed boxes."""
    parts = "".join(
        f'<geom type="box" size=".09 .09 .05" pos="{x - 1:g} {y - 1:g} -.048" contype="1" '
        'conaffinity="0"/>'
        for x, y in grid(count, 0.2)
    )
    text = laikago_xml()
    return text.replace("</worldbody>", f"{parts}</worldbody>", 1)


SCENES: dict[str, Callable[[int], str]] = {
    "balls": balls,
    "dominoes": dominoes,
    "rubble": rubble,
    "stones": stones,
}


def bodies(scene: str, count: int) -> int:
    """Return how many free bodies a scene has."""
    return {"rubble": count // 10, "stones": 1}.get(scene, count)


def lifted(model: fb.Model) -> np.ndarray:
    """Return the state with all free bodies 100 m higher."""
    q, m = np.array(model.q0), model.mujoco
    q[m.jnt_qposadr[m.jnt_type == mujoco.mjtJoint.mjJNT_FREE] + 2] += 100.0
    return q


def masked(text: str) -> fb.Model:
    """Return the model without contacts."""
    off = '<option><flag contact="disable"/></option><worldbody>'
    return fb.load(text.replace("<worldbody>", off, 1))


def resident() -> float:
    """Return the largest memory of this process so far [MB]."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def law_figures(models: dict[str, fb.Model], law: str, rounds: int) -> dict[str, Any]:
    """Return the figures of a law."""
    model, before = models["all"], resident()
    options: dict[str, Any] = {"contact": law, "threads": 1}
    sims = {name: fb.Simulator(m, **options) for name, m in models.items()}
    sim, up = sims["all"], lifted(model)
    begin = time.perf_counter()
    roll = sim.rollout(model.q0, model.v0, steps=200)
    alone = resident() - before
    steps = enough(time.perf_counter() - begin)
    q, v = np.asarray(roll.q[-1]), np.asarray(roll.v[-1])
    jobs: dict[str, Callable[[], object]] = {
        "step": lambda: sim.rollout(q, v, steps=steps),
        "lifted": lambda: sim.rollout(up, model.v0, steps=steps),
        "masked": lambda: sims["none"].rollout(up, model.v0, steps=steps),
    }
    times = {k: t.seconds / steps * 1e6 for k, t in interleave(jobs, rounds).items()}
    contacts = sim.contacts(q, v)
    many = np.repeat(q[None], BATCH, axis=0), np.repeat(v[None], BATCH, axis=0)
    spread = many[1] + 0.01 * np.random.default_rng(1).normal(size=many[1].shape)
    jobs = {"batch": lambda: sim.rollout(many[0], spread, steps=1)}
    times["batch"] = interleave(jobs, 3)["batch"].seconds / BATCH * 1e6
    return {
        **times,
        "pairs": times["lifted"] - times["masked"],
        "contacts": int(contacts.count),
        "max_contacts": int(sim.options.max_contacts),
        "overflow": bool(int(roll.status) & int(Status.CONTACT_OVERFLOW)),
        "status": int(roll.status),
        "memory": alone,
        "memory_batch": resident() - before,
        "workspace": sim.memory(1).workspace / 1e6,
    }


def enough(seconds: float) -> int:
    """Return how many steps take a few milliseconds, from the time of 200."""
    return int(np.clip(200 * 5e-3 / seconds, 2, 200))


def work(scene: str, count: int, law: str, rounds: int) -> dict[str, Any]:
    """Return the figures of one scene under a law."""
    text = SCENES[scene](count)
    begin = time.process_time()
    peer = mujoco.MjModel.from_xml_string(text)
    compiled = time.process_time()
    model = fb.load(text)
    loaded = time.process_time()
    models = {"all": model, "none": masked(text)}
    found: dict[str, Any] = {
        "scene": scene,
        "geoms": int(model.ngeom),
        "bodies": bodies(scene, count),
        "pairs": model.parsed.pairs.count,
        "compile_s": compiled - begin,
        "load_s": loaded - compiled,
    }
    try:
        found[law] = law_figures(models, law, rounds)
    except MemoryError as error:
        found[law] = {"refused": str(error)}
    first = full_state(peer, model.q0, model.v0, np.zeros(model.na) if model.na else None)
    begin = time.perf_counter()
    way = Runner(peer, first[None], np.zeros((1, 200, model.nu)))()[0]
    steps = enough(time.perf_counter() - begin)
    jobs = {"peer": Runner(peer, way[-1][None], np.zeros((1, steps, model.nu)))}
    found[law]["peer"] = interleave(jobs, rounds)["peer"].seconds / steps * 1e6
    return found


def figure(value: float) -> str:
    """Return a number with three digits."""
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def tables(saved: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    head = (
        "| scene | geoms | pairs | load, MuJoCo's compiler [s] | law | contacts | near pairs [us] "
        "| step [us] | MuJoCo [us] | times as fast | batch [us] | memory, in a batch [MB] |"
    )
    lines = [head, "|---" * head.count(" |") + "|"]
    for row in saved["rows"]:
        for law in LAWS:
            x = row[law]
            cells = [row["scene"], row["geoms"], row["pairs"]]
            cells += [f"{row['load_s']:.2f}, {row['compile_s']:.2f}", f'`"{law}"`']
            if "refused" in x:
                lines.append("| " + " | ".join(map(str, [*cells, x["refused"]])) + " |")
                continue
            more = " (too many)" if x["overflow"] else ""
            ratio = x["peer"] / x["step"]
            cells += [f"{x['contacts']}{more}", figure(max(x["pairs"], 0.0)), figure(x["step"])]
            cells += [figure(x["peer"]), f"{ratio:.2g}" if ratio >= 1 else f"**{ratio:.2g}**"]
            cells += [figure(x["batch"])]
            cells += [f"{figure(x['memory'])}, {figure(x['memory_batch'])}"]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join([*lines, "", f"- {origin(saved['provenance'])}"])


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="scenes whose name contains this word")
    parser.add_argument("--most", type=int, default=5000, help="geoms")
    parser.add_argument("--rounds", type=int, default=7, help="samples of each call")
    parser.add_argument("--saved", action="store_true", help="measure nothing, read the JSON file")
    parser.add_argument("--docs", action="store_true", help=f"put the tables into {PAGE.name}")
    parser.add_argument("--out", type=Path, default=JSON_FILE, help="JSON file")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of all scenes, each in a process of its own."""
    rows: list[dict[str, Any]] = []
    for scene in SCENES:
        for count in SIZES:
            too_many = bodies(scene, count) > MOST_BODIES or count > given.most
            if given.only not in scene or too_many:
                continue
            rows.append({})
            for law in LAWS:
                command = [sys.executable, __file__, "--work", scene, str(count), law]
                done = subprocess.run(
                    [*command, "--rounds", str(given.rounds)], capture_output=True, text=True
                )
                if done.returncode:
                    raise RuntimeError(f"{scene}, {count} geoms: {done.stderr[-2000:]}")
                rows[-1] |= json.loads(done.stdout.splitlines()[-1])
            print(tables({"provenance": provenance(), "rows": rows[-1:]}), flush=True)
    return {"provenance": provenance(), "rows": rows}


def main() -> int:
    """Print the tables; return 1 where contacts were left out."""
    given = arguments()
    if given.work:
        print(json.dumps(work(given.work[0], int(given.work[1]), given.work[2], given.rounds)))
        return 0
    saved = json.loads(given.out.read_text()) if given.saved else measure(given)
    if not given.saved:
        given.out.write_text(json.dumps(saved, indent=1) + "\n")
    print(tables(saved))
    if given.docs:
        put_between(PAGE, MARK, tables(saved))
    return int(any(row[law].get("overflow") for row in saved["rows"] for law in LAWS))


if __name__ == "__main__":
    sys.exit(main())
