"""Mutate the hand-written adjoints of core/ and see whether the tests notice.

Every mistake that tools/mutate_sites.py can make is written into one copy of the headers, each
behind a run-time switch; the copy is built once, lightly optimised. Each test of `make test` that
may notice is run once to see which mistakes it comes across; then the mistakes are switched on one
at a time and the tests that come across them are run until one fails. A mistake that none notices
is either equivalent, and listed with its reason in tools/mutate_equivalent.txt, or shows a test
that is missing. Those that are listed are not tried again unless asked for.

    python tools/mutate.py                        500 mutants, drawn with seed 0
    python tools/mutate.py --count 200 --seed 7   others
    python tools/mutate.py --all                  every mutant
    python tools/mutate.py --file contact.hpp     those of one header
    python tools/mutate.py --again                those that survived the last run
    python tools/mutate.py --all --equivalent     every mutant, those listed as equivalent too
    python tools/mutate.py --list                 name the mutants, build and run nothing
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from mutate_sites import HEADER, Site, all_sites, draw, guard

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "mutate"
SURVIVED = BUILD / "survived.txt"
WORKER = Path(__file__).parent / "mutate_worker.py"
EQUIVALENT = Path(__file__).parent / "mutate_equivalent.txt"
TESTS = ("tests/core", "tests/sim", "tests/property", "tests/physics")
PATIENCE = 600.0  # seconds a worker may be silent before its mutant counts as one that hangs

# what both extensions offer on top of their own
SWITCH = """
  m.def("mutant", [](int number, bool recording) {
    fb::mutant::chosen = number;
    fb::mutant::recording = recording;
  });
  m.def("mutants_seen", [] {
    std::vector<int> seen, idle;
    for (int k = 0; k < int(sizeof(fb::mutant::seen)); ++k) {
      if (fb::mutant::seen[k]) seen.push_back(k);
      if (fb::mutant::idle[k]) idle.push_back(k);
      fb::mutant::seen[k] = fb::mutant::idle[k] = 0;
    }
    return nanobind::make_tuple(seen, idle);
  });
"""


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


# ------------------------------------------------------------------------------- building


def write_sources(folder: Path, sites: list[Site]) -> None:
    """Write a copy of the sources to a folder, with all sites behind their switches."""
    for name in ("core", "bindings", "third_party"):
        shutil.copytree(ROOT / name, folder / name, dirs_exist_ok=True)
    for name in ("CMakeLists.txt", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    by_file: dict[str, list[tuple[int, Site]]] = defaultdict(list)
    for number, site in enumerate(sites, 1):
        by_file[site.file].append((number, site))
    for name, numbered in by_file.items():
        text = (ROOT / "core" / name).read_text()
        (folder / "core" / name).write_text(guard(text, numbered))
    (folder / "core" / "mutant.hpp").write_text(HEADER)
    scalar = folder / "core" / "scalar.hpp"
    head = '#pragma once\n#include "mutant.hpp"\n'
    scalar.write_text(scalar.read_text().replace("#pragma once\n", head, 1))
    for name in ("module.cpp", "ops.cpp"):
        file = folder / "bindings" / name
        before, module, after = file.read_text().partition("NB_MODULE(")
        first, brace, rest = after.partition("{\n")
        text = '#include "core/mutant.hpp"\n' + before + module + first + brace + SWITCH + rest
        file.write_text(text)


def tool(name: str) -> str | None:
    """Return the path of a build tool: beside this Python, or on the path."""
    return shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)


def build(folder: Path, sites: list[Site], jobs: int) -> Path:
    """Build the mutated package, unless it is there already; return the folder to import from."""
    package = folder / "package"
    kept = folder / "sources.sha256"
    write_sources(folder, sites)
    digest = hashlib.sha256()
    for file in sorted([*folder.glob("core/*"), *folder.glob("bindings/*")]):
        digest.update(file.read_bytes())
    shutil.copytree(
        ROOT / "src",
        package,
        dirs_exist_ok=True,
        ignore=lambda _, names: [n for n in names if n.endswith(".so") or n == "__pycache__"],
    )
    if kept.exists() and kept.read_text() == digest.hexdigest():
        return package
    cmake = tool("cmake")
    if cmake is None:
        raise SystemExit("mutate: there is no cmake here; install it, or run make mutate.")
    ninja = tool("ninja")
    configure = [cmake, "-S", folder, "-B", folder / "cmake", "-DFEATHERBACK_ORACLE=ON"]
    configure += ["-DFEATHERBACK_LIGHT=ON", f"-DPython_EXECUTABLE={sys.executable}"]
    configure += ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"] if ninja else []
    for command in (configure, [cmake, "--build", folder / "cmake", "--parallel", str(jobs)]):
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode:
            print((run.stdout + run.stderr)[-4000:])
            raise SystemExit("mutate: the mutated copy does not build; see the lines above.")
    for extension in (folder / "cmake").glob("_*.so"):
        shutil.copy(extension, package / "featherback" / extension.name)
    kept.write_text(digest.hexdigest())
    return package


# -------------------------------------------------------------------------------- running


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


def record(place: Place) -> list[Test]:
    """Run every test once, without a mutant."""
    out = place.folder / "record.jsonl"
    out.unlink(missing_ok=True)
    process = worker("record", place, out, {})
    if process.wait() not in (0, 1, 5):
        raise SystemExit(f"mutate: the tests did not run; see {out.with_suffix('.log')}.")
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


class Part:
    """The mutants that one worker judges, over the deaths of its processes."""

    def __init__(self, index: int, place: Place, plan: list[Any]) -> None:
        """Start on a plan: for each mutant its number, its function and the names of its tests."""
        self.place = place
        self.out = place.folder / f"judge-{index}.jsonl"
        self.out.unlink(missing_ok=True)
        self.left = plan
        self.killers: dict[int, str | None] = {}
        self.process = self.start()
        self.heard = time.monotonic()
        self.size = 0

    def start(self) -> subprocess.Popen:
        """Start a process on what is left."""
        return worker("judge", self.place, self.out, {"mutants": self.left})

    def poll(self) -> bool:
        """Read what is new; restart a process that died or is silent. Tell whether all is done."""
        size = self.out.stat().st_size if self.out.exists() else 0
        ended = self.process.poll() is not None
        if size != self.size:
            self.size, self.heard = size, time.monotonic()
        silent = time.monotonic() - self.heard > PATIENCE
        if silent and not ended:
            self.process.kill()
            self.process.wait()
        lines = lines_of(self.out)
        self.killers |= {x["mutant"]: x["killer"] for x in lines if "mutant" in x}
        if not (ended or silent):
            return False
        self.left = [entry for entry in self.left if entry[0] not in self.killers]
        if not self.left:
            return True
        current = self.left[0][0]
        if not any(line.get("begin") == current for line in lines):
            raise SystemExit(f"mutate: a worker did not start; see {self.out.with_suffix('.log')}.")
        self.killers[current] = "hang" if silent else "crash"
        self.left = self.left[1:]
        self.process, self.heard = self.start(), time.monotonic()
        return False


def judge(place: Place, tests: list[Test], chosen: list[tuple[int, Site]], jobs: int) -> Verdict:
    """Switch the mutants on, one at a time, and run the tests that come across them."""
    verdict = Verdict()
    plan: list[tuple[int, str, list[str]]] = []
    for number, site in chosen:
        able = [t for t in tests if t.passed and number in t.seen]
        if not able:
            verdict.unreached.add(number)
            verdict.killers[number] = None
            continue
        able.sort(key=lambda t: t.seconds)
        plan.append((number, site.function, [t.name for t in able]))
    parts = [Part(i, place, plan[i::jobs]) for i in range(jobs) if plan[i::jobs]]
    done = 0
    while not all([part.poll() for part in parts]):
        time.sleep(0.5)
        now = sum(len(part.killers) for part in parts)
        if now // 100 > done // 100:
            print(f"  {now} of {len(plan)} judged", flush=True)
        done = now
    for part in parts:
        verdict.killers |= part.killers
    return verdict


# ------------------------------------------------------------------------------ reporting


def read_equivalents(text: str) -> dict[str, str]:
    """Return the mutants listed as equivalent with their reasons.

    Args:
        text: lines of keys, each group followed by its reason, indented.
    """
    found: dict[str, str] = {}
    group: list[str] = []
    reason: list[str] = []
    for line in [*text.splitlines(), "end"]:
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith(" "):
            reason.append(line.strip())
            continue
        if reason:
            found |= dict.fromkeys(group, " ".join(reason))
            group, reason = [], []
        group.append(line.strip())
    return found


def report(
    sites: list[Site], chosen: list[tuple[int, Site]], verdict: Verdict, equivalents: dict[str, str]
) -> tuple[list[str], bool]:
    """Return the report's lines and whether all is well."""
    lines: list[str] = []
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for number, site in chosen:
        killer = verdict.killers.get(number)
        listed = site.key in equivalents
        state = "killed" if killer else "equivalent" if listed else "survived"
        counts[state] += 1
        by = killer or (
            equivalents[site.key]
            if listed
            else "no test comes across it"
            if number in verdict.unreached
            else "no test notices it"
        )
        line = (
            f"{site.file}:{site.line}: {site.function}: {site.kind}: {site.change}: {state}: {by}"
        )
        lines.append(line)
        if state == "survived":
            wrong.append(line)
        if killer and listed:
            wrong.append(f"{line} (listed as equivalent; take it off {EQUIVALENT.name})")
    known = {site.key for site in sites}
    wrong += [
        f"{EQUIVALENT.name}: there is no mutant {key}; take it off"
        for key in equivalents
        if key not in known
    ]
    kinds = Counter(site.kind for _, site in chosen)
    summary = ", ".join(f"{n} {state}" for state, n in sorted(counts.items()))
    wrong.append(f"mutate: {len(chosen)} of {len(sites)} mutants: {summary}")
    wrong.append("mutate: kinds: " + ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items())))
    return [*lines, *wrong], len(wrong) == 2


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=500, help="mutants to judge (500)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draw (0)")
    parser.add_argument("--all", action="store_true", help="judge every mutant")
    parser.add_argument("--file", help="judge every mutant of one header of core/")
    parser.add_argument("--again", action="store_true", help="judge what survived the last run")
    parser.add_argument("--equivalent", action="store_true", help="judge those listed too")
    parser.add_argument("--tests", nargs="+", default=TESTS, help=f"({' '.join(TESTS)})")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--list", action="store_true", help="name the mutants and stop")
    return parser.parse_args(arguments)


def select(sites: list[Site], options: argparse.Namespace) -> set[Site]:
    """Return the sites that the command line asks for."""
    if options.file:
        return {site for site in sites if site.file == options.file}
    if options.again:
        survived = set(SURVIVED.read_text().splitlines())
        return {site for site in sites if site.key in survived}
    return set(sites if options.all else draw(sites, options.count, options.seed))


def main(arguments: list[str]) -> int:
    """Run the tool; return 1 if a mutant survives that is not listed, or the list is wrong."""
    options = parse(arguments)
    sites = all_sites(ROOT / "core")
    drawn = select(sites, options)
    chosen = [(n, site) for n, site in enumerate(sites, 1) if site in drawn]
    if options.list:
        for _, site in chosen:
            print(f"{site.file}:{site.line}: {site.function}: {site.kind}: {site.change}")
        return 0
    BUILD.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    print(f"mutate: building a copy with {len(sites)} mutants", flush=True)
    package = build(BUILD, sites, options.jobs)
    print(f"mutate: built after {time.monotonic() - begin:.0f} s; running the tests", flush=True)
    place = Place(package, BUILD, tuple(options.tests))
    tests = record(place)
    failed = [t.name for t in tests if not t.passed]
    for name in failed:
        print(f"mutate: {name} fails without a mutant and is left out")
    print(f"mutate: {len(tests)} tests after {time.monotonic() - begin:.0f} s", flush=True)
    idle = frozenset().union(*(t.idle for t in tests)) - frozenset().union(*(t.seen for t in tests))
    chosen = [(n, site) for n, site in chosen if n not in idle]
    equivalents = read_equivalents(EQUIVALENT.read_text())
    tried = [(n, s) for n, s in chosen if options.equivalent or s.key not in equivalents]
    verdict = judge(place, tests, tried, options.jobs)
    lines, well = report(sites, chosen, verdict, equivalents)
    (BUILD / "report.txt").write_text("\n".join(lines) + "\n")
    survived = [site.key for number, site in tried if not verdict.killers[number]]
    SURVIVED.write_text("\n".join(survived) + "\n")
    print("\n".join(lines[len(chosen) :]))
    print(f"mutate: {time.monotonic() - begin:.0f} s; all of it in {BUILD / 'report.txt'}")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
