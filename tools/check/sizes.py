"""Check sizes: files of at most 600 lines, functions of at most 60 lines and 7 arguments.

Exceptions stand in docs/exceptions.md; one that is not needed is a problem too.

    python -m tools.check.sizes
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.check import exceptions
from tools.check.cxx import functions

FILE_LINES = 600
FUNCTION_LINES = 60
ARGUMENTS = 7
LIMITS = (
    f"the limits are {FILE_LINES} lines a file, {FUNCTION_LINES} a function, {ARGUMENTS} arguments"
)

ROOTS = ("core", "engine", "bindings", "src", "tools", "tests", "bench", "examples")
CXX = {".hpp", ".cpp", ".cu"}
TITLE = "Sizes"
# functions that Python and XLA call: their arguments have names there
CALLED_BY_NAME = ("bindings/", "tests/native/")


@dataclass(frozen=True)
class Size:
    """One thing that is too large: where it is, its key in docs/exceptions.md, and the sentence."""

    key: str
    sentence: str


def python_sizes(path: str, text: str) -> Iterator[Size]:
    """Yield the functions of a Python file that are too long or take too many arguments."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        key = f"{path}::{node.name}"
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > FUNCTION_LINES:
            yield Size(key, f"{path}:{node.lineno}: {node.name}() has {lines} lines")
        # keyword-only options do not count: they are named at the call
        positional = [*node.args.posonlyargs, *node.args.args]
        count = len([name for name in positional if name.arg not in {"self", "cls"}])
        if count > ARGUMENTS:
            yield Size(key, f"{path}:{node.lineno}: {node.name}() has {count} positional arguments")


def cxx_sizes(path: str, text: str) -> Iterator[Size]:
    """Yield the functions of a C++ file that are too long or take too many arguments."""
    for f in functions(text):
        key, where = f"{path}::{f.name}", f"{path}:{f.first}: {f.name}()"
        lines = f.last - f.first + 1
        if lines > FUNCTION_LINES:
            yield Size(key, f"{where} has {lines} lines")
        if f.arguments > ARGUMENTS and not path.startswith(CALLED_BY_NAME):
            yield Size(key, f"{where} has {f.arguments} arguments")


def file_sizes(path: str, text: str) -> Iterator[Size]:
    """Yield everything in a file that is too large, the file itself first."""
    lines = len(text.splitlines())
    if lines > FILE_LINES:
        yield Size(path, f"{path}: has {lines} lines")
    yield from (cxx_sizes if Path(path).suffix in CXX else python_sizes)(path, text)


def check_tree(root: Path) -> list[str]:
    """Return one sentence for everything too large, and for exceptions nobody needs."""
    allowed = exceptions.read(root, TITLE)
    found: list[Size] = []
    for folder in ROOTS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in CXX | {".py"}:
                found += file_sizes(path.relative_to(root).as_posix(), path.read_text())
    problems = [
        f"{size.sentence}; {LIMITS}: split it, or add `{size.key}` to {exceptions.PAGE}."
        for size in found
        if size.key not in allowed
    ]
    return problems + exceptions.unused(allowed, {size.key for size in found})


def main() -> int:
    """Check the project and print every problem."""
    problems = check_tree(Path())
    print("\n".join(problems) or "sizes: every file and function is within the limits")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
