"""Write the options of a Simulator as a type, from the table that the extension exports.

`make format` runs it after a change of core/model/schema.hpp; `make check` compares its result.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

from featherback._core import OptionRow
from featherback.sim.options import CHOSEN, described

TARGET = Path(__file__).parent.parent / "src" / "featherback" / "sim" / "arguments.py"

HEAD = '''"""The options of a Simulator as a type, written by tools/write_arguments.py."""

from __future__ import annotations

from typing import Literal, TypedDict


class Arguments(TypedDict, total=False):
    """Numerical options of a Simulator; None stands for the default.

    Attributes:
'''


def type_of(row: OptionRow) -> str:
    """Return how Python spells the type of an option."""
    words = ", ".join(f'"{word}"' for word in row.choices)
    spelled = {"real": "float", "whole": "int", "choice": f"Literal[{words}]"}
    return f"{spelled[row.kind]} | None"


def written() -> str:
    """Return the file."""
    lines = [
        line
        for row in CHOSEN.values()
        for line in textwrap.wrap(
            f"{row.name}: {described(row)}", 100, initial_indent=" " * 8, subsequent_indent=" " * 12
        )
    ]
    fields = [f"    {row.name}: {type_of(row)}" for row in CHOSEN.values()]
    return HEAD + "\n".join([*lines, '    """', "", *fields]) + "\n"


def main() -> int:
    """Write the file, or with --check say whether it is up to date."""
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(written())
    elif TARGET.read_text() != written():
        print(f"{TARGET} differs from the extension; run make format")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
