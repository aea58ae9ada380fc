"""Check sizes: files of at most 600 lines, functions of at most 60 lines and 7 arguments.

Exceptions stand in docs/exceptions.md, one line each: "- `path`: reason" for a file and
"- `path::function`: reason" for a function. An exception that is not needed is a problem too.
C++ functions are found by their braces: a line at depth zero of namespaces and classes that has an
argument list and opens a brace.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FILE_LINES = 600
FUNCTION_LINES = 60
ARGUMENTS = 7
LIMITS = (
    f"the limits are {FILE_LINES} lines a file, {FUNCTION_LINES} a function, {ARGUMENTS} arguments"
)

ROOTS = ("core", "bindings", "src", "tools", "tests", "bench", "examples")
CXX = {".hpp", ".cpp"}
SCOPE = re.compile(
    r"^\s*(?:inline\s+)?(?:namespace\b|extern\s+\"C\"|(?:template\b.*>\s*)?(?:struct|class|enum|union)\b)"
)
FUNCTION = re.compile(r"([~\w]+|operator\S+)\s*\(")
NOISE = re.compile(r"""//.*|/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])'""")
EXCEPTION = re.compile(r"^- `([^`]+)`: \S")


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


def cxx_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield (name, first line, last line) of the functions of a C++ file."""
    scopes: list[bool] = []  # per open brace: does it belong to a namespace or a class
    header, header_line = "", 0
    name, first = "", 0
    in_directive = False
    for number, line in enumerate(text.splitlines(), start=1):
        code = NOISE.sub("", line)
        # a macro is no function, nor are the lines that continue it
        in_directive = in_directive or code.lstrip().startswith("#")
        if in_directive:
            in_directive = line.endswith("\\")
            continue
        for part in re.split(r"([{};])", code):
            if part == "{":
                is_scope = all(scopes) and SCOPE.match(header) is not None
                match = None if is_scope or not all(scopes) else FUNCTION.search(header)
                if match is not None:
                    name, first = match.group(1), header_line
                scopes.append(is_scope)
            elif part == "}" and scopes:
                scopes.pop()
                if name and all(scopes):
                    yield name, first, number
                    name = ""
            elif part != ";":
                if part.strip():
                    header_line = header_line if header.strip() else number
                    header += part + " "
                continue
            header = ""


def cxx_sizes(path: str, text: str) -> Iterator[Size]:
    """Yield the functions of a C++ file that are too long."""
    for name, first, last in cxx_functions(text):
        lines = last - first + 1
        if lines > FUNCTION_LINES:
            yield Size(f"{path}::{name}", f"{path}:{first}: {name}() has {lines} lines")


def file_sizes(path: str, text: str) -> Iterator[Size]:
    """Yield everything in a file that is too large, the file itself first."""
    lines = len(text.splitlines())
    if lines > FILE_LINES:
        yield Size(path, f"{path}: has {lines} lines")
    yield from (cxx_sizes if Path(path).suffix in CXX else python_sizes)(path, text)


def read_exceptions(page: Path) -> set[str]:
    """Return the keys listed in docs/exceptions.md."""
    matches = (EXCEPTION.match(line) for line in page.read_text().splitlines())
    return {match.group(1) for match in matches if match is not None}


def check_tree(root: Path) -> list[str]:
    """Return one sentence for everything too large, and for exceptions nobody needs."""
    exceptions = read_exceptions(root / "docs" / "exceptions.md")
    found: list[Size] = []
    for folder in ROOTS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in CXX | {".py"}:
                found += file_sizes(path.relative_to(root).as_posix(), path.read_text())
    problems = [
        f"{size.sentence}; {LIMITS}: split it, or add `{size.key}` to docs/exceptions.md."
        for size in found
        if size.key not in exceptions
    ]
    unused = exceptions - {size.key for size in found}
    return problems + [
        f"docs/exceptions.md: `{key}` needs no exception; remove it." for key in sorted(unused)
    ]


def main() -> int:
    """Check the project and print every problem."""
    problems = check_tree(Path())
    print("\n".join(problems) or "sizes: every file and function is within the limits")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
