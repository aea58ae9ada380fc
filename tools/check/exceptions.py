"""The list of exceptions, docs/exceptions.md: one line each, with its reason, under a title.

"- `path`: reason" is one for a file, "- `path::function`: reason" one for a function.
"""

from __future__ import annotations

import re
from pathlib import Path

PAGE = "docs/exceptions.md"
LINE = re.compile(r"^- `([^`]+)`: \S")


def read(root: Path, title: str) -> set[str]:
    """Return the keys listed under a title of second level."""
    keys: set[str] = set()
    inside = False
    for line in (root / PAGE).read_text().splitlines():
        if line.startswith("#"):
            inside = line == f"## {title}"
        match = LINE.match(line)
        if inside and match is not None:
            keys.add(match.group(1))
    return keys


def unused(keys: set[str], needed: set[str]) -> list[str]:
    """Return one sentence for every exception that nothing needs."""
    return [f"{PAGE}: `{key}` needs no exception; remove it." for key in sorted(keys - needed)]
