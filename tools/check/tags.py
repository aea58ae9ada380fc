r"""Check equation tags both ways: a header cites what its page of derivations numbers.

A tag looks like (D.1) or (D.1a). A header names its page in the comment at its head,
`Proof: docs/derivations/dynamics.md`; several headers may share one. A page numbers an equation
with a line that starts with its tag, or with \tag{D.1}; a tag elsewhere in the page is a mention.
The headers that a page names must exist.

    python -m tools.check.tags
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOTS = ("core", "engine")
PAGES = "docs/derivations"
CITED = re.compile(r"\(([A-Z]{1,3}\.\d+[a-z]?)\)")
NUMBERED = re.compile(
    r"^[\s>*#|-]*\(([A-Z]{1,3}\.\d+[a-z]?)\)|\\tag\{([A-Z]{1,3}\.\d+[a-z]?)\}", re.M
)
PROOF = re.compile(rf"Proof:\s+({PAGES}/\w+\.md)")
HEADER = re.compile(rf"`((?:{'|'.join(ROOTS)})/[\w*/]+\.hpp)`")


def head_of(text: str) -> str:
    """Return the comment at the head of a file, on one line."""
    lines: list[str] = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line.removeprefix("//").strip())
    return " ".join(lines)


def cited_tags(text: str) -> dict[str, int]:
    """Return the tags in the comments of a header, each with the line of its first mention."""
    tags: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        comment = line.partition("//")[2]
        for tag in CITED.findall(comment):
            tags.setdefault(tag, number)
    return tags


def numbered_tags(text: str) -> list[str]:
    """Return the tags that a page numbers, in order, repetitions included."""
    return [first or second for first, second in NUMBERED.findall(text)]


def check_headers(root: Path, numbered: dict[str, list[str]], cited: dict[str, set[str]]) -> list:
    """Return one sentence for every tag that a header cites in vain; add its tags to ``cited``."""
    problems: list[str] = []
    for file in sorted(f for name in ROOTS for f in (root / name).rglob("*.hpp")):
        path, text = file.relative_to(root).as_posix(), file.read_text()
        tags = cited_tags(text)
        match = PROOF.search(head_of(text))
        if match is None:
            if tags:
                problems.append(
                    f"{path}: cites ({next(iter(tags))}), but its head names no page; "
                    f"add Proof: {PAGES}/<page>.md."
                )
            continue
        page = match.group(1)
        if page not in numbered:
            problems.append(f"{path}: its head names {page}, which is not there; correct the name.")
            continue
        cited[page] |= tags.keys()
        problems += [
            f"{path}:{line}: cites ({tag}), which {page} does not number; add the equation there."
            for tag, line in tags.items()
            if tag not in numbered[page]
        ]
    return problems


def check_tree(root: Path) -> list[str]:
    """Return one sentence for every tag without a partner, used twice, or of a missing header."""
    pages = {
        page.relative_to(root).as_posix(): page.read_text()
        for page in sorted((root / PAGES).glob("*.md"))
    }
    numbered = {page: numbered_tags(text) for page, text in pages.items()}
    cited: dict[str, set[str]] = {page: set() for page in pages}
    problems = check_headers(root, numbered, cited)
    for page, tags in numbered.items():
        problems += [
            f"{page}: names {name}, which is not there; correct the name."
            for name in HEADER.findall(pages[page])
            if not any(root.glob(name))
        ]
        for tag in dict.fromkeys(tags):
            if tag not in cited[page]:
                problems.append(
                    f"{page}: numbers ({tag}), which no header cites; cite or remove it."
                )
            if tags.count(tag) > 1:
                problems.append(f"{page}: numbers ({tag}) {tags.count(tag)} times; number it once.")
    return problems


def main() -> int:
    """Check the headers against their pages and print every problem."""
    problems = check_tree(Path())
    print("\n".join(problems) or "tags: every equation tag has its partner")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
