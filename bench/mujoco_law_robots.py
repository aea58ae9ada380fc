"""How long robots of the corpus move as MuJoCo moves them under contact="mujoco".

    python bench/mujoco_law_robots.py                  all robots
    python bench/mujoco_law_robots.py --only gymnasium those whose package or path has the word
    python bench/mujoco_law_robots.py --out FILE       the figures as JSON

Each robot takes 500 steps under random controls from its first keyframe or its default pose, with
the file's own integrator (Euler where it is not there), by MuJoCo with its Newton solver run to its
end, by MuJoCo with velocities moved by 1e-12, and here. The table says for how many steps positions
agree to 1e-6 and to 1e-3, relative to the largest of them and 1. Then every state of MuJoCo's way
is a world of one step here: the first step that differs by more than 1e-9 is named, with the pairs
of shapes whose contact points differ there. The matrices of `linearize` are compared with
`mjd_transitionFD` (centred; by differences of `mj_step` where that refuses RK4) at three of those
states, one of a large robot: the smallest difference with steps of 1e-6, 1e-7 and 1e-8, and how far
those with the last two are from each other. At last 1000 steps in float64 and float32 must all be
solved, but where MuJoCo gives up too. Pairs of shapes that are left out here, such as two meshes,
pass through each other in MuJoCo too. Robots that come without a floor fall, and meet their limits
and themselves.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from law_peer import FULL, differences, full_state, law_of, matched, to_its_end
from numpy.typing import NDArray
from report import provenance

import featherback as fb
from featherback.sim import Status

sys.path.append(str(Path(__file__).resolve().parents[1]))
from tools import corpus_cache

STEPS, LONG = 500, 1000
FINE = (1e-6, 1e-7, 1e-8)  # steps of differences; a joint on its limit needs the finest
LARGE = 60  # dofs from which the matrices of one state are compared
SAME = 1e-9  # largest difference of one step where contacts are the same, relative
POINTS = 1e-9  # largest difference of depths [m], points [m] and normals that are the same
TWIN = 1e-12  # by which the velocities of the twin are moved
LOST = [int(getattr(mujoco.mjtWarning, f"mjWARN_BAD{what}")) for what in ("QPOS", "QVEL", "QACC")]
SHAPES = {
    int(getattr(mujoco.mjtGeom, f"mjGEOM_{n.upper()}")): n
    for n in ("plane", "hfield", "sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh")
}
Array = NDArray[np.float64]


def controls(m: mujoco.MjModel, steps: int) -> Array:
    """Return controls that change every tenth step, a third of the way to their limits."""
    rng = np.random.default_rng(0)
    low, high = np.where(m.actuator_ctrllimited[:, None] != 0, m.actuator_ctrlrange, (-1.0, 1.0)).T
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    draws = rng.uniform(-0.3, 0.3, (-(-steps // 10), m.nu))
    return np.repeat(middle + half * draws, 10, axis=0)[:steps]


def start(model: fb.Model, m: mujoco.MjModel) -> tuple[Array, Array, Array | None]:
    """Return the state at the start, with small velocities."""
    rng = np.random.default_rng(1)
    q = np.array(model.keyframe(0)[0] if model.keyframe_names else model.q0)
    return q, 0.01 * rng.standard_normal(m.nv), np.zeros(m.na) if m.na else None


def follow(m: mujoco.MjModel, first: Array, u: Array) -> Array:
    """Return MuJoCo's states, up to the one at which it gives up."""
    data, states = mujoco.MjData(m), [first]
    mujoco.mj_setState(m, data, first, FULL)
    for control in u:
        data.ctrl[:] = control
        mujoco.mj_step(m, data)
        if any(data.warning[kind].number for kind in LOST):
            break
        state = np.empty_like(first)
        mujoco.mj_getState(m, data, state, FULL)
        states.append(state)
    return np.array(states)


def agree(one: Array, other: Array, bound: float) -> int:
    """Return the number of steps for which positions differ by no more than a bound."""
    n = min(len(one), len(other))
    size = np.maximum(np.abs(one[:n]).max(axis=1), 1.0)
    apart = np.abs(one[:n] - other[:n]).max(axis=1) / size
    far = np.flatnonzero(~(apart <= bound))
    return int(far[0]) - 1 if len(far) else n - 1


def most_contacts(m: mujoco.MjModel, way: Array) -> int:
    """Return the largest number of contacts at every fifth state."""
    data, most = mujoco.MjData(m), 0
    for state in way[::5]:
        mujoco.mj_setState(m, data, state, FULL)
        mujoco.mj_fwdPosition(m, data)
        most = max(most, int(data.ncon))
    return most


Pairs = dict[tuple[int, ...], list[Array]]  # dist, point and normal of contacts by their geoms


def contacts_there(m: mujoco.MjModel, state: tuple[Any, ...]) -> tuple[Pairs, dict[Any, float]]:
    """Return MuJoCo's contacts that have rows, and the margins of all that it found."""
    data = mujoco.MjData(m)
    mujoco.mj_setState(m, data, full_state(m, *state), FULL)
    mujoco.mj_forward(m, data)
    found: Pairs = {}
    margins: dict[Any, float] = {}
    for c in data.contact:
        pair = tuple(sorted(int(g) for g in c.geom))
        margins[pair] = float(c.includemargin)
        sign = 1.0 if int(c.geom[0]) == pair[0] else -1.0
        if c.exclude == 0:
            found.setdefault(pair, []).append(np.array([c.dist, *c.pos, *(sign * c.frame[:3])]))
    return found, margins


def contacts_here(sim: fb.Simulator, state: tuple[Any, ...], u: Array, margins: Any) -> Pairs:
    """Return our contacts below the margins."""
    q, v, act = state
    c = sim.contacts(q, v, u, act=act)
    found: Pairs = {}
    for k in range(int(c.count)):
        pair = tuple(sorted((int(c.geom1[k]), int(c.geom2[k]))))
        sign = 1.0 if int(c.geom1[k]) == pair[0] else -1.0
        if c.gap[k] < margins.get(pair, 0.0):
            entry = np.array([c.gap[k], *c.point[k], *(sign * c.normal[k])])
            found.setdefault(pair, []).append(entry)
    return found


def apart(ours: list[Array], theirs: list[Array]) -> dict[str, float]:
    """Return the largest differences of as many contacts, each with the nearest."""
    a, b = np.array(ours), np.array(theirs)
    near = np.abs(a[:, None, 1:4] - b[None, :, 1:4]).sum(axis=-1).argmin(axis=1)
    gap = np.abs(a - b[near])
    return {
        "depths": float(gap[:, 0].max()),
        "points": float(gap[:, 1:4].max()),
        "normals": float(gap[:, 4:].max()),
    }


def other_contacts(
    m: mujoco.MjModel, sim: fb.Simulator, state: tuple[Any, ...], u: Array
) -> dict[str, float]:
    """Return the kinds of pairs whose contacts differ at a state, and by how much."""
    theirs, margins = contacts_there(m, state)
    ours = contacts_here(sim, state, u, margins)
    out: dict[str, float] = {}
    for pair in ours.keys() | theirs.keys():
        a, b = ours.get(pair, []), theirs.get(pair, [])
        kinds = "-".join(SHAPES[k] for k in sorted(int(m.geom_type[g]) for g in pair))
        if len(a) != len(b):
            key = f"{kinds}: {len(a)} points here, {len(b)} there"
            out[key] = 0.0
            continue
        for what, size in apart(a, b).items():
            if size > POINTS:
                key = f"{kinds}: {what} differ"
                out[key] = max(out.get(key, 0.0), size)
    return out


def one_steps(model: fb.Model, m: mujoco.MjModel, sim: fb.Simulator, way: Array, u: Array) -> Any:
    """Return how many steps of MuJoCo's way differ here, the largest difference, and reasons."""
    n, k = 1 + m.nq, 1 + m.nq + m.nv
    q, v, act = way[:-1, 1:n], way[:-1, n:k], way[:-1, k : k + m.na] if m.na else None
    roll = sim.rollout(q, v, u[: len(q), None], act=act)
    # the change of velocity is what a step is about
    change = way[1:, n:k] - v
    size = np.abs(change).max(axis=1) + 1e-9 + 1e-6 * np.abs(v).max(axis=1)
    gap = np.abs(roll.v[:, 1] - way[1:, n:k]).max(axis=1) / size
    steps = np.flatnonzero(~(gap <= SAME))
    reasons: dict[str, tuple[int, float]] = {}
    plain: list[float] = [float(x) for x in gap[gap <= SAME]]
    for at in steps:
        state = (q[at], v[at], None if act is None else act[at])
        found = other_contacts(m, sim, state, u[at])
        if not found:
            plain.append(float(gap[at]))
            found = {"same contacts": float(gap[at])}
        for text, size in found.items():
            count, most = reasons.get(text, (0, 0.0))
            reasons[text] = (count + 1, max(most, size))
    common = dict(sorted(reasons.items(), key=lambda item: -item[1][0])[:5])
    first = int(steps[0]) if len(steps) else -1
    worst = max(plain, default=0.0)
    return {"differ": len(steps), "first": first, "worst_same": worst, "reasons": common}


def matrices(m: mujoco.MjModel, sim: fb.Simulator, way: Array, u: Array) -> dict[str, list[float]]:
    """Return errors of A and B at three states where a step is the same, and those of MuJoCo's."""
    n, k = 1 + m.nq, 1 + m.nq + m.nv
    out: dict[str, list[float]] = {"error": [], "own": []}
    shares = (0.1, 0.4, 0.8) if m.nv <= LARGE else (0.4,)
    for at in {int(s * (len(way) - 2)) for s in shares}:
        state = way[at]
        act = state[k : k + m.na] if m.na else None
        if other_contacts(m, sim, (state[1:n], state[n:k], act), u[at]):
            continue
        # activations of actuators that are left out stand still here
        ours = np.hstack(sim.linearize(state[1:n], state[n:k], u[at], act=act))[: 2 * m.nv]
        theirs = [np.hstack(differences(m, state, u[at], eps))[: 2 * m.nv] for eps in FINE]
        size = np.abs(theirs[0]).max()
        out["error"].append(float(min(np.abs(ours - t).max() for t in theirs) / size))
        out["own"].append(float(np.abs(theirs[-1] - theirs[-2]).max() / size))
    return out


def solved(model: fb.Model, law: dict[str, Any], first: Any, u: Array) -> dict[str, Any]:
    """Return the status of 1000 steps in both precisions."""
    out: dict[str, Any] = {}
    q, v, act = first
    for dtype in ("float64", "float32"):
        sim = fb.Simulator(model, dtype=dtype, threads=1, **law)
        cast = [None if x is None else np.asarray(x, sim.dtype) for x in (q, v, u, act)]
        roll = sim.rollout(cast[0], cast[1], cast[2], act=cast[3])
        names = [s.name for s in Status if s and int(roll.status) & int(s)]
        where = f" at step {int(roll.status_step)}" if names else ""
        out[dtype] = " ".join(map(str, names)) + where
        out[f"{dtype} residual"] = float(roll.residual)
    return out


def without_left_out(model: fb.Model) -> int:
    """Let pairs that are left out here pass through each other in MuJoCo too; return how many."""
    left_out = sum("pass through each other" in notice.message for notice in model.notices)
    if left_out:
        pairs = model.parsed.pairs
        kept = {
            (min(a, b), max(a, b))
            for a, b in zip(pairs.geom1.tolist(), pairs.geom2.tolist(), strict=True)
        }

        def passes(_m: Any, _d: Any, a: int, b: int) -> int:
            by_rule = pairs.ruled is not None and pairs.ruled.allowed[a, b // 32] >> (b % 32) & 1
            return int(not by_rule and (min(a, b), max(a, b)) not in kept)

        mujoco.set_mjcb_contactfilter(passes)
    return left_out


def work(path: str, entry: corpus_cache.Entry) -> dict[str, Any]:
    """Return the figures of one robot, or the reason why there are none."""
    load = {"on_unsupported": "drop", "format": entry.format, "free_root": entry.free_root}
    try:
        model = fb.load(path, **load)
        law = law_of(model)
        sim = fb.Simulator(model, threads=1, **law)
    except fb.FeatherbackError as error:
        return {"refused": " ".join(str(error).split())[:200]}
    if model.nv == 0:
        return {"refused": "nothing moves"}
    left_out = without_left_out(model)
    m = to_its_end(matched(model))
    # it would take the frame of the inertia for that of a geom that is 1e-7 beside it
    m.geom_sameframe[:] = 0
    first, u = start(model, m), controls(m, LONG)
    state = full_state(m, *first)
    way = follow(m, state, u[:STEPS])
    moved = np.array(state)
    moved[1 + m.nq : 1 + m.nq + m.nv] += TWIN * np.random.default_rng(2).standard_normal(m.nv)
    twin = follow(m, moved, u[:STEPS])
    roll = sim.rollout(first[0], first[1], u[:STEPS], act=first[2])
    q, n = slice(1, 1 + m.nq), min(STEPS, len(way) - 1)
    out: dict[str, Any] = {"nv": m.nv, "integrator": law["integrator"], "steps": n}
    out["file"] = model.structure.law["integrator"]
    out["pairs_left_out"] = left_out
    for name, bound in (("1e-6", 1e-6), ("1e-3", 1e-3)):
        out[f"here {name}"] = agree(way[:, q], roll.q, bound)
        out[f"twin {name}"] = agree(way[:, q], twin[:, q], bound)
    out["contacts"] = most_contacts(m, way)
    out |= one_steps(model, m, sim, way, u)
    out["matrices"] = matrices(m, sim, way, u)
    return out | {"status": solved(model, law, first, u)}


def supervise(entry: corpus_cache.Entry, folder: Path, timeout: float) -> dict[str, Any]:
    """Return what a process of its own finds out about a robot."""
    path = str(corpus_cache.locate(folder, entry.path))
    question = json.dumps(
        [path, [entry.package, entry.version, entry.format, entry.free_root, entry.path]]
    )
    command = [sys.executable, __file__, "--worker", question]
    name = {"robot": f"{entry.package}: {'/'.join(Path(entry.path).parts[-2:])}"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return name | {"refused": f"took more than {timeout:g} s"}
    lines = [x for x in done.stdout.splitlines() if x.startswith("{")]
    last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    row = name | (json.loads(lines[-1]) if lines else {"refused": last[:200]})
    print(line(row), flush=True)
    return row


def unsolved(row: dict[str, Any]) -> bool:
    """Return whether a robot has a step that is not solved; one that MuJoCo loses may be lost."""
    lost = row["steps"] < STEPS
    texts = [row["status"][dtype] for dtype in ("float64", "float32")]
    return any(text and not (lost and text.startswith("NONFINITE")) for text in texts)


def earlier(row: dict[str, Any]) -> bool:
    """Return whether a robot parts from MuJoCo earlier than the twin does."""
    return any(row[f"here {b}"] < row[f"twin {b}"] for b in ("1e-6", "1e-3"))


def line(row: dict[str, Any]) -> str:
    """Return the lines of a robot."""
    if "refused" in row:
        return f"{row['robot'][-50:]:50} not compared: {row['refused']}"
    own, error = row["matrices"]["own"], row["matrices"]["error"]
    pairs = ", ".join(f"{e:.0e} ({o:.0e})" for e, o in zip(error, own, strict=True))
    bad = "; ".join(f"{k} {row['status'][k]}" for k in ("float64", "float32") if row["status"][k])
    fewer = f", {row['pairs_left_out']} pairs left out" if row["pairs_left_out"] else ""
    asked = "" if row["file"] == row["integrator"] else f" for {row['file']}"
    text = (
        f"{row['robot'][-50:]:50} nv {row['nv']:3} {row['integrator']}{asked}, "
        f"{row['contacts']} contacts, "
        f"1e-6: {row['here 1e-6']} (twin {row['twin 1e-6']}), "
        f"1e-3: {row['here 1e-3']} (twin {row['twin 1e-3']}) of {row['steps']}; same contacts "
        f"{row['worst_same']:.0e}; A, B {pairs or 'none'}{fewer}{'; ' + bad if bad else ''}"
    )
    if earlier(row):
        what = "; ".join(
            f"{k} ({n}{f', {x:.0e}' if x else ''})" for k, (n, x) in row["reasons"].items()
        )
        text += f"\n    {row['differ']} steps differ, first {row['first']}: {what}"
    return text


def summary(rows: list[dict[str, Any]]) -> str:
    """Return the figures of all robots together."""
    done = [row for row in rows if "refused" not in row]
    late = [row for row in done if earlier(row)]
    named = [row for row in late if "same contacts" not in row["reasons"]]
    whole = [row for row in done if row["here 1e-6"] >= row["steps"]]
    bad = [row["robot"] for row in done if unsolved(row)]
    lost = [row["robot"] for row in done if row["steps"] < STEPS]
    touched = sum(row["contacts"] > 0 for row in done)
    worst = max((row["worst_same"] for row in done), default=0.0)
    both = [(e, o) for row in done for e, o in zip(*row["matrices"].values(), strict=True)]
    off = sum(e > max(10 * o, 1e-6) for e, o in both)
    return (
        f"{len(done)} of {len(rows)} robots compared, {touched} with contacts; "
        f"{len(whole)} agree to 1e-6 to the end; "
        f"{len(done) - len(late)} as long as the twin; {len(late)} part earlier, {len(named)} of "
        f"them with other contact points only; worst step with the same contacts {worst:.0e}; "
        f"matrices off by more than ten times the error of differences: {off} of {len(both)}; "
        f"robots that MuJoCo loses: {len(lost)} {', '.join(lost)}; "
        f"robots with a step that is not solved: {len(bad)} {', '.join(bad)}"
    )


def main() -> int:
    """Print a line for each robot; return 1 where a step is not solved."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="robots whose package or path has this word")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds of a robot")
    parser.add_argument("--out", type=Path, help="JSON file for the figures")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        path, fields = json.loads(given.worker)
        print(json.dumps(work(path, corpus_cache.Entry(*fields))))
        return 0
    entries = corpus_cache.read_list(given.only)
    corpus_cache.DEFAULT_CACHE.mkdir(parents=True, exist_ok=True)
    packages = sorted({(e.package, e.version) for e in entries})
    folders = {
        p: corpus_cache.fetch(p, version, corpus_cache.DEFAULT_CACHE) for p, version in packages
    }
    with ThreadPoolExecutor(given.jobs) as pool:
        rows = list(pool.map(lambda e: supervise(e, folders[e.package], given.timeout), entries))
    print(summary(rows))
    if given.out:
        given.out.write_text(
            json.dumps({"provenance": provenance(), "rows": rows}, indent=1) + "\n"
        )
    return int(any(unsolved(row) for row in rows if "status" in row))


if __name__ == "__main__":
    sys.exit(main())
