"""The same bits on the same instruction set, from one version to the next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from featherback._core import available_isas
from tests.golden.trajectories import SCENES, hashes_for

HASHES = Path(__file__).with_name("hashes.json")
ADVICE = "renew with `python tests/golden/renew.py` and add a changelog line"


def differences(isa: str, found: dict[str, Any], golden: dict[str, Any]) -> list[str]:
    """Return a sentence for each scene whose hash is not the golden one."""
    said = []
    for scene in SCENES:
        stored = golden["hashes"][isa].get(scene, {})
        if found[scene]["inputs"] != stored.get("inputs"):
            said.append(
                f"{scene} on {isa}: the model, its compiled parameters or the scene changed since "
                f"version {golden['featherback']} with MuJoCo {golden['mujoco']}; {ADVICE}."
            )
        elif found[scene]["states"] != stored["states"]:
            said.append(
                f"{scene} on {isa}: numerics changed since version {golden['featherback']}; "
                f"{ADVICE}."
            )
    return said


@pytest.mark.parametrize("isa", available_isas())
def test_trajectories_have_their_golden_hashes(isa: str) -> None:
    """Hash drops, a pile and a random tree on each instruction set that runs here."""
    golden = json.loads(HASHES.read_text())
    if isa not in golden["hashes"]:
        pytest.skip(
            f"hashes.json has no hashes of {isa}; run tests/golden/renew.py on this machine"
        )
    said = differences(isa, hashes_for(isa), golden)
    assert not said, "\n".join(said)


def test_says_plainly_what_changed() -> None:
    """Tell a change of our arithmetic from a change of what goes into it."""
    stored = {scene: {"inputs": "a", "states": "b"} for scene in SCENES}
    golden = {"featherback": "0.1.0", "mujoco": "4.0.0", "hashes": {"base": stored}}
    found = {scene: {"inputs": "a", "states": "b"} for scene in SCENES}
    assert differences("base", found, golden) == []
    found["pile, float64"] = {"inputs": "a", "states": "c"}
    found["pile, float32"] = {"inputs": "d", "states": "c"}
    assert differences("base", found, golden) == [
        "pile, float64 on base: numerics changed since version 0.1.0; renew with "
        "`python tests/golden/renew.py` and add a changelog line.",
        "pile, float32 on base: the model, its compiled parameters or the scene changed since "
        "version 0.1.0 with MuJoCo 4.0.0; renew with `python tests/golden/renew.py` and add a "
        "changelog line.",
    ]
