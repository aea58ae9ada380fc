"""Load mutated MJCF and URDF files: each must give a model or a ModelError, and nothing else.

Mutants are loaded in persistent worker processes, which die and hang without harm. Anything but
success or ModelError is saved with what is needed to repeat it. What happens inside MuJoCo's own
compiler is told apart by a marker and listed by itself.

    python -m tools.fuzz.models --count 20000 --seed 0
    python -m tools.fuzz.models --seed 0 --replay 1234     one mutant, in this process
"""

from __future__ import annotations

import argparse
import contextlib
import mmap
import multiprocessing
import os
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tools.fuzz.mutants import Mutant, mutate
from tools.fuzz.seeds import Seed, all_seeds

STAGES = ("idle", "load", "compile", "step")  # what a worker is doing, as one shared byte
MEMORY = 2 << 30  # what a worker may allocate on top of the interpreter [bytes]
RECYCLE = 2000  # mutants per worker process
STEP_NV = 300  # models with more degrees of freedom are loaded but not stepped
COMPILER_CALLS = {
    "MjSpec": ("from_string", "from_file", "compile", "to_xml"),
    "MjModel": ("from_xml_string", "from_xml_path"),
}


@dataclass
class Outcome:
    """What one mutant did: loaded, refused, or a finding with its details."""

    index: int
    kind: str
    detail: str = ""
    stage: str = ""


@dataclass
class Tally:
    """Counts of a run and everything that is neither success nor ModelError."""

    counts: Counter[str] = field(default_factory=Counter)
    lines: int = 0
    findings: list[Outcome] = field(default_factory=list)


# ----------------------------------------------------------------------- one mutant


def place(mutant: Mutant, folder: Path) -> str:
    """Write the mutant's files; return its path or its text, as it is to be loaded."""
    for name, data in mutant.files.items():
        (folder / name).write_bytes(data)
    path = folder / ("model.urdf" if mutant.format == "urdf" else "model.xml")
    path.write_bytes(mutant.data)
    if mutant.as_path or not mutant.data.lstrip().startswith(b"<"):
        return str(path)
    try:
        return mutant.data.decode()
    except UnicodeDecodeError:
        return str(path)


def load_and_step(mutant: Mutant, folder: Path, mark: Callable[[str], None]) -> Outcome:
    """Load one mutant and, if it loads, take three steps."""
    import featherback as fb

    try:
        mark("load")
        model = fb.load(
            place(mutant, folder),
            on_unsupported=mutant.on_unsupported,
            format=mutant.format,
            free_root=mutant.free_root,
            motors=mutant.motors,
        )
        mark("step")
        return step_three(mutant.index, model)
    except fb.ModelError as error:
        return Outcome(mutant.index, "refused", str(error))
    finally:
        mark("idle")


def step_three(index: int, model: Any) -> Outcome:
    """Roll out three steps: each must be finite or say in its status why not."""
    import numpy as np

    import featherback as fb

    if not hasattr(fb, "Simulator") or model.nv > STEP_NV:
        return Outcome(index, "loaded")
    roll = fb.Simulator(model).rollout(model.q0, model.v0, steps=3)
    finite = np.isfinite(roll.q).all() and np.isfinite(roll.v).all()
    if not finite and not np.any(roll.status):
        return Outcome(index, "silent", "non-finite state with status 0", "step")
    return Outcome(index, "loaded and stepped" if finite else "loaded, status set")


def examine(mutant: Mutant, folder: Path, mark: Callable[[str], None]) -> Outcome:
    """Return what a mutant did, with any other exception as a finding."""
    stage = "idle"

    def note(name: str) -> None:
        nonlocal stage
        stage = name if name != "idle" else stage
        mark(name)

    try:
        return load_and_step(mutant, folder, note)
    except MemoryError:
        return Outcome(mutant.index, "memory", traceback.format_exc(), stage)
    except Exception as error:
        return Outcome(mutant.index, type(error).__name__, traceback.format_exc(), stage)


# -------------------------------------------------------------------------- workers


def mark_compiler(mark: Callable[[str], None]) -> None:
    """Wrap MuJoCo's compiler calls so that the shared byte tells when one is running."""
    import mujoco

    def wrapped(call: Any) -> Callable[..., Any]:
        def inner(*args: Any, **options: Any) -> Any:
            mark("compile")
            try:
                return call(*args, **options)
            finally:
                mark("load")

        return inner

    for holder, names in COMPILER_CALLS.items():
        owner = getattr(mujoco, holder)
        for name in names:
            call = getattr(owner, name)
            static = not hasattr(call, "__get__") or name.startswith("from_")
            setattr(owner, name, staticmethod(wrapped(call)) if static else wrapped(call))


def limit_memory() -> None:
    """Bound what this process may allocate; the address sanitiser needs all it can get."""
    if "libasan" in Path("/proc/self/maps").read_text():
        return
    used = re.search(r"VmData:\s+(\d+) kB", Path("/proc/self/status").read_text())
    bound = MEMORY + 1024 * int(used.group(1) if used else 0)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, bound))


def serve(seeds: list[Seed], seed: int, pipe: Connection, stage: mmap.mmap, folder: str) -> None:
    """Answer each index from the pipe with an outcome, until the pipe closes."""
    os.chdir(folder)
    log = os.open("log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)

    def mark(name: str) -> None:
        stage[0] = STAGES.index(name)

    mark_compiler(mark)
    limit_memory()
    with contextlib.suppress(EOFError):
        while True:
            index = pipe.recv()
            os.ftruncate(log, 0)
            outcome = examine(mutate(seeds, seed, index), Path(folder), mark)
            peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            if outcome.kind != "memory" and peak > MEMORY:
                outcome = Outcome(index, "memory", f"{peak >> 20} MiB at the peak", "load")
            pipe.send(outcome.__dict__)


class Worker:
    """A forked process that loads mutants, and what it is doing now."""

    def __init__(self, seeds: list[Seed], seed: int) -> None:
        """Start the process."""
        self.folder = tempfile.TemporaryDirectory(prefix="fuzz-")
        self.stage = mmap.mmap(-1, 1)
        self.pipe, other = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("fork").Process(
            target=serve, args=(seeds, seed, other, self.stage, self.folder.name), daemon=True
        )
        self.process.start()
        other.close()
        self.index = -1
        self.since = 0.0
        self.served = 0

    def give(self, index: int) -> None:
        """Send one index."""
        self.index, self.since = index, time.monotonic()
        self.pipe.send(index)
        self.served += 1

    def stop(self) -> None:
        """End the process and remove its folder."""
        self.pipe.close()
        self.process.kill()
        self.process.join()
        self.folder.cleanup()

    def obituary(self, kind: str) -> Outcome:
        """Return the outcome of a mutant whose worker died or hung, and stop the worker."""
        stage = STAGES[self.stage[0]]
        self.process.join(0.2)
        log = Path(self.folder.name, "log.txt")
        said = log.read_text(errors="replace")[-4000:] if log.exists() else ""
        outcome = Outcome(self.index, kind, f"exit code {self.process.exitcode}\n{said}", stage)
        self.stop()
        return outcome


# --------------------------------------------------------------------------- parent


def collect(worker: Worker, limit: float) -> Outcome | None:
    """Return the worker's answer, its obituary, or nothing if it is still at work."""
    if worker.pipe.poll():
        try:
            return Outcome(**worker.pipe.recv())
        except (EOFError, ConnectionResetError):
            return worker.obituary("died")
    if time.monotonic() - worker.since > limit:
        return worker.obituary(f"took more than {limit:g} s")
    return None


def run(seeds: list[Seed], options: argparse.Namespace) -> Iterator[Outcome]:
    """Yield the outcome of every mutant."""
    indices = iter(range(options.start, options.start + options.count))
    workers: list[Worker] = []
    done = False
    while not done or workers:
        while not done and len(workers) < options.jobs:
            index = next(indices, None)
            if index is None:
                done = True
            else:
                workers.append(Worker(seeds, options.seed))
                workers[-1].give(index)
        wait([worker.pipe for worker in workers], timeout=0.1)
        for worker in list(workers):
            outcome = collect(worker, options.limit)
            if outcome is None:
                continue
            yield outcome
            alive = not worker.pipe.closed
            index = next(indices, None) if alive and worker.served < RECYCLE else None
            if index is None:
                workers.remove(worker)
                if alive:
                    worker.stop()
            else:
                worker.give(index)


def is_finding(outcome: Outcome) -> bool:
    """Return whether an outcome is neither success nor ModelError."""
    return not outcome.kind.startswith(("loaded", "refused"))


def save(outcome: Outcome, mutant: Mutant, seed: int, folder: Path) -> None:
    """Write a finding: the mutant, its files, and how it was loaded."""
    target = folder / f"{seed}-{outcome.index}"
    target.mkdir(parents=True, exist_ok=True)
    for name, data in {f"model.{mutant.format}": mutant.data, **mutant.files}.items():
        (target / name).write_bytes(data)
    facts = {key: value for key, value in mutant.__dict__.items() if key not in ("data", "files")}
    (target / "finding.txt").write_text(
        f"seed {seed}\n{outcome.kind} during {outcome.stage}\n{facts}\n\n{outcome.detail}\n"
    )


def last_line(detail: str) -> str:
    """Return the last line with words in it."""
    lines = [line.strip() for line in detail.splitlines() if line.strip()]
    return lines[-1][:160] if lines else ""


def report(tally: Tally, seconds: float, options: argparse.Namespace) -> int:
    """Print the counts and findings; return 1 if our own code has any."""
    total = sum(tally.counts.values())
    for kind, count in tally.counts.most_common():
        print(f"{count:8d}  {kind}")
    refused = max(tally.counts["refused"], 1)
    print(f"{tally.lines / refused:.1%} of the refusals name a line")
    theirs = [o for o in tally.findings if o.stage == "compile"]
    ours = [o for o in tally.findings if o.stage != "compile"]
    for title, findings in (("inside MuJoCo's compiler", theirs), ("findings", ours)):
        print(f"{title}: {len(findings)}")
        groups = Counter((o.kind, o.stage, last_line(o.detail)) for o in findings)
        for (kind, stage, line), count in groups.most_common(40):
            first = next(o.index for o in findings if (o.kind, last_line(o.detail)) == (kind, line))
            print(f"  {count} x {kind} during {stage}, first {first}: {line}")
    if tally.findings:
        print(f"saved in {options.out}")
    print(
        f"seed {options.seed}: {total} mutants in {seconds:.0f} s, {total / seconds:.0f} per second"
    )
    return 1 if ours else 0


def replay(seeds: list[Seed], options: argparse.Namespace) -> int:
    """Load one mutant in this process and print what happens."""
    mutant = mutate(seeds, options.seed, options.replay)
    print(f"{mutant.seed_name}: {', '.join(mutant.steps)}; {mutant.data[:300]!r}")
    with tempfile.TemporaryDirectory() as folder:
        outcome = examine(mutant, Path(folder), lambda stage: None)
    print(f"{outcome.kind}: {outcome.detail}")
    return 1 if is_finding(outcome) else 0


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=20_000, help="number of mutants")
    parser.add_argument("--seed", type=int, default=0, help="seed of the run")
    parser.add_argument("--start", type=int, default=0, help="first index")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="worker processes")
    parser.add_argument("--limit", type=float, default=5.0, help="seconds per mutant")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"), help="folder for findings")
    parser.add_argument("--replay", type=int, help="load one index in this process")
    return parser.parse_args()


def main() -> int:
    """Run the mutants; return 0 if each gave a model or a ModelError in our own code."""
    options = arguments()
    seeds = all_seeds()
    if options.replay is not None:
        return replay(seeds, options)
    # what workers would import one by one is imported once, before the forks
    import mujoco  # noqa: F401

    import featherback  # noqa: F401

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    tally, begin = Tally(), time.monotonic()
    for outcome in run(seeds, options):
        stage = f" during {outcome.stage}" if is_finding(outcome) else ""
        tally.counts[outcome.kind + stage] += 1
        tally.lines += outcome.kind == "refused" and bool(re.search(r":\d+: ", outcome.detail))
        if is_finding(outcome):
            tally.findings.append(outcome)
            save(outcome, mutate(seeds, options.seed, outcome.index), options.seed, options.out)
    return report(tally, time.monotonic() - begin, options)


if __name__ == "__main__":
    sys.exit(main())
