"""Count the instructions of a few kernels with callgrind and compare with the stored figures.

    python bench/count.py            count, compare, name what got slower
    python bench/count.py --update   store what was counted
    python bench/count.py --docs     put the stored counts into docs/speed.md

Counts do not depend on the load of the machine, so a change of a few per cent is seen. valgrind has
no AVX-512, so the AVX2 kernels are counted. The figures depend on compiler and Python version:
store them anew when either changes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
STORED = HERE / "instructions.json"
PAGE = HERE.parent / "docs" / "speed.md"
SLOWER = 0.03  # growth that is named
MARK = "getpgrp"  # workload.py calls it before and after every kernel


def totals(folder: Path) -> list[int]:
    """Return the instructions counted between marks, in order, from callgrind's files."""
    out: list[int] = []
    while (path := folder / f"counts.{len(out) + 1}").exists():
        found = re.search(r"^totals: (\d+)", path.read_text(), re.MULTILINE)
        if found is None:
            raise RuntimeError(f"{path}: no line with totals; callgrind did not finish it.")
        out.append(int(found.group(1)))
    return out


def count(names: dict[str, int]) -> dict[str, float]:
    """Return instructions per world-step of every kernel."""
    with tempfile.TemporaryDirectory() as folder:
        command = (
            *("valgrind", "--tool=callgrind", f"--dump-before={MARK}"),
            *(f"--callgrind-out-file={folder}/counts", sys.executable, str(HERE / "workload.py")),
        )
        environment = {**os.environ, "FEATHERBACK_ISA": "avx2", "PYTHONHASHSEED": "0"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"valgrind ended with {done.returncode}:\n{done.stderr[-2000:]}")
        # the first file ends at the first mark; every second one after it is a kernel
        counted = totals(Path(folder))[1::2]
    return {name: n / steps for (name, steps), n in zip(names.items(), counted, strict=True)}


def compare(old: dict[str, float], new: dict[str, float]) -> list[str]:
    """Return one line per kernel; those that take over 3 % more than stored say so."""
    lines: list[str] = []
    for name, value in new.items():
        line = f"{name:48} {value:10.0f} instructions per step"
        if name in old:
            change = value / old[name] - 1.0
            line += f" {100 * change:+6.1f} %" + (" SLOWER" if change > SLOWER else "")
        else:
            line += "  not stored yet"
        lines.append(line)
    return lines


def verdict(stored: dict[str, Any], new: dict[str, float]) -> str:
    """Return the kernels that got slower in one sentence, and what the comparison may hide."""
    old = stored.get("instructions", {})
    slower = [name for name in new if name in old and new[name] > (1.0 + SLOWER) * old[name]]
    missing = [name for name in old if name not in new]
    text = "; ".join(slower) or "nothing"
    text = f"Slower by over {100 * SLOWER:.0f} %: {text}."
    if missing:
        text += f" Stored but not counted: {'; '.join(missing)}."
    if stored and stored["python"] != platform.python_version():
        text += f" Stored with Python {stored['python']}, counted with {platform.python_version()}."
    return text


def put_into_docs() -> None:
    """Put the stored counts into the page."""
    from speed_text import instructions, put_into

    text = instructions(json.loads(STORED.read_text()))
    PAGE.write_text(put_into(PAGE.read_text(), "bench/count.py", text))


def main(arguments: list[str] | None = None) -> int:
    """Count, compare, and store if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--update", action="store_true", help=f"write {STORED.name}")
    parser.add_argument("--docs", action="store_true", help="only put stored counts into docs/")
    parser.add_argument("--out", type=Path, help="also save counts and verdict as JSON")
    given = parser.parse_args(arguments)
    if given.docs:
        put_into_docs()
        return 0
    if shutil.which("valgrind") is None or platform.machine() not in ("x86_64", "AMD64"):
        print(
            "count: skipped; it needs valgrind on an x86-64 machine (Debian, Ubuntu: apt install "
            "valgrind)."
        )
        return 0
    from workload import KERNELS

    stored: dict[str, Any] = json.loads(STORED.read_text()) if STORED.exists() else {}
    new = count(KERNELS)
    lines = compare(stored.get("instructions", {}), new)
    print("\n".join(lines))
    print(verdict(stored, new))
    body = {"isa": "avx2", "python": platform.python_version(), "instructions": new}
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        more = {"stored": stored.get("instructions", {}), "verdict": verdict(stored, new)}
        given.out.write_text(json.dumps(body | more, indent=1) + "\n")
    if given.update:
        STORED.write_text(json.dumps(body, indent=1) + "\n")
        print(f"stored in {STORED}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
