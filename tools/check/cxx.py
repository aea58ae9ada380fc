"""As much of C++ as the checks must read: functions with their lines and arguments, by braces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

SCOPE = re.compile(
    r"^\s*(?:inline\s+)?(?:namespace\b|extern\s+\"C\"|(?:template\b.*>\s*)?(?:struct|class|enum|union)\b)"
)
NAME = re.compile(r"([~\w]+|operator\S+)\s*\(")
NOISE = re.compile(r"""//.*|/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])'""")
# what a comma between arguments stands outside of; shifts and comparisons are in no argument list
OPEN, CLOSE = "([{<", ")]}>"


@dataclass(frozen=True)
class Function:
    """A function with a body: its name, the number of its arguments, its first and last line."""

    name: str
    arguments: int
    first: int
    last: int


def count_arguments(header: str, begin: int) -> int:
    """Count the arguments of the list that opens at ``begin``; ``->`` is no bracket."""
    depth, commas, text = 0, 0, ""
    for character in header[begin:].replace("->", ""):
        depth += (character in OPEN) - (character in CLOSE)
        if depth == 0:
            break
        commas += depth == 1 and character == ","
        text += character
    return commas + 1 if text[1:].strip() not in ("", "void") else 0


def functions(text: str) -> Iterator[Function]:
    """Yield the functions of a file in the order of their ends, members of classes included."""
    scopes: list[bool] = []  # per open brace: does it belong to a namespace or a class
    header, header_line = "", 0
    name, arguments, first = "", 0, 0
    in_directive = False
    for number, line in enumerate(text.splitlines(), start=1):
        code = NOISE.sub("", line)
        # a macro is no function, nor are the lines that continue it
        in_directive = in_directive or code.lstrip().startswith("#")
        if in_directive:
            in_directive = line.endswith("\\")
            continue
        for part in re.split(r"([{};])", code):
            # a brace inside an argument list is a default value
            in_list = all(scopes) and header.count("(") > header.count(")")
            if part not in ("{", "}", ";") or in_list:
                if part.strip():
                    header_line = header_line if header.strip() else number
                    header += part + " "
                continue
            if part == "{":
                is_scope = all(scopes) and SCOPE.match(header) is not None
                match = None if is_scope or not all(scopes) else NAME.search(header)
                if match is not None:
                    name, first = match.group(1), header_line
                    arguments = count_arguments(header, match.end() - 1)
                scopes.append(is_scope)
            elif part == "}" and scopes:
                scopes.pop()
                if name and all(scopes):
                    yield Function(name, arguments, first, number)
                    name = ""
            header = ""
