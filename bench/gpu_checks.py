"""What bench/gpu.py shows besides speed: tests, agreement, worlds that are not finite, training."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as tree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from gpu_scenes import laikago

import featherback as fb
from featherback.models.laikago import laikago_xml
from featherback.sim.bridge import bridge_of

ROOT = Path(__file__).resolve().parents[1]
LAST_RUN = ROOT / "tests" / "cuda" / "last_run.json"
# a start that is moved by this much may end so far away: the motion is not chaotic
MOVED, GROWTH = 1e-12, 1e3

FRESH = """
import time
begin = time.perf_counter()
import numpy as np, featherback as fb
model = fb.models.laikago()
q, v = model.keyframe("stand")
sim = fb.Simulator(model, dtype="float32", device="cuda", max_contacts=8, max_sweeps=30)
q, v = (np.tile(a, (1024, 1)) for a in (q, v))
roll = sim.rollout(q, v, np.tile(q[0, 7:], (20, 1)))
roll.vjp(np.ones_like(roll.q), np.ones_like(roll.v))
print(time.perf_counter() - begin)
"""


def run_tests(environment: dict[str, Any], limit: float) -> dict[str, Any]:
    """Run the tests that need a GPU; store and return date, commit and counts."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-m", "gpu", "tests/cuda", "-q"]
        try:
            subprocess.run([*command, f"--junitxml={report}"], cwd=ROOT, timeout=limit, check=False)
            cases = list(tree.parse(report).getroot().iter("testcase"))
        except (subprocess.TimeoutExpired, OSError, tree.ParseError) as error:
            return {"error": f"the tests gave no report: {error}"}
    kinds = ("failure", "error", "skipped")
    bad = {kind: [c.get("name") for c in cases if c.find(kind) is not None] for kind in kinds}
    found = {
        "date": environment["date"],
        "commit": environment["commit"],
        "gpu": environment["gpu"],
        "command": "pytest -m gpu tests/cuda",
        "passed": len(cases) - sum(len(names) for names in bad.values()),
        "failed": [*bad["failure"], *bad["error"]],
        "skipped": bad["skipped"],
    }
    # where all are skipped there is no GPU
    if found["passed"] or found["failed"]:
        LAST_RUN.write_text(json.dumps(found, indent=1) + "\n")
    return found


def last_run(found: dict[str, Any]) -> str:
    """Return the line about the last run of the tests."""
    counts = [f"{found['passed']} passed"]
    for kind in ("failed", "skipped"):
        if found[kind]:
            counts.append(f"{len(found[kind])} {kind} ({', '.join(found[kind])})")
    return (
        f"Last run: {found['date']}, commit {found['commit']}, {found['gpu'].split(',')[0]}: "
        f"{', '.join(counts)}."
    )


def agreement(
    left: Callable[[], float], models: int = 100, steps: int = 1000, back: int = 200
) -> dict[str, Any]:
    """Compare float64 with the processor's in random scenes, as many as there is time for.

    A motion is chaotic where the processor's own, from a start that is moved by 1e-12, ends more
    than 1e-9 away: such a scene is counted and not compared. Gradients are those of the first
    `back` steps.
    """
    sys.path.insert(0, str(ROOT))
    from tests.property.random_models import random_contact_scene, random_state

    worst, worst_bar, chaotic, done, flagged = 0.0, 0.0, 0, 0, 0
    above: list[int] = []
    for seed in range(models):
        if left() < 0:
            break
        rng = np.random.default_rng(seed)
        model = fb.load(random_contact_scene(rng), on_unsupported="drop")
        cpu, gpu = fb.Simulator(model), fb.Simulator(model, device="cuda")
        starts = [random_state(model, rng, spread=0.1) for _ in range(2)]
        q, v = (np.stack(part) for part in zip(*starts, strict=True))
        u = 0.3 * rng.normal(size=(2, steps, model.nu))
        want, moved = cpu.rollout(q, v, u), cpu.rollout(q, v + MOVED, u)
        got = gpu.rollout(q, v, u)
        done += 1
        flagged += int(np.count_nonzero(want.status != got.status))
        if not _relative(moved.q, want.q) < MOVED * GROWTH:
            chaotic += 1
            continue
        difference = _relative(got.q, want.q)
        worst = max(worst, difference)
        if difference > 1e-9:
            above.append(seed)
        a, b = (sim.rollout(q, v, u[:, :back]) for sim in (gpu, cpu))
        if not b.status.any():
            bars = np.ones_like(b.q), np.ones_like(b.v)
            x, y = a.vjp(*bars), b.vjp(*bars)
            worst_bar = max(worst_bar, _relative(x.v, y.v), _relative(x.u, y.u))
    return {
        "models": done,
        "steps": steps,
        "chaotic": chaotic,
        "largest": worst,
        "above_1e-9": above,
        "gradient_steps": back,
        "largest_gradient": worst_bar,
        "other_status": flagged,
    }


def _relative(a: Any, b: Any) -> float:
    """Return the largest difference as a share of the largest number of b."""
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-300)) if np.size(b) else 0.0


def mjx(worlds: int = 8192, limit: float = 120.0) -> dict[str, Any]:
    """Measure MJX on the same robot, where it is installed; gradients with one solver iteration."""
    own = {"JAX_PLATFORMS": "cuda", "MJX_WORLDS": str(worlds)}
    worker = ROOT / "bench" / "peers" / "mjx.py"
    try:
        run = subprocess.run(
            [sys.executable, str(worker)],
            input=laikago_xml(),
            env={**os.environ, **own},
            capture_output=True,
            text=True,
            check=False,
            timeout=limit,
        )
        said, wrong = run.stdout, run.stderr
    except subprocess.TimeoutExpired as error:
        told = error.stdout or b""
        said = told.decode() if isinstance(told, bytes) else told
        wrong = f"stopped after {limit:.0f} s"
    lines = said.strip().splitlines()
    if not lines:
        return {"error": (wrong.strip().splitlines() or ["no output"])[-1][:200]}
    row = json.loads(lines[-1])
    row["forward_M"] = 1 / row["step_us"]
    if "gradient_us" in row:
        row["gradient_M"] = 1 / row["gradient_us"]
    return row


def bad_worlds(base: tuple[Any, Any], worlds: int = 65536, runs: int = 7) -> dict[str, Any]:
    """Compare speed and bits of a batch with those where one world in a hundred is not finite."""
    scene = laikago()
    sim = fb.Simulator(
        scene.model, dtype="float32", device="cuda", max_contacts=scene.contacts, max_sweeps=30
    )
    engine: Any = bridge_of(sim).engine
    repeat = np.arange(worlds) % len(base[0])
    q, v = (np.ascontiguousarray(a[repeat], np.float32) for a in base)
    u = scene.controls(4096, 20).astype(np.float32)[np.arange(worlds) % 4096]
    bad = np.random.default_rng(1).permutation(worlds)[: worlds // 100]
    worse = v.copy()
    worse[bad] = np.nan
    rest = np.setdiff1d(np.arange(worlds), bad)
    seconds: dict[str, list[float]] = {"good": [], "bad": []}
    rolls: dict[str, Any] = {}
    # one after the other, so that both see the same clock of the GPU
    for _ in range(runs):
        for name, start in (("good", v), ("bad", worse)):
            rolls[name] = sim.rollout(q, start, u)
            seconds[name].append(engine.seconds["rollout"])
    good, other = (min(times[1:]) for times in seconds.values())
    return {
        "nan_share": len(bad) / worlds,
        "good_s": good,
        "bad_s": other,
        "slower": other / good - 1,
        "same_bits": bool(np.array_equal(rolls["good"].q[rest], rolls["bad"].q[rest])),
        "flagged": int(np.count_nonzero(rolls["bad"].status)),
    }


def first_gradient() -> dict[str, Any]:
    """Return the seconds from the start of a process to its first gradient of 1024 worlds."""
    begin = time.perf_counter()
    run = subprocess.run(
        [sys.executable, "-c", FRESH], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if run.returncode:
        return {"error": (run.stderr.strip().splitlines() or ["no output"])[-1]}
    own = float(run.stdout.split()[-1])
    return {"process_s": time.perf_counter() - begin, "imports_and_gradient_s": own}


def training(worlds: int = 4096, steps: int = 32, updates: int = 4) -> dict[str, Any]:
    """Train a policy through the steps without leaving the GPU; say what takes the time."""
    try:
        import torch
    except ImportError:
        return {"error": "torch is not installed"}
    if not torch.cuda.is_available():
        return {"error": "torch has no CUDA here"}
    import featherback.torch as fbt

    scene = laikago()
    options: dict[str, Any] = {"max_contacts": scene.contacts, "max_sweeps": 30}
    sim = fb.Simulator(scene.model, dtype="float32", device="cuda", **options)
    engine: Any = bridge_of(sim).engine
    like: Any = {"dtype": torch.float32, "device": "cuda"}
    q = torch.tensor(np.tile(scene.start, (worlds, 1)), **like)
    v, pose = torch.zeros((worlds, scene.model.nv), **like), torch.tensor(scene.pose, **like)
    torch.manual_seed(0)
    width = scene.model.nq + scene.model.nv
    network = torch.nn.Sequential(
        torch.nn.Linear(width, 256),
        torch.nn.Tanh(),
        torch.nn.Linear(256, 256),
        torch.nn.Tanh(),
        torch.nn.Linear(256, scene.model.nu),
    ).to("cuda")
    adam = torch.optim.Adam(network.parameters(), lr=1e-3)
    rows: list[dict[str, float]] = []

    def policy(q: Any, v: Any, t: int) -> Any:
        return pose + 0.1 * network(torch.cat([q, v], -1))

    for _ in range(updates):
        torch.cuda.synchronize()
        before, begin = dict(engine.total_seconds), time.perf_counter()
        loop = fbt.closed_loop(sim, policy, q, v, steps, weights=list(network.parameters()))
        loss = -loop.v[:, -1, 0].mean() + 0.01 * loop.v.square().mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        torch.cuda.synchronize()
        total = time.perf_counter() - begin
        physics = sum(engine.total_seconds.values()) - sum(before.values())
        rows.append({"total_s": total, "physics_s": physics, "loss": float(loss)})
    best = min(rows[1:], key=lambda row: row["total_s"])
    return {"worlds": worlds, "steps": steps, **best, "rest_s": best["total_s"] - best["physics_s"]}


def training_jax(worlds: int = 4096, steps: int = 32, updates: int = 4) -> dict[str, Any]:
    """Train the same policy by featherback.jax, all of an update compiled."""
    # JAX takes most of the memory otherwise, and scratch needs its own
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    try:
        import jax

        gpu = jax.devices("cuda")[0]
    except (ImportError, RuntimeError) as error:
        return {"error": f"JAX has no CUDA here: {error}"[:200]}
    import featherback.jax as fbj

    scene = laikago()
    options: dict[str, Any] = {"max_contacts": scene.contacts, "max_sweeps": 30}
    sim = fb.Simulator(scene.model, dtype="float32", device="cuda", **options)
    jnp, rng = jax.numpy, np.random.default_rng(0)
    sizes = (scene.model.nq + scene.model.nv, 256, 256, scene.model.nu)
    layers = [rng.normal(size=s) / np.sqrt(s[0]) for s in itertools.pairwise(sizes)]
    start = np.tile(scene.start, (worlds, 1)), np.zeros((worlds, scene.model.nv))
    given = [np.asarray(x, np.float32) for x in (*layers, *start)]
    *weights, q, v = jax.device_put(given, gpu)

    def loss(weights: Any, q: Any, v: Any) -> Any:
        def body(state: Any, _: Any) -> Any:
            x = jnp.concatenate(state, axis=1)
            for w in weights[:-1]:
                x = jnp.tanh(x @ w)
            control = scene.pose.astype(np.float32) + 0.1 * (x @ weights[-1])
            state = fbj.step(sim, *state, control)
            return state, state[1]

        _, moved = jax.lax.scan(body, (q, v), length=steps)
        return -moved[..., 0].mean() + 0.01 * jnp.square(moved).mean()

    @jax.jit
    def update(weights: Any, q: Any, v: Any) -> Any:
        value, bars = jax.value_and_grad(loss)(weights, q, v)
        return value, [w - 1e-3 * bar for w, bar in zip(weights, bars, strict=True)]

    rows: list[dict[str, float]] = []
    for _ in range(updates):
        begin = time.perf_counter()
        value, weights = jax.block_until_ready(update(weights, q, v))
        rows.append({"total_s": time.perf_counter() - begin, "loss": float(value)})
    best = min(rows[1:], key=lambda row: row["total_s"])
    return {"worlds": worlds, "steps": steps, "first_s": rows[0]["total_s"], **best}
