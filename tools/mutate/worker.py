"""One process of tools/mutate/run.py: the tests, run under one mutant after the other.

It is started by that tool, collects the tests once, imports the mutated package, and takes turns
from a board (tools/mutate/board.py) until none is left.

    python -m tools.mutate.worker record PACKAGE BOARD INDEX TEST...
    python -m tools.mutate.worker judge PACKAGE BOARD INDEX TEST...
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from tools.mutate.board import Board

# seconds of the processor that a test may take: these, and its own time as often
COMPUTING = 20.0
UNKNOWN = 10.0  # seconds of a test that has not run yet


def use_package(folder: Path) -> list[Any]:
    """Make the mutated package the one that is imported; return its extensions."""
    # an editable installation answers for the package before the path is looked at
    sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in type(f).__module__]
    sys.path.insert(0, str(folder))
    import featherback

    if Path(featherback.__file__).parent.parent != folder:
        raise RuntimeError(f"{featherback.__file__} is imported instead of {folder}")
    names = sorted(file.name.split(".")[0] for file in (folder / "featherback").glob("_*.so"))
    return [importlib.import_module(f"featherback.{name}") for name in names]


class Runner:
    """A plugin of pytest whose test loop is one of this tool's two."""

    def __init__(self, job: str, extensions: list[Any], board: Board, index: int) -> None:
        """Keep what the loop needs.

        Args:
            job: "record" or "judge".
            extensions: modules that carry the switch.
            board: where turns are taken and one line goes for each test or mutant; for a judge, its
                plan has "tests": names and seconds; "turns": a mutant's number, its function and
                the numbers of the tests that reach it; and "past": by function, the names of those
                that noticed other mutants.
            index: of this process, by which its lines are known.
        """
        self.job = job
        self.extensions = extensions
        self.board = board
        self.index = index
        self.past: dict[str, Counter[str]] = defaultdict(Counter)
        self.noticed: set[int] = set()
        self.seconds: dict[str, float] = {}

    def switch(self, mutant: int, recording: bool = False) -> None:
        """Turn one mutant on, 0 for none."""
        for extension in self.extensions:
            extension.mutant(mutant, recording)

    def passes(self, item: pytest.Item) -> bool:
        """Run a test and tell whether it passed or was skipped."""
        if hasattr(item, "_initrequest"):
            item._initrequest()  # type: ignore[attr-defined]
        # a sign of life, and an end of this process if the test computes for ever
        os.utime(sys.stdout.fileno())
        limit = COMPUTING * (1 + self.seconds.get(item.nodeid, UNKNOWN))
        signal.setitimer(signal.ITIMER_PROF, limit)
        return not any(r.failed for r in runtestprotocol(item, log=False, nextitem=None))

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run this tool's loop in place of pytest's."""
        if self.job == "record":
            while (turn := self.board.take()) < len(session.items):
                self.record(session.items[turn])
        else:
            self.judge_all({item.nodeid: item for item in session.items})
        self.board.write(worker=self.index, done=len(session.items))
        return True

    def record(self, item: pytest.Item) -> None:
        """Run a test without a mutant; write its time and the guards that it passes."""
        self.switch(0, recording=True)
        begin = time.monotonic()
        passed = self.passes(item)
        seconds = time.monotonic() - begin
        found = [e.mutants_seen() for e in self.extensions]
        seen, idle = (sorted(set().union(*(f[k] for f in found))) for k in (0, 1))
        self.board.write(test=item.nodeid, passed=passed, seconds=seconds, seen=seen, idle=idle)

    def judge_all(self, items: dict[str, pytest.Item]) -> None:
        """Take turns, and run their tests, until none is left."""
        plan = self.board.plan()
        turns, self.seconds = plan["turns"], dict(plan["tests"])
        all_names = list(self.seconds)
        for function, killers in plan["past"].items():
            self.past[function].update(killers)
        while (turn := self.board.take()) < len(turns):
            self.learn()
            mutant, function, numbers = turns[turn]
            if mutant in self.noticed:
                continue
            # what noticed other mutants of the function is likely to notice this one
            past = self.past[function]
            ordered = sorted((all_names[k] for k in numbers), key=lambda n: -past[n])
            self.board.write(worker=self.index, begin=turn)
            killer = self.judge(mutant, [items[n] for n in ordered])
            entry = {"mutant": mutant, "function": function, "killer": killer}
            self.board.write(worker=self.index, turn=turn, **entry)

    def learn(self) -> None:
        """Read what all processes have found."""
        for line in self.board.read():
            if line.get("killer"):
                self.past[line["function"]].update([line["killer"]])
                self.noticed.add(line["mutant"])

    def judge(self, mutant: int, items: Sequence[pytest.Item]) -> str | None:
        """Run tests under a mutant until one fails; return which."""
        self.switch(mutant)
        killer = next((item.nodeid for item in items if not self.passes(item)), None)
        self.switch(0)
        return killer


def main(job: str, package: str, folder: str, index: str, tests: list[str]) -> int:
    """Run one job."""
    extensions = use_package(Path(package))
    options = ["-q", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:randomly"]
    # a mutant that is noticed needs no smallest example
    options += ["--hypothesis-profile", "unshrunk"]
    runner = Runner(job, extensions, Board(Path(folder)), int(index))
    return int(pytest.main([*options, *tests], plugins=[runner]))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:5], sys.argv[5:]))
