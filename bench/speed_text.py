"""The figures of docs/speed.md, from the JSON files of bench/run.py and bench/count.py."""

from __future__ import annotations

from typing import Any

HEADER = ("row", "what", "ours", "MuJoCo", "figure", "must", "goal", "verdict")


def _value(value: float | None, unit: str, bound: str = "") -> str:
    """Return a number to three digits with its unit, after a word for a bound, or nothing."""
    if value is None:
        return ""
    return f"{bound}{value:.3g}" + (unit if unit in ("x", "") else f" {unit}")


def budgets(saved: dict[str, Any]) -> str:
    """Return the table of budgets, what was solved under it, and where it was measured."""
    lines = ["| " + " | ".join(HEADER) + " |", "|---" * len(HEADER) + "|"]
    for row in saved["rows"]:
        bound = "at most " if row["lower"] else "at least "
        limits = (_value(row[key], row["unit"], bound) for key in ("must", "goal"))
        cells = (f"`{row['name']}`", row["what"], row["ours"], row["peer"])
        cells += (_value(row["value"], row["unit"]), *limits)
        lines.append("| " + " | ".join((*cells, row["verdict"])) + " |")
    lines.append("")
    lines += [f"- `{row['name']}`: {'; '.join(row['notes'])}." for row in saved["rows"]]
    facts = saved["provenance"]
    load = f"{facts['load'][0]:.1f}" if facts["load"] else "unknown"
    lines.append(
        f"- {facts['processor']}, {facts['cores']} cores, load {load} before; "
        f"featherback {facts['featherback']} ({facts['isa']}), MuJoCo {facts['mujoco']}; "
        f"commit {str(facts['commit'])[:12]}{' with changes' if facts['modified'] else ''}"
        f"{'; a quick run' if facts['quick'] else ''}."
    )
    return "\n".join(lines)


def instructions(saved: dict[str, Any]) -> str:
    """Return the table of instructions."""
    lines = ["| kernel | instructions for each step or Jacobian |", "|---|---|"]
    lines += [f"| {name} | {count:.0f} |" for name, count in saved["instructions"].items()]
    return "\n".join([*lines, "", f"- {saved['isa']} kernels, Python {saved['python']}."])


def put_into(page: str, script: str, text: str) -> str:
    """Return a page with the text between the two marks of a script replaced."""
    begin, end = f"<!-- begin: {script} -->", f"<!-- end: {script} -->"
    before, rest = page.split(begin)
    return f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}"
