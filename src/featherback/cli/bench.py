"""`featherback bench`: run the measurements of a source checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import featherback
from featherback.errors import FeatherbackError


def checkout(folders: list[Path] | None = None) -> Path:
    """Return the source checkout that holds the measurements, which are not part of the package."""
    package = Path(featherback.__file__).resolve()
    for folder in folders or [package.parents[2], Path.cwd()]:
        project = folder / "pyproject.toml"
        if not (folder / "bench" / "full.py").is_file() or not project.is_file():
            continue
        if '\nname = "featherback"\n' in project.read_text(encoding="utf-8"):
            return folder
    raise FeatherbackError(
        "bench: the measurements are not part of the installed package, and neither its folder nor "
        "the current one is a source checkout of featherback; run this command inside a checkout."
    )


def run_bench(*, quick: bool, only: list[str], out: Path, docs: bool) -> None:
    """Run the measurements, or the parts `only` names, and leave with their exit code."""
    if quick and docs:
        raise FeatherbackError(
            "bench: --quick and --docs are both given; figures for docs/ need a full run, so pass "
            "one of them."
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FeatherbackError(
            f"bench: {out} cannot be made ({error.strerror}); name another folder with --out."
        ) from None
    command = [sys.executable, str(checkout() / "bench" / "full.py"), "--out", str(out)]
    command += [word for name in only for word in ("--only", name)]
    command += ["--quick"] if quick else []
    command += ["--docs"] if docs else []
    try:
        code = subprocess.run(command).returncode
    except KeyboardInterrupt:
        print(f"featherback: bench: interrupted; {out} has what was done.", file=sys.stderr)
        code = 130
    raise SystemExit(code)
