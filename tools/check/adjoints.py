"""Check that an adjoint stands next to its forward: `foo_adjoint` after `foo`, in the same file.

Between the two stand only overloads and parts of adjoints, which nothing but adjoints call. A part
may itself be called `..._adjoint` without a forward of that name, where it is the adjoint of some
lines of a forward. Exceptions stand in docs/exceptions.md; one that is not needed is a problem too.

    python -m tools.check.adjoints
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

from tools.check import exceptions
from tools.check.cxx import functions

ROOTS = ("core", "engine")
TITLE = "Adjoints"
SUFFIX = "_adjoint"
NAME = re.compile(r"\b[A-Za-z_]\w*\b")

# per file, its functions in order: name, line, and all names in it
Files = dict[str, list[tuple[str, int, set[str]]]]


def read(root: Path) -> Files:
    """Return the functions of every header."""
    found: Files = {}
    for file in sorted(f for name in ROOTS for f in (root / name).rglob("*.hpp")):
        text = file.read_text()
        lines = [line.partition("//")[0] for line in text.splitlines()]
        found[file.relative_to(root).as_posix()] = [
            (f.name, f.first, set(NAME.findall("\n".join(lines[f.first - 1 : f.last]))))
            for f in functions(text)
        ]
    return found


def parts_of_adjoints(files: Files) -> set[str]:
    """Return the adjoints, and the functions that nothing but these call."""
    names = {name for listed in files.values() for name, _, _ in listed}
    callers: dict[str, set[str]] = defaultdict(set)
    for listed in files.values():
        for name, _, words in listed:
            for called in words & names - {name}:
                callers[called].add(name)
    inside = {name for name in names if name.endswith(SUFFIX)}
    forwards = {name for name in names if name + SUFFIX in inside}
    while True:
        more = {n for n in names - inside - forwards if callers[n] and callers[n] <= inside}
        if not more:
            return inside
        inside |= more


def misplaced(files: Files) -> dict[str, str]:
    """Return the adjoints that do not stand next to their forward, each with a sentence."""
    found: dict[str, str] = {}
    parts = parts_of_adjoints(files)
    home = {name: path for path, listed in files.items() for name, _, _ in listed}
    for path, listed in files.items():
        for k, (name, line, _) in enumerate(listed):
            forward = name.removesuffix(SUFFIX)
            if name == forward or forward not in home:
                continue
            before = [other for other, _, _ in listed[:k]]
            if forward not in before:
                found[f"{path}::{name}"] = f"its forward is in {home[forward]}"
                continue
            last = k - 1 - before[::-1].index(forward)
            between = [n for n in before[last + 1 :] if n not in parts]
            if between:
                lines = line - listed[last][1]
                reason = f"{between[0]}() stands between, which is no part of an adjoint"
                found[f"{path}::{name}"] = f"its forward begins {lines} lines earlier, and {reason}"
    return found


def check_tree(root: Path) -> list[str]:
    """Return one sentence for every adjoint away from its forward, and for unused exceptions."""
    allowed = exceptions.read(root, TITLE)
    wrong = misplaced(read(root))
    problems = [
        f"{key}(): {sentence}; put it next to its forward, or add `{key}` to {exceptions.PAGE}."
        for key, sentence in wrong.items()
        if key not in allowed
    ]
    return problems + exceptions.unused(allowed, set(wrong))


def main() -> int:
    """Check the project and print every problem."""
    problems = check_tree(Path())
    print("\n".join(problems) or "adjoints: every adjoint stands next to its forward")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
