"""The Markdown tables of bench/stages.py, from its JSON file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

BEGIN, END = "<!-- begin: bench/stages.py -->", "<!-- end: bench/stages.py -->"
NAMES = {
    "kinematics": "kinematics",
    "actuation": "actuation",
    "articulated_body": "articulated bodies: inertias, factorisation, acceleration",
    "free_velocity": "free velocity",
    "collision": "collision",
    "rows": "rows: order, wrenches, half solves",
    "assembly": "A of the rows",
    "sweeps": "solver: sweeps, residual",
    "newton": "solver: Newton steps",
    "impulses": "impulses to velocities",
    "integration": "integration",
    "ties": "ties",
    "adjoint_solve": "solve with the inertia",
    "adjoint_rows": "solve with the rows",
    "adjoint_impulses": "impulses to velocities",
    "adjoint_fields": "Newton-Euler fields",
    "adjoint_contacts": "contacts",
    "adjoint_sweep": "sweep to the root",
    "adjoint_actuation": "actuation, state",
}


def by_stage(case: dict[str, Any], what: str, way: str) -> dict[str, float]:
    """Return one figure by stage."""
    return dict(zip(case["stages"], case[what][way], strict=True))


def split(case: dict[str, Any], what: str) -> dict[str, dict[str, float]]:
    """Return a figure by stage: of the step, and of its adjoint without the step it runs again."""
    step, back = by_stage(case, what, "forward"), by_stage(case, what, "backward")
    own = [name for name in NAMES if name.startswith("adjoint") or name == "ties"]
    return {
        "step": {name: step[name] for name in NAMES if name not in own},
        "adjoint": {name: back[name] for name in own},
    }


def _line(label: str, ns: float, total: float, ops: float, peak: float, count: float | None) -> str:
    """Return one line of a table of stages."""
    instructions = "" if count is None else f"{count:.0f}"
    share = 100.0 * ops / ns / peak if ns else 0.0
    return (
        f"| {label} | {ns:.0f} | {100 * ns / total:.0f} % | {ops:.0f} | {share:.0f} % | "
        f"{instructions} |"
    )


def _case(case: dict[str, Any]) -> list[str]:
    """Return the table of one case."""
    ns, ops = split(case, "ns"), split(case, "operations")
    counts = split(case, "instructions") if "instructions" in case else None
    peak = case["peak_gflops"]
    lanes = f", {case['lanes']} lanes of {case['isa']}" if case["lanes"] > 1 else ""
    out = [
        f"### {case['name'].capitalize()}{lanes}",
        "",
        f"Measured peak of fused products: {peak:.1f} Gflop/s.",
        "",
        "| stage | ns | share | operations | of peak | instructions, AVX2 |",
        "|---|---|---|---|---|---|",
    ]
    for part, title in (("step", "step"), ("adjoint", "adjoint, without the step run again")):
        total = sum(ns[part].values())
        counted = None if counts is None else counts[part]
        whole = None if counted is None else sum(counted.values())
        out.append(_line(f"**{title}**", total, total, sum(ops[part].values()), peak, whole))
        for name in ns[part]:
            count = None if counted is None else counted[name]
            out.append(_line(NAMES[name], ns[part][name], total, ops[part][name], peak, count))
    return [*out, ""]


def _change(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return one line of the comparison for the step, its adjoint and both with the step again."""
    out: list[str] = []
    for part in ("step", "adjoint"):
        cells = [f"{now['name']}, {part}"]
        for what in ("ns", "operations", "instructions"):
            if what not in before or what not in now:
                cells.append("")
                continue
            old, new = (sum(split(case, what)[part].values()) for case in (before, now))
            cells.append(f"{old:.0f} to {new:.0f} ({100 * (new / old - 1):+.0f} %)")
        out.append("| " + " | ".join(cells) + " |")
    return out


def _origin(run: dict[str, Any]) -> str:
    """Return where a run comes from."""
    facts = run["provenance"]
    load = "" if not facts["load"] else f", load average {facts['load'][0]:.1f}"
    commit = (facts["commit"] or "no commit")[:10]
    changed = ", with changes" if facts["modified"] else ""
    return (
        f"featherback {facts['featherback']} ({commit}{changed}), {facts['processor']}, "
        f"{facts['cores']} cores{load}; mean of the shortest fifth of {run['repeats']} repeats."
    )


def tables(runs: dict[str, Any]) -> str:
    """Return the tables of the newest run, and its comparison with the one before."""
    now = runs["now"] if "now" in runs else runs["before"]
    out = [_origin(now), ""]
    for case in now["cases"]:
        out += _case(case)
    if "now" in runs and "before" in runs:
        out += [
            "### Before and after",
            "",
            f"Before: {_origin(runs['before'])}",
            "",
            "| per step of one world | ns | operations | instructions, AVX2 |",
            "|---|---|---|---|",
        ]
        for pair in zip(runs["before"]["cases"], now["cases"], strict=True):
            out += _change(*pair)
        out.append("")
    return "\n".join(out)


def put_into(page: Path, text: str) -> None:
    """Replace what lies between the marks of a page."""
    before, rest = page.read_text().split(BEGIN, 1)
    page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{rest.split(END, 1)[1]}")
