"""Run the tests under the mutants, in processes of their own."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.mutate.sites import Site

WORKER = Path(__file__).with_name("worker.py")
# seconds a worker may be silent before its mutant counts as one that hangs: many, since a busy
# machine is no hang and tests that compute for ever are ended by the worker itself
PATIENCE = 3600.0
QUICK = 1.0  # seconds of a test that all mutants are tried on before slower ones are run


@dataclass(frozen=True)
class Test:
    """A test as it ran without a mutant.

    Attributes:
        name: pytest's name of it.
        passed: whether it passed.
        seconds: how long it took.
        seen: mutants that it comes across.
        idle: sites that it comes across and whose types leave nothing to mutate.
    """

    name: str
    passed: bool
    seconds: float
    seen: frozenset[int]
    idle: frozenset[int]


@dataclass
class Verdict:
    """What became of the mutants.

    Attributes:
        killers: by mutant, the test that failed, "crash" or "hang"; None where none did.
        unreached: mutants that no test comes across.
    """

    killers: dict[int, str | None] = field(default_factory=dict)
    unreached: set[int] = field(default_factory=set)

    def set(self, number: int, killer: str | None, reached: bool) -> None:
        """Keep what became of one."""
        self.killers[number] = killer
        if not reached:
            self.unreached.add(number)


@dataclass(frozen=True)
class Place:
    """Where a run happens: the package with the mutants, a folder for its files, and the tests."""

    package: Path
    folder: Path
    tests: tuple[str, ...]


def worker(job: str, place: Place, out: Path, plan: dict[str, Any]) -> subprocess.Popen:
    """Start a worker; what pytest prints goes to a file beside its lines."""
    command = [sys.executable, str(WORKER), job, str(place.package), str(out), *place.tests]
    storage = {"HYPOTHESIS_STORAGE_DIRECTORY": str(out.parent / "hypothesis")}
    with out.with_suffix(".log").open("a") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={**os.environ, **storage},
            text=True,
        )
    assert process.stdin is not None
    process.stdin.write(json.dumps(plan))
    process.stdin.close()
    return process


def lines_of(out: Path) -> list[dict[str, Any]]:
    """Return the complete lines that a worker has written."""
    if not out.exists():
        return []
    return [json.loads(line) for line in out.read_text().splitlines(keepends=True) if "\n" in line]


def record(place: Place, state: str | None) -> list[Test]:
    """Run every test once, without a mutant; what was recorded in the same state is taken as it is.

    Args:
        place: where the run happens.
        state: digest of sources and tests, None to run in any case.
    """
    out, kept = place.folder / "record.jsonl", place.folder / "record.sha256"
    if state is None or not kept.exists() or kept.read_text() != state:
        kept.unlink(missing_ok=True)
        out.unlink(missing_ok=True)
        process = worker("record", place, out, {})
        try:
            code = process.wait()
        finally:
            process.kill()
        if code not in (0, 1, 5):
            raise SystemExit(f"mutate: the tests did not run; see {out.with_suffix('.log')}.")
        kept.write_text(state or "")
    return [
        Test(
            line["test"],
            line["passed"],
            line["seconds"],
            frozenset(line["seen"]),
            frozenset(line["idle"]),
        )
        for line in lines_of(out)
    ]


# a mutant's number, its function, the names of tests, and whether these are its last ones
Turn = tuple[int, str, list[str], bool]


def turns_of(plan: list[tuple[int, str, list[Test]]]) -> list[Turn]:
    """Return the turns of some mutants: all on their quick tests, then those left on slow ones.

    Args:
        plan: for each mutant its number, its function and its tests.
    """
    quick: list[Turn] = []
    slow: list[Turn] = []
    for number, function, tests in plan:
        first = [t.name for t in tests if t.seconds <= QUICK]
        then = [t.name for t in tests if t.seconds > QUICK]
        if first:
            quick.append((number, function, first, not then))
        if then:
            slow.append((number, function, then, True))
    return quick + slow


def left_of(turns: list[Turn], lines: list[dict[str, Any]]) -> list[Turn]:
    """Return the turns that are still to come after a worker has written some lines."""
    done = {x["mutant"] for x in lines if "mutant" in x}
    waits = {x["waits"] for x in lines if "waits" in x}
    return [t for t in turns if t[0] not in done and (t[3] or t[0] not in waits)]


class Part:
    """The mutants that one worker judges, over the deaths of its processes."""

    def __init__(self, index: int, place: Place, plan: list[Turn]) -> None:
        """Start on a plan of turns (see turns_of)."""
        self.place = place
        self.out = place.folder / f"judge-{index}.jsonl"
        self.out.unlink(missing_ok=True)
        self.left = plan
        self.killers: dict[int, str | None] = {}
        self.process = self.start()
        self.heard = time.monotonic()
        self.sign = 0

    def start(self) -> subprocess.Popen:
        """Start a process on what is left."""
        return worker("judge", self.place, self.out, {"mutants": self.left})

    def poll(self) -> bool:
        """Read what is new; restart a process that died or is silent. Tell whether all is done."""
        sign = self.out.stat().st_mtime_ns if self.out.exists() else 0
        ended = self.process.poll() is not None
        if sign != self.sign:
            self.sign, self.heard = sign, time.monotonic()
        silent = time.monotonic() - self.heard > PATIENCE
        if silent and not ended:
            self.process.kill()
            self.process.wait()
        lines = lines_of(self.out)
        self.killers |= {x["mutant"]: x["killer"] for x in lines if "mutant" in x}
        if not (ended or silent):
            return False
        self.left = left_of(self.left, lines)
        if not self.left:
            return True
        current, *_, last = self.left[0]
        if {"begin": current, "last": last} not in lines:
            raise SystemExit(f"mutate: a worker did not start; see {self.out.with_suffix('.log')}.")
        timed_out = silent or self.process.returncode == -signal.SIGPROF
        self.killers[current] = "hang" if timed_out else "crash"
        self.left = [turn for turn in self.left if turn[0] != current]
        self.process, self.heard = self.start(), time.monotonic()
        return False


Note = Callable[[int, "str | None", bool], None]


def judge(
    place: Place,
    tests: list[Test],
    chosen: list[tuple[int, Site]],
    options: argparse.Namespace,
    note: Note,
) -> None:
    """Switch the mutants on, one at a time, and run the tests that come across them.

    Args:
        place: where the run happens.
        tests: what each test comes across.
        chosen: the mutants with their numbers.
        options: jobs and the time at which to stop.
        note: called with each number, the test that noticed it, and whether any came across it.
    """
    plan: list[tuple[int, str, list[Test]]] = []
    for number, site in chosen:
        able = [t for t in tests if t.passed and number in t.seen]
        able.sort(key=lambda t: t.seconds)
        if able:
            plan.append((number, site.function, able))
        else:
            note(number, None, False)
    jobs = options.jobs
    parts = [Part(i, place, turns_of(plan[i::jobs])) for i in range(jobs) if plan[i::jobs]]
    told: set[int] = set()
    try:
        done = False
        while not done and time.monotonic() < options.end:
            time.sleep(0.5)
            done = all([part.poll() for part in parts])
            before = len(told)
            for part in parts:
                for number in part.killers.keys() - told:
                    told.add(number)
                    note(number, part.killers[number], True)
            if len(told) // 100 > before // 100:
                print(f"  {len(told)} of {len(plan)} judged", flush=True)
    finally:
        for part in parts:
            part.process.kill()
            part.process.wait()
