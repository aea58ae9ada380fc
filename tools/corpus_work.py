"""Work on one robot of the corpus, in a process of its own: load, compare, step.

What is found is printed as lines of JSON, which `corpus.py` reads.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from tools.corpus_cache import Entry
from tools.corpus_steps import LAWS, floor_height, take_steps

DRAWS = 5  # random states per robot
EPSILON = 2.0**-52
KNOWN = 1e-10  # a dense solve that knows less than this is not asked for more [relative]
WIDE = 12.0  # joint ranges wider than this count as none [rad or m]


def say(stage: str, **facts: Any) -> None:
    """Print one line of JSON for the parent process."""
    print(json.dumps({"stage": stage, **facts}), flush=True)


def attempt(entry: Entry, path: str, on_unsupported: str, floor: float | None = None) -> Any:
    """Load one robot; the joints of a URDF get motors."""
    import featherback as fb

    return fb.load(
        path,
        on_unsupported=on_unsupported,
        format=entry.format,
        free_root=entry.free_root,
        motors=entry.format == "urdf",
        floor=floor,
    )


def load(entry: Entry, path: str) -> tuple[Any, str]:
    """Return a robot and how it was loaded, strictly where that is possible, and report it."""
    import featherback as fb

    for how in ("error", "drop"):
        try:
            model = attempt(entry, path, how)
        except fb.ModelError as error:
            say(how, sentence=str(error))
            continue
        dropped = [
            f"{notice.where}: {notice.message}"
            for notice in model.notices
            if notice.kind in ("dropped", "approximated")
        ]
        pairs = model.parsed.pairs.count
        # what loads strictly loads without its parts too
        for stage in dict.fromkeys((how, "drop")):
            say(stage, sentence="", dropped=dropped, nv=int(model.nv), pairs=pairs)
        return model, how
    return None, ""


def work(entry: Entry, path: str, seed: int, most: tuple[int, float]) -> None:
    """Do everything for one robot; without steps, load it only."""
    import featherback as fb

    model, how = load(entry, path)
    if model is None or not most[0]:
        return
    try:
        errors = compare(model, fb.Simulator(model), seed)
        say("compared", sentence="", errors=errors)
    except fb.FeatherbackError as error:
        say("compared", sentence=str(error))
    height = floor_height(model)
    if height is not None:
        model = attempt(entry, path, how, height)
    for law in LAWS:
        try:
            simulator = simulator_of(model, law)
        except fb.ModelError as error:
            say("refused", law=law, sentence=str(error))
            continue
        for run in take_steps(model, simulator, most, seed):
            say("steps", run=asdict(run))


def simulator_of(model: Any, law: str) -> Any:
    """Return a simulator under a law, with Euler's integrator where it lacks that of the file."""
    import featherback as fb

    try:
        return fb.Simulator(model, contact=law)
    except fb.ParameterError:
        return fb.Simulator(model, contact=law, integrator="euler")


def random_state(compiled: Any, rng: Any) -> tuple[Any, Any]:
    """Return a random ``q`` inside the joint ranges and a random ``v``."""
    import mujoco
    import numpy as np

    q = np.array(compiled.qpos0)
    mujoco.mj_integratePos(compiled, q, rng.uniform(-1.5, 1.5, compiled.nv), 1.0)
    for joint in range(compiled.njnt):
        if compiled.jnt_limited[joint] and compiled.jnt_type[joint] >= 2:
            low, high = compiled.jnt_range[joint]
            low, high = (low, high) if high - low < WIDE else (-WIDE / 2, WIDE / 2)
            q[compiled.jnt_qposadr[joint]] = rng.uniform(low, high)
    return q, rng.standard_normal(compiled.nv)


def reference(compiled: Any, q: Any, v: Any) -> tuple[Any, Any]:
    """Return M (armature included) and the bias force by MuJoCo."""
    import mujoco
    import numpy as np

    data = mujoco.MjData(compiled)
    data.qpos[:], data.qvel[:] = q, v
    mujoco.mj_forward(compiled, data)
    mass = np.zeros((compiled.nv, compiled.nv))
    for column in range(compiled.nv):
        mujoco.mj_mulM(compiled, data, mass[column], np.eye(compiled.nv)[column])
    return mass, np.array(data.qfrc_bias)


def compare(model: Any, simulator: Any, seed: int) -> dict[str, float]:
    """Return the worst relative errors over random states; each is relative to the largest entry.

    ``forward`` is compared with ``M^-1 (tau - bias)`` solved densely, as far as the condition of M
    lets that be known, and ``inverse`` is the torque that inverse dynamics gives back after
    forward dynamics, relative to the sum of the magnitudes
    of its terms, |M| |a| + |bias|: a massless root link lets large terms cancel. Where gravity and
    speed give no bias, its error is relative to 1e-6 of M.
    """
    import copy

    import mujoco
    import numpy as np

    compiled = copy.copy(model.mujoco)
    flags = mujoco.mjtDisableBit
    compiled.opt.disableflags |= int(flags.mjDSBL_CONTACT) | int(flags.mjDSBL_CONSTRAINT)
    rng = np.random.default_rng(seed)
    worst = dict.fromkeys(("M", "bias", "forward", "inverse"), 0.0)
    if compiled.nv == 0:
        return worst
    for _ in range(DRAWS):
        q, v = random_state(compiled, rng)
        mass, bias = reference(compiled, q, v)
        size = np.abs(mass).max()
        tau = rng.standard_normal(compiled.nv) * (np.abs(bias).max() + size)
        a = simulator.forward_dynamics(q, v, tau)
        back = simulator.inverse_dynamics(q, v, a)
        pairs = {
            "M": (simulator.mass_matrix(q), mass),
            "bias": (simulator.bias(q, v), bias),
            "forward": (a, np.linalg.solve(mass, tau - bias)),
            "inverse": (back, tau),
        }
        for name, (ours, theirs) in pairs.items():
            scale = np.abs(theirs).max() + (1e-6 * size if name == "bias" else 0.0)
            if name == "forward":
                scale *= max(1.0, np.linalg.cond(mass) * EPSILON / KNOWN)
            if name == "inverse":
                scale = (np.abs(mass) @ np.abs(a) + np.abs(bias)).max()
            error = np.abs(np.asarray(ours) - theirs).max() / scale
            worst[name] = max(worst[name], float(error)) if np.isfinite(error) else float("inf")
    return worst


if __name__ == "__main__":
    given, file, seed, most = json.loads(sys.argv[1])
    work(Entry(**given), file, seed, most)
