"""The Markdown tables of bench/tables.py, from its JSON file."""

from __future__ import annotations

from typing import Any

BEGIN, END = "<!-- begin: bench/tables.py -->", "<!-- end: bench/tables.py -->"


def _cell(row: dict[str, Any] | None, what: str) -> str:
    """Return one figure to three digits, or that there is none."""
    if row is None:
        return ""
    if "failed" in row:
        return "failed"
    value = row["memory_mb"] if what == "memory" else row[what]["ms"]
    return f"{value:.3g}" if value < 1000.0 else f"{value:.0f}"


def _table(title: str, what: str, rows: list[dict[str, Any]]) -> list[str]:
    """Return one table: a line for each tool, a column for each number of steps."""
    steps = list(dict.fromkeys(row["steps"] for row in rows))
    found = {(row["tool"], row["steps"]): row for row in rows}
    lines = [f"| {title} | " + " | ".join(map(str, steps)) + " |", "|---|" + "---|" * len(steps)]
    for tool in dict.fromkeys(row["tool"] for row in rows):
        cells = [_cell(found.get((tool, n)), what) for n in steps]
        lines.append(f"| {tool} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _ratios(rows: list[dict[str, Any]]) -> list[str]:
    """Return CppAD's figures over ours at the largest number of steps both have."""
    good = {(row["tool"], row["steps"]): row for row in rows if "failed" not in row}
    both = [n for tool, n in good if tool == "featherback" and ("CppAD", n) in good]
    if not both:
        return []
    mine, theirs = good["featherback", max(both)], good["CppAD", max(both)]
    times = {k: theirs[k]["ms"] / mine[k]["ms"] for k in ("forward", "backward")}
    share = mine["memory_mb"] / theirs["memory_mb"]
    return [
        f"CppAD against featherback at {max(both)} steps: forward {times['forward']:.3g}x, "
        f"backward {times['backward']:.3g}x; our memory is {100 * share:.2g} % of its.",
        "",
    ]


def _notes(result: dict[str, Any]) -> list[str]:
    """Return agreement, failures, and where the figures come from."""
    rows, facts, limits = result["rows"], result["provenance"], result["limits"]
    out: list[str] = []
    for tool in dict.fromkeys(row["tool"] for row in rows if "state_error" in row):
        of = [row for row in rows if row["tool"] == tool and "state_error" in row]
        if tool != "featherback":
            state, gradient = (max(r[k] for r in of) for k in ("state_error", "gradient_error"))
            out.append(
                f"- {tool}: last state within {state:.1e} of ours, gradient within {gradient:.1e} "
                "of its largest number."
            )
    out += [
        f"- {row['tool']} at {row['steps']} steps {row['failed']}."
        for row in rows
        if "failed" in row
    ]
    samples = [row[k] for row in rows if "failed" not in row for k in ("forward", "backward")]
    loaded = sum(sample["quiet"] == 0 for sample in samples)
    if loaded:
        out.append(
            f"- Taken on a loaded machine (load {facts['load'][0]:.0f} on {facts['cores']} cores): "
            f"{loaded} of {len(samples)} times have no sample without an interruption; they are "
            "medians of the shortest fifth of their processor times."
        )
    libraries = "".join(f", {tool} {name}" for tool, name in result["libraries"].items())
    out.append(
        f"- {facts['processor']}, {facts['cores']} cores; featherback {facts['featherback']} "
        f"({facts['isa']}), MuJoCo {facts['mujoco']}{libraries}; "
        f"commit {str(facts['commit'])[:12]}; fresh processes of each: {limits['rounds']}; "
        f"limits {limits['seconds']} s "
        f"and {limits['address_space_bytes'] / 2**30:.3g} GiB of address space."
    )
    return out


def tables(result: dict[str, Any]) -> str:
    """Return the tables and what must be read beside them."""
    rows = result["rows"]
    lines = _table("Peak MB above the idle process, by steps", "memory", rows)
    lines += _table("Forward, ms for each step, by steps", "forward", rows)
    lines += _table("Backward, ms for each step, by steps", "backward", rows)
    return "\n".join([*lines, *_ratios(rows), *_notes(result)])


def put_into(page: str, text: str) -> str:
    """Return a page with the text between its two marks replaced."""
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{text}\n{END}{after}"
