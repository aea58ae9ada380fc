"""Tests of tools/placements: what it finds, and where it goes on."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.core.placing import Batch, batch_of, closest_points
from tests.core.test_collision import Array
from tools.placements import __main__ as placements
from tools.placements import convex, fields

SEED = 20240607


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator whose seed is printed."""
    print(f"seed {SEED}")
    return np.random.default_rng(SEED)


@pytest.mark.parametrize("kind", ["sphere-box", "capsule-cylinder", "box-mesh"])
def test_values_of_a_pair_are_well(kind: str) -> None:
    """Find nothing wrong, and say something of MuJoCo's distance on every placement."""
    row = placements.values(kind, 64, SEED)
    assert placements.is_well(row)
    assert row["count"] == 64 == row["agrees"] + row["tied"] + row["refuted"]


@pytest.mark.parametrize("off", [1e-7, -1e-7])
def test_a_wrong_gap_is_found(
    off: float, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Count gaps that are a little too large or too small, apart and in overlap."""
    batch = batch_of("sphere-box", 64, rng)

    def wrong(batch: Batch) -> Array:
        out = closest_points(batch)
        out[:, 0] += off
        return out

    monkeypatch.setattr(convex, "closest_points", wrong)
    found = convex.value_errors(batch, rng)
    assert np.all(np.maximum(found.below, found.above) > found.bound)


def test_a_larger_distance_of_mujoco_needs_a_direction(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refute a distance that its own direction does not prove; call the gap wrong if it does."""
    batch = batch_of("sphere-sphere", 64, rng)
    found = closest_points(batch)
    found[:, 0] -= 1e-3
    verdict = convex.judged(batch, found, found[:, 0])[1]
    assert np.all(verdict == convex.WRONG)
    found[:, 0] += 1e-3
    measured = convex.Reference.measured
    monkeypatch.setattr(
        convex.Reference, "measured", lambda *x: (measured(*x)[0] + 1e-3, measured(*x)[1])
    )
    verdict = convex.judged(batch, found, found[:, 0])[1]
    assert np.all(verdict == convex.REFUTED)


@pytest.mark.parametrize("kind", ["hfield-sphere", "hfield-box"])
def test_values_over_fields_are_well(kind: str) -> None:
    """Find nothing wrong over fields."""
    assert placements.is_well(placements.field_values(kind, 64, SEED))


def test_a_wrong_gap_over_a_field_is_found(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Count gaps that are a little off wherever there is a distance to compare with."""
    batch = fields.field_batch("hfield-sphere", 64, rng)
    found = fields.lowest_slots(batch, fields.FAR)
    found[:, 0] += 1e-5

    def wrong(_: Array) -> Array:
        return found

    monkeypatch.setattr(fields, "lowest_slot", wrong)
    errors = fields.field_errors(batch)
    assert errors.compared.sum() > 20
    assert np.all(errors.below[errors.compared] > 5e-6)


@pytest.mark.parametrize("kind", ["sphere-box", "hfield-sphere"])
def test_a_point_off_the_shapes_is_found(kind: str, rng: np.random.Generator) -> None:
    """See a point that is moved off along the normal, apart and in overlap."""
    if kind == "sphere-box":
        batch = batch_of(kind, 64, rng)
        touch = convex.pairs(kind, batch.a, batch.b).collide()
        off = partial(convex.outside, batch)
    else:
        over = fields.field_batch(kind, 64, rng)
        touch = over.pairs(over.a, over.b).collide(far=fields.FAR)
        off = partial(fields.outside, over)
    before = convex.off_points(touch, off)
    touch[..., 4:7] += 1e-4 * touch[..., 1:4]
    on = touch[..., 7].max(axis=1) > 0
    assert np.mean(convex.off_points(touch, off)[on] > before[on] + 5e-5) > 0.9


def test_finished_pairs_are_kept(tmp_path: Path) -> None:
    """Write a row when it is finished, and do not make it again."""
    path, made = tmp_path / "rows.jsonl", []

    def make() -> placements.Row:
        made.append(1)
        return {"bad": 0}

    for _ in range(2):
        row = placements.Store(path).row(("values", "box-box", 10, 1), make)
        assert row["bad"] == 0
    assert len(made) == 1
    assert len(path.read_text().splitlines()) == 1
    assert json.loads(path.read_text())[0] == ["values", "box-box", 10, 1]
