"""Load every robot of the corpus, compare its dynamics with MuJoCo's, step it, check gradients.

The robots are those of ``corpus.csv``, in the packages of others (``corpus_cache.py``). Each is
loaded in a process of its own, so that a crash or a hang is one row of the table; one without a
floor stands on a plane, and the joints of a URDF get motors. Exit status: 0 if all limits hold, 1
if not, 2 if a package is out of reach.

    python -m tools.corpus                     the whole table
    python -m tools.corpus --load-only         which robots load, and why others do not
    python -m tools.corpus --only gymnasium    rows whose package or path contains the word
    python -m tools.corpus --part 2/4          the second quarter of the rows
    python -m tools.corpus --resume rows.jsonl keep finished rows in a file, and go on from there
    python -m tools.corpus --report table.csv  the table as a file too
    python -m tools.corpus --download-only     fill the cache
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from threading import Lock

from tools.corpus_cache import DEFAULT_CACHE, LIST, Entry, fetch_all, locate, read_list
from tools.corpus_steps import Run
from tools.corpus_table import Row, accepted, summary, table, write_report

ROOT = Path(__file__).resolve().parents[1]


def supervise(entry: Entry, folder: Path, options: argparse.Namespace) -> Row:
    """Run the worker for one robot under a time limit and read what it said."""
    row = Row(entry)
    path = locate(folder, entry.path)
    if not path.exists():
        row.strict = row.drop = "the file is not in the package"
        row.missing = True
        return row
    steps = 0 if options.load_only else options.steps
    task = json.dumps([asdict(entry), str(path), options.seed, [steps, options.seconds]])
    # the worker runs in another folder, since MuJoCo writes its log where it is
    places = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    path_here = os.pathsep.join(str(Path(place).resolve()) for place in places)
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "tools.corpus_work", task]
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
            elif fact["stage"] == "refused":
                row.refused[fact["law"]] = fact["sentence"]
    row.strict = stages.get("error", {"sentence": ending or row.strict})["sentence"]
    row.drop = stages.get("drop", {"sentence": ending or row.drop})["sentence"]
    row.dropped = stages.get("drop", {}).get("dropped", [])
    row.nv = stages.get("drop", {}).get("nv", 0)
    row.pairs = stages.get("drop", {}).get("pairs", 0)
    row.compared = stages.get("compared", {"sentence": ending})["sentence"]
    row.errors = stages.get("compared", {}).get("errors", {})
    # where it was compared, an early end is that of the steps
    row.stopped = ending if "compared" in stages else ""


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE, help="folder for the packages")
    parser.add_argument("--only", default="", help="rows whose package or path contains this")
    parser.add_argument("--part", default="1/1", help="i/n: the i-th of n parts of the rows")
    parser.add_argument("--resume", type=Path, help="file that keeps finished rows")
    parser.add_argument("--load-only", action="store_true", help="load, and do nothing else")
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
    return parser.parse_args()


def part(entries: list[Entry], which: str) -> list[Entry]:
    """Return the i-th of n parts of a list, ``which`` being "i/n"; every n-th row is in it."""
    first, _, count = which.partition("/")
    return entries[int(first) - 1 :: int(count)]


def finished(file: Path | None) -> dict[tuple[str, str], Row]:
    """Return the rows that a file keeps, by package and path."""
    rows: dict[tuple[str, str], Row] = {}
    for line in file.read_text().splitlines() if file and file.exists() else ():
        facts = json.loads(line)
        entry, runs = Entry(**facts.pop("entry")), [Run(**run) for run in facts.pop("runs")]
        rows[entry.package, entry.path] = Row(entry, runs=runs, **facts)
    return rows


def run_all(entries: list[Entry], options: argparse.Namespace) -> list[Row]:
    """Return the rows of all robots; those that are finished already are read from their file."""
    folders, missing = fetch_all(entries, options.cache)
    done, lock = finished(options.resume), Lock()

    def one(entry: Entry) -> Row:
        row = done.get((entry.package, entry.path))
        if row is None and entry.package in missing:
            reason = missing[entry.package]
            return Row(entry, strict=reason, drop=reason, missing=True)
        if row is None:
            row = supervise(entry, folders[entry.package], options)
            if options.resume:
                with lock, options.resume.open("a") as file:
                    file.write(json.dumps(asdict(row)) + "\n")
        return row

    with ThreadPoolExecutor(options.jobs) as pool:
        return list(pool.map(one, entries))


def main() -> int:
    """Print the table; return 0 if all limits hold, 1 if not, 2 if a package is out of reach."""
    options = arguments()
    entries = part(read_list(options.only), options.part)
    if not entries:
        print(f"corpus: no row of {LIST.name} contains {options.only!r}; try a package name.")
        return 2
    options.cache = options.cache.expanduser().resolve()
    options.cache.mkdir(parents=True, exist_ok=True)
    if options.download_only:
        missing = fetch_all(entries, options.cache)[1]
    else:
        rows = run_all(entries, options)
        missing = {row.entry.package: row.strict for row in rows if row.missing}
        if options.report:
            names = ((row.entry.package, row.entry.path, row.nv, row.pairs) for row in rows)
            write_report(options.report, zip(names, (row.runs for row in rows), strict=True))
        print("\n".join([*table(rows, options.width), "", *summary(rows)]))
        print(f"seed {options.seed}")
    for reason in missing.values():
        print(f"corpus: {reason}; connect to a package index, or point --cache at a filled folder.")
    if missing or options.download_only:
        return 2 if missing else 0
    return 0 if accepted(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
