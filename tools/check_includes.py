"""Check the arrows between the headers of core/: each may include only what the table allows.

To change an arrow, edit ARROWS. A name before an underscore stands for its family too: the line of
"collision" also serves collision_box.hpp, and members of a family may include each other.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

# header -> headers it may include; the rule also covers what these include in turn
ARROWS: dict[str, tuple[str, ...]] = {
    "scalar": (),
    "lane": ("scalar",),
    "dual": ("scalar",),
    "spatial": ("scalar",),
    "layout": ("scalar",),
    "mesh": ("spatial", "dual"),
    "model": ("spatial", "layout", "mesh"),
    "workspace": ("model",),
    "kinematics": ("model", "workspace"),
    "actuation": ("kinematics",),
    "dynamics": ("kinematics",),
    "collision": ("spatial", "lane", "dual", "mesh"),
    "rows": ("dynamics", "solver"),
    "constraint": ("rows",),
    "contact": ("dynamics", "collision", "constraint"),
    "solver": ("scalar",),
    "integrate": ("kinematics",),
    "outputs": ("dynamics", "integrate"),
    "step": (
        "lane",
        "dual",
        "dynamics",
        "actuation",
        "contact",
        "solver",
        "integrate",
        "workspace",
    ),
    "ties": ("step",),
    "linearize": ("step",),
}

# the C++ standard library has no dot in its headers; these belong to the compiler
COMPILER_HEADERS = {"immintrin.h", "arm_neon.h"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')


def family(stem: str) -> str:
    """Return the line of ARROWS for a header: itself, or the name before an underscore."""
    while stem not in ARROWS and "_" in stem:
        stem = stem.rpartition("_")[0]
    return stem


def reachable(stem: str) -> set[str]:
    """Return every header that ``stem`` may include, arrows of arrows included."""
    seen: set[str] = set()
    waiting = list(ARROWS[stem])
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += ARROWS[name]
    return seen


def check_line(path: Path, number: int, line: str) -> str | None:
    """Return the sentence for a forbidden include on this line, or None."""
    match = INCLUDE.match(line)
    if match is None:
        return None
    quote, target = match.groups()
    where = f"{path}:{number}: #include {quote}{target}{'>' if quote == '<' else quote}"
    if quote == "<":
        if "." in target and target not in COMPILER_HEADERS:
            return f"{where}: core may include the C++ standard library and core only; remove it."
        return None
    if "/" in target or not (path.parent / target).is_file():
        return f'{where}: no such header in core/; name it as "stem.hpp".'
    own, other = family(path.stem), family(Path(target).stem)
    if other == own or other in reachable(own):
        return None
    allowed = ", ".join(sorted(reachable(own))) or "no other header"
    remedy = "move the code or edit ARROWS in tools/check_includes.py"
    return f"{where}: {own} may know {allowed}; {remedy}."


def check_folder(core: Path) -> list[str]:
    """Return one sentence for every forbidden include and every header without a line in ARROWS."""
    problems: list[str] = []
    for path in sorted(core.glob("*.hpp")):
        if family(path.stem) not in ARROWS:
            problems.append(f"{path}: has no line in ARROWS of tools/check_includes.py; add one.")
            continue
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            problem = check_line(path, number, line)
            if problem is not None:
                problems.append(problem)
    return problems


def main() -> int:
    """Check core/ and print every problem."""
    problems = check_folder(Path("core"))
    print("\n".join(problems) or "includes: every arrow in core/ is allowed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
