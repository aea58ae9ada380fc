"""The Markdown tables of bench/mujoco_law.py, from its JSON file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

MARK = "bench/mujoco_law.py"


def _cell(times: dict[str, float], name: str, peer: str) -> str:
    """Return a time and how many times the peer's is longer; nothing if it was not measured."""
    if name not in times:
        return ""
    return f"{figure(times[name])} ({figure(times[peer] / times[name])}x)"


def figure(x: float) -> str:
    """Return a number to two digits, or whole."""
    return f"{x:.0f}" if x >= 99.5 else f"{x:.1f}" if x >= 9.95 else f"{x:.2g}"


def table(head: str, lines: list[list[Any]]) -> list[str]:
    """Return a table with a blank line after it."""
    body = ["| " + " | ".join(map(str, cells)) + " |" for cells in lines]
    return [head, "|---" * (head.count("|") - 1) + "|", *body, ""]


def _problem(row: dict[str, Any]) -> list[Any]:
    """Return what was solved, and how MuJoCo does it."""
    here, there = row["contacts"]
    bad = ", ".join(map(str, row["flagged"]))
    return [
        *(row["scene"], row["nv"], row["law"], f"{here:.0f}, {there:.0f}"),
        *(row["setting"], f"{row['error']:.0e}", bad),
    ]


def _steps(row: dict[str, Any]) -> list[str]:
    """Return times of steps."""
    t = row["times"]
    size = f"{row['worlds']} x {row['batch_steps']}"
    return [
        *(row["scene"], figure(t["file"]), figure(t["equal"]), _cell(t, "step", "equal")),
        _cell(t, "warm", "equal"),
        *(size, figure(t["batch_peer"])),
        *(_cell(t, name, "batch_peer") for name in ("batch", "batch_warm", "batch32")),
    ]


def _gradients(row: dict[str, Any]) -> list[str]:
    """Return times of gradients."""
    t = row["times"]
    ways = ("gradient", "batch_gradient", "linearize", "batch_linearize")
    cells = [_cell(t, way, "differences") for way in ways]
    return [row["scene"], figure(t["differences"]), figure(t["centred"]), *cells]


def _mjx(name: str, found: dict[str, Any]) -> list[str]:
    """Return what MJX needs."""
    if "reason" in found:
        return [name, found["reason"], "", "", "", ""]
    gradient = found.get("gradient_reason") or f"{figure(found['gradient_us'])}"
    return [
        *(name, f"{found['worlds']}", f"{found['compile_s']:.0f}", figure(found["step_us"])),
        *(f"{found.get('gradient_compile_s', 0):.0f}", gradient),
    ]


def origin(facts: dict[str, Any]) -> str:
    """Return where the figures come from."""
    load = "" if not facts["load"] else f", load average {facts['load'][0]:.1f}"
    commit = (facts["commit"] or "no commit")[:10]
    changed = ", with changes" if facts["modified"] else ""
    return (
        f"featherback {facts['featherback']} ({commit}{changed}, {facts['isa']}), MuJoCo "
        f"{facts['mujoco']}, {facts['processor']}, one thread{load}."
    )


def tables(saved: dict[str, Any]) -> str:
    """Return the tables of saved figures."""
    rows = saved["rows"]
    out = [origin(saved["provenance"]), ""]
    head = "| scene | dofs | integrator, cone | contacts here, there | MuJoCo's fastest setting |"
    out += table(
        head + " its error | worlds not solved: one, float64, float32 |", list(map(_problem, rows))
    )
    head = "| step [us] | MuJoCo, file | MuJoCo, equal | one world | warm | batch |"
    out += table(
        head + " MuJoCo, batch | float64 | float64, warm | float32 |", list(map(_steps, rows))
    )
    head = "| gradient per step [us] | transitionFD | centred | rollout and vjp | in the batch |"
    out += table(head + " linearize | in a batch |", list(map(_gradients, rows)))
    if saved.get("mjx"):
        head = "| MJX, CPU | worlds | compile [s] | step [us] | compile gradient [s] |"
        lines = [_mjx(name, found) for name, found in saved["mjx"].items()]
        out += table(head + " gradient per step [us] |", lines)
    return "\n".join(out)


def put_between(page: Path, mark: str, text: str) -> None:
    """Replace what lies between the marks of a program in a page."""
    begin, end = f"<!-- begin: {mark} -->", f"<!-- end: {mark} -->"
    before, rest = page.read_text().split(begin, 1)
    page.write_text(f"{before}{begin}\n\n{text}\n{end}{rest.split(end, 1)[1]}")
