"""Run the tests under the mutants, in processes of their own."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.mutate.board import Board
from tools.mutate.build import ROOT
from tools.mutate.sites import Site

WORKER = "tools.mutate.worker"
# seconds a worker may neither print nor compute before its mutant counts as one that hangs; tests
# that compute for ever are ended by the worker itself
PATIENCE = 300.0
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


def worker(job: str, place: Place, board: Board, index: int) -> subprocess.Popen:
    """Start a worker; what pytest prints goes to a file in the board's folder."""
    module = [sys.executable, "-m", WORKER, job, str(place.package), str(board.folder), str(index)]
    more = {"HYPOTHESIS_STORAGE_DIRECTORY": str(place.folder / "hypothesis")}
    more |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with log_of(board, index).open("a") as log:
        return subprocess.Popen(
            [*module, *place.tests],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **more},
            cwd=ROOT,
        )


def log_of(board: Board, index: int) -> Path:
    """Return the file of what a worker prints."""
    return board.folder / f"worker-{index}.log"


def record(place: Place, state: str | None, jobs: int) -> list[Test]:
    """Run every test once, without a mutant; what was recorded in the same state is taken as it is.

    Args:
        place: where the run happens.
        state: digest of sources and tests, None to run in any case.
        jobs: processes.
    """
    folder, kept = place.folder / "record", place.folder / "record.sha256"
    if state is None or not kept.exists() or kept.read_text() != state:
        kept.unlink(missing_ok=True)
        board = Board.fresh(folder, {})
        processes = [worker("record", place, board, i) for i in range(jobs)]
        try:
            codes = [process.wait() for process in processes]
        finally:
            for process in processes:
                process.kill()
        for index, code in enumerate(codes):
            if code not in (0, 1, 5):
                raise SystemExit(f"mutate: the tests did not run; see {log_of(board, index)}.")
        kept.write_text(state or "")
    lines = [line for line in Board(folder).read() if "test" in line]
    return [
        Test(x["test"], x["passed"], x["seconds"], frozenset(x["seen"]), frozenset(x["idle"]))
        for x in sorted(lines, key=lambda x: x["test"])
    ]


# a mutant's number, its function and the names of tests
Turn = tuple[int, str, list[str]]


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
            quick.append((number, function, first))
        if then:
            slow.append((number, function, then))
    return quick + slow


class Tally:
    """What the lines of a board tell of its mutants."""

    def __init__(self, turns: list[Turn]) -> None:
        """Begin with turns of which none is over."""
        self.turns = turns
        self.open: dict[int, set[int]] = {}
        for turn, (mutant, *_) in enumerate(turns):
            self.open.setdefault(mutant, set()).add(turn)
        self.begun: dict[int, int] = {}
        self.done: set[int] = set()

    def read(self, lines: list[dict[str, Any]]) -> dict[int, str | None]:
        """Return the mutants whose verdict is in some lines, and the verdicts."""
        found: dict[int, str | None] = {}
        for line in lines:
            worker = line["worker"]
            if "done" in line:
                self.done.add(worker)
            elif "begin" in line:
                self.begun[worker] = line["begin"]
            else:
                self.begun.pop(worker, None)
                mutant = line["mutant"]
                left = self.open.get(mutant, set())
                left.discard(line["turn"])
                if mutant in self.open and (line["killer"] or not left):
                    found[mutant] = line["killer"]
                    del self.open[mutant]
        return found


def computed(process: int) -> int:
    """Return how long a process has computed, in ticks; 0 where it is over."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


class Seat:
    """The place of one worker, over the deaths of its processes."""

    def __init__(self, index: int, place: Place, board: Board) -> None:
        """Start a process."""
        self.index = index
        self.place = place
        self.board = board
        self.log = log_of(board, index)
        self.log.unlink(missing_ok=True)
        self.process = worker("judge", place, board, index)
        self.heard = time.monotonic()
        self.sign = (0, 0)

    def poll(self, tally: Tally, ended: bool) -> bool:
        """Start a process that died or is silent anew; tell whether all its turns are over.

        Args:
            tally: what is known of the mutants.
            ended: whether the process had ended before the last lines were read.
        """
        sign = self.log.stat().st_mtime_ns, computed(self.process.pid)
        if sign != self.sign:
            self.sign, self.heard = sign, time.monotonic()
        silent = time.monotonic() - self.heard > PATIENCE
        if not (ended or silent):
            return False
        if self.index in tally.done:
            return True
        if self.index not in tally.begun:
            raise SystemExit(f"mutate: a worker did not start; see {self.log}.")
        self.stop()
        timed_out = silent or self.process.returncode == -signal.SIGPROF
        turn = tally.begun[self.index]
        mutant, function, _ = tally.turns[turn]
        entry = {"mutant": mutant, "function": function, "killer": "hang" if timed_out else "crash"}
        self.board.write(worker=self.index, turn=turn, **entry)
        self.process = worker("judge", self.place, self.board, self.index)
        self.heard = time.monotonic()
        return False

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()


Note = Callable[[int, "str | None", bool], None]


def judge(
    place: Place,
    tests: list[Test],
    chosen: list[tuple[int, Site]],
    past: dict[str, list[str]],
    options: argparse.Namespace,
    note: Note,
) -> None:
    """Switch the mutants on, one at a time, and run the tests that come across them.

    Args:
        place: where the run happens.
        tests: what each test comes across.
        chosen: the mutants with their numbers.
        past: by function, the tests that noticed mutants of it before.
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
    turns = turns_of(plan)
    # tests by their number, since thousands of turns name hundreds of them
    number_of = {test.name: k for k, test in enumerate(tests)}
    shown = {
        "tests": [(test.name, test.seconds) for test in tests],
        "turns": [(m, f, [number_of[name] for name in names]) for m, f, names in turns],
        "past": past,
    }
    board = Board.fresh(place.folder / "judge", shown)
    tally = Tally(turns)
    seats = [Seat(i, place, board) for i in range(min(options.jobs, len(plan)))]
    told = 0
    try:
        done = False
        while not done and time.monotonic() < options.end:
            time.sleep(0.5)
            # whoever has ended has written its last line before
            ended = [seat.process.poll() is not None for seat in seats]
            verdicts = tally.read(board.read())
            for number, killer in verdicts.items():
                note(number, killer, True)
            done = all([seat.poll(tally, end) for end, seat in zip(ended, seats, strict=True)])
            if (told + len(verdicts)) // 100 > told // 100:
                print(f"  {told + len(verdicts)} of {len(plan)} judged", flush=True)
            told += len(verdicts)
    finally:
        for seat in seats:
            seat.stop()
