"""Mutate the hand-written adjoints and see whether the tests notice.

Every mistake that tools/mutate/sites.py can make is written into one copy of the headers, each
behind a run-time switch; the copy is built once, lightly optimised. Each test of `make test` that
may notice is run once to see which mistakes it comes across; then the mistakes are switched on one
at a time and the tests that come across them are run until one fails. A mistake that none notices
is either equivalent, and listed with its reason in tools/mutate/equivalent.txt, or shows a test
that is missing. Those that are listed are not tried again unless asked for.

    python -m tools.mutate.run                        500 mutants, drawn with seed 0
    python -m tools.mutate.run --count 200 --seed 7   others
    python -m tools.mutate.run --all                  every mutant
    python -m tools.mutate.run --all --resume         those without a verdict on the same text
    python -m tools.mutate.run --all --resume --minutes 30    as many as this time allows
    python -m tools.mutate.run --all --resume --keep  list functions without a gap
    python -m tools.mutate.run --file contact.hpp     those of headers whose path ends so
    python -m tools.mutate.run --again                those that survived the last run
    python -m tools.mutate.run --all --equivalent     every mutant, those listed as equivalent too
    python -m tools.mutate.run --list                 name the mutants, build and run nothing
    python -m tools.mutate.run --prepare              build, run the tests once, judge nothing

All that a run writes lies in one folder, build/mutate or that of --folder. One that is prepared, or
cut, can be copied to another machine and taken up there: nothing is built or run twice as long as
sources and tests are the same.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path

from tools.mutate.build import ROOT, build, digest_of, source_files
from tools.mutate.judge import Place, Test, Verdict, judge, record
from tools.mutate.report import EQUIVALENT, read_equivalents, report
from tools.mutate.sites import Site, all_sites, draw
from tools.mutate.verdicts import NOTICED, Verdicts

# what drives the steps, and the adjoints of the newest laws, have their verdicts first
FIRST = ("engine/", "core/solver/", "core/contact/solve.hpp", "core/dynamics/spin.hpp", "core/step")
TESTS = ("tests/core", "tests/sim", "tests/property", "tests/physics", "tests/reference")


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=500, help="mutants to judge (500)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draw (0)")
    parser.add_argument("--all", action="store_true", help="judge every mutant")
    parser.add_argument(
        "--file", nargs="+", help="judge every mutant of headers whose path ends so"
    )
    parser.add_argument("--again", action="store_true", help="judge what survived the last run")
    parser.add_argument("--resume", action="store_true", help="skip what has a verdict already")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after (never)")
    parser.add_argument("--keep", action="store_true", help=f"write {NOTICED.name}")
    parser.add_argument("--equivalent", action="store_true", help="judge those listed too")
    parser.add_argument("--tests", nargs="+", default=TESTS, help=f"({' '.join(TESTS)})")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "mutate", help="its files")
    parser.add_argument("--prepare", action="store_true", help="build and run the tests once")
    parser.add_argument("--list", action="store_true", help="name the mutants and stop")
    return parser.parse_args(arguments)


def select(sites: list[Site], options: argparse.Namespace) -> set[Site]:
    """Return the sites that the command line asks for."""
    if options.file:
        ends = tuple(f"/{name}" for name in options.file)
        return {site for site in sites if f"/{site.file}".endswith(ends)}
    if options.again:
        survived = set((options.folder / "survived.txt").read_text().splitlines())
        return {site for site in sites if site.key in survived}
    return set(sites if options.all else draw(sites, options.count, options.seed))


def state_of(tests: tuple[str, ...]) -> str:
    """Return a digest of all that a verdict depends on: sources, package and tests."""
    python = [f for name in ("src", *tests) for f in (ROOT / name).rglob("*.py")]
    return digest_of([ROOT / "CMakeLists.txt", *source_files(ROOT), *sorted(python)])


def open_verdicts(place: Place) -> Verdicts:
    """Return the verdicts of earlier runs, on this machine and on others."""
    return Verdicts(place.folder / "verdicts.jsonl", ROOT, state_of(place.tests), NOTICED)


def find_verdicts(
    place: Place, tests: list[Test], tried: list[tuple[int, Site]], options: argparse.Namespace
) -> Verdict:
    """Return what is known of the mutants, and judge the others as long as time allows."""
    store = open_verdicts(place)
    verdict = Verdict()
    left: list[tuple[int, Site]] = []
    for number, site in tried:
        known = store.known(site) if options.resume else None
        if known is None:
            left.append((number, site))
        else:
            verdict.set(number, known.killer, known.reached)
    if options.resume:
        print(f"mutate: {len(tried) - len(left)} of {len(tried)} have a verdict already")
    sites = dict(left)

    def note(number: int, killer: str | None, reached: bool) -> None:
        store.add(sites[number], killer, reached)
        verdict.set(number, killer, reached)

    left.sort(key=lambda x: not x[1].file.startswith(FIRST))
    judge(place, tests, left, store.past(), options, note)
    return verdict


def main(arguments: list[str]) -> int:
    """Run the tool; return 1 if a mutant survives that is not listed, or the list is wrong.

    A run that was cut short returns 2.
    """
    options = parse(arguments)
    sites = all_sites(ROOT)
    drawn = select(sites, options)
    chosen = [(n, site) for n, site in enumerate(sites, 1) if site in drawn]
    if options.list:
        for _, site in chosen:
            print(f"{site.file}:{site.line}: {site.function}: {site.kind}: {site.change}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options.folder = options.folder.resolve()
    options.folder.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    print(f"mutate: building a copy with {len(sites)} mutants", flush=True)
    package = build(options.folder, sites, options.jobs)
    print(f"mutate: built after {time.monotonic() - begin:.0f} s; running the tests", flush=True)
    place = Place(package, options.folder, tuple(options.tests))
    state = state_of(place.tests) if options.resume or options.prepare else None
    tests = record(place, state, options.jobs)
    for test in tests:
        if not test.passed:
            print(f"mutate: {test.name} fails without a mutant and is left out")
    print(f"mutate: {len(tests)} tests after {time.monotonic() - begin:.0f} s", flush=True)
    if options.prepare:
        return 0
    idle = frozenset().union(*(t.idle for t in tests)) - frozenset().union(*(t.seen for t in tests))
    chosen = [(n, site) for n, site in chosen if n not in idle]
    equivalents = read_equivalents(EQUIVALENT.read_text())
    tried = [(n, s) for n, s in chosen if options.equivalent or s.key not in equivalents]
    options.end = begin + 60 * options.minutes
    verdict = find_verdicts(place, tests, tried, options)
    left = [n for n, _ in tried if n not in verdict.killers]
    told = [(n, site) for n, site in chosen if n not in left]
    lines, well = report(sites, told, verdict, equivalents)
    (options.folder / "report.txt").write_text("\n".join(lines) + "\n")
    survived = [s.key for n, s in tried if n not in left and not verdict.killers[n]]
    (options.folder / "survived.txt").write_text("\n".join(survived) + "\n")
    print("\n".join(lines[len(told) :]))
    print(f"mutate: {time.monotonic() - begin:.0f} s; all of it in {options.folder / 'report.txt'}")
    if options.keep and options.all:
        open_verdicts(place).write_noticed(
            NOTICED, sites, {s for n, s in tried if n in left or not verdict.killers[n]}
        )
    if left:
        print(f"mutate: {len(left)} mutants have no verdict yet; go on with --resume.")
    return 2 if left else 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
