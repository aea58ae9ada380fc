"""`featherback doctor`: what is installed, and what this machine offers."""

from __future__ import annotations

import os
import platform
from importlib import metadata

from rich.console import Console
from rich.table import Table

from featherback import __version__, isa

REQUIRED = ("numpy", "mujoco", "tyro", "rich")
OPTIONAL = ("torch", "jax", "scipy", "cma", "matplotlib", "pillow", "gymnasium")


def package_version(name: str) -> str | None:
    """Return the installed version of a package, or None; nothing is imported."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def usable_cores() -> int:
    """Return the number of cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def doctor_rows() -> list[tuple[str, str]]:
    """Return what `featherback doctor` prints, as (what, value)."""
    forced = os.environ.get("FEATHERBACK_ISA")
    rows = [
        ("featherback", __version__),
        ("instruction set", isa() + (" (FEATHERBACK_ISA)" if forced else "")),
        ("cores", f"{usable_cores()} usable of {os.cpu_count() or 1}"),
        ("machine", f"{platform.machine()}, {platform.system()} {platform.release()}"),
        ("python", f"{platform.python_implementation()} {platform.python_version()}"),
    ]
    rows += [(name, package_version(name) or "missing") for name in REQUIRED]
    rows += [(f"{name} (optional)", package_version(name) or "not installed") for name in OPTIONAL]
    return rows


def run_doctor() -> None:
    """Print the rows of :func:`doctor_rows`."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for what, value in doctor_rows():
        table.add_row(what, value)
    Console().print(table)
