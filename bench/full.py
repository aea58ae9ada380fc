"""Run every measurement into one folder: JSON, Markdown and pictures; `featherback bench` is this.

    python bench/full.py --out results/bench
    python bench/full.py --quick --only budgets --only count
    python bench/full.py --out results/bench --docs

The parts are budgets (bench/run.py), tables (bench/tables.py), scaling (bench/scaling.py), stages
(bench/stages.py) and count (bench/count.py). A part that fails is named in the report and at the
end, and the others go on.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BENCH = ROOT / "bench"

# what a quick run of a part is given
SHORT: dict[str, list[str]] = {
    "budgets": ["--quick"],
    "tables": ["--steps", "50", "--rounds", "1"],
    "scaling": ["--quick"],
    "stages": ["--repeats", "30"],
    "count": [],
}
SCRIPTS = {
    "budgets": "run.py",
    "tables": "tables.py",
    "scaling": "scaling.py",
    "stages": "stages.py",
    "count": "count.py",
}


def run_part(name: str, quick: bool, out: Path) -> bool:
    """Run one part in a process of its own, its output shown and saved; return if it went well."""
    command = [sys.executable, str(BENCH / SCRIPTS[name]), "--out", str(out / f"{name}.json")]
    command += SHORT[name] if quick else []
    command += ["--plots", str(out)] if name == "scaling" else []
    print(f"== {name}: bench/{SCRIPTS[name]}", flush=True)
    start = time.perf_counter()
    with (out / f"{name}.log").open("w") as log:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                print(line, end="", flush=True)
                log.write(line)
    print(f"== {name}: {time.perf_counter() - start:.0f} s, exit code {process.returncode}\n")
    return process.returncode == 0


def draw_tables(file: Path, folder: Path) -> None:
    """Draw the figures of bench/tables.py into a folder."""
    command = [sys.executable, str(BENCH / "plots.py"), str(file), str(folder)]
    subprocess.run(command, check=False)


def _tables(saved: dict[str, Any]) -> str:
    from tables_text import tables

    robots = dict.fromkeys(row.get("robots", 1) for row in saved["rows"])
    pictures = "\n\n".join(f"![robots: {n}](tables_{n}.png)" for n in robots)
    return f"{pictures}\n\n{tables(saved)}"


def _scaling(saved: dict[str, Any]) -> str:
    from scaling_text import section

    return "\n\n".join(
        f"### {name}\n\n![{name}](scaling_{name}.png)\n\n{section(name, sweep)}"
        for name, sweep in saved.items()
    )


def _budgets(saved: dict[str, Any]) -> str:
    from speed_text import budgets

    return budgets(saved)


def _stages(saved: dict[str, Any]) -> str:
    from stages_text import tables

    return tables(saved)


def _count(saved: dict[str, Any]) -> str:
    from speed_text import instructions

    return f"{instructions(saved)}\n- {saved['verdict']}"


TEXTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "budgets": _budgets,
    "tables": _tables,
    "scaling": _scaling,
    "stages": _stages,
    "count": _count,
}


def write_report(out: Path, results: dict[str, bool]) -> Path:
    """Write what the JSON files of a folder say as one Markdown page."""
    parts = ["# Measurements"]
    for name, went_well in results.items():
        file = out / f"{name}.json"
        parts.append(f"## {name}")
        if not went_well:
            parts.append(f"bench/{SCRIPTS[name]} failed; {name}.log says why.")
        elif file.exists():
            parts.append(TEXTS[name](json.loads(file.read_text())))
        else:
            parts.append((out / f"{name}.log").read_text().strip())
    path = out / "report.md"
    path.write_text("\n\n".join(parts) + "\n")
    return path


def put_into_docs(name: str, out: Path) -> bool:
    """Store the JSON file of a part and renew the page that shows it; return if it went well."""
    command = [sys.executable, str(BENCH / SCRIPTS[name]), "--docs"]
    if name in ("tables", "stages"):
        shutil.copyfile(out / f"{name}.json", BENCH / f"{name}.json")
    elif name == "count":
        found = json.loads((out / "count.json").read_text())
        stored = {key: found[key] for key in ("isa", "python", "instructions")}
        (BENCH / "instructions.json").write_text(json.dumps(stored, indent=1) + "\n")
    else:
        command += ["--out", str(out / f"{name}.json")]
    if name == "tables":
        draw_tables(BENCH / "tables.json", ROOT / "docs")
    return subprocess.run(command, stdout=subprocess.DEVNULL).returncode == 0


def main(arguments: list[str] | None = None) -> int:
    """Run the parts that were asked for and write the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="rough figures in a few minutes")
    parser.add_argument("--only", action="append", choices=list(SCRIPTS), help="one part; again")
    parser.add_argument("--out", type=Path, default=Path("results") / "bench", help="folder")
    parser.add_argument("--docs", action="store_true", help="also renew docs/ and stored figures")
    given = parser.parse_args(arguments)
    if given.quick and given.docs:
        parser.error("--quick and --docs are both given; figures for docs/ need a whole run")
    try:
        given.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"{given.out} cannot be made ({error.strerror}); name another with --out")
    names = given.only or list(SCRIPTS)
    # figures of an earlier run must not pass for those of a part that fails now
    for name in names:
        (given.out / f"{name}.json").unlink(missing_ok=True)
    # the stages are compared with those of an earlier commit, which the stored file has
    if "stages" in names:
        shutil.copyfile(BENCH / "stages.json", given.out / "stages.json")
    results = {name: run_part(name, given.quick, given.out) for name in names}
    if results.get("tables"):
        draw_tables(given.out / "tables.json", given.out)
    print(f"report: {write_report(given.out, results)}")
    if given.docs:
        for name in (name for name in names if results[name]):
            has_figures = (given.out / f"{name}.json").exists()
            results[name] = not has_figures or put_into_docs(name, given.out)
    failed = [name for name, went_well in results.items() if not went_well]
    if failed:
        print(f"bench: failed: {', '.join(failed)}.", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
