"""What a run of mutants tells: the list of equivalents, and the lines of the report."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tools.mutate.judge import Verdict
from tools.mutate.sites import Site

EQUIVALENT = Path(__file__).with_name("equivalent.txt")


def read_equivalents(text: str) -> dict[str, str]:
    """Return the mutants listed as equivalent with their reasons.

    Args:
        text: lines of keys, each group followed by its reason, indented.
    """
    found: dict[str, str] = {}
    group: list[str] = []
    reason: list[str] = []
    for line in [*text.splitlines(), "end"]:
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith(" "):
            reason.append(line.strip())
            continue
        if reason:
            found |= dict.fromkeys(group, " ".join(reason))
            group, reason = [], []
        group.append(line.strip())
    return found


def report(
    sites: list[Site], chosen: list[tuple[int, Site]], verdict: Verdict, equivalents: dict[str, str]
) -> tuple[list[str], bool]:
    """Return the report's lines and whether all is well."""
    lines: list[str] = []
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for number, site in chosen:
        killer = verdict.killers.get(number)
        listed = site.key in equivalents
        state = "killed" if killer else "equivalent" if listed else "survived"
        counts[state] += 1
        by = killer or (
            equivalents[site.key]
            if listed
            else "no test comes across it"
            if number in verdict.unreached
            else "no test notices it"
        )
        line = (
            f"{site.file}:{site.line}: {site.function}: {site.kind}: {site.change}: {state}: {by}"
        )
        lines.append(line)
        if state == "survived":
            wrong.append(line)
        if killer and listed:
            wrong.append(f"{line} (listed as equivalent; take it off {EQUIVALENT.name})")
    known = {site.key for site in sites}
    wrong += [
        f"{EQUIVALENT.name}: there is no mutant {key}; take it off"
        for key in equivalents
        if key not in known
    ]
    kinds = Counter(site.kind for _, site in chosen)
    summary = ", ".join(f"{n} {state}" for state, n in sorted(counts.items()))
    wrong.append(f"mutate: {len(chosen)} of {len(sites)} mutants: {summary}")
    wrong.append("mutate: kinds: " + ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items())))
    return [*lines, *wrong], len(wrong) == 2
