"""Check for words that must not appear: loaders that run code, open ends, fast maths."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOTS = ("core", "bindings", "src", "tests", "bench", "examples", "tools")
SUFFIXES = {".py", ".pyi", ".hpp", ".cpp", ".xml"}

# what is searched for -> what to do instead
WORDS: dict[str, str] = {
    r"\b(?:TODO|FIXME|XXX)\b": "open an issue, or finish it",
    r"\bimport pickle\b|\bpickle\.": "loading runs code; use a plain format",
    r"\ballow_pickle\s*=\s*True\b": "loading runs code; use a plain format",
    r"(?<![\w.])(?:eval|exec)\(": "it runs text as code; parse the text",
    r"\byaml\.load\(": "loading runs code; use yaml.safe_load",
    r"-ffast-math": "it breaks equal bits and NaN checks",
    r"\bnp\.random\.(?:rand|randn|seed|uniform|normal)\(": "use np.random.default_rng(seed)",
}


def check_text(path: str, text: str) -> list[str]:
    """Return one sentence per forbidden word in ``text``."""
    return [
        f"{path}:{number}: {match.group(0)!r} is not allowed: {advice}."
        for number, line in enumerate(text.splitlines(), start=1)
        for pattern, advice in WORDS.items()
        for match in [re.search(pattern, line)]
        if match is not None
    ]


def check_tree(root: Path) -> list[str]:
    """Return one sentence per forbidden word in the project, but for this file and its test."""
    problems: list[str] = []
    for folder in ROOTS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES and path.stem not in {"check_words", "test_check_words"}:
                problems += check_text(path.relative_to(root).as_posix(), path.read_text())
    return problems


def main() -> int:
    """Check the project and print every problem."""
    problems = check_tree(Path())
    print("\n".join(problems) or "words: none that is not allowed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
