"""`featherback run NAME`: run an experiment and print its result."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from featherback.errors import ParameterError
from featherback.experiments import names, run, run_seeds


def run_experiment(
    name: str,
    *,
    quick: bool,
    full: bool,
    seed: int | None,
    seeds: int | None,
    out: Path | None,
    resume: bool,
) -> None:
    """Run an experiment for one seed or several, and print figures, claims and files."""
    if seed is not None and seeds is not None:
        raise ParameterError(
            f"run {name}: --seed {seed} and --seeds {seeds} are both given; pass one of them."
        )
    folder = Path("runs") / name if out is None else out
    try:
        if seeds is not None:
            summary = run_seeds(name, seeds, quick=quick, full=full, out=folder, resume=resume)
            print_summary(summary, folder)
        else:
            content = run(name, seed=seed or 0, quick=quick, full=full, out=folder, resume=resume)
            print_result(content, folder)
    except KeyboardInterrupt:
        print(
            f"featherback: run {name}: interrupted; what there is was saved in {folder}: go on "
            "with the same command and --resume.",
            file=sys.stderr,
        )
        raise SystemExit(130) from None


def list_experiments() -> None:
    """Print the names that `featherback run` knows."""
    Console().print("\n".join(names()), highlight=False)


def print_result(content: dict[str, Any], folder: Path) -> None:
    """Print one result."""
    console = Console()
    console.print(f"{content['name']}, seed {content['seed']}: {content['summary']}")
    _print_table(console, ((name, _number(x)) for name, x in content["figures"].items()))
    claims = content["claims"]
    _print_table(console, ((_verdict(c["holds"]), c["claim"], _number(c["value"])) for c in claims))
    for note in content["notes"]:
        console.print(escape(note), highlight=False)
    for what, file in {"result": f"{content['name']}.json", **content["files"]}.items():
        console.print(f"{what}: {folder / file}", highlight=False, soft_wrap=True)


def print_summary(summary: dict[str, Any], folder: Path) -> None:
    """Print median and spread over seeds."""
    console = Console()
    console.print(f"{summary['name']}, {len(summary['seeds'])} seeds: median (minimum to maximum)")
    _print_table(console, ((name, _range(x)) for name, x in summary["figures"].items()))
    claims = summary["claims"]
    held = ((f"{c['holds']} of {c['of']}", c["claim"], _range(c)) for c in claims)
    _print_table(console, held)
    path = folder / f"{summary['name']}-seeds.json"
    console.print(f"summary: {path}", highlight=False, soft_wrap=True)


def _print_table(console: Console, rows: Iterable[tuple[str, ...]]) -> None:
    """Print rows of words and numbers, of which the last but one is plain text."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for *before, text, value in rows:
        table.add_row(*before, escape(text), value)
    console.print(table)


def _verdict(holds: bool | None) -> str:
    if holds is None:
        return "not judged"
    return "[green]holds[/]" if holds else "[red]does not hold[/]"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"


def _range(value: dict[str, Any]) -> str:
    return f"{_number(value['median'])} ({_number(value['min'])} to {_number(value['max'])})"
