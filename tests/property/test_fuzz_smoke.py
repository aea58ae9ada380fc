"""A short run of the model fuzzer, in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

import featherback as fb
from tools.fuzz import models, mutants, seeds

SEED = 7
COUNT = 150


def test_mutants_give_a_model_or_a_model_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Load mutated files and expect success or ModelError from each."""
    monkeypatch.chdir(tmp_path)
    files = seeds.all_seeds()
    print(f"seed {SEED}")
    outcomes = [
        models.examine(mutants.mutate(files, SEED, index), tmp_path, lambda stage: None)
        for index in range(COUNT)
    ]
    findings = [outcome for outcome in outcomes if models.is_finding(outcome)]
    assert not findings, "\n".join(f"{o.index}: {o.kind}: {o.detail}" for o in findings)
    assert sum(outcome.kind.startswith("loaded") for outcome in outcomes) > COUNT // 20
    assert sum(outcome.kind == "refused" for outcome in outcomes) > COUNT // 3


@pytest.mark.parametrize("seed", seeds.inline_seeds(), ids=lambda seed: seed.name)
def test_seeds_load(seed: seeds.Seed, tmp_path: Path) -> None:
    """Load every seed as it is, so that mutation starts from inside the grammar."""
    for name, data in seed.files.items():
        (tmp_path / name).write_bytes(data)
    path = tmp_path / f"model.{seed.format}"
    path.write_text(seed.text)
    assert fb.load(path, on_unsupported="drop").nv > 0


def test_mutation_repeats() -> None:
    """Give the same bytes for the same seed and index, and others for another index."""
    files = seeds.inline_seeds()
    first = [mutants.mutate(files, SEED, index) for index in range(50)]
    again = [mutants.mutate(files, SEED, index) for index in range(50)]
    assert first == again
    assert len({mutant.data for mutant in first}) > 40
