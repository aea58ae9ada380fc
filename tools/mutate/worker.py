"""One process of tools/mutate/run.py: the tests, run under one mutant after the other.

It is started by that tool, collects the tests once, and imports the mutated package.

    python tools/mutate/worker.py record PACKAGE OUT TEST...
    python tools/mutate/worker.py judge PACKAGE OUT TEST... < plan
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import pytest
from _pytest.runner import runtestprotocol

ROOT = Path(__file__).resolve().parents[2]
COMPUTING = 200.0  # seconds of the processor that a test may take


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

    def __init__(self, job: str, extensions: list[Any], out: TextIO, plan: dict[str, Any]) -> None:
        """Keep what the loop needs.

        Args:
            job: "record" or "judge".
            extensions: modules that carry the switch.
            out: where one line of JSON goes for each test or mutant.
            plan: for a judge, the turns: a mutant's number, its function, the names of tests that
                reach it, and whether these are its last.
        """
        self.job = job
        self.extensions = extensions
        self.out = out
        self.plan = plan
        self.past: dict[str, Counter[str]] = defaultdict(Counter)

    def switch(self, mutant: int, recording: bool = False) -> None:
        """Turn one mutant on, 0 for none."""
        for extension in self.extensions:
            extension.mutant(mutant, recording)

    def write(self, **entry: Any) -> None:
        """Write one line; it is there even if this process dies at the next test."""
        self.out.write(json.dumps(entry) + "\n")
        self.out.flush()

    def passes(self, item: pytest.Item) -> bool:
        """Run a test and tell whether it passed or was skipped."""
        if hasattr(item, "_initrequest"):
            item._initrequest()  # type: ignore[attr-defined]
        # a sign of life, and an end of this process if the test computes for ever
        os.utime(self.out.fileno())
        signal.setitimer(signal.ITIMER_PROF, COMPUTING)
        return not any(r.failed for r in runtestprotocol(item, log=False, nextitem=None))

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run this tool's loop in place of pytest's."""
        items = {item.nodeid: item for item in session.items}
        if self.job == "record":
            for name, item in items.items():
                self.record(name, item)
        else:
            noticed: set[int] = set()
            for mutant, function, names, last in self.plan["mutants"]:
                if mutant in noticed:
                    continue
                # what noticed other mutants of the function is likely to notice this one
                past = self.past[function]
                ordered = sorted(names, key=lambda n: -past[n])
                killer = self.judge(mutant, [items[n] for n in ordered], last)
                past.update([killer] if killer else [])
                noticed |= {mutant} if killer else set()
        return True

    def record(self, name: str, item: pytest.Item) -> None:
        """Run a test without a mutant; write its time and the guards that it passes."""
        self.switch(0, recording=True)
        begin = time.monotonic()
        passed = self.passes(item)
        seconds = time.monotonic() - begin
        found = [e.mutants_seen() for e in self.extensions]
        seen, idle = (sorted(set().union(*(f[k] for f in found))) for k in (0, 1))
        self.write(test=name, passed=passed, seconds=seconds, seen=seen, idle=idle)

    def judge(self, mutant: int, items: Sequence[pytest.Item], last: bool) -> str | None:
        """Run tests under a mutant until one fails; write which and return it."""
        self.write(begin=mutant, last=last)
        self.switch(mutant)
        killer = next((item.nodeid for item in items if not self.passes(item)), None)
        self.switch(0)
        if killer or last:
            self.write(mutant=mutant, killer=killer)
        else:
            self.write(waits=mutant)
        return killer


def main(job: str, package: str, out: str, tests: list[str]) -> int:
    """Run one job; a plan comes by standard input."""
    os.chdir(ROOT)
    extensions = use_package(Path(package))
    plan = json.load(sys.stdin) if job == "judge" else {}
    with Path(out).open("a") as file:
        options = ["-q", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:randomly"]
        # a mutant that is noticed needs no smallest example
        options += ["--hypothesis-profile", "unshrunk"]
        runner = Runner(job, extensions, file, plan)
        return int(pytest.main([*options, *tests], plugins=[runner]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]))
