"""Renew the golden files.

    python tests/golden/renew.py                hashes of trajectories, every instruction set here
    python tests/golden/renew.py --sentences    sentences of errors and notices

Renew the hashes when a change of the numerics is meant, and add a line under Numerics to
CHANGELOG.md. Read the changed sentences before they are committed.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import mujoco

import featherback as fb
from featherback._core import available_isas
from tests.golden import sentences
from tests.golden.trajectories import hashes_for

HASHES = Path(__file__).with_name("hashes.json")


def merged(old: dict[str, Any], found: dict[str, dict[str, dict[str, str]]]) -> dict[str, Any]:
    """Return the content of the file: what was found, and the sets that did not run here.

    A set that did not run keeps its hashes only if those of all others stayed as they were.
    """
    before = old.get("hashes", {})
    same = all(before.get(isa) == hashes for isa, hashes in found.items())
    kept = {isa: hashes for isa, hashes in before.items() if isa not in found and same}
    return {
        "featherback": fb.__version__,
        "mujoco": mujoco.__version__,
        "hashes": dict(sorted({**kept, **found}.items())),
    }


def renew_sentences() -> int:
    """Write the sentences, keep those of folders that cannot run here, and print what changed."""
    stored = sentences.FILE.read_text(encoding="utf-8") if sentences.FILE.exists() else ""
    old = sentences.read(stored)
    known = {folder: old[folder] for folder in sentences.folders() if folder in old}
    new = {**known, **sentences.collect()}
    sentences.FILE.write_text(sentences.write(new), encoding="utf-8")
    for folder, named in new.items():
        before = old.get(folder, {})
        changed = [name for name, text in named.items() if before.get(name) != text]
        gone = [name for name in before if name not in named]
        print(f"{folder}: {len(named)} sentences, {len(changed)} new or changed, {len(gone)} gone")
        for name in changed:
            print(f"  {name}: {named[name]}")
    return 0


def renew_hashes() -> int:
    """Write the hashes and print what changed."""
    old = json.loads(HASHES.read_text()) if HASHES.exists() else {}
    found = {isa: hashes_for(isa) for isa in available_isas()}
    new = merged(old, found)
    HASHES.write_text(json.dumps(new, indent=2) + "\n")
    before = old.get("hashes", {})
    for isa, hashes in found.items():
        for scene, values in hashes.items():
            changed = before.get(isa, {}).get(scene) != values
            print(f"{isa:7} {scene:24} {'changed' if changed else 'as before'}")
    for isa in sorted(set(before) - set(new["hashes"])):
        print(f"{isa:7} does not run here; its hashes are removed, so renew them where it runs.")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Renew the golden files.")
    parser.add_argument("--sentences", action="store_true", help="the sentences, not the hashes")
    sys.exit(renew_sentences() if parser.parse_args().sentences else renew_hashes())
