"""Renew the hashes of the golden trajectories for every instruction set that runs here.

    python tests/golden/renew.py

Do this when a change of the numerics is meant, and add a line under Numerics to CHANGELOG.md.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import mujoco

import featherback as fb
from featherback._core import available_isas
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


def main() -> int:
    """Write the file and say what changed."""
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
    sys.exit(main())
