r"""Check equation tags both ways: core/<stem>.hpp cites what docs/derivations/<stem>.md numbers.

A tag looks like (D.1) or (D.1a). A header of a family (collision_box.hpp) may share the page of the
family (collision.md). A page numbers an equation with a line that starts with its tag, or with
\tag{D.1}; a tag elsewhere in the page is a mention.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

CITED = re.compile(r"\(([A-Z]{1,3}\.\d+[a-z]?)\)")
NUMBERED = re.compile(
    r"^[\s>*#|-]*\(([A-Z]{1,3}\.\d+[a-z]?)\)|\\tag\{([A-Z]{1,3}\.\d+[a-z]?)\}", re.M
)


def cited_tags(header: Path) -> dict[str, int]:
    """Return the tags in the comments of a header, each with the line of its first mention."""
    tags: dict[str, int] = {}
    for number, line in enumerate(header.read_text().splitlines(), start=1):
        comment = line.partition("//")[2]
        for tag in CITED.findall(comment):
            tags.setdefault(tag, number)
    return tags


def numbered_tags(page: Path) -> list[str]:
    """Return the tags that a page numbers, in order, repetitions included."""
    return [first or second for first, second in NUMBERED.findall(page.read_text())]


def page_of(header: Path, pages: Path) -> Path:
    """Return the derivation page of a header: its own, or that of its family."""
    stem = header.stem
    while not (pages / f"{stem}.md").is_file() and "_" in stem:
        stem = stem.rpartition("_")[0]
    return pages / f"{stem}.md"


def check_folders(core: Path, pages: Path) -> list[str]:
    """Return one sentence for every tag that has no partner, and every tag numbered twice."""
    problems: list[str] = []
    cited: dict[Path, set[str]] = {}
    numbered = {page: numbered_tags(page) for page in sorted(pages.glob("*.md"))}
    for header in sorted(core.glob("*.hpp")):
        tags = cited_tags(header)
        page = page_of(header, pages)
        cited.setdefault(page, set()).update(tags)
        known = numbered.get(page, [])
        problems += [
            f"{header}:{line}: cites ({tag}), which {page} does not number; add the equation there."
            for tag, line in tags.items()
            if tag not in known
        ]
    for page, tags in numbered.items():
        for tag in dict.fromkeys(tags):
            if tag not in cited.get(page, set()):
                problems.append(
                    f"{page}: numbers ({tag}), which no header cites; cite or remove it."
                )
            if tags.count(tag) > 1:
                problems.append(f"{page}: numbers ({tag}) {tags.count(tag)} times; number it once.")
    return problems


def main() -> int:
    """Check core/ against docs/derivations/ and print every problem."""
    problems = check_folders(Path("core"), Path("docs/derivations"))
    print("\n".join(problems) or "tags: every equation tag has its partner")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
