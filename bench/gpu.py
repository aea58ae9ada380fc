"""Measure the jobs on a GPU: python bench/gpu.py --out bench/gpu.json, then --text for docs/gpu.md.

Each row is one robot, number type and number of worlds: the seconds of the kernels by the GPU's own
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
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

import featherback as fb
from featherback.sim.bridge import bridge_of
from featherback.sim.cuda import CudaEngine

ROOT = Path(__file__).resolve().parents[1]
SEED, BASE, WARM, STEPS, RUNS = 7, 256, 100, 20, 3
# a world has room for the contacts that the robot makes on the ground
ROOM = {"laikago": 8, "ant": 12, "humanoid": 16}
SWEEPS = 30
WORLDS = (1024, 8192, 65536, 262144)
TIMED = 65536


def models() -> dict[str, fb.Model]:
    """Return the robots: Laikago, and those of Gymnasium where it is installed."""
    found = {"laikago": fb.models.laikago()}
    try:
        import gymnasium
    except ImportError:
        return found
    folder = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
    for name in ("ant", "humanoid"):
        found[name] = fb.load(str(folder / f"{name}.xml"), on_unsupported="drop")
    return found


def random_controls(model: fb.Model, worlds: int, steps: int) -> Any:
    """Return controls: servo targets around the stand pose, or motors within a third of a unit."""
    rng = np.random.default_rng(SEED)
    noise = rng.uniform(-1.0, 1.0, (worlds, steps, model.nu))
    if model.name == "laikago":
        return model.keyframe("stand")[0][7:] + 0.2 * noise
    return 0.3 * noise


def warmed_up(model: fb.Model, options: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return BASE states after WARM steps of random controls on the processor."""
    sim = fb.Simulator(model, threads=8, **options)
    standing = model.name == "laikago"
    q = model.keyframe("stand")[0] if standing else model.q0
    start = np.tile(q, (BASE, 1)), np.zeros((BASE, model.nv))
    roll = sim.rollout(*start, random_controls(model, BASE, WARM))
    return roll.q[:, -1], roll.v[:, -1]


def measure(
    model: fb.Model, dtype: str, worlds: int, options: Mapping[str, Any], base: tuple[Any, Any]
) -> dict[str, Any]:
    """Return the figures of one row."""
    sim = fb.Simulator(model, dtype=dtype, device="cuda", **options)
    engine: Any = bridge_of(sim).engine
    assert isinstance(engine, CudaEngine)
    repeat = np.arange(worlds) % BASE
    real = sim.dtype
    q, v = (np.ascontiguousarray(a[repeat], real) for a in base)
    u = random_controls(model, min(worlds, 4096), STEPS).astype(real)
    u = np.ascontiguousarray(u[np.arange(worlds) % len(u)])
    lost = ""
    rows: dict[str, list[float]] = {"forward": [], "backward": [], "call": [], "vjp_call": []}
    for _ in range(RUNS + 1):
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
        "robot": model.name,
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
    packages = ("featherback", "numpy", "cuda-core", "cuda-bindings")
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


def rows(found: Mapping[str, fb.Model], worlds: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """Yield the figures of every robot; one that fails tells why."""
    for name, model in found.items():
        options = {"max_contacts": ROOM[name], "max_sweeps": SWEEPS}
        base = warmed_up(model, options)
        for dtype in ("float32", "float64"):
            for count in worlds if name == "laikago" else (TIMED,):
                try:
                    yield measure(model, dtype, count, options, base)
                except (fb.FeatherbackError, MemoryError) as error:
                    yield {"robot": name, "dtype": dtype, "worlds": count, "error": str(error)}


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
    return "-" if forward is None or both is None else f"{forward:.1f}, {both:.1f}"


def main() -> None:
    """Measure, or print the table of what was measured."""
    parser = argparse.ArgumentParser(description="measure the jobs on a GPU")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "gpu.json")
    parser.add_argument("--worlds", type=int, nargs="+", default=list(WORLDS))
    parser.add_argument("--text", action="store_true", help="print the table of --out")
    given = parser.parse_args()
    if not given.text:
        result: dict[str, Any] = {"environment": environment(), "rows": []}
        for row in rows(models(), tuple(given.worlds)):
            print(row, flush=True)
            result["rows"].append(row)
            given.out.write_text(json.dumps(result, indent=1) + "\n")
    print(text(json.loads(given.out.read_text())))


if __name__ == "__main__":
    main()
