"""Check what the C++ sources include: each layer may know only those below it, without cycles.

To change the layers, edit KNOWS. A file belongs to the first pattern that matches its path from the
root; headers are included by that path, `#include "core/number/scalar.hpp"`.

    python -m tools.check.includes
"""

from __future__ import annotations

import re
import sys
from fnmatch import fnmatch
from pathlib import Path

# layer -> layers it may include, and all that these may include in turn
KNOWS: dict[str, tuple[str, ...]] = {
    "core/number/*": (),
    "core/dynamics/spatial.hpp": ("core/number/*",),
    "core/model/schema.hpp": ("core/number/*",),
    "core/dynamics/quaternion.hpp": ("core/dynamics/spatial.hpp",),
    "core/dynamics/joint.hpp": ("core/dynamics/quaternion.hpp", "core/model/schema.hpp"),
    "core/model/*": ("core/dynamics/joint.hpp",),
    "core/state.hpp": ("core/model/*",),
    "core/collision/feature.hpp": ("core/number/*",),
    "core/collision/shape.hpp": ("core/model/*", "core/collision/feature.hpp"),
    "core/collision/*": ("core/collision/shape.hpp",),
    "core/contact/row_group.hpp": ("core/collision/shape.hpp",),
    "core/solver/*": ("core/model/schema.hpp",),
    "core/soft/impedance.hpp": ("core/model/*",),
    "core/soft/block.hpp": ("core/soft/impedance.hpp",),
    "core/soft/matrix.hpp": ("core/model/*",),
    "core/soft/work.hpp": (
        "core/soft/block.hpp",
        "core/soft/matrix.hpp",
        "core/contact/row_group.hpp",
    ),
    "core/workspace.hpp": ("core/state.hpp", "core/soft/work.hpp", "core/solver/*"),
    "core/dynamics/*": ("core/workspace.hpp",),
    "core/contact/*": ("core/dynamics/*", "core/collision/*", "core/solver/*"),
    "core/soft/*": ("core/contact/*",),
    "core/step*.hpp": ("core/soft/*",),
    "core/ties.hpp": ("core/step*.hpp",),
    "core/linearize/*": ("core/step*.hpp",),
    "engine/*": ("core/ties.hpp", "core/linearize/*"),
    "bindings/*": ("engine/*",),
    "tests/native/*": ("bindings/*",),
}

# the C++ standard library has no dot in its headers; these belong to the compiler
COMPILER_HEADERS = {"immintrin.h", "arm_neon.h"}
# the operating system is known to what runs on a host only
SYSTEM_HEADERS = {"unistd.h", "sys/types.h"}
# Python and the bridges to other frameworks, and the layers that may know them
FOREIGN = re.compile(r"^(nanobind/.+|Python\.h|xla/ffi/.+)$")
FOREIGN_LAYERS = ("bindings/*", "tests/native/*")

ROOTS = ("core", "engine", "bindings", "tests/native")
SUFFIXES = {".hpp", ".cpp", ".cu"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')
REMEDY = "move the code or edit KNOWS in tools/check/includes.py"


def layer_of(path: str) -> str | None:
    """Return the layer of a file, given by its path from the root."""
    return next((pattern for pattern in KNOWS if fnmatch(path, pattern)), None)


def reachable(layer: str) -> set[str]:
    """Return every layer that ``layer`` may include, itself left out."""
    seen: set[str] = set()
    waiting = list(KNOWS[layer])
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += KNOWS[name]
    return seen


def check_include(root: Path, path: str, quote: str, target: str) -> str | None:
    """Return what is wrong with one include, or None."""
    own = layer_of(path)
    assert own is not None
    if FOREIGN.match(target):
        if own in FOREIGN_LAYERS:
            return None
        return f"{own} may not know Python or a bridge; {REMEDY}"
    if quote == "<":
        if "." not in target or target in COMPILER_HEADERS:
            return None
        if target in SYSTEM_HEADERS and not own.startswith("core/"):
            return None
        return "only the C++ standard library and our own headers are allowed; remove it"
    other = layer_of(target)
    if other is None or not (root / target).is_file():
        return "there is no such header; name it by its path from the root"
    if other == own or other in reachable(own):
        return None
    allowed = ", ".join(name for name in KNOWS if name in reachable(own)) or "no other layer"
    return f"{own} may know {allowed}; {REMEDY}"


def includes_of(text: str) -> list[tuple[int, str, str]]:
    """Return (line, quote, target) of every include."""
    matches = ((n, INCLUDE.match(line)) for n, line in enumerate(text.splitlines(), start=1))
    return [(n, m.group(1), m.group(2)) for n, m in matches if m is not None]


def cycles(graph: dict[str, list[str]]) -> list[str]:
    """Return one sentence for each include that closes a cycle."""
    problems: list[str] = []
    done: set[str] = set()

    def walk(path: str, above: list[str]) -> None:
        if path in above:
            ring = [*above[above.index(path) :], path]
            problems.append(f"{path}: includes itself: {' -> '.join(ring)}; break the cycle.")
        elif path not in done:
            for target in graph.get(path, []):
                walk(target, [*above, path])
            done.add(path)

    for path in sorted(graph):
        walk(path, [])
    return problems


def check_tree(root: Path) -> list[str]:
    """Return one sentence for every forbidden include, every cycle and every file of no layer."""
    problems: list[str] = []
    graph: dict[str, list[str]] = {}
    files = [f for name in ROOTS for f in (root / name).rglob("*") if f.suffix in SUFFIXES]
    for file in sorted(files):
        path = file.relative_to(root).as_posix()
        if layer_of(path) is None:
            problems.append(f"{path}: has no layer in KNOWS of tools/check/includes.py; add one.")
            continue
        graph[path] = []
        for number, quote, target in includes_of(file.read_text()):
            graph[path].append(target)
            problem = check_include(root, path, quote, target)
            if problem is not None:
                shown = f"<{target}>" if quote == "<" else f'"{target}"'
                problems.append(f"{path}:{number}: #include {shown}: {problem}.")
    return problems + cycles(graph)


def main() -> int:
    """Check the project and print every problem."""
    problems = check_tree(Path())
    print("\n".join(problems) or "includes: every layer knows only those below it")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
