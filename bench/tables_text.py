"""The Markdown tables of bench/tables.py, from its JSON file."""

from __future__ import annotations

from typing import Any

BEGIN, END = "<!-- begin: bench/tables.py -->", "<!-- end: bench/tables.py -->"
KINDS = {
    "memory": "Peak MB above the idle process",
    "forward": "Forward, ms for each step",
    "backward": "Backward, ms for each step",
}
# times over ours: those of Qiao et al. (2021), and those expected of this core
CLAIMS = {"forward": ("8x to 22x", "30x"), "backward": ("1.9x to 4.0x", "10x")}
WORDS = {1: "one robot", 10: "ten robots"}


def _figure(value: float) -> str:
    """Return a number to three digits."""
    return f"{value:.3g}" if value < 1000.0 else f"{value:.0f}"


def failure(text: str) -> str:
    """Return in a word why a process has no figure."""
    if text.startswith("took over"):
        return "too long"
    if "alloc" in text or "emory" in text:
        return "out of memory"
    return "not tried" if text.startswith("not tried") else "failed"


def _value(row: dict[str, Any], what: str) -> float:
    """Return one figure of a row."""
    return row["memory_mb"] if what == "memory" else row[what]["ms"]


def _cell(row: dict[str, Any] | None, what: str) -> str:
    """Return one figure to three digits, or why there is none."""
    if row is None:
        return ""
    return failure(row["failed"]) if "failed" in row else _figure(_value(row, what))


def _table(what: str, robots: int, rows: list[dict[str, Any]]) -> list[str]:
    """Return one table: a line for each tool, a column for each number of steps."""
    steps = list(dict.fromkeys(row["steps"] for row in rows))
    found = {(row["tool"], row["steps"]): row for row in rows}
    title = f"{KINDS[what]}, {WORDS.get(robots, f'{robots} robots')}, by steps"
    lines = [f"| {title} | " + " | ".join(map(str, steps)) + " |", "|---|" + "---|" * len(steps)]
    for tool in dict.fromkeys(row["tool"] for row in rows):
        cells = [_cell(found.get((tool, n)), what) for n in steps]
        lines.append(f"| {tool} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _ratios(rows: list[dict[str, Any]]) -> list[str]:
    """Return each tool's figures over ours at the largest number of steps both have."""
    good = {(row["tool"], row["steps"]): row for row in rows if "failed" not in row}
    lines = [
        "| Against featherback | steps | forward | backward | both | our memory |",
        "|---|---|---|---|---|---|",
    ]
    for tool in dict.fromkeys(row["tool"] for row in rows if row["tool"] != "featherback"):
        both = [n for name, n in good if name == tool and ("featherback", n) in good]
        if not both:
            continue
        mine, theirs = good["featherback", max(both)], good[tool, max(both)]
        sums = [sum(row[k]["ms"] for k in ("forward", "backward")) for row in (theirs, mine)]
        times = [_value(theirs, k) / _value(mine, k) for k in ("forward", "backward")]
        share = 100.0 * mine["memory_mb"] / max(theirs["memory_mb"], 1e-3)
        figures = [*times, sums[0] / sums[1], share]
        cells = [f"{x:.2g}" if x < 100 else f"{x:.0f}" for x in figures]
        lines.append(f"| {tool} | {max(both)} | {'x | '.join(cells)} % |")
    return [*lines, ""] if len(lines) > 2 else []


def _claims(rows: list[dict[str, Any]]) -> list[str]:
    """Return the headline figures of Qiao et al. (2021), those expected here, and one robot's."""
    good = {(r["tool"], r["steps"]): r for r in rows if r["robots"] == 1 and "failed" not in r}
    steps = [n for tool, n in good if tool == "CppAD" and ("featherback", n) in good]
    if not steps:
        return []
    lines = [
        "| Against CppAD | Qiao et al. (2021), 50 to 5000 steps | expected here | here, "
        f"{min(steps)} to {max(steps)} steps |",
        "|---|---|---|---|",
    ]
    for what, (paper, wanted) in CLAIMS.items():
        pairs = [(good["CppAD", n], good["featherback", n]) for n in steps]
        times = [_value(theirs, what) / _value(mine, what) for theirs, mine in pairs]
        lines.append(f"| {what} | {paper} | {wanted} | {min(times):.0f}x to {max(times):.0f}x |")
    theirs, mine = good["CppAD", max(steps)], good["featherback", max(steps)]
    share = 100.0 * mine["memory_mb"] / theirs["memory_mb"]
    lines.append(f"| memory at {max(steps)} steps | 1 % | under 1 % | {share:.2g} % |")
    return [*lines, ""]


def _each_robot(rows: list[dict[str, Any]]) -> list[str]:
    """Return our times of one robot among several, beside those of one alone."""
    good = [row for row in rows if row["tool"] == "featherback" and "failed" not in row]
    mine = {(row["robots"], row["steps"]): row for row in good}
    pairs = [(n, k) for n, k in mine if n > 1 and (1, k) in mine]
    if not pairs:
        return []
    robots, steps = max(pairs)
    times = [
        f"{what} {1e3 * mine[robots, steps][what]['ms'] / robots:.3g} and "
        f"{1e3 * mine[1, steps][what]['ms']:.3g} µs"
        for what in ("forward", "backward")
    ]
    return [
        f"featherback, {steps} steps, a robot among {robots} and one alone: {'; '.join(times)}.",
        "",
    ]


def _smaller(rows: list[dict[str, Any]]) -> list[str]:
    """Return where another tool has a smaller figure than ours."""
    good = {(row["robots"], row["tool"], row["steps"]): row for row in rows if "failed" not in row}
    found: dict[tuple[str, int, str], list[str]] = {}
    for (robots, tool, steps), row in good.items():
        mine = good.get((robots, "featherback", steps))
        for what in KINDS:
            if mine is not None and _value(row, what) < _value(mine, what):
                found.setdefault((what, robots, tool), []).append(str(steps))
    return [
        f"- Smaller than ours: {what} of {tool}, {WORDS.get(robots, robots)}, at "
        f"{', '.join(steps)} steps."
        for (what, robots, tool), steps in found.items()
    ]


def _smooth(found: dict[str, Any] | None) -> list[str]:
    """Return the table of calls on a robot in the air."""
    if found is None:
        return []
    lines = ["| One Laikago in the air, one call from Python | µs |", "|---|---|"]
    lines += [f"| `{name}` | {call['us']:.3g} |" for name, call in found["calls"].items()]
    return [
        *lines,
        "",
        f"Jacobians of the next velocity in positions, velocities and controls, ours and those "
        f"from Pinocchio's: within {found['error']:.1e} of their largest number.",
        "",
    ]


def _agreement(rows: list[dict[str, Any]]) -> list[str]:
    """Return how far each tool's states and gradients are from ours."""
    out: list[str] = []
    for tool in dict.fromkeys(row["tool"] for row in rows if "state_error" in row):
        of = [row for row in rows if row["tool"] == tool and "state_error" in row]
        if tool != "featherback":
            state, gradient = (max(r[k] for r in of) for k in ("state_error", "gradient_error"))
            out.append(
                f"- {tool}: last state within {state:.1e} of ours, gradient within {gradient:.1e} "
                "of its largest number."
            )
    return out


def _name(row: dict[str, Any]) -> str:
    """Return a tool and what it was asked for."""
    return f"{row['tool']}, {WORDS.get(row['robots'], row['robots'])}, {row['steps']} steps"


def _notes(result: dict[str, Any]) -> list[str]:
    """Return agreement, failures, and where the figures come from."""
    rows, facts, limits = result["rows"], result["provenance"], result["limits"]
    out = _smaller(rows) + _agreement(rows)
    out += [f"- {_name(row)}: {row['failed']}." for row in rows if "failed" in row]
    out += [f"- {_name(row)}: not finite." for row in rows if not row.get("finite", True)]
    for tool in dict.fromkeys(row["tool"] for row in rows if "compile_s" in row):
        times = [row["compile_s"] for row in rows if row["tool"] == tool and "compile_s" in row]
        ends = [f"{min(t):.3g} to {max(t):.3g} s" for t in zip(*times, strict=True)]
        out.append(f"- {tool} is compiled before: forward {ends[0]}, backward {ends[1]}.")
    out += [f"- {tool} was not there: {why}." for tool, why in result["missing"].items()]
    samples = [row[k] for row in rows if "failed" not in row for k in ("forward", "backward")]
    loaded = sum(sample["quiet"] == 0 for sample in samples)
    if loaded:
        out.append(
            f"- Taken on a loaded machine (load {facts['load'][0]:.0f} on {facts['cores']} cores): "
            f"{loaded} of {len(samples)} times have no sample without an interruption; they are "
            "medians of the shortest fifth of their processor times."
        )
    libraries = "".join(f", {tool} {name}" for tool, name in result["libraries"].items())
    commits = {
        WORDS.get(row["robots"], row["robots"]): str(row["commit"])[:12]
        for row in sorted(rows, key=lambda row: row["steps"])
    }
    named = ", ".join(f"{commit} ({robots})" for robots, commit in commits.items())
    out.append(
        f"- {facts['processor']}, {facts['cores']} cores, one of them used; featherback "
        f"{facts['featherback']} ({facts['isa']}), MuJoCo {facts['mujoco']}{libraries}; "
        f"`dt` {result['dt']:g} s; commits {named}; at most "
        f"{limits['rounds']} fresh processes of each; limits {limits['seconds']} s "
        f"and {limits['address_space_bytes'] / 2**30:.3g} GiB of address space."
    )
    return out


def merged(
    kept: list[dict[str, Any]], new: list[dict[str, Any]], tools: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Return saved rows with those that were measured anew in their positions, in order."""

    def position(row: dict[str, Any]) -> tuple[int, int, int]:
        return row["robots"], row["steps"], tools.index(row["tool"])

    rows = {position(row): row for row in kept} | {position(row): row for row in new}
    return [rows[key] for key in sorted(rows)]


def tables(result: dict[str, Any]) -> str:
    """Return the tables and what must be read beside them."""
    lines: list[str] = []
    for robots in dict.fromkeys(row["robots"] for row in result["rows"]):
        rows = [row for row in result["rows"] if row["robots"] == robots]
        for what in KINDS:
            lines += _table(what, robots, rows)
        lines += _ratios(rows)
    lines += _claims(result["rows"]) + _each_robot(result["rows"])
    return "\n".join([*lines, *_smooth(result["smooth"]), *_notes(result)])


def put_into(page: str, text: str) -> str:
    """Return a page with the text between its two marks replaced."""
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{text}\n{END}{after}"
