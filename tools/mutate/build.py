"""One copy of the package with every mutant behind a run-time switch, lightly optimised."""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from tools.mutate.sites import HEADER, Site, guard

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("core", "engine", "bindings", "tests/native", "third_party")
SUFFIXES = {".hpp", ".cpp", ".h"}
# the header that all others include
BOTTOM = "core/number/scalar.hpp"

# what each extension offers on top of its own
SWITCH = """
  m.def("mutant", [](int number, bool recording) {
    fb::mutant::chosen = number;
    fb::mutant::recording = recording;
  });
  m.def("mutants_seen", [] {
    std::vector<int> seen, idle;
    for (int k = 0; k < int(sizeof(fb::mutant::seen)); ++k) {
      if (fb::mutant::seen[k]) seen.push_back(k);
      if (fb::mutant::idle[k]) idle.push_back(k);
      fb::mutant::seen[k] = fb::mutant::idle[k] = 0;
    }
    return nanobind::make_tuple(seen, idle);
  });
"""


def write_sources(folder: Path, sites: list[Site]) -> None:
    """Write a copy of the sources to a folder, with all sites behind their switches."""
    for name in SOURCES:
        shutil.rmtree(folder / name, ignore_errors=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name)
    for name in ("CMakeLists.txt", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    by_file: dict[str, list[tuple[int, Site]]] = defaultdict(list)
    for number, site in enumerate(sites, 1):
        by_file[site.file].append((number, site))
    for name, numbered in by_file.items():
        (folder / name).write_text(guard((ROOT / name).read_text(), numbered))
    (folder / "core" / "mutant.hpp").write_text(HEADER)
    bottom = folder / BOTTOM
    head = '#pragma once\n#include "core/mutant.hpp"\n'
    bottom.write_text(bottom.read_text().replace("#pragma once\n", head, 1))
    for file in source_files(folder):
        before, module, after = file.read_text().partition("NB_MODULE(")
        if module:
            first, brace, rest = after.partition("{\n")
            text = '#include "core/mutant.hpp"\n' + before + module + first + brace + SWITCH + rest
            file.write_text(text)


def source_files(folder: Path) -> list[Path]:
    """Return the C++ files below a folder, in order."""
    found = [f for name in SOURCES for f in (folder / name).rglob("*") if f.suffix in SUFFIXES]
    return sorted(found)


def digest_of(files: list[Path]) -> str:
    """Return one digest of the contents of files."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def tool(name: str) -> str | None:
    """Return the path of a build tool: beside this Python, or on the path."""
    return shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)


def build(folder: Path, sites: list[Site], jobs: int) -> Path:
    """Build the mutated package, unless it is there already; return the folder to import from."""
    package = folder / "package"
    kept = folder / "sources.sha256"
    write_sources(folder, sites)
    digest = digest_of([folder / "CMakeLists.txt", *source_files(folder)])
    shutil.copytree(
        ROOT / "src",
        package,
        dirs_exist_ok=True,
        ignore=lambda _, names: [n for n in names if n.endswith(".so") or n == "__pycache__"],
    )
    if kept.exists() and kept.read_text() == digest:
        return package
    cmake = tool("cmake")
    if cmake is None:
        raise SystemExit("mutate: there is no cmake here; install it, or run make mutate.")
    ninja = tool("ninja")
    configure = [cmake, "-S", folder, "-B", folder / "cmake", "-DFEATHERBACK_ORACLE=ON"]
    configure += ["-DFEATHERBACK_LIGHT=ON", f"-DPython_EXECUTABLE={sys.executable}"]
    # several lanes, whose worlds engine/ keeps apart; the first of x86 has one
    configure += ["-DFEATHERBACK_ISAS=avx2"] if platform.machine() in ("x86_64", "AMD64") else []
    configure += ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"] if ninja else []
    for command in (configure, [cmake, "--build", folder / "cmake", "--parallel", str(jobs)]):
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode:
            told = (run.stdout + run.stderr).splitlines()
            print("\n".join([line for line in told if "error" in line][:40] or told[-40:]))
            raise SystemExit("mutate: the mutated copy does not build; see the lines above.")
    for extension in (package / "featherback").glob("_*.so"):
        extension.unlink()
    for extension in (folder / "cmake").glob("_*.so"):
        shutil.copy(extension, package / "featherback" / extension.name)
    kept.write_text(digest)
    return package
