"""The table of the corpus: what became of each robot, and the figures of all."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.corpus_cache import Entry
from tools.corpus_steps import COUNTED, LAWS, SLOW, Run

STRICT_SHARE = 0.95  # smallest share of robots that must load as they are
DYNAMICS_LIMIT = 1e-9  # largest relative error of M, bias and forward dynamics
INVERSE_LIMIT = 1e-10  # largest relative error of inverse after forward dynamics


@dataclass
class Row:
    """What became of one robot; empty sentences mean success.

    Attributes:
        entry: the robot.
        strict: why it does not load as it is.
        drop: why it does not load without what is not supported.
        dropped: what is left out then.
        errors: worst relative errors of its dynamics.
        compared: why these were not found.
        nv: its degrees of freedom.
        pairs: its pairs of geoms that may touch.
        runs: its steps from each pose under each law.
        refused: contact law -> why a simulator refuses the robot.
        stopped: why the steps ended early.
        missing: whether its file cannot be had.
    """

    entry: Entry
    strict: str = "not reached"
    drop: str = "not reached"
    dropped: list[str] = field(default_factory=list[str])
    errors: dict[str, float] = field(default_factory=dict[str, float])
    compared: str = ""
    nv: int = 0
    pairs: int = 0
    runs: list[Run] = field(default_factory=list[Run])
    refused: dict[str, str] = field(default_factory=dict[str, str])
    stopped: str = ""
    missing: bool = False


def outcome(row: Row) -> str:
    """Return loaded, dropped, refused or missing."""
    if row.missing:
        return "missing"
    if row.drop and row.strict:
        return "refused"
    return "loaded" if not row.strict else "dropped"


def short(sentence: str, width: int) -> str:
    """Return the sentence on one line of at most ``width`` characters."""
    line = " ".join(sentence.split())
    return line if len(line) <= width else line[: width - 3] + "..."


def table(rows: list[Row], width: int) -> Iterator[str]:
    """Yield the lines of the table."""
    header = f"{'robot':58} {'nv':>4} {'outcome':8} "
    yield header + " ".join(f"{name:>8}" for name in ("M", "bias", "forward", "inverse"))
    for row in rows:
        name = row.entry.package + ": " + "/".join(Path(row.entry.path).parts[-2:])
        figures = " ".join(
            f"{row.errors[k]:8.1e}" if k in row.errors else f"{'-':>8}"
            for k in ("M", "bias", "forward", "inverse")
        )
        yield f"{name[-58:]:58} {row.nv or '-':>4} {outcome(row):8} {figures}"
        if row.strict:
            yield f"    strict: {short(row.strict, width)}"
        if row.drop:
            yield f"    drop: {short(row.drop, width)}"
        elif row.strict:
            yield f"    left out or approximated: {len(row.dropped)}"
        if row.compared:
            yield f"    not compared: {short(row.compared, width)}"
        for law, sentence in row.refused.items():
            yield f"    {law}: {short(sentence, width)}"
        yield from (f"    {run}" for run in row.runs)
        if row.stopped:
            yield f"    not stepped to the end: {short(row.stopped, width)}"


def reasons(rows: list[Row]) -> Iterator[str]:
    """Yield why robots do not load strictly, or not under a law, and which."""
    found: dict[str, list[str]] = {}
    for row in rows:
        name = f"{row.entry.package}: {Path(row.entry.path).name}"
        for law, sentence in (("", row.strict), *row.refused.items()):
            anchors = dict.fromkeys(re.findall(r"docs/support\.md#([\w-]+)", sentence))
            for why in anchors or ([short(sentence, 100)] if sentence else []):
                found.setdefault(f"{law} {why}".strip(), []).append(name)
    for why, names in sorted(found.items(), key=lambda pair: -len(pair[1])):
        yield f"refused for {why}: {len(names)} ({', '.join(names)})"


def summary(rows: list[Row]) -> Iterator[str]:
    """Yield the figures per package, the refusals, the worst errors and the steps of each law."""
    for package in sorted({row.entry.package for row in rows}):
        mine = [outcome(row) for row in rows if row.entry.package == package]
        kinds = ("loaded", "dropped", "refused", "missing")
        counts = ", ".join(f"{mine.count(kind)} {kind}" for kind in kinds if kind in mine)
        yield f"{package}: {len(mine)} robots, {counts}"
    yield from reasons(rows)
    compared = [row for row in rows if row.errors]
    if compared:
        worst = {k: max(row.errors[k] for row in compared) for k in compared[0].errors}
        figures = ", ".join(f"{k} {value:.1e}" for k, value in worst.items())
        yield f"worst relative errors over {len(compared)} robots: {figures}"
    had = [row for row in rows if not row.missing]
    for law in LAWS:
        yield stepped([row.runs for row in rows], law)
        fine = sum(faultless(row, law) for row in had)
        yield (
            f"{law}: {fine} of {len(had)} robots ({fine / max(len(had), 1):.1%}) load strictly and "
            "take all steps without a fault"
        )
    yield f"{sum(bool(row.stopped) for row in rows)} robots ended early"
    strict, loaded = (
        sum(not row.strict for row in had),
        sum(outcome(row) != "refused" for row in had),
    )
    yield (
        f"{len(had)} of {len(rows)} robots can be had; {strict} load strictly "
        f"({strict / max(len(had), 1):.1%}), {loaded} with on_unsupported='drop'"
    )


def accepted(rows: list[Row]) -> bool:
    """Return whether shares and errors are within limits, steps solved and gradients right."""
    had = [row for row in rows if not row.missing]
    strict = sum(not row.strict for row in had)
    fine = all(
        value <= (INVERSE_LIMIT if name == "inverse" else DYNAMICS_LIMIT)
        for row in had
        for name, value in row.errors.items()
    )
    runs = [run for row in had for run in row.runs]
    solved = all(run.solved and not run.too_fast and not run.wrong for run in runs)
    ended = not any(row.stopped for row in had)
    return fine and solved and ended and strict >= STRICT_SHARE * len(had)


def faultless(row: Row, law: str) -> bool:
    """Return whether a robot loads strictly and takes all steps under a law without a fault."""
    runs = [run for run in row.runs if run.law == law]
    faults = (run.over or run.too_fast or run.wrong or not run.solved for run in runs)
    return bool(runs) and not row.strict and not row.stopped and not any(faults)


def stepped(robots: list[list[Run]], law: str) -> str:
    """Return the line that sums up the steps of all robots under a law."""
    robots = [[run for run in robot if run.law == law] for robot in robots]
    runs = [run for robot in robots for run in robot]
    counts = {name: sum(run.flagged[name] for run in runs) for name in COUNTED}
    flagged = sum(not all(run.solved for run in robot) for robot in robots)
    return (
        f"{law}: {sum(map(bool, robots))} robots, {len(runs)} starts, "
        f"{sum(run.steps for run in runs)} steps, "
        + ", ".join(f"{n} {name}" for name, n in counts.items())
        + f", largest residual {max((run.residual for run in runs), default=0.0):.1e}; "
        f"{flagged} robots not solved, MuJoCo gives up in "
        f"{sum(bool(run.peer_warnings) for run in runs)} starts, "
        f"{sum(run.over for run in runs)} starts out of time; "
        f"joints too fast in {sum(run.too_fast for run in runs)} starts; "
        f"slower than MuJoCo {sum(run.us > run.peer_us for run in runs)} starts, "
        f"{SLOW:g} times {sum(run.slow for run in runs)}; gradients of "
        f"{sum(run.lines > 0 for run in runs)} starts compared on {sum(run.lines for run in runs)} "
        f"lines, worst {max((run.gradient for run in runs), default=0.0):.1e}, "
        f"{sum(bool(run.wrong) for run in runs)} starts wrong"
    )


def write_report(path: Path, robots: Iterable[tuple[tuple[Any, ...], list[Run]]]) -> None:
    """Write a line for each start: package, path, dofs and pairs of its robot, and its figures."""
    flags = [name.lower() for name in COUNTED]
    head = ["package", "path", "nv", "pairs", "law", "pose", "steps", "over", *flags, "residual"]
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        last = [
            "speed",
            "peer_speed",
            "us",
            "peer_us",
            "rows",
            "peer_warnings",
            "lines",
            "gradient",
            "wrong",
        ]
        out.writerow([*head, *last, "unconverged_steps"])
        for robot, runs in robots:
            for run in runs:
                figures = [run.law, run.pose, run.steps, int(run.over), *run.flagged.values()]
                times = [f"{run.speed:.4g}", f"{run.peer_speed:.4g}", f"{run.us:.2f}"]
                times += [f"{run.peer_us:.2f}", run.rows, run.peer_warnings]
                times += [run.lines, f"{run.gradient:.2e}", run.wrong]
                where = " ".join(f"{k}:{x:.1e}" for k, x in run.where)
                out.writerow([*robot, *figures, f"{run.residual:.3e}", *times, where])
