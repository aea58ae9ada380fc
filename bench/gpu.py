"""Measure what runs on a GPU, all of it in one command of about eight minutes.

    python bench/gpu.py                     writes bench/gpu.json and tests/cuda/last_run.json
    python bench/gpu.py --text              prints what docs/gpu.md says of them

First the tests that need a GPU, then speed, worlds that are not finite, the first gradient of a
fresh process, training, agreement with the processor, and at last robots with neural controllers
for the time that is left. Every part is written as soon as it is done, with what went wrong in its
place.

Each row is one scene, number type and number of worlds: the seconds of the kernels by the GPU's own
clock, and those of the whole call with NumPy's arrays, copies included. States are those after 100
steps of random controls on the processor, drawn once for 256 worlds and repeated; controls of the
timed steps are random in every world. The best of three runs counts.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import platform
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import gpu_checks
import gpu_degrave
import numpy as np
from gpu_scenes import Scene, arm, boxes, gymnasium_robots, laikago

import featherback as fb
from featherback.sim.bridge import bridge_of
from featherback.sim.cuda import CudaEngine

ROOT = Path(__file__).resolve().parents[1]
BASE, WARM, STEPS, RUNS = 256, 100, 20, 3
SWEEPS = 30
WORLDS = (1, 64, 1024, 8192, 65536, 262144)
TIMED = 65536
# seconds of the whole command where nothing else is said, and at most of the tests
BUDGET, TESTS = 480.0, 200.0
# what others reach on this GPU with a robot of this class, M steps/s; measured where they could be
# installed, stored here with the date
PEERS = {
    "MuJoCo Warp 4.0": {"forward_M": 21.0, "date": "2026-11"},
    "MJX 3.17": {"forward_M": 11.0, "gradient_M": 1.2, "date": "2026-11"},
}


def warmed_up(scene: Scene, options: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return BASE states after WARM steps of random controls on the processor."""
    sim = fb.Simulator(scene.model, threads=8, **options)
    start = np.tile(scene.start, (BASE, 1)), np.zeros((BASE, scene.model.nv))
    roll = sim.rollout(*start, scene.controls(BASE, WARM))
    return roll.q[:, -1], roll.v[:, -1]


def measure(
    scene: Scene, dtype: str, worlds: int, options: Mapping[str, Any], base: tuple[Any, Any]
) -> dict[str, Any]:
    """Return the figures of one row."""
    sim = fb.Simulator(scene.model, dtype=dtype, device="cuda", **options)
    engine: Any = bridge_of(sim).engine
    assert isinstance(engine, CudaEngine)
    repeat = np.arange(worlds) % BASE
    real = sim.dtype
    q, v = (np.ascontiguousarray(a[repeat], real) for a in base)
    u = scene.controls(min(worlds, 4096), STEPS).astype(real)
    u = np.ascontiguousarray(u[np.arange(worlds) % len(u)])
    lost = ""
    rows: dict[str, list[float]] = {"forward": [], "backward": [], "call": [], "vjp_call": []}
    for _ in range(RUNS if worlds > TIMED else RUNS + 1):
        begin = time.perf_counter()
        roll = sim.rollout(q, v, u)
        middle = time.perf_counter()
        lost = without_gradient(roll)
        end = time.perf_counter()
        rows["forward"].append(engine.seconds["rollout"])
        rows["backward"].append(engine.seconds["vjp"])
        rows["call"].append(middle - begin)
        rows["vjp_call"].append(end - middle)
    best = {name: min(times[1:]) for name, times in rows.items()}
    kernels, calls = ("forward", "backward"), ("call", "vjp_call")
    return {
        "robot": scene.name,
        "dtype": dtype,
        "worlds": worlds,
        "steps": STEPS,
        "scratch_bytes": engine.world_bytes,
        "local": not engine.uses_memory,
        **rates("", worlds, *(best[name] for name in kernels)),
        **rates("call_", worlds, *(best[name] for name in calls)),
        **on_tensors(sim, (q, v, u)),
        "seconds": best,
        "flagged": int(np.count_nonzero(roll.status)),
        "without_gradient": lost,
        "sweeps": float(np.mean(roll.sweeps)),
    }


def rates(kind: str, worlds: int, forward: float, backward: float) -> dict[str, float]:
    """Return millions of steps a second, without and with the gradient."""
    count = 1e-6 * worlds * STEPS
    return {
        f"forward_{kind}M": count / forward,
        f"gradient_{kind}M": count / (forward + backward),
    }


def on_tensors(sim: fb.Simulator, start: tuple[Any, Any, Any]) -> dict[str, float]:
    """Return the same for whole calls on torch's tensors, which stay on the GPU."""
    try:
        import torch
    except ImportError:
        return {}
    if not torch.cuda.is_available():
        return {}
    from featherback.sim import cuda_arrays

    q, v, u = (torch.from_numpy(a).to("cuda") for a in start)
    x = torch.zeros((len(q), STEPS + 1, cuda_arrays.state_size(sim)), dtype=q.dtype, device="cuda")
    x[:, 0, : q.shape[1]], x[:, 0, q.shape[1] : q.shape[1] + v.shape[1]] = q, v
    u_bar, best = torch.empty_like(u), [np.inf, np.inf]
    for _ in range(RUNS + 1):
        x_bar = torch.ones_like(x[:, -1])
        begin = time.perf_counter()
        cuda_arrays.rollout(sim, x, u)
        middle = time.perf_counter()
        with contextlib.suppress(fb.WorldError):
            cuda_arrays.vjp(sim, x, u, x_bar, u_bar)
        end = time.perf_counter()
        best = [min(best[0], middle - begin), min(best[1], end - middle)]
    return rates("tensor_", len(q), *best)


def without_gradient(roll: fb.Rollout) -> str:
    """Take the gradient of a loss on the last state; say which worlds have none."""
    try:
        roll.vjp(np.ones_like(roll.q[:, -1]), np.ones_like(roll.v[:, -1]))
    except fb.WorldError as error:
        return str(error)[:200]
    return ""


def environment() -> dict[str, Any]:
    """Return the GPU, its driver and the versions of what was run."""
    ask = "--query-gpu=name,driver_version,memory.total"
    smi = _said(["nvidia-smi", ask, "--format=csv,noheader"]).splitlines()
    packages = ("featherback", "numpy", "cuda-core", "cuda-bindings", "torch", "jax", "mujoco")
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "gpu": smi[0] if smi else "unknown",
        "commit": _said(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]) or "unknown",
        "python": platform.python_version(),
        "nvcc": (_said(["nvcc", "--version"]).splitlines() or ["not here"])[-1],
        "versions": {name: _version(name) for name in packages},
    }


def _said(command: list[str]) -> str:
    """Return what a program prints, empty where it is missing."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _version(package: str) -> str:
    """Return the version of a package, or that it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed as a package"


def plan() -> Iterator[tuple[Scene, str, int, str]]:
    """Yield scene, number type, worlds and options of all rows, the goals first."""
    robot, others = laikago(), gymnasium_robots()
    for dtype in ("float32", "float64"):
        yield robot, dtype, TIMED, "small"
    for scene in others:
        yield scene, "float32", TIMED, "small"
    yield robot, "float32", TIMED, "default"
    for worlds in WORLDS:
        if worlds != TIMED:
            yield robot, "float32", worlds, "small"
    for scene in others:
        yield scene, "float64", TIMED, "small"
    yield robot, "float64", 8192, "small"
    yield robot, "float64", TIMED, "default"
    yield arm(), "float32", 8192, "small"
    yield boxes(), "float32", 256, "small"


def measured(left: Callable[[], float]) -> Iterator[dict[str, Any]]:
    """Yield the figures of every row for which there is time; one that fails tells why."""
    bases: dict[tuple[str, str], Any] = {}
    for scene, dtype, worlds, kind in plan():
        options: dict[str, Any] = {"max_contacts": scene.contacts, "max_sweeps": SWEEPS}
        options = {} if kind == "default" else options
        row = {"robot": scene.name, "dtype": dtype, "worlds": worlds, "options": kind}
        if left() < 0:
            yield {**row, "error": "no time was left"}
            continue
        try:
            key = (scene.name, kind)
            if key not in bases:
                bases[key] = warmed_up(scene, options)
            yield {**measure(scene, dtype, worlds, options, bases[key]), "options": kind}
        except (fb.FeatherbackError, MemoryError, RuntimeError) as error:
            yield {**row, "error": str(error)[:200]}


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows as the table shows them: by scene, options, number type and worlds."""
    names = list(dict.fromkeys(row["robot"] for row in rows))
    own = {"small": 0, "default": 1}
    return sorted(
        rows,
        key=lambda r: (own[r["options"]], names.index(r["robot"]), r["dtype"], r["worlds"]),
    )


def text(result: Mapping[str, Any]) -> str:
    """Return the table of docs/gpu.md."""
    own = result["environment"]
    lines = [
        f"{own['gpu']}; {own['date']}, commit {own['commit']}; {STEPS} steps, M world-steps/s.",
        "",
        "| Robot | Number | Worlds | kernels: forward, with gradient | calls on tensors "
        "| calls on NumPy's arrays | scratch of a world |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        head = f"| {row['robot']} | {row['dtype']} | {row['worlds']:,} |".replace(",", " ")
        if "error" in row:
            lines.append(f"{head} {row['error']} | | | |")
            continue
        pairs = [_pair(row, kind) for kind in ("", "tensor_", "call_")]
        place = "" if row["local"] else ", in memory"
        place += ", default options" if row.get("options") == "default" else ""
        scratch = f"{row['scratch_bytes'] / 1024:.0f} kB{place}"
        lines.append(f"{head} {' | '.join(pairs)} | {scratch} |")
    return "\n".join(lines)


def _pair(row: Mapping[str, Any], kind: str) -> str:
    """Return the two figures of a column."""
    forward, both = row.get(f"forward_{kind}M"), row.get(f"gradient_{kind}M")
    if forward is None or both is None:
        return "-"
    return ", ".join(f"{x:.1f}" if x >= 0.1 else f"{x:.1g}" for x in (forward, both))


def more_text(result: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each of the other parts that were measured."""
    lines: list[str] = []
    nan, fresh = result.get("nan", {}), result.get("first_gradient", {})
    if "good_s" in nan:
        slower = 100 * (nan["bad_s"] / nan["good_s"] - 1)
        lines.append(
            "One percent of worlds that leave the finite numbers changes "
            f"{'no bit' if nan['same_bits'] else 'bits'} of the others, and takes "
            f"{slower:.1f} % more time."
        )
    if "process_s" in fresh:
        lines.append(f"The first gradient of a fresh process takes {fresh['process_s']:.1f} s.")
    train = result.get("training", {})
    if "total_s" in train:
        lines.append(
            f"Training a policy of 256 x 256 through {train['steps']} steps of {train['worlds']} "
            f"worlds: {train['total_s']:.2f} s an update, {train['physics_s']:.2f} s of it physics."
        )
    train = result.get("training_jax", {})
    if "total_s" in train:
        lines.append(
            f"The same by featherback.jax: {train['total_s']:.2f} s an update, "
            f"{train['first_s']:.1f} s the first one with its compilation."
        )
    mjx = result.get("mjx", {})
    if "forward_M" in mjx:
        line = f"MJX {mjx['version']} in the same run, Laikago, {mjx['worlds']:,} worlds: "
        line += f"{mjx['forward_M']:.2f} M steps/s"
        if "gradient_M" in mjx:
            line += f", {mjx['gradient_M']:.2f} for a gradient with one solver iteration"
        lines.append(line + ".")
    same = result.get("agreement", {})
    if "models" in same:
        lines.append(
            f"{same['models']} random scenes, {same['steps']} steps in float64: {same['chaotic']} "
            f"are chaotic, the others within {same['largest']:.0e} of the processor, gradients of "
            f"{same['gradient_steps']} steps within {same['largest_gradient']:.0e}."
        )
    return [*lines, *gpu_degrave.text(result.get("degrave", []))]


def measure_all(out: Path, parts: list[str], seconds: float) -> None:
    """Measure all parts within these seconds, about, and write each when it is done."""
    begin = time.monotonic()
    kept = gpu_degrave.SECONDS if "degrave" in parts else 0.0
    result: dict[str, Any] = {"environment": environment(), "peers": PEERS, "rows": []}

    def left(share: float = 1.0) -> float:
        return share * (seconds - kept) - (time.monotonic() - begin)

    def store(name: str, found: Any) -> None:
        result[name] = found
        result["seconds"] = time.monotonic() - begin
        out.write_text(json.dumps(result, indent=1) + "\n")
        print(name, found if name not in ("rows", "degrave") else found[-1:], flush=True)

    if "tests" in parts:
        store("tests", gpu_checks.run_tests(result["environment"], TESTS))
    if "rows" in parts:
        for row in measured(lambda: left(0.75)):
            result["rows"] = in_order([*result["rows"], row])
            print(row, flush=True)
            store("rows", result["rows"])
    robot = laikago()
    small = {"max_contacts": robot.contacts, "max_sweeps": SWEEPS}
    checks: dict[str, Callable[[], Any]] = {
        "mjx": gpu_checks.mjx,
        "nan": lambda: gpu_checks.bad_worlds(warmed_up(robot, small)),
        "first_gradient": gpu_checks.first_gradient,
        "training": gpu_checks.training,
        "training_jax": gpu_checks.training_jax,
        "agreement": lambda: gpu_checks.agreement(left),
    }
    for name, check in checks.items():
        if name not in parts:
            continue
        try:
            store(name, check())
        except (fb.FeatherbackError, MemoryError, RuntimeError) as error:
            store(name, {"error": str(error)[:200]})
    if "degrave" in parts:
        for row in gpu_degrave.apart(left() + kept):
            store("degrave", [*result.get("degrave", []), row])


PARTS = (
    *("tests", "rows", "mjx", "nan", "first_gradient", "training", "training_jax", "agreement"),
    "degrave",
)


def main() -> None:
    """Measure, or print what was measured."""
    parser = argparse.ArgumentParser(description="measure what runs on a GPU")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "gpu.json")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--seconds", type=float, default=BUDGET, help="that all parts may take")
    parser.add_argument("--text", action="store_true", help="print the page's part of --out")
    given = parser.parse_args()
    if not given.text:
        measure_all(given.out, given.parts, given.seconds)
    result = json.loads(given.out.read_text())
    print(text(result), *more_text(result), sep="\n")
    if gpu_checks.LAST_RUN.exists():
        print(gpu_checks.last_run(json.loads(gpu_checks.LAST_RUN.read_text())))


if __name__ == "__main__":
    main()
